"""Checks over all statement files of an import: what a user should review."""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from starqe.kg.graph import Graph
from starqe.kg.reading.files import open_guarded, whole_lines
from starqe.kg.reading.import_task import ImportTask, SharedReader

MAX_LINE = 2**20
SHOWN = 80
"""The number of characters of a field or line that a message quotes."""
EXAMPLES = 3
_NUMBER = r"^[+-]?\d+([.,]\d+)*([eE][+-]?\d+)?$|^\d{4}-\d\d(-\d\d([T ]\d\d:\d\d.*)?)?$"
"""Numbers and dates, in the dialect of RE2."""


@dataclass(frozen=True)
class _Place:
    word: str
    path: Path
    line: int
    spaced: bool
    """Whether a space follows the comma."""

    def __str__(self) -> str:
        return f"'{self.word}' ({self.path}:{self.line})"


class StatementFiles(SharedReader):
    """Remembers the headers of the files and which of them have commas, and checks the finished graph."""

    def __init__(self, task: ImportTask) -> None:
        self._report = task.report
        self.headers: set[tuple[str, ...]] = set()
        self.with_commas: list[Path] = []

    def check(self, graph: Graph) -> None:
        """Notes numbers that became entities, and pairs that look like the rest of a name with a comma."""
        self._check_numbers(graph)
        self._check_pairs(graph)

    def _check_numbers(self, graph: Graph) -> None:
        """Notes numbers and dates, unless one of them is a head: then they are identifiers."""
        numbers = np.flatnonzero(pc.match_substring_regex(graph.entities.identifiers, _NUMBER).to_numpy(zero_copy_only=False))
        if len(numbers) and not np.isin(graph.head, numbers).any():
            examples = ", ".join(f"'{graph.entities.identifier(number)}'" for number in numbers[:EXAMPLES])
            self._report.note(
                f"{len(numbers):,} numbers and dates became entities (such as {examples}): a statement file cannot distinguish "
                "them from names. In RDF they are literals"
            )

    def _check_pairs(self, graph: Graph) -> None:
        """Notes qualifier relations that occur only once: an unquoted comma in a name causes them."""
        if not self.with_commas or not len(graph.pair_relation):
            return
        uses = np.bincount(graph.pair_relation, minlength=len(graph.relations))
        main = np.bincount(graph.relation, minlength=len(graph.relations))
        once = np.flatnonzero((uses == 1) & (main == 0))
        if 2 * len(once) <= np.count_nonzero(uses):
            return
        places = list(self._places([graph.relations.identifier(relation) for relation in once[:EXAMPLES]]))
        if places and (len(once) >= EXAMPLES or any(place.spaced for place in places)):
            self._report.note(
                f"{len(once):,} of {np.count_nonzero(uses):,} qualifier relations occur only once, such as {', '.join(map(str, places))}: "
                "is a comma part of a name there? Put such names in quotation marks"
            )

    def _places(self, words: list[str]) -> Iterator[_Place]:
        """Finds the first line of each word in the files with commas."""
        patterns = {word: re.compile(rb",(\s*)\"?" + re.escape(word).encode() + rb"\"?\s*,") for word in words}
        for path in self.with_commas:
            line = 1
            with contextlib.closing(open_guarded(path, MAX_LINE)) as stream:
                for block in whole_lines(stream):
                    for word, pattern in list(patterns.items()):
                        if found := pattern.search(block):
                            yield _Place(word, path, line + block.count(b"\n", 0, found.start()), bool(found[1]))
                            del patterns[word]
                    line += block.count(b"\n")
