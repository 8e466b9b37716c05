"""The table of reasoning: encoder, executor and mixture side by side, the queries that are all new, reasons, and what limits them.

reasoning/measured/       what was measured, one file per model, number of queries and shape: an interrupted table continues
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from starqe.ask.prepare import VALIDATION
from starqe.experiments.findings import Verdict
from starqe.experiments.model_tables import NOT_RUN, not_run_rows
from starqe.experiments.plots import SHOWN, bars
from starqe.experiments.reasoning.measurements import ALONE, Measured, explained, measured
from starqe.experiments.reasoning.models import Model, reasoners
from starqe.experiments.regimes import ROWS
from starqe.experiments.table_report import Report, provenance
from starqe.experiments.work_folder import WorkFolder
from starqe.measure.metrics import Accumulator, terms_of
from starqe.measure.paper import COMPARED, NQE, WD50K, beside_paper
from starqe.measure.ranking_protocols import PROTOCOLS
from starqe.measure.result_tables import Grid, grids
from starqe.measure.rows import ALL, AVERAGE, Row, over_seeds, report
from starqe.queries import SHAPES, load_queries, tables_of
from starqe.ragged import IntArray
from starqe.reason.reasoner import RANKED_BY
from starqe.seed import generator

LIMIT = 2_000
"""The number of test queries of each shape, if no limit is given."""
EXPLAINED = 200
"""The number of answers that are explained."""
RELATIONS = 10
"""The number of relations that are listed: those that lose most."""
NEW = " (all new)"
MISSING = "one missing edge"
"""Used in place of a protocol: the hard answers that lack one statement, filtered as by the protocol strict."""
REASONS = ("edge", "edge at random", "statement", "statement at random")
"""How often an explanation names what is missing, and how often a random guess would."""
SEVERAL = ", of several"
"""The same for answers that several statements, each alone, would make true: only there can a guess be wrong."""

NOTES = (
    "encoder is StarQE's; executor joins known facts and one-hop predictions; mixture is both. Whatever looks facts up knows train only; "
    "calibration and mixture are fitted on validation queries. In brackets: the paper's StarQE.",
    "All new: no derivation of any listed answer, over the statements of all splits, has an edge that a train statement entails.",
    "One missing edge: hard answers of which every derivation lacks exactly one edge in train, and all of them the same statement.",
    f"An explanation names the edge if it is the only one that is predicted, and the statement if its ends are also right; {EXPLAINED} "
    "queries of more than one edge are sampled at random. At random is a guess, given that one statement is missing: one of the "
    "query's edges, or one of the statements that alone would make the answer follow from train. Often there is only one (always if "
    "there are no inner variables), so the others are counted separately.",
    f"{ALONE}: the MRR of the missing entity if its edge is asked alone, from the side that the executor asks it from. encoder, executor, "
    "mixture: the MRR of the answer in the whole query. The loss of a relation is the sum of 1 - reciprocal rank (executor) over the "
    "answers that lack a statement of it.",
)


@dataclass(frozen=True, kw_only=True)
class LossRow(Row):
    """The loss of a relation if one of its statements is missing: its share of the loss, and two MRRs in percent."""

    label: str
    alone: float
    """Of the missing entity, if its edge is asked alone."""
    answer: float
    """Of the answer in the whole query."""


Kept = Mapping[str, Measured]
"""What was measured, by shape."""


def reasoning_report(work: WorkFolder) -> Report:
    """Measures how reasoning answers test queries: by a calibrated run that is given, or one that is trained and calibrated."""
    models, reasons = reasoners(work)
    available = tables_of(work.queries).get("test", {})
    shapes = [shape for shape in SHAPES if available.get(shape)]
    kept = [_measured(work, model, shapes) for model in models]
    rows = [row for model, one in zip(models, kept, strict=True) for row in ranked_rows(one, model.seed)]
    for seed in reasons:
        rows += [replace(row, name=by) for by in RANKED_BY for row in not_run_rows(shapes, seed, PROTOCOLS)]
    rows = _beside_starqe(work, rows)
    more, tables = _of_one(work, models[0], kept[0]) if models else ([], [])
    shown = [row for row in rows if row.metric != "MR" and row.shape != ALL]
    main = [row for row in shown if row.metric in SHOWN and row.protocol == "paper"]
    notes = [*NOTES, *(("The sections on one missing edge are of the first seed.",) if len(models) > 1 else ())]
    return Report(
        "reasoning",
        "Reasoning: encoder, executor, and both",
        [*rows, *more],
        [*grids(shown), *tables],
        [*grids(main, stacked=True), *tables],
        bars(shown),
        _beside_nqe(work, rows),
        notes=[*notes, *(f"seed {seed}: {NOT_RUN}, {reason}" for seed, reason in reasons.items())],
        provenance=_provenance(work, models),
    )


def _beside_nqe(work: WorkFolder, rows: Sequence[Row]) -> list[Verdict]:
    """Compares the mixture with the best published average on equal terms; nothing to compare on another graph."""
    if work.graph.fingerprint != WD50K:
        return []
    key = ("mixture", AVERAGE, "MRR", COMPARED, "paper")
    found = [row.ours for row in over_seeds(rows) if (row.name, row.shape, row.metric, row.average, row.protocol) == key]
    ours = found[0] if found else None
    claim = "the mixture is above the best published mean MRR (NQE's; protocol paper, micro, as its evaluation computes it)"
    return [Verdict(claim, None if ours is None else ours > NQE, f"{NQE}" if ours is None else f"{ours:.2f} against {NQE}")]


def _limit(work: WorkFolder) -> int:
    return work.settings.limit or min(work.limit, LIMIT)


def _provenance(work: WorkFolder, models: Sequence[Model]) -> dict[str, str]:
    given = work.settings.run is not None
    sample = f"the first {_limit(work):,} test queries of each shape; realistic ranks among all {len(work.graph.entities):,} entities"
    found = provenance(work, None if given else ROWS["reasoning"], sample)
    weights = "; ".join(f"{name} {weight:g}" for name, weight in models[0].reasoner.weights.executor.items()) if models else NOT_RUN
    origin = {"run": str(work.settings.run)} if given else {"calibration": f"{VALIDATION} validation queries per shape"}
    return {**found, **origin, "weight of the executor": weights}


def _measured(work: WorkFolder, model: Model, shapes: Iterable[str]) -> Kept:
    def make(shape: str) -> Measured:
        work.tell(f"reasoning, seed {model.seed}: {shape}")
        return measured(model.reasoner, load_queries(work.queries, "test", [shape], _limit(work), work.graph)[shape])

    folder = work.folder / "reasoning" / "measured"
    return {shape: work.once(folder / f"{model.digest}-{_limit(work)}-{shape}.json", partial(make, shape)) for shape in shapes}


def ranked_rows(kept: Kept, seed: int) -> list[Row]:
    """Returns all metrics of encoder, executor and mixture: of all queries, and of those that are all new, for shapes that have some."""
    rows: list[Row] = []
    for suffix in ("", NEW):
        for by in RANKED_BY:
            for protocol in PROTOCOLS:
                sums, dropped = {}, {}
                for shape, one in kept.items():
                    chosen = np.array(one["all_new"] if suffix else range(one["queries"]), np.int64)
                    total, count = _sum(one["ranks"][protocol], by, chosen, seed, shape)
                    if count:
                        sums[shape], dropped[shape] = total, len(chosen) - count
                rows += report(sums, dropped, name=by + suffix, protocol=protocol, seed=seed, ties="realistic")
    return rows


def _sum(ranks: Measured, by: str, chosen: IntArray, seed: int, shape: str) -> tuple[Accumulator, int]:
    """Adds up the ranks of the chosen queries, and counts those that have any."""
    query = np.array(ranks["query"], np.int64)
    selected = np.isin(query, chosen)
    counts = np.unique(query[selected], return_counts=True)[1]
    total = Accumulator(seed=seed, stream=shape)
    total.add_terms(terms_of(np.array(ranks["rank"][by])[selected], np.array(ranks["candidates"])[selected]), counts)
    return total, len(counts)


def _beside_starqe(work: WorkFolder, rows: Sequence[Row]) -> list[Row]:
    """Adds the paper's StarQE numbers to the rows that rank all queries."""
    whole = [row for row in rows if not row.name.endswith(NEW)]
    as_starqe = beside_paper([replace(row, name="StarQE") for row in whole], "results", work.graph.fingerprint)
    compared = iter(as_starqe)
    return [row if row.name.endswith(NEW) else replace(row, paper=next(compared).paper) for row in rows]


def _of_one(work: WorkFolder, model: Model, kept: Kept) -> tuple[list[Row], list[Grid]]:
    """Returns the results of one model on queries with one missing edge."""
    path = work.folder / "reasoning" / "measured" / f"{model.digest}-{_limit(work)}-explained.json"
    kept_reasons = work.once(path, lambda: _explain(work, model, kept))
    reasons = [
        {key.replace("by lot", "at random"): value for key, value in one.items()} for one in kept_reasons
    ]  # as earlier versions wrote it
    explanations, worth = reason_rows(reasons, model.seed), worth_rows(kept, model.seed)
    losses = loss_rows(kept, model)
    tables = [
        _count_grid(kept),
        _grid("Explanations: how often what is missing is named, in percent", explanations),
        _grid("One missing edge: MRR of what is missing, alone and in the query", worth),
        _loss_grid(losses),
    ]
    return [*explanations, *worth, *losses], [table for table in tables if table.lines]


def _explain(work: WorkFolder, model: Model, kept: Kept) -> list[Measured]:
    """Explains answers that lack one statement, one per query, sampled at random from all shapes of more than one edge."""
    cases = [
        (shape, int(place))
        for shape, one in kept.items()
        if len(SHAPES[shape].edges) > 1
        for place in np.unique(one["missing"]["query"], return_index=True)[1]
    ]
    drawn = generator(0, "explained queries").permutation(len(cases))[:EXPLAINED]
    work.tell(f"reasoning, seed {model.seed}: explaining {len(drawn)} answers")
    tables = load_queries(work.queries, "test", list(kept), _limit(work), work.graph)
    executor = model.reasoner.executor(["train"])
    return [
        explained(executor, tables[shape], kept[shape]["missing"], place) for shape, place in (cases[number] for number in sorted(drawn))
    ]


def _row(name: str, shape: str, metric: str, values: Sequence[float], seed: int) -> Row:
    """Returns the mean of some values between 0 and 1 as a row, in percent."""
    ours = 100 * float(np.mean(values))
    return Row(name=name, shape=shape, metric=metric, average="micro", protocol=MISSING, n=len(values), seed=seed, ours=ours)


def reason_rows(reasons: Sequence[Measured], seed: int) -> list[Row]:
    """Returns the share of explanations that name what is missing, and that of guesses, by shape and overall."""
    several = [{f"{name}{SEVERAL}": one[name] for name in REASONS[2:]} | {"shape": one["shape"]} for one in reasons if one[REASONS[3]] < 1]
    rows = []
    for found, names in ((list(reasons), REASONS), (several, [f"{name}{SEVERAL}" for name in REASONS[2:]])):
        groups = {shape: [one for one in found if shape in (one["shape"], ALL)] for shape in (*SHAPES, ALL)}
        rows += [
            _row(name, shape, "named", [float(one[name]) for one in part], seed) for name in names for shape, part in groups.items() if part
        ]
    return rows


def worth_rows(kept: Kept, seed: int) -> list[Row]:
    """Returns the MRR of missing edges asked alone, and of the answers that lack them, by shape and overall."""
    by_shape = {shape: one["missing"]["reciprocal"] for shape, one in kept.items() if one["missing"]["query"]}
    rows = []
    for name in (ALONE, *RANKED_BY):
        values = {shape: reciprocal[name] for shape, reciprocal in by_shape.items()}
        rows += [_row(name, shape, "MRR", one, seed) for shape, one in values.items()]
        rows += [_row(name, ALL, "MRR", [value for one in values.values() for value in one], seed)] if values else []
    return rows


def loss_rows(kept: Kept, model: Model) -> list[LossRow]:
    """Returns the relations that lose most if a statement of theirs is missing: their share of all that the executor loses."""
    columns = ("relation", ALONE, "executor")
    parts = [(one["missing"]["relation"], *(one["missing"]["reciprocal"][name] for name in columns[1:])) for one in kept.values()]
    relation, alone, answer = (np.concatenate([np.empty(0), *column]) for column in zip(*parts, strict=True))
    names = model.reasoner.graph.relations
    rows: list[LossRow] = []
    for one in np.unique(relation).astype(int):
        of_relation = relation == one
        share = float((1 - answer[of_relation]).sum() / max((1 - answer).sum(), 1e-12))
        rows.append(
            LossRow(
                name=names.identifier(one),
                label=names.label(one),
                shape=ALL,
                metric="share of the loss",
                average="micro",
                protocol=MISSING,
                n=int(of_relation.sum()),
                seed=model.seed,
                ours=100 * share,
                alone=100 * float(alone[of_relation].mean()),
                answer=100 * float(answer[of_relation].mean()),
            )
        )
    return sorted(rows, key=lambda row: -row.number)[:RELATIONS]


def _count_grid(kept: Kept) -> Grid:
    counts = {
        "evaluated": [one["queries"] for one in kept.values()],
        "all new": [len(one["all_new"]) for one in kept.values()],
        "with an answer that lacks one statement": [len(set(one["missing"]["query"])) for one in kept.values()],
    }
    lines = tuple((name, tuple(f"{count:,}" for count in line)) for name, line in counts.items())
    return Grid("Test queries", tuple(kept), lines)


def _grid(title: str, rows: Sequence[Row]) -> Grid:
    """Arranges rows of one metric: one line per row, one column per shape; the number of queries in the header, or else in the cell."""
    cells = {(row.name, row.shape): row for row in rows}
    names, shapes = tuple(dict.fromkeys(row.name for row in rows)), tuple(dict.fromkeys(row.shape for row in rows))
    counts = {shape: cells[names[0], shape].n for shape in shapes}

    def write(name: str, shape: str) -> str:
        if (row := cells.get((name, shape))) is None:
            return "–"
        return f"{row.ours:.1f}" + (f" of {row.n:,}" if row.n != counts[shape] else "")

    lines = [("n", tuple(f"{counts[shape]:,}" for shape in shapes))] if rows else []
    return Grid(title, shapes, (*lines, *((name, tuple(write(name, shape) for shape in shapes)) for name in names)))


def _loss_grid(rows: Sequence[LossRow]) -> Grid:
    lines = []
    for row in rows:
        label = f" {row.label}" if row.label not in ("", row.name) else ""
        lines.append((row.name + label, (f"{row.n:,}", f"{row.alone:.1f}", f"{row.answer:.1f}", f"{row.ours:.1f}")))
    return Grid("The relations that lose most", ("n", f"MRR {ALONE}", "MRR of the answer", "share of the loss (%)"), tuple(lines))
