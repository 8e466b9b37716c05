"""The edge rows of a graph, as tables to be joined.

An edge row is a distinct ``(s, p, o, q)``: a main triple with a set of qualifier pairs that one statement has. ``mask`` has
the splits that contain it (bit 0 train, 1 valid, 2 test). Sets are numbered, and so are the constants of an edge: the
relation, the set, and the ends that are anchors. So a query is a handful of small numbers.

Where a shape asks for qualifier values, a row is a distinct ``(s, p, o, q, r0, v0, …)``: further pairs of the same statement, each
in every place. Their relations r are constants of the edge, too; their values v are nodes.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from starqe.kg import Graph
from starqe.queries.generate.hubs import hubs_sql
from starqe.queries.generate.sql_tables import Tables
from starqe.queries.shape import Shape, node_kind
from starqe.ragged import IntArray, Ragged

ENDS = {(False, False): "none", (True, False): "head", (False, True): "tail", (True, True): "both"}
"""Which ends of an edge are anchors -> the name of the numbering of its constants."""
_CONSTANTS = {"none": "p, q", "head": "s, p, q", "tail": "p, o, q", "both": "s, p, o, q"}


def anchored_ends(shape: Shape, edge: int) -> str:
    """Names the numbering that the constants of one edge of a shape have."""
    head, tail = shape.edges[edge]
    return ENDS[node_kind(head) == "anchor", node_kind(tail) == "anchor"]


@dataclass(frozen=True)
class Constants:
    """The numbered constants of an edge: its relation, its pairs, and the ends that are anchors."""

    relation: IntArray
    pair_set: IntArray
    head: IntArray | None
    tail: IntArray | None
    sets: Ragged
    """The numbered qualifier sets: sorted rows of (relation, value)."""
    values: tuple[IntArray, ...] = ()
    """The relations of the pairs whose values are to be found."""

    def __len__(self) -> int:
        return len(self.relation)

    def order_hash(self, seed: int, position: int) -> IntArray:
        """Assigns each number 64 random bits that depend only on the constants, the seed and the position of the edge.

        Combined over the edges by exclusive or, this is tabulation hashing: a uniform order of the queries that is the
        same on every machine and with every version of the database.
        """
        relation, value = self.sets.items.astype(np.uint64).T
        codes = mix(relation << np.uint64(32) | value)
        before = np.concatenate([np.zeros(1, np.uint64), np.bitwise_xor.accumulate(codes)])
        per_set = before[self.sets.offsets[1:]] ^ before[self.sets.offsets[:-1]]
        state = mix(np.full(len(self), (seed & 0xFFFFFFFF) << 8 | position, np.uint64))
        for column in (self.head, self.relation, self.tail, *self.values):
            state = mix(state ^ (column.astype(np.uint64) + np.uint64(1) if column is not None else np.uint64(0)))
        return mix(state ^ per_set[self.pair_set])


def mix(value: IntArray) -> IntArray:
    """Scrambles 64-bit numbers one to one (the finaliser of splitmix64)."""
    value = value + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(value ^ (value >> np.uint64(31)))


def fill_graph(tables: Tables, graph: Graph) -> None:
    """Makes the tables ``statement(row, s, p, o, split)`` and ``pair(row, code)``: a code is relation * entities + value."""
    code = graph.pair_relation.astype(np.int64) * max(len(graph.entities), 1) + graph.pair_value
    main = {"s": graph.head, "p": graph.relation, "o": graph.tail, "split": graph.split}
    tables.fill("statement", {"row": np.arange(len(graph)), **main})
    tables.fill("pair", {"row": graph.pairs.owner, "code": code})


class EdgeTables:
    """The edge rows of one graph in one database, made on demand for each range of qualifier counts."""

    def __init__(self, tables: Tables, graph: Graph, hub_threshold: int | None) -> None:
        self._tables, self._entities = tables, max(len(graph.entities), 1)
        self._made: dict[tuple[tuple[int, int], int], tuple[str, Ragged]] = {}
        fill_graph(tables, graph)
        tables.make("hub", hubs_sql(hub_threshold, self._entities))
        self.hubs: IntArray = tables.read("SELECT node FROM hub ORDER BY node")["node"].to_numpy()
        """The entities that no join passes through, ascending."""

    def drop(self) -> None:
        """Deletes all tables."""
        self._tables.drop("statement", "pair", "hub", *(name for name, _ in self._made.values()))

    def table(self, counts: tuple[int, int], values: int = 0) -> str:
        """Returns the name of the table of edge rows with these numbers of pairs, some of them with values to be found.

        Its columns are ``s, p, o, q, size, mask, s_hub, o_hub, k_none, k_head, k_tail, k_both``: q numbers the set of
        pairs, size is the number of pairs, and each k numbers the constants of the edge. With values to be found there are
        ``r0, v0, v0_hub, r1, …`` too, and ``b_none`` and so on, which number the constants without the relations r.
        """
        return self._entry(counts, values)[0]

    def constants(self, counts: tuple[int, int], ends: str, values: int = 0) -> Constants:
        """Returns the constants of an edge by their numbers, for one of `ENDS`."""
        table, sets = self._entry(counts, values)
        more = "".join(f", any_value(r{i}) AS r{i}" for i in range(values))
        found = self._tables.read(
            f"SELECT any_value(s) AS s, any_value(p) AS p, any_value(o) AS o, any_value(q) AS q{more} FROM {table} "
            f"GROUP BY k_{ends} ORDER BY k_{ends}"
        )
        rows = {name: found[name].to_numpy() for name in found.column_names}
        head = rows["s"] if ends in ("head", "both") else None
        tail = rows["o"] if ends in ("tail", "both") else None
        return Constants(rows["p"], rows["q"], head, tail, sets, tuple(rows[f"r{i}"] for i in range(values)))

    def _entry(self, counts: tuple[int, int], values: int) -> tuple[str, Ragged]:
        if (counts, values) not in self._made:
            self._made[counts, values] = self._make(f"edge_{counts[0]}_{counts[1]}_{values}", counts, values)
        return self._made[counts, values]

    def _make(self, table: str, counts: tuple[int, int], values: int) -> tuple[str, Ragged]:
        subsets = " UNION ALL ".join(_subsets_sql(size - values) for size in range(max(counts[0], values), max(counts[1], values) + 1))
        self._tables.make("subset", subsets)
        self._tables.make(
            "pair_set",
            "SELECT codes, (row_number() OVER (ORDER BY codes) - 1)::INT AS q FROM (SELECT DISTINCT codes FROM subset) AS sets",
        )
        opened = range(values)
        joins = "".join(
            f" JOIN pair n{i} ON n{i}.row = statement.row AND NOT list_contains(codes, n{i}.code)"
            + "".join(f" AND n{i}.code <> n{j}.code" for j in range(i))
            for i in opened
        )
        names = "".join(f", r{i}, v{i}" for i in opened)
        columns = "".join(f", (n{i}.code // {self._entities})::INT AS r{i}, (n{i}.code % {self._entities})::INT AS v{i}" for i in opened)
        relations = "".join(f", r{i}" for i in opened)
        numbers = [("k", ends, constants + relations) for ends, constants in _CONSTANTS.items()]
        numbers += [("b", ends, constants) for ends, constants in _CONSTANTS.items() if values]
        ranks = ", ".join(f"(dense_rank() OVER (ORDER BY {constants}) - 1)::INT AS {kind}_{ends}" for kind, ends, constants in numbers)
        places = ["s", "o", *(f"v{i}" for i in opened)]
        hubs = ", ".join(f"hub_{place}.node IS NOT NULL AS {place}_hub" for place in places)
        hub_joins = "".join(f" LEFT JOIN hub hub_{place} ON hub_{place}.node = {place}" for place in places)
        self._tables.make(
            table,
            f"SELECT edge_row.*, {hubs}, {ranks} FROM ("
            f"SELECT s, p, o, q{names}, any_value(size)::INT AS size, bit_or(1 << split::INT)::INT AS mask FROM ("
            f"SELECT s, p, o, q, split, array_length(codes) + {values} AS size{columns} "
            f"FROM statement JOIN subset USING (row) JOIN pair_set USING (codes){joins}) AS found "
            f"GROUP BY s, p, o, q{names}) AS edge_row{hub_joins}",
        )
        codes = self._tables.read("SELECT codes FROM pair_set ORDER BY q")["codes"].combine_chunks()
        self._tables.drop("subset", "pair_set")
        lengths = codes.value_lengths().to_numpy(zero_copy_only=False)
        relation, value = np.divmod(codes.flatten().to_numpy(zero_copy_only=False), self._entities)
        return table, Ragged.of_counts(lengths, np.stack([relation, value], axis=1).astype(np.int32))


def _subsets_sql(size: int) -> str:
    """Selects every statement with each of its subsets of this many pairs, the pairs in ascending order."""
    if size == 0:
        return "SELECT row, []::BIGINT[] AS codes FROM statement"
    names = [f"pair_{i}" for i in range(size)]
    joins = "".join(f" JOIN pair {new} ON {new}.row = {old}.row AND {old}.code < {new}.code" for old, new in pairwise(names))
    return f"SELECT {names[0]}.row, [{', '.join(f'{name}.code' for name in names)}] AS codes FROM pair {names[0]}{joins}"
