"""The training loop, which can be interrupted or killed at any moment."""

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from starqe.errors import ConfigError, StorageError, TrainingError
from starqe.folders import locked
from starqe.learn.config import LoopConfig
from starqe.learn.device import products_as, training_device
from starqe.learn.interrupt import deferred_signals
from starqe.learn.lesson import POOLED, Lesson, Validation
from starqe.learn.memory_limit import check_memory
from starqe.learn.run import RunFolder
from starqe.learn.steps.distributed import ALONE, Processes
from starqe.learn.steps.optimizer import Optimizer, below
from starqe.learn.steps.schedule import learning_rate
from starqe.model.embedding import RowGradient
from starqe.seed import derive

REPORT_SECONDS = 5.0
SAVING_SHARE = 0.05
"""The most of the time that is spent on checkpoints: those of large tables are written less often."""

Observer = Callable[[dict[str, Any]], None]
"""Called with every report, as it is written to the metrics."""


@dataclass
class Counters:
    """The progress of a training."""

    epoch: int = 0
    step_in_epoch: int = 0
    step: int = 0
    queries: int = 0
    seconds: float = 0.0
    """Time spent in training and validation so far, over all resumptions."""
    best: float | None = None
    best_epoch: int | None = None
    reference: float | None = None
    """The last validation that was better than its predecessor by more than delta: patience counts from there."""
    worse: int = 0
    """Epochs since then."""
    metrics_size: int = 0
    finished: bool = False


class Trainer:
    """Trains the model of a lesson in a run folder."""

    def __init__(
        self,
        run: RunFolder[Any],
        lesson: Lesson[Any],
        minutes: float | None = None,
        observer: Observer = lambda _: None,
        validation_seconds: float = 0.0,
        memory: int | None = None,
        processes: Processes = ALONE,
    ) -> None:
        """Prepares a training.

        Args:
            run: The folder to train into.
            lesson: What is learned.
            minutes: The time limit, validation included; the schedule follows the clock. Without it, the recipe's epochs decide.
            observer: Called with every report.
            validation_seconds: The expected duration of a validation: the last one has to end within the limit.
            memory: The bytes that the whole process may use; if left out, what it uses now and what is free on this machine.
            processes: The processes that train together; each of them makes a trainer.

        Raises:
            ConfigError: There are more processes than shards of a batch.
        """
        if processes.count > run.recipe.train.shards:
            raise ConfigError(f"{processes.count} processes need as many shards, found train.shards={run.recipe.train.shards}. Set it")
        self._clock = self._saved = self._reported = time.perf_counter()
        self._validation_seconds, self._memory = validation_seconds, memory
        self._loss = self._loss_per_query = 0.0  # the sum over the queries since the last report, and the mean up to it
        self._last_report = 0, 0.0  # queries and seconds
        self._run, self._observer, self._processes = run, observer, processes
        self._config: LoopConfig = run.recipe.train
        self._limit = 60 * minutes if minutes is not None else None
        self.lesson, self.device = lesson, training_device(run.recipe)
        self.model = lesson.new_model().to(self.device)
        self.average = lesson.new_model().to(self.device) if self._config.average else None
        self.optimizer = Optimizer(self.model, self.average, self._config, run.recipe.seed)
        self.noise = torch.Generator(self.device)
        self.counters = Counters()
        self._least_interval = 0.0  # between two checkpoints
        if run.origin is not None:
            weights = run.weights()
            for model in filter(None, (self.model, self.average)):
                run.put_into(model, weights)

    def resume(self) -> bool:
        """Restores the last checkpoint; returns whether there was one.

        Raises:
            StorageError: It is damaged, or of another version of starqe.
        """
        if (state := self._run.load_state()) is None:
            self._cut_metrics(0)
            return False
        try:
            self._restore(*state)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise StorageError(f"{self._run.folder}: the checkpoint is damaged, or of another version ({error}). Train again") from None
        return True

    def _restore(self, tensors: Mapping[str, torch.Tensor], counters: Mapping[str, Any]) -> None:
        self._run.put_into(self.model, below(tensors, "weights"))
        if self.average is not None:
            self._run.put_into(self.average, below(tensors, "average"))
        self.optimizer.load(tensors)
        self.counters = Counters(**counters)
        self._cut_metrics(self.counters.metrics_size)
        self._last_report = self.counters.queries, self.counters.seconds

    def _cut_metrics(self, size: int) -> None:
        if self._processes.writes:
            self._run.cut_metrics(size)

    def train(self) -> Counters:
        """Trains to the end, or until the time is up; returns the final counters. The run is locked meanwhile.

        Ctrl-C and SIGTERM take effect after the current step (or validation), when a checkpoint has been written.

        Raises:
            ConfigError: Training should stop by validation, but there is no validation data.
            InputError: It does not fit into memory.
            TrainingError: The loss is not a number.
            StorageError: Another command trains or calibrates the run, or the disk refuses.
        """
        if self._config.patience and self._limit is None and not self.lesson.validates:
            raise ConfigError(
                f"train.patience={self._config.patience} stops by validation, and there is nothing to validate on. Give validation "
                "queries, or a limit in minutes, or set train.patience=0 and train.epochs"
            )
        if not self.counters.finished:
            check_memory(10**6 * self.memory_mb(), self._memory, "training", "a smaller model.width or graph")
        with self._locked(), deferred_signals() as interrupted:
            stopped = False
            while not (self.counters.finished or stopped):
                for batch in self.lesson.batches(self.counters.epoch, self.counters.step_in_epoch):
                    self.step(batch)
                    stopped, is_over = self._tick(interrupted())
                    if stopped or is_over:
                        break
                if stopped:
                    self.save()
                else:
                    self._end_of_epoch()
                    stopped = interrupted() and self._processes.count == 1
        return self.counters

    def _locked(self) -> contextlib.AbstractContextManager[None]:
        return locked(self._run.folder) if self._processes.writes else contextlib.nullcontext()

    @property
    def progress(self) -> float:
        """The share of the training that is done: by the clock where there is a limit, else by steps."""
        if self._limit is not None:
            return min(1.0, self.counters.seconds / self._limit)
        return min(1.0, self.counters.step / (self._config.epochs * self.lesson.steps_per_epoch))

    def step(self, batch: Any) -> int:
        """Learns from one batch of the lesson; returns the number of its queries."""
        rate = learning_rate(self._config, self.progress)
        self.optimizer.begin()
        with products_as(self._config.products):
            queries, loss, of_rows = self._gradients(batch)
        if not math.isfinite(loss):
            raise self._diverged("loss", rate)
        norm = self.optimizer.norm(of_rows)
        if not math.isfinite(norm):
            raise self._diverged("gradient", rate)
        self.optimizer.step(of_rows, rate, norm, self.counters.step)
        self.counters.step += 1
        self.counters.step_in_epoch += 1
        self.counters.queries += queries
        self._loss += loss * queries
        return queries

    def _gradients(self, batch: Any) -> tuple[int, float, dict[str, RowGradient]]:
        """Computes the gradients of a batch, shard by shard; returns the number of its queries, their mean loss, and those of tables.

        The statistics of batch norm, which are not learned, become the mean of what the shards make of them.
        """
        shards, processes = self.lesson.shards(batch, self._config.shards), self._processes
        queries = sum(count for _, count in shards)
        kept = [buffer for buffer in self.model.buffers() if buffer.is_floating_point()] if len(shards) > 1 else []
        before, sums = [buffer.clone() for buffer in kept], [torch.zeros_like(buffer) for buffer in kept]
        total = torch.zeros((), device=self.device)
        own = processes.shards(len(shards))
        for number in own:
            part, count = shards[number]
            self.noise.manual_seed(derive(self._run.recipe.seed, f"noise of step {self.counters.step}, shard {number}"))
            for buffer, start in zip(kept, before, strict=True):
                buffer.copy_(start)
            loss, _ = self.lesson.loss_per_query(self.model, part, self.noise)
            loss = loss if len(shards) == 1 else loss * (count / queries)
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.end_shard(len(own) == 1)
            total += loss.detach()
            for buffer, other in zip(kept, sums, strict=True):
                other += buffer / len(shards)
        of_rows = self.optimizer.end_batch()
        processes.add_up_gradients(self.optimizer.dense, [total, *sums])
        for buffer, mean in zip(kept, sums, strict=True):
            buffer.copy_(mean)
        return queries, float(total), {name: processes.add_up_rows(*found) for name, found in of_rows.items()}

    def _diverged(self, what: str, rate: float) -> TrainingError:
        return TrainingError(
            f"the {what} is not a number at step {self.counters.step} (learning rate {rate:.2g}). The last checkpoint is intact; "
            "try a lower train.learning_rate or train.clip=1"
        )

    def _tick(self, interrupted: bool = False) -> tuple[bool, bool]:
        """Checks the clock after every step, to report and to save; returns whether any process was interrupted, and if the time is up."""
        now = self._lap()
        stopped, (self.counters.seconds, is_over) = self._processes.agree(interrupted, self.counters.seconds, self._time_is_up())
        if now - self._reported >= REPORT_SECONDS:
            self._report()
        if now - self._saved >= self._config.checkpoint_seconds and now - self._saved >= self._least_interval:
            self.save()
        return stopped, bool(is_over)

    def _lap(self) -> float:
        """Adds the time since the last call: steps, validation and saving all count."""
        now = time.perf_counter()
        self.counters.seconds += now - self._clock
        self._clock = now
        return now

    def _time_is_up(self) -> bool:
        return self._limit is not None and self.counters.seconds >= self._limit - self._validation_seconds

    def _report(self, **more: Any) -> None:
        self._reported = time.perf_counter()
        queries, seconds = self.counters.queries - self._last_report[0], self.counters.seconds - self._last_report[1]
        self._last_report = self.counters.queries, self.counters.seconds
        self._loss_per_query = self._loss / queries if queries else self._loss_per_query
        self._loss = 0.0
        line = {
            "epoch": self.counters.epoch,
            "step": self.counters.step,
            "queries": self.counters.queries,
            "seconds": round(self.counters.seconds, 2),
            "progress": round(self.progress, 4),
            "loss_per_query": self._loss_per_query,
            "learning_rate": learning_rate(self._config, self.progress),
            "queries_per_second": round(queries / seconds, 1) if seconds else None,
            **more,
        }
        if self._processes.writes:
            self._run.add_metrics(line)
            self._observer(line)

    def _end_of_epoch(self) -> None:
        """Validates, keeps the best, reports, decides whether to stop, and saves: in this order."""
        counters, config = self.counters, self._config
        self.optimizer.settle(counters.step)
        if self._processes.writes:
            self._choose()
        counters.epoch += 1
        counters.step_in_epoch = 0
        ended = counters.epoch >= config.epochs if self._limit is None else self._time_is_up()
        ended = ended or (config.patience > 0 and counters.worse >= config.patience)
        _, (counters.seconds, is_last) = self._processes.agree(False, counters.seconds, ended)
        counters.finished = bool(is_last)
        self.save()

    def _choose(self) -> None:
        """Validates, keeps the model if it is the best so far, and reports."""
        counters, config = self.counters, self._config
        score, found = self._validate()
        better = score is None or counters.best is None or score > counters.best
        gained = score is None or counters.reference is None or score > counters.reference * (1 + config.delta)
        if gained if config.keep == "gained" else better:
            counters.best, counters.best_epoch = score, counters.epoch
            self._run.save_weights(self.best_guess.state_dict())
        if gained:
            counters.reference, counters.worse = score, 0
        else:
            counters.worse += 1
        best = {name.replace("validation", "best"): value for name, value in self.best_validation.items()}
        self._report(**({"validation": found, "validation_mrr": found["average"], **best} if found else {"validation": None}))

    @property
    def best_validation(self) -> dict[str, float | None]:
        """The validation of the weights that are kept, by its name: MRR, or Hits@10 if they are chosen by that."""
        by_hits = getattr(self._config, "choose_by", "MRR") == POOLED
        return {"validation_mrr": None, "validation_hits": self.counters.best} if by_hits else {"validation_mrr": self.counters.best}

    @property
    def best_guess(self) -> nn.Module:
        """The current model: the average of the weights, if one is kept."""
        return self.model if self.average is None else self.average

    def _validate(self) -> tuple[float | None, Validation]:
        """Returns the score that models are chosen by, if the lesson measures it, and the whole validation."""
        start = self._lap()
        found = self.lesson.validate(self.best_guess.eval())
        self.model.train()
        self._validation_seconds = self._lap() - start
        return found.get(POOLED, found.get("average")), found

    def save(self) -> None:
        """Writes a checkpoint."""
        started = time.perf_counter()
        if self._processes.writes:
            self.counters.metrics_size = self._run.metrics_size()
            tensors = {f"weights/{name}": tensor for name, tensor in self.model.state_dict().items()}
            if self.average is not None:
                tensors |= {f"average/{name}": tensor for name, tensor in self.average.state_dict().items()}
            self._run.save_state({**tensors, **self.optimizer.state()}, dataclasses.asdict(self.counters))
        self._saved = time.perf_counter()
        if self._config.checkpoint_seconds:
            self._least_interval = (self._saved - started) / SAVING_SHARE

    def memory_mb(self) -> int:
        """Estimates the memory that training takes beyond the program and the graph."""
        copies = 4 if self.average is None else 5  # weights, gradient, two moments; their average
        weights = sum(4 * weight.numel() for weight in self.optimizer.dense) * copies
        for rows in self.optimizer.tables.values():
            weights += len(rows.table) * (2 * rows.table.shape[1] * (copies - 3) + 8)
        return self.lesson.memory_mb(weights)
