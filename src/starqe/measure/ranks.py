"""Filtered ranks: the rank of an answer among all entities that are not other answers, with explicit ties.

B queries · V entities · n ranked answers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from starqe.errors import MeasureError
from starqe.ragged import BoolArray, FloatArray, IntArray, NumberArray, Ragged

if TYPE_CHECKING:  # tables and the oracle need ranks, but not torch
    import torch

SORT_FROM = 10
"""From this many ranked answers on, sorting a query's row of scores once is faster than counting for each answer."""


@dataclass(frozen=True, eq=False)
class Ranks:
    """The number of candidates that score higher than each ranked answer, and that score the same.

    ``best = better + 1``, ``worst = better + equal``, ``realistic = (best + worst) / 2``.
    """

    better: IntArray  # (n,) int64: candidates with a higher score
    equal: IntArray  # (n,) int64: candidates with the same score; the answer itself is one
    candidates: IntArray  # (n,) int64: all candidates; the answer itself is one

    @property
    def best(self) -> IntArray:
        """The optimistic rank: before everything that scores the same: (n,)."""
        return np.asarray(self.better + 1)

    @property
    def worst(self) -> IntArray:
        """The pessimistic rank: after everything that scores the same: (n,)."""
        return np.asarray(self.better + self.equal)

    @property
    def realistic(self) -> FloatArray:
        """The mean of the optimistic and the pessimistic rank: (n,)."""
        return np.asarray(self.best + self.worst) / 2


TIES: Mapping[str, Callable[[Ranks], NumberArray]] = {
    "realistic": lambda ranks: ranks.realistic,
    "optimistic": lambda ranks: ranks.best,
    "pessimistic": lambda ranks: ranks.worst,
}
"""The ways to turn equal scores into a rank."""


def filtered_ranks(scores: "torch.Tensor", ranked: Ragged, filtered: Ragged) -> Ranks:
    """Ranks answers within a buffer of scores; while one is ranked, the other filtered entities of its query are ignored.

    Every column of the buffer is a real entity, and competes. Nothing is copied per answer: an answer is compared with
    its whole row, and the contribution of the filtered entities is subtracted. Beyond the buffer, memory is one
    row and a few numbers per answer. Scores on another device are copied to the CPU first.

    Args:
        scores: One row per query, one column per entity; a higher score is better, infinities are allowed. (B, V)
        ranked: The answers to rank, one row per query, ascending, without duplicates.
        filtered: The entities that do not compete with a ranked answer, in the same form; it may contain the answer itself.

    Raises:
        MeasureError: A score is not a number.
    """
    assert scores.ndim == 2, scores.shape
    assert len(scores) == len(ranked) == len(filtered), (scores.shape, len(ranked), len(filtered))
    values = scores.detach().cpu().numpy()
    better, equal = _counts(values, ranked)
    query, own = ranked.owner, values[ranked.owner, ranked.items]
    filter_query, filter_own = filtered.owner, values[filtered.owner, filtered.items]
    # Codes in the order of the scores are what can be packed with the query into one sortable number.
    codes = np.unique(np.concatenate([filter_own, own]), return_inverse=True)[1]
    filter_codes, own_codes = codes[: len(filter_own)], codes[len(filter_own) :]
    above, level = greater_and_equal(filter_query, filter_codes, query, own_codes)
    itself = _contains(filtered, filter_query, ranked, query, scores.shape[1])
    return Ranks(better - above, equal - level + itself, scores.shape[1] - filtered.counts[query] + itself)


def ranks_among(own: FloatArray, rivals: FloatArray) -> FloatArray:
    """Computes the realistic rank of each score among the rivals of its row, which do not contain it. (…, n), (…, m) -> (…, n)."""
    mine, others = own[..., :, None], rivals[..., None, :]
    ranks: FloatArray = 1 + (others > mine).sum(-1) + 0.5 * (others == mine).sum(-1)
    return ranks


def greater_and_equal(group: IntArray, value: IntArray, of_group: IntArray, than: IntArray) -> tuple[IntArray, IntArray]:
    """Counts, for each pair of a group and a value, the members of the group with a greater and with an equal value.

    Args:
        group: The group of each member. (m,)
        value: The value of each member, a whole number from 0. (m,)
        of_group: The group to count in. (n,)
        than: The value to compare with. (n,)
    """
    width = max(value.max(initial=0), than.max(initial=0)) + 1
    keys = np.sort(group.astype(np.int64) * width + value)
    probe = of_group.astype(np.int64) * width
    first, last = np.searchsorted(keys, probe + than), np.searchsorted(keys, probe + than, "right")
    return np.searchsorted(keys, probe + width) - last, last - first


def _counts(values: FloatArray, ranked: Ragged) -> tuple[IntArray, IntArray]:
    """Counts the higher and the equal scores in the whole row of each answer.

    One row after the other, because a row fits into the processor's cache: it is read from memory once, however many
    answers it has. Scores below the lowest answer's count for none, so where a model is good little remains to compare.
    """
    better, equal = np.empty(len(ranked.items), np.int64), np.empty(len(ranked.items), np.int64)
    mask = np.empty(values.shape[1], bool)
    few = values.shape[1] // 16  # gathering more than these costs more than it saves
    bounds = ranked.offsets.tolist()
    for i, row in enumerate(values):
        start, stop = bounds[i], bounds[i + 1]
        if start == stop:
            continue
        own = row[ranked.items[start:stop]]
        np.logical_not(np.less(row, own.min(), out=mask), out=mask)  # "not below" instead of "above": NaN must be included
        reach = np.count_nonzero(mask)
        near = row[mask] if reach <= few else row
        if np.isnan(near.max()):
            raise MeasureError(f"a score is a number, found NaN in row {i} of a batch of {len(values)}. Has training diverged?")
        if stop - start >= SORT_FROM:
            ascending = np.sort(near)
            last = np.searchsorted(ascending, own, "right")
            better[start:stop] = len(near) - last
            equal[start:stop] = last - np.searchsorted(ascending, own)
            continue
        hit = mask[: len(near)]
        for place, score in enumerate(own, start):
            equal[place] = np.count_nonzero(np.equal(near, score, out=hit))
            better[place] = np.count_nonzero(np.greater(near, score, out=hit)) if len(own) > 1 else reach - equal[place]
    return better, equal


def _contains(filtered: Ragged, filter_query: IntArray, ranked: Ragged, query: IntArray, width: int) -> BoolArray:
    """Returns for each ranked answer whether it is itself among the filtered entities: (n,) bool."""
    keys = filter_query * width + filtered.items
    assert (np.diff(keys) > 0).all(), "entities are ascending and unique within a query"
    probe = query * width + ranked.items
    place = np.searchsorted(keys, probe)
    found = np.zeros(len(probe), bool)
    inside = place < len(keys)
    found[inside] = keys[place[inside]] == probe[inside]
    return found
