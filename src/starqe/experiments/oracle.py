"""The paper's Oracle rows."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from starqe.errors import InputError
from starqe.kg import SPLITS, Graph, embedded_graph, load_graph
from starqe.measure.oracle import SOURCES, oracle
from starqe.measure.paper import beside_paper
from starqe.measure.rows import Row
from starqe.queries import SHAPES, generate, load_queries


def oracle_table(graph_folder: Path | None, query_folder: Path | None, sources: Sequence[str]) -> list[Row]:
    """Computes the oracle on the test queries, for each source of frequencies, shape by shape to bound the memory.

    Without folders it uses the embedded graph and generates its queries.

    Raises:
        InputError: A source is unknown, or a graph is given without its queries.
    """
    if unknown := set(sources) - SOURCES.keys():
        raise InputError(f"sources are {', '.join(SOURCES)}; found '{unknown.pop()}'")
    if (graph_folder is None) != (query_folder is None):
        raise InputError("give --graph and --queries together, or neither for the embedded graph")
    if graph_folder is not None and query_folder is not None:
        return _rows(load_graph(graph_folder), query_folder, sources)
    graph = embedded_graph()
    with tempfile.TemporaryDirectory() as folder:
        generate(graph, Path(folder) / "queries")
        return _rows(graph, Path(folder) / "queries", sources)


def _rows(graph: Graph, folder: Path, sources: Sequence[str]) -> list[Row]:
    rows: list[Row] = []
    for shape in SHAPES:
        tables = {split: load_queries(folder, split, [shape], graph=graph) for split in SPLITS}
        for source in sources:
            found = oracle(tables, len(graph.entities), source, replicates=0)
            rows += [row for row in found if row["shape"] == shape]
    return beside_paper(rows, "results", graph.fingerprint)
