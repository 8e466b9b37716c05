"""Look-ups over the statements of chosen splits."""

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from starqe.ragged import BoolArray, IntArray, stable_order

if TYPE_CHECKING:
    from starqe.kg.graph import Graph

Side = Literal["head", "tail"]
MANY = 256
"""From this number on, codes are looked up in their order: neighbours share the part of a large index that is in the cache."""


class Known:
    """Look-ups over some statements of a graph; made by `Graph.known`, which names the splits.

    Every answer is an array of statement rows of the graph. Indexes are built on first use and kept.
    """

    def __init__(self, graph: "Graph", rows: IntArray) -> None:
        self.graph = graph
        self.rows = rows
        """The rows that count as known, ascending."""

    def __len__(self) -> int:
        return len(self.rows)

    def with_at_least(self, pairs: int) -> "Known":
        """Returns look-ups over the known statements that have at least this many qualifier pairs; they are kept, with their indexes."""
        if pairs <= 0:
            return self
        if pairs not in self._parts:
            self._parts[pairs] = Known(self.graph, self.rows[self.graph.pairs.counts[self.rows] >= pairs])
        return self._parts[pairs]

    @cached_property
    def _parts(self) -> dict[int, "Known"]:
        return {}

    def build_indexes(self) -> None:
        """Builds all indexes now, so that no look-up has to wait for one."""
        for name in ("_head", "_tail", "_relation", "_relation_head", "_relation_tail", "_triple", "_pair", "_owner"):
            getattr(self, f"{name}_index")

    def by_head(self, head: int, relation: int | None = None) -> IntArray:
        """Returns the statements with this head (and relation)."""
        return self.at("head", head, relation)

    def by_tail(self, tail: int, relation: int | None = None) -> IntArray:
        """Returns the statements with this tail (and relation)."""
        return self.at("tail", tail, relation)

    def at(self, side: Side, node: int, relation: int | None = None) -> IntArray:
        """Returns the statements with this node on this side (and relation)."""
        if not 0 <= node < self.graph.value_count:
            return self.rows[:0]
        if relation is None:
            starts, rows = self._head_index if side == "head" else self._tail_index
            return rows[starts[node] : starts[node + 1]]
        keys, rows = self._side_index(side)
        return _with_key(keys, rows, int(relation) * self.graph.value_count + int(node))  # an int32 would overflow

    def by_relation(self, relation: int) -> IntArray:
        """Returns the statements with this main relation."""
        return _with_key(*self._relation_index, int(relation))

    def by_qualifier(self, relation: int, value: int) -> IntArray:
        """Returns the statements that have this qualifier pair, ascending."""
        keys, rows = self._pair_index
        return _with_key(keys, rows, int(relation) * self.graph.value_count + int(value))  # an int32 would overflow

    def pairs_of(self, relation: int) -> tuple[IntArray, IntArray]:
        """Returns the statements that have a qualifier with this relation, and its value in each: (n,) both."""
        keys, rows = self._pair_index
        code = int(relation) * self.graph.value_count
        found = slice(keys.searchsorted(code), keys.searchsorted(code + self.graph.value_count))
        return rows[found], keys[found] - code

    def holds(self, head: int, relation: int, tail: int, pairs: Iterable[tuple[int, int]] = ()) -> bool:
        """Returns whether one known statement has this main triple and all of these pairs (and maybe more)."""
        rows = self.by_head(head, relation)
        rows = rows[self.graph.tail[rows] == tail]
        return bool(self.with_pairs(rows, pairs).any())

    def with_pairs(self, rows: IntArray, pairs: Iterable[tuple[int, int]]) -> BoolArray:
        """Returns for each row whether that one statement has all of the pairs."""
        found = np.ones(len(rows), bool)
        for relation, value in pairs:
            found &= is_among(rows, self.by_qualifier(relation, value))
        return found

    def expand(self, side: Side, nodes: IntArray, relation: int | IntArray) -> tuple[IntArray, IntArray]:
        """Finds, for every node, the statements with this relation (or its own relation) that have the node on this side.

        Returns:
            Positions in ``nodes`` and statement rows, of the same length: one pair for each match.
        """
        return matches(self._side_index(side), self._codes(nodes, relation))

    def count(self, side: Side, nodes: IntArray, relation: int | IntArray) -> int:
        """Counts the matches that `expand` would find."""
        return int(self.counts(side, nodes, relation).sum())

    def counts(self, side: Side, nodes: IntArray, relation: int | IntArray) -> IntArray:
        """Counts the matches that `expand` would find for every node: (n,)."""
        keys, _ = self._side_index(side)
        codes = self._codes(nodes, relation)
        first, last = bounds(keys, codes, codes + 1)
        return last - first

    def find(self, head: IntArray, relation: int | IntArray, tail: IntArray) -> tuple[IntArray, IntArray]:
        """Finds, for every main triple, the statements that have it.

        Returns:
            Positions in the arrays and statement rows, of the same length: one pair for each match.
        """
        starts, keys, rows = self._triple_index
        codes = self._codes(head, relation)
        place = _places(starts, codes)
        exists = np.flatnonzero(starts[np.minimum(place, len(starts) - 1)] == codes) if len(starts) else np.empty(0, np.int64)
        position, found = matches((keys, rows), place[exists] * self.graph.value_count + tail[exists])
        return exists[position], found

    def have_pair(self, rows: IntArray, relation: IntArray, value: IntArray) -> BoolArray:
        """Returns for each known statement i whether it has the pair of ``relation[i]`` and ``value[i]``."""
        codes, keys = self._owner_index
        if not len(codes):
            return np.zeros(len(rows), bool)
        wanted = self._codes(value, relation)
        place = np.minimum(_places(codes, wanted), len(codes) - 1)
        owned = place * len(self.graph) + rows
        owned_by_row = keys[np.minimum(_places(keys, owned), len(keys) - 1)] == owned
        return np.asarray(owned_by_row & (codes[place] == wanted))

    def have_pairs(
        self,
        rows: IntArray,
        first: IntArray,
        last: IntArray,
        relation: IntArray,
        value: IntArray,
        either: BoolArray | None = None,
    ) -> BoolArray:
        """Returns for each known statement whether it has all of the pairs that are given for it.

        Args:
            rows: The statements. (n,)
            first: Where the pairs of each begin in the columns of pairs. (n,)
            last: Where they end. (n,)
            relation: The relations of the pairs.
            value: Their values.
            either: The pairs that count as present in any case; none if left out.
        """
        fits = np.ones(len(rows), bool)
        for number in range(int((last - first).max(initial=0))):
            remaining = np.flatnonzero(fits & (first + number < last))
            pair = first[remaining] + number
            has = self.have_pair(rows[remaining], relation[pair], value[pair])
            fits[remaining] = has if either is None else has | either[pair]
        return fits

    def draw(self, side: Side, nodes: IntArray, random: np.random.Generator) -> tuple[IntArray, IntArray]:
        """Samples a statement per node, with the node on this side; a node without statements is left out.

        Returns:
            Positions in ``nodes`` and statement rows, of the same length: one pair for each node that has a statement.
        """
        starts, rows = self._head_index if side == "head" else self._tail_index
        first, last = starts[nodes], starts[nodes.astype(np.int64) + 1]
        found = np.flatnonzero(last > first)
        return found, rows[random.integers(first[found], last[found])]

    def degree(self, side: Side) -> IntArray:
        """Counts, for every entity, the known statements that have it on this side."""
        entities = len(self.graph.entities)
        return np.bincount(getattr(self.graph, side)[self.rows], minlength=entities)[:entities]  # (V,)

    def _side_index(self, side: Side) -> tuple[IntArray, IntArray]:
        return self._relation_head_index if side == "head" else self._relation_tail_index

    def _of_nodes(self, node: IntArray) -> tuple[IntArray, IntArray]:
        """Returns where the rows of each node begin, and the rows: one look-up takes the same time in a graph of any size."""
        counts = np.bincount(node[self.rows], minlength=self.graph.value_count)
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), self.rows[stable_order(node[self.rows])]

    @cached_property
    def _head_index(self) -> tuple[IntArray, IntArray]:
        return self._of_nodes(self.graph.head)

    @cached_property
    def _tail_index(self) -> tuple[IntArray, IntArray]:
        return self._of_nodes(self.graph.tail)

    @cached_property
    def _relation_index(self) -> tuple[IntArray, IntArray]:
        return _sorted(self.graph.relation[self.rows], self.rows)

    @cached_property
    def _relation_head_index(self) -> tuple[IntArray, IntArray]:
        return _sorted(self._with_relation(self.graph.head), self.rows)

    @cached_property
    def _relation_tail_index(self) -> tuple[IntArray, IntArray]:
        return _sorted(self._with_relation(self.graph.tail), self.rows)

    @cached_property
    def _triple_index(self) -> tuple[IntArray, IntArray, IntArray]:
        """The distinct codes of (relation, head), then keys made of the position of that code and the tail, and the rows."""
        starts, place = _distinct_places(self._with_relation(self.graph.head))
        return starts, *_sorted(place * self.graph.value_count + self.graph.tail[self.rows], self.rows)

    @cached_property
    def _owner_index(self) -> tuple[IntArray, IntArray]:
        """The distinct codes of pairs, then sorted keys made of the position of a pair's code and its statement."""
        pairs, rows = self._pair_index
        codes, place = _distinct_places(pairs)
        return codes, np.sort(place * len(self.graph) + rows)

    def _with_relation(self, node: IntArray) -> IntArray:
        return self._codes(node[self.rows], self.graph.relation[self.rows])

    def _codes(self, node: IntArray, relation: int | IntArray) -> IntArray:
        return np.asarray(np.asarray(relation, np.int64) * self.graph.value_count + node)

    @cached_property
    def _pair_index(self) -> tuple[IntArray, IntArray]:
        graph = self.graph
        known = np.isin(graph.pairs.owner, self.rows)
        codes = graph.pair_relation[known].astype(np.int64) * graph.value_count + graph.pair_value[known]
        return _sorted(codes, graph.pairs.owner[known])


def _sorted(keys: IntArray, rows: IntArray) -> tuple[IntArray, IntArray]:
    order = stable_order(keys)
    return keys[order], rows[order]


def _distinct_places(keys: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the different keys, ascending, and the place of each key among them; faster than `numpy.unique`."""
    order = stable_order(keys)
    found = keys[order]
    fresh = np.ones(len(found), bool)
    fresh[1:] = found[1:] != found[:-1]
    place = np.empty(len(keys), np.int64)
    place[order] = np.cumsum(fresh) - 1
    return found[fresh], place


def _with_key(keys: IntArray, rows: IntArray, key: int) -> IntArray:
    """Returns the rows that have a key."""
    wanted = keys.dtype.type(key)  # with another type, all keys would be converted
    return rows[keys.searchsorted(wanted) : keys.searchsorted(wanted, "right")]


def distinct(values: IntArray) -> IntArray:
    """Returns the values ascending, each once, which `numpy.unique` does too, but slower for short arrays: (m,)."""
    ordered = np.sort(values)
    if len(ordered) < 2:
        return ordered
    fresh = np.empty(len(ordered), bool)
    fresh[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    return np.asarray(ordered[fresh])


def is_among(values: IntArray, ascending: IntArray) -> BoolArray:
    """Returns for each value whether it occurs in an ascending array; for short ones this is faster than `numpy.isin`: (n,)."""
    if not len(ascending):
        return np.zeros(len(values), bool)
    place = ascending.searchsorted(values)
    place[place == len(ascending)] = 0
    return np.asarray(ascending[place] == values)


def matches(index: tuple[IntArray, IntArray], codes: IntArray) -> tuple[IntArray, IntArray]:
    """Finds all entries of codes in an index of sorted keys and their rows.

    Returns:
        Positions in ``codes`` and rows, of the same length: one pair for each entry.
    """
    keys, rows = index
    first, last = bounds(keys, codes, codes + 1)
    counts = last - first
    ends = counts.cumsum()
    position = np.repeat(np.arange(len(codes)), counts)
    return position, rows[np.arange(len(position)) + np.repeat(last - ends, counts)]


def bounds(keys: IntArray, first: IntArray, past: IntArray) -> tuple[IntArray, IntArray]:
    """Returns where numbers from ``first`` to below ``past`` begin and end in an array of sorted keys: (n,), (n,)."""
    if len(first) < MANY:
        return np.asarray(keys.searchsorted(first)), np.asarray(keys.searchsorted(past))
    order = np.argsort(first)
    both = np.empty((len(first), 2), first.dtype)  # where a range ends is near where it begins, in the cache
    both[:, 0] = first[order]
    both[:, 1] = past[order]
    places = np.empty((len(first), 2), np.int64)
    places[order] = keys.searchsorted(both.ravel()).reshape(-1, 2)
    return places[:, 0], places[:, 1]


def _places(keys: IntArray, codes: IntArray) -> IntArray:
    """Returns where each code begins in an array of sorted keys: (n,)."""
    if len(codes) < MANY:
        return np.asarray(keys.searchsorted(codes))
    order = np.argsort(codes)
    first = np.empty(len(codes), np.int64)
    first[order] = keys.searchsorted(codes[order])
    return first
