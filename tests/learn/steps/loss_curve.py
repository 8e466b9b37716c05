"""Trains some steps and prints the loss of each as JSON: ``python -m tests.learn.steps.loss_curve KIND FOLDER STEPS SETTING...``.

Alone, or as one of several processes, which ``torchrun`` would start.
"""

import json
import sys
from itertools import chain, count
from pathlib import Path
from typing import Any

from starqe.learn import QueryLesson, Recipe, Run, Trainer
from starqe.learn.steps.distributed import Processes, joined
from starqe.queries import SHAPES, sample
from starqe.reason.predictor.config import PredictorRecipe
from starqe.reason.predictor.lesson import PredictLesson
from starqe.reason.predictor.presets import recipe_of
from starqe.reason.predictor.run import PredictorRun
from tests.learn.conftest import TINY, small_graph


def trainer_of(kind: str, folder: Path, settings: list[str], processes: Processes) -> Trainer:
    """Makes the trainer of one process, in a folder of its own."""
    graph, run = small_graph(), None
    if kind == "predictor":
        recipe = recipe_of("one-hop").with_settings(["model.width=16", "train.batch=32", *settings])
        assert isinstance(recipe, PredictorRecipe)
        run = PredictorRun.create(folder, recipe, graph)
        return Trainer(run, PredictLesson(run), processes=processes)
    tables = {name: sample(graph, shape, 60, "train", [(0, 2)] * len(shape.edges)) for name, shape in SHAPES.items()}
    encoder = Run.create(folder, Recipe().with_settings([*TINY, "train.validation_queries=0", *settings]), graph)
    return Trainer(encoder, QueryLesson(encoder, tables), processes=processes)


def losses(trainer: Trainer, steps: int) -> list[float]:
    """Trains some steps; returns the mean loss per query of each."""
    batches = chain.from_iterable(map(trainer.lesson.batches, count()))
    found: list[float] = []
    gradients: Any = trainer._gradients

    def noted(batch: Any) -> Any:
        computed = gradients(batch)
        found.append(computed[1])
        return computed

    trainer._gradients = noted  # type: ignore[method-assign]
    for _ in range(steps):
        trainer.step(next(batches))
    return found


if __name__ == "__main__":
    kind, folder, steps, *settings = sys.argv[1:]
    with joined() as processes:
        found = losses(trainer_of(kind, Path(folder) / str(processes.rank), settings, processes), int(steps))
        if processes.writes:
            print(json.dumps(found))
