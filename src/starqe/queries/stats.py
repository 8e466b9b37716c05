"""Statistics of a query set: numbers of queries and of answers."""

from pathlib import Path
from typing import Any

import duckdb

from starqe.errors import StorageError
from starqe.kg import Graph
from starqe.queries.generate.hubs import THRESHOLD, hub_stats
from starqe.queries.query_set import check_graph, read_query_set, table_path, tables_of


def query_set_stats(folder: Path, graph: Graph | None = None) -> dict[str, Any]:
    """Counts the queries of a set and describes their numbers of answers, by split and shape.

    Args:
        folder: A query set.
        graph: Its graph; if given, the figures on hubs are added.

    Returns:
        ``counts`` (split -> shape -> queries), ``answers`` (split -> shape -> min, lower_quartile, median, upper_quartile,
        max, mean; a table without queries has none), ``settings``, ``fingerprint``, and ``hubs`` (None without a graph).

    Raises:
        MismatchError: The queries are of another graph.
        StorageError: The folder is not a query set, or a table is damaged.
    """
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
    }


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
