"""``starqe evaluate``: how good a model is."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from starqe.cli.show import Json, print_json, print_table, progress

if TYPE_CHECKING:
    from starqe.learn import Run
    from starqe.queries import QueryTable

PROTOCOLS = ("paper", "strict")


def evaluate(
    run: Annotated[Path, typer.Argument(help="The run folder of a model.")],
    queries: Annotated[Path, typer.Argument(help="The folder of the query set.")],
    protocol: Annotated[Literal["paper", "strict", "both"], typer.Option(help="Which answers are ranked, and which filtered.")] = "both",
    average: Annotated[Literal["micro", "macro", "both"], typer.Option(help="Whether answers or queries count the same.")] = "both",
    split: Annotated[Literal["train", "valid", "test"], typer.Option(help="train: faithfulness, on the queries trained on.")] = "test",
    shapes: Annotated[str | None, typer.Option(help="Names with commas; all that are there if left out.")] = None,
    limit: Annotated[int | None, typer.Option(help="The first so many queries of each shape: a uniform sample.")] = None,
    per_query: Annotated[Path | None, typer.Option(help="Write every rank to this Parquet file.")] = None,
    threads: Annotated[int | None, typer.Option(help="All cores if left out.")] = None,
    as_json: Json = False,
) -> None:
    """Rank the answers of queries with a trained model."""
    import torch

    from starqe.learn import Run
    from starqe.measure.paper import beside_paper
    from starqe.queries import load_queries

    if threads:
        torch.set_num_threads(threads)
    opened = Run.open(run)
    if split == "train":
        protocol = "paper"
        limit = min(limit or opened.recipe.train.pool_per_shape, opened.recipe.train.pool_per_shape)
    tables = load_queries(queries, split, shapes.split(",") if shapes else None, limit, opened.graph)
    rows = []
    for name in PROTOCOLS if protocol == "both" else (protocol,):
        to = per_query.with_stem(f"{per_query.stem}-{name}") if per_query and protocol == "both" else per_query
        rows += _evaluate(opened, tables, name, _row_name(opened, split), to)
    rows = beside_paper(rows, "faithfulness" if split == "train" else "results", opened.graph.fingerprint)
    rows = [row for row in rows if average in ("both", row["average"])]
    if as_json:
        print_json(rows)
    else:
        print_rows(rows)


def _evaluate(run: "Run", tables: dict[str, "QueryTable"], protocol: str, row: str, per_query: Path | None) -> list[dict[str, Any]]:
    """Evaluates by one protocol, with a progress bar."""
    from starqe.measure.evaluate import Measure, evaluate
    from starqe.measure.sink import rank_sink

    done: dict[str, int] = {}
    total = sum(map(len, tables.values()))
    sink = rank_sink(per_query) if per_query else contextlib.nullcontext()
    with progress(f"evaluating ({protocol})", total, "queries") as advance, sink as opened:

        def note(shape: str, count: int, _total: int) -> None:
            advance(count - done.get(shape, 0))
            done[shape] = count

        settings = Measure.parse({"protocol": protocol})
        scorer, graph, seed = run.scorer(), run.graph, run.recipe.seed
        return evaluate(scorer, tables, len(graph.entities), settings, row=row, seed=seed, graph=graph, sink=opened, progress=note)


def _row_name(run: "Run", split: str) -> str:
    """Names the row of the paper that a model is to be compared with."""
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
