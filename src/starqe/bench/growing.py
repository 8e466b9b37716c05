"""Graphs that grow: a warm start against training anew, at the accuracy of single facts.

A share of the train statements is held out, and is what an update adds; entities that occur nowhere else are new. Time is the
processor time of the training, so that a busy machine changes little.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from starqe.ask.continuing import start_of, warm_rate
from starqe.bench.measured import machine
from starqe.kg import SPLITS, Changes, Graph, graph_of, update_graph
from starqe.learn import Trainer
from starqe.learn.lesson import Validation
from starqe.measure.links import LINKS, rank_links, some_statements
from starqe.queries.gaps import Gaps
from starqe.reason.predictor.lesson import PredictLesson
from starqe.reason.predictor.presets import recipe_of
from starqe.reason.predictor.run import PredictorRun
from starqe.reason.predictor.scorer import PredictorScorer
from starqe.seed import generator

SHARE = 0.01
"""The share of the train statements that are new."""
PART = 0.1
"""The share of the steps of training anew that a warm start may take."""


def split_off(graph: Graph, share: float = SHARE, seed: int = 0) -> tuple[Graph, Graph]:
    """Returns the graph before an update, and the train statements that the update adds."""
    train = np.flatnonzero(graph.split == 0)
    new_rows = generator(seed, "new statements").choice(train, max(1, round(share * len(train))), replace=False)
    before = np.setdiff1d(train, new_rows).tolist()
    old = graph_of((graph.statement(row) for row in before), graph.statements("valid"), graph.statements("test"))
    return old, graph_of(graph.statement(row) for row in np.sort(new_rows).tolist())


class Shortened:
    """A lesson with epochs of fewer steps (a `starqe.learn.lesson.Lesson`)."""

    def __init__(self, lesson: PredictLesson, steps: int) -> None:
        self._lesson, self.steps_per_epoch = lesson, steps
        self.per_epoch, self.validates = lesson.per_epoch * steps // lesson.steps_per_epoch, False

    def new_model(self) -> nn.Module:
        """Makes a model with its initial weights."""
        return self._lesson.new_model()

    def batches(self, epoch: int, start: int = 0) -> Iterator[Gaps]:
        """Yields the first batches of an epoch, from the given one on."""
        for _, batch in zip(range(start, self.steps_per_epoch), self._lesson.batches(epoch, start), strict=False):
            yield batch

    def shards(self, batch: Gaps, count: int) -> list[tuple[Gaps, int]]:
        """Divides a batch into parts."""
        return self._lesson.shards(batch, count)

    def loss_per_query(self, model: nn.Module, batch: Gaps, noise: torch.Generator) -> tuple[Tensor, int]:
        """Computes the mean loss of a batch, and the number of its questions."""
        return self._lesson.loss_per_query(model, batch, noise)

    def validate(self, model: nn.Module) -> Validation:  # noqa: ARG002
        """Measures nothing: the last weights are kept."""
        return {}

    def baseline(self) -> Validation:
        """Measures nothing."""
        return {}

    def memory_mb(self, weights: int) -> int:
        """Estimates the memory that training takes."""
        return self._lesson.memory_mb(weights)


def bench_update(graph: Graph, work: Path, epochs: int = 6, limit: int = 2_000, seed: int = 0) -> list[dict[str, Any]]:
    """Trains on the graph before an update, on the graph after it, and from the first model on, and compares their accuracy.

    Args:
        graph: The graph after the update; 1 % of its train statements are what is new.
        work: A folder for the models. Finished ones are used again.
        epochs: The length of both trainings from the beginning.
        limit: The number of test statements whose tail and head are asked for; answers in any split do not compete.
        seed: Decides everything that is random.
    """
    old, new = split_off(graph, seed=seed)
    after, report = update_graph(old, Changes.of([new]))
    recipe = recipe_of("one-hop").with_settings([f"seed={seed}", f"train.epochs={epochs}", "train.validation_questions=0"])
    before, _ = _trained(work / "before", recipe, old, PredictLesson)
    anew, anew_seconds = _trained(work / "anew", recipe, after, PredictLesson)
    lesson = PredictLesson(anew)
    steps = max(1, round(PART * epochs * lesson.steps_per_epoch))
    began = time.process_time()
    start = start_of(before, anew.new_predictor(), after)
    carrying = time.process_time() - began
    warm_recipe = recipe.with_settings([f"train.learning_rate={warm_rate(before)}", "train.epochs=1"])
    warm, warm_seconds = _trained(work / "warm", warm_recipe, after, lambda run: Shortened(PredictLesson(run), steps), start)
    untrained = anew.new_predictor()
    untrained.load_state_dict(dict(start.weights))
    common = {"statements": len(after), "new_statements": report.added, "new_entities": report.new_entities, **machine()}
    rows = [
        ("training anew", anew.predictor(), epochs * lesson.steps_per_epoch, anew_seconds),
        ("warm start, not trained", untrained.eval(), 0, carrying),
        ("warm start", warm.predictor(), steps, carrying + warm_seconds),
    ]
    return [
        {"model": name, "mrr": _mrr(model, after, limit), "steps": count, "cpu_seconds": round(seconds, 1)}
        | {"share_of_time": round(seconds / max(anew_seconds, 1e-9), 4), "share_of_steps": round(count / rows[0][2], 4), **common}
        for name, model, count, seconds in rows
    ]


def _trained(folder: Path, recipe: Any, graph: Graph, lesson: Any, start: Any = None) -> tuple[PredictorRun, float]:
    """Trains a predictor, or opens one that is finished; returns it with the processor time of its training."""
    if (folder / "cpu_seconds").exists():
        return PredictorRun.open(folder), float((folder / "cpu_seconds").read_text())
    run = PredictorRun.create(folder, recipe, graph, start)
    began = time.process_time()
    Trainer(run, lesson(run)).train()
    seconds = time.process_time() - began
    (folder / "cpu_seconds").write_text(str(seconds))
    return run, seconds


def _mrr(model: Any, graph: Graph, limit: int) -> float:
    """Computes the mean MRR of tails and heads of test statements, in percent: all entities compete but other answers."""
    rows = some_statements(graph, "test", limit)
    sums = rank_links(PredictorScorer(model, frozen=True), graph, rows, LINKS["ours"], SPLITS)
    found = [100 * part.estimate("MRR", "macro").value for part in sums.values()]
    return round(sum(found) / len(found), 2)
