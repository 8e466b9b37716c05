"""How results are shown: tables for people, JSON for programs, progress only on a terminal."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what an earlier run wrote there.")]


def print_json(value: Any) -> None:
    """Prints a value as JSON on standard output."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_pairs(pairs: Mapping[str, Any], title: str = "") -> None:
    """Prints names and values, a line each."""
    if title:
        print(title)
    width = max(map(len, pairs), default=0)
    for name, value in pairs.items():
        print(f"  {name.replace('_', ' '):<{width}}  {as_text(value)}")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
    """Prints a table: the first column left, numbers right (also where some are missing)."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title or None, box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for index, column in enumerate(columns):
        values = [row[index] for row in rows if row[index] is not None]
        numeric = index > 0 and bool(values) and all(isinstance(value, int | float) for value in values)
        table.add_column(escape(column), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(as_text(value)) for value in row))
    Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else 160).print(table)


def as_text(value: Any) -> str:
    """Writes a value for people: thousands apart, lists with commas."""
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.2f}"
        case list() | tuple():
            return ", ".join(map(as_text, value)) or "none"
        case None:
            return "-"
    return str(value)


@contextlib.contextmanager
def progress(description: str, total: int | None = None, unit: str = "") -> Iterator[Callable[[int], None]]:
    """Shows a progress bar on a terminal and nothing elsewhere; gives the function that moves it."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda steps: bar.advance(task, steps)
