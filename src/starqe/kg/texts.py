"""Columns of texts that stay in Arrow's memory: reading one takes no Python object for the others."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from starqe.ragged import IntArray


class Texts:
    """Reads single texts of a column, and finds the place of one by binary search; each text occurs once."""

    def __init__(self, column: pa.StringArray) -> None:
        self.column = column
        _, offsets, data = column.buffers()
        whole = np.frombuffer(offsets, np.int32) if offsets is not None and offsets.size else np.zeros(1, np.int32)
        self._ends = whole[column.offset : column.offset + len(column) + 1].data
        self._data = memoryview(data if data is not None else b"")

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
        if pc.all(pc.less(self.column[:-1].cast(pa.binary()), self.column[1:].cast(pa.binary()))).as_py() is not False:
            return None
        return memoryview(pc.sort_indices(self.column.cast(pa.binary())).to_numpy().astype(np.int32))


class LabelColumn(Mapping[int, str]):
    """The labels of one language: a mapping of ids to texts."""

    def __init__(self, ids: IntArray, texts: pa.StringArray) -> None:
        """Takes ids in any order; of several labels of one id, the last one counts."""
        if (ids[1:] <= ids[:-1]).any():
            order = np.argsort(ids, kind="stable")
            order = order[np.append(np.diff(ids[order]) != 0, True)]
            ids, texts = ids[order], texts.take(pa.array(order))
        self.ids = ids.astype(np.int32, copy=False)
        self.texts = Texts(texts)

    @classmethod
    def of(cls, labels: Mapping[int, str]) -> "LabelColumn":
        """Makes a column of any mapping."""
        if isinstance(labels, LabelColumn):
            return labels
        return cls(np.fromiter(labels, np.int64, len(labels)), pa.array(labels.values(), pa.string()))

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids.tolist())

    def __getitem__(self, id_: int) -> str:
        place = int(self.ids.searchsorted(np.int32(id_)))
        if place == len(self.ids) or self.ids[place] != id_:
            raise KeyError(id_)
        return self.texts[place]

    def __contains__(self, id_: object) -> bool:
        return isinstance(id_, (int, np.integer)) and self.get(int(id_)) is not None
