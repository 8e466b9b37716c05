"""``starqe evaluate``: measures a model."""

import contextlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from starqe.cli.show import Json, Memory, print_json, print_table, progress

if TYPE_CHECKING:
    from torch import Tensor

    from starqe.measure.evaluate import Scorer
    from starqe.measure.links import GapScorer
    from starqe.measure.rows import Row
    from starqe.queries import QueryTable
    from starqe.queries.gaps import Gaps
    from starqe.reason.predictor.run import AnyRun, PredictorRun
    from starqe.reason.rules.firing import RuleBook

PROTOCOLS = ("paper", "strict")
BATCH = 64
"""Number of queries per batch of reasoning: each of them needs many predictions, and each of those a score for every entity."""


def evaluate(
    run: Annotated[Path, typer.Argument(help="The run folder of a model.")],
    queries: Annotated[Path | None, typer.Argument(help="The folder of the query set; left out with --links and --numbers.")] = None,
    by: Annotated[
        Literal["encoder", "predictor", "executor", "mixture", "rules"] | None,
        typer.Option(help="What ranks; if left out, the run's model, or with --links its predictor of single facts. All know train only."),
    ] = None,
    links: Annotated[
        Literal["published", "ours", "every-entity"] | None,
        typer.Option(help="Link prediction instead, by this protocol: ends of statements are ranked, or every entity, values included."),
    ] = None,
    numbers: Annotated[
        bool, typer.Option("--numbers", help="Predict numbers and dates instead, next to the median of each relation.")
    ] = False,
    protocol: Annotated[Literal["paper", "strict", "both"], typer.Option(help="Which answers are ranked, and which filtered.")] = "both",
    average: Annotated[Literal["micro", "macro", "both"], typer.Option(help="Whether answers or queries count the same.")] = "both",
    split: Annotated[Literal["train", "valid", "test"], typer.Option(help="train: faithfulness, on the queries trained on.")] = "test",
    shapes: Annotated[str | None, typer.Option(help="Names, separated by commas; all that the model supports if left out.")] = None,
    limit: Annotated[int | None, typer.Option(help="Number of queries per shape, or of statements: a uniform sample.")] = None,
    by_reduction: Annotated[
        bool, typer.Option("--by-reduction", help="Also report answers by how many of their edges train lacks; full inference apart.")
    ] = False,
    per_query: Annotated[Path | None, typer.Option(help="Write every rank to this Parquet file.")] = None,
    threads: Annotated[int | None, typer.Option(help="All cores if left out.")] = None,
    memory: Memory = None,
    as_json: Json = False,
) -> None:
    """Rank the answers of queries, or the ends of statements, with a trained model."""
    if sum((queries is not None, links is not None, numbers)) != 1:
        raise typer.BadParameter("give QUERIES to rank answers, --links to rank the ends of statements, or --numbers to predict numbers")
    if (links or numbers) and (shapes or per_query or by_reduction or protocol != "both" or average != "both"):
        raise typer.BadParameter(
            "--shapes, --per-query, --by-reduction, --protocol and --average are for queries: leave them out with --links and --numbers"
        )
    if split == "train" and protocol == "strict":
        raise typer.BadParameter("training queries have no answers that need another split: with --split train the protocol is paper")
    if by == "rules" and not links:
        raise typer.BadParameter("rules rank the ends of statements: give --links", param_hint="--by")
    opened = _opened(run, threads, memory)
    if numbers:
        _numbers(opened, split, limit, as_json)
        return
    ranked_by = by or _default(opened, bool(links))
    if links:
        rows = _links(opened, ranked_by, links, split, limit)
    else:
        assert queries is not None
        protocols = ("paper",) if split == "train" else PROTOCOLS if protocol == "both" else (protocol,)
        tables = _tables(opened, ranked_by, queries, split, shapes, limit)
        rows = _queries(opened, ranked_by, tables, protocols, split, per_query, by_reduction)
        rows = [row for row in rows if average in ("both", row.average)]
    if as_json:
        print_json([row.to_json() for row in rows])
    else:
        if links:
            print(f"measured: {rows[0].name}, {'which predicts single facts in this run' if by is None else f'--by {by}'}")
        print_rows(rows)


def _opened(run: Path, threads: int | None, memory: str | None) -> "AnyRun":
    """Opens a run, and checks that there is enough memory to rank with it."""
    import torch

    from starqe.learn.lesson import evaluation_bytes
    from starqe.learn.memory_limit import check_memory
    from starqe.reason.predictor.run import open_run
    from starqe.serve.running.memory import limit

    if threads:
        torch.set_num_threads(threads)
    opened = open_run(run)
    check_memory(evaluation_bytes(opened), limit(memory)[0] if memory else None, "evaluation", "fewer --threads")
    return opened


def _default(run: "AnyRun", links: bool) -> str:
    """Returns the default scorer: the run's model; for single facts the run's one-hop predictor, if it has one."""
    from starqe.learn import Run
    from starqe.learn.run import HEADER
    from starqe.reason.calibration import PREDICTOR

    if not isinstance(run, Run):
        return "predictor"
    return "predictor" if links and (run.folder / PREDICTOR / HEADER).exists() else "encoder"


def _tables(run: "AnyRun", by: str, queries: Path, split: str, shapes: str | None, limit: int | None) -> dict[str, "QueryTable"]:
    """Reads the queries: of a training split, those that an encoder was trained on; for a predictor, those of one edge."""
    from starqe.learn import Run
    from starqe.queries import load_queries

    names = shapes.split(",") if shapes else None
    if isinstance(run, Run) and by != "predictor":
        pool = run.recipe.train.pool_per_shape
        limit = min(limit or pool, pool) if split == "train" else limit
    else:
        names = names or ["1p"]
    return load_queries(queries, split, names, limit, run.graph)


def _queries(
    run: "AnyRun",
    by: str,
    tables: dict[str, "QueryTable"],
    protocols: tuple[str, ...],
    split: str,
    per_query: Path | None,
    by_reduction: bool,
) -> list["Row"]:
    """Ranks the answers of queries, and adds the paper's numbers."""
    from starqe.measure.paper import beside_paper

    rows, scorer = [], _scorer(run, by)
    for name in protocols:
        to = per_query.with_stem(f"{per_query.stem}-{name}") if per_query and len(protocols) > 1 else per_query
        values = {"protocol": name, "by_reduction": by_reduction, **({"batch": BATCH} if by in ("executor", "mixture") else {})}
        rows += _evaluate(run, scorer, tables, values, _row_name(run, by, split), to)
    return beside_paper(rows, "faithfulness" if split == "train" else "results", run.graph.fingerprint)


def _scorer(run: "AnyRun", by: str) -> "Scorer":
    """Returns the scorer: a model of the run, or the reasoner with both.

    Raises:
        InputError: The run does not have this part.
        StorageError: The run was not calibrated.
    """
    from starqe.errors import InputError
    from starqe.learn import Run
    from starqe.reason.reasoner import RANKED_BY, Reasoner

    if by == "predictor":
        return one_hop_predictor(run).scorer()
    if not isinstance(run, Run):
        raise InputError(f"--by {by} needs the run of an encoder, found a one-hop predictor: {run.folder}. Leave --by out")
    return run.scorer() if by == "encoder" else RANKED_BY[by](Reasoner.open(run))


def one_hop_predictor(run: "AnyRun") -> "PredictorRun":
    """Returns the one-hop predictor that a run is, or has."""
    from starqe.errors import InputError
    from starqe.learn.run import HEADER
    from starqe.reason.calibration import PREDICTOR
    from starqe.reason.predictor.run import PredictorRun

    if isinstance(run, PredictorRun):
        return run
    if not (run.folder / PREDICTOR / HEADER).exists():
        raise InputError(f"--by predictor needs a one-hop predictor, and {run.folder} has none. Choose --by encoder")
    return PredictorRun.open(run.folder / PREDICTOR, run.graph)


def rules_of(predictor: "PredictorRun") -> "RuleBook":
    """Returns the rules of a one-hop predictor.

    Raises:
        InputError: It has none.
    """
    from starqe.errors import InputError

    book = predictor.rules()
    if book is None:
        raise InputError(f"{predictor.folder} has no rules: it was trained without them. Train one with the setting train.rules=true")
    return book


class _OneHop:
    """Asks a scorer of queries for single facts."""

    def __init__(self, scorer: "Scorer") -> None:
        self._scorer = scorer

    def entity_scores(self, gaps: "Gaps", out: "Tensor") -> "Tensor":
        """Scores all entities as the missing one: (B, V)."""
        import numpy as np

        from starqe.queries.gaps import queries_of

        return self._scorer.scores(queries_of(gaps), np.arange(len(gaps)), out)


def _links(run: "AnyRun", by: str, protocol: str, split: str, limit: int | None) -> list["Row"]:
    """Ranks the ends of statements, and shows the progress."""
    from starqe.learn import EncoderScorer
    from starqe.measure.links import LINKS, link_rows, questions_for, some_statements
    from starqe.reason.predictor.scorer import PredictorScorer

    graph = one_hop_predictor(run).learned if by == "predictor" else run.graph
    statements = some_statements(graph, split, limit)
    total = sum(len(questions_for(graph, statements, part)[0]) for part in LINKS[protocol].parts)
    asked: GapScorer
    if by == "rules":
        asked = rules_of(one_hop_predictor(run))
    else:
        scorer = _scorer(run, by)
        asked = scorer if isinstance(scorer, EncoderScorer | PredictorScorer) else _OneHop(scorer)
    with progress(f"predicting links ({protocol})", total, "questions") as advance:
        row, note = _row_name(run, by, split), _note(advance)
        return link_rows(asked, graph, protocol, split, limit, row=row, seed=run.recipe.seed, progress=note)


def _numbers(run: "AnyRun", split: str, limit: int | None, as_json: bool) -> None:
    """Predicts numbers and dates, and prints the errors."""
    from starqe.errors import InputError
    from starqe.learn import Run
    from starqe.reason.numbers import NumberPredictor, condition_reliability, number_rows
    from starqe.reason.reasoner import Reasoner

    found = Reasoner.open(run).numbers(["train"]) if isinstance(run, Run) else NumberPredictor.of(run.scorer())
    if found is None:
        raise InputError(f"{run.folder} predicts entities only: its graph has too few numbers and dates, or it was trained without them")
    rows, conditions = number_rows(found, split, limit), condition_reliability(found, split, limit)
    if as_json:
        print_json({"relations": [row.to_json() for row in rows], "conditions": asdict(conditions)})
        return
    columns = ("relation", "statements", "MAE", "RMSE", "MAE (median)", "RMSE (median)", "in 50 %", "in 80 %", "in 95 %")
    title = "errors in percent of the range of a relation, next to always predicting its median; values inside the predicted intervals"
    print_table(columns, [tuple(row.to_json().values()) for row in rows], title)
    print(f"conditions (is the value below a limit?): {conditions.count:,} cases, expected calibration error {conditions.ece:.3f}")


def _note(advance: Callable[[int], None]) -> Callable[[str, int, int], None]:
    """Returns a function that moves a progress bar by what is done of each shape."""
    done: dict[str, int] = {}

    def note(shape: str, count: int, _total: int) -> None:
        advance(count - done.get(shape, 0))
        done[shape] = count

    return note


def _evaluate(
    run: "AnyRun", scorer: "Scorer", tables: dict[str, "QueryTable"], values: dict[str, Any], row: str, per_query: Path | None
) -> list["Row"]:
    """Evaluates by one protocol, with a progress bar."""
    from starqe.measure.evaluate import Measure, evaluate
    from starqe.measure.sink import rank_sink

    total = sum(map(len, tables.values()))
    sink = rank_sink(per_query) if per_query else contextlib.nullcontext()
    with progress(f"evaluating ({values['protocol']})", total, "queries") as advance, sink as opened:
        settings = Measure.parse(values)
        graph, seed = run.graph, run.recipe.seed
        return evaluate(
            scorer, tables, len(graph.entities), settings, row=row, seed=seed, graph=graph, sink=opened, progress=_note(advance)
        )


def _row_name(run: "AnyRun", by: str, split: str) -> str:
    """Names what was measured: an encoder by the row of the paper to compare with, a predictor by its architecture."""
    from starqe.learn import Run

    if by == "predictor":
        return f"Predictor ({one_hop_predictor(run).recipe.model.architecture})"
    if by != "encoder":
        return by
    assert isinstance(run, Run)
    if split == "train":
        return "StarQE-like"
    if run.recipe.train.variant != "qualified":
        return {"triple-only": "Triple-Only", "reified": "Reification"}[run.recipe.train.variant]
    return "StarQE" if run.recipe.model.layers else "Zero Layers"


def print_rows(rows: "list[Row]") -> None:
    """Prints a table for each protocol, average and reduction class, with shapes as columns."""
    for protocol, average, reduction in dict.fromkeys((row.protocol, row.average, row.reduction) for row in rows):
        chosen = [row for row in rows if (row.protocol, row.average, row.reduction) == (protocol, average, reduction)]
        shapes = list(dict.fromkeys(row.shape for row in chosen))
        lines = []
        for name, metric in dict.fromkeys((row.name, row.metric) for row in chosen):
            cells = {row.shape: row for row in chosen if (row.name, row.metric) == (name, metric)}
            lines.append((f"{name}: {metric}", *(cells[shape].ours for shape in shapes)))
            if any(cell.paper is not None for cell in cells.values()):
                lines.append((f"{name}: {metric} (paper)", *(cells[shape].paper for shape in shapes)))
        which = f", answers with {reduction}" if reduction else ""
        print_table(("", *shapes), lines, f"protocol {protocol}, {average} average{which}")
