"""Tables for people: rows of results as Markdown, CSV or LaTeX, ours beside the paper's and the difference."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

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
"""The columns of a CSV file, which has one line a number."""


@dataclass(frozen=True)
class Grid:
    """One table: results by their name (lines) and shape (columns), all of one metric, average and protocol."""

    title: str
    shapes: tuple[str, ...]
    lines: tuple[tuple[str, tuple[str, ...]], ...]


def grids(rows: Iterable[Row]) -> list[Grid]:
    """Arranges rows into one grid for each metric, average and protocol; several seeds become mean ± standard deviation."""
    rows = _one_a_cell(rows)
    keys = dict.fromkeys((row["metric"], row["average"], row["protocol"]) for row in rows)
    return [_grid(key, [row for row in rows if (row["metric"], row["average"], row["protocol"]) == key]) for key in keys]


def difference(row: Row) -> float | None:
    """Gives ours minus the paper's, or None where one is missing."""
    return None if row["ours"] is None or row["paper"] is None else row["ours"] - row["paper"]


def cell(row: Row) -> str:
    """Writes one result: ``52.10 ± 0.30 (51.72, +0.38)`` is ours, its deviation over seeds, the paper's, and the difference."""
    if row["ours"] is None:
        return "–" if row["paper"] is None else f"– ({row['paper']:.2f})"
    text = f"{row['ours']:.2f}"
    if row.get("deviation") is not None:
        text += f" ± {row['deviation']:.2f}"
    gap = difference(row)
    return text if gap is None else f"{text} ({row['paper']:.2f}, {gap:+.2f})"


def markdown(rows: Iterable[Row]) -> str:
    """Writes Markdown tables, each under its title."""
    return "\n".join(_markdown(grid) for grid in grids(rows))


def latex(rows: Iterable[Row]) -> str:
    """Writes LaTeX tables, which need the package booktabs."""
    return "\n".join(_latex(grid) for grid in grids(rows))


def comma_separated(rows: Iterable[Row]) -> str:
    """Writes one line a number, with every column, unrounded."""
    text = io.StringIO()
    writer = csv.DictWriter(text, LONG, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        seed = " ".join(map(str, row["seed"])) if isinstance(row["seed"], list) else row["seed"]
        writer.writerow({**row, "seed": seed, "difference": difference(row)})
    return text.getvalue()


FORMATS: Mapping[str, Callable[[Iterable[Row]], str]] = {"markdown": markdown, "csv": comma_separated, "latex": latex}
"""The ways to write results."""


def _one_a_cell(rows: Iterable[Row]) -> list[Row]:
    rows = list(rows)
    cells = {(row["row"], row["shape"], row["metric"], row["average"], row["protocol"]) for row in rows}
    return rows if len(cells) == len(rows) else over_seeds(rows)


def _grid(key: tuple[str, str, str], rows: Sequence[Row]) -> Grid:
    metric, average, protocol = key
    shapes = tuple(dict.fromkeys(row["shape"] for row in rows))
    cells = {(row["row"], row["shape"]): cell(row) for row in rows}
    names = dict.fromkeys(row["row"] for row in rows)
    lines = tuple((name, tuple(cells.get((name, shape), "–") for shape in shapes)) for name in names)
    compared = ": ours (the paper's, difference)" if any(row["paper"] is not None for row in rows) else ""
    return Grid(f"{metric}, {average}, protocol {protocol}{compared}", shapes, lines)


def _markdown(grid: Grid) -> str:
    def line(fields: Iterable[str]) -> str:
        return "| " + " | ".join(field.replace("|", "\\|") for field in fields) + " |"

    rule = ["---", *["---:"] * len(grid.shapes)]
    body = [line((name, *cells)) for name, cells in grid.lines]
    return "\n".join([f"**{grid.title}**", "", line(["", *grid.shapes]), line(rule), *body, ""])


def _latex(grid: Grid) -> str:
    def line(fields: Iterable[str]) -> str:
        return "    " + " & ".join(map(_escape, fields)) + r" \\"

    head = [
        r"\begin{table}",
        rf"  \caption{{{_escape(grid.title)}}}",
        rf"  \begin{{tabular}}{{l{'r' * len(grid.shapes)}}}",
        r"    \toprule",
    ]
    body = [line((name, *cells)) for name, cells in grid.lines]
    return "\n".join([*head, line(["", *grid.shapes]), r"    \midrule", *body, r"    \bottomrule", r"  \end{tabular}", r"\end{table}", ""])


_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "–": "--"}


def _escape(text: str) -> str:
    return re.sub(r"[\\~^±–]|[&%$#_{}]", lambda match: _LATEX.get(match[0], "\\" + match[0]), text)
