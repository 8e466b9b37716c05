"""The search of hyper-parameters: trials are trained one after the other, and hopeless ones are stopped early."""

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

import optuna
import torch
from torch import nn

from starqe.errors import ConfigError, MeasureError, QueryError, TrainingError
from starqe.experiments.study import Objective, Study
from starqe.experiments.study_report import draw, write_summary
from starqe.kg import Graph
from starqe.learn import QueryLesson, Run, Trainer
from starqe.measure.rows import AVERAGE, Row
from starqe.queries import QueryTable

Tables = Mapping[str, QueryTable]

Observer = Callable[[dict[str, Any]], None]
"""Told of every report of a training, with the number of its trial, and then of the `Result` of the trial, which has a state."""

FAILURES = (ConfigError, TrainingError, MeasureError, MemoryError, torch.OutOfMemoryError)
"""What ends a trial and not the study: its parameters do not go together, do not train, or do not fit into memory."""


def tune(
    study: Study,
    graph: Graph,
    queries: Tables,
    validation: Tables,
    trials: int,
    total_minutes: float | None = None,
    observer: Observer = lambda _: None,
) -> None:
    """Tries parameters until so many trials of the study are finished, by this process and all others.

    Args:
        study: Where the trials are kept.
        graph: The graph of the study.
        queries: What is trained on, by shape.
        validation: What the objective is measured on, by shape.
        trials: How many trials the study is to have in all: complete, pruned or failed ones.
        total_minutes: No trial is begun after so long.
        observer: Is told of every report and every result.

    Raises:
        QueryError: There are no validation queries.
        StorageError: The disk refuses.
    """
    if not any(len(table) for table in validation.values()):
        raise QueryError("a search needs validation queries of the shapes that are trained, found none. Generate the split valid")
    start = time.monotonic()
    try:
        while total_minutes is None or time.monotonic() - start < 60 * total_minutes:
            if (trial := study.begin(trials)) is None:
                break
            _try(study, trial, graph, queries, validation, observer)
    finally:
        draw(study)


def _try(study: Study, trial: optuna.Trial, graph: Graph, queries: Tables, validation: Tables, observer: Observer) -> None:
    """Trains one trial to its end, whatever that is, and writes down what became of it."""

    def end(*outcome: Any) -> None:
        with study.alone():
            result = study.end(trial, *outcome)
            write_summary(study)
        observer(dataclasses.asdict(result))

    try:
        run = Run.create(study.run_folder(trial.number), study.recipe(trial.params), graph)
        value = _train(run, queries, validation, study, trial, observer)
    except optuna.TrialPruned:
        end("pruned")
    except FAILURES as error:
        end("failed", None, str(error) or type(error).__name__)
    except BaseException:  # also Ctrl-C: the trial says nothing of its parameters, and does not count
        end("cut off")
        raise
    else:
        end("complete", value)


def _train(run: Run, queries: Tables, validation: Tables, study: Study, trial: optuna.Trial, observer: Observer) -> float:
    """Trains a run as ``starqe train`` does; gives the objective of the weights that it keeps.

    Raises:
        TrialPruned: After the same number of epochs, half of the complete trials were better.
    """
    lesson = _ObservedLesson(run, queries, validation, study.terms.objective)

    def observe(line: dict[str, Any]) -> None:
        validated = bool(line.get("validation"))
        observer({"trial": trial.number, **line, **({"objective": lesson.values[-1]} if validated else {})})
        if validated:
            trial.report(lesson.values[-1], line["epoch"])
            if trial.should_prune():
                raise optuna.TrialPruned

    counters = Trainer(run, lesson, study.terms.minutes, observe).train()
    assert counters.best_epoch is not None, "every epoch ends with a validation"
    return lesson.values[counters.best_epoch]


class _ObservedLesson(QueryLesson):
    """Teaches as ever, and notes the objective of every validation; models are still chosen as in all training, by MRR."""

    def __init__(self, run: Run, queries: Tables, validation: Tables, objective: Objective) -> None:
        super().__init__(run, queries, validation)
        self._objective = objective
        self.values: list[float] = []

    def measure(self, model: nn.Module) -> list[Row]:
        """Ranks the answers of the validation queries."""
        rows = super().measure(model)
        key = self._objective, "macro", AVERAGE
        self.values += [round(row["ours"], 3) for row in rows if (row["metric"], row["average"], row["shape"]) == key]
        return rows
