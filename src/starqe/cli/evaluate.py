"""``starqe evaluate``: how good a model is."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from starqe.cli.show import Json, print_json, print_table, progress

if TYPE_CHECKING:
    from starqe.measure.evaluate import Scorer
    from starqe.queries import QueryTable
    from starqe.reason.run import AnyRun

PROTOCOLS = ("paper", "strict")
BATCH = 64
"""How many queries are reasoned at once: each of them needs many predictions, and each of those a score for every entity."""


def evaluate(
    run: Annotated[Path, typer.Argument(help="The run folder of a model.")],
    queries: Annotated[Path | None, typer.Argument(help="The folder of the query set; left out with --links.")] = None,
    by: Annotated[
        Literal["encoder", "executor", "mixture"],
        typer.Option(help="What ranks: the model, or what a calibrated run reasons with it; it knows train only."),
    ] = "encoder",
    links: Annotated[
        Literal["published", "ours"] | None, typer.Option(help="Link prediction instead, by this protocol: ends of statements are ranked.")
    ] = None,
    protocol: Annotated[Literal["paper", "strict", "both"], typer.Option(help="Which answers are ranked, and which filtered.")] = "both",
    average: Annotated[Literal["micro", "macro", "both"], typer.Option(help="Whether answers or queries count the same.")] = "both",
    split: Annotated[Literal["train", "valid", "test"], typer.Option(help="train: faithfulness, on the queries trained on.")] = "test",
    shapes: Annotated[str | None, typer.Option(help="Names with commas; all that the model can be asked if left out.")] = None,
    limit: Annotated[int | None, typer.Option(help="So many queries of each shape, or statements: a uniform sample.")] = None,
    per_query: Annotated[Path | None, typer.Option(help="Write every rank to this Parquet file.")] = None,
    threads: Annotated[int | None, typer.Option(help="All cores if left out.")] = None,
    as_json: Json = False,
) -> None:
    """Rank the answers of queries, or the ends of statements, with a trained model."""
    if (queries is None) == (links is None):
        raise typer.BadParameter("give QUERIES to rank the answers of queries, or --links to rank the ends of statements")
    if links and (shapes or per_query or by != "encoder" or protocol != "both" or average != "both"):
        raise typer.BadParameter("--shapes, --per-query, --by, --protocol and --average are for queries: leave them out with --links")
    if split == "train" and protocol == "strict":
        raise typer.BadParameter("training queries have no answers that need another split: with --split train the protocol is paper")
    import torch

    from starqe.reason.run import open_run

    if threads:
        torch.set_num_threads(threads)
    opened = open_run(run)
    if links:
        rows = _links(opened, links, split, limit)
    else:
        assert queries is not None
        protocols = ("paper",) if split == "train" else PROTOCOLS if protocol == "both" else (protocol,)
        rows = _queries(opened, by, _tables(opened, queries, split, shapes, limit), protocols, split, per_query)
        rows = [row for row in rows if average in ("both", row["average"])]
    if as_json:
        print_json(rows)
    else:
        print_rows(rows)


def _tables(run: "AnyRun", queries: Path, split: str, shapes: str | None, limit: int | None) -> dict[str, "QueryTable"]:
    """Reads the queries to ask: of a training split, those that an encoder learned from; for a predictor, those of one edge."""
    from starqe.learn import Run
    from starqe.queries import load_queries

    names = shapes.split(",") if shapes else None
    if isinstance(run, Run):
        pool = run.recipe.train.pool_per_shape
        limit = min(limit or pool, pool) if split == "train" else limit
    else:
        names = names or ["1p"]
    return load_queries(queries, split, names, limit, run.graph)


def _queries(
    run: "AnyRun", by: str, tables: dict[str, "QueryTable"], protocols: tuple[str, ...], split: str, per_query: Path | None
) -> list[dict[str, Any]]:
    """Ranks the answers of queries, beside the paper's numbers."""
    from starqe.measure.paper import beside_paper

    rows, scorer = [], _scorer(run, by)
    for name in protocols:
        to = per_query.with_stem(f"{per_query.stem}-{name}") if per_query and len(protocols) > 1 else per_query
        values = {"protocol": name} if by == "encoder" else {"protocol": name, "batch": BATCH}
        rows += _evaluate(run, scorer, tables, values, _row_name(run, split) if by == "encoder" else by, to)
    return beside_paper(rows, "faithfulness" if split == "train" else "results", run.graph.fingerprint)


def _scorer(run: "AnyRun", by: str) -> "Scorer":
    """Gives what ranks: the model of a run, or what reasons with it.

    Raises:
        InputError: The run is none of an encoder, and only such a run reasons.
        StorageError: The run was not calibrated.
    """
    from starqe.errors import InputError
    from starqe.learn import Run
    from starqe.reason.reasoner import RANKED_BY, Reasoner

    if by == "encoder":
        return run.scorer()
    if not isinstance(run, Run):
        raise InputError(f"--by {by} needs the run of an encoder that was calibrated, found a one-hop predictor: {run.folder}")
    return RANKED_BY[by](Reasoner.open(run))


def _links(run: "AnyRun", protocol: str, split: str, limit: int | None) -> list[dict[str, Any]]:
    """Ranks the ends of statements, with a progress bar."""
    from starqe.reason.links import ENDS, link_rows, some_statements

    total = len(ENDS) * len(some_statements(run.graph, split, limit))
    with progress(f"predicting links ({protocol})", total, "questions") as advance:
        note = _note(advance)
        return link_rows(run.scorer(), run.graph, protocol, split, limit, row=_row_name(run, split), seed=run.recipe.seed, progress=note)


def _note(advance: Callable[[int], None]) -> Callable[[str, int, int], None]:
    """Gives what moves a bar by how many are done of each shape."""
    done: dict[str, int] = {}

    def note(shape: str, count: int, _total: int) -> None:
        advance(count - done.get(shape, 0))
        done[shape] = count

    return note


def _evaluate(
    run: "AnyRun", scorer: "Scorer", tables: dict[str, "QueryTable"], values: dict[str, Any], row: str, per_query: Path | None
) -> list[dict[str, Any]]:
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


def _row_name(run: "AnyRun", split: str) -> str:
    """Names the row of the paper that a model is to be compared with, or a predictor by its architecture."""
    from starqe.learn import Run

    if not isinstance(run, Run):
        return f"Predictor ({run.recipe.model.architecture})"
    if split == "train":
        return "StarQE-like"
    if run.recipe.train.variant != "qualified":
        return {"triple-only": "Triple-Only", "reified": "Reification"}[run.recipe.train.variant]
    return "StarQE" if run.recipe.model.layers else "Zero Layers"


def print_rows(rows: list[dict[str, Any]]) -> None:
    """Prints a table for each protocol and average, shapes across."""
    for protocol, average in dict.fromkeys((row["protocol"], row["average"]) for row in rows):
        mine = [row for row in rows if (row["protocol"], row["average"]) == (protocol, average)]
        shapes = list(dict.fromkeys(row["shape"] for row in mine))
        lines = []
        for name, metric in dict.fromkeys((row["row"], row["metric"]) for row in mine):
            cells = {row["shape"]: row for row in mine if (row["row"], row["metric"]) == (name, metric)}
            lines.append((f"{name}: {metric}", *(cells[shape]["ours"] for shape in shapes)))
            if any(cell["paper"] is not None for cell in cells.values()):
                lines.append((f"{name}: {metric} (paper)", *(cells[shape]["paper"] for shape in shapes)))
        print_table(("", *shapes), lines, f"protocol {protocol}, {average} average")
