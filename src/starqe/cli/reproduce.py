"""``starqe reproduce``: the paper's tables, each by one command."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from starqe.cli.evaluate import print_rows
from starqe.cli.show import Json, print_json


def reproduce(
    table: Annotated[Literal["oracle"], typer.Argument(help="Which table.")],
    graph: Annotated[Path | None, typer.Option(help="The folder of a graph; the embedded one if left out.")] = None,
    queries: Annotated[Path | None, typer.Option(help="The folder of its query set.")] = None,
    sources: Annotated[str, typer.Option(help="Where the oracle's frequencies come from.")] = "all splits,test",
    as_json: Json = False,
) -> None:
    """Compute a table of the paper, beside the paper's numbers."""
    from starqe.experiments import TABLES

    rows = TABLES[table](graph, queries, [source.strip() for source in sources.split(",")])
    print_json(rows) if as_json else print_rows(rows)
