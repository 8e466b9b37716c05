"""Plots of the tables: our numbers and the paper's."""

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from starqe.measure.paper import COMPARED
from starqe.measure.rows import ALL, Row, over_seeds

OURS, PAPER, GAIN, LOSS = "#2563eb", "#cbd5e1", "#2563eb", "#dc2626"
SHOWN = ("MRR", "Hits@10")
"""The main metrics: those that are drawn, and shown on a terminal."""

Draw = Callable[[Path], None]


def bars(rows: Sequence[Row], protocol: str = "paper", average: str = COMPARED) -> Draw:
    """Draws a panel for each row of a table and each main metric: by shape, ours and the paper's.

    The average is micro if left out, as the paper's is.
    """
    merged = [row for row in over_seeds(rows) if row.protocol == protocol and row.average == average and row.shape != ALL]

    def draw(path: Path) -> None:
        names = list(dict.fromkeys(row.name for row in merged))
        figure = Figure(figsize=(11, 0.8 + 1.7 * len(names)), layout="constrained")
        grid = figure.subplots(len(names), len(SHOWN), sharex=True, sharey=True, squeeze=False)
        for line, name in zip(grid, names, strict=True):
            for axes, metric in zip(line, SHOWN, strict=True):
                _panel(axes, [row for row in merged if (row.name, row.metric) == (name, metric)])
                axes.set_title(f"{name}: {metric} (%), {average}", fontsize=9, loc="left")
        if any(row.paper is not None for row in merged):
            handles = [Patch(color=colour, label=label) for colour, label in ((OURS, "ours"), (PAPER, "paper"))]
            figure.legend(handles=handles, loc="outside upper right", ncols=2, frameon=False, fontsize=9)
        _save(figure, path)

    return draw


def _panel(axes: Axes, rows: Sequence[Row]) -> None:
    compared = any(row.paper is not None for row in rows)
    width = 0.4 if compared else 0.7
    for place, row in enumerate(rows):
        if row.ours is not None:
            at = place - (width / 2 if compared else 0)
            axes.bar(at, row.ours, width, color=OURS, yerr=row.deviation, capsize=2, error_kw={"linewidth": 0.8})
            axes.text(at, row.ours + 2, f"{row.ours:.0f}", ha="center", fontsize=7, color=OURS)
        else:
            axes.text(place - (width / 2 if compared else 0), 3, "not run", ha="center", va="bottom", fontsize=7, rotation=90)
        if row.paper is not None:
            axes.bar(place + width / 2, row.paper, width, color=PAPER)
            axes.text(place + width / 2, row.paper + 2, f"{row.paper:.0f}", ha="center", fontsize=7, color="#475569")
    axes.set_xticks(range(len(rows)), [row.shape for row in rows], fontsize=8)
    axes.set_ylim(0, 115)
    _plain(axes)


def overview(rows: Sequence[Row]) -> Draw:
    """Draws the impact of every qualifier relation, ascending: a line of panels for each shape, one for each metric."""
    known = [row for row in rows if row.ours is not None]

    def draw(path: Path) -> None:
        shapes = list(dict.fromkeys(row.shape for row in rows))
        metrics = list(dict.fromkeys(row.metric for row in rows))
        figure = Figure(figsize=(3.6 * max(1, len(metrics)), 0.6 + 1.7 * max(1, len(shapes))), layout="constrained")
        grid = figure.subplots(max(1, len(shapes)), max(1, len(metrics)), squeeze=False)
        for line, shape in zip(grid, shapes, strict=False):
            for axes, metric in zip(line, metrics, strict=False):
                _relations(axes, [row for row in known if (row.shape, row.metric) == (shape, metric)])
                axes.set_title(f"{shape}: {metric}", fontsize=8, loc="left")
        figure.supylabel("points: with the qualifier relation minus without", fontsize=9)
        _save(figure, path)

    return draw


def _relations(axes: Axes, rows: list[Row]) -> None:
    """Draws the impacts of a shape, ascending, and names the worst and the best below."""
    rows = sorted(rows, key=lambda row: row.number)
    points = [row.number for row in rows]
    axes.bar(range(len(rows)), points, 0.9, color=[GAIN if value >= 0 else LOSS for value in points])
    axes.axhline(0, color="#1f2933", linewidth=0.7)
    # At least one point in each direction: a scale that follows noise would make it look like a result.
    axes.set_ylim(1.1 * min([-1.0, *points]), 1.1 * max([1.0, *points]))
    axes.set_xticks([])
    if rows:
        axes.set_xlabel(f"{rows[0].name} … {rows[-1].name}  ({len(rows)} relations)", fontsize=7)
    _plain(axes)


def counted(rows: Sequence[Row]) -> Draw:
    """Plots the number of queries and of answers by split and shape."""

    def draw(path: Path) -> None:
        counts = [row for row in rows if row.metric == "queries"]
        splits = list(dict.fromkeys(row.name for row in counts))
        figure = Figure(figsize=(11, 4), layout="constrained")
        left, right = figure.subplots(1, 2)
        shapes = list(dict.fromkeys(row.shape for row in counts))
        for number, split in enumerate(splits):
            for axes, metric in ((left, "queries"), (right, "answers, mean")):
                found = {row.shape: row.ours for row in rows if (row.name, row.metric) == (split, metric)}
                at = [place + 0.27 * (number - (len(splits) - 1) / 2) for place in range(len(shapes))]
                axes.bar(
                    at, [found.get(shape, 0) for shape in shapes], 0.26, label=split, color=("#1e3a8a", "#2563eb", "#93c5fd")[number % 3]
                )
        left.set_yscale("log")
        left.set_title("queries", fontsize=10, loc="left")
        right.set_title("answers per query, mean", fontsize=10, loc="left")
        for axes in (left, right):
            axes.set_xticks(range(len(shapes)), shapes)
            _plain(axes)
        left.legend(frameon=False, fontsize=9)
        _save(figure, path)

    return draw


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)


def _save(figure: Figure, path: Path) -> None:
    """Writes a picture; the same numbers give the same bytes."""
    figure.savefig(path, format="png", dpi=130, metadata={"Software": ""})
