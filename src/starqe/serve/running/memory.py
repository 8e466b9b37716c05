"""The memory that a service needs, estimated from the files of a run before anything is loaded."""

import re
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow.parquet as pq

from starqe.errors import InputError, StorageError
from starqe.learn.memory_limit import free_memory
from starqe.queries.store.kept_store import LARGE
from starqe.serve.settings import ServeSettings

PROGRAM = 400 << 20
"""Bytes of the program itself: Python, torch and the other libraries."""
PER_NAME, PER_STATEMENT, PER_PAIR, PER_LITERAL = 700, 620, 60, 1_100
"""Bytes of an entity, relation or label with its place in the name index; of a statement (with the store), a pair and a literal."""
PER_STATEMENT_OF_LARGE = 260
"""Bytes of a statement in a graph whose store is on disk, with its part in rules: measured with five million."""
WEIGHTS = 2.5
"""Memory of the weights, as a multiple of their size on disk: the weights, a copy prepared for scoring, and buffers for reading."""
ROWS = 160
"""Rows with one 4-byte score per entity that are in memory at a time: a batch, its candidates and the passes over both."""
_UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}


@dataclass(frozen=True)
class Estimate:
    """Estimated memory of a service, in bytes."""

    graph: int
    weights: int
    buffers: int
    other_run: int = 0
    """Memory of the run that answers until this one does."""
    is_large: bool = False
    """Whether the graph is large, so that the service answers with 503 while it is opened."""

    @property
    def total(self) -> int:
        """Everything together, with the program itself."""
        return PROGRAM + self.graph + self.weights + self.buffers + self.other_run

    def check(self, limit: int, found: str) -> None:
        """Checks that the service fits.

        Raises:
            InputError: It needs more than the limit.
        """
        if self.total > limit:
            parts = f"{_mb(self.graph)} for the graph, {_mb(self.weights)} for the weights, {_mb(self.buffers)} for buffers"
            parts += f", {_mb(self.other_run)} for the run that answers meanwhile" if self.other_run else ""
            raise InputError(
                f"the service needs about {_mb(self.total)} ({parts}), and {found} is {_mb(limit)}. Take a machine with more memory, "
                "a smaller model, or fewer queries per batch (batch=8), or set another limit of memory"
            )

    def __str__(self) -> str:
        return f"about {_mb(self.total)}"


def estimate(run: Path, graph: Path | None, settings: ServeSettings) -> Estimate:
    """Estimates the memory of a service from the sizes of its files.

    Raises:
        StorageError: A file of the graph is missing or damaged.
    """
    folder = graph or run / "graph"
    try:
        tables = ["statements", "pairs", "entities", "relations", "labels"]
        tables += ["literals"] if (folder / "literals.parquet").exists() else []
        rows = {name: pq.read_metadata(folder / f"{name}.parquet").num_rows for name in tables}
    except (OSError, ValueError) as error:
        raise StorageError(f"{folder} is not a graph, or is damaged: {error}") from None
    names = rows["entities"] + rows["relations"] + rows["labels"]
    weights = sum(file.stat().st_size for file in run.rglob("weights.safetensors"))
    is_large = rows["statements"] > LARGE
    per_statement = PER_STATEMENT_OF_LARGE if is_large else PER_STATEMENT
    return Estimate(
        graph=PER_NAME * names + per_statement * rows["statements"] + PER_PAIR * rows["pairs"] + PER_LITERAL * rows.get("literals", 0),
        weights=int(WEIGHTS * weights),
        buffers=(1 + settings.helping) * 4 * rows["entities"] * (ROWS + 3 * settings.batch) + settings.unsent_bytes,
        is_large=is_large,
    )


def taken() -> int:
    """Returns the memory of this process in bytes, without the program itself."""
    return max(0, int(psutil.Process().memory_info().rss) - PROGRAM)


def limit(text: str | None) -> tuple[int, str]:
    """Returns the limit in bytes and its name for messages: as given (4GB), or else the free memory of this machine.

    Raises:
        InputError: The text is not a size.
    """
    if text is None:
        return free_memory(), "the free memory of this machine"
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([A-Z]*)", text.strip().upper())
    if found is None or found[2] not in _UNITS:
        raise InputError(f"a size is a number with a unit, such as 4GB or 512MiB, found {text!r}")
    return int(float(found[1]) * _UNITS[found[2]]), "the limit"


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
