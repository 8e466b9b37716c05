"""Groups and orders queries in DuckDB, which spills to disk, so that no table has to fit in memory.

Tables are read in slices of the seeded order. Engines differ in how they fill the table ``solved``; the rest is shared.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from starqe.errors import ConfigError
from starqe.kg import Graph
from starqe.queries.generate.edges import Constants, EdgeTables, anchored_ends, fill
from starqe.queries.generate.hubs import hubs
from starqe.queries.generate.keys import unpack
from starqe.queries.generate.settings import QuerySettings
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
    """A graph's edge rows in DuckDB, and the queries that are made of them.

    Args:
        graph: The graph.
        spill: A folder for what does not fit in memory; none if left out.
        threads: All cores if left out.
        memory: Beyond this it spills.

    Raises:
        ConfigError: Threads or memory are not valid.
    """

    def __init__(self, graph: Graph, spill: Path | None = None, threads: int | None = None, memory: str = "4GB") -> None:
        self._graph = graph
        place = {"temp_directory": str(spill)} if spill else {}
        self.connection = duckdb.connect(config={**place, "preserve_insertion_order": False})
        try:
            if threads:
                self.connection.execute(f"SET threads = {int(threads)}")
            self.connection.execute("SET memory_limit = ?", [memory])
        except duckdb.Error as error:
            self.connection.close()
            raise ConfigError(
                f"threads are at least 1 and memory is a size such as 4GB, found {threads or 'all'} and '{memory}': {error}"
            ) from None
        self._made: dict[int | None, tuple[EdgeTables, IntArray]] = {}

    def close(self) -> None:
        """Closes the database and deletes it."""
        self.connection.close()

    def work(self, shape: Shape, split: str, settings: QuerySettings) -> Work:
        """Prepares the edge rows for one table.

        Raises:
            QueryError: The settings do not fit the shape.
        """
        edges, excluded = self._edges(settings.hub_threshold)
        counts = settings.counts_for(shape)
        # One numbering for all edges, so that the numbers of two edges can be compared.
        whole = min(fewest for fewest, _ in counts), max(most for _, most in counts)
        values = [len(shape.values_of(edge)) for edge in range(len(counts))]
        constants = tuple(edges.constants(whole, anchored_ends(shape, edge), values[edge]) for edge in range(len(counts)))
        return Work(shape, split, counts, tuple(edges.table(whole, count) for count in values), constants, excluded)

    def queries(self, work: Work, settings: QuerySettings) -> Iterator[pa.Table]:
        """Groups the table ``solved(key, answer, solutions)`` to queries with answers, and yields them in the seeded order.

        ``solved`` has one row for each distinct query and answer. The key packs the numbers of the edges' constants as
        `starqe.queries.generate.keys.pack` does; ``solutions`` counts the rows of the paper's bag that lead from one to the other.
        """
        orders = [f"order_{edge}" for edge in range(len(work.constants))]
        try:
            count = self._group(work, settings, orders)
            left = min(count, settings.limit or count)
            for part in _slices(self.connection, work, count):
                yield part.slice(0, left)
                left -= len(part)
                if left <= 0:
                    break
        finally:
            with contextlib.suppress(duckdb.Error):  # after a failure the database is deleted anyway
                self.connection.execute("".join(f"DROP TABLE IF EXISTS {name};" for name in ("solved", "query", *orders)))

    def _group(self, work: Work, settings: QuerySettings, orders: list[str]) -> int:
        cap = settings.solutions_below.get(work.shape.name) if work.split != "train" else None
        joins, hashes = "", "0::UBIGINT"
        for edge, (name, constants, number) in enumerate(zip(orders, work.constants, unpack(work.radix), strict=True)):
            fill(self.connection, name, {"k": np.arange(len(constants), dtype=np.int32), "h": constants.order_hash(settings.seed, edge)})
            joins += f" JOIN {name} o{edge} ON o{edge}.k = {number}"
            hashes = f"xor({hashes}, o{edge}.h)"
        few = f" HAVING sum(solutions) < {int(cap)}" if cap is not None else ""
        self.connection.execute(
            f"CREATE TABLE query AS SELECT key, {hashes} AS place, answers FROM ("
            f"SELECT key, list(answer ORDER BY answer) AS answers FROM solved GROUP BY key{few}){joins}"
        )
        return int(self.connection.sql("SELECT count(*) FROM query").fetchall()[0][0])

    def _edges(self, threshold: int | None) -> tuple[EdgeTables, IntArray]:
        """Returns the edge rows without joins at hubs of this in-degree, and those hubs."""
        if threshold not in self._made:
            excluded = np.empty(0, np.int64) if threshold is None else hubs(self._graph, threshold)
            self._made = {threshold: (EdgeTables(self.connection, self._graph, excluded), excluded)}
        return self._made[threshold]


def _slices(database: duckdb.DuckDBPyConnection, work: Work, count: int) -> Iterator[pa.Table]:
    """Yields the queries in the seeded order, in slices of about equal size."""
    parts = max(1, -(-count // SLICE))
    numbers = ", ".join(f"{number} AS k{edge}" for edge, number in enumerate(unpack(work.radix)))
    for low, high in pairwise((part << 64) // parts for part in range(parts + 1)):
        rows = database.sql(f"SELECT {numbers}, place, answers FROM query WHERE place BETWEEN {low} AND {high - 1}").to_arrow_table()
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
