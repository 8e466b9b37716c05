"""``starqe bench``: every speed claim, measured on the spot."""

from pathlib import Path
from typing import Annotated, Any

import typer

from starqe.cli.show import Json, print_json, print_pairs, print_table

app = typer.Typer(help="Speed: measured here and now, as ratios.", no_args_is_help=True)
GraphFolder = Annotated[Path | None, typer.Option("--graph", help="The folder of a graph; the embedded one if left out.")]


@app.command("import")
def import_(
    statements: Annotated[int, typer.Option(help="How many statements to generate and import.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="Decides the statements.")] = 0,
    as_json: Json = False,
) -> None:
    """Measure the import of a generated file, half of it with qualifiers."""
    from starqe.bench.importing import bench_import

    _print(bench_import(statements, seed), as_json)


@app.command()
def queries(graph: GraphFolder = None, threads: Annotated[int | None, typer.Option(help="All cores if left out.")] = None, as_json: Json = False) -> None:
    """Measure the generation of all tables of the seven shapes."""
    from starqe.bench.generating import bench_queries

    result = bench_queries(_graph(graph), threads)
    if not as_json:
        counts = result.pop("counts")
        shapes = list(counts["train"])
        print_table(("queries", *shapes), [(split, *by_shape.values()) for split, by_shape in counts.items()])
    _print(result, as_json)


def _graph(folder: Path | None):  # type: ignore[no-untyped-def]
    from starqe.kg import embedded_graph, load_graph

    return load_graph(folder) if folder else embedded_graph()


def _print(result: dict[str, Any], as_json: bool) -> None:
    print_json(result) if as_json else print_pairs(result)
