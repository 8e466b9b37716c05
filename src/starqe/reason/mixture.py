"""The mixture of the encoder, which scores a whole query, and the executor, which derives answers edge by edge.

Both become logarithms (of the softmax over all entities, and of the truth), and are added with weights: one weight per class of
shapes, fitted on validation queries (`starqe.reason.calibration`), so that shapes never seen in validation have a weight too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor

from starqe.deadline import NEVER, Deadline
from starqe.errors import StorageError
from starqe.learn.training_queries import Part
from starqe.measure.retrieval import Best, LogSum, dense_blocks, retrieve
from starqe.queries import QueryTable, Shape
from starqe.queries.shape import TARGET
from starqe.ragged import IntArray
from starqe.reason.executor.executor import Result
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
        if any(type(weight) not in (int, float) or not 0 <= weight <= 1 for weight in values.values()):
            raise StorageError(f"{where}: the weight of a class is a number from 0 to 1, found {str(values)[:80]}. Calibrate it again")
        return cls({name: float(weight) for name, weight in values.items()})

    def of(self, shape: Shape) -> float:
        """Returns the executor's weight for a shape."""
        return self.executor[shape_class(shape)]


ENCODER, EXECUTOR, EVEN = (Weights(dict.fromkeys(CLASSES, weight)) for weight in (0.0, 1.0, 0.5))
"""Weights for the encoder alone, the executor alone, and both equally."""


class Encoding(Protocol):
    """What scores whole queries: an encoder."""

    def scores_of(self, parts: Sequence[Part], out: Tensor) -> Tensor:
        """Returns the scores of all entities for rows of several tables, part after part: (B, V)."""

    def blocks(self, parts: Sequence[Part]) -> Iterator[tuple[int, Tensor]]:
        """Yields the same scores, some entities at a time, with the first entity of each block: (B, n)."""


class Executing(Protocol):
    """What derives answers edge by edge: an executor."""

    def truths_of(self, parts: Sequence[Part], out: Tensor | None = None, deadline: Deadline = NEVER) -> Result:
        """Returns the truths of all entities for rows of several tables, part after part, and the slack."""


class Mixture:
    """Scores entities by encoder and executor together (a `Retriever`)."""

    def __init__(self, encoder: Encoding, executor: Executing, weights: Weights) -> None:
        self._encoder, self._executor, self.weights = encoder, executor, weights

    def scores(self, table: QueryTable, rows: IntArray, out: Tensor) -> Tensor:
        """Returns the weighted sum of both logarithms for these rows of a table: (B, V)."""
        weight = self.weights.of(table.shape)
        if weight == 0:
            return log_share(self._encoder.scores_of([(table, rows)], out))
        log_truth(self._executor.truths_of([(table, rows)], out).values)
        if weight < 1:
            out.mul_(weight).add_(log_share(self._encoder.scores_of([(table, rows)], torch.empty_like(out))), alpha=1 - weight)
        return out

    def best(self, parts: Sequence[Part], count: int, without: Sequence[IntArray] | None = None, deadline: Deadline = NEVER) -> Best:
        """Finds the best entities for rows of several tables, part after part, besides those that do not compete.

        The encoder's scores are mixed in while they are in the cache, and their normaliser is taken off at the end.

        Raises:
            DeadlineError: The time is up.
        """
        deadline.check()
        weights = [self.weights.of(table.shape) for table, rows in parts for _ in rows]
        weight = torch.tensor(weights)[:, None]  # (B, 1)
        total, ceiling = LogSum(len(weights)), torch.full((len(weights),), -torch.inf)
        with torch.inference_mode():
            truths = self._truths(parts, weights, deadline)
            best = retrieve(self._blocks(parts, weight, truths, total, ceiling), len(weights), count, without)
            offset = total.value * (1 - weight[:, 0]) if min(weights) < 1 else torch.zeros(len(weights))
        return Best(best.ids, best.scores - offset[:, None], best.log_normaliser - offset, ceiling - offset)

    def encoder_shares(self, table: QueryTable, rows: IntArray, out: Tensor) -> Tensor:
        """Returns the encoder's view alone, as shares of all entities that add up to 1: (B, V)."""
        return log_share(self._encoder.scores_of([(table, rows)], out)).exp()

    def _truths(self, parts: Sequence[Part], weights: Sequence[float], deadline: Deadline) -> Result | None:
        """Asks the executor, where it has a weight; elsewhere every truth is 1."""
        asked = [part for part in parts if self.weights.of(part[0].shape)]
        if not asked:
            return None
        found = self._executor.truths_of(asked, deadline=deadline)
        if len(asked) == len(parts):
            return found
        place = torch.tensor(weights).nonzero().flatten()
        whole = Result(torch.ones(len(weights), found.values.shape[1]), torch.zeros(len(weights)))
        whole.values[place], whole.slack[place] = found.values, found.slack
        return whole

    def _blocks(
        self, parts: Sequence[Part], weight: Tensor, truths: Result | None, total: LogSum, ceiling: Tensor
    ) -> Iterator[tuple[int, Tensor]]:
        """Yields the mixed scores, and adds up what the encoder's normaliser and the ceiling need. (B, n)."""
        if truths is None:
            for start, scores in self._encoder.blocks(parts):
                total.add(scores.clone())
                yield start, scores
            return
        asked = bool(weight.min() < 1)  # else the encoder has no weight, and needs no normaliser
        encoded = self._encoder.blocks(parts) if asked else dense_blocks(torch.zeros_like(truths.values))
        open_rows, log_slack = truths.slack > 0, log_truth(truths.slack[:, None].clone())
        any_open = bool(open_rows.any())
        for start, scores in encoded:
            if asked:
                total.add(scores.clone())
            own = log_truth(truths.values[:, start : start + scores.shape[1]])
            scores.mul_(1 - weight)
            if any_open:  # entities up to the slack may be as true as it
                most = torch.where(own < log_slack, torch.addcmul(scores, weight, log_slack), -torch.inf).amax(1)
                torch.maximum(ceiling, torch.where(open_rows, most, -torch.inf), out=ceiling)
            yield start, scores.addcmul_(weight, own)


def mixed(encoded: Tensor, truth: Tensor, weight: float) -> Tensor:
    """Returns the weighted sum of both logarithms, of an encoder's scores and an executor's truths. (B, V)."""
    return log_truth(truth.clone()).mul_(weight).add_(log_share(encoded.clone()), alpha=1 - weight)


def log_truth(truth: Tensor) -> Tensor:
    """Turns truths, in place, into their logarithms, which stay finite. (B, V)."""
    return truth.clamp_min_(_LEAST).log_()
