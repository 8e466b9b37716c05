"""The training loop, which can be interrupted or killed at any moment."""

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
from starqe.learn.device import training_device
from starqe.learn.interrupt import deferred_signals
from starqe.learn.lesson import POOLED, Lesson, Validation
from starqe.learn.memory_limit import check_memory
from starqe.learn.run import RunFolder
from starqe.model.embedding import InputEmbedding
from starqe.seed import derive

REPORT_SECONDS = 5.0

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


SCHEDULES: Mapping[str, Callable[[float], float]] = {
    "constant": lambda _: 1.0,
    "cosine": lambda share: (1 + math.cos(math.pi * share)) / 2,
    "linear": lambda share: 1 - share,
}
"""The decay of the rate: share of the decay phase -> share of the maximum rate."""


def learning_rate(config: LoopConfig, progress: float) -> float:
    """Computes the rate at a share of the training: linear warm-up, then decay by the schedule."""
    if progress < config.warmup:
        return config.learning_rate * max(progress / config.warmup, 1e-3)
    share = min(1.0, (progress - config.warmup) / (1 - config.warmup))
    height = SCHEDULES[config.schedule](share)
    return config.learning_rate * (config.end_rate + (1 - config.end_rate) * height)


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
    ) -> None:
        """Prepares a training.

        Args:
            run: The folder to train into.
            lesson: What is learned.
            minutes: The time limit, validation included; the schedule follows the clock. Without it, the recipe's epochs decide.
            observer: Called with every report.
            validation_seconds: The expected duration of a validation: the last one has to end within the limit.
            memory: The bytes that the whole process may use; if left out, what it uses now and what is free on this machine.
        """
        self._clock = self._saved = self._reported = time.perf_counter()
        self._validation_seconds, self._memory = validation_seconds, memory
        self._loss = self._loss_per_query = 0.0  # the sum over the queries since the last report, and the mean up to it
        self._last_report = 0, 0.0  # queries and seconds
        self._run, self._observer = run, observer
        self._config: LoopConfig = run.recipe.train
        self._limit = 60 * minutes if minutes is not None else None
        self.lesson, self.device = lesson, training_device(run.recipe)
        self.model = lesson.new_model().to(self.device)
        self.optimizer = torch.optim.AdamW(
            _at_their_rates(self.model, self._config.embedding_rate), weight_decay=self._config.weight_decay, fused=True
        )
        self.average = lesson.new_model().to(self.device) if self._config.average else None
        self.noise = torch.Generator(self.device).manual_seed(derive(run.recipe.seed, "dropout"))
        self.counters = Counters()
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
            self._run.cut_metrics(0)
            return False
        try:
            self._restore(*state)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise StorageError(f"{self._run.folder}: the checkpoint is damaged, or of another version ({error}). Train again") from None
        return True

    def _restore(self, tensors: Mapping[str, torch.Tensor], counters: Mapping[str, Any]) -> None:
        self._run.put_into(self.model, _below(tensors, "weights"))
        if self.average is not None:
            self._run.put_into(self.average, _below(tensors, "average"))
        self.counters = Counters(**counters)
        self._run.cut_metrics(self.counters.metrics_size)
        self.noise.set_state(tensors["noise"])
        self._last_report = self.counters.queries, self.counters.seconds
        named = {name: parameter for name, parameter in self.model.named_parameters() if f"adam/{name}/step" in tensors}
        for name, parameter in named.items():
            moments = _below(tensors, f"adam/{name}")
            if any(moment.shape not in ((), parameter.shape) or not moment.is_floating_point() for moment in moments.values()):
                raise ValueError(f"adam/{name} does not fit {name}")
            self.optimizer.state[parameter] = {key: moment.to(parameter.device) for key, moment in moments.items()}

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
        with locked(self._run.folder), deferred_signals() as interrupted:
            while not (self.counters.finished or interrupted()):
                for batch in self.lesson.batches(self.counters.epoch, self.counters.step_in_epoch):
                    self.step(batch)
                    self._tick()
                    if interrupted() or self._time_is_up():
                        break
                if interrupted():
                    self.save()
                else:
                    self._end_of_epoch()
        return self.counters

    @property
    def progress(self) -> float:
        """The share of the training that is done: by the clock where there is a limit, else by steps."""
        if self._limit is not None:
            return min(1.0, self.counters.seconds / self._limit)
        return min(1.0, self.counters.step / (self._config.epochs * self.lesson.steps_per_epoch))

    def step(self, batch: Any) -> int:
        """Learns from one batch of the lesson; returns the number of its queries."""
        rate = learning_rate(self._config, self.progress)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["factor"]
        self.optimizer.zero_grad(set_to_none=True)
        loss_per_query, queries = self.lesson.loss_per_query(self.model, batch, self.noise)
        loss = float(loss_per_query.detach())
        if not math.isfinite(loss):
            raise self._diverged("loss", rate)
        loss_per_query.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.get_total_norm([parameter.grad for parameter in self.model.parameters() if parameter.grad is not None])
        if not math.isfinite(norm):
            raise self._diverged("gradient", rate)
        if self._config.clip:
            torch.nn.utils.clip_grads_with_norm_(self.model.parameters(), self._config.clip, norm)
        self.optimizer.step()
        self._follow()
        self.counters.step += 1
        self.counters.step_in_epoch += 1
        self.counters.queries += queries
        self._loss += loss * queries
        return queries

    def _diverged(self, what: str, rate: float) -> TrainingError:
        return TrainingError(
            f"the {what} is not a number at step {self.counters.step} (learning rate {rate:.2g}). The last checkpoint is intact; "
            "try a lower train.learning_rate or train.clip=1"
        )

    @torch.no_grad()
    def _follow(self) -> None:
        """Moves the average of the weights towards them; early on in larger steps, so that it forgets the beginning."""
        if self.average is None:
            return
        decay = min(self._config.average, (1 + self.counters.step) / (10 + self.counters.step))
        for mean, tensor in zip(self.average.state_dict().values(), self.model.state_dict().values(), strict=True):
            if tensor.is_floating_point():
                mean.lerp_(tensor, 1 - decay)
            else:
                mean.copy_(tensor)

    def _tick(self) -> None:
        """Checks the clock after every step, to report and to save."""
        now = self._lap()
        if now - self._reported >= REPORT_SECONDS:
            self._report()
        if now - self._saved >= self._config.checkpoint_seconds:
            self.save()

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
        self._run.add_metrics(line)
        self._observer(line)

    def _end_of_epoch(self) -> None:
        """Validates, keeps the best, reports, decides whether to stop, and saves: in this order."""
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
        counters.epoch += 1
        counters.step_in_epoch = 0
        ended = counters.epoch >= config.epochs if self._limit is None else self._time_is_up()
        counters.finished = ended or (config.patience > 0 and counters.worse >= config.patience)
        self.save()

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
        self.counters.metrics_size = self._run.metrics_size()
        tensors = {f"weights/{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors["noise"] = self.noise.get_state()
        if self.average is not None:
            tensors |= {f"average/{name}": tensor for name, tensor in self.average.state_dict().items()}
        for name, parameter in self.model.named_parameters():
            tensors |= {f"adam/{name}/{key}": value for key, value in self.optimizer.state.get(parameter, {}).items()}
        self._run.save_state(tensors, dataclasses.asdict(self.counters))
        self._saved = time.perf_counter()

    def memory_mb(self) -> int:
        """Estimates the memory that training takes beyond the program and the graph."""
        copies = 4 if self.average is None else 5  # weights, gradient, two moments; their average
        return self.lesson.memory_mb(self.model, copies)


def _at_their_rates(model: nn.Module, embedding_rate: float) -> list[dict[str, Any]]:
    """Groups the parameters by the factor of their learning rate."""
    embeddings = [module.weight for module in model.modules() if isinstance(module, InputEmbedding)]
    known = {id(parameter) for parameter in embeddings}
    others = [parameter for parameter in model.parameters() if id(parameter) not in known]
    parts = ((others, 1.0), (embeddings, embedding_rate))
    return [{"params": parameters, "factor": factor} for parameters, factor in parts if parameters]


def _below(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(f"{prefix}/"): tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}/")}
