"""A set of query tables on disk: a folder with a header, and a Parquet file for each split and shape.

queries.json              {"format": "starqe query set", "version": 1, "fingerprint": of the graph, "settings": …}
train/2p.parquet …        the table of the shape 2p for the split train, see `starqe.queries.table`
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from starqe.errors import InputError, MismatchError, StorageError, UnsupportedError
from starqe.folders import is_unused, new_file, read_header, sweep, write_header
from starqe.kg import SPLITS, Graph
from starqe.queries.generate.settings import QuerySettings
from starqe.queries.shape import ALL_SHAPES, Shape
from starqe.queries.table import RENEW, QueryTable, load_table, table_about
from starqe.queries.variants import unreified
from starqe.remote import address, local_copy

FORMAT, VERSION = "starqe query set", 1
HEADER = "queries.json"


def table_path(folder: Path, split: str, shape: str) -> Path:
    """Returns the path of the table of a split and a shape."""
    return folder / split / f"{shape}.parquet"


def read_query_set(folder: Path) -> dict[str, Any]:
    """Reads the header of a query set: the fingerprint of its graph, and its settings.

    Raises:
        StorageError: The folder is not a query set, or one of a newer version.
    """
    header = read_header(folder / HEADER, FORMAT, VERSION)
    if not isinstance(header.get("settings"), dict) or not isinstance(header.get("fingerprint"), str):
        raise StorageError(f"{folder / HEADER}: the header of a query set has a fingerprint and settings. Generate the queries again")
    return header


def check_graph(folder: Path, graph: Graph) -> dict[str, Any]:
    """Checks that a query set is of this graph, and returns its header.

    Raises:
        MismatchError: It is of another graph.
        StorageError: The folder is not a query set, or one of a newer version.
    """
    header = read_query_set(folder)
    if header["fingerprint"] != graph.fingerprint:
        found, given = header["fingerprint"][:12], graph.fingerprint[:12]
        raise MismatchError(
            f"{folder} holds queries of another graph (fingerprint {found}, this graph {given}). Choose another folder or graph"
        )
    return header


def claim(folder: Path, graph: Graph, settings: QuerySettings) -> None:
    """Writes the header of a new query set, or checks that an existing one has the same graph and settings.

    Raises:
        MismatchError: The folder holds queries of another graph.
        StorageError: The folder holds something else or queries made with other settings, or cannot be written.
    """
    wanted = settings.stored()
    if is_unused(folder):
        with new_file(folder / HEADER, overwrite=False) as beside:
            write_header(beside, FORMAT, VERSION, {"fingerprint": graph.fingerprint, "settings": wanted})
    found = check_graph(folder, graph)
    if found["settings"] != wanted:
        changed = sorted(key for key in wanted.keys() | found["settings"].keys() if found["settings"].get(key) != wanted.get(key))
        raise StorageError(f"{folder} holds queries made with other settings ({', '.join(changed)}). Choose another folder")
    sweep(folder)


def finished(path: Path, shape: Shape, header: Mapping[str, Any]) -> int | None:
    """Returns the number of queries of a table, or None if the file does not exist.

    Raises:
        StorageError: The file is another table, or damaged.
    """
    if not path.exists():
        return None
    found, count = table_about(path)
    if found != {"shape": shape.name, "edges": shape.text, **header}:
        raise StorageError(f"{path} is not the expected table (another shape of the same name?). Choose another folder")
    return count


def tables_of(folder: Path) -> dict[str, dict[str, int]]:
    """Lists the tables of a query set: split -> shape -> number of queries; the shapes of the paper come first.

    Raises:
        StorageError: The folder is not a query set, or a table is damaged.
    """
    read_query_set(folder)
    return {split: {name: table_about(path)[1] for name, path in paths.items()} for split, paths in _paths(folder).items()}


def _paths(folder: Path) -> dict[str, dict[str, Path]]:
    """Lists the files of the tables of a query set, without opening them: split -> shape -> file."""
    found: dict[str, dict[str, Path]] = {}
    for split in SPLITS:
        shapes = {path.stem: path for path in sorted((folder / split).glob("[!.]*.parquet"))}
        if shapes:
            order = [*(name for name in ALL_SHAPES if name in shapes), *(name for name in shapes if name not in ALL_SHAPES)]
            found[split] = {name: shapes[name] for name in order}
    return found


def check_tables(graph: Graph, tables: Iterable[QueryTable]) -> None:
    """Checks that tables are of this graph; a table that does not state its origin is accepted.

    Raises:
        MismatchError: A table is of another graph.
        StorageError: A table has ids that its graph does not have.
    """
    for table in tables:
        if (found := table.header.get("fingerprint", graph.fingerprint)) != graph.fingerprint:
            raise MismatchError(
                f"the queries are of another graph (fingerprint {found[:12]}, this graph {graph.fingerprint[:12]}). Generate them again"
            )
        _check_ids(graph, table, f"the {table.shape.name} queries")


def load_queries(
    folder: Path,
    split: str,
    shapes: Iterable[str] | None = None,
    limit: int | None = None,
    graph: Graph | None = None,
    reified: bool = False,
) -> dict[str, QueryTable]:
    """Reads the tables of one split: all shapes or the named ones, complete or only their first rows; also from an address.

    Raises:
        InputError: The set does not have the split, or a table of a shape.
        MismatchError: A graph is given, and the queries are of another.
        StorageError: The folder is not a query set, or a table is damaged.
        UnsupportedError: The set is reified, and ``reified`` does not allow it: its tables have nodes that are not entities.
    """
    if address(folder):
        with local_copy(folder, HEADER, f"{split}/*.parquet") as local:
            return load_queries(local, split, shapes, limit, graph, reified)
    if graph is not None:
        check_graph(folder, graph)
    about = read_query_set(folder)
    if not reified and about["settings"].get("variant") == "reified":
        raise UnsupportedError(
            f"{folder} holds reified queries, which are made for other tools. Models reify queries themselves (train.variant): give the "
            "folder of the qualified queries"
        )
    available = _paths(folder)
    if split not in available:
        raise InputError(f"{folder} has queries for {_listed(available)}, and not for '{split}'")
    wanted = list(available[split] if shapes is None else shapes)
    if lacking := [shape for shape in wanted if shape not in available[split]]:
        raise InputError(f"{folder} has {split} queries of the shapes {_listed(available[split])}, and not of {_listed(lacking)}")
    tables = {shape: load_table(available[split][shape], limit) for shape in wanted}
    if graph is not None:
        for shape, table in tables.items():
            _check_ids(graph, unreified(table) if "reified" in table.header else table, str(available[split][shape]))
    return tables


def _check_ids(graph: Graph, table: QueryTable, name: str) -> None:
    """Checks that the ids of a table are ids of a graph."""
    entities, relations = len(graph.entities), len(graph.relations)
    columns = ((table.anchors, entities), (table.pair_value, entities), (table.answers.items, entities))
    for ids, most in (*columns, *((ids, relations) for ids in (table.relations, table.pair_relation, table.value_relations))):
        if ids.size and not 0 <= ids.min() <= ids.max() < most:
            raise StorageError(f"{name}: damaged (ids are from 0 to {most - 1:,}, found {ids.min():,} to {ids.max():,}). {RENEW}")


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words) or "nothing yet"
