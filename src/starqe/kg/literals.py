"""The literals of a graph: a table beside the vocabulary of entities."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from starqe.kg.literal import NUMBERS, TIMES, Literal
from starqe.ragged import FloatArray, IntArray
from starqe.texts import TextArray, text_array

SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("lexical", "datatype", "language", "unit")),
        ("precision", pa.float64()),
        *((name, pa.string()) for name in ("lower", "upper", "calendar")),
        ("number", pa.float64()),
    ]
)
"""The columns of literals on disk; a missing precision or number is NaN."""


class Literals:
    """The distinct literals of a graph, in the order of their keys: by datatype first.

    In a graph with E entities, the literal at place i has the id E + i. So the ids of entities do not depend on literals.
    """

    def __init__(self, keys: Iterable[str] | TextArray = ()) -> None:
        self.keys = keys if isinstance(keys, TextArray) else text_array(sorted(set(keys), key=str.encode))
        """The keys of the literals, ascending by their bytes."""

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, place: int) -> Literal:
        return Literal.of_key(str(self.keys[int(place)].as_py()))

    def __iter__(self) -> Iterator[Literal]:
        return map(Literal.of_key, self.keys.to_pylist())

    @cached_property
    def _places(self) -> dict[str, int]:
        return {key: place for place, key in enumerate(self.keys.to_pylist())}

    @cached_property
    def _of_term(self) -> dict[Literal, list[int]]:
        places: dict[Literal, list[int]] = {}
        for place, literal in enumerate(self):
            places.setdefault(literal.term, []).append(place)
        return places

    def find(self, literal: Literal) -> int | None:
        """Returns the place of exactly this literal, or None."""
        return self._places.get(literal.key)

    def with_term(self, literal: Literal) -> list[int]:
        """Returns the places of the literals that are the same in RDF: with any unit or precision."""
        return self._of_term.get(Literal.of_key(literal.key).term, [])

    @cached_property
    def numbers(self) -> FloatArray:
        """The value of each number, and of each time in days since 1970; NaN for others: (L,)."""
        return np.fromiter((literal.number for literal in self), np.float64, len(self))

    @property
    def malformed(self) -> list[Literal]:
        """The literals whose datatype is a number or a time, but whose text is not."""
        places = np.flatnonzero(np.isnan(self.numbers))
        return [one for one in map(self.__getitem__, places.tolist()) if one.datatype in NUMBERS | TIMES and one.lexical != "NaN"]

    @cached_property
    def axes(self) -> tuple[tuple[str, ...], IntArray]:
        """The axes, and the axis of each literal. Only literals of one axis are comparable; axis 0 is for literals without an order."""
        names: dict[str, int] = {"": 0}
        places = (names.setdefault(literal.axis, len(names)) for literal in self)
        found = np.fromiter(places, np.int64, len(self))
        return tuple(names), np.where(np.isfinite(self.numbers), found, 0)

    def kinds(self, places: IntArray) -> dict[str, int]:
        """Counts the literals at some places by their kinds."""
        uses = np.bincount(places, minlength=len(self))
        counts: Counter[str] = Counter()
        for literal, count in zip(self, uses.tolist(), strict=True):
            counts[literal.kind] += count
        return {kind: count for kind, count in sorted(counts.items()) if count}

    def columns(self) -> list[object]:
        """Returns the columns of `SCHEMA`."""
        rows = [[*literal[:4], np.nan if literal.precision is None else literal.precision, *literal[5:]] for literal in self]
        return [*(zip(*rows, strict=True) if rows else [()] * 8), self.numbers]

    @classmethod
    def of_columns(cls, columns: Mapping[str, list[Any]]) -> "Literals":
        """Makes the table from the columns of `SCHEMA`; the rows are in the order of their keys."""
        names = SCHEMA.names[:-1]
        keys = [
            Literal(lexical, datatype, language, unit, None if precision != precision else precision, *more).key
            for lexical, datatype, language, unit, precision, *more in zip(*(columns[name] for name in names), strict=True)
        ]
        return cls(text_array(keys))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all literals in their order."""
        digest = hashlib.sha256()
        lengths = pc.binary_length(self.keys).to_numpy().astype("<i4")
        digest.update(lengths.tobytes())
        for key in self.keys.to_pylist():
            digest.update(key.encode())
        return digest.hexdigest()


NO_LITERALS = Literals()
