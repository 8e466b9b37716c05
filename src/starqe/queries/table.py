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
ROW_GROUP = 2**17
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
            for start in range(0, len(part), ROW_GROUP):
                group = part.slice(start, ROW_GROUP).cast(schema)
                writer.write_table(group, row_group_size=ROW_GROUP)
                sums.append(_content_checksum(group))
                rows += len(group)

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
    with _reading(path):
        header, _, sums = table_about(path)
        shape = Shape.parse(header.pop("shape"), header.pop("edges"))
        schema = table_schema(shape)
        with open_parquet(path, path, schema, None, RENEW) as file:
            groups: list[pa.Table] = []
            rows = 0
            while len(groups) < file.num_row_groups and (limit is None or rows < limit):
                group = file.read_row_group(len(groups), columns=schema.names).select(schema.names)
                if sums is not None and sums[len(groups)] != (found := _content_checksum(group)):
                    raise StorageError(f"{path}: damaged (checksum {found}, recorded {sums[len(groups)]}). {RENEW}")
                groups.append(group)
                rows += len(group)
        content = pa.concat_tables(groups).slice(0, limit) if groups else schema.empty_table()
        return from_arrow(path, shape, content, header)


def table_about(path: Path) -> tuple[dict[str, Any], int, list[str] | None]:
    """Reads the metadata of a table: its header, the number of its rows, and the checksums of its row groups.

    Raises:
        StorageError: The file is missing, damaged, not a query table, or of a newer version.
    """
    with _reading(path), pq.ParquetFile(path) as file:
        raw = file.metadata.metadata or {}
        header, rows = read_metadata(path, raw), int(file.metadata.num_rows)
        if CHECKSUMS not in raw:
            return header, rows, None  # written by an earlier version
        said = json.loads(raw[CHECKSUMS])
        sums = [str(found) for found in said["groups"]]
        if (said["header"], said["rows"], len(sums)) != (checksum(raw[METADATA]), rows, file.num_row_groups):
            raise StorageError(f"{path}: damaged (its header is not what was written). {RENEW}")
        return header, rows, sums


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
        keys, values = (_ragged(content[f"qualifier_{name}_{edge}"]) for name in ("relations", "values"))
        if not np.array_equal(keys.counts, values.counts):
            raise StorageError(f"{path}: damaged (edge {edge} has qualifier relations without values). {RENEW}")
        counts[:, edge] = keys.counts
        of_edge.append((keys, values))
    pairs = Ragged.of_counts(counts.ravel(), np.empty((counts.sum(), 2), np.int32))
    for edge, (keys, values) in enumerate(of_edge):
        place = pairs.places(np.arange(edge, n * edges, edges)).items
        pairs.items[place, 0], pairs.items[place, 1] = keys.items, values.items
    answers = _ragged(content["answers"])
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


def _ragged(column: pa.ChunkedArray) -> Ragged:
    """Returns a column of lists of numbers as ragged rows."""
    counts, values = [], []
    for chunk in column.chunks:
        counts.append(chunk.value_lengths().to_numpy(zero_copy_only=False))
        values.append(chunk.flatten().to_numpy(zero_copy_only=False))
    if not counts:
        return Ragged.empty(0)
    return Ragged.of_counts(np.concatenate(counts), np.concatenate(values).astype(np.int32, copy=False))
