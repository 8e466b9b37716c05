"""``starqe evaluate``: how good a model is."""

import contextlib
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from starqe.cli.show import Json, print_json, print_table, progress


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
    from starqe.measure.evaluate import Measure
    from starqe.measure.evaluate import evaluate as measure
    from starqe.measure.paper import beside_paper
    from starqe.measure.sink import rank_sink
    from starqe.queries import check_tables, load_queries

    if threads:
        torch.set_num_threads(threads)
    opened = Run.open(run)
    if split == "train":
        protocol = "paper"
        limit = min(limit or opened.recipe.train.pool_per_shape, opened.recipe.train.pool_per_shape)
    tables = load_queries(queries, split, shapes.split(",") if shapes else None, limit)
    check_tables(opened.graph, tables.values())
    scorer, rows = opened.scorer(), []
    for name in ("paper", "strict") if protocol == "both" else (protocol,):
        sink = rank_sink(per_query.with_stem(f"{per_query.stem}-{name}") if protocol == "both" else per_query) if per_query else None
        with (
            progress(f"evaluating ({name})", sum(map(len, tables.values())), "queries") as advance,
            sink or contextlib.nullcontext() as opened_sink,
        ):
            done: dict[str, int] = {}

            def note(shape: str, count: int, _total: int, done: dict[str, int] = done) -> None:
                advance(count - done.get(shape, 0))
                done[shape] = count

            settings = Measure(protocol=name)
            seed = opened.recipe.seed
            rows += measure(
                scorer,
                tables,
                len(opened.graph.entities),
                settings,
                row="StarQE",
                seed=seed,
                graph=opened.graph,
                sink=opened_sink,
                progress=note,
            )
    rows = beside_paper(rows, "faithfulness" if split == "train" else "results")
    rows = [row for row in rows if average in ("both", row["average"])]
    if as_json:
        print_json(rows)
        return
    print_rows(rows)


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
