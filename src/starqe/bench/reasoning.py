"""Speed of reasoning, and the value of a wider beam: the executor shape by shape, time and quality."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from starqe.bench.measured import machine, measured
from starqe.measure.evaluate import Measure, evaluate
from starqe.queries import QueryTable
from starqe.reason.executor.executor import Executor
from starqe.reason.reasoner import Reasoner


def bench_reason(reasoner: Reasoner, queries: Mapping[str, QueryTable], beams: Sequence[int], batch: int = 64) -> list[dict[str, Any]]:
    """Measures the executor for every shape and beam; it knows train only, and its answers are ranked by the protocol strict.

    Args:
        reasoner: What predicts.
        queries: Test queries, by shape.
        beams: Numbers of candidates kept per inner variable. Shapes without inner variables are measured once.
        batch: Number of queries per batch.
    """
    rows = []
    settings, timed = (Measure.parse({"protocol": name, "batch": batch, "replicates": 0}) for name in ("strict", "paper"))
    for shape, table in queries.items():
        for beam in beams if table.shape.of_kind("variable") else beams[:1]:
            one = reasoner.executor(["train"])
            executor = Executor(one.known, one.one_hop, reasoner.settings.model_copy(update={"beam": beam}))
            entities = len(reasoner.graph.entities)
            evaluate(executor, {shape: table.take(range(min(batch, len(table))))}, entities, timed)  # indexes are built on first use
            with measured() as work:
                evaluate(executor, {shape: table}, entities, timed)  # looks up no exact answers, as strict does
            found = evaluate(executor, {shape: table}, entities, settings, graph=reasoner.graph)
            mrr = next(row.ours for row in found if (row.shape, row.metric, row.average) == (shape, "MRR", "macro"))
            rows.append(
                {
                    "shape": shape,
                    "beam": beam,
                    "queries": len(table),
                    "threads": torch.get_num_threads(),
                    "queries_per_second": round(len(table) / work.seconds, 1),
                    "mrr": None if mrr is None else round(mrr, 2),
                    "growth_mb": round(work.growth_mb),
                    "peak_mb": round(work.peak_mb),
                    **machine(),
                }
            )
    return rows


def plot_beams(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Plots MRR over queries per second: one line per shape, one point per beam."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for shape in dict.fromkeys(row["shape"] for row in rows):
        of_shape = [row for row in rows if row["shape"] == shape]
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
