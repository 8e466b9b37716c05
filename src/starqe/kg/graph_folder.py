"""A graph folder on disk: Parquet files with a small versioned header.

graph.json             {"format": "starqe graph", "version": 1, or 2 with literals, "fingerprint": …, counts, bases of IRIs, checksums}
statements.parquet     head, relation, tail (int32), split (int8: 0 train, 1 valid, 2 test)
pairs.parquet          statement (int64), relation, value (int32): the qualifier pairs, by statement
entities.parquet       identifier, in the order of the ids
relations.parquet      identifier
labels.parquet         kind ("entity" or "relation"), id, language, label
literals.parquet       lexical, datatype, language, unit, precision, lower, upper, calendar, number (or days since 1970): only in a graph
                       with literals. A tail or value that is not below the number of entities is the literal in row (id - entities)
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from starqe.errors import InputError, StorageError
from starqe.folders import check_only, file_checksum, new_folder, read_checked, read_header, write_header
from starqe.kg.graph import Graph
from starqe.kg.iris import Names
from starqe.kg.literals import NO_LITERALS, Literals
from starqe.kg.literals import SCHEMA as LITERALS
from starqe.kg.parquet import WRITTEN, check_resources, open_parquet, strings
from starqe.kg.statement import SPLITS
from starqe.kg.vocabulary import LabelColumn, Vocabulary
from starqe.ragged import IntArray, Ragged
from starqe.remote import address, local_copy, replaced
from starqe.texts import parts

FORMAT, VERSION = "starqe graph", 2
WITHOUT_LITERALS = 1
"""The version of a graph without literals, so that earlier versions of starqe can open it."""
HEADER = "graph.json"
RENEW = "Import it again from its source"
TRIES = 10
"""How often a graph is read that other commands replace all the time."""
SCHEMAS: Mapping[str, pa.Schema] = {
    "statements": pa.schema([("head", pa.int32()), ("relation", pa.int32()), ("tail", pa.int32()), ("split", pa.int8())]),
    "pairs": pa.schema([("statement", pa.int64()), ("relation", pa.int32()), ("value", pa.int32())]),
    "entities": pa.schema([("identifier", pa.string())]),
    "relations": pa.schema([("identifier", pa.string())]),
    "labels": pa.schema([("kind", pa.string()), ("id", pa.int32()), ("language", pa.string()), ("label", pa.string())]),
}
"""The tables of a graph's folder, by name."""
FILES = frozenset({HEADER, *(f"{name}.parquet" for name in (*SCHEMAS, "literals"))})
"""The files of a graph's folder."""


def check_replaceable(folder: Path) -> None:
    """Checks that a folder holds a graph and nothing else, so that replacing it loses no other files.

    Raises:
        StorageError: It holds something else.
    """
    read_header(folder / HEADER, FORMAT)
    check_only(folder, FILES, "a graph")


def graph_header(folder: Path) -> dict[str, Any]:
    """Returns the header of a graph, which changes whenever anything in the folder does.

    Raises:
        StorageError: The folder is not a graph, or was written by a newer version.
    """
    if address(folder):
        with local_copy(folder, HEADER) as local:
            return graph_header(local)
    return read_header(folder / HEADER, FORMAT, VERSION)


def save_graph(graph: Graph, folder: Path, overwrite: bool = False, replaces: Mapping[str, Any] | None = None) -> None:
    """Writes a graph folder, completely or not at all.

    Args:
        graph: The graph.
        folder: The folder, or an address such as ``Path("s3://bucket/graph")`` (see `starqe.remote`).
        overwrite: Whether a graph that is there is replaced.
        replaces: The header of the graph that is there, which no other command may have changed meanwhile.

    Raises:
        StorageError: The folder exists (and may not be replaced), was changed by another command, or cannot be written.
    """
    if address(folder):
        if replaces is not None and graph_header(folder) != replaces:
            raise StorageError(f"{address(folder)} was changed by another command meanwhile, and stays as it is now. Run the update again")
        with replaced(folder, HEADER, FILES, overwrite) as local:
            save_graph(graph, local)
        return
    tables: dict[str, list[Any]] = {
        "statements": [graph.head, graph.relation, graph.tail, graph.split],
        "pairs": [graph.pairs.owner, graph.pair_relation, graph.pair_value],
        "entities": [pa.chunked_array(parts(graph.entities.identifiers))],
        "relations": [pa.chunked_array(parts(graph.relations.identifiers))],
        "labels": _label_columns(graph),
    }
    schemas = dict(SCHEMAS)
    if len(graph.literals):
        tables["literals"], schemas["literals"] = graph.literals.columns(), LITERALS

    def check_unchanged() -> None:
        if replaces is not None and graph_header(folder) != replaces:
            raise StorageError(f"{folder} was changed by another command meanwhile, and stays as it is now. Run the update again")

    with new_folder(folder, overwrite, lambda: check_replaceable(folder), check_unchanged) as place:
        counts, checksums = {}, {}
        for name, columns in tables.items():
            table = pa.table(dict(zip(schemas[name].names, columns, strict=True)), schemas[name])
            path = place / f"{name}.parquet"
            pq.write_table(table, path, **WRITTEN)
            counts[name], checksums[path.name] = len(table), file_checksum(path)
        bases = {"entity_base": graph.names.entity_base, "relation_base": graph.names.relation_base}
        content = {"title": graph.title, "fingerprint": graph.fingerprint, **counts, **bases, "checksums": checksums}
        write_header(place / HEADER, FORMAT, VERSION if len(graph.literals) else WITHOUT_LITERALS, content)


def _label_columns(graph: Graph) -> list[Any]:
    columns = [
        (kind, language, LabelColumn.of(by_id))
        for kind, vocabulary in (("entity", graph.entities), ("relation", graph.relations))
        for language, by_id in sorted(vocabulary.labels.items())
    ]
    if not columns:
        return [()] * 4
    kinds, languages = (pa.concat_arrays([pa.repeat(one[place], len(one[2])) for one in columns]) for place in (0, 1))
    texts = pa.chunked_array([part for _, _, column in columns for part in parts(column.texts.column)])
    return [kinds, np.concatenate([column.ids for _, _, column in columns]), languages, texts]


def load_graph(folder: Path) -> Graph:
    """Reads a graph; if another command replaces it meanwhile, the new one. Also by its address (see `starqe.remote`).

    Raises:
        StorageError: The folder is not a graph, was written by a newer version, is damaged, or does not match its header.
    """
    if address(folder):
        with local_copy(folder) as local:
            return load_graph(local)
    header = graph_header(folder)
    for _ in range(TRIES - 1):
        try:
            return _loaded(folder, header)
        except StorageError:
            before, header = header, graph_header(folder)
            if header == before:
                raise
    return _loaded(folder, header)


def _loaded(folder: Path, header: Mapping[str, Any]) -> Graph:
    try:
        graph = _assembled(folder, header)
    except MemoryError:  # Arrow's is an ArrowException too, and says nothing about the files
        raise
    except (OSError, KeyError, TypeError, ValueError, InputError, pa.ArrowException) as error:
        check_resources(error)
        raise StorageError(f"{folder}: the graph is damaged ({error}). {RENEW}") from None
    if graph.fingerprint != (recorded := str(header.get("fingerprint"))):
        found = f"fingerprint {graph.fingerprint[:12]}, header {recorded[:12]}"
        raise StorageError(f"{folder}: the files do not match the header ({found}). {RENEW}")
    return graph


def _read(path: Path, schema: pa.Schema, header: Mapping[str, Any]) -> pa.Table:
    """Reads one table after checking its checksum, columns and size."""
    content = read_checked(path, header, RENEW)
    rows = header.get(path.stem)
    with open_parquet(pa.BufferReader(content), path, schema, None if rows is None else int(rows), RENEW) as file:
        table = file.read()
    for name in schema.names:
        if table[name].null_count:
            raise StorageError(f"{path}: damaged (a value of '{name}' is missing). {RENEW}")
    return table


def _assembled(folder: Path, header: Mapping[str, Any]) -> Graph:
    """Reads one table after the other, so that only one is in memory as it is stored."""

    def read(name: str) -> pa.Table:
        return _read(folder / f"{name}.parquet", LITERALS if name == "literals" else SCHEMAS[name], header)

    entities, relations = (strings(read(name)["identifier"], folder / f"{name}.parquet", RENEW) for name in ("entities", "relations"))
    literals = _literals(folder / "literals.parquet", read("literals")) if "literals" in header else NO_LITERALS
    values = len(entities) + len(literals)
    most = {"head": len(entities), "tail": values, "value": values, "relation": len(relations), "split": len(SPLITS)}

    def columns(name: str) -> dict[str, IntArray]:
        table = read(name)
        found: dict[str, IntArray] = {column: table[column].to_numpy() for column in table.column_names}
        for column, numbers in found.items():
            _check_range(folder / f"{name}.parquet", column, numbers, most[column])
        return found

    statements = columns("statements")
    most["statement"] = len(statements["head"])
    pairs = columns("pairs")
    if (pairs["statement"][1:] < pairs["statement"][:-1]).any():
        raise StorageError(f"{folder / 'pairs.parquet'}: damaged (pairs are not in the order of statements). {RENEW}")
    labels = _labels(folder / "labels.parquet", read("labels"), {"entity": len(entities), "relation": len(relations)})
    return Graph(
        entities=Vocabulary(entities, labels["entity"]),
        relations=Vocabulary(relations, labels["relation"]),
        head=statements["head"],
        relation=statements["relation"],
        tail=statements["tail"],
        split=statements["split"],
        pairs=Ragged.of_owner(pairs["statement"], np.stack([pairs["relation"], pairs["value"]], axis=1), len(statements["head"])),
        names=Names(header["entity_base"], header["relation_base"]),
        title=str(header.get("title", "")),
        literals=literals,
    )


def _literals(path: Path, table: pa.Table) -> Literals:
    columns: dict[str, list[object]] = {
        name: (strings(table[name], path, RENEW) if pa.types.is_string(LITERALS.field(name).type) else table[name]).to_pylist()
        for name in LITERALS.names
        if name != "number"  # computed from the others; it is there for other programs
    }
    return Literals.of_columns(columns)


def _labels(path: Path, table: pa.Table, most: Mapping[str, int]) -> dict[str, dict[str, LabelColumn]]:
    """Returns the labels by kind, language and id."""
    labels: dict[str, dict[str, LabelColumn]] = {kind: {} for kind in most}
    kinds, languages, texts = (strings(table[name], path, RENEW) for name in ("kind", "language", "label"))
    ids = table["id"].to_numpy()
    for kind in pc.unique(kinds).to_pylist():
        of_kind = pc.equal(kinds, kind)
        _check_range(path, "id", ids[of_kind.to_numpy(zero_copy_only=False)], most[kind])
        for language in pc.unique(languages.filter(of_kind)).to_pylist():
            chosen = pc.and_(of_kind, pc.equal(languages, language))
            labels[kind][language] = LabelColumn(ids[chosen.to_numpy(zero_copy_only=False)], texts.filter(chosen))
    return labels


def _check_range(path: Path, name: str, values: IntArray, most: int) -> None:
    if len(values) and not 0 <= values.min() <= values.max() < most:
        raise StorageError(f"{path}: damaged ('{name}' is from 0 to {most - 1:,}, found {values.min():,} to {values.max():,}). {RENEW}")
