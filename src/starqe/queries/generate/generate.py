"""Generates every query of every shape, with every answer, in bounded memory.

An engine yields the queries in slices of the seeded order, so that they need not fit in memory at once.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from starqe.errors import InputError, StorageError
from starqe.folders import scratch_folder
from starqe.kg import SPLITS, Graph
from starqe.kg.graph import split_codes
from starqe.queries.generate.engine import Engine
from starqe.queries.generate.settings import QuerySettings
from starqe.queries.generate.spark import SparkEngine
from starqe.queries.generate.sparql_engine import SparqlEngine
from starqe.queries.generate.sql import SqlEngine
from starqe.queries.query_set import HEADER, claim, finished, table_path
from starqe.queries.shape import SHAPES, Shape
from starqe.queries.table import QueryTable, from_arrow, table_writer, to_arrow
from starqe.queries.variants import Variant, reified_shape, reify, triple_only
from starqe.remote import address, continued

MakeEngine = Callable[[Graph, Path, int | None, str], Engine]
"""Opens an engine on a graph: where it may spill, the number of threads (all cores if None), and its memory."""
ENGINES: Mapping[str, MakeEngine] = {"sql": SqlEngine, "sparql": SparqlEngine, "spark": SparkEngine}
"""The engines, by name on the command line."""

Progress = Callable[[str, str, int], None]
"""Called after each table with its split, its shape, and its number of queries."""


def generate(
    graph: Graph,
    destination: Path,
    shapes: Sequence[Shape] = tuple(SHAPES.values()),
    settings: QuerySettings | None = None,
    splits: Sequence[str] = SPLITS,
    engine: str | MakeEngine = "sql",
    progress: Progress | None = None,
    threads: int | None = None,
    memory: str = "4GB",
) -> None:
    """Writes one Parquet table for each shape and split, ``destination/split/shape.parquet``; also to an address (see `starqe.remote`).

    Reified queries have one table for each combination of numbers of pairs: ``destination/split/2p-reified-1-1.parquet``.

    Existing tables from the same graph and settings are kept: an interrupted generation continues where it
    stopped.

    Raises:
        InputError: A split is not one of train, valid and test, or there is no engine of this name.
        MismatchError: The destination holds queries of another graph.
        StorageError: The destination holds something else, or cannot be written.
        QueryError: The settings do not fit a shape.
        ConfigError: Threads or memory are not valid.
    """
    if address(destination):
        with continued(destination, HEADER) as local:
            generate(graph, local, shapes, settings, splits, engine, progress, threads, memory)
        return
    settings, graph = settings or QuerySettings(), graph.entity_part
    split_codes(splits)
    if isinstance(engine, str) and engine not in ENGINES:
        raise InputError(f"engines are {', '.join(ENGINES)}; found '{engine}'")
    for shape in shapes:
        settings.counts_for(shape)
    claim(destination, graph, settings)
    try:
        with (
            scratch_folder(destination, "spill") as spill,
            contextlib.closing((ENGINES[engine] if isinstance(engine, str) else engine)(graph, spill, threads, memory)) as opened,
        ):
            for split in splits:
                for shape in shapes:
                    header = {"split": split, "fingerprint": graph.fingerprint, "settings": settings.stored()}
                    files = {part: table_path(destination, split, part.name) for part in written_shapes(shape, settings)}
                    counts = [finished(path, part, _header(part, header, graph)) for part, path in files.items()]
                    if any(count is None for count in counts):
                        count = _write_tables(opened.solve(shape, split, settings), shape, files, header, graph, settings.variant)
                    else:
                        count = sum(filter(None, counts))
                    if progress:
                        progress(split, shape.name, count)
    except (OSError, duckdb.IOException, duckdb.OutOfMemoryException) as error:
        raise StorageError(f"cannot generate queries in {destination}: {error}. The tables that were finished are kept") from error


def written_shapes(shape: Shape, settings: QuerySettings) -> list[Shape]:
    """Returns the shapes of the tables that the queries of a shape are written to: itself, or reified one per numbers of pairs."""
    if settings.variant != "reified":
        return [shape]
    counts = (range(fewest, most + 1) for fewest, most in settings.counts_for(shape))
    return [reified_shape(shape, combination) for combination in itertools.product(*counts)]


def _header(shape: Shape, header: Mapping[str, Any], graph: Graph) -> dict[str, Any]:
    sizes = {"entities": len(graph.entities), "relations": len(graph.relations)}
    return {**header, **({"reified": sizes} if shape.of_kind("blank") else {})}


def _write_tables(
    tables: Iterator[pa.Table], shape: Shape, files: Mapping[Shape, Path], header: Mapping[str, Any], graph: Graph, variant: Variant
) -> int:
    """Writes the queries of a shape in the form of a variant, and returns their number."""
    count = 0
    with contextlib.ExitStack() as stack:
        write = {part: stack.enter_context(table_writer(path, part, _header(part, header, graph))) for part, path in files.items()}
        for content in tables:
            count += len(content)
            if variant == "qualified":
                write[shape](content)
                continue
            table = from_arrow(files[next(iter(files))], shape, content, header)
            for part in _in_form(table, graph, variant):
                write[part.shape](to_arrow(part))
    return count


def _in_form(table: QueryTable, graph: Graph, variant: Variant) -> list[QueryTable]:
    """Returns queries without their pairs, or reified: one table per numbers of pairs."""
    if variant == "triple-only":
        return [triple_only(table)]
    return [part.table for part in reify(table, len(graph.entities), len(graph.relations)) if len(part.rows)]
