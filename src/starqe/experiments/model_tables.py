"""The tables of trained models: results, generalisation, faithfulness, and steps by the diameter."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from starqe.experiments.findings import deviations, verdicts
from starqe.experiments.oracle_table import oracle_rows
from starqe.experiments.plots import SHOWN, bars
from starqe.experiments.regimes import ROWS
from starqe.experiments.table_report import Report, provenance
from starqe.experiments.train_rows import Job, finished, row_recipe, train_missing, unequal
from starqe.experiments.work_folder import WorkFolder
from starqe.learn import Run
from starqe.measure.evaluate import Measure, evaluate
from starqe.measure.metrics import AVERAGES, METRICS
from starqe.measure.paper import COMPARED, beside_paper
from starqe.measure.result_tables import grids
from starqe.measure.rows import ALL, AVERAGE, Row, over_seeds
from starqe.queries import SHAPES, QueryTable, load_queries, tables_of

NOT_RUN = "not run"
_OWN_QUERIES = (
    "Every row sees the training queries of its shapes and nothing else: no auxiliary queries, as in the paper. The last weights "
    "are evaluated, not those of the best validation."
)


@dataclass(frozen=True)
class ModelTable:
    """One table of trained models."""

    title: str
    split: str = "test"
    compared_with: str = ""
    """The published table that has its rows; its own name if empty."""
    oracle: bool = False
    """Whether the Oracle's rows belong to it."""
    exchanged: bool = False
    """Whether each row is evaluated once more, with the anchors of each query replaced by those of another."""
    notes: tuple[str, ...] = ()


MODEL_TABLES: Mapping[str, ModelTable] = {
    "results": ModelTable(
        "Answering queries with qualifiers: StarQE and its baselines",
        oracle=True,
        notes=(
            _OWN_QUERIES,
            "The published deviations are over five seeds.",
            "The published Oracle numbers are micro averages; they come from two sources of frequencies, which are two rows here.",
        ),
    ),
    "pooling": ModelTable(
        "Zero Layers with and without the relations in its pooling",
        compared_with="results",
        notes=("The paper has no numbers for this experiment, only the finding in words; Zero Layers has those of the main results.",),
    ),
    "generalisation": ModelTable(
        "Generalisation: trained on some shapes, evaluated on all",
        notes=(_OWN_QUERIES,),
    ),
    "anchors": ModelTable(
        "Which rows use the anchors: the same queries with the anchors of others",
        compared_with="generalisation",
        exchanged=True,
        notes=(
            "With exchanged anchors, each query has the anchors of the query before it; relations, qualifiers and answers are its own. A "
            "row that is as good with them has not used the anchors. The paper has no such experiment.",
        ),
    ),
    "faithfulness": ModelTable(
        "Faithfulness: evaluated on training queries",
        split="train",
        notes=(
            "The queries are the first of each table. As published, an epoch is the whole pool; in ours it is a fresh sample, and of a "
            "large table a training sees only some queries (the passes below say how many). MPQE-like was trained on 1p alone.",
        ),
    ),
    "diameter": ModelTable(
        "As many message passing steps as the diameter of the query, or one more",
        compared_with="results",
        notes=("The paper has no numbers for this experiment, only the finding in words; StarQE has those of the main results.",),
    ),
}
"""The tables of trained models, by the name on the command line."""


def model_report(work: WorkFolder, table: str) -> Report:
    """Reproduces a table of trained models: trains what is missing, evaluates what is not evaluated, and compares."""
    spec, trained = MODEL_TABLES[table], ROWS[table]
    reasons = train_missing(work, table)
    rows: list[Row] = []
    for name, regime in trained.items():
        for seed in work.seeds:
            rows += [replace(row, name=name) for row in _rows(work, (regime, seed), spec.split)]
            if spec.exchanged:
                rows += [replace(row, name=f"{name}, exchanged") for row in _rows(work, (regime, seed), spec.split, exchanged=True)]
    rows = beside_paper(rows, spec.compared_with or table, work.graph.fingerprint)
    rows += oracle_rows(work) if spec.oracle else []
    shown = [row for row in rows if row.metric != "MR" and row.shape != ALL]
    return Report(
        table,
        spec.title,
        rows,
        grids(shown),
        grids([row for row in shown if row.metric in SHOWN and row.protocol == "paper"], stacked=True),
        bars(shown),
        [*verdicts(table, rows), *deviations(rows, trained)],
        [
            *unequal(work, table),
            *against_paper(rows, trained),
            *spec.notes,
            *_trained_on(work, trained),
            *(f"{job[0]}-{job[1]}: {NOT_RUN}, {reason}" for job, reason in reasons.items()),
        ],
        provenance(work, trained, _sample(work, spec, rows)),
    )


def _sample(work: WorkFolder, spec: ModelTable, rows: Iterable[Row]) -> str:
    """Describes the queries and the candidates."""
    counts: dict[str, int] = {}
    for row in rows:
        if (row.average, row.protocol) == ("macro", "paper") and row.shape not in (AVERAGE, ALL) and row.ties == "realistic":
            counts[row.shape] = max(row.n, counts.get(row.shape, 0))
    sizes = ", ".join(f"{shape} {count:,}" for shape, count in counts.items())
    oracle = "; all test queries for the Oracle" if spec.oracle else ""
    return (
        f"the first {spec.split} queries of each shape ({sizes}){oracle}; realistic ranks among all {len(work.graph.entities):,} entities"
    )


def _rows(work: WorkFolder, job: Job, split: str, exchanged: bool = False) -> list[Row]:
    """Returns the numbers of one model, from its folder if they exist; rows without numbers if there is no model."""
    available = tables_of(work.queries).get(split, {})
    shapes = [shape for shape in SHAPES if available.get(shape)]
    # What is known of a query says nothing about its answers if the anchors are those of another.
    protocols = ("paper",) if split == "train" or exchanged else ("paper", "strict")
    if finished(work, job) is None:
        return not_run_rows(shapes, job[1], protocols)
    path = work.run_folder(*job) / f"{split}{'-exchanged' if exchanged else ''}-{work.limit}.json"
    return work.rows_once(path, Row, lambda: _evaluate(work, job, split, shapes, protocols, exchanged))


def exchange_anchors(table: QueryTable) -> QueryTable:
    """Returns the queries of a table, each with the anchors of the one before it."""
    return replace(table, anchors=np.roll(table.anchors, 1, axis=0))


def _evaluate(work: WorkFolder, job: Job, split: str, shapes: list[str], protocols: Sequence[str], exchanged: bool) -> list[Row]:
    work.tell(f"{job[0]}-{job[1]}: evaluating on {split} queries{' with exchanged anchors' if exchanged else ''}")
    run = Run.open(work.run_folder(*job), work.graph)
    limit = min(work.limit, run.recipe.train.pool_per_shape) if split == "train" else work.limit
    tables = load_queries(work.queries, split, shapes, limit, work.graph)
    tables = {shape: exchange_anchors(table) for shape, table in tables.items()} if exchanged else tables
    scorer, entities = run.scorer(), len(work.graph.entities)
    rows: list[Row] = []
    for protocol in protocols:
        settings = Measure.parse({"protocol": protocol})
        rows += evaluate(scorer, tables, entities, settings, row=job[0], seed=job[1], graph=work.graph)
    return rows


def not_run_rows(shapes: Iterable[str], seed: int, protocols: Iterable[str]) -> list[Row]:
    """Returns rows without numbers, for a model that does not exist."""
    empty = Row(
        name="", shape="", metric="", average="", protocol="", n=0, seed=seed, ours=None, ties="realistic", dropped=0, missing=NOT_RUN
    )
    return [
        replace(empty, shape=shape, metric=metric, average=average, protocol=protocol)
        for protocol in protocols
        for metric in METRICS
        for average in AVERAGES
        for shape in (*shapes, AVERAGE, ALL)
    ]


def against_paper(rows: Sequence[Row], trained: Collection[str]) -> list[str]:
    """Counts the cells of the trained rows that are at or above the paper's, by the published average, and names the others."""
    lines = []
    for metric in SHOWN:
        cells = [
            (row, row.difference)
            for row in over_seeds([row for row in rows if (row.metric, row.average, row.protocol) == (metric, COMPARED, "paper")])
            if row.name in trained and row.shape in SHAPES and row.difference is not None
        ]
        below = [f"{row.name} {row.shape} ({row.ours:.1f}, the paper {row.paper:.1f})" for row, difference in cells if difference < 0]
        if cells:
            rest = f"; below: {', '.join(below)}" if below else ""
            lines.append(f"{metric}, {COMPARED}: {len(cells) - len(below)} of {len(cells)} cells are at or above the paper's{rest}.")
    return lines


def _trained_on(work: WorkFolder, trained: Mapping[str, str]) -> list[str]:
    lines = []
    for name, regime in trained.items():
        config = row_recipe(work, (regime, 0)).train
        form = {"qualified": "", "triple-only": ", without qualifiers", "reified": ", reified"}[config.variant]
        one_hop = "" if config.one_hop == "none" else ", and auxiliary queries of one edge"
        lines.append(f"{name} is trained on {', '.join(config.shapes)}{form}{one_hop}; loss {config.loss}.")
    return lines
