"""One import: the draft that its files fill, the report, and the options."""

import contextlib
import gc
import itertools
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeVar, cast

import numpy as np
import pyarrow as pa

from starqe.kg.draft import Draft
from starqe.kg.graph import Graph
from starqe.kg.iris import Names
from starqe.kg.literal import Literal as Value
from starqe.kg.literal import short_datatype
from starqe.kg.reading.import_options import Columns, LiteralChoice, WikidataOptions
from starqe.kg.reading.report import Report

Unasserted = Literal["leave", "keep"]
Row = list[str | Value]
"""Head, relation, tail, then relation and value of each pair; the tail and the values may be literals."""

CHUNK = 50_000
"""The number of statements that are added to the draft at a time."""


class SharedReader(ABC):
    """State that the files of one form share during an import."""

    @abstractmethod
    def __init__(self, task: "ImportTask") -> None: ...

    def finish(self) -> None:  # noqa: B027 - optional
        """Adds what was read to the draft, if that needs all files."""

    def check(self, graph: Graph) -> None:  # noqa: B027
        """Notes in the report what a user should know about the finished graph."""


Reader = TypeVar("Reader", bound=SharedReader)


@dataclass
class ImportTask:
    """One import: passed to every reader of a format, together with a file and its split."""

    draft: Draft = field(default_factory=Draft)
    report: Report = field(default_factory=Report)
    names: Names = field(default_factory=Names)
    """How identifiers are written in RDF."""
    unasserted: Unasserted = "leave"
    """What happens to reified triples that are not asserted."""
    advance: Callable[[int], None] = lambda _: None
    """Called with the number of lines or records read since the last call."""
    wikidata: WikidataOptions = field(default_factory=WikidataOptions)
    columns: Columns | None = None
    """The columns of tables that make a statement."""
    literals: LiteralChoice = "keep"
    """What happens to literal values."""
    value_node: str | None = None
    """The IRI of the predicate from the nodes of n-ary relations in RDF to their objects."""
    graph_qualifier: str | None = None
    """The relation of the qualifier that holds the named graph of an RDF statement, by identifier or IRI; left out if None."""
    label_relations: tuple[str, ...] = ()
    """Further properties and predicates that are labels, besides the usual ones."""
    _waiting: defaultdict[str, tuple[list[str], list[int]]] = field(default_factory=lambda: defaultdict(lambda: ([], [])))
    """Split -> fields, and their number by statement."""
    _literals: defaultdict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))  # by relation and datatype
    _shared: dict[type[SharedReader], SharedReader] = field(default_factory=dict)

    def shared(self, kind: type[Reader]) -> Reader:
        """Returns the shared reader of this class; makes it at the first call."""
        if kind not in self._shared:
            self._shared[kind] = kind(self)
        return cast("Reader", self._shared[kind])

    def check(self, graph: Graph) -> None:
        """Lets the shared readers check the finished graph."""
        for reader in self._shared.values():
            reader.check(graph)

    def add(self, rows: Iterable[Row], split: str) -> None:
        """Adds well-formed statements; literals become their keys, or facts and pairs with literal values are left out and counted.

        The fields are collected in one flat list, so that the memory of rows and literals is freed at once.
        """
        drop = self.literals == "drop"
        fields, lengths = self._waiting[split]
        for row in rows:
            if type(tail := row[2]) is Value:
                if drop:
                    self._literals[row[1], tail.datatype] += 1  # type: ignore[index]
                    continue
                row[2] = tail.key
            for place in range(len(row) - 1, 3, -2):
                if type(value := row[place]) is Value:
                    if drop:
                        self._literals[row[place - 1], value.datatype] += 1  # type: ignore[index]
                        del row[place - 1 : place + 1]
                    else:
                        row[place] = value.key
            fields += row  # type: ignore[arg-type]
            lengths.append(len(row))
        if len(lengths) >= CHUNK:
            self._to_draft(split)

    def add_keyed(self, rows: list[list[str]], split: str) -> None:
        """Adds well-formed statements in which literals are keys already; only if literals are not left out."""
        fields, lengths = self._waiting[split]
        fields += itertools.chain.from_iterable(rows)
        lengths += map(len, rows)
        if len(lengths) >= CHUNK:
            self._to_draft(split)

    def flush(self) -> None:
        """Adds all collected statements to the draft, and what was left out to the report."""
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
        """Finishes the shared readers, and adds the collected statements to the draft.

        Raises:
            InputError: What they read is malformed.
        """
        for reader in self._shared.values():
            reader.finish()
        self.flush()


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Disables garbage collection: readers make millions of objects without cycles, and it would take a fifth of their time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
