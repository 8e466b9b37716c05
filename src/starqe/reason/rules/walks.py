"""Statements as steps between their positions, the form in which rules use a graph.

A statement has a place for its head, one for its tail, and one for each relation of its qualifier pairs. A step leads from what is at
one place to what is at another; one of the two is an end. So "from the award's receiver to the work it was given for" is a step, like
"from a person to the employer" and its inverse.

n steps · S kinds of steps.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from starqe.kg import Graph, Known
from starqe.kg.known import bounds, is_among
from starqe.ragged import BoolArray, IntArray

HEAD, TAIL, FIRST_KEY = 0, 1, 2
"""The places: head, tail, and from here on the relations of qualifier pairs."""
_SMALL = 1 << 20  # codes below it are looked up in a table
WIDEST = 30
"""Rules skip steps that lead from one entity to more targets than this: such a step says little about each of them."""


def step_code(graph: Graph, relation: IntArray, start: IntArray | int, end: IntArray | int) -> IntArray:
    """Packs the relation of statements and two of their places into one number: (n,)."""
    places = len(graph.relations) + FIRST_KEY
    return np.asarray((relation.astype(np.int64) * places + start) * places + end)


def step_parts(graph: Graph, code: int) -> tuple[int, int, int]:
    """Unpacks the relation and the two places of a step."""
    places = len(graph.relations) + FIRST_KEY
    rest, end = divmod(int(code), places)
    return rest // places, rest % places, end


@dataclass(frozen=True, eq=False)
class Steps:
    """All steps of some known statements, between entities."""

    graph: Graph
    kinds: IntArray  # (S,) the codes of the steps that occur, ascending
    kind: IntArray  # (n,) int32, the kind of each step, as a position in ``kinds``
    source: IntArray  # (n,) int32
    target: IntArray  # (n,) int32
    row: IntArray  # (n,) int32, the statement of each step

    @classmethod
    def of(cls, known: Known) -> "Steps":
        """Lists the steps of known statements."""
        graph, rows = known.graph, known.rows
        pairs = graph.pairs.take(rows)
        own, value = rows[pairs.owner], pairs.items[:, 1]
        key = pairs.items[:, 0].astype(np.int64) + FIRST_KEY
        ends = ((HEAD, graph.head), (TAIL, graph.tail))
        parts: list[tuple[IntArray, IntArray | int, IntArray | int, IntArray, IntArray]] = []
        for (place, nodes), (opposite, others) in (ends, ends[::-1]):
            parts.append((rows, place, opposite, nodes[rows], others[rows]))
            parts += [(own, place, key, nodes[own], value), (own, key, place, value, nodes[own])]
        row, source, target = (np.concatenate([np.asarray(part[column], np.int32) for part in parts]) for column in (0, 3, 4))
        code = np.concatenate([step_code(graph, graph.relation[of], start, end) for of, start, end, _, _ in parts])
        if len(graph.literals):  # a literal leads nowhere
            between = (source < len(graph.entities)) & (target < len(graph.entities))
            row, source, target, code = (column[between] for column in (row, source, target, code))
        kinds, kind = _numbered(code)
        return cls(graph, kinds, kind, source, target, row)

    @cached_property
    def narrow(self) -> BoolArray:
        """Whether each step leads from its source to at most `WIDEST` targets, of its kind: (n,)."""
        _, place, count = np.unique(self.source.astype(np.int64) * len(self.kinds) + self.kind, return_inverse=True, return_counts=True)
        return np.asarray(count[place] <= WIDEST)


def _numbered(code: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the different codes, ascending, and the place of each code among them, as `numpy.unique` does, but faster for small codes."""
    most = int(code.max(initial=-1)) + 1
    if most > max(len(code), _SMALL):
        kinds, kind = np.unique(code, return_inverse=True)
        return kinds, kind.astype(np.int32)
    occurs = np.zeros(most, bool)
    occurs[code] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs, dtype=np.int32) - np.int32(1))[code]


class Walks:
    """The narrow steps of some known statements, each once, by their sources and kinds.

    Args:
        steps: All steps; they are not kept.
        known: The statements.
    """

    def __init__(self, steps: Steps, known: Known) -> None:
        self.graph, self.kinds = steps.graph, steps.kinds
        self._known = known
        entities = max(len(self.graph.entities), 1)
        if len(self.kinds) * entities**2 < 2**63:  # one number for each step
            packed = steps.source.astype(np.int64)
            packed *= len(self.kinds)
            packed += steps.kind
            packed *= entities
            packed += steps.target
            packed.sort()
            source_kind = packed // entities
            packed -= source_kind * entities
            target: IntArray = packed.astype(np.int32)
            del packed
        else:
            order = np.lexsort((steps.target, steps.kind, steps.source))
            source_kind, target = steps.source[order].astype(np.int64) * len(self.kinds) + steps.kind[order], steps.target[order]
        starts = np.flatnonzero(np.diff(source_kind, prepend=-1))
        counts = np.diff(starts, append=len(source_kind))
        kept = np.repeat(counts <= WIDEST, counts)
        kept[1:] &= (source_kind[1:] != source_kind[:-1]) | (target[1:] != target[:-1])
        self._source_kind, self._target = source_kind[kept], target[kept]  # (m,) source * S + kind, ascending; (m,) int32

    @classmethod
    def of(cls, known: Known) -> "Walks":
        """Finds the steps of known statements."""
        return cls(Steps.of(known), known)

    def kind_of(self, code: IntArray) -> IntArray:
        """Returns the kinds of steps by their codes, or -1 for those that do not occur: (n,)."""
        if not len(self.kinds):
            return np.full(len(code), -1)
        place = np.minimum(self.kinds.searchsorted(code), len(self.kinds) - 1)
        return np.where(self.kinds[place] == code, place, -1)

    def leaving(self, source: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Finds the narrow steps from each source: positions in ``source``, kinds and targets, each once."""
        first = source.astype(np.int64) * len(self.kinds)
        position, place = self._between(first, first + len(self.kinds))
        return position, self._source_kind[place] - first[position], self._target[place].astype(np.int64)

    def reached(self, source: IntArray, kind: IntArray) -> tuple[IntArray, IntArray]:
        """Finds the targets of the narrow steps of one kind from each source: positions in ``source``, and targets, each once."""
        first = source.astype(np.int64) * len(self.kinds) + kind
        position, place = self._between(first, first + 1)
        return position, self._target[place].astype(np.int64)

    def statements(self, source: int, kind: int, target: int) -> IntArray:
        """Returns the statements with a step of this kind from one entity to another, ascending."""
        relation, *places = step_parts(self.graph, int(self.kinds[kind]))
        graph, rows = self.graph, None
        for place, node in zip(places, (source, target), strict=True):
            if place in (HEAD, TAIL):
                own = np.flatnonzero((graph.head if place == HEAD else graph.tail) == node)
            else:
                pairs = (graph.pair_relation == place - FIRST_KEY) & (graph.pair_value == node)
                own = np.unique(graph.pairs.owner[pairs])
            rows = own if rows is None else np.intersect1d(rows, own)
        assert rows is not None
        return np.asarray(rows[is_among(rows, self._known.rows) & (graph.relation[rows] == relation)])

    def _between(self, first: IntArray, last: IntArray) -> tuple[IntArray, IntArray]:
        """Finds the steps whose number of source and kind is from one number to below another: positions in ``first``, and steps."""
        begin, end = bounds(self._source_kind, first, last)
        counts = end - begin
        position = np.repeat(np.arange(len(first)), counts)
        return position, np.arange(len(position)) + np.repeat(end - counts.cumsum(), counts)
