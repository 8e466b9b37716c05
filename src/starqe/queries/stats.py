"""Statistics of a query set: numbers of queries and of answers."""

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from starqe.errors import InputError, StorageError
from starqe.kg import Graph
from starqe.queries.exact.answering import EASY_AND_ALL
from starqe.queries.exact.reduction import class_order, reductions
from starqe.queries.generate.hubs import THRESHOLD, hub_stats
from starqe.queries.query_set import check_graph, load_queries, read_query_set, table_path, tables_of
from starqe.remote import address, local_copy


def query_set_stats(folder: Path, graph: Graph | None = None, reduced: int = 0) -> dict[str, Any]:
    """Counts the queries of a set and describes their numbers of answers, by split and shape.

    Args:
        folder: A query set.
        graph: Its graph; if given, the figures on hubs are added.
        reduced: The number of queries of each validation and test table whose listed answers are counted by reduction class; needs a graph.

    Returns:
        ``counts`` (split -> shape -> queries), ``answers`` (split -> shape -> min, lower_quartile, median, upper_quartile,
        max, mean; a table without queries has none), ``settings``, ``fingerprint``, ``hubs`` (None without a graph), and ``reductions``
        (split -> shape -> class -> answers; None if not wanted).

    Raises:
        InputError: Reductions are wanted, and no graph is given.
        MismatchError: The queries are of another graph.
        StorageError: The folder is not a query set, or a table is damaged.
    """
    if address(folder):
        with local_copy(folder) as local:
            return query_set_stats(local, graph, reduced)
    if reduced and graph is None:
        raise InputError("reductions are looked up in the graph of the queries, found none. Give the graph")
    header = read_query_set(folder) if graph is None else check_graph(folder, graph)
    counts = tables_of(folder)
    with duckdb.connect() as database:
        answers = {
            split: {shape: _answers(database, table_path(folder, split, shape)) for shape, count in shapes.items() if count}
            for split, shapes in counts.items()
        }
    return {
        "counts": counts,
        "answers": answers,
        "settings": header["settings"],
        "fingerprint": header["fingerprint"],
        "hubs": hub_stats(graph, header["settings"].get("hub_threshold") or THRESHOLD) if graph is not None else None,
        "reductions": _reductions(folder, graph, counts, reduced) if graph is not None and reduced else None,
    }


def _reductions(folder: Path, graph: Graph, counts: dict[str, dict[str, int]], limit: int) -> dict[str, dict[str, dict[str, int]]]:
    """Counts the listed answers of the first queries of each validation and test table by reduction class."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for split in (split for split in EASY_AND_ALL if split in counts):
        for shape, table in load_queries(folder, split, None, limit, graph).items():
            classes = Counter(reductions(graph, table, np.arange(len(table)), table.answers).classes)
            found.setdefault(split, {})[shape] = {name: classes[name] for name in sorted(classes, key=class_order)}
    return found


def _answers(database: duckdb.DuckDBPyConnection, path: Path) -> dict[str, float]:
    """Describes how many answers the queries of a table have; quartiles may lie between two values."""
    try:
        row = database.execute(
            "SELECT min(n), quantile_cont(n, [0.25, 0.5, 0.75]), max(n), avg(n) FROM (SELECT len(answers) AS n FROM read_parquet(?))",
            [str(path)],
        ).fetchall()[0]
    except duckdb.Error as error:
        raise StorageError(f"{path}: cannot read the query table ({error}). Delete it and generate again") from None
    least, (lower, median, upper), most, mean = row
    return {"min": least, "lower_quartile": lower, "median": median, "upper_quartile": upper, "max": most, "mean": mean}
