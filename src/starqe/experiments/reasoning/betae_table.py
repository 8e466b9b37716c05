"""The table of BetaE's 14 query types: a calibrated run on a graph of plain triples, next to published numbers.

betae/measured/     the ranks of every answer
"""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from starqe.experiments.model_tables import NOT_RUN
from starqe.experiments.plots import bars
from starqe.experiments.reasoning.measurements import Measured, ranks_of
from starqe.experiments.reasoning.models import Model, reasoners
from starqe.experiments.reasoning.shapes_table import class_grids, ranked_rows, with_classes
from starqe.experiments.regimes import ROWS
from starqe.experiments.table_report import Report, provenance
from starqe.experiments.work_folder import WorkFolder
from starqe.kg import Graph
from starqe.measure.ranking_protocols import PROTOCOLS
from starqe.measure.result_tables import Grid
from starqe.measure.rows import Row, over_seeds
from starqe.queries import ALL_SHAPES, QueryTable, sample, turned
from starqe.reason.reasoner import RANKED_BY

POSITIVE: Mapping[str, str] = {
    **{name: name for name in ("1p", "2p", "3p", "2i", "3i")},
    "pi": "1p-2i",
    "ip": "2i-1p",
    **{name: name for name in ("2u", "up")},
}
NEGATIVE: Mapping[str, str] = {name: name for name in ("2in", "3in", "inp", "pin", "pni")}
TYPES: Mapping[str, str] = {**POSITIVE, **NEGATIVE}
"""BetaE's names of the query types, with the names of their shapes here."""
MEANS: Mapping[str, Sequence[str]] = {"positive": tuple(POSITIVE), "negation": tuple(NEGATIVE)}
LIMIT = 500
"""The number of test queries per type, if no limit is given."""
_QTO = (49.0, 21.4, 21.2, 43.1, 56.8, 38.1, 28.0, 22.7, 21.4)
PUBLISHED: Mapping[str, Mapping[str, float]] = {
    "QTO": {**dict(zip(POSITIVE, _QTO, strict=True)), "positive": 33.5},
    "GNN-QE": {"positive": 26.8},
    "BetaE": {"positive": 20.9},
}
"""The published MRR on FB15k-237, by type or as a mean."""

NOTES = (
    "Queries are sampled by BetaE's rules: relations in both directions, at most 100 answers, one that needs a test edge. They are "
    "not BetaE's files, so the published rows show the range, and cannot be compared number by number.",
    "MRR of hard answers (those that train and valid do not entail), in percent; every query counts the same, and other answers are "
    "filtered. Whatever looks facts up knows train only.",
    "The published rows are about FB15k-237, whatever graph is measured here.",
)


def betae_report(work: WorkFolder) -> Report:
    """Measures encoder, executor and mixture on queries of BetaE's types."""
    models, reasons = reasoners(work)
    rows: list[Row] = []
    for model in models:
        rows += ranked_rows({name: _measured(work, model, name) for name in TYPES}, model.seed)
    merged = over_seeds(rows)
    grids = [type_grid(merged), *class_grids(merged, tuple(TYPES), ("strict",))]
    given = work.settings.run is not None
    sample_text = f"{_limit(work):,} test queries per type; realistic ranks among all {len(work.graph.entities):,} entities"
    return Report(
        "betae",
        "BetaE's 14 query types, on plain triples",
        rows,
        grids,
        grids[:1],
        bars([row for row in rows if not row.reduction and row.shape in TYPES]),
        notes=[*NOTES, *(f"seed {seed}: {NOT_RUN}, {reason}" for seed, reason in reasons.items())],
        provenance={
            **provenance(work, None if given else ROWS["reasoning"], sample_text),
            **({"run": str(work.settings.run)} if given else {}),
        },
    )


def _limit(work: WorkFolder) -> int:
    return work.settings.limit or min(work.limit, LIMIT)


def type_queries(graph: Graph, name: str, count: int, split: str = "test", seed: int = 0) -> list[QueryTable]:
    """Samples plain queries of one type, equally many for each choice of directions; those without a hard answer are left out."""
    shape = ALL_SHAPES[TYPES[name]]
    directions = list(product((False, True), repeat=len(shape.edges)))
    tables = []
    for place, turns in enumerate(directions):
        own = count // len(directions) + (place < count % len(directions))
        # Half as many again: the answers of some queries are all easy.
        table = sample(graph, turned(shape, turns), own + own // 2 + 1, split, [(0, 0)] * len(shape.edges), seed) if own else None
        if table is not None and len(table):
            hard = PROTOCOLS["strict"](graph, table, np.arange(len(table))).rows
            tables.append(table.take(hard[:own]))
    return [table for table in tables if len(table)]


def _measured(work: WorkFolder, model: Model, name: str) -> Measured:
    def make() -> Measured:
        work.tell(f"betae, seed {model.seed}: {name}")
        tables = type_queries(work.graph, name, _limit(work), seed=model.seed)
        return merged_ranks([{"queries": len(one), "ranks": _ranked(work.graph, model, one)} for one in tables])

    kept: Measured = work.once(work.folder / "betae" / "measured" / f"{model.digest}-{_limit(work)}-{name}.json", make)
    return kept


def _ranked(graph: Graph, model: Model, table: QueryTable) -> Measured:
    return {protocol: with_classes(graph, table, ranks) for protocol, ranks in ranks_of(model.reasoner, table).items()}


def merged_ranks(parts: Sequence[Measured]) -> Measured:
    """Joins the measurements of several tables of one type."""
    ranks: Measured = {}
    for protocol in PROTOCOLS:
        found = [part["ranks"][protocol] for part in parts]
        before = [sum(part["queries"] for part in parts[:place]) for place in range(len(parts))]
        ranks[protocol] = {
            "query": [first + query for first, one in zip(before, found, strict=True) for query in one["query"]],
            **{key: [value for one in found for value in one[key]] for key in ("answer", "candidates", "reduction")},
            "rank": {by: [rank for one in found for rank in one["rank"][by]] for by in RANKED_BY},
            "dropped": sum(one["dropped"] for one in found),
        }
    return {"queries": sum(part["queries"] for part in parts), "ranks": ranks}


def type_grid(rows: Sequence[Row]) -> Grid:
    """Arranges the MRR by type with the means, and the published rows below."""
    chosen = [row for row in rows if (row.metric, row.average, row.protocol, row.reduction) == ("MRR", "macro", "strict", "")]
    lines = []
    for by in RANKED_BY:
        found = {row.shape: row.number for row in chosen if row.name == by and row.ours is not None}
        lines.append((by, _line(found)))
    lines += [(f"{name}, other queries", _line(figures)) for name, figures in PUBLISHED.items()]
    return Grid("MRR of hard answers, by query type", (*TYPES, *(f"{name}, mean" for name in MEANS)), tuple(lines))


def _line(found: Mapping[str, float]) -> tuple[str, ...]:
    means = {mean: sum(found[name] for name in names) / len(names) for mean, names in MEANS.items() if all(name in found for name in names)}
    both = {**means, **found}
    return tuple(f"{both[name]:.1f}" if name in both else "–" for name in (*TYPES, *MEANS))
