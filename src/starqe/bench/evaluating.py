"""Speed of evaluation, compared with the one dense product that bounds it."""

import statistics
import time
from collections.abc import Mapping
from typing import Any

import torch

from starqe.bench.measured import machine, measured
from starqe.learn import Run
from starqe.measure.evaluate import Measure, evaluate
from starqe.queries import QueryTable

RUNS = 20


def bench_evaluate(run: Run, queries: Mapping[str, QueryTable]) -> list[dict[str, Any]]:
    """Measures evaluation by the paper's protocol, shape by shape, each interleaved with its bound."""
    scorer, settings, width = run.scorer(), Measure(), run.recipe.model.width
    left, right = torch.randn(settings.batch, width), torch.randn(len(run.graph.entities), width)
    scores = torch.empty(settings.batch, len(run.graph.entities))
    rows = []
    for shape, table in queries.items():
        bounds: list[tuple[float, float]] = []

        def product(bounds: list[tuple[float, float]] = bounds) -> None:
            start, busy = time.perf_counter(), time.process_time()
            torch.mm(left, right.T, out=scores)
            bounds.append((time.perf_counter() - start, time.process_time() - busy))

        for _ in range(RUNS // 2):
            product()
        with measured() as work:
            evaluate(scorer, {shape: table}, len(run.graph.entities), settings)
        for _ in range(RUNS // 2):
            product()
        bound, cpu_bound = (statistics.median(times) * len(table) / settings.batch for times in zip(*bounds, strict=True))
        rows.append(
            {
                "shape": shape,
                "queries": len(table),
                "threads": torch.get_num_threads(),
                "queries_per_second": round(len(table) / work.seconds),
                "share_of_bound": round(bound / work.seconds, 3),
                "cpu_share": round(cpu_bound / work.cpu_seconds, 3),
                "growth_mb": round(work.growth_mb),
                "seconds": round(work.seconds, 1),
                **machine(),
            }
        )
    return rows
