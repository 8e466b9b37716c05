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
from starqe.kg.known import matches
from starqe.ragged import BoolArray, IntArray

HEAD, TAIL, FIRST_KEY = 0, 1, 2
"""The places: head, tail, and from here on the relations of qualifier pairs."""
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
class Walks:
    """All steps of some known statements, between entities."""

    graph: Graph
    kinds: IntArray  # (S,) the codes of the steps that occur, ascending
    kind: IntArray  # (n,) the kind of each step, as a position in ``kinds``
    source: IntArray  # (n,)
    target: IntArray  # (n,)
    row: IntArray  # (n,) the statement of each step

    @classmethod
    def of(cls, known: Known) -> "Walks":
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
        row, source, target = (np.concatenate([part[column] for part in parts]).astype(np.int64) for column in (0, 3, 4))
        code = np.concatenate([step_code(graph, graph.relation[of], start, end) for of, start, end, _, _ in parts])
        between = (source < len(graph.entities)) & (target < len(graph.entities))  # a literal leads nowhere
        kinds, kind = np.unique(code[between], return_inverse=True)
        return cls(graph, kinds, kind, source[between], target[between], row[between])

    def kind_of(self, code: IntArray) -> IntArray:
        """Returns the kinds of steps by their codes, or -1 for those that do not occur: (n,)."""
        if not len(self.kinds):
            return np.full(len(code), -1)
        place = np.minimum(self.kinds.searchsorted(code), len(self.kinds) - 1)
        return np.where(self.kinds[place] == code, place, -1)

    @cached_property
    def narrow(self) -> BoolArray:
        """Whether each step leads from its source to at most `WIDEST` targets, of its kind: (n,)."""
        _, place, count = np.unique(self._from(), return_inverse=True, return_counts=True)
        return np.asarray(count[place] <= WIDEST)

    def leaving(self, source: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Finds the narrow steps from each source: positions in ``source``, kinds and targets, each once."""
        position, place = matches(self._by_source, source)
        return position, self._distinct[1][place], self._distinct[2][place]

    def reached(self, source: IntArray, kind: IntArray) -> tuple[IntArray, IntArray]:
        """Finds the targets of the narrow steps of one kind from each source: positions in ``source``, and targets, each once."""
        position, place = matches(self._by_source_and_kind, source * len(self.kinds) + kind)
        return position, self._distinct[2][place]

    def statements(self, source: int, kind: int, target: int) -> IntArray:
        """Returns the statements with a step of this kind from one entity to another."""
        return np.asarray(self.row[(self.source == source) & (self.kind == kind) & (self.target == target)])

    def _from(self) -> IntArray:
        return np.asarray(self.source * len(self.kinds) + self.kind)

    @cached_property
    def _distinct(self) -> tuple[IntArray, IntArray, IntArray]:
        """Sources, kinds and targets of the narrow steps, sorted, each once."""
        order = np.lexsort((self.target[self.narrow], self._from()[self.narrow]))
        columns = [column[self.narrow][order] for column in (self.source, self.kind, self.target)]
        fresh = np.ones(len(order), bool)
        fresh[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
        source, kind, target = (column[fresh] for column in columns)
        return source, kind, target

    @cached_property
    def _by_source(self) -> tuple[IntArray, IntArray]:
        return self._distinct[0], np.arange(len(self._distinct[0]))

    @cached_property
    def _by_source_and_kind(self) -> tuple[IntArray, IntArray]:
        return self._distinct[0] * len(self.kinds) + self._distinct[1], np.arange(len(self._distinct[0]))
