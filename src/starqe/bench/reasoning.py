"""Speed of reasoning, and the value of a wider beam: the executor shape by shape, time and quality."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from starqe.bench.measured import fastest, machine, measured
from starqe.measure.evaluate import Measure, evaluate
from starqe.queries import QueryTable
from starqe.queries.exact.answering import answer_rows
from starqe.queries.gaps import Gaps
from starqe.ragged import IntArray
from starqe.reason.executor.executor import Executor
from starqe.reason.executor.messages import least_of_best
from starqe.reason.executor.truth import Bounded, Retrieving
from starqe.reason.listed import Listed
from starqe.reason.mixture import Mixture
from starqe.reason.reasoner import Reasoner

CLOCKS = (time.perf_counter, time.process_time)
"""Real time, and the time of the process on all cores, which a busy machine changes least."""


class _Watched:
    """An executor that counts its predictions, and the queries whose best predicted answers are exact beyond doubt."""

    def __init__(self, reasoner: Reasoner, beam: int, every: bool) -> None:
        one = reasoner.executor(["train"])
        settings = reasoner.settings.model_copy(update={"beam": beam})
        self._one_hop, self.wanted = one.one_hop, settings.settled
        self.every, self.predictions, self.exact, self.asked = every, 0, 0, 0
        self._executor = Executor(one.known, self, settings)
        self._mixture = Mixture(reasoner.encoder, self._executor, reasoner.weights)

    def probabilities(self, gaps: Gaps, out: Tensor) -> Tensor:
        """Predicts, and counts."""
        self.predictions += len(gaps)
        return self._one_hop.probabilities(gaps, out)

    def best(self, gaps: Gaps, count: int) -> list[Listed]:
        """Predicts the most probable entities, and counts."""
        self.predictions += len(gaps)
        if isinstance(self._one_hop, Retrieving):
            return self._one_hop.best(gaps, count)
        return [Listed(row) for row in self._one_hop.probabilities(gaps, torch.empty(len(gaps), len(self._executor.known.graph.entities)))]

    def ceilings(self, gaps: Gaps) -> Tensor:
        """Returns the bounds of the predictor."""
        return self._one_hop.ceilings(gaps) if isinstance(self._one_hop, Bounded) else torch.ones(len(gaps))

    def scores(self, table: QueryTable, rows: IntArray, out: Tensor) -> Tensor:
        """Reasons as the executor does in an evaluation; ``every``: with a prediction for every candidate of the beam."""
        found = self._executor.truths(table, rows, out, wanted=0 if self.every else self.wanted)
        self.asked += len(rows)
        self.exact += int((found.slack <= least_of_best(found.values.clone(), self.wanted)).sum())
        return found.values

    def mixture_exact(self, table: QueryTable, batch: int) -> float:
        """Returns the share of queries whose best answer by the mixture, besides those that train entails, is certain."""
        exact = 0
        for start in range(0, len(table), batch):
            rows = np.arange(start, min(start + batch, len(table)))
            known = answer_rows(self._executor.known, table, rows)
            best = self._mixture.best([(table, rows)], 1, [known[place] for place in range(len(rows))])
            exact += int(best.exact.sum())
        return exact / max(len(table), 1)


def bench_reason(
    reasoner: Reasoner, queries: Mapping[str, QueryTable], beams: Sequence[int], batch: int = 64, *, every: bool = False
) -> list[dict[str, Any]]:
    """Measures the executor for every shape and beam; it knows train only, and its answers are ranked by the protocol strict.

    Each is compared with the dense products of the predictions that were made, measured before and after it.

    Args:
        reasoner: What predicts.
        queries: Test queries, by shape.
        beams: Numbers of candidates kept per inner variable. Shapes without inner variables are measured once.
        batch: Number of queries per batch.
        every: Also measure predictions for every candidate of the beam, without stopping when they cannot change the answer.
    """
    rows = []
    settings, timed = (Measure.parse({"protocol": name, "batch": batch, "replicates": 0}) for name in ("strict", "paper"))
    entities = len(reasoner.graph.entities)
    for shape, table in queries.items():
        inner = bool(table.shape.of_kind("variable"))
        for beam, all_of_them in product(beams if inner else beams[:1], (True, False) if every and inner else (False,)):
            executor = _Watched(reasoner, beam, all_of_them)
            evaluate(executor, {shape: table.take(range(min(batch, len(table))))}, entities, timed)  # indexes are built on first use
            executor.predictions = 0
            bounds, cpu_bounds = ([_seconds_of_products(entities, clock)] for clock in CLOCKS)
            with measured() as work:
                evaluate(executor, {shape: table}, entities, timed)  # looks up no exact answers, as strict does
            for times, clock in zip((bounds, cpu_bounds), CLOCKS, strict=True):
                times.append(_seconds_of_products(entities, clock))
            predictions, executor.asked, executor.exact = executor.predictions, 0, 0
            found = evaluate(executor, {shape: table}, entities, settings, graph=reasoner.graph)
            mrr = next(row.ours for row in found if (row.shape, row.metric, row.average) == (shape, "MRR", "macro"))
            rows.append(
                {
                    "shape": shape,
                    "beam": beam,
                    "every": all_of_them,
                    "queries": len(table),
                    "threads": torch.get_num_threads(),
                    "queries_per_second": round(len(table) / work.seconds, 1),
                    "cpu_ms": round(1e3 * work.cpu_seconds / len(table), 2),
                    "predictions": round(predictions / len(table), 1),
                    "share_of_bound": round(predictions * statistics.mean(bounds) / work.seconds, 3),
                    "cpu_share": round(predictions * statistics.mean(cpu_bounds) / work.cpu_seconds, 3),
                    "exact_share": round(executor.exact / max(executor.asked, 1), 3),
                    "mixture_exact_share": round(executor.mixture_exact(table, batch), 3),
                    "mrr": None if mrr is None else round(mrr, 2),
                    "growth_mb": round(work.growth_mb),
                    "peak_mb": round(work.peak_mb),
                    **machine(),
                }
            )
    return rows


def _seconds_of_products(entities: int, clock: Callable[[], float], vectors: int = 128, width: int = 192) -> float:
    """Measures the dense product for one prediction among many."""
    left, right, out = torch.randn(vectors, width), torch.randn(entities, width), torch.empty(vectors, entities)
    return fastest(lambda: torch.mm(left, right.T, out=out), 3, clock) / vectors


def plot_beams(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Plots MRR over queries per second: one line per shape, one point per beam."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for shape in dict.fromkeys(row["shape"] for row in rows):
        of_shape = [row for row in rows if row["shape"] == shape and not row.get("every")]
        if len(of_shape) < 2:
            continue
        axes.plot([row["queries_per_second"] for row in of_shape], [row["mrr"] for row in of_shape], marker="o", label=shape)
        for row in of_shape:
            axes.annotate(str(row["beam"]), (row["queries_per_second"], row["mrr"]), textcoords="offset points", xytext=(4, 4), fontsize=8)
    axes.set_xscale("log")
    axes.set_xlabel("queries per second (log scale); the number at a point is the beam")
    axes.set_ylabel("MRR, macro, protocol strict (%)")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
