"""The best entities of queries, and the normaliser of all their scores: exact search, block by block.

The scores of a block of entities are used while they are in the processor's cache. No row over all entities is needed.

B queries · V entities · k best.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from starqe.model.similarity import BLOCK
from starqe.queries import QueryTable
from starqe.ragged import IntArray

Blocks = Iterable[tuple[int, Tensor]]
"""The scores of all entities in ascending order: the first entity of each block, and (B, n) scores, which may be overwritten."""

DENSE = 65_536
"""Up to this number of entities, a row of scores for all of them is faster than lists of the best."""
_GROUP = 16  # the best scores of groups of this many are a first bound on the best of all


@dataclass(frozen=True, eq=False)
class Best:
    """The best entities of some queries, best first; of equal ones the lowest id first."""

    ids: IntArray  # (B, k)
    scores: Tensor  # (B, k); -inf where there are no more
    log_normaliser: Tensor  # (B,) the logarithm of Σ exp(score) over all entities that compete
    ceiling: Tensor  # (B,) the most that any entity can have whose score is only a lower bound; -inf where all scores are exact
    error: Tensor | None = None  # (B,) the standard error of the logarithm of the normaliser; None where it is exact

    @property
    def shares(self) -> Tensor:
        """The logarithm of the share of each one among all that compete: (B, k)."""
        return self.scores - self.log_normaliser[:, None]

    @property
    def exact(self) -> Tensor:
        """Whether these are the best entities, with their exact scores, beyond doubt: (B,) bool."""
        return self.ceiling <= self.scores[:, -1]


@runtime_checkable
class Retriever(Protocol):
    """A scorer that finds the best entities without a row of scores for all."""

    def best(self, parts: Sequence[tuple[QueryTable, IntArray]], count: int, without: Sequence[IntArray] | None = None) -> Best:
        """Finds the best entities for rows of several tables, part after part, besides those that do not compete."""


class LogSum:
    """The logarithm of a sum of exponentials, over blocks."""

    def __init__(self, queries: int) -> None:
        self._largest, self._sum = torch.full((queries,), -torch.inf), torch.zeros(queries)

    def add(self, scores: Tensor, largest: Tensor | None = None) -> None:
        """Adds the scores of a block, and overwrites them; their largest may be known already. (B, n), (B,)."""
        most = torch.maximum(self._largest, scores.amax(1) if largest is None else largest)
        offset = most.clamp_min(torch.finfo(most.dtype).min)  # -inf less -inf is not a number
        self._sum.mul_((self._largest - offset).exp_()).add_(scores.sub_(offset[:, None]).exp_().sum(1))
        self._largest = most

    @property
    def value(self) -> Tensor:
        """The logarithm: (B,)."""
        return self._largest + self._sum.log()


def dense_blocks(scores: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Yields the blocks of rows of scores: (B, V)."""
    for start in range(0, scores.shape[1], BLOCK):
        yield start, scores[:, start : start + BLOCK]


def retrieve(blocks: Blocks, queries: int, count: int, without: Sequence[IntArray] | None = None) -> Best:
    """Finds the best entities of some queries.

    Args:
        blocks: The scores of all entities.
        queries: The number of queries.
        count: The number of entities wanted for each; fewer are found if there are fewer.
        without: For each query, the entities that do not compete.
    """
    row, id_ = _pairs(without or [])
    values, ids = torch.empty(queries, 0), torch.empty(queries, 0, dtype=torch.int64)
    total = LogSum(queries)
    for start, scores in blocks:
        stop = start + scores.shape[1]
        own = slice(*np.searchsorted(id_, [start, stop]))
        scores[torch.from_numpy(row[own]), torch.from_numpy(id_[own] - start)] = -torch.inf
        values, ids = _merge(values, ids, scores, start, count)
        total.add(scores, values[:, 0])
    return Best(ids.numpy(), values, total.value, torch.full((queries,), -torch.inf))


def stacked(parts: Sequence[Best]) -> Best:
    """Returns the best entities of the queries of several parts, part after part."""
    errors = [torch.zeros(len(part.ids)) if part.error is None else part.error for part in parts]
    return Best(
        np.concatenate([part.ids for part in parts]),
        torch.cat([part.scores for part in parts]),
        torch.cat([part.log_normaliser for part in parts]),
        torch.cat([part.ceiling for part in parts]),
        None if all(part.error is None for part in parts) else torch.cat(errors),
    )


def best_of(candidates: Sequence[tuple[IntArray, Tensor]], count: int, without: Sequence[IntArray] | None = None) -> Best:
    """Finds the best of some candidates of each query, given with their scores; the normaliser is that of the candidates alone.

    Args:
        candidates: Entities in ascending order and their scores, for each query: (n,) both.
        count: The number of entities wanted for each.
        without: For each query, the entities that do not compete.
    """
    ids, scores = np.zeros((len(candidates), count), np.int64), torch.full((len(candidates), count), -torch.inf)
    total = torch.full((len(candidates),), -torch.inf)
    for row, (own, values) in enumerate(candidates):
        if without is not None and len(without[row]):
            left = ~np.isin(own, without[row])
            own, values = own[left], values[torch.from_numpy(left)]
        order = values.argsort(descending=True, stable=True)[:count]
        ids[row, : len(order)], scores[row, : len(order)] = own[order.numpy()], values[order]
        total[row] = torch.logsumexp(values, 0)
    return Best(ids, scores, total, torch.full((len(candidates),), -torch.inf))


def _pairs(without: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """Returns rows and entities that do not compete, by entity."""
    row = np.repeat(np.arange(len(without)), [len(of_row) for of_row in without])
    id_ = np.concatenate([np.empty(0, np.int64), *without]).astype(np.int64)
    order = np.argsort(id_, kind="stable")
    return row[order], id_[order]


def _merge(values: Tensor, ids: Tensor, scores: Tensor, start: int, count: int) -> tuple[Tensor, Tensor]:
    """Returns the best of those so far and a block, with their ids, both ordered. (B, k)."""
    block = scores.numpy()  # NumPy finds the few places several times as fast
    # An equal score in a later block has a higher id, and comes too late.
    hits = block > values[:, -1:].numpy() if values.shape[1] == count else block >= least_of_best(scores, count).numpy()
    row, column = np.divmod(np.flatnonzero(hits), block.shape[1])
    counts = np.bincount(row, minlength=len(block))
    within = np.arange(len(row)) - (np.cumsum(counts) - counts)[row]
    fresh, places = np.full((len(block), counts.max()), -np.inf, block.dtype), np.zeros((len(block), counts.max()), np.int64)
    fresh[row, within], places[row, within] = block[row, column], column + start
    values, ids = torch.cat([values, torch.from_numpy(fresh)], 1), torch.cat([ids, torch.from_numpy(places)], 1)
    order = values.argsort(dim=1, descending=True, stable=True)[:, :count]  # stable: of equal ones, the lowest id stays first
    return values.gather(1, order), ids.gather(1, order)


def least_of_best(scores: Tensor, count: int) -> Tensor:
    """Returns a score that the best entities of each row reach, and few others: (B, n) -> (B, 1)."""
    groups = scores.shape[1] // _GROUP
    if groups >= count:  # then at least `count` groups have a maximum of this score or more
        scores = scores[:, : groups * _GROUP].reshape(len(scores), _GROUP, groups).amax(1)
    return scores.topk(min(count, scores.shape[1]), dim=1, sorted=False).values.amin(1, keepdim=True)
