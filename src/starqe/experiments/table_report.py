"""A reproduced table: its numbers in every format, verdicts on the paper's findings, and provenance."""

import hashlib
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from starqe import __version__
from starqe.config import to_toml
from starqe.experiments.findings import Verdict
from starqe.experiments.train_rows import finished, row_recipe
from starqe.experiments.work_folder import WorkFolder, write_json
from starqe.folders import new_file
from starqe.measure.paper import WD50K
from starqe.measure.result_tables import Grid, comma_separated, grid_latex, grid_markdown
from starqe.measure.rows import Row

RECIPES: Mapping[bool | str, str] = {
    False: "ours, in the paper's regimes",
    True: "the paper's hyper-parameters and loss",
    "as run": "the paper's hyper-parameters and loss, trained as the authors' code did",
}
"""Which recipes were used, in words."""


@dataclass(frozen=True)
class Report:
    """The content of a table; `write` writes its files."""

    name: str
    title: str
    rows: Sequence[Row]
    """One row per number and seed."""
    grids: Sequence[Grid]
    """The same numbers, arranged for reading."""
    shown: Sequence[Grid]
    """The main ones, narrow enough for a terminal."""
    draw: Callable[[Path], None]
    """Draws the plot into a file."""
    verdicts: Sequence[Verdict] = ()
    notes: Sequence[str] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> list[Path]:
        """Writes JSON, Markdown, CSV, LaTeX and the plot; returns the files.

        Raises:
            StorageError: A file cannot be written.
        """
        write_json(folder / "rows.json", [{**row.to_json(), "difference": row.difference} for row in self.rows])
        texts = {"table.md": self.markdown(), "table.csv": comma_separated(self.rows), "table.tex": self.latex()}
        for name, text in texts.items():
            with new_file(folder / name, overwrite=True) as beside:
                beside.write_text(text, encoding="utf-8")
        with new_file(folder / "plot.png", overwrite=True) as beside:
            self.draw(beside)
        return [folder / name for name in ("rows.json", *texts, "plot.png")]

    def markdown(self) -> str:
        """Returns the page: the tables, the findings, the notes, and the provenance."""
        parts = [f"# {self.title}", ""]
        if self.verdicts:
            parts += ["## What the paper found", "", *(f"- {verdict}" for verdict in self.verdicts), ""]
        parts += ["## Numbers", "", "![The numbers as a plot](plot.png)", "", *map(grid_markdown, self.grids)]
        if self.notes:
            parts += ["## Notes", "", *(f"- {note}" for note in self.notes), ""]
        parts += ["## Provenance", "", *(f"- {name}: {text}" for name, text in self.provenance.items()), ""]
        return "\n".join(parts)

    def latex(self) -> str:
        """Returns the tables for LaTeX, with the provenance as a comment."""
        comments = [f"% {name}: {text}" for name, text in self.provenance.items()]
        return "\n".join([*map(grid_latex, self.grids), *comments, ""])


def provenance(work: WorkFolder, trained: Mapping[str, str] | None = None, sample: str = "") -> dict[str, str]:
    """Describes where the numbers come from: version, graph, recipes, minutes, sample, machine.

    Args:
        work: The folder.
        trained: The rows that are trained, with their regimes.
        sample: The evaluated queries, in words.
    """
    found = {"starqe": __version__}
    graph = "WD50K" if work.graph.fingerprint == WD50K else "the embedded graph" if work.tiny else "a graph"
    found["graph"] = f"{graph}, fingerprint {work.graph.fingerprint[:12]}"
    if trained:
        found["recipes"] = RECIPES[work.settings.recipes] + (", cut down to seconds" if work.tiny else "")
        found["seeds"] = ", ".join(map(str, work.seeds))
        budget = (
            f"a budget of {work.settings.budget:g} minutes for the rows that were missing; " if work.settings.budget is not None else ""
        )
        found["training"] = budget + "; ".join(_trained(work, row, regime) for row, regime in trained.items())
    if sample:
        found["sample"] = sample
    if trained and work.tiny:
        found["caution"] = "models trained for seconds on the embedded graph: they say nothing about the paper"
    found["machine"] = f"{os.cpu_count()} cores ({platform.machine()}), threads {torch.get_num_threads()}, torch {torch.__version__}"
    return found


def _made_by(record: Mapping[str, Any]) -> str:
    made_by = record.get("starqe", "")
    return f" (by starqe {made_by})" if made_by and made_by != __version__ else ""


def _passes(record: Mapping[str, Any]) -> str:
    parts = ", ".join(f"{shape} {count:.3g}" for shape, count in record.get("passes", {}).items())
    return f" (passes: {parts})" if parts else ""


def _trained(work: WorkFolder, row: str, regime: str) -> str:
    records = [(seed, finished(work, (regime, seed))) for seed in work.seeds]
    texts = [
        f"{record['minutes']:.3g} minutes, {record['queries']:,} queries{_passes(record)}, threads {record['threads']}{_made_by(record)}"
        if record
        else "not run"
        for _, record in records
    ]
    return f"{row} (recipe {recipe_id(work, regime)}) {' / '.join(texts)}"


def recipe_id(work: WorkFolder, regime: str) -> str:
    """Names the recipe of a row by its content: the first digits of the SHA-256 of the ``config.toml`` of its run with seed 0.

    A commit would not last: its name changes when the history is rewritten.
    """
    return hashlib.sha256(to_toml(row_recipe(work, (regime, 0))).encode()).hexdigest()[:12]
