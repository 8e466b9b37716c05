"""Result tables: Markdown, CSV or LaTeX, with our numbers, the paper's and the difference."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from starqe.measure.rows import Row, over_seeds

LONG = (
    "row",
    "shape",
    "metric",
    "average",
    "protocol",
    "n",
    "seed",
    "ours",
    "deviation",
    "low",
    "high",
    "paper",
    "difference",
    "dropped",
    "ties",
)
"""The columns of every CSV file, which has one line per number; cells that only some rows have come after."""


@dataclass(frozen=True)
class Grid:
    """One table: a title, the heads of the columns after the first, and lines with their names.

    Results are arranged by name (lines) and shape (columns), all of one metric, average and protocol.
    """

    title: str
    columns: tuple[str, ...]
    lines: tuple[tuple[str, tuple[str, ...]], ...]


def grids(rows: Iterable[Row], stacked: bool = False) -> list[Grid]:
    """Arranges rows into one grid for each metric, average, protocol and reduction class; several seeds become mean ± standard deviation.

    The paper's number and the difference follow ours in a cell or, stacked, in lines below: narrow enough for a terminal.
    """
    rows = _one_per_cell(rows)
    keys = dict.fromkeys((row.metric, row.average, row.protocol, row.reduction) for row in rows)
    return [_grid(key, [row for row in rows if (row.metric, row.average, row.protocol, row.reduction) == key], stacked) for key in keys]


def cell(row: Row) -> str:
    """Writes one result: ``52.10 ± 0.30 (51.72, +0.38)`` is ours, its deviation over seeds, the paper's, and the difference.

    Without a number, the cell says why it is missing, or has a dash.
    """
    if row.ours is None:
        missing = row.missing or "–"
        return missing if row.paper is None else f"{missing} ({row.paper:.2f})"
    text = f"{row.ours:.2f}"
    if row.deviation is not None:
        text += f" ± {row.deviation:.2f}"
    return text if row.difference is None else f"{text} ({row.paper:.2f}, {row.difference:+.2f})"


def comma_separated(rows: Iterable[Row]) -> str:
    """Writes one line per number, unrounded, with all columns, including those that only some rows have."""
    lines = []
    for row in rows:
        seed = " ".join(map(str, row.seed)) if isinstance(row.seed, tuple) else row.seed
        lines.append({**row.to_json(), "seed": seed, "difference": row.difference})
    more = dict.fromkeys(key for line in lines for key in line if key not in (*LONG, "missing"))
    text = io.StringIO()
    writer = csv.DictWriter(text, (*LONG, *more), extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _one_per_cell(rows: Iterable[Row]) -> list[Row]:
    rows = list(rows)
    cells = {(row.name, row.shape, row.metric, row.average, row.protocol, row.reduction) for row in rows}
    return rows if len(cells) == len(rows) else over_seeds(rows)


def _grid(key: tuple[str, str, str, str], rows: Sequence[Row], stacked: bool) -> Grid:
    metric, average, protocol, reduction = key
    title = f"{metric}, {average}, protocol {protocol}" + (f", answers with {reduction}" if reduction else "")
    shapes = tuple(dict.fromkeys(row.shape for row in rows))
    lines: list[tuple[str, tuple[str, ...]]] = []
    for name in dict.fromkeys(row.name for row in rows):
        by_shape = {row.shape: row for row in rows if row.name == name}
        for suffix, write in _STACKED.items() if stacked else {"": cell}.items():
            if not suffix or any(row.paper is not None for row in by_shape.values()):
                lines.append((name + suffix, tuple(write(by_shape[shape]) if shape in by_shape else "–" for shape in shapes)))
    if stacked:
        return Grid(title, shapes, tuple(lines))
    compared = ": ours (the paper's, difference)" if any(row.paper is not None for row in rows) else ""
    return Grid(title + compared, shapes, tuple(lines))


_STACKED: Mapping[str, Callable[[Row], str]] = {
    "": lambda row: cell(replace(row, paper=None)),
    ", paper": lambda row: "–" if row.paper is None else f"{row.paper:.2f}",
    ", difference": lambda row: "–" if row.difference is None else f"{row.difference:+.2f}",
}


def grid_markdown(grid: Grid) -> str:
    """Writes one table as Markdown, under its title."""

    def line(fields: Iterable[str]) -> str:
        return "| " + " | ".join(field.replace("|", "\\|") for field in fields) + " |"

    rule = ["---", *["---:"] * len(grid.columns)]
    body = [line((name, *cells)) for name, cells in grid.lines]
    return "\n".join([f"**{grid.title}**", "", line(["", *grid.columns]), line(rule), *body, ""])


def grid_latex(grid: Grid) -> str:
    """Writes one table as LaTeX, which needs the package booktabs."""

    def line(fields: Iterable[str]) -> str:
        return "    " + " & ".join(map(_escape, fields)) + r" \\"

    head = [
        r"\begin{table}",
        rf"  \caption{{{_escape(grid.title)}}}",
        rf"  \begin{{tabular}}{{l{'r' * len(grid.columns)}}}",
        r"    \toprule",
    ]
    body = [line((name, *cells)) for name, cells in grid.lines]
    return "\n".join([*head, line(["", *grid.columns]), r"    \midrule", *body, r"    \bottomrule", r"  \end{tabular}", r"\end{table}", ""])


_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "–": "--"}


def _escape(text: str) -> str:
    return re.sub(r"[\\~^±–]|[&%$#_{}]", lambda match: _LATEX.get(match[0], "\\" + match[0]), text)
