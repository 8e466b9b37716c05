"""What the table of file formats holds."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from starqe.kg.graph import Graph
from starqe.kg.iris import Names
from starqe.kg.reading.import_task import ImportTask

Read = Callable[[ImportTask, Path, str], None]
"""Reads a file, whose statements belong to one split, into the draft of an import; problems go to its report."""
Write = Callable[[Graph, Path, Names, bool], list[Path]]
"""Writes a graph to a destination, replacing it if that is allowed, and returns the files written."""


@dataclass(frozen=True)
class Form:
    """One file format of graphs, with its reader and writer."""

    extensions: tuple[str, ...]
    """Empty if the form is detected by content alone: many forms share ``.json``."""
    explanation: str
    read: Read | None = None
    """None if it can only be exported."""
    write: Write | None = None
    """None if it can only be imported."""
    folder: bool = False
    """Whether an export is a folder with one file per split."""
    recognise: Callable[[bytes], object] | None = None
    """Returns something true if a file that begins with these bytes has this form."""
    content_decides: bool = False
    """Whether files of other forms often have its extensions: then the content of a file is more reliable than its name."""
