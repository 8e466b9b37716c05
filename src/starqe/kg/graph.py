"""The graph: statements as columns of ids, each with its split."""

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from starqe.errors import InputError
from starqe.kg.iris import DEFAULT_NAMES, Names
from starqe.kg.known import Known
from starqe.kg.statement import SPLITS, Statement
from starqe.kg.vocabulary import Vocabulary
from starqe.ragged import IntArray, PairColumns, Ragged


@dataclass(frozen=True, eq=False)
class Graph(PairColumns):
    """A hyper-relational graph in canonical form.

    S statements · P qualifier pairs. Statements are sorted by split, head, relation, tail and pairs; the pairs of a
    statement are sorted and unique; a statement occurs once per split. So equal content means equal columns, and
    the fingerprint identifies the content.

    Facts are looked up through `known`, which takes the splits to use: nothing reads the test split by accident.
    """

    entities: Vocabulary
    relations: Vocabulary
    head: IntArray  # (S,) int32
    relation: IntArray  # (S,) int32
    tail: IntArray  # (S,) int32
    split: IntArray  # (S,) int8, positions in SPLITS
    pairs: Ragged  # S rows of (relation, value): (P, 2) int32
    names: Names = DEFAULT_NAMES
    """How identifiers are written in RDF and SPARQL; names, labels and the title are not part of the fingerprint."""
    title: str = ""
    """What the graph is called where people see it; after an import, the name of its file or folder."""

    def __len__(self) -> int:
        return len(self.head)

    def __repr__(self) -> str:
        return (
            f"Graph({len(self):,} statements, {len(self.entities):,} entities, {len(self.relations):,} relations, {self.fingerprint[:12]})"
        )

    def known(self, splits: Collection[str]) -> Known:
        """Returns look-ups over the statements of these splits only.

        Raises:
            InputError: A split is not one of train, valid and test.
        """
        codes = split_codes(splits)
        if codes not in self._known:
            self._known[codes] = Known(self, np.flatnonzero(np.isin(self.split, codes)))
        return self._known[codes]

    @cached_property
    def _known(self) -> dict[tuple[int, ...], Known]:
        return {}

    def pairs_of(self, row: int) -> list[tuple[int, int]]:
        """Returns the qualifier pairs of a statement, by ids."""
        return [(relation, value) for relation, value in self.pairs[row].tolist()]

    def statement(self, row: int) -> Statement:
        """Returns one statement by its identifiers."""
        e, r = self.entities.identifier, self.relations.identifier
        pairs = tuple((r(key), e(value)) for key, value in self.pairs_of(row))
        return Statement(e(self.head[row]), r(self.relation[row]), e(self.tail[row]), pairs)

    def statements(self, *splits: str) -> Iterator[Statement]:
        """Yields the statements of the named splits in the graph's order."""
        for row in np.flatnonzero(np.isin(self.split, split_codes(splits))):
            yield self.statement(int(row))

    @cached_property
    def vocabulary_fingerprint(self) -> str:
        """A hash of the entity and relation identifiers: a model fits every graph with the same hash."""
        return hashlib.sha256(f"{self.entities.fingerprint}/{self.relations.fingerprint}".encode()).hexdigest()

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the vocabulary, the statements and their splits; labels do not count."""
        digest = hashlib.sha256(self.vocabulary_fingerprint.encode())
        for column in (self.head, self.relation, self.tail, self.split, self.pairs.offsets, self.pair_relation, self.pair_value):
            digest.update(np.ascontiguousarray(column, column.dtype.newbyteorder("<")).data)
        return digest.hexdigest()


def split_codes(splits: Collection[str]) -> tuple[int, ...]:
    """Turns split names into codes.

    Raises:
        InputError: A name is not a split, or none is given.
    """
    if isinstance(splits, str) or not splits or not set(splits) <= set(SPLITS):
        raise InputError(f"splits are one or more of {', '.join(SPLITS)}, found {splits!r}")
    return tuple(sorted({SPLITS.index(split) for split in splits}))
