"""The mixture: what the encoder says of a whole query, and what the executor derives edge by edge.

Both become logarithms (of the softmax over all entities, and of the truth), and are added with weights. The weights are fitted
on validation queries, one for each class of shapes, so that shapes which nobody has seen are weighted too.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import torch
from torch import Tensor

from starqe.errors import StorageError
from starqe.kg import Graph
from starqe.learn.examples import Part
from starqe.measure.evaluate import Scorer
from starqe.measure.protocol import strict
from starqe.measure.ranks import filtered_ranks
from starqe.queries import QueryTable, Shape
from starqe.queries.shape import TARGET
from starqe.reason.one_hop import log_share

CLASSES = ("one-hop", "path", "intersection", "larger intersection", "mixed")
"""The classes of shapes; see `shape_class`."""
WEIGHTS = tuple(round(0.1 * step, 1) for step in range(11))
"""The weights of the executor that are tried; the encoder has the rest."""
_LEAST = 1e-12  # a truth of 0 has no logarithm
_BATCH = 64


def shape_class(shape: Shape) -> str:
    """Says which class a shape belongs to.

    One edge is a one-hop; two edges that join an anchor with the target are an intersection, three or more a larger one; edges one
    after the other are a path; all else (and every cycle) is mixed. The directions of the edges do not matter.
    """
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
        """Reads weights that were kept.

        Raises:
            StorageError: They are of other classes.
        """
        if set(values) != set(CLASSES):
            raise StorageError(
                f"{where} was calibrated for shapes of the classes {', '.join(values)}; they are {', '.join(CLASSES)} now. "
                "Calibrate it again"
            )
        return cls(values)

    def of(self, shape: Shape) -> float:
        """Gives the executor's weight for a shape."""
        return self.executor[shape_class(shape)]


ENCODER, EXECUTOR, EVEN = (Weights(dict.fromkeys(CLASSES, weight)) for weight in (0.0, 1.0, 0.5))
"""One of the two switched off, and both alike."""


class PartsScorer(Scorer, Protocol):
    """A scorer that takes queries of several shapes in one pass."""

    def scores_of(self, parts: Sequence[Part], out: Tensor) -> Tensor:
        """Gives the scores of all entities for rows of several tables, part after part: (B, V)."""


class Mixture:
    """Scores entities by encoder and executor together (a `PartsScorer`)."""

    def __init__(self, encoder: PartsScorer, executor: Scorer, weights: Weights) -> None:
        self._encoder, self._executor, self.weights = encoder, executor, weights
        self._own = threading.local()  # a second buffer for each thread that asks

    def scores(self, table: QueryTable, rows: np.ndarray, out: Tensor) -> Tensor:
        """Gives the weighted sum of both logarithms for these rows of a table: (B, V)."""
        return self.scores_of([(table, rows)], out)

    def scores_of(self, parts: Sequence[Part], out: Tensor) -> Tensor:
        """Gives the weighted sums for rows of several tables, part after part: (B, V). They are encoded together."""
        weights = [self.weights.of(table.shape) for table, _ in parts]
        if not any(weights):
            return log_share(self._encoder.scores_of(parts, out))
        encoded = log_share(self._encoder.scores_of(parts, self._second(out))) if min(weights) < 1 else out
        start = 0
        for (table, rows), weight in zip(parts, weights, strict=True):
            own, other = out[start : start + len(rows)], encoded[start : start + len(rows)]
            start += len(rows)
            if weight == 0:
                own.copy_(other)
                continue
            own.copy_(_log_truth(self._executor.scores(table, rows, own)))
            if weight < 1:
                own.mul_(weight).add_(other, alpha=1 - weight)
        return out

    def _second(self, out: Tensor) -> Tensor:
        """Gives this thread's second buffer, of the shape of ``out``."""
        second: Tensor | None = getattr(self._own, "second", None)
        if second is None or len(second) < len(out):
            second = self._own.second = torch.empty_like(out)
        return second[: len(out)]


def mixed(encoded: Tensor, truth: Tensor, weight: float) -> Tensor:
    """Gives the weighted sum of both logarithms, of an encoder's scores and an executor's truths. (B, V)."""
    return _log_truth(truth.clone()).mul_(weight).add_(log_share(encoded.clone()), alpha=1 - weight)


def _log_truth(truth: Tensor) -> Tensor:
    return truth.clamp_min_(_LEAST).log_()


def fit_weights(graph: Graph, encoder: Scorer, executor: Scorer, validation: Mapping[str, QueryTable]) -> Weights:
    """Fits the weights: for each class those with the best MRR of hard answers (macro) on validation queries.

    A class that no validation query has gets the weight of the mixed class, or else half.

    Args:
        graph: What easy and hard answers are looked up in; the scorers see train only.
        encoder: Scores of the encoder.
        executor: Truths of the executor.
        validation: Queries of the split valid, by shape.
    """
    sums: dict[str, np.ndarray] = {}
    counts: dict[str, int] = {}
    for table in validation.values():
        reciprocal = _reciprocal_ranks(graph, encoder, executor, table)  # (queries, weights)
        name = shape_class(table.shape)
        # Every shape of a class counts the same, however many queries it has.
        sums[name] = sums.get(name, np.zeros(len(WEIGHTS))) + (reciprocal.mean(axis=0) if len(reciprocal) else 0)
        counts[name] = counts.get(name, 0) + len(reciprocal)
    best = {name: WEIGHTS[int(sums[name].argmax())] for name in CLASSES if counts.get(name)}
    return Weights({name: best.get(name, best.get("mixed", 0.5)) for name in CLASSES})


def _reciprocal_ranks(graph: Graph, encoder: Scorer, executor: Scorer, table: QueryTable) -> np.ndarray:
    """Gives the mean reciprocal rank of the hard answers of each query, for every weight: (queries, weights)."""
    task = strict(graph, table, np.arange(len(table)))
    found = [np.empty((0, len(WEIGHTS)))]
    buffers = torch.empty(3, _BATCH, len(graph.entities))
    for start in range(0, len(task.rows), _BATCH):
        rows = task.rows[start : start + _BATCH]
        one, other, both = (buffer[: len(rows)] for buffer in buffers)
        encoded = log_share(encoder.scores(table, rows, one))
        derived = _log_truth(executor.scores(table, rows, other))
        ranked, filtered = task.ranked.part(start, start + len(rows)), task.filtered.part(start, start + len(rows))
        columns = []
        for weight in WEIGHTS:
            torch.mul(derived, weight, out=both).add_(encoded, alpha=1 - weight)
            ranks = filtered_ranks(both, ranked, filtered).realistic
            columns.append(np.bincount(ranked.query, 1 / ranks, minlength=len(rows)) / ranked.counts)
        found.append(np.stack(columns, axis=1))
    return np.concatenate(found)
