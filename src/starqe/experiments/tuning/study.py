"""The study folder: comparable trials of hyper-parameters, run by one process or by several at the same time.

    study.json           {"format": "starqe study", "version": 1, the terms: graph, queries, base, space, objective, minutes}
    journal.jsonl        every trial, in optuna's journal form
    trials/007/          recipe and metrics of a trial; of the best one, the complete run
    best.toml            the recipe of the best trial
    summary.md           the result to read, with history.png and importances.png

The journal needs no database, and its lines are appended under a lock. All locks here are the kernel's: they end with the process
that holds them, so a trial that is marked as running but not locked belongs to a process that was killed.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import optuna
from filelock import FileLock, Timeout
from optuna.pruners import MedianPruner
from optuna.samplers import TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, Trial, TrialState

from starqe import __version__
from starqe.config import known_keys
from starqe.errors import ConfigError, MismatchError, StorageError
from starqe.experiments.tuning.search_space import AUTHORS_SPACE, Space, Value, distributions, plain, value_at, with_values
from starqe.folders import check_free, new_file, read_header, write_header
from starqe.learn.config import Recipe
from starqe.measure.rows import ALL, AVERAGE
from starqe.seed import derive

FORMAT, VERSION = "starqe study", 1
HEADER, JOURNAL = "study.json", "journal.jsonl"
KEPT = ("config.toml", "metrics.jsonl")
"""The files kept of every trial; the best one keeps all but the state to resume from."""

Objective = Literal["Hits@10", "MRR", "pooled Hits@10"]
OBJECTIVES: Mapping[Objective, tuple[str, str, str]] = {
    "Hits@10": ("Hits@10", "macro", AVERAGE),
    "MRR": ("MRR", "macro", AVERAGE),
    "pooled Hits@10": ("Hits@10", "micro", ALL),
}
"""What can be maximised, as metric, average and shape of a result row. Pooled Hits@10 is what the authors maximised: over all answers
of all validation queries, whatever their shape."""
State = Literal["complete", "pruned", "failed", "cut off", "running"]


@dataclass(frozen=True)
class Terms:
    """What all trials of a study share.

    Raises:
        ConfigError: Nothing is validated, so there is no objective.
    """

    graph: str
    """The fingerprint of the graph."""
    queries: Mapping[str, int]
    """The number of queries that are used, by split and shape."""
    made: Mapping[str, Any]
    """How the query set was made: its settings."""
    base: Recipe
    """Everything outside the space; its seed also decides what is tried."""
    space: Space = field(default_factory=lambda: AUTHORS_SPACE)
    objective: Objective = "Hits@10"
    """What is maximised, a key of `OBJECTIVES`, in percent."""
    minutes: float | None = None
    """The time that a trial has; None leaves it to the epochs of the recipe."""

    def __post_init__(self) -> None:
        if not self.base.train.validation_queries:
            raise ConfigError("a search needs validation, found train.validation_queries=0. Set it to 500, for example")

    def plain(self) -> dict[str, Any]:
        """Returns the terms for JSON; the keys of the space are left out of the base."""
        sections = {key.rpartition(".")[0] for key in known_keys(Recipe)}
        outside = [key for key in known_keys(Recipe) if key not in sections and key not in self.space]
        values = {key: value_at(self.base, key) for key in outside}
        return {
            "graph": self.graph,
            "objective": self.objective,
            "minutes": self.minutes,
            "queries": dict(self.queries),
            "made": dict(self.made),
            "space": {key: plain(domain) for key, domain in self.space.items()},
            "base": {key: _in_json(value) for key, value in values.items()},
        }


@dataclass(frozen=True)
class Result:
    """The outcome of a trial."""

    trial: int
    state: State
    value: float | None
    """The objective; of a pruned trial the last one before it was stopped."""
    epochs: int
    seconds: float | None
    parameters: dict[str, Value]
    error: str | None

    @property
    def counts(self) -> bool:
        """Whether the trial is evidence about its parameters; one that was interrupted or killed is not."""
        return self.state in ("complete", "pruned", "failed")


class Study:
    """A study folder; created if it does not exist.

    Raises:
        MismatchError: The existing study has other terms.
        StorageError: The folder holds something else, is damaged, or cannot be written.
    """

    def __init__(self, folder: Path, terms: Terms) -> None:
        self.folder, self.terms = folder, terms
        self._distributions = distributions(terms.space)
        self._claim: FileLock | None = None
        self._lock = FileLock(folder / ".study.lock")
        _check_ours(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with self.alone():
                self._agree()
                (folder / "trials").mkdir(exist_ok=True)
                self._study = self._open()
        except OSError as error:
            raise StorageError(f"cannot write {folder}: {error.strerror or error}") from error

    @property
    def best(self) -> Result | None:
        """The complete trial with the highest objective, the earliest of equals."""
        complete = [result for result in self.results() if result.state == "complete" and result.value is not None]
        return max(complete, key=lambda result: (result.value, -result.trial), default=None)

    def results(self) -> list[Result]:
        """Returns all trials, in the order in which they started."""
        return [_result(trial) for trial in self._study.get_trials(deepcopy=False)]

    def run_folder(self, trial: int) -> Path:
        """Returns the folder of the run of a trial."""
        return self.folder / "trials" / f"{trial:03d}"

    def recipe(self, parameters: Mapping[str, Value]) -> Recipe:
        """Returns the whole recipe of these parameters.

        Raises:
            ConfigError: They are not valid in combination.
        """
        return with_values(self.terms.base, parameters)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Locks the study against changes by other processes."""
        with self._lock:
            yield

    def begin(self, trials: int) -> Trial | None:
        """Starts a trial, or returns None if this many are finished or running; marks those of killed processes as cut off.

        The seed and the number of a trial decide its sampler, so processes that share a study never try the same twice by accident.
        """
        with self.alone():
            self._mark_killed()
            results = self.results()
            if sum(result.counts or result.state == "running" for result in results) >= trials:
                return None
            self._study.sampler = TPESampler(seed=derive(self.terms.base.seed, f"trial {len(results)}") % 2**32)
            trial = self._study.ask(fixed_distributions=self._distributions)
            self._claim = FileLock(self._claim_path(trial.number))
            self._claim.acquire()
            return trial

    def end(self, trial: Trial, state: State, value: float | None = None, error: str | None = None) -> Result:
        """Ends a trial, and deletes what is not kept."""
        with self.alone():
            if error is not None:
                trial.set_user_attr("error", error)
            self._study.tell(trial, value, state=_STATES[state])
            if self._claim is not None:
                self._claim.release()
            self._tidy()
            return _result(self._study.get_trials(deepcopy=False)[trial.number])

    def _agree(self) -> None:
        """Writes the header, or checks that an existing one has the same terms."""
        wanted = self.terms.plain()
        if not (self.folder / HEADER).exists():
            with new_file(self.folder / HEADER, overwrite=False) as beside:
                write_header(beside, FORMAT, VERSION, {**wanted, "starqe": __version__})
        found = _flat(read_header(self.folder / HEADER, FORMAT, VERSION))
        # A study of an earlier version does not have the settings that came later, which were as they are by default now.
        later = [key for key in wanted["base"] if f"base.{key}" not in found and f"space.{key}" not in found]
        found |= {f"base.{key}": _in_json(value_at(Recipe(), key)) for key in later}
        for key in _flat(wanted) | found:
            here, recorded = _flat(wanted).get(key), found.get(key)
            if here != recorded and key not in ("format", "version", "starqe"):
                raise MismatchError(
                    f"trials of one study have the same terms: '{key}' is {_short(recorded)} in {self.folder} and {_short(here)} here. "
                    "Choose another folder, or the same terms"
                )

    def _open(self) -> optuna.Study:
        lock = FileLock(self.folder / ".journal.lock")
        path = self.folder / JOURNAL
        with lock:
            _mend(path)
        try:
            # Optuna's own locks are files that outlive a killed process, and the next one waits half a minute for them.
            storage = JournalStorage(JournalFileBackend(str(path), lock_obj=lock))  # type: ignore[arg-type]
        except (ValueError, KeyError) as error:
            raise StorageError(f"{path}: damaged ({error}). Begin a new study in another folder") from error
        return optuna.create_study(storage=storage, study_name="starqe", direction="maximize", pruner=MedianPruner(), load_if_exists=True)

    def _claim_path(self, trial: int) -> Path:
        """Returns the path of the lock that a process holds while it works on a trial."""
        return self.folder / "trials" / f".{trial:03d}.lock"

    def _mark_killed(self) -> None:
        """Marks the trials of killed processes."""
        for result in self.results():
            if result.state == "running":
                with contextlib.suppress(Timeout), FileLock(self._claim_path(result.trial)).acquire(blocking=False):
                    self._study.tell(result.trial, state=TrialState.FAIL)

    def _tidy(self) -> None:
        """Deletes all but recipe and metrics of every trial except the best, and locks that are free."""
        best = self.best
        for result in self.results():
            if result.state == "running":
                continue
            self._claim_path(result.trial).unlink(missing_ok=True)
            is_best = best is not None and result.trial == best.trial
            for path in self.run_folder(result.trial).glob("*"):
                if path.name == "state.safetensors" or not (is_best or path.name in KEPT):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()


_STATES: Mapping[State, TrialState] = {
    "complete": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
    "cut off": TrialState.FAIL,
}


def _result(trial: FrozenTrial) -> Result:
    error = trial.user_attrs.get("error")
    state: State = "running"
    if trial.state.is_finished():
        state = next(name for name, state in _STATES.items() if state == trial.state)
        state = "cut off" if state == "failed" and error is None else state
    seconds = trial.duration.total_seconds() if trial.duration and state != "cut off" else None
    value = trial.value if state in ("complete", "pruned") else None
    return Result(trial.number, state, value, len(trial.intermediate_values), seconds, dict(trial.params), error)


def _check_ours(folder: Path) -> None:
    """Checks that a folder is a study, or may become one.

    Raises:
        StorageError: It holds something else.
    """
    check_free(folder, overwrite=True)
    names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if HEADER not in names and any(not name.startswith(".") for name in names):
        raise StorageError(f"a study starts in a new or empty folder, and {folder} holds something else. Choose another folder")


def _mend(journal: Path) -> None:
    """Removes a last line that a full disk or a power failure cut off: optuna would refuse the whole journal."""
    content = journal.read_bytes() if journal.exists() else b""
    if content and not content.endswith(b"\n"):
        os.truncate(journal, content.rfind(b"\n") + 1)


def _flat(terms: Mapping[str, Any]) -> dict[str, Any]:
    """Flattens nested terms to dotted keys: ``base.train.epochs``."""
    tables = {f"{name}.{key}": value for name, table in terms.items() if isinstance(table, dict) for key, value in table.items()}
    return {**{name: value for name, value in terms.items() if not isinstance(value, dict)}, **tables}


def _in_json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _short(value: Any) -> str:
    return value[:12] if isinstance(value, str) else "not there" if value is None else str(value)
