"""Many queries of one shape, as columns; on disk a Parquet file with the graph's fingerprint."""

import contextlib
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from starqe.errors import QueryError, StorageError
from starqe.folders import checksum, new_file
from starqe.kg.known import Side
from starqe.kg.parquet import WRITTEN, check_resources, open_parquet
from starqe.queries.shape import ONE_HOP, TARGET, Shape
from starqe.ragged import IntArray, PairColumns, Ragged

FORMAT, VERSION = "starqe queries", 2
PLAIN = 1
"""The version of tables whose shape is a conjunction over heads and tails: earlier programs read them."""
METADATA, CHECKSUMS = b"starqe", b"starqe checksums"
FIRST_GROUP, ROW_GROUP = 2**12, 2**17
"""The rows of the first row group, and the most of any: groups double in between, so that a few rows can be read without many others."""
RENEW = "Delete it and make the queries again"


@dataclass(frozen=True, eq=False)
class QueryTable(PairColumns):
    """Queries of one shape with their answers, by ids.

    n queries · A anchors · E edges · P qualifier pairs · S qualifier values that are variables. The given pairs of edge e of query i
    are row ``i * E + e`` of ``pairs``.
    """

    shape: Shape
    anchors: IntArray  # (n, A) int32, columns as shape.anchors
    relations: IntArray  # (n, E) int32, columns as shape.edges
    pairs: Ragged  # n * E rows of (relation, value): (P, 2) int32
    answers: Ragged  # n rows of entities, ascending: (answers,) int32
    header: Mapping[str, Any] = field(default_factory=dict)
    """The origin of the table: split, fingerprint of the graph, settings of its generation."""
    value_relations: IntArray = field(default_factory=lambda: np.empty((0, 0), np.int32))
    """The relations of the pairs whose value is a variable, columns as shape.slots: (n, S) int32."""

    def __post_init__(self) -> None:
        n, edges = len(self.anchors), len(self.shape.edges)
        if not self.shape.slots:
            object.__setattr__(self, "value_relations", np.empty((n, 0), np.int32))
        assert self.value_relations.shape == (n, len(self.shape.slots)), self.value_relations.shape
        assert self.anchors.shape == (n, len(self.shape.anchors)), self.anchors.shape
        assert self.relations.shape == (n, edges), self.relations.shape
        assert len(self.pairs) == n * edges, (len(self.pairs), n, edges)
        assert len(self.answers) == n, (len(self.answers), n)

    def __len__(self) -> int:
        return len(self.anchors)

    def take(self, rows: IntArray | Sequence[int]) -> "QueryTable":
        """Returns the table of these rows, in this order."""
        rows = np.asarray(rows, np.int64)
        pairs, answers = self.pairs.take(self.cells(rows)), self.answers.take(rows)
        return QueryTable(self.shape, self.anchors[rows], self.relations[rows], pairs, answers, self.header, self.value_relations[rows])

    def cells(self, rows: IntArray) -> IntArray:
        """Returns the rows of ``pairs`` that belong to these queries, edge by edge: (n * E,)."""
        edges = len(self.shape.edges)
        return (rows[:, None] * edges + np.arange(edges)).ravel()

    @property
    def nbytes(self) -> int:
        """The memory that its columns take."""
        return self.anchors.nbytes + self.relations.nbytes + self.pairs.nbytes + self.answers.nbytes + self.value_relations.nbytes

    def pairs_of(self, row: int, edge: int) -> list[tuple[int, int]]:
        """Returns the given qualifier pairs of one edge of one query."""
        return [(relation, value) for relation, value in self.pairs[row * len(self.shape.edges) + edge].tolist()]

    def open_pairs_of(self, row: int, edge: int) -> list[tuple[int, str]]:
        """Returns the qualifier pairs of one edge of one query whose value is a variable: relation and node."""
        return [(int(self.value_relations[row, i]), node) for i, (of, node) in enumerate(self.shape.slots) if of == edge]

    def branches(self) -> "list[QueryTable]":
        """Returns the alternatives of the queries, each as conjunctive queries without the negated parts; they list no answers."""
        return [self._only(branch.edges) for branch in self.shape.branches]

    def _only(self, edges: Sequence[int]) -> "QueryTable":
        shape, all_edges = self.shape, len(self.shape.edges)
        part = Shape(shape.name, tuple(shape.edges[edge] for edge in edges), tuple(shape.values_of(edge) for edge in edges))
        cells = (np.arange(len(self))[:, None] * all_edges + np.asarray(edges, np.int64)).ravel()
        slots = [i for edge in edges for i, (of, _) in enumerate(shape.slots) if of == edge]
        return QueryTable(
            part,
            self.anchors[:, [shape.anchors.index(anchor) for anchor in part.anchors]],
            self.relations[:, list(edges)],
            self.pairs.take(cells),
            Ragged.empty(len(self)),
            self.header,
            self.value_relations[:, slots],
        )


def stack(tables: Sequence[QueryTable]) -> QueryTable:
    """Concatenates tables of one shape."""
    if len(tables) == 1:
        return tables[0]
    return QueryTable(
        tables[0].shape,
        np.concatenate([table.anchors for table in tables]),
        np.concatenate([table.relations for table in tables]),
        Ragged.stack([table.pairs for table in tables]),
        Ragged.stack([table.answers for table in tables]),
        tables[0].header,
        np.concatenate([table.value_relations for table in tables]),
    )


def one_hop_table(
    side: Side, given: IntArray, relation: IntArray, pairs: Ragged, answers: Ragged | None = None, header: Mapping[str, Any] | None = None
) -> QueryTable:
    """Makes queries of one edge from the entities on one side of it, the relations and the qualifier pairs."""
    answers = Ragged.empty(len(given)) if answers is None else answers
    return QueryTable(ONE_HOP[side], given[:, None], relation[:, None], pairs, answers, header or {})


def column_names(shape: Shape) -> list[str]:
    """Names the columns of a table on disk: anchors, then for each edge its relation and pairs, then the answers."""
    names = list(shape.anchors)
    for edge in range(len(shape.edges)):
        names += [f"relation_{edge}", f"qualifier_relations_{edge}", f"qualifier_values_{edge}"]
        names += [value_column(*slot) for slot in shape.slots if slot[0] == edge]
    return [*names, "answers"]


def value_column(edge: int, node: str) -> str:
    """Names the column with the relation of a pair whose value is a variable."""
    return f"value_relation_{edge}_{'target' if node == TARGET else node}"


def metadata(shape: Shape, header: Mapping[str, Any]) -> str:
    """Returns the header of a table on disk, as JSON text."""
    version = PLAIN if shape.plain else VERSION
    return json.dumps({"format": FORMAT, "version": version, "shape": shape.name, "edges": shape.text, **header}, sort_keys=True)


def save_table(table: QueryTable, path: Path) -> None:
    """Writes a table.

    Raises:
        StorageError: The file cannot be written.
    """
    with table_writer(path, table.shape, table.header) as write:
        write(to_arrow(table))


def to_arrow(table: QueryTable) -> pa.Table:
    """Returns the rows of a table as they are stored on disk."""
    edges = len(table.shape.edges)
    columns: dict[str, pa.Array] = {name: pa.array(table.anchors[:, i]) for i, name in enumerate(table.shape.anchors)}
    for edge in range(edges):
        columns[f"relation_{edge}"] = pa.array(table.relations[:, edge])
        columns |= pair_columns(edge, table.pairs.take(np.arange(edge, len(table) * edges, edges)))
        slots = {i: slot for i, slot in enumerate(table.shape.slots) if slot[0] == edge}
        columns |= {value_column(*slot): pa.array(table.value_relations[:, i]) for i, slot in slots.items()}
    columns["answers"] = _lists(table.answers.offsets, table.answers.items)
    return pa.table(columns)


@contextlib.contextmanager
def table_writer(path: Path, shape: Shape, header: Mapping[str, Any]) -> Iterator[Callable[[pa.Table], None]]:
    """Opens a table to write it in parts; the file appears, complete and with its checksums, when the block ends without an error.

    Raises:
        StorageError: The file cannot be written.
    """
    about, sums, rows = metadata(shape, header), [], 0
    schema = table_schema(shape).with_metadata({METADATA: about})
    with new_file(path, overwrite=True) as beside, pq.ParquetWriter(beside, schema, **WRITTEN) as writer:

        def write(part: pa.Table) -> None:
            nonlocal rows
            start = 0
            while start < len(part):
                group = part.slice(start, min(max(rows, FIRST_GROUP), ROW_GROUP)).cast(schema)
                writer.write_table(group, row_group_size=ROW_GROUP)
                sums.append(_content_checksum(group))
                rows, start = rows + len(group), start + len(group)

        yield write
        writer.add_key_value_metadata({CHECKSUMS: json.dumps({"header": checksum(about.encode()), "rows": rows, "groups": sums})})


def table_schema(shape: Shape) -> pa.Schema:
    """Returns the columns of a table on disk with their types."""
    many = pa.list_(pa.int32())
    is_list = {name: name == "answers" or name.startswith("qualifier_") for name in column_names(shape)}
    return pa.schema([(name, many if is_list[name] else pa.int32()) for name in is_list])


def _content_checksum(group: pa.Table) -> str:
    """Computes the checksum of rows from their values, so that damage anywhere in the file is noticed."""
    found = 0
    for name in group.column_names:
        chunks = group[name].chunks
        if pa.types.is_list(group.schema.field(name).type):
            parts = [chunk.value_lengths() for chunk in chunks] + [chunk.flatten() for chunk in chunks]
        else:
            parts = chunks
        for part in parts:
            found = zlib.crc32(np.ascontiguousarray(part.to_numpy(zero_copy_only=False), "<i4").data, found)
    return f"{found:08x}"


def load_table(path: Path, limit: int | None = None) -> QueryTable:
    """Reads a table, or only its first rows (which are a uniform sample).

    Raises:
        StorageError: The file is missing, damaged, not a query table, or of a newer version.
    """
    with _reading(path), pq.ParquetFile(path) as about:
        header, sums = _about(path, about)
        shape = Shape.parse(header.pop("shape"), header.pop("edges"))
        schema = table_schema(shape)
        with open_parquet(path, path, schema, None, RENEW, about.metadata) as file:
            parts: list[QueryTable] = []
            left = file.metadata.num_rows if limit is None else min(limit, file.metadata.num_rows)
            while left > 0:
                group = file.read_row_group(len(parts), columns=schema.names).select(schema.names)
                if sums is not None and sums[len(parts)] != (found := _content_checksum(group)):
                    raise StorageError(f"{path}: damaged (checksum {found}, recorded {sums[len(parts)]}). {RENEW}")
                parts.append(from_arrow(path, shape, group.slice(0, left), header))
                left -= len(group)
        return stack(parts) if parts else from_arrow(path, shape, schema.empty_table(), header)


def table_about(path: Path) -> tuple[dict[str, Any], int]:
    """Reads the metadata of a table: its header and the number of its rows.

    Raises:
        StorageError: The file is missing, damaged, not a query table, or of a newer version.
    """
    with _reading(path), pq.ParquetFile(path) as file:
        return _about(path, file)[0], int(file.metadata.num_rows)


def _about(path: Path, file: pq.ParquetFile) -> tuple[dict[str, Any], list[str] | None]:
    """Reads the header of a table and the checksums of its row groups; an earlier version wrote none."""
    raw = file.metadata.metadata or {}
    header = read_metadata(path, raw)
    if CHECKSUMS not in raw:
        return header, None
    recorded = json.loads(raw[CHECKSUMS])
    sums = [str(found) for found in recorded["groups"]]
    if (recorded["header"], recorded["rows"], len(sums)) != (checksum(raw[METADATA]), file.metadata.num_rows, file.num_row_groups):
        raise StorageError(f"{path}: damaged (its header is not what was written). {RENEW}")
    return header, sums


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turns whatever a damaged table raises into one error."""
    try:
        yield
    except (StorageError, MemoryError):
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, QueryError, pa.ArrowException) as error:
        check_resources(error)
        raise StorageError(f"{path}: cannot read the query table ({error}). {RENEW}") from None


def read_metadata(path: Path, raw: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """Reads and checks the header of a table.

    Raises:
        StorageError: It is not the header of a query table, or one of a newer version.
    """
    try:
        header = json.loads((raw or {})[METADATA])
        known = header.pop("format") == FORMAT
        version = int(header.pop("version"))
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        known = False
    if not known:
        raise StorageError(f"{path}: not a query table of starqe. Make one with 'starqe queries generate'")
    if version > VERSION:
        raise StorageError(f"{path}: written by a newer starqe (query format {version}, this one reads up to {VERSION}). Upgrade starqe")
    return dict(header)


def from_arrow(path: Path, shape: Shape, content: pa.Table, header: Mapping[str, Any]) -> QueryTable:
    """Undoes `to_arrow`.

    Raises:
        StorageError: The rows are damaged; the path says where they come from.
    """
    if lacking := [name for name in content.column_names if content[name].null_count]:
        raise StorageError(f"{path}: damaged (a value of '{lacking[0]}' is missing). {RENEW}")
    n, edges = len(content), len(shape.edges)
    anchors = np.empty((n, len(shape.anchors)), np.int32)
    for i, name in enumerate(shape.anchors):
        anchors[:, i] = content[name].to_numpy()
    relations = np.empty((n, edges), np.int32)
    counts = np.empty((n, edges), np.int64)
    of_edge = []
    for edge in range(edges):
        relations[:, edge] = content[f"relation_{edge}"].to_numpy()
        (number, keys), (number_of_values, values) = (_flat(content[f"qualifier_{name}_{edge}"]) for name in ("relations", "values"))
        if not np.array_equal(number, number_of_values):
            raise StorageError(f"{path}: damaged (edge {edge} has qualifier relations without values). {RENEW}")
        counts[:, edge] = number
        of_edge.append((keys, values))
    pairs = Ragged.of_counts(counts.ravel(), np.empty((counts.sum(), 2), np.int32))
    for edge, (keys, values) in enumerate(of_edge):
        place = Ragged.ranges(pairs.offsets[edge:-1:edges], counts[:, edge]).items
        pairs.items[place, 0], pairs.items[place, 1] = keys, values
    answers = Ragged.of_counts(*_flat(content["answers"]))
    value_relations = np.empty((n, len(shape.slots)), np.int32)
    for i, slot in enumerate(shape.slots):
        value_relations[:, i] = content[value_column(*slot)].to_numpy()
    found = (anchors.ravel(), relations.ravel(), pairs.items.ravel(), answers.items, value_relations.ravel())
    if any(len(ids) and ids.min() < 0 for ids in found):
        raise StorageError(f"{path}: damaged (ids begin at 0, found a negative one). {RENEW}")
    return QueryTable(shape, anchors, relations, pairs, answers, header, value_relations)


def pair_columns(edge: int, pairs: Ragged) -> dict[str, pa.Array]:
    """Returns the two columns of the qualifier pairs of an edge, as they are stored on disk."""
    names = ("relations", "values")
    return {f"qualifier_{name}_{edge}": _lists(pairs.offsets, pairs.items[:, place]) for place, name in enumerate(names)}


def _lists(offsets: IntArray, values: IntArray) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values, pa.int32()))


def _flat(column: pa.ChunkedArray) -> tuple[IntArray, IntArray]:
    """Returns the lengths and the numbers of a column of lists."""
    if not column.num_chunks:
        return np.empty(0, np.int32), np.empty(0, np.int32)
    counts = [chunk.value_lengths().to_numpy(zero_copy_only=False) for chunk in column.chunks]
    values = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in column.chunks]
    return np.concatenate(counts), np.concatenate(values).astype(np.int32, copy=False)
