"""Walks backwards from an answer: how the queries of BetaE's benchmarks are found.

An answer is chosen first, then for each edge of the shape, from the target to the anchors, one of the relations that lead into
the node, and one of the entities that it leads from. All choices are uniform. A statement leads both ways: from head to tail by its
relation, from tail to head by the inverse.

n queries · E edges · A anchors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from starqe.errors import UnsupportedError
from starqe.kg.known import Known
from starqe.queries.generate.sample import turned
from starqe.queries.generate.symmetry import equivalent_orders
from starqe.queries.shape import TARGET, Shape, node_kind
from starqe.queries.table import QueryTable
from starqe.ragged import BoolArray, IntArray, Ragged

NOTHING = -1
"""Marks a step that does not exist."""


@dataclass(frozen=True, eq=False)
class WaysIn:
    """The steps that lead into each entity, and where each comes from.

    A step is a relation with a direction: twice its id, and one more if the statement is walked from tail to head. A way is an entity
    with one of the steps that lead into it.
    """

    relations: int
    ways: IntArray  # ascending: entity * 2 * relations + step
    sources: Ragged  # a row of entities for each way
    first: IntArray  # (entities + 1,): where the ways of each entity begin

    @classmethod
    def of(cls, known: Known) -> Self:
        """Collects them from the statements of some splits; qualifiers are left aside."""
        graph, rows = known.graph, known.rows
        entities, relations = len(graph.entities), len(graph.relations)
        head, relation, tail = (column[rows].astype(np.int64) for column in (graph.head, graph.relation, graph.tail))
        into, step = np.concatenate([tail, head]), np.concatenate([2 * relation, 2 * relation + 1])
        codes = np.unique((into * 2 * relations + step) * entities + np.concatenate([head, tail]))
        ways, owner = np.unique(codes // entities, return_inverse=True)
        sources = Ragged.of_owner(owner, codes % entities, len(ways))
        return cls(relations, ways, sources, np.searchsorted(ways, np.arange(entities + 1) * 2 * relations))

    @property
    def entities(self) -> IntArray:
        """The entities that a step leads into."""
        return np.flatnonzero(np.diff(self.first))

    def draw(self, nodes: IntArray, after: IntArray | None, random: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Draws a step into each node, and where it comes from; both are NOTHING where there is none.

        Args:
            nodes: The nodes. (n,)
            after: The step that leaves each node; its inverse, which would go back, is not drawn. (n,)
            random: Where the choices come from.
        """
        first, last = self.first[nodes], self.first[nodes + 1]
        number = last - first
        back = np.full(len(nodes), len(self.ways))
        if after is not None:
            wanted = nodes * 2 * self.relations + (after ^ 1)
            place = np.searchsorted(self.ways, wanted)
            back = np.where(np.append(self.ways, NOTHING)[place] == wanted, place, back)
            number = number - (back < last)
        way = first + random.integers(0, np.maximum(number, 1))
        way = np.where(way >= back, way + 1, way)
        found = number > 0
        way = np.where(found, way, 0)
        counts = self.sources.counts[way]
        source = self.sources.items[self.sources.offsets[way] + random.integers(0, counts)]
        return np.where(found, self.ways[way] % (2 * self.relations), NOTHING), np.where(found, source, NOTHING)


@dataclass(frozen=True, eq=False)
class Walks:
    """Queries of a shape by their steps: an entity for each anchor, and a step for each edge."""

    shape: Shape
    steps: IntArray  # (n, E)
    anchors: IntArray  # (n, A)

    def __len__(self) -> int:
        return len(self.steps)

    def take(self, rows: IntArray) -> "Walks":
        """Returns these queries, in this order."""
        return Walks(self.shape, self.steps[rows], self.anchors[rows])

    @classmethod
    def none(cls, shape: Shape) -> Self:
        """Returns no queries."""
        return cls(shape, np.empty((0, len(shape.edges)), np.int64), np.empty((0, len(shape.anchors)), np.int64))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Concatenates queries of one shape."""
        return cls(parts[0].shape, *(np.concatenate([getattr(part, name) for part in parts]) for name in ("steps", "anchors")))

    @property
    def keys(self) -> list[bytes]:
        """Identifies each query."""
        return [row.tobytes() for row in np.concatenate([self.steps, self.anchors], axis=1)]

    def tables(self) -> list[tuple[IntArray, QueryTable]]:
        """Returns one table for each combination of directions that occurs, without answers, and which queries it holds."""
        turns = self.steps & 1
        found: list[tuple[IntArray, QueryTable]] = []
        for directions in np.unique(turns, axis=0):
            rows = np.flatnonzero((turns == directions).all(axis=1))
            shape = turned(self.shape, [bool(turn) for turn in directions])
            pairs, answers = Ragged.empty(len(rows) * len(shape.edges), 2), Ragged.empty(len(rows))
            ids = (self.anchors[rows].astype(np.int32), (self.steps[rows] >> 1).astype(np.int32))
            found.append((rows, QueryTable(shape, *ids, pairs, answers, {})))
        return found


def check_leads_to_target(shape: Shape) -> None:
    """Checks that a shape can be walked backwards: one edge leaves every node but the target, and edges enter all but the anchors.

    Raises:
        UnsupportedError: It cannot.
    """
    leaves, entered = [head for head, _ in shape.edges], {tail for _, tail in shape.edges}
    fits = sorted(leaves) == sorted(set(shape.nodes) - {TARGET}) and entered == {TARGET, *shape.of_kind("variable")}
    if shape.slots or not fits:
        raise UnsupportedError(
            "queries are sampled backwards from an answer if every edge leads from an anchor towards the target, one from each other node, "
            f"and no qualifier value is open; found shape '{shape.name}' ('{shape.text}'). Sample it forwards, or generate it"
        )


def walk_back(shape: Shape, into: WaysIn, count: int, random: np.random.Generator) -> Walks:
    """Walks a shape backwards this many times; walks that cannot go on, and those with the same edge twice, are left out.

    No step of a path goes straight back. Where a shape has symmetries, the smallest of the equivalent queries is taken.

    Raises:
        UnsupportedError: The shape cannot be walked backwards.
    """
    check_leads_to_target(shape)
    far = shape.distances(TARGET)
    tails = [tail for _, tail in shape.edges]
    leaving = {head: edge for edge, (head, _) in enumerate(shape.edges)}
    bound = {TARGET: random.choice(into.entities, count) if len(into.entities) else np.empty(0, np.int64)}
    steps = np.full((len(bound[TARGET]), len(shape.edges)), NOTHING, np.int64)
    for edge in sorted(range(len(shape.edges)), key=lambda edge: far[tails[edge]]):
        head, tail = shape.edges[edge]
        on_a_path = tail != TARGET and tails.count(tail) == 1
        steps[:, edge], bound[head] = into.draw(bound[tail], steps[:, leaving[tail]] if on_a_path else None, random)
        on = np.flatnonzero(steps[:, edge] != NOTHING)
        steps, bound = steps[on], {node: values[on] for node, values in bound.items()}
    walks = Walks(shape, steps, np.stack([bound[anchor] for anchor in shape.anchors], axis=1))
    return _first_of_equals(walks.take(np.flatnonzero(~_collapsed(walks))))


def _collapsed(walks: Walks) -> BoolArray:
    """Returns whether two edges from anchors into one node are the same edge."""
    shape, same = walks.shape, np.zeros(len(walks), bool)
    for one, other in shape.collapses:
        ends = [shape.edges[edge][0] for edge in (one, other)]
        if all(node_kind(end) == "anchor" for end in ends):
            first, second = (walks.anchors[:, shape.anchors.index(end)] for end in ends)
            same |= (walks.steps[:, one] == walks.steps[:, other]) & (first == second)
    return same


def _first_of_equals(walks: Walks) -> Walks:
    """Replaces each query by the smallest of those that mean the same: backward steps last, then by step and anchor."""
    shape = walks.shape
    anchor_of = [shape.anchors.index(head) if node_kind(head) == "anchor" else NOTHING for head, _ in shape.edges]
    anchors = np.stack([np.where(place == NOTHING, 0, walks.anchors[:, place]) for place in anchor_of], axis=1)
    steps = walks.steps
    orders = [list(image.edges) for image in equivalent_orders(shape)]
    best_steps, best_anchors = steps.copy(), anchors.copy()
    for order in orders:
        turned_steps, turned_anchors = steps[:, order], anchors[:, order]
        less, equal = np.zeros(len(walks), bool), np.ones(len(walks), bool)
        for edge in range(len(shape.edges)):
            for one, other in (
                (turned_steps[:, edge] & 1, best_steps[:, edge] & 1),
                (turned_steps[:, edge], best_steps[:, edge]),
                (turned_anchors[:, edge], best_anchors[:, edge]),
            ):
                less |= equal & (one < other)
                equal &= one == other
        best_steps[less], best_anchors[less] = turned_steps[less], turned_anchors[less]
    given = [anchor_of.index(place) for place in range(len(shape.anchors))]
    return Walks(shape, best_steps, best_anchors[:, given])
