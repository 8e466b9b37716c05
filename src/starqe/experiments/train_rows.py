"""Trains the missing models of a table, each for its share of the budget."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from starqe import __version__
from starqe.errors import InputError, MeasureError, QueryError, TrainingError, UnsupportedError
from starqe.experiments.regimes import REGIMES, ROWS, regime_recipe
from starqe.experiments.work_folder import WorkFolder, read_json, write_json
from starqe.learn import Lesson, QueryLesson, Recipe, Run, RunFolder, Trainer
from starqe.learn.config import TrainConfig
from starqe.learn.run import HEADER
from starqe.queries import load_queries, tables_of

RECORD = "trained.json"
"""The file that marks a run whose training is finished."""
OF_ITS_OWN = (QueryError, TrainingError, MeasureError, UnsupportedError)
"""Errors that concern one row, so that the others continue. Any other error (a full disk, a damaged file) ends the command."""
TELL_SECONDS = 30.0
"""Minimum number of seconds between two reports of epochs."""

Job = tuple[str, int]
"""A regime and a seed."""


def shares(budget: float, weights: Mapping[Job, float]) -> dict[Job, float]:
    """Divides minutes by weight."""
    whole = sum(weights.values())
    return {job: budget * weight / whole for job, weight in weights.items()}


def finished(work: WorkFolder, job: Job) -> dict[str, Any] | None:
    """Returns the record of a finished training, or None.

    Raises:
        ConfigError: The existing run has another recipe.
        StorageError: The record or the run is damaged.
    """
    folder = work.run_folder(*job)
    if (folder / HEADER).exists():
        Run.open(folder, work.graph).check_recipe(row_recipe(work, job), "Delete that folder, or choose another one for the tables")
    record: dict[str, Any] | None = read_json(folder / RECORD) if (folder / RECORD).exists() else None
    return record


def plan(work: WorkFolder, table: str) -> dict[Job, float | None]:
    """Returns the training time of each missing model of a table; None leaves it to the recipe.

    The first call with a budget divides it among the missing models, and later calls with the same budget keep that plan: so
    an interrupted table takes as long in total as an uninterrupted one.

    Raises:
        InputError: A wanted row is not in the table.
    """
    jobs = [(regime, seed) for regime in _wanted(work, table) for seed in work.seeds]
    missing = [job for job in jobs if finished(work, job) is None]
    if not work.settings.budget or not missing:
        return dict.fromkeys(missing)
    path = work.folder / table / "plan.json"
    kept = read_json(path) if path.exists() else {}
    minutes = kept.get("minutes", {})
    if kept.get("budget") != work.settings.budget or any(_name(job) not in minutes for job in missing):
        divided = shares(work.settings.budget, {job: REGIMES[job[0]].weight for job in missing})
        minutes = {_name(job): share for job, share in divided.items()}
        write_json(path, {"budget": work.settings.budget, "minutes": minutes})
    return {job: minutes[_name(job)] for job in missing}


def _wanted(work: WorkFolder, table: str) -> list[str]:
    """Returns the regimes of the wanted rows, each once, in the order in which they are wanted."""
    trained = ROWS[table]
    if unknown := [name for name in work.settings.rows if name not in trained]:
        raise InputError(f"the rows of '{table}' that are trained are {', '.join(trained)}; found '{unknown[0]}'")
    return list(dict.fromkeys(trained[name] for name in work.settings.rows or trained))


def train_missing(work: WorkFolder, table: str) -> dict[Job, str]:
    """Trains every missing model of a table; returns why some are still missing.

    A row that fails for a reason of its own (no queries of a shape, a loss that is not a number) is left out, and the others continue.
    """
    planned = plan(work, table)
    if not planned:
        return {}
    if work.settings.budget == 0:
        return dict.fromkeys(planned, "the budget is 0")
    if work.settings.budget is not None:
        parts = ", ".join(f"{_name(job)} {minutes:.3g}" for job, minutes in planned.items())
        work.tell(f"a budget of {work.settings.budget:g} minutes of training: {parts}")
    reasons = {}
    for place, (job, minutes) in enumerate(planned.items()):
        left = _left(list(planned.values())[place:])
        work.tell(f"{_name(job)}: training, {place + 1} of {len(planned)}{left}")
        try:
            record = _train(work, job, minutes)
        except OF_ITS_OWN as error:
            reasons[job] = str(error)
            work.tell(f"{_name(job)}: not run: {error}")
            continue
        best = f", validation MRR {record['validation_mrr']:.2f}" if record["validation_mrr"] is not None else ""
        best = f", validation Hits@10 {record['validation_hits']:.2f}" if record.get("validation_hits") is not None else best
        work.tell(f"{_name(job)}: {record['queries']:,} queries in {record['minutes']:.3g} minutes{best}")
    return reasons


def unequal(work: WorkFolder, table: str) -> list[str]:
    """Describes which rows of a table were trained for other shares of time than their weights, in one sentence or none.

    The tables of a folder share models, so one may come from a smaller budget.
    """
    weights = {(regime, seed): REGIMES[regime].weight for regime in ROWS[table].values() for seed in work.seeds}
    granted = {job: record.get("granted") for job in weights if (record := finished(work, job)) is not None}
    times = {job: None if minutes is None else minutes / weights[job] for job, minutes in granted.items()}
    given = [time for time in times.values() if time is not None]
    if not given or (len(given) == len(times) and max(given) < 1.1 * min(given)):
        return []
    parts = ", ".join(f"{_name(job)} {'to its end' if minutes is None else f'{minutes:.3g} minutes'}" for job, minutes in granted.items())
    return [
        f"The rows were not trained for equal times ({parts}), which adds to their differences. Delete a folder in runs/ to train it again."
    ]


def _train(work: WorkFolder, job: Job, minutes: float | None) -> dict[str, Any]:
    """Trains one encoder, from its last checkpoint if there is one, and records that it is finished."""
    run = Run.open_or_create(work.run_folder(*job), row_recipe(work, job), work.graph)
    config, available = run.recipe.train, tables_of(work.queries)
    shapes = [shape for shape in config.shapes if shape in available.get("train", {})]
    tables = load_queries(work.queries, "train", shapes, config.pool_per_shape, work.graph)
    judged = [shape for shape in config.shapes if shape in available.get("valid", {})]
    validation = load_queries(work.queries, "valid", judged, config.validation_queries, work.graph) if judged else {}
    lesson = QueryLesson(run, tables, validation)
    sizes = {shape: available["train"][shape] for shape in shapes}
    return train_to_the_end(work, run, lesson, minutes, lambda queries: {"passes": passes(config, sizes, queries / lesson.per_epoch)})


def passes(config: TrainConfig, sizes: Mapping[str, int], epochs: float) -> dict[str, float]:
    """Computes how often a training saw the queries of each pool that it draws from, on average: an epoch has some of a large one."""
    pools = {shape: min(size, config.pool_per_shape) for shape, size in sizes.items()}
    return {shape: round(epochs * min(1.0, config.queries_per_shape / pool), 2) for shape, pool in pools.items()}


def train_to_the_end(
    work: WorkFolder,
    run: RunFolder[Any],
    lesson: Lesson[Any],
    minutes: float | None,
    more: Callable[[int], dict[str, Any]] = lambda _: {},
) -> dict[str, Any]:
    """Trains a run, from its last checkpoint if there is one, and writes the record that it is finished.

    Args:
        work: The folder.
        run: The run to train.
        lesson: What it learns.
        minutes: Its time; None leaves it to the recipe.
        more: Further entries of the record, as a function of the number of queries seen.
    """
    # Where patience ends a training, its length is not known in advance.
    foreseen = minutes is not None or not run.recipe.train.patience
    trainer = Trainer(run, lesson, minutes, _Epochs(work, foreseen).note)
    trainer.resume()
    counters = trainer.train()
    record = {
        "minutes": counters.seconds / 60,
        "queries": counters.queries,
        "epochs": counters.epoch,
        "best_epoch": counters.best_epoch,
        **trainer.best_validation,
        "granted": minutes,
        "starqe": __version__,
        "threads": torch.get_num_threads(),
        "device": str(trainer.device),
        **more(counters.queries),
    }
    write_json(run.folder / RECORD, record)
    return record


class _Epochs:
    """Reports epochs from time to time."""

    def __init__(self, work: WorkFolder, foreseen: bool) -> None:
        self._work, self._foreseen, self._reported = work, foreseen, time.monotonic()

    def note(self, line: dict[str, Any]) -> None:
        if line.get("validation") and time.monotonic() - self._reported >= TELL_SECONDS:
            self._reported = time.monotonic()
            minutes = line["seconds"] / 60
            left = f", about {minutes / line['progress'] - minutes:.1f} left" if line["progress"] and self._foreseen else ""
            self._work.tell(f"  epoch {line['epoch']}: {minutes:.1f} minutes{left}, validation MRR {line['validation_mrr']:.2f}")


def row_recipe(work: WorkFolder, job: Job) -> Recipe:
    """Returns the recipe of a model in this folder."""
    settings = work.settings
    recipe = regime_recipe(*job, as_published=settings.as_published, tiny=work.tiny, as_authors_ran=settings.as_run)
    return recipe.replace(train={"epochs": settings.epochs}) if settings.epochs else recipe


def _left(minutes: Sequence[float | None]) -> str:
    known = [part for part in minutes if part is not None]
    return f"; about {sum(known):.3g} minutes left" if len(known) == len(minutes) else ""


def _name(job: Job) -> str:
    return f"{job[0]}-{job[1]}"
