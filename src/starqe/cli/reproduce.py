"""``starqe reproduce``: one command per table of the paper."""

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from starqe.cli.show import Json, print_json, print_table

if TYPE_CHECKING:
    from starqe.experiments import Report

Table = Literal[
    "statistics",
    "results",
    "pooling",
    "generalisation",
    "anchors",
    "faithfulness",
    "diameter",
    "oracle",
    "qualifiers",
    "reasoning",
    "shapes",
    "betae",
]


def reproduce(
    table: Annotated[Table, typer.Argument(help="Which table.")],
    graph: Annotated[Path | None, typer.Option(help="The folder of a graph; the embedded one, with tiny models, if left out.")] = None,
    queries: Annotated[Path | None, typer.Option(help="The folder of its query set; betae samples its own if --run is given.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder to work in and to resume from; tables share it. Left out: nothing is kept.")
    ] = None,
    as_published: Annotated[bool, typer.Option("--as-published", help="Train with the paper's hyper-parameters and loss.")] = False,
    as_run: Annotated[bool, typer.Option("--as-run", help="The same, trained as the authors' code did where the paper is silent.")] = False,
    rows: Annotated[str | None, typer.Option(help="Train these rows only, separated by commas, such as MPQE-like.")] = None,
    seeds: Annotated[int, typer.Option(help="The number of seeds per row: mean and standard deviation.")] = 1,
    budget: Annotated[float | None, typer.Option(help="Minutes of training, divided among the missing rows; 0: none.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs of training per row; if left out, the recipe of the row decides.")] = None,
    limit: Annotated[int | None, typer.Option(help="Queries per shape; if left out 5,000 (reasoning 2,000; embedded graph 100).")] = None,
    minimum: Annotated[int, typer.Option(help="qualifiers: leave out relations that fewer queries of a shape contain.")] = 10,
    sources: Annotated[str, typer.Option(help="oracle, results: sources of the frequencies, separated by commas.")] = "all splits,test",
    run: Annotated[Path | None, typer.Option(help="reasoning, shapes, betae: a calibrated run; without one, one is trained.")] = None,
    threads: Annotated[int | None, typer.Option(help="All cores if left out; one on the embedded graph.")] = None,
    as_json: Json = False,
) -> None:
    """Compute a table of the paper, next to the paper's numbers. The same command continues after an interruption."""
    import torch

    from starqe.experiments import Settings
    from starqe.experiments import reproduce as make

    if threads or graph is None:
        torch.set_num_threads(threads or 1)
    values = {
        "as_published": as_published,
        "as_run": as_run,
        "seeds": seeds,
        "budget": budget,
        "epochs": epochs,
        "limit": limit,
        "minimum": minimum,
        "run": run,
    }
    lists = {"sources": _names(sources), "rows": _names(rows or "")}
    settings = Settings.parse({**values, **lists})
    with _folder(out, kept_nowhere=graph is None or table in ("statistics", "oracle")) as folder:
        report, files = make(table, folder, graph, queries, settings, lambda text: print(text, file=sys.stderr, flush=True))
        print_json([row.to_json() for row in report.rows]) if as_json else _print(report, files if out else [])


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


@contextlib.contextmanager
def _folder(out: Path | None, kept_nowhere: bool) -> Iterator[Path]:
    """Yields the folder to work in: the given one, or a temporary one for tables that need no training."""
    if out is not None:
        yield out
    elif not kept_nowhere:
        raise typer.BadParameter("models are trained for this table: give a folder to keep them in", param_hint="--out")
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)


def _print(report: "Report", files: list[Path]) -> None:
    """Prints the main tables, the findings, and where the files are."""
    print(report.title)
    for grid in report.shown:
        print_table(("", *grid.columns), [(name, *cells) for name, cells in grid.lines], grid.title)
    for verdict in report.verdicts:
        print(f"{verdict.word}: {verdict.claim} ({verdict.all_numbers})")
    for name, text in report.provenance.items():
        print(f"{name}: {text}")
    for file in files:
        print(file)
