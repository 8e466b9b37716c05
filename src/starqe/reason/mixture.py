"""The mixture of the encoder, which scores a whole query, and the executor, which derives answers edge by edge.

Both become logarithms (of the softmax over all entities, and of the truth), and are added with weights: one weight per class of
shapes, fitted on validation queries (`starqe.reason.calibration`), so that shapes never seen in validation have a weight too.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor

from starqe.deadline import NEVER, Deadline
from starqe.errors import StorageError
from starqe.learn.training_queries import Part
from starqe.measure.evaluate import Scorer
from starqe.queries import QueryTable, Shape
from starqe.queries.shape import TARGET
from starqe.ragged import IntArray
from starqe.reason.predictor.one_hop import log_share

CLASSES = ("one-hop", "path", "intersection", "larger intersection", "mixed", "union", "negation", "open value")
"""The classes of shapes; see `shape_class`."""
FIRST_CLASSES = CLASSES[:5]
"""The classes of calibrations of earlier versions, which have the weight of "mixed" for all others."""
_LEAST = 1e-12  # a truth of 0 has no logarithm


def shape_class(shape: Shape) -> str:
    """Returns the class of a shape.

    One edge is a one-hop; two edges that join an anchor with the target are an intersection, three or more a larger one; edges one
    after the other are a path; the rest (and every cycle) is mixed. The directions of the edges do not matter. A shape with a negated
    part is a negation, one with alternatives a union, and one with a variable as qualifier value has an open value.
    """
    if shape.tree is not None:
        return "negation" if shape.negated else "union"
    if shape.slots:
        return "open value"
    if len(shape.edges) == 1:
        return "one-hop"
    if not shape.of_kind("variable"):
        return "intersection" if len(shape.edges) == 2 else "larger intersection"
    ends = [node for edge in shape.edges for node in edge]
    return "path" if len(shape.nodes) == len(shape.edges) + 1 and max(map(ends.count, ends)) <= 2 and ends.count(TARGET) == 1 else "mixed"


@dataclass(frozen=True)
class Weights:
    """The executor's weight for each class of shapes, from 0 (the encoder alone) to 1 (the executor alone)."""

    executor: Mapping[str, float]

    @classmethod
    def read(cls, values: Mapping[str, float], where: str) -> Self:
        """Reads saved weights; those of earlier versions have the weight of "mixed" for the classes that came later.

        Raises:
            StorageError: They are of other classes.
        """
        if set(values) == set(FIRST_CLASSES):
            values = {name: values.get(name, values["mixed"]) for name in CLASSES}
        if set(values) != set(CLASSES):
            raise StorageError(
                f"{where} was calibrated for shapes of the classes {', '.join(values)}; they are {', '.join(CLASSES)} now. "
                "Calibrate it again"
            )
        return cls(values)

    def of(self, shape: Shape) -> float:
        """Returns the executor's weight for a shape."""
        return self.executor[shape_class(shape)]


ENCODER, EXECUTOR, EVEN = (Weights(dict.fromkeys(CLASSES, weight)) for weight in (0.0, 1.0, 0.5))
"""Weights for the encoder alone, the executor alone, and both equally."""


class PartsScorer(Scorer, Protocol):
    """A scorer that takes queries of several shapes in one pass."""

    def scores_of(self, parts: Sequence[Part], out: Tensor) -> Tensor:
        """Returns the scores of all entities for rows of several tables, part after part: (B, V)."""


class DeadlineScorer(Protocol):
    """A scorer that stops at a deadline."""

    def scores_of(self, parts: Sequence[Part], out: Tensor, deadline: Deadline = NEVER) -> Tensor:
        """Returns the scores of all entities for rows of several tables, part after part: (B, V)."""


class Mixture:
    """Scores entities by encoder and executor together (a `PartsScorer`)."""

    def __init__(self, encoder: PartsScorer, executor: DeadlineScorer, weights: Weights) -> None:
        self._encoder, self._executor, self.weights = encoder, executor, weights
        self._own = threading.local()  # a second buffer for each thread that asks

    def scores(self, table: QueryTable, rows: IntArray, out: Tensor) -> Tensor:
        """Returns the weighted sum of both logarithms for these rows of a table: (B, V)."""
        return self.scores_of([(table, rows)], out)

    def scores_of(self, parts: Sequence[Part], out: Tensor, deadline: Deadline = NEVER) -> Tensor:
        """Returns the weighted sums for rows of several tables, part after part: (B, V). They are encoded together.

        Raises:
            DeadlineError: The time is up.
        """
        deadline.check()
        weights = [self.weights.of(table.shape) for table, _ in parts]
        if not any(weights):
            return log_share(self._encoder.scores_of(parts, out))
        encoded = log_share(self._encoder.scores_of(parts, self._second(out))) if min(weights) < 1 else out
        if min(weights) > 0:
            self._executor.scores_of(parts, out, deadline)
        start = 0
        for (table, rows), weight in zip(parts, weights, strict=True):
            own, other = out[start : start + len(rows)], encoded[start : start + len(rows)]
            start += len(rows)
            if weight == 0:
                own.copy_(other)
                continue
            if min(weights) == 0:
                self._executor.scores_of([(table, rows)], own, deadline)
            log_truth(own)
            if weight < 1:
                own.mul_(weight).add_(other, alpha=1 - weight)
        return out

    def encoder_shares(self, table: QueryTable, rows: IntArray, out: Tensor) -> Tensor:
        """Returns the encoder's view alone, as shares of all entities that add up to 1: (B, V)."""
        return log_share(self._encoder.scores_of([(table, rows)], out)).exp()

    def _second(self, out: Tensor) -> Tensor:
        """Returns this thread's second buffer, of the shape of ``out``."""
        second: Tensor | None = getattr(self._own, "second", None)
        if second is None or len(second) < len(out):
            second = self._own.second = torch.empty_like(out)
        return second[: len(out)]


def mixed(encoded: Tensor, truth: Tensor, weight: float) -> Tensor:
    """Returns the weighted sum of both logarithms, of an encoder's scores and an executor's truths. (B, V)."""
    return log_truth(truth.clone()).mul_(weight).add_(log_share(encoded.clone()), alpha=1 - weight)


def log_truth(truth: Tensor) -> Tensor:
    """Turns truths, in place, into their logarithms, which stay finite. (B, V)."""
    return truth.clamp_min_(_LEAST).log_()
