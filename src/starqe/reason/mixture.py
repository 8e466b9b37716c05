"""The mixture of the encoder, which scores a whole query, and the executor, which derives answers edge by edge.

Both become logarithms (of the softmax over all entities, and of the truth), and are added with weights: one weight per class of
shapes, fitted on validation queries (`starqe.reason.calibration`), so that shapes never seen in validation have a weight too.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from starqe.deadline import NEVER, Deadline
from starqe.errors import StorageError
from starqe.learn.training_queries import Part
from starqe.measure.exact_search import SPARE, Nearest, Scored
from starqe.measure.retrieval import DENSE, Best, best_of, retrieve
from starqe.queries import QueryTable, Shape
from starqe.queries.shape import TARGET
from starqe.ragged import IntArray
from starqe.reason.listed import Listed, Result, Rows, everywhere
from starqe.reason.predictor.one_hop import log_share
from starqe.seed import generator

CLASSES = ("one-hop", "path", "intersection", "larger intersection", "mixed", "union", "negation", "open value", "joined paths")
"""The classes of shapes; see `shape_class`."""
FIRST_CLASSES = CLASSES[:5]
"""The classes of the first version."""
EARLIER = (FIRST_CLASSES, CLASSES[:8])
"""The classes of earlier versions; in their calibrations, all other classes have the weight of "mixed"."""
CANDIDATES = 128
"""The minimum number of candidates that come from the encoder."""
SAMPLE = 256
"""The number of random entities from which the normaliser of all non-candidates is estimated."""
_LEAST = 1e-12  # a truth of 0 has no logarithm


def shape_class(shape: Shape) -> str:
    """Returns the class of a shape.

    One edge is a one-hop; two edges that join an anchor with the target are an intersection, three or more a larger one; edges one
    after the other are a path; edges and paths that meet in the target are joined paths. The rest is mixed: an intersection before the
    target, a cycle, or a loose end. The directions of the edges do not matter. A shape with a negated part is a negation, one with
    alternatives a union, and one with a variable as qualifier value has an open value.
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
    tree = len(shape.nodes) == len(shape.edges) + 1
    if tree and max(map(ends.count, ends)) <= 2 and ends.count(TARGET) == 1:
        return "path"
    return "joined paths" if tree and ends.count(TARGET) > 1 and min(map(ends.count, shape.of_kind("variable"))) > 1 else "mixed"


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
        if any(set(values) == set(earlier) for earlier in EARLIER):
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


@runtime_checkable
class Encoding(Protocol):
    """Scores whole queries: an encoder."""

    def scores_of(self, parts: Sequence[Part], out: Tensor) -> Tensor:
        """Returns the scores of all entities for rows of several tables, part after part: (B, V)."""

    def all_entities(self, parts: Sequence[Part]) -> Scored:
        """Returns the same scores, which may be rounded, and a way to compute exact ones."""

    def nearest(self, parts: Sequence[Part], count: int, without: Sequence[IntArray] | None = None) -> Nearest:
        """Finds the entities with the best scores, excluding those in ``without``."""

    @property
    def entities(self) -> int:
        """The number of entities that are scored."""


@runtime_checkable
class Executing(Protocol):
    """Derives answers edge by edge: an executor."""

    def truths_of(self, parts: Sequence[Part], out: Tensor | None = None, deadline: Deadline = NEVER) -> Result:
        """Returns the truths of all entities for rows of several tables, part after part, and the slack."""

    def rows_of(self, parts: Sequence[Part], deadline: Deadline = NEVER, wanted: int | None = None, listed: int = 0) -> Rows:
        """Returns the same truths, with only the best of each row listed in large graphs."""


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
        """Finds the best entities for rows of several tables, part after part, excluding those in ``without``.

        Where truths are rows over all entities, the encoder's scores are mixed in block by block. Where only the best are listed,
        these and the encoder's best are the candidates; a sample of all others completes the normaliser.

        Raises:
            DeadlineError: The time is up.
        """
        deadline.check()
        weights = [self.weights.of(table.shape) for table, rows in parts for _ in rows]
        with torch.inference_mode():
            truths = self._truths(parts, weights, count, deadline)
            # In a small graph, also for the encoder alone: an answer should not depend on what is asked at the same time.
            if self._encoder.entities <= DENSE or any(row.ids is None for row in truths.rows):
                return self._dense_best(parts, torch.tensor(weights)[:, None], truths, count, without)
            return self._listed_best(parts, weights, truths, count, without)

    def _dense_best(self, parts: Sequence[Part], weight: Tensor, truths: Rows, count: int, without: Sequence[IntArray] | None) -> Best:
        """Finds the best entities by the scores of all; where these are rounded, by exact scores of the best and some more."""
        own = log_truth(torch.stack([row.dense(self._encoder.entities) for row in truths.rows]))  # (B, V)
        encoded = self._encoder.all_entities(parts) if weight.min() < 1 else None  # else it has no weight
        scores = torch.zeros_like(own) if encoded is None else encoded.scores
        total = scores.logsumexp(1, keepdim=True)  # (B, 1)
        scores.sub_(total)
        excluded = [torch.from_numpy(ids.astype(np.int64, copy=False)) for ids in without or []]

        def mix() -> Tensor:
            found = own.mul(weight).addcmul_(scores, 1 - weight)
            for row, ids in enumerate(excluded):
                found[row, ids] = -torch.inf
            return found

        if not (encoded and encoded.rounded) and not any(row.source for row in truths.rows):
            return replace(retrieve([(0, mix())], len(own), count), ceiling=_most_open(own, scores, weight, truths.slack))
        ids = np.sort(mix().topk(min(count + SPARE, own.shape[1]), sorted=False).indices.numpy(), axis=1)
        some = torch.from_numpy(ids)  # (B, k)
        own.scatter_(1, some, log_truth(torch.stack([row.at(of_row) for row, of_row in zip(truths.rows, ids, strict=True)])))
        if encoded is not None:
            exact = encoded.pairs(np.repeat(np.arange(len(ids)), ids.shape[1]), ids.ravel())
            scores.scatter_(1, some, exact.view(ids.shape).sub_(total))
        mixed = mix()
        best = best_of(list(zip(ids, mixed.gather(1, some), strict=True)), count)
        return replace(best, log_normaliser=mixed.logsumexp(1), ceiling=_most_open(own, scores, weight, truths.slack))

    def _listed_best(
        self, parts: Sequence[Part], weights: Sequence[float], truths: Rows, count: int, without: Sequence[IntArray] | None
    ) -> Best:
        """Finds the best entities among those that the executor lists or the encoder ranks first."""
        without = [np.empty(0, np.int64)] * len(weights) if without is None else [np.unique(ids).astype(np.int64) for ids in without]
        near = self._encoder.nearest(parts, max(count, CANDIDATES), without) if min(weights) < 1 else None
        found = [
            _candidates(row, float(truths.slack[place]), weight, near, place, without[place], self._sample, self._encoder.entities)
            for place, (row, weight) in enumerate(zip(truths.rows, weights, strict=True))
        ]
        best = best_of([(one.ids, one.scores) for one in found], count)
        total = torch.stack([one.log_normaliser for one in found])
        return Best(best.ids, best.scores, total, torch.tensor([one.ceiling for one in found]))

    @cached_property
    def _sample(self) -> IntArray:
        """Random entities from which the normaliser of all non-candidates is estimated."""
        size = self._encoder.entities
        return np.sort(generator(0, "sample of entities").choice(size, min(size, SAMPLE), replace=False))

    def encoder_share(self, table: QueryTable, row: int, entity: int) -> float:
        """Returns the encoder's softmax probability of an answer."""
        near = self._encoder.nearest([(table, np.array([row]))], CANDIDATES)
        return float((near.at(np.array([0]), np.array([entity]))[0, 0] - near.best.log_normaliser[0]).exp())

    def _truths(self, parts: Sequence[Part], weights: Sequence[float], count: int, deadline: Deadline) -> Rows:
        """Asks the executor if it has a weight; otherwise every truth is 1."""
        whole = Rows([everywhere(1)] * len(weights), torch.zeros(len(weights)))
        asked = [part for part in parts if self.weights.of(part[0].shape)]
        if asked:
            found = self._executor.rows_of(asked, deadline, listed=count)
            for number, place in enumerate(np.flatnonzero(weights).tolist()):
                whole.rows[place], whole.slack[place] = found.rows[number], found.slack[number]
        return whole


def _most_open(own: Tensor, scores: Tensor, weight: Tensor, slack: Tensor) -> Tensor:
    """Returns the most that entities can have whose truth is only a lower bound: those with a truth up to the slack. (B, V) -> (B,)."""
    log_slack = log_truth(slack[:, None].clone())
    if not slack.any():
        return torch.full_like(slack, -torch.inf)
    most = torch.where(own < log_slack, torch.addcmul(scores * (1 - weight), weight, log_slack), -torch.inf).amax(1)
    return torch.where(slack > 0, most, -torch.inf)


@dataclass(frozen=True, eq=False)
class _Candidates:
    """The best entities of one query by mixed scores."""

    ids: IntArray  # (n,) ascending
    scores: Tensor  # (n,)
    log_normaliser: Tensor  # () the logarithm of Σ exp(score) over all entities that compete; that of others is estimated from a sample
    ceiling: float
    """Upper bound on the score of all other entities, and of entities whose truth is only a lower bound."""


def _candidates(
    row: Listed, slack: float, weight: float, near: Nearest | None, place: int, without: IntArray, sample: IntArray, entities: int
) -> _Candidates:
    """Mixes the scores of the entities that the executor lists or the encoder ranks first.

    Args:
        row: The truths.
        slack: Entities with a truth up to it may be as true as it.
        weight: The weight of the executor.
        near: The best entities of the encoder; None if it has no weight.
        place: The query among those of the encoder.
        without: The excluded entities, ascending.
        sample: Random entities from which the normaliser of all non-candidates is estimated.
        entities: The number of all entities.
    """
    ranked, scores, total = np.empty(0, np.int64), torch.empty(0), torch.zeros(())
    if near is not None and weight < 1:
        ranked, scores, total = near.best.ids[place], near.best.scores[place], near.best.log_normaliser[place]
        if not scores[-1].isfinite():
            exists = scores.isfinite()
            ranked, scores = ranked[exists.numpy()], scores[exists]
        if len(without):
            total = torch.logaddexp(total, near.at(np.array([place]), without).logsumexp(1)[0])  # of all entities
    listed = row.pairs(entities)[0] if weight else np.empty(0, np.int64)
    listed = np.setdiff1d(listed, np.concatenate([ranked, without]))
    others = np.setdiff1d(sample, np.concatenate([ranked, listed, without])) if weight else sample[:0]
    count, ids = len(ranked) + len(listed), np.concatenate([ranked, listed, others])
    encoded = torch.zeros(len(ids))
    if near is not None and weight < 1:
        encoded[: len(ranked)], encoded[len(ranked) :] = scores, near.at(np.array([place]), ids[len(ranked) :])[0]
    truths = row.at(ids) if weight else torch.ones(len(ids))

    def mix(encoded: Tensor, truth: Tensor) -> Tensor:
        return log_truth(truth.clone()).mul_(weight).add_(encoded - total, alpha=1 - weight)

    found, ceilings = mix(encoded, truths), [torch.full((1,), -torch.inf)]
    if weight and (most := max(slack, row.rest)) > 0:
        ceilings.append(mix(scores[-1:] if len(scores) else torch.zeros(1), torch.full((1,), most)))
        opened = encoded[:count][truths[:count] < slack]
        ceilings.append(mix(opened, torch.full_like(opened, slack)))
    if near is not None and not weight:  # the encoder alone
        log_normaliser = near.best.log_normaliser[place] - total
    else:
        left = max(entities - count - len(without), 1)
        log_normaliser = torch.logaddexp(found[:count].logsumexp(0), found[count:].logsumexp(0) + math.log(left / max(len(others), 1)))
    order = np.argsort(ids[:count])
    return _Candidates(ids[:count][order], found[:count][torch.from_numpy(order)], log_normaliser, float(torch.cat(ceilings).amax()))


def mixed(encoded: Tensor, truth: Tensor, weight: float) -> Tensor:
    """Returns the weighted sum of both logarithms, of an encoder's scores and an executor's truths. (B, V)."""
    return log_truth(truth.clone()).mul_(weight).add_(log_share(encoded.clone()), alpha=1 - weight)


def log_truth(truth: Tensor) -> Tensor:
    """Turns truths, in place, into their logarithms, which stay finite. (B, V)."""
    return truth.clamp_min_(_LEAST).log_()
