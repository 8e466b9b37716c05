"""The paper's query statistics: numbers of queries and answers, and the effect of hubs."""

from typing import Any

from starqe.experiments.findings import Verdict
from starqe.experiments.plots import counted
from starqe.experiments.table_report import Report, provenance
from starqe.experiments.work_folder import WorkFolder
from starqe.measure.paper import ANSWERS_2P, HUBS, WD50K, published_count
from starqe.measure.result_tables import Grid
from starqe.measure.rows import Row
from starqe.queries import query_set_stats

SIZES = ("min", "lower_quartile", "median", "upper_quartile", "max", "mean")


def statistics_report(work: WorkFolder) -> Report:
    """Counts the queries and their answers, and computes the figures on hubs."""
    work.tell("counting queries and answers")
    found = query_set_stats(work.queries, work.graph)
    compared = work.graph.fingerprint == WD50K
    rows = _rows(found, compared)
    tables = _grids(rows)
    notes = ["Quartiles may lie between two values. Hubs are left out of joins only."]
    return Report(
        "statistics",
        "The query set in numbers",
        rows,
        tables,
        tables[:2],
        counted(rows),
        _verdicts(rows) if compared else (),
        [*notes, *(_footnote(found) if compared else ())],
        provenance(work, sample="all queries of all splits"),
    )


def _rows(found: dict[str, Any], compared: bool) -> list[Row]:
    def row(name: str, shape: str, metric: str, n: int, ours: float, paper: float | None) -> Row:
        paper = paper if compared else None
        return Row(name=name, shape=shape, metric=metric, average="", protocol="", n=n, seed=None, ours=ours, paper=paper)

    rows = []
    for split, shapes in found["counts"].items():
        for shape, count in shapes.items():
            rows.append(row(split, shape, "queries", count, count, published_count(split, shape)))
            sizes = found["answers"][split].get(shape, {})
            rows += [row(split, shape, f"answers, {name.replace('_', ' ')}", count, sizes[name], None) for name in SIZES if name in sizes]
    hubs = {name: value for name, value in found["hubs"].items() if name != "threshold"}
    return rows + [row("hubs", "all", name.replace("_", " "), 1, value, HUBS.get(name)) for name, value in hubs.items()]


def _grids(rows: list[Row]) -> list[Grid]:
    counts = [row for row in rows if row.metric == "queries"]
    shapes = tuple(dict.fromkeys(row.shape for row in counts))
    by_split = []
    for split in dict.fromkeys(row.name for row in counts):
        of_split = {row.shape: row for row in counts if row.name == split}
        by_split.append((split, tuple(_number(of_split[shape].ours if shape in of_split else None) for shape in shapes)))
        if any(row.paper is not None for row in of_split.values()):
            by_split.append((f"{split}, paper", tuple(_number(of_split[shape].paper if shape in of_split else None) for shape in shapes)))
    hubs = [row for row in rows if row.name == "hubs"]
    figures = tuple((row.metric, (_number(row.ours), _number(row.paper))) for row in hubs)
    answers = [row for row in rows if row.metric.startswith("answers, ")]
    columns = tuple(dict.fromkeys(row.metric.removeprefix("answers, ") for row in answers))
    sizes: dict[str, list[str]] = {}
    for row in answers:
        sizes.setdefault(f"{row.name} {row.shape}", []).append(f"{row.ours:,.2f}".removesuffix(".00"))
    return [
        Grid("Queries", shapes, tuple(by_split)),
        Grid("Hubs", ("ours", "paper"), figures),
        Grid("Answers per query", columns, tuple((name, tuple(values)) for name, values in sizes.items())),
    ]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,}"


def _verdicts(rows: list[Row]) -> list[Verdict]:
    counts = [row for row in rows if row.metric == "queries" and row.paper is not None]
    same = sum(row.ours == row.paper for row in counts)
    hubs = [row for row in rows if row.name == "hubs" and row.paper is not None]
    near = sum(row.difference is not None and abs(row.difference) < 0.5 for row in hubs)
    return [
        Verdict("all 21 counts of queries are the paper's, to the last query", same == 21, f"{same} of {len(counts)} are equal"),
        Verdict(
            "the figures on hubs are the paper's: counts exactly, shares within half a point",
            near == len(hubs),
            f"{near} of {len(hubs)} agree",
        ),
    ]


def _footnote(found: dict[str, Any]) -> list[str]:
    """Describes where a footnote of the paper contradicts its own query set."""
    ours = ", ".join(
        f"{split} {shapes['2p']['max']:,} and {shapes['2p']['upper_quartile']:g}"
        for split, shapes in found["answers"].items()
        if "2p" in shapes
    )
    largest = {(split, shape): size["max"] for split, shapes in found["answers"].items() for shape, size in shapes.items()}
    (split, shape), most = max(largest.items(), key=lambda item: item[1])
    return [
        f"A footnote of the paper gives {ANSWERS_2P['max']:,} as the largest number of answers of a 2p query and "
        f"{ANSWERS_2P['upper_quartile']:g} as the upper quartile, without naming the split. The tables say otherwise (largest and upper "
        f"quartile: {ours}), although all counts of queries agree; the most answers of any table are {most:,} ({split} {shape})."
    ]
