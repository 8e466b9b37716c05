"""The paper's appendix on the impact of qualifier relations: the worst and the best of each shape, and a plot of all."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from starqe.errors import InputError
from starqe.experiments.findings import Verdict, by_both
from starqe.experiments.impact import IMPACT_METRICS, impacts
from starqe.experiments.model_tables import NOT_RUN
from starqe.experiments.plots import overview
from starqe.experiments.regimes import ROWS
from starqe.experiments.table_report import Report, provenance
from starqe.experiments.train_rows import Job, finished, train_missing
from starqe.experiments.work_folder import WorkFolder
from starqe.learn import Run
from starqe.measure.metrics import AVERAGES
from starqe.measure.paper import COMPARED, WD50K, published_impacts
from starqe.measure.result_tables import Grid
from starqe.measure.rows import Row, over_seeds
from starqe.queries import SHAPES, load_queries, tables_of

ENDS = 3
"""The number of worst and of best relations that are shown."""
HELPFUL = ("P805", "P1686")
"""The relations that the paper names as the most helpful."""
CONFUSING = "P453"
"""The relation that the paper names as the most confusing."""


@dataclass(frozen=True, kw_only=True)
class ImpactRow(Row):
    """The impact of one qualifier relation, in points, and the two numbers it is the difference of."""

    label: str = ""
    full: float | None = None
    restricted: float | None = None


def qualifier_report(work: WorkFolder) -> Report:
    """Measures the impact of every qualifier relation on a StarQE model, which is trained if missing.

    Raises:
        InputError: The graph has no qualifiers.
    """
    if not len(work.graph.pair_value):
        raise InputError(
            "the table 'qualifiers' is about the qualifiers of queries, and the graph has none. Reproduce 'betae', for plain triples"
        )
    reasons = train_missing(work, "qualifiers")
    rows: list[ImpactRow] = []
    for seed in work.seeds:
        rows += _rows(work, (ROWS["qualifiers"]["StarQE"], seed))
    rows = [replace(row, paper=_published(work, row)) for row in rows]
    merged = over_seeds(rows)
    micro = [row for row in merged if row.average == COMPARED]
    notes = [
        "Points, full minus restricted: positive if queries are answered better with the relation's pairs than without.",
        f"Only queries that contain a relation count (n). Relations in fewer than {work.settings.minimum} queries of a shape are left out.",
        "Sorted by points; the paper prints six relations per shape and metric, and only these are compared.",
    ]
    notes += [f"StarQE, seed {job[1]}: {NOT_RUN}, {reason}" for job, reason in reasons.items()]
    sample = f"the first {work.limit:,} test queries of each shape, protocol paper"
    return Report(
        "qualifiers",
        "The impact of qualifier relations",
        rows,
        [_grid(merged, metric, average) for metric in IMPACT_METRICS for average in AVERAGES],
        [_grid(merged, "MRR", COMPARED)],
        overview(micro),
        _verdicts(work, merged),
        notes,
        provenance(work, ROWS["qualifiers"], sample),
    )


def _rows(work: WorkFolder, job: Job) -> list[ImpactRow]:
    available = tables_of(work.queries).get("test", {})
    shapes = [shape for shape in SHAPES if available.get(shape)]
    if finished(work, job) is None:
        empty = ImpactRow(name=NOT_RUN, shape="", metric="", average="", protocol="paper", n=0, seed=job[1], ours=None, missing=NOT_RUN)
        return [
            replace(empty, shape=shape, metric=metric, average=average)
            for shape in shapes
            for metric in IMPACT_METRICS
            for average in AVERAGES
        ]
    path = work.run_folder(*job) / f"qualifiers-{work.limit}-{work.settings.minimum}.json"
    return work.rows_once(path, ImpactRow, lambda: _measure(work, job, shapes))


def _measure(work: WorkFolder, job: Job, shapes: Sequence[str]) -> list[ImpactRow]:
    scorer, names = Run.open(work.run_folder(*job), work.graph).scorer(), work.graph.relations
    rows: list[ImpactRow] = []
    for shape, table in load_queries(work.queries, "test", shapes, work.limit, work.graph).items():
        work.tell(f"{job[0]}-{job[1]}: with and without each qualifier relation, {shape}")
        for impact in impacts(scorer, table, len(work.graph.entities), work.settings.minimum):
            rows.append(
                ImpactRow(
                    name=names.identifier(impact.relation),
                    label=names.label(impact.relation),
                    shape=shape,
                    metric=impact.metric,
                    average=impact.average,
                    protocol="paper",
                    n=impact.n,
                    seed=job[1],
                    ours=impact.points,
                    full=impact.full,
                    restricted=impact.restricted,
                )
            )
    return rows


def _published(work: WorkFolder, row: ImpactRow) -> float | None:
    if work.graph.fingerprint != WD50K:
        return None
    figure = published_impacts(row.shape, row.metric).get(row.name)
    return None if figure is None else figure.value


def ends(rows: Sequence[ImpactRow], shape: str, metric: str) -> list[ImpactRow]:
    """Returns the worst and the best relations of a shape, ascending; all of them if there are few."""
    chosen = sorted((row for row in rows if (row.shape, row.metric) == (shape, metric)), key=lambda row: row.ours or 0.0)
    return chosen if len(chosen) <= 2 * ENDS else [*chosen[:ENDS], *chosen[-ENDS:]]


def _grid(rows: Sequence[ImpactRow], metric: str, average: str) -> Grid:
    rows = [row for row in rows if row.average == average]
    lines = []
    for shape in dict.fromkeys(row.shape for row in rows):
        for row in ends(rows, shape, metric):
            label = f" {row.label}" if row.label not in ("", row.name) else ""
            lines.append((shape, (f"{row.name}{label}", *_cells(row), str(row.n))))
    return Grid(
        f"Impact on {metric}, {average}, in points: the worst and the best", ("relation", "ours", "paper", "difference", "n"), tuple(lines)
    )


def _cells(row: ImpactRow) -> tuple[str, str, str]:
    if row.ours is None:
        return NOT_RUN, "–", "–"
    deviation = f" ± {row.deviation:.2f}" if row.deviation is not None else ""
    compared = ("–", "–") if row.difference is None else (f"{row.paper:+.2f}", f"{row.difference:+.2f}")
    return f"{row.ours:+.2f}{deviation}", *compared


def _verdicts(work: WorkFolder, rows: Sequence[ImpactRow]) -> list[Verdict]:
    """Judges the findings of the appendix by both averages; those that name a relation need WD50K."""
    judged = {}
    for average in AVERAGES:
        known = [row for row in rows if row.ours is not None and row.average == average]
        judged[average] = [_gains(known)]
        if work.graph.fingerprint == WD50K:
            judged[average] += [*(_helpful(known, relation) for relation in HELPFUL), _confusing(known)]
    return [by_both({average: judged[average][place] for average in AVERAGES}) for place in range(len(judged[COMPARED]))]


def _gains(rows: Sequence[ImpactRow]) -> Verdict:
    claim = "over all relations the gains outweigh the losses: the mean over queries and relations is positive for every metric"
    means = {metric: _weighted([row for row in rows if row.metric == metric]) for metric in IMPACT_METRICS}
    numbers = ", ".join(f"{metric} {mean:+.2f}" for metric, mean in means.items() if mean is not None)
    gains = all(mean is not None and mean > 0 for mean in means.values())
    return Verdict(claim, gains if rows else None, numbers or "no numbers")


def _helpful(rows: Sequence[ImpactRow], relation: str) -> Verdict:
    claim = f"{relation} is among the most helpful: one of the three best by some metric on most shapes, with a positive mean gain in MRR"
    of_relation = [row for row in rows if row.name == relation]
    gain = _weighted([row for row in of_relation if row.metric == "MRR"])
    if gain is None:
        return Verdict(claim, None, "no numbers")
    shapes = dict.fromkeys(row.shape for row in of_relation)
    top = [shape for shape in shapes if any(relation in _names(ends(rows, shape, metric)[-ENDS:]) for metric in IMPACT_METRICS)]
    numbers = f"mean MRR gain {gain:+.2f}; among the three best on {', '.join(top) or 'no shape'} of {len(shapes)}"
    return Verdict(claim, gain > 0 and 2 * len(top) > len(shapes), numbers)


def _confusing(rows: Sequence[ImpactRow]) -> Verdict:
    claim = f"{CONFUSING} confuses most: on 2p it is below zero and among the three worst by every metric"
    found = {row.metric: row.number for row in rows if (row.name, row.shape) == (CONFUSING, "2p")}
    if found.keys() != set(IMPACT_METRICS):
        return Verdict(claim, None, "no numbers")
    worst = all(points < 0 and CONFUSING in _names(ends(rows, "2p", metric)[:ENDS]) for metric, points in found.items())
    return Verdict(claim, worst, ", ".join(f"{metric} {found[metric]:+.2f}" for metric in IMPACT_METRICS))


def _names(rows: Sequence[ImpactRow]) -> list[str]:
    return [row.name for row in rows]


def _weighted(rows: Sequence[ImpactRow]) -> float | None:
    """The mean impact, each query and relation counting the same."""
    n = sum(row.n for row in rows)
    return sum(row.number * row.n for row in rows) / n if n else None
