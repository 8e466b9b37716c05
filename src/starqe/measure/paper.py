"""The published numbers, as data: what every table of ours is printed beside.

Percent, on the seven shapes in the paper's order; a standard deviation over five seeds stands behind ``±``.
The text of the paper says that every query counts the same (macro); the oracle's numbers are micro, as reproducing them
shows. So the numbers of models stand beside both averages, and those of the oracle beside micro. The paper prints two
versions of the oracle: its main table takes the MRR from frequencies of the test queries alone, everything else is from
all splits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starqe.measure.rows import ALL, AVERAGE, Row

WD50K = "e0e714127a90a481817da55013ed24d19193f65891df60c7c40b7c558e038804"
"""The fingerprint of the graph that the numbers are about."""
PATTERNS = ("1p", "2p", "3p", "2i", "3i", "2i-1p", "1p-2i")
"""The shapes, in the order of the numbers of a line."""
_ORACLE = "Oracle"


@dataclass(frozen=True)
class Figure:
    """One published number, and its standard deviation over seeds where there is one."""

    value: float
    deviation: float | None


def published(table: str, row: str, shape: str, metric: str) -> Figure | None:
    """Gives a number of the paper, or None where it has none. The shape may be ``average``: the mean over the shapes."""
    line = PAPER[table].get(metric, {}).get(row)
    if line is None or shape not in (*PATTERNS, AVERAGE):
        return None
    figures = [_figure(text) for text in line.split()]
    if shape == AVERAGE:
        return Figure(sum(figure.value for figure in figures) / len(figures), None)
    return figures[PATTERNS.index(shape)]


def beside_paper(rows: Sequence[Row], table: str, fingerprint: str) -> list[Row]:
    """Gives the rows with the paper's number in ``paper`` wherever the two can be compared.

    That is: on the graph WD50K, by the protocol ``paper``, over the published shapes, and by an average that the paper may
    have used. The mean over the shapes is compared only if it is over all of the paper's.
    """
    if fingerprint != WD50K:
        return [{**row, "paper": None} for row in rows]
    whole = set(PATTERNS) == {row["shape"] for row in rows} - {AVERAGE, ALL}
    return [{**row, "paper": _comparable(row, table) if whole or row["shape"] != AVERAGE else None} for row in rows]


def _comparable(row: Row, table: str) -> float | None:
    if row["protocol"] != "paper" or (row["row"].startswith(_ORACLE) and row["average"] != "micro"):
        return None
    figure = published(table, row["row"], row["shape"], row["metric"])
    return None if figure is None else figure.value


def _figure(text: str) -> Figure:
    value, _, deviation = text.partition("±")
    return Figure(float(value), float(deviation) if deviation else None)


PAPER: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "results": {
        "Hits@1": {
            "StarQE": "20.91±1.11 39.98±0.27 45.85±0.81 55.11±1.26 78.58±1.44 51.77±0.73 65.77±1.87",
            "Triple-Only": "11.62±0.68 2.97±0.21 7.57±1.59 36.87±2.22 64.72±6.97 3.33±0.33 13.00±1.07",
            "Reification": "24.26±0.88 38.82±0.41 42.80±0.50 49.67±1.86 78.93±3.20 42.39±0.68 55.05±1.11",
            "Zero Layers": "18.30±0.31 12.92±0.25 11.53±0.13 40.35±0.82 74.27±0.32 18.17±0.25 19.51±0.22",
            "Oracle (all splits)": "37.87 7.19 13.86 75.67 94.07 7.02 32.61",
        },
        "Hits@3": {
            "StarQE": "35.58±0.82 46.41±0.32 57.34±0.58 67.98±0.93 87.56±0.74 56.89±0.47 75.35±1.02",
            "Triple-Only": "25.54±0.28 6.38±0.32 15.44±1.56 53.45±2.60 81.55±4.70 7.40±0.67 23.56±1.49",
            "Reification": "40.12±1.37 45.58±0.74 55.45±0.88 68.31±0.77 89.84±1.90 51.33±0.37 70.26±0.83",
            "Zero Layers": "31.98±0.23 21.34±0.34 25.24±0.27 55.83±0.42 85.43±0.37 25.75±0.26 35.67±0.28",
            "Oracle (all splits)": "61.65 13.06 24.74 88.42 98.36 15.20 53.94",
        },
        "Hits@10": {
            "StarQE": "51.72±0.66 51.20±0.44 65.50±0.39 77.78±0.53 92.64±0.65 61.81±0.37 81.60±0.60",
            "Triple-Only": "45.04±1.18 12.76±0.92 24.66±2.15 69.74±1.43 91.74±1.83 16.77±1.44 40.67±1.31",
            "Reification": "55.17±1.00 50.86±0.39 63.65±0.60 81.25±0.45 95.31±0.78 61.05±0.92 80.49±0.81",
            "Zero Layers": "44.93±0.35 29.94±0.35 38.45±0.18 67.79±0.42 90.66±0.20 35.48±0.31 47.85±0.43",
            "Oracle (all splits)": "81.03 24.11 38.47 95.54 99.67 32.74 76.96",
        },
        "MRR": {
            "StarQE": "30.98±0.91 44.13±0.28 52.96±0.61 63.14±0.97 83.78±1.00 55.20±0.52 71.52±1.37",
            "Triple-Only": "22.25±0.25 6.73±0.28 14.05±1.72 48.01±2.13 74.52±5.35 8.16±0.62 22.23±1.21",
            "Reification": "34.78±1.07 43.42±0.48 50.77±0.54 61.01±1.17 85.17±2.33 49.09±0.63 64.21±0.86",
            "Zero Layers": "27.55±0.19 19.10±0.27 21.25±0.14 50.27±0.57 80.62±0.28 24.49±0.22 30.04±0.21",
            "Oracle (all splits)": "52.64 13.44 22.65 83.00 96.34 15.84 47.00",
            "Oracle (test)": "79.16 18.40 23.72 90.43 97.91 21.10 54.74",
        },
        "AMRI": {
            "StarQE": "78.44±1.78 68.11±2.52 74.62±2.94 93.63±0.81 98.65±0.33 73.14±2.39 88.76±0.61",
            "Triple-Only": "88.14±0.21 81.25±0.46 95.92±0.11 99.18±0.12 99.95±0.01 83.44±0.95 98.91±0.11",
            "Reification": "88.81±0.47 86.63±1.41 96.20±0.28 99.24±0.10 99.96±0.01 85.46±0.82 99.10±0.12",
            "Zero Layers": "88.03±0.22 90.56±0.47 95.79±0.20 96.34±0.30 98.37±0.13 86.18±0.60 98.55±0.10",
            "Oracle (all splits)": "99.97 99.77 99.83 99.99 100.00 99.88 99.97",
        },
    },
    "generalisation": {
        "Hits@1": {
            "StarQE-like": "20.91±1.11 39.98±0.27 45.85±0.81 55.11±1.26 78.58±1.44 51.77±0.73 65.77±1.87",
            "Q2B-like": "21.63±0.70 37.15±0.65 43.82±0.98 52.49±1.45 77.36±1.46 37.59±2.88 59.74±3.29",
            "EmQL-like": "23.06±1.12 6.78±2.24 19.86±4.99 53.36±3.46 81.73±3.63 2.17±0.87 48.54±5.09",
            "MPQE-like": "16.53±0.48 3.81±0.38 12.70±1.59 41.01±1.49 60.67±2.23 6.84±0.58 28.76±1.40",
            "MPQE-like + Reification": "25.52±0.36 3.24±0.62 10.52±2.09 41.36±0.59 63.93±1.36 5.59±0.72 18.75±1.55",
        },
        "Hits@3": {
            "StarQE-like": "35.58±0.82 46.41±0.32 57.34±0.58 67.98±0.93 87.56±0.74 56.89±0.47 75.35±1.02",
            "Q2B-like": "38.79±0.92 43.75±0.98 55.41±1.21 67.02±1.24 87.97±1.23 46.99±3.04 71.20±2.45",
            "EmQL-like": "36.14±1.11 10.73±3.23 30.47±6.37 66.56±3.18 89.91±2.87 3.80±1.05 55.96±5.31",
            "MPQE-like": "30.82±0.75 7.15±0.65 21.48±2.58 66.87±1.21 86.17±1.45 10.08±1.08 44.88±1.30",
            "MPQE-like + Reification": "41.26±0.65 6.34±0.82 18.25±2.69 68.14±0.97 90.07±0.58 8.56±0.59 32.31±2.60",
        },
        "Hits@10": {
            "StarQE-like": "51.72±0.66 51.20±0.44 65.50±0.39 77.78±0.53 92.64±0.65 61.81±0.37 81.60±0.60",
            "Q2B-like": "55.44±1.35 51.10±1.40 66.39±1.72 78.79±1.04 94.20±0.86 57.49±2.26 80.49±1.92",
            "EmQL-like": "50.10±1.34 16.45±3.56 44.36±4.96 75.86±2.45 93.55±1.93 6.79±1.13 62.80±5.26",
            "MPQE-like": "48.48±0.59 12.57±0.96 34.19±3.78 83.04±1.01 96.32±0.77 14.75±1.42 61.02±0.70",
            "MPQE-like + Reification": "58.43±0.29 12.02±1.12 31.14±2.70 83.77±0.47 97.22±0.14 13.50±0.81 50.92±3.44",
        },
        "MRR": {
            "StarQE-like": "30.98±0.91 44.13±0.28 52.96±0.61 63.14±0.97 83.78±1.00 55.20±0.52 71.52±1.37",
            "Q2B-like": "33.04±0.84 41.99±0.88 51.71±1.18 61.72±1.18 83.49±1.24 44.24±2.73 67.04±2.70",
            "EmQL-like": "32.01±1.00 10.09±2.70 27.94±5.11 61.45±3.13 86.28±3.11 3.73±0.94 53.58±5.03",
            "MPQE-like": "26.83±0.53 6.79±0.56 19.72±2.23 56.16±1.30 74.35±1.70 9.62±0.85 39.81±1.20",
            "MPQE-like + Reification": "36.36±0.38 6.12±0.74 17.11±2.27 56.81±0.69 77.29±0.86 8.32±0.52 29.25±2.05",
        },
        "AMRI": {
            "StarQE-like": "78.44±1.78 68.11±2.52 74.62±2.94 93.63±0.81 98.65±0.33 73.14±2.39 88.76±0.61",
            "Q2B-like": "88.69±0.45 87.17±1.48 95.60±0.58 99.01±0.20 99.93±0.03 83.24±1.08 98.49±0.40",
            "EmQL-like": "73.20±11.74 51.74±13.25 74.93±10.70 90.68±5.62 97.79±1.60 37.80±22.89 82.59±8.45",
            "MPQE-like": "93.77±0.09 83.25±2.61 92.00±3.04 99.49±0.05 99.96±0.01 85.61±2.86 99.04±0.16",
            "MPQE-like + Reification": "95.68±0.09 82.93±1.83 92.08±1.43 99.57±0.02 99.97±0.00 86.54±1.56 99.25±0.06",
        },
    },
    "faithfulness": {
        "Hits@1": {
            "StarQE-like": "74.27±5.30 94.58±1.81 89.93±2.29 94.29±1.67 99.34±0.24 96.02±1.45 99.05±0.46",
            "MPQE-like": "90.43±2.10 8.00±0.85 19.99±2.05 87.88±1.53 92.44±1.56 13.68±0.97 65.51±2.60",
        },
        "Hits@3": {
            "StarQE-like": "84.06±4.64 98.12±0.49 96.56±0.89 97.48±1.15 99.81±0.11 98.78±0.51 99.84±0.09",
            "MPQE-like": "96.18±1.10 14.19±1.18 32.12±2.59 97.17±0.62 99.46±0.16 18.64±1.43 85.42±1.24",
        },
        "Hits@10": {
            "StarQE-like": "90.94±4.18 99.39±0.16 98.98±0.38 99.18±0.67 99.96±0.04 99.64±0.20 99.97±0.03",
            "MPQE-like": "98.75±0.41 22.62±1.56 47.09±3.14 99.46±0.18 99.94±0.02 23.98±1.70 94.90±0.35",
        },
        "MRR": {
            "StarQE-like": "80.23±4.85 96.51±1.09 93.50±1.51 96.09±1.32 99.59±0.17 97.47±0.95 99.45±0.27",
            "MPQE-like": "93.58±1.52 12.88±1.06 28.88±2.36 92.70±0.94 95.93±0.81 17.36±1.23 76.54±1.74",
        },
        "AMRI": {
            "StarQE-like": "99.97±0.03 99.99±0.00 99.99±0.00 100.00±0.00 100.00±0.00 100.00±0.00 100.00±0.00",
            "MPQE-like": "100.00±0.00 91.77±2.29 94.64±2.59 100.00±0.00 100.00±0.00 93.97±2.09 99.99±0.00",
        },
    },
}
"""The tables: name -> metric -> row -> the numbers.

``results`` and ``generalisation`` are of test queries, ``faithfulness`` is of training queries.
"""
