"""Rows of different lengths as offsets and flat items: qualifier pairs, answers, and all other ragged data. Also the array types."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.integer[Any]]
FloatArray = NDArray[np.floating[Any]]
BoolArray = NDArray[np.bool_]
NumberArray = IntArray | FloatArray


def stable_order(keys: IntArray) -> IntArray:
    """Returns the order of numbers from 0 on, equal ones in their order; packed with their places where they fit, it is twice as fast."""
    places = max(len(keys) - 1, 0).bit_length()
    if int(keys.max(initial=0)).bit_length() + places > 63:
        return np.argsort(keys, kind="stable")
    packed = keys.astype(np.int64) << places
    packed |= np.arange(len(keys))
    packed.sort()
    packed &= (1 << places) - 1
    return packed


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of different lengths: the items of row i are ``items[offsets[i]:offsets[i + 1]]``.

    n rows · m items. Items are numbers, or small rows of numbers themselves, such as the (relation, value) of a qualifier pair.
    """

    offsets: IntArray  # (n + 1,) int64, from 0 to m
    items: IntArray  # (m,) or (m, k)

    def __post_init__(self) -> None:
        assert len(self.offsets), "there is one more offset than rows"
        assert self.offsets[0] == 0, self.offsets[0]
        assert self.offsets[-1] == len(self.items), (self.offsets[-1], len(self.items))

    @classmethod
    def of_counts(cls, counts: IntArray | Sequence[int], items: IntArray) -> "Ragged":
        """Makes rows with these numbers of items."""
        offsets = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        return cls(offsets, items)

    @classmethod
    def of_owner(cls, owner: IntArray, items: IntArray, rows: int) -> "Ragged":
        """Makes rows from items and the row that each belongs to, ascending."""
        return cls.of_counts(np.bincount(owner, minlength=rows), items)

    @classmethod
    def of_lists(cls, lists: Sequence[Sequence[Any]], width: int | None = None) -> "Ragged":
        """Makes rows from Python lists of numbers, or of tuples of ``width`` numbers."""
        flat = np.array([item for row in lists for item in row], np.int32)
        return cls.of_counts([len(row) for row in lists], flat if width is None else flat.reshape(-1, width))

    @classmethod
    def ranges(cls, first: IntArray, counts: IntArray) -> "Ragged":
        """Makes rows of consecutive numbers: row i counts up from ``first[i]``."""
        rows = cls.of_counts(counts, np.empty(int(np.sum(counts)), np.int64))
        np.add(np.arange(len(rows.items)), np.repeat(first - rows.offsets[:-1], counts), out=rows.items)
        return rows

    @classmethod
    def empty(cls, rows: int, width: int | None = None) -> "Ragged":
        """Makes rows without items."""
        return cls(np.zeros(rows + 1, np.int64), np.empty(0 if width is None else (0, width), np.int32))

    @classmethod
    def stack(cls, parts: Sequence["Ragged"]) -> "Ragged":
        """Lays rows end to end."""
        offsets = np.zeros(1 + sum(len(part) for part in parts), np.int64)
        rows = items = 0
        for part in parts:
            np.add(part.offsets[1:], items, out=offsets[rows + 1 : rows + 1 + len(part)])
            rows, items = rows + len(part), items + len(part.items)
        return cls(offsets, np.concatenate([part.items for part in parts]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    __iter__ = None  # offsets and items cannot be unpacked by mistake

    def __getitem__(self, row: int) -> IntArray:
        return self.items[self.offsets[row] : self.offsets[row + 1]]

    @property
    def nbytes(self) -> int:
        """The size in memory, in bytes."""
        return self.offsets.nbytes + self.items.nbytes

    @property
    def counts(self) -> IntArray:
        """The number of items of each row: (n,)."""
        return np.diff(self.offsets)

    @cached_property
    def owner(self) -> IntArray:
        """The row that each item belongs to: (m,)."""
        return np.repeat(np.arange(len(self)), self.counts)

    @property
    def within(self) -> IntArray:
        """The position of each item in its row, from 0: (m,)."""
        return np.arange(len(self.items)) - self.offsets[self.owner]

    def places(self, rows: IntArray) -> "Ragged":
        """Returns the positions of these rows' items in ``items``, row by row."""
        return Ragged.ranges(self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows])

    def take(self, rows: IntArray) -> "Ragged":
        """Returns these rows, in this order."""
        places = self.places(rows)
        return Ragged(places.offsets, self.items[places.items])

    def where(self, kept: BoolArray) -> "Ragged":
        """Returns the same rows with only the items that are kept: (m,) bool."""
        return Ragged.of_owner(self.owner[kept], self.items[kept], len(self))

    def slice(self, start: int, stop: int) -> "Ragged":
        """Returns the rows from start up to stop, without copying items."""
        offsets = self.offsets[start : stop + 1]
        return Ragged(offsets - offsets[0], self.items[offsets[0] : offsets[-1]])


class PairColumns:
    """The columns of qualifier pairs, for a class whose field ``pairs`` has rows of (relation, value). P pairs."""

    pairs: Ragged  # (P, 2)

    @property
    def pair_relation(self) -> IntArray:
        """The relation of each pair: (P,)."""
        return self.pairs.items[:, 0]

    @property
    def pair_value(self) -> IntArray:
        """The value of each pair: (P,)."""
        return self.pairs.items[:, 1]
