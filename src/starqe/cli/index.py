"""``starqe index``: an approximate index of a run's entities."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from starqe.cli.show import Json, print_json, print_table, progress


def index(
    run: Annotated[Path, typer.Argument(help="The run folder of a trained model.")],
    seed: Annotated[int, typer.Option(help="Decides what is sampled.")] = 0,
    threads: Annotated[int | None, typer.Option(help="All cores if left out.")] = None,
    as_json: Json = False,
) -> None:
    """Build the index by which the best entities are found without comparing with all; for graphs of a million entities and more.

    It is kept in RUN, with the recall measured on sampled queries, and used whenever RUN is asked. It needs the extra 'index'.
    """
    import torch

    from starqe.reason.indexing import build_indexes

    if threads:
        torch.set_num_threads(threads)
    with progress("building the index", 1.0) as shown:
        found = build_indexes(run, seed, lambda share: shown.at(share, f"{share:.0%}"))
    measured = {kind: asdict(values) for kind, values in found.items()}
    if as_json:
        print_json(measured)
        return
    columns = list(next(iter(measured.values())))
    print_table(("model", *(name.replace("_", " ") for name in columns)), [(kind, *row.values()) for kind, row in measured.items()])
