"""Speed of training: the real loop, compared with the three dense products that bound it."""

import statistics
import tempfile
import time
from collections.abc import Mapping
from itertools import chain, count
from pathlib import Path
from typing import Any

import torch

from starqe.bench.measured import machine, measured
from starqe.kg import Graph
from starqe.learn import QueryLesson, Recipe, Run, Trainer
from starqe.learn.steps.losses import LOSSES
from starqe.model import SIMILARITY
from starqe.queries import QueryTable

RUNS = 20


class Bound:
    """The three products of a step alone: scores, and the gradients of both sides; preallocated."""

    def __init__(self, batch: int, entities: int, width: int) -> None:
        self._left, self._right = torch.randn(batch, width), torch.randn(entities, width)
        self._scores = torch.empty(batch, entities)
        self._left_gradient, self._right_gradient = torch.empty(batch, width), torch.empty(entities, width)
        self.flops = 3 * 2 * batch * entities * width

    def seconds(self) -> tuple[float, float]:
        """Runs the products once; returns real time and CPU time."""
        start, busy = time.perf_counter(), time.process_time()
        torch.mm(self._left, self._right.T, out=self._scores)
        torch.mm(self._scores, self._right, out=self._left_gradient)
        torch.mm(self._scores.T, self._left, out=self._right_gradient)
        return time.perf_counter() - start, time.process_time() - busy


def bench_train(graph: Graph, queries: Mapping[str, QueryTable], steps: int = 60) -> list[dict[str, Any]]:
    """Measures training for every similarity and loss, each interleaved with its bound (width 192, 3 layers, attention, batch 512)."""
    return [bench_steps(graph, queries, similarity, loss, steps) for loss in LOSSES for similarity in SIMILARITY]


def bench_steps(graph: Graph, queries: Mapping[str, QueryTable], similarity: str, loss: str, steps: int) -> dict[str, Any]:
    """Measures the steps of one similarity and loss."""
    recipe = Recipe.parse({"model": {"similarity": similarity}, "train": {"loss": loss, "validation_queries": 0, "shapes": tuple(queries)}})
    with tempfile.TemporaryDirectory() as folder, measured() as memory:
        run = Run.create(Path(folder) / "run", recipe, graph)
        trainer = Trainer(run, QueryLesson(run, queries))
        bound = Bound(recipe.train.batch, len(graph.entities), recipe.model.width)
        batches = chain.from_iterable(map(trainer.lesson.batches, count()))  # epoch after epoch
        for _ in range(3):
            trainer.step(next(batches))
            bound.seconds()
        times: list[tuple[float, float]] = []
        bounds, done = [], 0
        for number in range(steps):
            start, busy = time.perf_counter(), time.process_time()
            parts = next(batches)
            trainer.step(parts)
            times.append((time.perf_counter() - start, time.process_time() - busy))
            done += sum(len(rows) for _, rows in parts)
            if number % max(1, steps // RUNS) == 0:
                bounds.append(bound.seconds())
    middle, cpu_middle = (statistics.median(column) for column in zip(*bounds, strict=True))
    step, cpu_step = (sum(column) / len(times) for column in zip(*times, strict=True))
    return {
        "similarity": similarity,
        "loss": loss,
        "threads": torch.get_num_threads(),
        "queries_per_second": round(done / (len(times) * step)),
        "share_of_bound": round(middle / step, 3),
        "cpu_share": round(cpu_middle / cpu_step, 3),
        "bound_gflops": round(bound.flops / middle / 1e9),
        "peak_mb": round(memory.peak_mb),
        "step_ms": round(1e3 * step, 1),
        "bound_ms": round(1e3 * middle, 1),
        "steps": steps,
        **machine(),
    }
