"""The published numbers, as data: they are printed next to ours.

Percent, on the seven shapes in the paper's order; the number after ``±`` is the standard deviation over five seeds.

Which average? The paper's text describes macro (every query counts the same). But both Oracle rows are micro, as reproducing
them shows, and the authors' evaluation builds its aggregator with the default, micro, and has no option for it. So the numbers of
models are compared by micro, with macro beside it, and those of the Oracle by micro only. The paper prints two versions of the
Oracle: its main table takes the MRR from frequencies of the test queries alone, everything else is from all splits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from starqe.measure.rows import ALL, AVERAGE, AnyRow, Row

WD50K = "e0e714127a90a481817da55013ed24d19193f65891df60c7c40b7c558e038804"
"""The fingerprint of the graph that the numbers are about."""
PATTERNS = ("1p", "2p", "3p", "2i", "3i", "2i-1p", "1p-2i")
"""The shapes, in the order of the numbers of a line."""
COMPARED = "micro"
"""The average that the published numbers were computed with."""
NQE = 75.84
"""The best published mean MRR over the seven shapes (NQE, AAAI 2023). Its evaluation ranks every answer of the test file, filters
the answers of all splits, and averages over (query, answer) pairs: the protocol ``paper``, micro."""
_ORACLE = "Oracle"


@dataclass(frozen=True)
class Figure:
    """One published number, and its standard deviation over seeds if it is published."""

    value: float
    deviation: float | None


def published(table: str, row: str, shape: str, metric: str) -> Figure | None:
    """Returns a number of the paper, or None if it has none. The shape may be ``average``: the mean over the shapes."""
    line = PAPER[table].get(metric, {}).get(row)
    if line is None or shape not in (*PATTERNS, AVERAGE):
        return None
    figures = [_figure(text) for text in line.split()]
    if shape == AVERAGE:
        return Figure(sum(figure.value for figure in figures) / len(figures), None)
    return figures[PATTERNS.index(shape)]


def beside_paper(rows: Sequence[AnyRow], table: str, fingerprint: str) -> list[AnyRow]:
    """Returns the rows with the paper's number in ``paper`` where the two are comparable.

    That is: on the graph WD50K, by the protocol ``paper``, over the published shapes, and by micro, or for models also by macro, which
    the paper's text describes. The mean over the shapes is compared only if it is over all of the paper's.
    """
    if fingerprint != WD50K:
        return [replace(row, paper=None) for row in rows]
    whole = set(PATTERNS) == {row.shape for row in rows} - {AVERAGE, ALL}
    return [replace(row, paper=_comparable(row, table) if whole or row.shape != AVERAGE else None) for row in rows]


def _comparable(row: Row, table: str) -> float | None:
    if row.reduction or row.protocol != "paper" or (row.name.startswith(_ORACLE) and row.average != COMPARED):
        return None
    figure = published(table, row.name, row.shape, row.metric)
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

COUNTS: Mapping[str, str] = {
    "train": "24819 313088 5950990 48513 318735 306022 1088539",
    "valid": "4100 100706 2968315 15648 169195 169438 569957",
    "test": "7716 202045 6433476 38207 547272 445007 1267452",
}
"""The number of queries of each split."""

HUBS: Mapping[str, float] = {
    "hubs": 623,
    "largest_in_degree": 4_424,
    "3i_queries_with_hubs": 38_011_148_464,
    "3i_queries_at_the_largest": 14_421_138_424,
    "share_of_the_largest": 38,
    "share_of_hubs": 99.9,
    "hits_at_10_of_constant_answer": 93,
    "hits_at_10_of_constant_answer_without_hubs": 3,
}
"""The numbers of the appendix on hubs, by the names of `starqe.queries.hub_stats`."""

ANSWERS_2P: Mapping[str, float] = {"max": 1_351, "upper_quartile": 3}
"""The numbers of a footnote about the answers of a 2p query, which does not name the split."""

IMPACT: Mapping[str, Mapping[str, str]] = {
    "AMRI": {
        "1p": "P518 -5.24±2.09, P453 -2.75±0.78, P1264 -0.02±0.42, P805 +2.42±2.58, P17 +2.53±3.02, P1346 +4.08±3.30",
        "2p": "P453 -64.91±40.79, P2241 -10.62±50.67, P102 -7.14±23.57, P805 +11.56±2.26, P531 +13.35±32.37, P1686 +24.04±6.48",
        "3p": "P102 -4.53±15.78, P453 -4.23±2.75, P2241 -2.65±12.77, P2937 +14.16±21.84, P92 +16.77±14.57, P805 +17.95±2.53",
        "2i": "P2715 -1.93±5.53, P453 -0.85±3.90, P4100 -0.67±2.06, P156 +3.42±2.93, P17 +4.08±5.46, P805 +34.56±5.43",
        "3i": "P453 -2.18±4.01, P2241 -1.37±5.09, P4100 -0.77±1.09, P1013 +6.28±4.06, P805 +14.13±2.31, P2842 +42.44±36.23",
        "2i-1p": "P2241 -5.29±4.07, P459 -1.81±7.30, P366 -0.01±0.02, P131 +3.89±4.81, P805 +10.37±5.57, P1686 +24.58±6.44",
        "1p-2i": "P2241 -3.56±8.66, P17 -3.30±4.91, P453 -2.66±5.26, P1013 +24.53±21.48, P654 +31.24±46.20, P805 +77.99±10.23",
    },
    "Hits@10": {
        "1p": "P1264 +3.64±1.50, P453 +6.00±2.70, P518 +6.84±4.47, P1686 +13.70±1.19, P1346 +24.04±3.87, P2453 +33.03±4.26",
        "2p": "P459 -5.74±2.76, P453 -5.15±12.26, P1011 -4.55±24.48, P122 +45.00±0.00, P1686 +47.00±0.38, P837 +47.49±5.83",
        "3p": "P155 -0.44±0.99, P1552 -0.16±0.32, P937 +0.00±0.00, P812 +50.64±11.27, P122 +62.28±0.00, P3823 +72.85±42.07",
        "2i": "P291 -0.08±0.18, P3680 +0.00±0.00, P2614 +0.00±0.00, P518 +23.39±4.00, P1686 +29.49±2.32, P805 +34.64±2.82",
        "3i": "P2241 -3.44±4.47, P4100 -0.33±1.73, P1534 -0.33±1.13, P805 +16.72±2.81, P3831 +17.49±2.35, P518 +21.94±1.42",
        "2i-1p": "P1346 -0.53±0.11, P2453 -0.05±0.11, P3680 +0.00±0.00, P39 +51.71±36.91, P1686 +56.63±0.73, P837 +62.98±27.55",
        "1p-2i": "P459 -6.63±14.51, P407 -6.34±14.91, P2241 -3.13±3.40, P102 +49.04±12.18, P1686 +61.66±2.20, P805 +63.10±0.38",
    },
    "MRR": {
        "1p": "P518 +2.88±0.86, P453 +3.78±0.98, P17 +4.12±1.23, P1264 +11.17±2.30, P1346 +27.78±4.01, P2453 +45.82±3.48",
        "2p": "P453 -2.05±5.57, P3680 -0.33±0.55, P1552 -0.01±0.59, P407 +58.38±7.57, P1310 +64.49±7.77, P837 +78.12±1.50",
        "3p": "P3680 -0.36±0.57, P175 -0.30±0.46, P1441 -0.02±0.04, P1310 +65.54±7.14, P3823 +76.07±10.71, P837 +76.71±1.65",
        "2i": "P3680 -0.07±1.16, P291 -0.06±0.09, P459 +0.09±1.11, P1686 +29.23±1.98, P1264 +34.53±16.62, P805 +35.19±1.50",
        "3i": "P2241 -8.03±5.50, P3680 -0.01±0.27, P291 -0.00±0.00, P642 +22.43±15.70, P518 +28.26±2.68, P1264 +32.88±25.04",
        "2i-1p": "P3680 -0.32±0.31, P2453 +0.03±0.43, P1441 +0.40±1.20, P1686 +53.11±0.58, P39 +55.05±23.43, P837 +82.67±2.60",
        "1p-2i": "P2241 -8.57±7.45, P1039 -3.33±6.94, P92 -0.70±2.65, P1686 +57.30±1.64, P805 +57.36±0.98, P837 +75.11±3.91",
    },
}
"""The qualifier relations with the least and the greatest impact: metric -> shape -> relation and points, ascending."""


def published_count(split: str, shape: str) -> int | None:
    """Returns the paper's number of queries of a split and a shape, or None."""
    return int(COUNTS[split].split()[PATTERNS.index(shape)]) if split in COUNTS and shape in PATTERNS else None


def published_impacts(shape: str, metric: str) -> dict[str, Figure]:
    """Returns the published impacts of a shape: relation -> points, ascending; empty where the paper has none."""
    line = IMPACT.get(metric, {}).get(shape, "")
    return {relation: _figure(points) for relation, points in (part.split() for part in line.split(",") if part)}
