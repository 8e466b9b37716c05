"""The graph: every statement as numbers in columns, with the split it belongs to."""

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from starqe.errors import InputError
from starqe.kg.known import Known
from starqe.kg.names import DEFAULT_NAMES, Names
from starqe.kg.statement import SPLITS, Statement
from starqe.kg.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class Graph:
    """A hyper-relational graph in canonical form.

    S statements · P qualifier pairs. Statements are sorted by split, head, relation, tail and pairs; the pairs of a
    statement are sorted and each stands once; a statement stands once in a split. So equal content means equal
    columns, and the fingerprint says which content it is.

    Facts are looked up through `known`, which asks which splits count: nothing sees the test split by accident.
    """

    entities: Vocabulary
    relations: Vocabulary
    head: np.ndarray  # (S,) int32
    relation: np.ndarray  # (S,) int32
    tail: np.ndarray  # (S,) int32
    split: np.ndarray  # (S,) int8, positions in SPLITS
    offsets: np.ndarray  # (S+1,) int64: the pairs of statement i are offsets[i] … offsets[i+1]
    pair_relation: np.ndarray  # (P,) int32
    pair_value: np.ndarray  # (P,) int32
    names: Names = DEFAULT_NAMES
    """How identifiers are written in RDF and SPARQL; neither this nor labels count in the fingerprint."""

    def __len__(self) -> int:
        return len(self.head)

    def __repr__(self) -> str:
        return (
            f"Graph({len(self):,} statements, {len(self.entities):,} entities, {len(self.relations):,} relations, {self.fingerprint[:12]})"
        )

    def known(self, splits: Collection[str]) -> Known:
        """Gives the look-ups over the statements of these splits, and of no others.

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
        """Gives the qualifier pairs of a statement, by ids."""
        span = slice(self.offsets[row], self.offsets[row + 1])
        return list(zip(self.pair_relation[span].tolist(), self.pair_value[span].tolist(), strict=True))

    @cached_property
    def pair_statement(self) -> np.ndarray:
        """The statement that each pair belongs to; (P,) int64."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))

    def statement(self, row: int) -> Statement:
        """Gives one statement by its identifiers."""
        e, r = self.entities.identifier, self.relations.identifier
        pairs = tuple((r(key), e(value)) for key, value in self.pairs_of(row))
        return Statement(e(self.head[row]), r(self.relation[row]), e(self.tail[row]), pairs)

    def statements(self, *splits: str) -> Iterator[Statement]:
        """Gives the statements of the named splits in the graph's order."""
        for row in np.flatnonzero(np.isin(self.split, split_codes(splits))):
            yield self.statement(int(row))

    @cached_property
    def vocabulary_fingerprint(self) -> str:
        """A hash of the entity and relation identifiers: models fit every graph that has the same."""
        return hashlib.sha256(f"{self.entities.fingerprint}/{self.relations.fingerprint}".encode()).hexdigest()

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the vocabulary, the statements and their splits; labels do not count."""
        digest = hashlib.sha256(self.vocabulary_fingerprint.encode())
        for column in (self.head, self.relation, self.tail, self.split, self.offsets, self.pair_relation, self.pair_value):
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
