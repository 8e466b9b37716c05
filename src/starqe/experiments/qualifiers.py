"""The paper's appendix on the impact of qualifier relations: the worst and the best of each shape, and all at a glance."""

from collections.abc import Sequence

from starqe.experiments.findings import Verdict
from starqe.experiments.impact import IMPACT_METRICS, impacts
from starqe.experiments.models import NOT_RUN
from starqe.experiments.plots import overview
from starqe.experiments.regimes import ROWS
from starqe.experiments.report import Report, provenance
from starqe.experiments.training import Job, finished, train_missing
from starqe.experiments.work_folder import WorkFolder
from starqe.learn import Run
from starqe.measure.paper import WD50K, published_impacts
from starqe.measure.rows import Row, over_seeds
from starqe.measure.tables import Grid, difference
from starqe.queries import SHAPES, load_queries, tables_of

ENDS = 3
"""So many of the worst and of the best relations are shown."""
HELPFUL = ("P805", "P1686")
"""The relations that the paper names as the most helpful."""


def qualifier_report(work: WorkFolder) -> Report:
    """Measures what every qualifier relation does to a StarQE model, which it trains if there is none yet."""
    reasons = train_missing(work, "qualifiers")
    rows: list[Row] = []
    for seed in work.seeds:
        rows += _rows(work, ("starqe", seed))
    rows = [{**row, "paper": _published(work, row)} for row in rows]
    merged = [row for row in over_seeds(rows) if row["average"] == "macro"]
    notes = [
        "Points, full minus restricted: positive where queries are answered better with the relation's pairs than without.",
        f"Only queries that contain a relation count (n). Relations in fewer than {work.settings.minimum} queries of a shape are left out.",
        "Sorted by points; the paper prints six relations a shape and metric, and only these have a number beside ours.",
    ]
    notes += [f"StarQE, seed {job[1]}: {NOT_RUN}, {reason}" for job, reason in reasons.items()]
    sample = f"the first {work.limit:,} test queries of each shape, protocol paper"
    return Report(
        "qualifiers",
        "The impact of qualifier relations",
        rows,
        [_grid(merged, metric) for metric in IMPACT_METRICS],
        [_grid(merged, "MRR")],
        overview(merged),
        _verdicts(work, merged),
        notes,
        provenance(work, ROWS["qualifiers"], sample),
        ("label", "full", "restricted"),
    )


def _rows(work: WorkFolder, job: Job) -> list[Row]:
    there = tables_of(work.queries).get("test", {})
    shapes = [shape for shape in SHAPES if there.get(shape)]
    if finished(work, job) is None:
        given = {"average": "macro", "protocol": "paper", "n": 0, "seed": job[1], "ours": None, "paper": None, "missing": NOT_RUN}
        return [{"row": NOT_RUN, "label": "", "shape": shape, "metric": metric, **given} for shape in shapes for metric in IMPACT_METRICS]
    rows: list[Row] = work.once(
        work.run_folder(*job) / f"qualifiers-{work.limit}-{work.settings.minimum}.json", lambda: _measure(work, job, shapes)
    )
    return rows


def _measure(work: WorkFolder, job: Job, shapes: Sequence[str]) -> list[Row]:
    scorer, names = Run.open(work.run_folder(*job), work.graph).scorer(), work.graph.relations
    rows: list[Row] = []
    for shape, table in load_queries(work.queries, "test", shapes, work.limit, work.graph).items():
        work.tell(f"{job[0]}-{job[1]}: with and without each qualifier relation, {shape}")
        for impact in impacts(scorer, table, len(work.graph.entities), work.settings.minimum):
            keys = {"row": names.identifier(impact.relation), "label": names.label(impact.relation), "shape": shape}
            what = {"metric": impact.metric, "average": impact.average, "protocol": "paper", "n": impact.n, "seed": job[1]}
            rows.append({**keys, **what, "ours": impact.points, "paper": None, "full": impact.full, "restricted": impact.restricted})
    return rows


def _published(work: WorkFolder, row: Row) -> float | None:
    if work.graph.fingerprint != WD50K or row["average"] != "macro":
        return None
    figure = published_impacts(row["shape"], row["metric"]).get(row["row"])
    return None if figure is None else figure.value


def ends(rows: Sequence[Row], shape: str, metric: str) -> list[Row]:
    """Gives the worst and the best relations of a shape, ascending; all of them where there are few."""
    mine = sorted((row for row in rows if (row["shape"], row["metric"]) == (shape, metric)), key=lambda row: row["ours"] or 0.0)
    return mine if len(mine) <= 2 * ENDS else [*mine[:ENDS], *mine[-ENDS:]]


def _grid(rows: Sequence[Row], metric: str) -> Grid:
    lines = []
    for shape in dict.fromkeys(row["shape"] for row in rows):
        for row in ends(rows, shape, metric):
            label = f" {row['label']}" if row["label"] not in ("", row["row"]) else ""
            lines.append((shape, (f"{row['row']}{label}", *_cells(row), str(row["n"]))))
    return Grid(
        f"Impact on {metric}, macro, in points: the worst and the best", ("relation", "ours", "paper", "difference", "n"), tuple(lines)
    )


def _cells(row: Row) -> tuple[str, str, str]:
    if row["ours"] is None:
        return NOT_RUN, "–", "–"
    deviation = f" ± {row['deviation']:.2f}" if row.get("deviation") is not None else ""
    gap = difference(row)
    return f"{row['ours']:+.2f}{deviation}", *(("–", "–") if gap is None else (f"{row['paper']:+.2f}", f"{gap:+.2f}"))


def _verdicts(work: WorkFolder, rows: Sequence[Row]) -> list[Verdict]:
    known = [row for row in rows if row["ours"] is not None]
    claim = "over all relations the gains outweigh the losses: the mean over queries and relations is positive for every metric"
    means = {metric: _weighted([row for row in known if row["metric"] == metric]) for metric in IMPACT_METRICS}
    numbers = ", ".join(f"{metric} {mean:+.2f}" for metric, mean in means.items() if mean is not None)
    gains = all(mean is not None and mean > 0 for mean in means.values())
    judged = [Verdict(claim, gains if known else None, numbers or "no numbers")]
    if work.graph.fingerprint != WD50K:
        return judged
    for relation in HELPFUL:
        mine = [row for row in known if row["row"] == relation]
        shapes = dict.fromkeys(row["shape"] for row in mine)
        top = [shape for shape in shapes if any(relation in _best(known, shape, metric) for metric in IMPACT_METRICS)]
        claim = (
            f"{relation} is among the most helpful: one of the three best by some metric on most shapes, with a positive mean gain in MRR"
        )
        gain = _weighted([row for row in mine if row["metric"] == "MRR"])
        confirmed = None if gain is None else gain > 0 and 2 * len(top) > len(shapes)
        text = (
            "no numbers"
            if gain is None
            else f"mean MRR gain {gain:+.2f}; among the three best on {', '.join(top) or 'no shape'} of {len(shapes)}"
        )
        judged.append(Verdict(claim, confirmed, text))
    return judged


def _best(rows: Sequence[Row], shape: str, metric: str) -> list[str]:
    return [row["row"] for row in ends(rows, shape, metric)[-ENDS:]]


def _weighted(rows: Sequence[Row]) -> float | None:
    """The mean impact, each query and relation counting the same."""
    n = sum(row["n"] for row in rows)
    return sum(row["ours"] * row["n"] for row in rows) / n if n else None
