"""Many queries of one shape, as columns; on disk a Parquet file with the graph's fingerprint."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from starqe.errors import StorageError
from starqe.queries.shape import Shape

FORMAT, VERSION = "starqe queries", 1
METADATA = b"starqe"


@dataclass(frozen=True, eq=False)
class QueryTable:
    """Queries of one shape with their answers, by ids.

    n queries · A anchors · E edges. Qualifier pairs are ragged over (query, edge), row by row: the pairs of edge e of
    query i stand at ``pair_offsets[i * E + e]`` up to the next offset.
    """

    shape: Shape
    anchors: np.ndarray  # (n, A) int32, columns as shape.anchors
    relations: np.ndarray  # (n, E) int32, columns as shape.edges
    pair_offsets: np.ndarray  # (n * E + 1,) int64
    pair_relation: np.ndarray  # (pairs,) int32
    pair_value: np.ndarray  # (pairs,) int32
    answer_offsets: np.ndarray  # (n + 1,) int64
    answers: np.ndarray  # (answers,) int32, ascending within a query
    header: Mapping[str, Any] = field(default_factory=dict)
    """Where the table comes from: split, fingerprint of the graph, settings of its generation."""

    def __post_init__(self) -> None:
        n, edges = len(self.anchors), len(self.shape.edges)
        assert self.anchors.shape == (n, len(self.shape.anchors)), self.anchors.shape
        assert self.relations.shape == (n, edges), self.relations.shape
        assert len(self.pair_offsets) == n * edges + 1, (len(self.pair_offsets), n, edges)
        assert len(self.answer_offsets) == n + 1, (len(self.answer_offsets), n)

    def __len__(self) -> int:
        return len(self.anchors)

    def take(self, rows: np.ndarray | Sequence[int]) -> "QueryTable":
        """Gives the table of these rows, in this order."""
        rows = np.asarray(rows, np.int64)
        edges = len(self.shape.edges)
        cells = (rows[:, None] * edges + np.arange(edges)).ravel()
        pair_offsets, pairs = ragged_take(self.pair_offsets, cells)
        answer_offsets, answers = ragged_take(self.answer_offsets, rows)
        return QueryTable(
            self.shape,
            self.anchors[rows],
            self.relations[rows],
            pair_offsets,
            self.pair_relation[pairs],
            self.pair_value[pairs],
            answer_offsets,
            self.answers[answers],
            self.header,
        )

    def pairs_of(self, row: int, edge: int) -> list[tuple[int, int]]:
        """Gives the qualifier pairs of one edge of one query."""
        cell = row * len(self.shape.edges) + edge
        span = slice(self.pair_offsets[cell], self.pair_offsets[cell + 1])
        return list(zip(self.pair_relation[span].tolist(), self.pair_value[span].tolist(), strict=True))

    def answers_of(self, row: int) -> np.ndarray:
        """Gives the answers of one query, ascending."""
        return self.answers[self.answer_offsets[row] : self.answer_offsets[row + 1]]


def stack(tables: Sequence[QueryTable]) -> QueryTable:
    """Lays tables of one shape end to end."""
    columns = {
        name: np.concatenate([getattr(table, name) for table in tables])
        for name in ("anchors", "relations", "pair_relation", "pair_value", "answers")
    }
    offsets = {
        name: np.concatenate([[0], np.cumsum(np.concatenate([np.diff(getattr(table, name)) for table in tables]))]).astype(np.int64)
        for name in ("pair_offsets", "answer_offsets")
    }
    return QueryTable(tables[0].shape, **columns, **offsets, header=tables[0].header)


def ragged_take(offsets: np.ndarray, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gives the offsets of the chosen cells laid end to end, and the positions of their items in the old layout."""
    starts, counts = offsets[cells], offsets[cells + 1] - offsets[cells]
    new = np.zeros(len(cells) + 1, np.int64)
    np.cumsum(counts, out=new[1:])
    return new, np.arange(new[-1]) + np.repeat(starts - new[:-1], counts)


def column_names(shape: Shape) -> list[str]:
    """Names the columns of a table on disk: anchors, then for each edge its relation and pairs, then the answers."""
    names = list(shape.anchors)
    for edge in range(len(shape.edges)):
        names += [f"relation_{edge}", f"qualifier_relations_{edge}", f"qualifier_values_{edge}"]
    return [*names, "answers"]


def metadata(shape: Shape, header: Mapping[str, Any]) -> str:
    """Gives the header of a table on disk, as JSON text."""
    return json.dumps({"format": FORMAT, "version": VERSION, "shape": shape.name, "edges": shape.text, **header}, sort_keys=True)


def save_table(table: QueryTable, path: Path) -> None:
    """Writes a table: beside, then renamed."""
    edges = len(table.shape.edges)
    columns: dict[str, pa.Array] = {name: pa.array(table.anchors[:, i]) for i, name in enumerate(table.shape.anchors)}
    for edge in range(edges):
        offsets, pairs = ragged_take(table.pair_offsets, np.arange(edge, len(table) * edges, edges))
        columns[f"relation_{edge}"] = pa.array(table.relations[:, edge])
        columns[f"qualifier_relations_{edge}"] = _lists(offsets, table.pair_relation[pairs])
        columns[f"qualifier_values_{edge}"] = _lists(offsets, table.pair_value[pairs])
    columns["answers"] = _lists(table.answer_offsets, table.answers)
    content = pa.table(columns).replace_schema_metadata({METADATA: metadata(table.shape, table.header)})
    beside = path.with_name(f".{path.name}.part")
    try:
        pq.write_table(content, beside, compression="zstd")
        beside.replace(path)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        beside.unlink(missing_ok=True)


def load_table(path: Path, limit: int | None = None) -> QueryTable:
    """Reads a table, or its first rows only (which are a uniform sample).

    Raises:
        StorageError: The file is missing, damaged, no query table, or of a newer version.
    """
    try:
        with pq.ParquetFile(path) as file:
            header = read_metadata(path, file.schema_arrow.metadata)
            groups: list[int] = []
            rows = 0
            while len(groups) < file.num_row_groups and (limit is None or rows < limit):
                rows += file.metadata.row_group(len(groups)).num_rows
                groups.append(len(groups))
            content = file.read_row_groups(groups).slice(0, limit)
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"{path}: cannot read the query table ({error})") from None
    shape = Shape.parse(header.pop("shape"), header.pop("edges"))
    return _from_arrow(shape, content, header)


def read_metadata(path: Path, raw: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """Reads and checks the header of a table.

    Raises:
        StorageError: It is no header of a query table, or one of a newer version.
    """
    try:
        header = json.loads((raw or {})[METADATA])
        known = header.pop("format") == FORMAT
        version = int(header.pop("version"))
    except (KeyError, ValueError, TypeError):
        known = False
    if not known:
        raise StorageError(f"{path}: not a query table of starqe. Make one with 'starqe queries generate'")
    if version > VERSION:
        raise StorageError(f"{path}: written by a newer starqe (query format {version}, this one reads up to {VERSION}). Upgrade starqe")
    return dict(header)


def _from_arrow(shape: Shape, content: pa.Table, header: dict[str, Any]) -> QueryTable:
    n, edges = len(content), len(shape.edges)
    anchors = np.empty((n, len(shape.anchors)), np.int32)
    for i, name in enumerate(shape.anchors):
        anchors[:, i] = content[name].to_numpy()
    relations = np.empty((n, edges), np.int32)
    counts = np.empty((n, edges), np.int64)
    lists = []
    for edge in range(edges):
        relations[:, edge] = content[f"relation_{edge}"].to_numpy()
        key_offsets, keys = _ragged(content[f"qualifier_relations_{edge}"])
        _, values = _ragged(content[f"qualifier_values_{edge}"])
        counts[:, edge] = np.diff(key_offsets)
        lists.append((key_offsets, keys, values))
    pair_offsets = np.zeros(n * edges + 1, np.int64)
    np.cumsum(counts.ravel(), out=pair_offsets[1:])
    pair_relation, pair_value = np.empty(pair_offsets[-1], np.int32), np.empty(pair_offsets[-1], np.int32)
    for edge, (offsets, keys, values) in enumerate(lists):
        place = np.arange(len(keys)) + np.repeat(pair_offsets[np.arange(edge, n * edges, edges)] - offsets[:-1], counts[:, edge])
        pair_relation[place], pair_value[place] = keys, values
    answer_offsets, answers = _ragged(content["answers"])
    return QueryTable(shape, anchors, relations, pair_offsets, pair_relation, pair_value, answer_offsets, answers, header)


def _lists(offsets: np.ndarray, values: np.ndarray) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values, pa.int32()))


def _ragged(column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """Gives the offsets and the flat values of a column of lists."""
    counts, values = [], []
    for chunk in column.chunks:
        counts.append(chunk.value_lengths().to_numpy(zero_copy_only=False))
        values.append(chunk.flatten().to_numpy(zero_copy_only=False))
    offsets = np.zeros(len(column) + 1, np.int64)
    if counts:
        np.cumsum(np.concatenate(counts), out=offsets[1:])
    return offsets, (np.concatenate(values) if values else np.empty(0)).astype(np.int32, copy=False)
