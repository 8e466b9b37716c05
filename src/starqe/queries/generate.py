"""Every query of every shape, with every answer, in bounded memory.

DuckDB joins, groups and spills; the tables leave it in slices of the seeded order, so that neither the number of queries
nor that of the answers has to fit in memory at once.
"""

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from starqe.errors import ConfigError, StorageError
from starqe.folders import new_file
from starqe.kg import SPLITS, Graph
from starqe.kg.graph import split_codes
from starqe.queries.edges import EdgeTables, anchored_ends, fill
from starqe.queries.engine import Engine, Work
from starqe.queries.hubs import hubs
from starqe.queries.query_set import claim, finished, table_path
from starqe.queries.settings import QuerySettings
from starqe.queries.shape import SHAPES, Shape
from starqe.queries.sql import SqlEngine, unpack
from starqe.queries.table import METADATA, column_names, metadata, ragged_take

SLICE = 4_000_000
"""About how many queries are in memory at once while a table is written."""
ROW_GROUP = 2**17

Progress = Callable[[str, str, int], None]
"""Told after each table: its split, its shape, and how many queries it has."""


def generate(
    graph: Graph,
    destination: Path,
    shapes: Sequence[Shape] = tuple(SHAPES.values()),
    settings: QuerySettings | None = None,
    splits: Sequence[str] = SPLITS,
    engine: Engine | None = None,
    progress: Progress | None = None,
    threads: int | None = None,
    memory: str = "4GB",
) -> None:
    """Writes one Parquet table for each shape and split, ``destination/split/shape.parquet``.

    Tables that are there already, from the same graph and settings, are kept: an interrupted generation goes on where
    it was.

    Raises:
        InputError: A split is not one of train, valid and test.
        MismatchError: The destination holds queries of another graph.
        StorageError: The destination holds something else, or the disk refuses or is full.
        QueryError: The settings do not fit a shape.
        ConfigError: Threads or memory are no such numbers.
    """
    settings, engine = settings or QuerySettings(), engine or SqlEngine()
    split_codes(splits)
    for shape in shapes:
        settings.counts_for(shape)
    claim(destination, graph, settings)
    with _database(destination, threads, memory) as database:
        excluded = np.empty(0, np.int64) if settings.hub_threshold is None else hubs(graph, settings.hub_threshold)
        edges = EdgeTables(database, graph, excluded)
        for split in splits:
            for shape in shapes:
                path = table_path(destination, split, shape.name)
                header = {"split": split, "fingerprint": graph.fingerprint, "settings": settings.model_dump(mode="json")}
                if (count := finished(path, shape, header)) is None:
                    work = _work(edges, shape, split, settings, excluded)
                    engine.fill(database, work)
                    count = _write_table(database, work, settings, path, header)
                if progress:
                    progress(split, shape.name, count)


@contextlib.contextmanager
def _database(destination: Path, threads: int | None, memory: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Opens a database that spills beside the tables, and cleans up after itself."""
    try:
        with (
            tempfile.TemporaryDirectory(prefix=".spill-", dir=destination, ignore_cleanup_errors=True) as spill,
            duckdb.connect(config={"temp_directory": spill, "preserve_insertion_order": False}) as database,
        ):
            _bound(database, threads, memory)
            yield database
    except (OSError, duckdb.IOException, duckdb.OutOfMemoryException) as error:
        raise StorageError(f"cannot generate queries in {destination}: {error}. The tables that were finished are kept") from error


def _bound(database: duckdb.DuckDBPyConnection, threads: int | None, memory: str) -> None:
    """Bounds what the database may take."""
    try:
        if threads:
            database.execute(f"SET threads = {int(threads)}")
        database.execute("SET memory_limit = ?", [memory])
    except duckdb.Error as error:
        raise ConfigError(
            f"threads are at least 1 and memory is a size such as 4GB, found {threads or 'all'} and '{memory}': {error}"
        ) from None


def _work(edges: EdgeTables, shape: Shape, split: str, settings: QuerySettings, excluded: np.ndarray) -> Work:
    counts = settings.counts_for(shape)
    # One numbering for all edges, so that the numbers of two edges can be compared.
    whole = min(fewest for fewest, _ in counts), max(most for _, most in counts)
    constants = tuple(edges.constants(whole, anchored_ends(shape, edge)) for edge in range(len(counts)))
    return Work(shape, split, counts, edges.table(whole), constants, excluded)


def _write_table(database: duckdb.DuckDBPyConnection, work: Work, settings: QuerySettings, path: Path, header: Mapping[str, Any]) -> int:
    """Groups the solutions to queries with answers, and writes them in the seeded order."""
    cap = settings.solutions_below.get(work.shape.name) if work.split != "train" else None
    joins, hashes = "", "0::UBIGINT"
    for edge, (constants, number) in enumerate(zip(work.constants, unpack(work.radix), strict=True)):
        bits = constants.order_hash(settings.seed, edge)
        fill(database, f"order_{edge}", {"k": np.arange(len(constants), dtype=np.int32), "h": bits})
        joins += f" JOIN order_{edge} o{edge} ON o{edge}.k = {number}"
        hashes = f"xor({hashes}, o{edge}.h)"
    few = f" HAVING sum(solutions) < {int(cap)}" if cap is not None else ""
    database.execute(
        f"CREATE TABLE query AS SELECT key, {hashes} AS place, answers FROM ("
        f"SELECT key, list(answer ORDER BY answer) AS answers FROM solved GROUP BY key{few}){joins}"
    )
    count = int(database.sql("SELECT count(*) FROM query").fetchall()[0][0])
    wanted = min(count, settings.limit or count)
    schema = _schema(work.shape).with_metadata({METADATA: metadata(work.shape, header)})
    with new_file(path, overwrite=True) as beside, pq.ParquetWriter(beside, schema, compression="zstd") as writer:
        left = wanted
        for part in _slices(database, work, count):
            writer.write_table(part.slice(0, left).cast(schema), row_group_size=ROW_GROUP)
            left -= len(part)
            if left <= 0:
                break
    database.execute("DROP TABLE solved; DROP TABLE query;" + "".join(f"DROP TABLE order_{edge};" for edge in range(len(work.constants))))
    return wanted


def _schema(shape: Shape) -> pa.Schema:
    many = pa.list_(pa.int32())
    is_list = {name: name == "answers" or name.startswith("qualifier_") for name in column_names(shape)}
    return pa.schema([(name, many if is_list[name] else pa.int32()) for name in is_list])


def _slices(database: duckdb.DuckDBPyConnection, work: Work, count: int) -> Iterator[pa.Table]:
    """Gives the queries in the seeded order, in slices of the order's range that are about equal in size."""
    parts = max(1, -(-count // SLICE))
    numbers = ", ".join(f"{number} AS k{edge}" for edge, number in enumerate(unpack(work.radix)))
    for low, high in pairwise((part << 64) // parts for part in range(parts + 1)):
        rows = database.sql(f"SELECT {numbers}, place, answers FROM query WHERE place BETWEEN {low} AND {high - 1}").to_arrow_table()
        keys = [rows[f"k{edge}"].to_numpy() for edge in range(len(work.constants))]
        order = np.lexsort((*reversed(keys), rows["place"].to_numpy()))
        yield _columns(work, [key[order] for key in keys], rows["answers"].combine_chunks().take(pa.array(order)))


def _columns(work: Work, keys: list[np.ndarray], answers: pa.ListArray) -> pa.Table:
    """Turns the numbers of the edges' constants into the columns of a query table."""
    columns: dict[str, pa.Array] = {}
    for edge, ends in enumerate(work.shape.edges):
        constants, key = work.constants[edge], keys[edge]
        for node, column in zip(ends, (constants.head, constants.tail), strict=True):
            if column is not None:
                columns[node] = pa.array(column[key], pa.int32())
        offsets, items = ragged_take(constants.sets.offsets, constants.pair_set[key])
        columns[f"relation_{edge}"] = pa.array(constants.relation[key], pa.int32())
        for name, values in (("relations", constants.sets.relation), ("values", constants.sets.value)):
            columns[f"qualifier_{name}_{edge}"] = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values[items]))
    columns["answers"] = answers
    return pa.table({name: columns[name] for name in column_names(work.shape)})
