"""Groups and orders queries in tables of an engine, which spill to disk, so that no table has to fit in memory.

Tables are read in slices of the seeded order. Engines differ in how they fill the table ``solved``; the rest is shared.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from starqe.kg import Graph
from starqe.queries.generate.edges import Constants, EdgeTables, anchored_ends
from starqe.queries.generate.keys import key_names, unpack
from starqe.queries.generate.settings import QuerySettings
from starqe.queries.generate.sql_tables import Tables
from starqe.queries.shape import Shape
from starqe.queries.table import column_names, pair_columns, value_column
from starqe.ragged import IntArray

SLICE = 4_000_000
"""Approximate number of queries in memory at once."""


@dataclass(frozen=True)
class Work:
    """One table to make: a shape, a split, and the numbering of its edges' constants."""

    shape: Shape
    split: str
    counts: tuple[tuple[int, int], ...]
    """The fewest and the most qualifier pairs of each edge."""
    edges: tuple[str, ...]
    """The tables of edge rows in the database, one for each edge."""
    constants: tuple[Constants, ...]
    """The constants of each edge, by number."""
    hubs: IntArray
    """The entities that no join passes through, ascending."""

    @property
    def radix(self) -> list[int]:
        """The number of different constants of each edge."""
        return [len(constants) for constants in self.constants]


class QueryDatabase:
    """A graph's edge rows in tables of an engine, and the queries that are built from them."""

    def __init__(self, graph: Graph, tables: Tables) -> None:
        self._graph, self.tables = graph, tables
        self._made: dict[int | None, EdgeTables] = {}

    def close(self) -> None:
        """Deletes all tables."""
        self.tables.close()

    def work(self, shape: Shape, split: str, settings: QuerySettings) -> Work:
        """Prepares the edge rows for one table.

        Raises:
            QueryError: The settings do not fit the shape.
        """
        edges = self._edges(settings.hub_threshold)
        counts = settings.counts_for(shape)
        # One numbering for all edges, so that the numbers of two edges can be compared.
        whole = min(fewest for fewest, _ in counts), max(most for _, most in counts)
        values = [len(shape.values_of(edge)) for edge in range(len(counts))]
        constants = tuple(edges.constants(whole, anchored_ends(shape, edge), values[edge]) for edge in range(len(counts)))
        return Work(shape, split, counts, tuple(edges.table(whole, count) for count in values), constants, edges.hubs)

    def queries(self, work: Work, settings: QuerySettings) -> Iterator[pa.Table]:
        """Groups the table ``solved(key_0, …, answer, solutions)`` to queries with answers, and yields them in the seeded order.

        ``solved`` has one row for each distinct query and answer. The key packs the numbers of the edges' constants as
        `starqe.queries.generate.keys.pack` does; ``solutions`` counts the rows of the paper's bag that lead from one to the other.
        """
        orders = [f"order_{edge}" for edge in range(len(work.constants))]
        try:
            count = self._group(work, settings, orders)
            left = min(count, settings.limit or count)
            for part in _slices(self.tables, work, count):
                yield part.slice(0, left)
                left -= len(part)
                if left <= 0:
                    break
        finally:
            with contextlib.suppress(Exception):  # after a failure all tables are deleted anyway
                self.tables.drop("solved", "query", *orders)

    def _group(self, work: Work, settings: QuerySettings, orders: list[str]) -> int:
        cap = settings.solutions_below.get(work.shape.name) if work.split != "train" else None
        joins, hashes = "", "0::BIGINT"
        for edge, (name, constants, number) in enumerate(zip(orders, work.constants, unpack(work.radix), strict=True)):
            bits = constants.order_hash(settings.seed, edge) ^ np.uint64(0 if edge else 1 << 63)  # so that signed numbers have the order
            self.tables.fill(name, {"k": np.arange(len(constants), dtype=np.int32), "h": bits.view(np.int64)})
            joins += f" JOIN {name} o{edge} ON o{edge}.k = {number}"
            hashes = f"xor({hashes}, o{edge}.h)"
        keys = ", ".join(key_names(work.radix))
        few = f" HAVING sum(solutions) < {int(cap)}" if cap is not None else ""
        self.tables.make(
            "query",
            f"SELECT {keys}, {hashes} AS place, answers FROM ("
            f"SELECT {keys}, list_sort(list(answer)) AS answers FROM solved GROUP BY {keys}{few}) AS asked{joins}",
        )
        return int(self.tables.read("SELECT count(*) AS queries FROM query")["queries"][0].as_py())

    def _edges(self, threshold: int | None) -> EdgeTables:
        """Returns the edge rows without joins at hubs of this in-degree."""
        if threshold not in self._made:
            for made in self._made.values():
                made.drop()
            self._made = {threshold: EdgeTables(self.tables, self._graph, threshold)}
        return self._made[threshold]


def _slices(tables: Tables, work: Work, count: int) -> Iterator[pa.Table]:
    """Yields the queries in the seeded order, in slices of about equal size."""
    parts = max(1, -(-count // SLICE))
    numbers = ", ".join(f"{number} AS k{edge}" for edge, number in enumerate(unpack(work.radix)))
    for low, high in pairwise(((part << 64) // parts - (1 << 63)) for part in range(parts + 1)):
        first = f"place >= {low}" if low > -(1 << 63) else "true"  # the lowest number is not a literal everywhere
        rows = tables.read(f"SELECT {numbers}, place, answers FROM query WHERE {first} AND place <= {high - 1}")
        keys = [rows[f"k{edge}"].to_numpy() for edge in range(len(work.constants))]
        order = np.lexsort((*reversed(keys), rows["place"].to_numpy()))
        yield _columns(work, [key[order] for key in keys], rows["answers"].combine_chunks().take(pa.array(order)))


def _columns(work: Work, keys: list[IntArray], answers: pa.ListArray) -> pa.Table:
    """Turns the numbers of the edges' constants into the columns of a query table."""
    columns: dict[str, pa.Array] = {}
    for edge, ends in enumerate(work.shape.edges):
        constants, key = work.constants[edge], keys[edge]
        for node, column in zip(ends, (constants.head, constants.tail), strict=True):
            if column is not None:
                columns[node] = pa.array(column[key], pa.int32())
        columns[f"relation_{edge}"] = pa.array(constants.relation[key], pa.int32())
        columns |= pair_columns(edge, constants.sets.take(constants.pair_set[key]))
        for node, relation in zip(work.shape.values_of(edge), constants.values, strict=True):
            columns[value_column(edge, node)] = pa.array(relation[key], pa.int32())
    columns["answers"] = answers
    return pa.table({name: columns[name] for name in column_names(work.shape)})
