"""Speed of query generation."""

import tempfile
from pathlib import Path
from typing import Any

from starqe.bench.measured import machine, measured
from starqe.kg import SPLITS, Graph
from starqe.queries import SHAPES, answer, generate, load_queries
from starqe.queries.layout import query_of_row


def bench_queries(graph: Graph, threads: int | None = None) -> dict[str, Any]:
    """Measures the generation of all tables of the seven shapes, and reading them back."""
    with tempfile.TemporaryDirectory() as folder:
        counts: dict[str, dict[str, int]] = {}

        def note(split: str, shape: str, count: int) -> None:
            counts.setdefault(split, {})[shape] = count

        with measured() as generating:
            generate(graph, Path(folder) / "queries", progress=note, threads=threads)
        size = sum(path.stat().st_size for path in Path(folder).rglob("*.parquet"))
        read = 0
        with measured() as reading:
            for split in counts:
                for shape in SHAPES:
                    read += len(load_queries(Path(folder) / "queries", split, [shape])[shape])
        answered, exact = _answer_exactly(graph, Path(folder) / "queries", list(counts)[-1])
        return {
            "counts": counts,
            "queries": read,
            "seconds": round(generating.seconds, 1),
            "queries_per_second": round(read / generating.seconds),
            "peak_mb": round(generating.peak_mb),
            "disk_mb": round(size / 1e6),
            "read_back_seconds": round(reading.seconds, 1),
            "exact_queries": answered,
            "exact_seconds": round(exact, 2),
            **machine(),
        }


def _answer_exactly(graph: Graph, folder: Path, split: str, wanted: int = 1000) -> tuple[int, float]:
    """Answers random queries of all shapes one by one, on all splits; returns their number, and the time after loading."""
    known = graph.known(SPLITS)
    per_shape = -(-wanted // len(SHAPES))
    tables = load_queries(folder, split, limit=per_shape)
    queries = [query_of_row(table, row, graph) for table in tables.values() for row in range(len(table))][:wanted]
    answer(known, queries[0])  # builds the indexes
    with measured() as work:
        for query in queries:
            answer(known, query)
    return len(queries), work.seconds
