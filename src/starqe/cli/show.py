"""Prints results and progress: tables and bars, or JSON; and handles interruptions."""

import contextlib
import json
import re
import signal
import sys
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what an earlier run wrote there.")]

Memory = Annotated[
    str | None, typer.Option("--memory", help="Refuse to begin if it would take more, such as 4GB; the default is the free memory.")
]

QUIET_SECONDS = 30.0
"""Minimum number of seconds between two progress lines without a terminal."""


def printable(text: str) -> str:
    """Replaces control characters (C0 except line breaks, DEL, C1), so that a label cannot control the terminal."""
    return "".join(character if character == "\n" or unicodedata.category(character) != "Cc" else "\ufffd" for character in text)


def say(text: str, error: bool = False) -> None:
    """Prints text that may hold labels or identifiers, on standard output or standard error."""
    print(printable(text), file=sys.stderr if error else sys.stdout)


def csv_cell(text: str) -> str:
    """Makes a cell of CSV safe: no control characters, and an apostrophe before what a spreadsheet would read as a formula."""
    return f"'{printable(text)}" if text.startswith(("=", "+", "-", "@")) else printable(text)


def as_json(value: Any) -> str:
    """Writes JSON; DEL and C1 characters, which could control a terminal, are written as escapes."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return re.sub("[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", text)


class Probability(float):
    """A number that is shown by `as_probability`."""


def as_probability(value: float) -> str:
    """Writes a probability with two digits, but never rounds to 0 or 1 what is neither."""
    if 0 < value < 0.005:
        return "<0.01"
    return ">0.99" if 0.995 <= value < 1 else f"{value:.2f}"


def print_json(value: Any) -> None:
    """Prints a value as JSON on standard output."""
    print(as_json(value))


def print_pairs(pairs: Mapping[str, Any], title: str = "") -> None:
    """Prints names and values, one per line."""
    if title:
        say(title)
    width = max(map(len, pairs), default=0)
    for name, value in pairs.items():
        say(f"  {name.replace('_', ' '):<{width}}  {as_text(value)}")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
    """Prints a table: the first column left-aligned, numbers right-aligned (even if some are missing)."""
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
        table.add_row(*(escape(printable(as_text(value))) for value in row))
    Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else 160).print(table)


def as_text(value: Any) -> str:
    """Formats a value: thousands separators, lists with commas."""
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case Probability():
            return as_probability(value)
        case float():
            return f"{value:,.2f}"
        case list() | tuple():
            return ", ".join(map(as_text, value)) or "none"
        case None:
            return "-"
    return str(value)


class Progress:
    """Shows how far one stage of work is: a bar on a terminal; elsewhere a line at most every 30 seconds, on standard error.

    Args:
        description: What is done, such as "training the encoder".
        total: The total number of units; None if unknown.
        unit: What is counted, such as "queries".
        quiet: Show nothing.
    """

    def __init__(self, description: str, total: float | None = None, unit: str = "", quiet: bool = False) -> None:
        self._description, self._total, self._unit = description, total, unit
        self._done, self._began = 0.0, time.monotonic()
        self._last_line = self._began
        self._lines = not quiet and not sys.stderr.isatty()
        self._bar: Any = None
        if quiet or self._lines:
            return
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        timing = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()) if total else (TimeElapsedColumn(),)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[detail]}"),
        )
        self._bar = RichProgress(*columns, *timing, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task(description, total=total, detail="")

    def __enter__(self) -> "Progress":
        if self._bar:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def __call__(self, units: float) -> None:
        """Adds units that were done."""
        self.at(self._done + units)

    def at(self, done: float, detail: str = "") -> None:
        """Sets the number of units done in total, with an optional detail."""
        self._done = done
        detail = detail or (f"{done:,.0f}" + (f" of {self._total:,.0f}" if self._total else "") + f" {self._unit}".rstrip())
        if self._bar:
            self._bar.update(self._task, completed=done, detail=detail)
        elif self._lines and done != self._total and time.monotonic() - self._last_line >= QUIET_SECONDS:
            self._last_line = time.monotonic()
            print(f"{self._description}: {detail}, {self._timing()}", file=sys.stderr, flush=True)

    def _timing(self) -> str:
        elapsed = (time.monotonic() - self._began) / 60
        if not self._total or self._done <= 0:
            return f"{elapsed:.1f} min"
        return f"{elapsed:.1f} of about {elapsed * max(self._total / self._done, 1):.1f} min"


class Interrupted(SystemExit):
    """Ends the program after an interruption whose message was printed already."""


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived."""


@contextlib.contextmanager
def resumable(command: str) -> Iterator[None]:
    """Ends a block that Ctrl-C or SIGTERM interrupts with a message on how to continue, and the exit code 130 or 143.

    Args:
        command: The command that continues from where the block was interrupted.
    """

    def terminate(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    except KeyboardInterrupt as stop:
        print(f"starqe: interrupted; what was done is kept. To continue: {command}", file=sys.stderr)
        raise Interrupted(128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)) from None
    finally:
        signal.signal(signal.SIGTERM, before)


progress = Progress
"""For commands: ``with progress("generating", 14, "tables") as advance``."""
