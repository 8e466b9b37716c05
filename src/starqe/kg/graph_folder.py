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
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from starqe.errors import InputError, StorageError
from starqe.folders import check_only, checksum, new_folder, read_checked, read_header, write_header
from starqe.kg.graph import Graph
from starqe.kg.iris import Names
from starqe.kg.literals import NO_LITERALS, Literals
from starqe.kg.literals import SCHEMA as LITERALS
from starqe.kg.parquet import WRITTEN, check_resources, open_parquet, strings
from starqe.kg.statement import SPLITS
from starqe.kg.vocabulary import Vocabulary
from starqe.ragged import IntArray, Ragged

FORMAT, VERSION = "starqe graph", 2
WITHOUT_LITERALS = 1
"""The version of a graph without literals, so that earlier versions of starqe can open it."""
HEADER = "graph.json"
RENEW = "Import it again from its source"
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


def save_graph(graph: Graph, folder: Path, overwrite: bool = False, replaces: str | None = None) -> None:
    """Writes a graph folder, completely or not at all.

    Args:
        graph: The graph.
        folder: The folder.
        overwrite: Whether a graph that is there is replaced.
        replaces: The fingerprint of the graph that is there, which no other command may have changed meanwhile.

    Raises:
        StorageError: The folder exists (and may not be replaced), was changed by another command, or cannot be written.
    """
    tables: dict[str, list[Any]] = {
        "statements": [graph.head, graph.relation, graph.tail, graph.split],
        "pairs": [graph.pairs.owner, graph.pair_relation, graph.pair_value],
        "entities": [graph.entities.identifiers],
        "relations": [graph.relations.identifiers],
        "labels": _label_columns(graph),
    }
    schemas = dict(SCHEMAS)
    if len(graph.literals):
        tables["literals"], schemas["literals"] = graph.literals.columns(), LITERALS
    with new_folder(folder, overwrite, lambda: check_replaceable(folder)) as place:
        counts, checksums = {}, {}
        for name, columns in tables.items():
            table = pa.table(dict(zip(schemas[name].names, columns, strict=True)), schemas[name])
            path = place / f"{name}.parquet"
            pq.write_table(table, path, **WRITTEN)
            counts[name], checksums[path.name] = len(table), checksum(path.read_bytes())
        bases = {"entity_base": graph.names.entity_base, "relation_base": graph.names.relation_base}
        content = {"title": graph.title, "fingerprint": graph.fingerprint, **counts, **bases, "checksums": checksums}
        write_header(place / HEADER, FORMAT, VERSION if len(graph.literals) else WITHOUT_LITERALS, content)
        if replaces is not None and read_header(folder / HEADER, FORMAT)["fingerprint"] != replaces:
            raise StorageError(f"{folder} was changed by another command meanwhile, and stays as it is now. Run the update again")


def _label_columns(graph: Graph) -> list[Any]:
    labels = [
        (kind, id_, language, label)
        for kind, vocabulary in (("entity", graph.entities), ("relation", graph.relations))
        for language, by_id in sorted(vocabulary.labels.items())
        for id_, label in sorted(by_id.items())
    ]
    return list(zip(*labels, strict=True)) if labels else [()] * 4


def load_graph(folder: Path) -> Graph:
    """Reads a graph.

    Raises:
        StorageError: The folder is not a graph, was written by a newer version, is damaged, or does not match its header.
    """
    header = read_header(folder / HEADER, FORMAT, VERSION)
    try:
        schemas = {**SCHEMAS, "literals": LITERALS} if "literals" in header else SCHEMAS
        tables = {name: _read(folder / f"{name}.parquet", schema, header) for name, schema in schemas.items()}
        graph = _assembled(folder, tables, Names(header["entity_base"], header["relation_base"]))
        graph = replace(graph, title=str(header.get("title", "")))
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


def _assembled(folder: Path, tables: Mapping[str, pa.Table], names: Names) -> Graph:
    entities, relations = (strings(tables[name]["identifier"], folder / f"{name}.parquet", RENEW) for name in ("entities", "relations"))
    literals = _literals(folder / "literals.parquet", tables["literals"]) if "literals" in tables else NO_LITERALS
    values = len(entities) + len(literals)
    most = {"head": len(entities), "tail": values, "value": values, "relation": len(relations), "split": len(SPLITS)}

    def column(table: str, name: str) -> IntArray:
        values: IntArray = tables[table][name].to_numpy()
        _check_range(folder / f"{table}.parquet", name, values, most.get(name, len(tables["statements"])))
        return values

    owner = column("pairs", "statement")
    if (owner[1:] < owner[:-1]).any():
        raise StorageError(f"{folder / 'pairs.parquet'}: damaged (pairs are not in the order of statements). {RENEW}")
    counts = np.bincount(owner, minlength=len(tables["statements"]))
    labels = _labels(folder / "labels.parquet", tables["labels"], {"entity": len(entities), "relation": len(relations)})
    return Graph(
        entities=Vocabulary(entities, labels["entity"]),
        relations=Vocabulary(relations, labels["relation"]),
        head=column("statements", "head"),
        relation=column("statements", "relation"),
        tail=column("statements", "tail"),
        split=column("statements", "split"),
        pairs=Ragged.of_counts(counts, np.stack([column("pairs", "relation"), column("pairs", "value")], axis=1)),
        names=names,
        literals=literals,
    )


def _literals(path: Path, table: pa.Table) -> Literals:
    columns: dict[str, list[object]] = {
        name: (strings(table[name], path, RENEW) if pa.types.is_string(LITERALS.field(name).type) else table[name]).to_pylist()
        for name in LITERALS.names
        if name != "number"  # computed from the others; it is there for other programs
    }
    return Literals.of_columns(columns)


def _labels(path: Path, table: pa.Table, most: Mapping[str, int]) -> dict[str, dict[str, dict[int, str]]]:
    """Returns the labels by kind, language and id."""
    labels: dict[str, dict[str, dict[int, str]]] = {kind: {} for kind in most}
    kinds, languages, texts = (strings(table[name], path, RENEW) for name in ("kind", "language", "label"))
    ids = table["id"].to_numpy()
    for kind in set(kinds.to_pylist()):
        _check_range(path, "id", ids[np.array(kinds.to_pylist()) == kind], most[kind])
    for kind, id_, language, label in zip(kinds.to_pylist(), ids.tolist(), languages.to_pylist(), texts.to_pylist(), strict=True):
        labels[kind].setdefault(language, {})[id_] = label
    return labels


def _check_range(path: Path, name: str, values: IntArray, most: int) -> None:
    if len(values) and not 0 <= values.min() <= values.max() < most:
        raise StorageError(f"{path}: damaged ('{name}' is from 0 to {most - 1:,}, found {values.min():,} to {values.max():,}). {RENEW}")
