"""Hyper-parameter search: trials are trained one after the other, and poor ones are stopped early."""

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any

import optuna
import torch
from torch import nn

from starqe.errors import ConfigError, MeasureError, QueryError, TrainingError
from starqe.experiments.tuning.study import OBJECTIVES, Objective, Study
from starqe.experiments.tuning.study_report import draw, write_summary
from starqe.kg import Graph
from starqe.learn import QueryLesson, Run, Trainer
from starqe.measure.rows import Row
from starqe.queries import QueryTable

Tables = Mapping[str, QueryTable]

Observer = Callable[[dict[str, Any]], None]
"""Called with every training report and the number of its trial, and then with the `Result` of the trial, which has a state."""

FAILURES = (ConfigError, TrainingError, MeasureError, MemoryError, torch.OutOfMemoryError)
"""Errors that end a trial and not the study: its parameters are not valid together, diverge, or need too much memory."""


def tune(
    study: Study,
    graph: Graph,
    queries: Tables,
    validation: Tables,
    trials: int,
    total_minutes: float | None = None,
    observer: Observer = lambda _: None,
) -> None:
    """Tries parameters until this number of trials of the study are finished, by this process and all others.

    Args:
        study: The study.
        graph: The graph of the study.
        queries: The training queries, by shape.
        validation: The validation queries, by shape.
        trials: The total number of trials of the study: complete, pruned or failed.
        total_minutes: No trial starts after this many minutes.
        observer: Called with every report and every result.

    Raises:
        QueryError: There are no validation queries.
        StorageError: A file cannot be written.
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
    """Trains one trial, and records its outcome."""

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
    except BaseException:  # also Ctrl-C: an interrupted trial does not count
        end("cut off")
        raise
    else:
        end("complete", value)


def _train(run: Run, queries: Tables, validation: Tables, study: Study, trial: optuna.Trial, observer: Observer) -> float:
    """Trains a run as ``starqe train`` does; returns the objective of the weights that it keeps.

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
    """A query lesson that records the objective of every validation; the model is still chosen by MRR."""

    def __init__(self, run: Run, queries: Tables, validation: Tables, objective: Objective) -> None:
        super().__init__(run, queries, validation)
        self._objective = objective
        self.values: list[float] = []

    def measure(self, model: nn.Module) -> list[Row]:
        """Ranks the answers of the validation queries."""
        rows = super().measure(model)
        key = OBJECTIVES[self._objective]
        self.values += [round(row.ours, 3) for row in rows if (row.metric, row.average, row.shape) == key and row.ours is not None]
        return rows
