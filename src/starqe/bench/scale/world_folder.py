"""A world on disk, written chunk by chunk: the graph, and the same statements as tables to import.

graph/                           a graph folder
statements/train.parquet, …      head, relation, tail, and one column per qualifier relation, as text: one file per split
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from starqe.bench.scale.world import QUALIFIERS, Chunk, World, has_pair
from starqe.folders import file_checksum, new_folder, write_header
from starqe.kg.graph_folder import FORMAT, HEADER, SCHEMAS, WITHOUT_LITERALS
from starqe.kg.iris import DEFAULT_NAMES
from starqe.kg.parquet import WRITTEN
from starqe.kg.statement import SPLITS
from starqe.ragged import IntArray

GRAPH, STATEMENTS = "graph", "statements"
COLUMNS = ("head", "relation", "tail", *QUALIFIERS)
"""The columns of the tables."""
TABLE = pa.schema([(name, pa.dictionary(pa.int32(), pa.string()) if name == "relation" else pa.string()) for name in COLUMNS])
_HEADS = 200_000


def write_world(world: World, folder: Path) -> dict[str, int]:
    """Writes a world, completely or not at all, and returns its counts; only the held-out statements are kept in memory until the end.

    Raises:
        StorageError: The folder exists, or cannot be written.
    """
    with new_folder(folder, False, lambda: None) as place:
        (place / GRAPH).mkdir()
        (place / STATEMENTS).mkdir()
        with ExitStack() as stack:
            writers = {
                name: stack.enter_context(pq.ParquetWriter(place / GRAPH / f"{name}.parquet", SCHEMAS[name], **WRITTEN)) for name in SCHEMAS
            }
            tables = [stack.enter_context(pq.ParquetWriter(place / STATEMENTS / f"{split}.parquet", TABLE, **WRITTEN)) for split in SPLITS]
            counts = _write_statements(world, writers, tables)
            relations = pa.table([pa.array(world.relations)], schema=SCHEMAS["relations"])
            writers["relations"].write_table(relations)
            for first in range(0, world.entities, _HEADS):
                ids = np.arange(first, min(first + _HEADS, world.entities))
                writers["entities"].write_table(pa.table([_identifiers(world, ids)], schema=SCHEMAS["entities"]))
        counts = {**counts, "entities": world.entities, "relations": len(world.relations), "labels": 0}
        _write_header(world, place / GRAPH, counts)
    return counts


def _write_statements(world: World, writers: Mapping[str, pq.ParquetWriter], tables: list[pq.ParquetWriter]) -> dict[str, int]:
    """Writes all statements: those of train at once, and the others, which come after them, at the end."""
    statements, pairs, kept = 0, 0, [list[Chunk]() for _ in SPLITS]

    def write(chunk: Chunk) -> None:
        nonlocal statements, pairs
        columns = [chunk.head, chunk.relation, chunk.tail, chunk.split]
        writers["statements"].write_table(pa.table(columns, schema=SCHEMAS["statements"]))
        owner, place = np.nonzero(has_pair(chunk))
        ids = np.array([world.relations.index(name) for name in QUALIFIERS], np.int32)
        columns = [owner + statements, ids[place], chunk.values[owner, place]]
        writers["pairs"].write_table(pa.table(columns, schema=SCHEMAS["pairs"]))
        statements, pairs = statements + len(chunk.head), pairs + len(owner)

    for chunk in world.chunks(_HEADS):
        for code, table in enumerate(tables):
            part = _part(chunk, code)
            table.write_table(_as_text(world, part))
            if code == 0:
                write(part)
            else:
                kept[code].append(part)
    for part in (part for parts in kept for part in parts):
        write(part)
    return {"statements": statements, "pairs": pairs}


def _part(chunk: Chunk, code: int) -> Chunk:
    rows = np.flatnonzero(chunk.split == code)
    return Chunk(chunk.head[rows], chunk.relation[rows], chunk.tail[rows], chunk.split[rows], chunk.values[rows])


def _as_text(world: World, chunk: Chunk) -> pa.Table:
    relation = pa.DictionaryArray.from_arrays(pa.array(chunk.relation), pa.array(world.relations))
    values = [_identifiers(world, column) for column in chunk.values.T]
    return pa.table([_identifiers(world, chunk.head), relation, _identifiers(world, chunk.tail), *values], schema=TABLE)


def _identifiers(world: World, ids: IntArray) -> pa.Array:
    """Returns identifiers; null for ids below zero."""
    digits = pc.utf8_lpad(pa.array(ids, mask=ids < 0).cast(pa.string()), width=world.digits, padding="0")
    return pc.binary_join_element_wise("e", digits, "")


def _write_header(world: World, folder: Path, counts: Mapping[str, int]) -> None:
    title = f"world of {world.entities:,} entities, seed {world.seed}"
    bases = {"entity_base": DEFAULT_NAMES.entity_base, "relation_base": DEFAULT_NAMES.relation_base}
    sums = {path.name: file_checksum(path) for path in sorted(folder.iterdir())}
    content: dict[str, Any] = {"title": title, "fingerprint": _fingerprint(folder, counts["statements"]), **counts, **bases}
    write_header(folder / HEADER, FORMAT, WITHOUT_LITERALS, {**content, "checksums": sums})


def _fingerprint(folder: Path, statements: int) -> str:
    """Computes the same as `Graph.fingerprint`, column by column, from the files."""
    vocabulary = "/".join(_digest_of_names(folder / f"{name}.parquet") for name in ("entities", "relations"))
    digest = hashlib.sha256(hashlib.sha256(vocabulary.encode()).hexdigest().encode())
    for name in ("head", "relation", "tail", "split"):
        for values in _column(folder / "statements.parquet", name):
            digest.update(values.data)
    counts = np.zeros(statements, np.uint8)
    for owner in _column(folder / "pairs.parquet", "statement"):
        np.add.at(counts, owner, np.uint8(1))
    before = 0
    digest.update(np.zeros(1, "<i8").data)
    for first in range(0, statements, 1 << 20):
        offsets = before + np.cumsum(counts[first : first + (1 << 20)], dtype="<i8")
        before = int(offsets[-1])
        digest.update(offsets.data)
    for name in ("relation", "value"):
        for values in _column(folder / "pairs.parquet", name):
            digest.update(values.data)
    return digest.hexdigest()


def _digest_of_names(path: Path) -> str:
    digest = hashlib.sha256()
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(1 << 18):
            digest.update(pc.binary_join(pa.array([batch["identifier"].to_pylist()]), "\n")[0].as_py().encode() + b"\n")
    return digest.hexdigest()


def _column(path: Path, name: str) -> Iterator[IntArray]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(1 << 20, columns=[name]):
            values = batch[name].to_numpy()
            yield np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
