"""A graph on disk: a folder of Parquet files with a small versioned header.

graph.json             {"format": "starqe graph", "version": 1, "fingerprint": …, counts, bases of IRIs}
statements.parquet     head, relation, tail (int32), split (int8: 0 train, 1 valid, 2 test)
pairs.parquet          statement (int64), relation, value (int32): the qualifier pairs, by statement
entities.parquet       identifier, in the order of the ids
relations.parquet      identifier
labels.parquet         kind ("entity" or "relation"), id, language, label
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from starqe.errors import StorageError
from starqe.folders import new_folder, read_header, write_header
from starqe.kg.graph import Graph
from starqe.kg.names import Names
from starqe.kg.vocabulary import Vocabulary

FORMAT, VERSION = "starqe graph", 1
HEADER = "graph.json"
FILES = frozenset({HEADER, *(f"{name}.parquet" for name in ("statements", "pairs", "entities", "relations", "labels"))})
"""The files of a graph's folder."""


def check_replaceable(folder: Path) -> None:
    """Makes sure that a folder holds a graph and nothing else, so that replacing it loses nothing of another kind.

    Raises:
        StorageError: It holds something else.
    """
    read_header(folder / HEADER, FORMAT)
    if foreign := sorted({path.name for path in folder.iterdir()} - FILES):
        raise StorageError(f"{folder} is not replaced: it also holds '{foreign[0]}', which is no file of a graph. Move it elsewhere")


def save_graph(graph: Graph, folder: Path, overwrite: bool = False) -> None:
    """Writes a graph so that the folder is whole or not there: beside, then renamed.

    Raises:
        StorageError: The folder exists (and may not be replaced), or the disk refuses.
    """
    with new_folder(folder, overwrite, lambda: check_replaceable(folder)) as place:
        _write(place / "statements.parquet", head=graph.head, relation=graph.relation, tail=graph.tail, split=graph.split)
        _write(place / "pairs.parquet", statement=graph.pair_statement, relation=graph.pair_relation, value=graph.pair_value)
        _write(place / "entities.parquet", identifier=graph.entities.identifiers)
        _write(place / "relations.parquet", identifier=graph.relations.identifiers)
        labels = [
            (kind, id_, language, label)
            for kind, vocabulary in (("entity", graph.entities), ("relation", graph.relations))
            for language, by_id in sorted(vocabulary.labels.items())
            for id_, label in sorted(by_id.items())
        ]
        columns = zip(*labels, strict=True) if labels else [()] * 4
        types = {"kind": pa.string(), "id": pa.int32(), "language": pa.string(), "label": pa.string()}
        _write(place / "labels.parquet", **{name: pa.array(c, t) for (name, t), c in zip(types.items(), columns, strict=True)})
        counts = {"statements": len(graph), "entities": len(graph.entities), "relations": len(graph.relations)}
        bases = {"entity_base": graph.names.entity_base, "relation_base": graph.names.relation_base}
        write_header(place / HEADER, FORMAT, VERSION, {"fingerprint": graph.fingerprint, **counts, **bases})


def load_graph(folder: Path) -> Graph:
    """Reads a graph.

    Raises:
        StorageError: The folder is no graph, of a newer version, damaged, or not what its header says.
    """
    header = read_header(folder / HEADER, FORMAT, VERSION)
    try:
        statements, pairs = pq.read_table(folder / "statements.parquet"), pq.read_table(folder / "pairs.parquet")
        labels: dict[str, dict[str, dict[int, str]]] = {"entity": {}, "relation": {}}
        for row in pq.read_table(folder / "labels.parquet").to_pylist():
            labels[row["kind"]].setdefault(row["language"], {})[row["id"]] = row["label"]
        counts = np.bincount(pairs["statement"].to_numpy(), minlength=len(statements))
        graph = Graph(
            entities=Vocabulary(_strings(pq.read_table(folder / "entities.parquet")), labels["entity"]),
            relations=Vocabulary(_strings(pq.read_table(folder / "relations.parquet")), labels["relation"]),
            head=statements["head"].to_numpy(),
            relation=statements["relation"].to_numpy(),
            tail=statements["tail"].to_numpy(),
            split=statements["split"].to_numpy(),
            offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            pair_relation=pairs["relation"].to_numpy(),
            pair_value=pairs["value"].to_numpy(),
            names=Names(header["entity_base"], header["relation_base"]),
        )
    except (OSError, KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise StorageError(f"{folder}: the graph is damaged ({error}). Import it again from its source") from None
    if graph.fingerprint != (said := str(header.get("fingerprint"))):
        found = f"fingerprint {graph.fingerprint[:12]}, header {said[:12]}"
        raise StorageError(f"{folder}: the files do not match the header ({found}). Import it again from its source")
    return graph


def _write(path: Path, **columns: np.ndarray | pa.Array) -> None:
    pq.write_table(pa.table(columns), path, compression="zstd")


def _strings(table: pa.Table) -> pa.StringArray:
    if table["identifier"].null_count:
        raise ValueError("an identifier is missing")
    return table["identifier"].combine_chunks()
