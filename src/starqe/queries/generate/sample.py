"""Samples queries: for shapes, directions and qualifiers whose full set is too large to generate.

A query is sampled by a random walk: one edge is a random statement, and the others follow from the nodes that are bound.
Its answers are all that the known statements entail. Rows are distinct (a 2i may occur in both orders of its edges), but
not uniform: a node with many statements is visited more often.

A shape with alternatives or negated parts is walked as if all of its edges held, so that the alternatives meet and the negation
excludes something; its validation and test queries are kept if they have a hard answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from starqe.errors import UnsupportedError
from starqe.kg import Graph
from starqe.queries.exact.answering import answer_rows, easy_and_hard
from starqe.queries.generate.engine import CONTEXT
from starqe.queries.generate.settings import QuerySettings
from starqe.queries.query_set import HEADER, claim, finished, table_path
from starqe.queries.shape import Shape
from starqe.queries.table import QueryTable, save_table, stack
from starqe.ragged import IntArray, Ragged
from starqe.remote import address, continued
from starqe.seed import generator

ROUNDS, ROUNDS_COMPOSED = 20, 200
"""The maximum number of rounds of walks; many walks of shapes with alternatives or negated parts give no query."""
NO_PAIR = -1
EXHAUSTED = 50
"""Sampling ends when at most one in this many rows is new: the graph has hardly any other queries."""


def turned(shape: Shape, directions: Sequence[bool]) -> Shape:
    """Returns the shape with some edges reversed; its name says which: ``2p.01`` has its second edge reversed."""
    edges = tuple((tail, head) if turn else (head, tail) for (head, tail), turn in zip(shape.edges, directions, strict=True))
    name = f"{shape.name}.{''.join(str(int(turn)) for turn in directions)}" if any(directions) else shape.name
    return Shape(name, edges, shape.values, shape.tree)


def sample(
    graph: Graph, shape: Shape, count: int, split: str, counts: Sequence[tuple[int, int]], seed: int = 0, most_answers: int = 100
) -> QueryTable:
    """Samples up to ``count`` distinct queries of a shape, with their answers on the splits up to this one.

    Args:
        graph: The graph.
        shape: The shape; a tree, since a walk closes no cycles.
        count: The number of queries; fewer are returned if the graph does not have them.
        split: Train, or a split that at least one edge is from.
        counts: The fewest and the most qualifier pairs of each edge; the number is sampled uniformly from what a statement has.
        seed: Decides the sample.
        most_answers: Queries with more answers are left out.

    Raises:
        UnsupportedError: The shape has a cycle.
    """
    if len(shape.nodes) != len(shape.edges) + len(shape.slots) + 1:
        raise UnsupportedError(
            f"queries are sampled by walks over trees, and shape '{shape.name}' ('{shape.text}') has a cycle. Generate them instead"
        )
    graph = graph.entity_part
    known, walk = graph.known(CONTEXT[split]), _Walk(graph, shape, split, counts, seed)
    header = {"split": split, "fingerprint": graph.fingerprint, "sampled": True}
    tables: list[QueryTable] = []
    tried: set[bytes] = set()
    missing = count
    for number in range(ROUNDS if shape.tree is None else ROUNDS_COMPOSED):
        table = walk.draw(2 * count, number)
        fresh = _fresh(table, tried, missing if shape.tree is None else len(table))
        drawn = table.take(fresh)
        drawn = replace(drawn, answers=answer_rows(known, drawn), header=header)
        kept = drawn.answers.counts <= most_answers
        if shape.tree is not None:
            hard = drawn.answers if split == "train" else easy_and_hard(graph, drawn, None, split)[1]
            kept &= hard.counts > 0
        tables.append(drawn.take(np.flatnonzero(kept)[:missing]))
        missing -= len(tables[-1])
        if not missing or len(fresh) <= len(table) // EXHAUSTED:
            break
    return stack(tables)


def _fresh(table: QueryTable, tried: set[bytes], most: int) -> list[int]:
    """Returns the first rows that were not tried before, and marks them as tried."""
    rows: list[int] = []
    for row in range(len(table)):
        if len(rows) == most:
            break
        if (key := _key(table, row)) not in tried:
            tried.add(key)
            rows.append(row)
    return rows


def sample_queries(
    graph: Graph,
    destination: Path,
    shapes: Sequence[Shape],
    split: str,
    settings: QuerySettings,
    turn: bool,
    progress: Callable[[str, int], None] = lambda *_: None,
) -> None:
    """Samples a query set: one table per shape, or per shape with all its edges reversed.

    Raises:
        UnsupportedError: A shape has a cycle.
        StorageError: The destination holds something else, or cannot be written.
    """
    if address(destination):
        with continued(destination, HEADER) as local:
            sample_queries(graph, local, shapes, split, settings, turn, progress)
        return
    assert settings.limit is not None
    graph = graph.entity_part
    claim(destination, graph, settings)
    for shape in shapes:
        named = turned(shape, [turn] * len(shape.edges))
        path = table_path(destination, split, named.name)
        header = _header(graph, split, settings)
        if (count := finished(path, named, header)) is None:
            table = sample(graph, named, settings.limit, split, settings.counts_for(named), settings.seed)
            save_table(replace(table, header=header), path)
            count = len(table)
        progress(named.name, count)


def _header(graph: Graph, split: str, settings: QuerySettings) -> dict[str, Any]:
    return {"split": split, "fingerprint": graph.fingerprint, "settings": settings.stored(), "sampled": True}


class _Walk:
    """Samples bindings of a shape: a random edge first, then its neighbours."""

    def __init__(self, graph: Graph, shape: Shape, split: str, counts: Sequence[tuple[int, int]], seed: int) -> None:
        values = [len(shape.values_of(edge)) for edge in range(len(shape.edges))]
        counts = [(max(fewest, least), max(most, least)) for (fewest, most), least in zip(counts, values, strict=True)]
        self._graph, self._shape, self._counts, self._seed = graph, shape, counts, seed
        self._split = split
        # The statements that have enough pairs for an edge, of the new split and of the whole context.
        self._new = [graph.known([split]).with_at_least(fewest) for fewest, _ in counts]
        self._context = [graph.known(CONTEXT[split]).with_at_least(fewest) for fewest, _ in counts]

    def draw(self, count: int, round_: int) -> QueryTable:
        """Samples about ``count`` queries, without answers; fewer where walks end early."""
        random = generator(self._seed, f"sample {self._shape.text} {self._split} {round_}")
        parts = []
        for first in range(len(self._shape.edges)):
            rows, pairs = self._walk(first, -(-count // len(self._shape.edges)), random)
            parts.append(self._table(rows, pairs, random))
        whole = stack(parts)
        return whole.take(random.permutation(len(whole)))

    def _walk(self, first: int, count: int, random: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Returns a statement for each edge, the given one of the new split, and a pair for each value to be found: (n, E), (n, S)."""
        graph, shape = self._graph, self._shape
        rows: IntArray = np.zeros((count, len(shape.edges)), np.int64)
        pairs: IntArray = np.full((count, len(shape.slots)), NO_PAIR, np.int64)
        if not len(self._new[first]):
            return rows[:0], pairs[:0]
        rows[:, first] = random.choice(self._new[first].rows, count)
        bound = {shape.edges[first][0]: graph.head[rows[:, first]], shape.edges[first][1]: graph.tail[rows[:, first]]}
        rows, pairs, bound = self._values(first, rows, pairs, bound, random)
        left = [edge for edge in range(len(shape.edges)) if edge != first]
        while left:
            edge = next(edge for edge in left if shape.nodes_of([edge]) & bound.keys())
            left.remove(edge)
            head, tail = shape.edges[edge]
            if head in bound or tail in bound:
                found, chosen = self._context[edge].draw(
                    "head" if head in bound else "tail", bound[head if head in bound else tail], random
                )
                rows, pairs = rows[found], pairs[found]
            else:
                slot = next(i for i, (of, node) in enumerate(shape.slots) if of == edge and node in bound)
                found, place = self._with_value(edge, bound[shape.slots[slot][1]], random)
                chosen, rows, pairs = graph.pairs.owner[place], rows[found], pairs[found]
                pairs[:, slot] = place
            rows[:, edge] = chosen
            bound = {node: values[found] for node, values in bound.items()}
            bound |= {node: ends[chosen] for node, ends in ((head, graph.head), (tail, graph.tail)) if node not in bound}
            rows, pairs, bound = self._values(edge, rows, pairs, bound, random)
        triples = [tuple(column[rows[:, edge]] for column in (graph.head, graph.relation, graph.tail)) for edge in range(rows.shape[1])]
        same = np.zeros(len(rows), bool)
        for i, one in enumerate(triples):
            for other in triples[:i]:
                same |= np.logical_and.reduce([a == b for a, b in zip(one, other, strict=True)])
        return rows[~same], pairs[~same]

    def _values(
        self, edge: int, rows: IntArray, pairs: IntArray, bound: dict[str, IntArray], random: np.random.Generator
    ) -> tuple[IntArray, IntArray, dict[str, IntArray]]:
        """Samples a pair for each value of an edge that is not bound, none of them twice; statements without enough pairs are left out."""
        graph, slots = self._graph, [i for i, (of, _) in enumerate(self._shape.slots) if of == edge]
        for slot in slots:
            if self._shape.slots[slot][1] in bound:
                continue
            own = graph.pairs.places(rows[:, edge])
            free = own.where(~(own.items[:, None] == pairs[own.owner][:, slots]).any(axis=1))
            kept = np.flatnonzero(free.counts)
            place = free.items[free.offsets[kept] + random.integers(0, free.counts[kept])] if len(kept) else np.empty(0, np.int64)
            rows, pairs, bound = rows[kept], pairs[kept], {node: values[kept] for node, values in bound.items()}
            pairs[:, slot] = place
            bound[self._shape.slots[slot][1]] = graph.pair_value[place]
        return rows, pairs, bound

    def _with_value(self, edge: int, values: IntArray, random: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Samples a pair with each value from the statements of the context; a value without one is left out.

        Returns:
            Positions in ``values`` and pairs of the graph, of the same length.
        """
        graph = self._graph
        places = np.flatnonzero(np.isin(graph.pairs.owner, self._context[edge].rows))
        places = places[np.argsort(graph.pair_value[places], kind="stable")]
        keys = graph.pair_value[places]
        first, last = np.searchsorted(keys, values), np.searchsorted(keys, values, "right")
        found = np.flatnonzero(last > first)
        return found, places[random.integers(first[found], last[found])]

    def _table(self, rows: IntArray, opened: IntArray, random: np.random.Generator) -> QueryTable:
        """Turns the statements of the edges into queries, with some of their pairs beside those whose values are to be found."""
        graph, shape = self._graph, self._shape
        column = {}
        for edge, (head, tail) in enumerate(shape.edges):
            column[head], column[tail] = graph.head[rows[:, edge]], graph.tail[rows[:, edge]]
        anchors = np.stack([column[anchor] for anchor in shape.anchors], axis=1)
        pairs = graph.pairs.take(rows.ravel())
        fewest, most = (np.tile([count[i] - len(shape.values_of(e)) for e, count in enumerate(self._counts)], len(rows)) for i in (0, 1))
        if shape.slots:
            places, taken = graph.pairs.places(rows.ravel()), np.repeat(opened, rows.shape[1], axis=0)  # (n * E, S)
            pairs = pairs.where(~(places.items[:, None] == taken[places.owner]).any(axis=1))  # no two edges have one statement
        available = pairs.counts
        wanted = random.integers(fewest, np.minimum(np.maximum(most, fewest), available) + 1) if len(available) else available
        # The pairs of each edge in a random order: the first ones are kept, in the graph's order.
        order = np.lexsort((random.random(len(pairs.items)), pairs.owner))
        place = np.empty(len(pairs.items), np.int64)
        place[order] = pairs.within
        kept = pairs.where(place < wanted[pairs.owner])
        return QueryTable(shape, anchors, graph.relation[rows], kept, Ragged.empty(len(rows)), {}, graph.pair_relation[opened])


def _key(table: QueryTable, row: int) -> bytes:
    edges = len(table.shape.edges)
    pairs = table.pairs.slice(row * edges, (row + 1) * edges)
    columns = (table.anchors[row], table.relations[row], pairs.counts, pairs.items, table.value_relations[row])
    return b"/".join(part.tobytes() for part in columns)
