"""A set of query tables on disk: a folder with a header, and a Parquet file for each split and shape.

queries.json              {"format": "starqe query set", "version": 1, "fingerprint": of the graph, "settings": …}
train/2p.parquet …        the table of the shape 2p for the split train, see `starqe.queries.table`
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from starqe.errors import InputError, MismatchError, StorageError
from starqe.folders import new_file, read_header, write_header
from starqe.kg import SPLITS, Graph
from starqe.queries.settings import QuerySettings
from starqe.queries.shape import SHAPES, Shape
from starqe.queries.table import QueryTable, load_table, read_metadata

FORMAT, VERSION = "starqe query set", 1
HEADER = "queries.json"


def table_path(folder: Path, split: str, shape: str) -> Path:
    """Says where the table of a split and a shape stands."""
    return folder / split / f"{shape}.parquet"


def read_query_set(folder: Path) -> dict[str, Any]:
    """Reads the header of a query set: the fingerprint of its graph, and its settings.

    Raises:
        StorageError: The folder is no query set, or one of a newer version.
    """
    header = read_header(folder / HEADER, FORMAT, VERSION)
    if not isinstance(header.get("settings"), dict) or not isinstance(header.get("fingerprint"), str):
        raise StorageError(f"{folder / HEADER}: the header of a query set has a fingerprint and settings. Generate the queries again")
    return header


def check_graph(folder: Path, graph: Graph) -> dict[str, Any]:
    """Checks that a query set is of this graph, and gives its header.

    Raises:
        MismatchError: It is of another graph.
        StorageError: The folder is no query set, or one of a newer version.
    """
    header = read_query_set(folder)
    if header["fingerprint"] != graph.fingerprint:
        found, given = header["fingerprint"][:12], graph.fingerprint[:12]
        raise MismatchError(
            f"{folder} holds queries of another graph (fingerprint {found}, this graph {given}). Choose another folder or graph"
        )
    return header


def claim(folder: Path, graph: Graph, settings: QuerySettings) -> None:
    """Writes the header of a new query set, or checks that the one there is of the same graph and settings.

    Raises:
        MismatchError: The folder holds queries of another graph.
        StorageError: The folder holds something else or queries made with other settings, or the disk refuses.
    """
    wanted = settings.model_dump(mode="json")
    if not (folder.is_dir() and any(folder.iterdir())):
        if folder.exists() and not folder.is_dir():
            raise StorageError(f"queries are written into a folder, and {folder} is a file. Choose another place")
        with new_file(folder / HEADER, overwrite=False) as beside:
            write_header(beside, FORMAT, VERSION, {"fingerprint": graph.fingerprint, "settings": wanted})
    found = check_graph(folder, graph)
    if found["settings"] != wanted:
        changed = sorted(key for key in wanted.keys() | found["settings"].keys() if found["settings"].get(key) != wanted.get(key))
        raise StorageError(f"{folder} holds queries made with other settings ({', '.join(changed)}). Choose another folder")


def finished(path: Path, shape: Shape, header: Mapping[str, Any]) -> int | None:
    """Gives the number of queries of a table that is there, or None if there is none.

    Raises:
        StorageError: What is there is another table, or damaged.
    """
    if not path.exists():
        return None
    found, count = _open(path)
    if found != {"shape": shape.name, "edges": shape.text, **header}:
        raise StorageError(f"{path} is another table than the one wanted (a shape of the same name?). Choose another folder")
    return count


def tables_of(folder: Path) -> dict[str, dict[str, int]]:
    """Says which tables a query set has: split -> shape -> number of queries; the shapes of the paper come first.

    Raises:
        StorageError: The folder is no query set, or a table is damaged.
    """
    read_query_set(folder)
    found: dict[str, dict[str, int]] = {}
    for split in SPLITS:
        shapes = {path.stem: path for path in sorted((folder / split).glob("[!.]*.parquet"))}
        if shapes:
            order = [*(name for name in SHAPES if name in shapes), *(name for name in shapes if name not in SHAPES)]
            found[split] = {name: _open(shapes[name])[1] for name in order}
    return found


def check_tables(graph: Graph, tables: Iterable[QueryTable]) -> None:
    """Makes sure that tables are of this graph; a table that does not say where it comes from is taken at its word.

    Raises:
        MismatchError: A table is of another graph.
    """
    for table in tables:
        if (found := table.header.get("fingerprint", graph.fingerprint)) != graph.fingerprint:
            raise MismatchError(
                f"the queries are of another graph (fingerprint {found[:12]}, this graph {graph.fingerprint[:12]}). Generate them anew"
            )


def load_queries(
    folder: Path, split: str, shapes: Iterable[str] | None = None, limit: int | None = None, graph: Graph | None = None
) -> dict[str, QueryTable]:
    """Reads the tables of one split: of all shapes there are or of the named ones, whole or their first rows.

    Raises:
        InputError: The set has no such split, or no table of a shape.
        MismatchError: A graph is given, and the queries are of another.
        StorageError: The folder is no query set, or a table is damaged.
    """
    if graph is not None:
        check_graph(folder, graph)
    there = tables_of(folder)
    if split not in there:
        raise InputError(f"{folder} has queries for {_listed(there)}, and not for '{split}'")
    wanted = list(there[split] if shapes is None else shapes)
    if lacking := [shape for shape in wanted if shape not in there[split]]:
        raise InputError(f"{folder} has {split} queries of the shapes {_listed(there[split])}, and not of {_listed(lacking)}")
    return {shape: load_table(table_path(folder, split, shape), limit) for shape in wanted}


def _open(path: Path) -> tuple[dict[str, Any], int]:
    """Gives the header and the number of rows of a table."""
    try:
        with pq.ParquetFile(path) as file:
            return read_metadata(path, file.schema_arrow.metadata), int(file.metadata.num_rows)
    except (OSError, pa.ArrowException) as error:
        raise StorageError(f"{path}: cannot read the query table ({error}). Delete it and generate again") from None


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words) or "nothing yet"
