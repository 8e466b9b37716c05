"""Ask an incomplete knowledge graph: query embedding on hyper-relational knowledge graphs."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starqe.ask import Answerer

__version__ = "0.1.0"


def open(run: str | Path) -> "Answerer":  # noqa: A001  starqe.open(run), as one opens a file
    """Opens a run that was fitted or calibrated, to be asked.

    Raises:
        StorageError: The folder is no run, was not calibrated, or is damaged.
    """
    from starqe.ask import Answerer

    return Answerer.open(Path(run))
