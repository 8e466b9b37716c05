"""Columns of text in Arrow's memory, of any size: the offsets have 32 bits as long as the text fits, and 64 bits beyond.

Reading one text makes no Python object for the others.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TextArray: TypeAlias = pa.StringArray | pa.LargeStringArray
"""A column of text."""
MOST_BYTES = 2**31 - 1
"""The bytes of text that a column with offsets of 32 bits can have."""
_SLICED = 1 << 18  # the number of texts that are worked on at a time


def text_array(texts: Iterable[str] | TextArray) -> TextArray:
    """Returns texts as a column."""
    if isinstance(texts, TextArray):
        return texts
    found = pa.array(texts, pa.string())
    return combined(found) if isinstance(found, pa.ChunkedArray) else found  # pyarrow splits what is too large


def combined(column: pa.ChunkedArray) -> TextArray:
    """Returns the chunks of a column of text end to end."""
    return pa.concat_arrays(alike(column.chunks)) if column.num_chunks else pa.array([], pa.string())


def alike(columns: Sequence[TextArray]) -> list[TextArray]:
    """Returns columns with offsets of one kind, which is wide enough for all texts together."""
    size = sum(pc.sum(pc.binary_length(column)).as_py() or 0 for column in columns)
    if size <= MOST_BYTES and not any(pa.types.is_large_string(column.type) for column in columns):
        return list(columns)
    return [column.cast(pa.large_string()) for column in columns]


def parts(column: TextArray) -> Iterator[pa.StringArray]:
    """Yields a column in parts with offsets of 32 bits, as files and most kernels want it; at least one part."""
    for start in range(0, max(len(column), 1), _SLICED):
        yield column.slice(start, _SLICED).cast(pa.string())


def as_bytes(column: TextArray) -> pa.Array:
    """Returns the texts as bytes, by which they are compared and sorted."""
    return column.cast(pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary())


def joined_bytes(column: TextArray) -> memoryview:
    """Returns all texts of a column, one after the other, without copying them."""
    ends, data = _buffers(column)
    return data[ends[0] : ends[len(column)]]


def _buffers(column: TextArray) -> tuple[memoryview, memoryview]:
    """Returns where the texts begin and end, and the bytes of all."""
    kind = np.int64 if pa.types.is_large_string(column.type) else np.int32
    _, offsets, data = column.buffers()
    whole = np.frombuffer(offsets, kind) if offsets is not None and offsets.size else np.zeros(1, kind)
    return whole[column.offset : column.offset + len(column) + 1].data, memoryview(data if data is not None else b"")


class Texts:
    """Reads single texts of a column, and finds the place of one by binary search; each text occurs once."""

    def __init__(self, column: TextArray) -> None:
        self.column = column
        self._ends, self._data = _buffers(column)

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, place: int) -> str:
        return str(self._data[self._ends[place] : self._ends[place + 1]], "utf-8")

    def _bytes(self, place: int) -> bytes:
        return bytes(self._data[self._ends[place] : self._ends[place + 1]])

    def find(self, text: str) -> int | None:
        """Returns the place of a text, or None."""
        wanted, order = text.encode(errors="surrogatepass"), self._order
        if order is None:
            place = bisect_left(range(len(self)), wanted, key=self._bytes)
        else:
            among = bisect_left(range(len(self)), wanted, key=lambda one: self._bytes(order[one]))
            place = order[among] if among < len(self) else len(self)
        return place if place < len(self) and self._bytes(place) == wanted else None

    @cached_property
    def _order(self) -> memoryview | None:
        """The places in the order of the bytes of their texts; None if they are in this order."""
        column = as_bytes(self.column)
        if pc.all(pc.less(column[:-1], column[1:])).as_py() is not False:
            return None
        return memoryview(pc.sort_indices(column).to_numpy().astype(np.int32))
