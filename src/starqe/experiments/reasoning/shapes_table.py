"""The table of shapes: encoder, executor and mixture on all named shapes, with union, negation and open values, by reduction class.

shapes/queries/     the queries of the shapes that the given query set does not have
shapes/sampled/     those of shapes that have too many queries to generate
shapes/measured/    weights of the mixture, and the ranks of every answer
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from starqe.ask.prepare import VALIDATION
from starqe.experiments.findings import Verdict
from starqe.experiments.model_tables import NOT_RUN
from starqe.experiments.plots import bars
from starqe.experiments.reasoning.measurements import Measured, ranks_of
from starqe.experiments.reasoning.models import Model, reasoners
from starqe.experiments.regimes import ROWS
from starqe.experiments.table_report import Report, provenance
from starqe.experiments.work_folder import WorkFolder
from starqe.kg import Graph
from starqe.measure.metrics import AVERAGES, Accumulator, mean_estimate, terms_of
from starqe.measure.ranking_protocols import PROTOCOLS
from starqe.measure.result_tables import Grid
from starqe.measure.rows import AVERAGE, Row, over_seeds, report
from starqe.queries import ALL_SHAPES, MORE_SHAPES, SHAPES, QuerySettings, QueryTable, generate, load_queries, sample_queries, tables_of
from starqe.queries.exact.reduction import class_order, reductions
from starqe.ragged import Ragged
from starqe.reason.fitting import fit_weights
from starqe.reason.mixture import Weights
from starqe.reason.reasoner import RANKED_BY

LIMIT = 2_000
"""The number of test queries of each shape that have a hard answer, if no limit is given."""
SEARCHED = 4
"""Queries that are searched for each one with a hard answer: half of the unions have easy answers only."""
SAMPLED = ("4p",)
"""The shapes that are sampled: a graph such as WD50K has too many of them."""
NEGATED = tuple(name for name, shape in ALL_SHAPES.items() if shape.negated)
POSITIVE = ("1p", "2p", "3p", "2i", "3i", "1p-2i", "2i-1p", "2u", "up", "2cp", "3cp")
"""The shapes without negation that NQE reports an average of; pi and ip are called 1p-2i and 2i-1p here."""
GROUPS: Mapping[str, Sequence[str]] = {
    "seven of the paper": tuple(SHAPES),
    "positive": POSITIVE,
    "with negation": NEGATED,
    "all": tuple(ALL_SHAPES),
}
"""The groups of shapes that have a mean of their own."""
PUBLISHED = {"positive": 36.87, "with negation": 14.06}
"""NQE's published mean MRR, on its own data set of arities up to 10: for orientation only."""

NOTES = (
    "encoder: a union is the sum of the shares of its alternatives, and negated parts are left out. executor and mixture take the whole "
    "formula. Whatever looks facts up knows train only; the weights of the mixture are fitted on validation queries of the same shapes.",
    "Queries of shapes with union or negation are those for which all edges hold together in some way: the alternatives meet, and the "
    "negation excludes something. Listed answers need a new edge; those of 4p, which is sampled, are all that hold.",
    "Reduction classes: the number of edges that the best derivation of an answer lacks in train. Full inference: no derivation has an "
    "edge that train has. A query counts in each class that it has an answer of.",
    "NQE's averages are of another data set (WD50K-NFOL: other queries, facts up to arity 10, answers at any position), by the protocol "
    "paper, micro: they say in what range published numbers are, and cannot be compared.",
)


def shapes_report(work: WorkFolder) -> Report:
    """Measures encoder, executor and mixture on all named shapes, by both protocols and by reduction class."""
    models, reasons = reasoners(work)
    tests = shape_queries(work, "test") if models else {}
    rows: list[Row] = []
    for model in models:
        weights = _weights(work, model)
        kept = {name: _measured(work, model, weights, name, table) for name, table in tests.items()}
        rows += ranked_rows(kept, model.seed)
    merged = over_seeds(rows)
    tables = [group_grid(merged), *shape_grids(merged), count_grid(merged), *class_grids(merged)]
    given = work.settings.run is not None
    sample = (
        f"the first test queries of each shape, until {_limit(work):,} of them have a hard answer; "
        f"realistic ranks among all {len(work.graph.entities):,} entities"
    )
    found = provenance(work, None if given else ROWS["reasoning"], sample)
    fitted = "; ".join(f"{name} {weight:g}" for name, weight in _weights(work, models[0]).executor.items()) if models else NOT_RUN
    return Report(
        "shapes",
        "All shapes: encoder, executor, and both",
        rows,
        tables,
        tables[:1],
        bars([row for row in rows if not row.reduction and row.shape not in GROUPS]),
        _verdicts(merged),
        notes=[*NOTES, *(f"seed {seed}: {NOT_RUN}, {reason}" for seed, reason in reasons.items())],
        provenance={**found, **({"run": str(work.settings.run)} if given else {}), "weight of the executor": fitted},
    )


def _limit(work: WorkFolder) -> int:
    return work.settings.limit or min(work.limit, LIMIT)


def shape_queries(work: WorkFolder, split: str) -> dict[str, QueryTable]:
    """Returns queries of every named shape: from the given set, and generated or sampled where it has none; empty tables are left out.

    They are the first ones of each table, until enough of them have a hard answer.
    """
    limit, folder = SEARCHED * _limit(work), work.folder / "shapes"
    own = tables_of(work.queries).get(split, {})
    lacking = [shape for name, shape in MORE_SHAPES.items() if name not in own]
    counted, sampled = ([shape for shape in lacking if (shape.name in SAMPLED) == drawn] for drawn in (False, True))
    if counted:
        work.tell(f"shapes: generating {split} queries")
        generate(work.graph, folder / "queries", counted, QuerySettings(limit=limit), [split])
    if sampled:
        settings = QuerySettings(limit=limit, hub_threshold=None)
        sample_queries(work.graph, folder / "sampled", sampled, split, settings, turn=False)
    places = {name: folder / ("sampled" if name in SAMPLED else "queries") for name in MORE_SHAPES if name not in own}
    names = [name for name in ALL_SHAPES if name in own or name in places]
    tables = {name: load_queries(places.get(name, work.queries), split, [name], limit, work.graph)[name] for name in names}
    return {name: with_hard_answers(work.graph, table, _limit(work)) for name, table in tables.items() if len(table)}


def with_hard_answers(graph: Graph, table: QueryTable, count: int) -> QueryTable:
    """Returns the first queries of a table, as many as are needed for this number of queries with a hard answer."""
    rows = PROTOCOLS["strict"](graph, table, np.arange(len(table))).rows
    return table if len(rows) <= count else table.take(range(int(rows[count - 1]) + 1))


def _weights(work: WorkFolder, model: Model) -> Weights:
    """Fits the weights of the mixture on validation queries of every shape."""

    def fit() -> dict[str, float]:
        work.tell(f"shapes, seed {model.seed}: fitting the mixture on validation queries")
        most = min(VALIDATION, _limit(work))
        few = {name: table.take(range(min(most, len(table)))) for name, table in shape_queries(work, "valid").items()}
        return dict(fit_weights(work.graph, model.reasoner.encoder, model.reasoner.executor(["train"]), few).executor)

    path = work.folder / "shapes" / "measured" / f"{model.digest}-weights.json"
    return Weights.read(work.once(path, fit), str(path))


def _measured(work: WorkFolder, model: Model, weights: Weights, name: str, table: QueryTable) -> Measured:
    def make() -> Measured:
        work.tell(f"shapes, seed {model.seed}: {name}")
        found = ranks_of(replace(model.reasoner, weights=weights), table)
        return {"queries": len(table), "ranks": {protocol: with_classes(work.graph, table, one) for protocol, one in found.items()}}

    path = work.folder / "shapes" / "measured" / f"{model.digest}-{_limit(work)}-hard-{name}.json"
    kept: Measured = work.once(path, partial(make))
    return kept


def with_classes(graph: Graph, table: QueryTable, ranks: Measured) -> Measured:
    """Adds the reduction class of every ranked answer."""
    rows, counts = np.unique(np.array(ranks["query"], np.int64), return_counts=True)
    answers = Ragged.of_counts(counts, np.array(ranks["answer"], np.int32))
    return {**ranks, "reduction": reductions(graph, table, rows, answers).classes}


def ranked_rows(kept: Mapping[str, Measured], seed: int) -> list[Row]:
    """Returns all metrics by shape and over groups of shapes, of all answers and of those of each reduction class."""
    rows: list[Row] = []
    for protocol in dict.fromkeys(protocol for one in kept.values() for protocol in one["ranks"]):
        named = {name for one in kept.values() for name in one["ranks"][protocol]["reduction"]}
        for reduction in ("", *sorted(named, key=class_order)):
            for by in dict.fromkeys(name for one in kept.values() for name in one["ranks"][protocol]["rank"]):
                sums, dropped = {}, {}
                for shape, one in kept.items():
                    total = _sum(one["ranks"][protocol], by, reduction, seed, shape)
                    if total is not None:
                        sums[shape], dropped[shape] = total, 0 if reduction else one["ranks"][protocol]["dropped"]
                about: dict[str, Any] = {"name": by, "protocol": protocol, "seed": seed}
                found = report(sums, dropped, **about, ties="realistic")
                rows += [replace(row, reduction=reduction, dropped=None if reduction else row.dropped) for row in found]
                rows += [replace(row, reduction=reduction) for row in _group_rows(sums, about)]
    return rows


def _sum(ranks: Measured, by: str, reduction: str, seed: int, shape: str) -> Accumulator | None:
    """Adds up the ranks of one class of answers, or of all; None if there are none."""
    chosen = np.array([not reduction or name == reduction for name in ranks["reduction"]], bool)
    if not chosen.any():
        return None
    counts = np.unique(np.array(ranks["query"])[chosen], return_counts=True)[1]
    total = Accumulator(0 if reduction else 200, seed, shape)
    total.add_terms(terms_of(np.array(ranks["rank"][by])[chosen], np.array(ranks["candidates"])[chosen]), counts)
    return total


def _group_rows(sums: Mapping[str, Accumulator], about: Mapping[str, Any]) -> Iterable[Row]:
    """Yields the mean MRR over the shapes of each group; a group that lacks a shape has none."""
    for group, shapes in GROUPS.items():
        if all(shape in sums for shape in shapes):
            for average in AVERAGES:
                mean = mean_estimate([sums[shape] for shape in shapes], "MRR", average)
                yield Row(**about, shape=group, metric="MRR", average=average, n=mean.n, ours=100 * mean.value)


def _mrr(rows: Iterable[Row]) -> dict[tuple[str, str, str, str, str], Row]:
    chosen = (row for row in rows if row.metric == "MRR" and row.ours is not None)
    return {(row.name, row.shape, row.average, row.protocol, row.reduction): row for row in chosen}


def _line(found: Mapping[tuple[str, str, str, str, str], Row], keys: Iterable[tuple[str, str, str, str, str]]) -> tuple[str, ...]:
    return tuple(f"{found[key].number:.2f}" if key in found else "–" for key in keys)


def group_grid(rows: Sequence[Row]) -> Grid:
    """Arranges the mean MRR over groups of shapes, with the published one beside."""
    found = _mrr(rows)
    lines = [
        (f"{by}, {protocol}, {average}", _line(found, [(by, group, average, protocol, "") for group in GROUPS]))
        for protocol in PROTOCOLS
        for average in AVERAGES
        for by in RANKED_BY
    ]
    published = ("NQE on its own data set", tuple(f"{PUBLISHED[group]}" if group in PUBLISHED else "–" for group in GROUPS))
    return Grid("Mean MRR over groups of shapes", tuple(GROUPS), (*lines, published))


def shape_grids(rows: Sequence[Row]) -> list[Grid]:
    """Arranges the MRR by shape, a table for each protocol."""
    found = _mrr(rows)
    columns = [(by, average) for average in AVERAGES for by in RANKED_BY]
    grids = []
    for protocol in PROTOCOLS:
        shapes = [name for name in (*ALL_SHAPES, AVERAGE) if ("encoder", name, "micro", protocol, "") in found]
        lines = [(name, _line(found, [(by, name, average, protocol, "") for by, average in columns])) for name in shapes]
        grids.append(Grid(f"MRR, protocol {protocol}", tuple(f"{by}, {average}" for by, average in columns), tuple(lines)))
    return grids


def _classes(rows: Iterable[Row]) -> list[str]:
    return sorted({row.reduction for row in rows if row.reduction}, key=class_order)


def count_grid(rows: Sequence[Row]) -> Grid:
    """Arranges what was ranked by the protocol strict: queries, those without a hard answer, and answers by reduction class."""
    found, classes = _mrr(rows), _classes(row for row in rows if row.protocol == "strict")
    lines = []
    for shape in ALL_SHAPES:
        keys = [("encoder", shape, average, "strict", reduction) for average, reduction in (("macro", ""), ("micro", ""))]
        keys += [("encoder", shape, "micro", "strict", reduction) for reduction in classes]
        if keys[0] in found:
            counts = [f"{found[key].n:,}" if key in found else "–" for key in keys]
            lines.append((shape, (counts[0], f"{found[keys[0]].dropped:,}", *counts[1:])))
    return Grid("Ranked by the protocol strict", ("queries", "dropped", "answers", *classes), tuple(lines))


def class_grids(rows: Sequence[Row], named: Sequence[str] = tuple(ALL_SHAPES), protocols: Sequence[str] = tuple(PROTOCOLS)) -> list[Grid]:
    """Arranges the MRR by shape for each reduction class and protocol."""
    found = _mrr(rows)
    columns = [(by, average) for average in AVERAGES for by in dict.fromkeys(row.name for row in rows)]
    grids = []
    for protocol in protocols:
        for reduction in _classes(row for row in rows if row.protocol == protocol):
            lines = []
            for shape in (*named, AVERAGE):
                keys = [(by, shape, average, protocol, reduction) for by, average in columns]
                if keys[0] in found:
                    lines.append((shape, (f"{found[keys[0]].n:,}", *_line(found, keys))))
            names = ("answers", *(f"{by}, {average}" for by, average in columns))
            grids.append(Grid(f"MRR, protocol {protocol}, answers with {reduction}", names, tuple(lines)))
    return grids


def _verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """Says where the mixture is better than its parts."""
    found = _mrr(rows)
    shapes = [shape for shape in ALL_SHAPES if ("mixture", shape, "macro", "strict", "") in found]
    if not shapes:
        return []
    macro = {by: [found[by, shape, "macro", "strict", ""].number for shape in shapes] for by in RANKED_BY}
    better = sum(both >= max(one, other) for both, one, other in zip(macro["mixture"], macro["encoder"], macro["executor"], strict=True))
    claim = "the mixture is at least as good as encoder and executor on every shape (MRR, strict, macro)"
    return [Verdict(claim, better == len(shapes), f"{better} of {len(shapes)} shapes")]
