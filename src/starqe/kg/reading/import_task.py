"""What the files of one import share: the draft that they fill, the report, and the choices of the user."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeVar, cast

import numpy as np
import pyarrow as pa

from starqe.kg.draft import Draft
from starqe.kg.graph import Graph
from starqe.kg.iris import Names
from starqe.kg.literal import Literal as Value
from starqe.kg.literal import short_datatype
from starqe.kg.reading.import_options import Columns, WikidataOptions
from starqe.kg.reading.report import Report

Unasserted = Literal["leave", "keep"]
Row = list[str | Value]
"""Head, relation, tail, then relation and value of each pair; the tail and the values may be literals."""

CHUNK = 50_000
"""How many statements go to the draft at a time."""


class SharedReader(ABC):
    """What the files of one form share during an import."""

    @abstractmethod
    def __init__(self, task: "ImportTask") -> None: ...

    def finish(self) -> None:  # noqa: B027 - not every form has something left to add
        """Adds what was read to the draft, where that needs all files."""

    def check(self, graph: Graph) -> None:  # noqa: B027
        """Notes in the report what a person should know about the finished graph."""


Reader = TypeVar("Reader", bound=SharedReader)


@dataclass
class ImportTask:
    """One import: every reader of a format gets it, together with a file and its split."""

    draft: Draft = field(default_factory=Draft)
    report: Report = field(default_factory=Report)
    names: Names = field(default_factory=Names)
    """How identifiers are written in RDF."""
    unasserted: Unasserted = "leave"
    """What happens to reified triples that nothing asserts."""
    advance: Callable[[int], None] = lambda _: None
    """Told now and then how many more lines or records were read."""
    wikidata: WikidataOptions = field(default_factory=WikidataOptions)
    columns: Columns | None = None
    """The columns of tables that make a statement."""
    label_relations: tuple[str, ...] = ()
    """Properties and predicates that are labels, besides those that are known as such."""
    _waiting: dict[str, tuple[list[str], list[int]]] = field(default_factory=dict)  # split -> fields, and their number by statement
    _literals: defaultdict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))  # by relation and datatype
    _shared: dict[type[SharedReader], SharedReader] = field(default_factory=dict)

    def shared(self, kind: type[Reader]) -> Reader:
        """Returns the one reader of this class in the import; makes it at the first call."""
        if kind not in self._shared:
            self._shared[kind] = kind(self)
        return cast("Reader", self._shared[kind])

    def check(self, graph: Graph) -> None:
        """Lets the shared readers look at the finished graph."""
        for reader in self._shared.values():
            reader.check(graph)

    def add(self, rows: Iterable[Row], split: str) -> None:
        """Adds well-formed statements; leaves out and counts facts and pairs with literal values, which a graph cannot hold.

        The fields wait in one flat list, so that rows and literals are gone at once and their memory is used again.
        """
        if split not in self._waiting:
            self._waiting[split] = [], []
        fields, lengths = self._waiting[split]
        for row in rows:
            if type(row[2]) is Value:
                self._literals[row[1], row[2].datatype] += 1  # type: ignore[index]
                continue
            for place in range(len(row) - 1, 3, -2):
                if type(value := row[place]) is Value:
                    self._literals[row[place - 1], value.datatype] += 1  # type: ignore[index]
                    del row[place - 1 : place + 1]
            fields += row  # type: ignore[arg-type]
            lengths.append(len(row))
        if len(lengths) >= CHUNK:
            self._to_draft(split)

    def flush(self) -> None:
        """Adds all statements that wait to the draft, and to the report what was left out."""
        for split in self._waiting:
            self._to_draft(split)
        for (relation, datatype), count in self._literals.items():
            self.report.leave_out_literals(relation, short_datatype(datatype), count)
        self._literals.clear()

    def _to_draft(self, split: str) -> None:
        fields, lengths = self._waiting[split]
        self.draft.add_columns(pa.array(fields, pa.string()).dictionary_encode(), np.array(lengths, np.int64), split)
        fields.clear()
        lengths.clear()

    def finish(self) -> None:
        """Finishes the shared readers, and adds what waits to the draft.

        Raises:
            InputError: What they read is malformed.
        """
        for reader in self._shared.values():
            reader.finish()
        self.flush()
