"""The losses, block by block: what a block of scores contributes to the loss, and the gradient of the loss by these scores.

The targets of query i over the entities are, with k_i answers and the label smoothing ε,

    y = (1 - ε) t + ε / V        where t is, at an answer, 1 / k_i for the softmax loss and 1 for the binary loss, and 0 elsewhere.

V entities · n entities of a block.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

BLOCK = 1_024
"""The number of entities per block: with 512 queries, their scores take 2 MiB and stay in the processor's cache while they are used."""
LOWEST = -60.0
"""The minimum exponent of a probability. Subnormal numbers (below exp(-87) in 32 bits) make products 100 times slower, and
the factors of a gradient need some room above that. A probability of exp(-60) instead of less changes no gradient noticeably."""
LOWEST_OF_LOG = -25.0
"""The minimum score in log(1 + exp s), which is much slower below; it changes a loss by less than exp(-25)."""
_LOG2_E = 1 / math.log(2)  # exp2 takes a third of the time of exp


@dataclass(frozen=True, eq=False)
class Targets:
    """The answers of some queries, by block, and the smoothing of the labels."""

    row: Tensor  # (answers,) queries
    column: Tensor  # (answers,) entities, ascending
    counts: Tensor  # (rows,) the number of answers of each query
    bounds: list[int]  # (blocks+1,) where the answers of each block begin
    entities: int
    smoothing: float
    spread: Tensor | None = None  # (V,) the share of each column in the smoothing; equal if left out

    def weighted_sum(self, block: int, scores: Tensor, mass: Tensor) -> Tensor:
        """Computes Σ_v y_v s_v over a block, with a mass at each answer and the smoothing everywhere. (rows, n) -> (rows,)."""
        row, cell, mass = self._of(block, scores, mass)
        total = scores.new_zeros(len(scores)).index_add_(0, row, mass * scores.view(-1)[cell])
        if not self.smoothing:
            return total
        mean = scores.sum(1).div_(self.entities) if self.spread is None else scores @ self._spread_of(block, scores)
        return total.add_(mean, alpha=self.smoothing)

    def subtract(self, block: int, values: Tensor, mass: Tensor) -> None:
        """Subtracts y in a block, in place. (rows, n)."""
        if self.smoothing:
            values.sub_(self.smoothing / self.entities if self.spread is None else self.smoothing * self._spread_of(block, values))
        _, cell, mass = self._of(block, values, mass)
        values.view(-1).index_add_(0, cell, mass, alpha=-1)

    def _of(self, block: int, values: Tensor, mass: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        own = slice(self.bounds[block], self.bounds[block + 1])
        return self.row[own], self.row[own] * values.shape[1] + (self.column[own] - block * BLOCK), mass[own]

    def _spread_of(self, block: int, values: Tensor) -> Tensor:
        assert self.spread is not None
        return self.spread[block * BLOCK : block * BLOCK + values.shape[1]]


def targets_of(offsets: Tensor, answers: Tensor, entities: int, smoothing: float, spread: Tensor | None, dtype: torch.dtype) -> Targets:
    """Sorts the answers of some queries by block: (rows+1,) where those of each query begin, (answers,)."""
    column, order = answers[int(offsets[0]) : int(offsets[-1])].sort(stable=True)
    counts = offsets.diff()
    row = torch.repeat_interleave(torch.arange(len(counts), device=offsets.device), counts)[order]
    starts = torch.arange(0, entities + BLOCK, BLOCK, device=offsets.device)
    return Targets(row, column, counts.to(dtype), torch.searchsorted(column, starts).tolist(), entities, smoothing, spread)


class Loss(ABC):
    """The loss of some queries: first it sees the scores of every block, then it turns every block into its gradient."""

    def __init__(self, targets: Targets) -> None:
        self.targets = targets

    @abstractmethod
    def see(self, block: int, scores: Tensor, logs: Tensor | None) -> None:
        """Takes in the scores of a block, and may overwrite them; ``logs`` are the logarithms of the columns' weights. (rows, n), (n,)."""

    @abstractmethod
    def losses(self) -> Tensor:
        """Returns the loss of each query, when all blocks have been seen. (rows,)."""

    @abstractmethod
    def differentiate(self, block: int, scores: Tensor) -> None:
        """Replaces what `see` has left of a block by the gradient, up to `factor`. (rows, n)."""

    @property
    def factor(self) -> float:
        """The number by which the gradients have to be multiplied."""
        return 1.0


class SoftmaxLoss(Loss):
    """The cross-entropy log Σ_v exp s_v - Σ_v y_v s_v, with the mass spread evenly over the answers; its gradient is softmax(s) - y."""

    def __init__(self, targets: Targets) -> None:
        super().__init__(targets)
        self._mass = (1 - targets.smoothing) / targets.counts[targets.row]
        self._largest, self._sums = targets.counts.new_empty(2, len(targets.bounds) - 1, len(targets.counts)).unbind()  # (blocks, rows)
        self._linear = targets.counts.new_zeros(len(targets.counts))

    def see(self, block: int, scores: Tensor, logs: Tensor | None) -> None:
        """Leaves exp(s - the largest of the block)."""
        self._linear += self.targets.weighted_sum(block, scores, self._mass)
        if logs is not None:
            scores.add_(logs)
        torch.amax(scores, 1, out=self._largest[block])
        scores.sub_(self._largest[block][:, None]).mul_(_LOG2_E).exp2_()
        torch.sum(scores, 1, out=self._sums[block])

    def losses(self) -> Tensor:
        """Adds up the blocks."""
        self._normaliser = torch.logsumexp(self._largest + self._sums.log(), 0)
        return self._normaliser - self._linear

    def differentiate(self, block: int, scores: Tensor) -> None:
        """Divides by the sum over all blocks, and subtracts the targets."""
        scores.mul_((self._largest[block] - self._normaliser).exp_()[:, None]).clamp_min_(math.exp(LOWEST))
        self.targets.subtract(block, scores, self._mass)


class BinaryLoss(Loss):
    """The mean binary cross-entropy (1/V) Σ_v (log(1 + exp s_v) - y_v s_v) of the paper; its gradient is (σ(s) - y) / V."""

    def __init__(self, targets: Targets) -> None:
        super().__init__(targets)
        self._mass = torch.full_like(targets.row, 1 - targets.smoothing, dtype=targets.counts.dtype)
        self._sum = targets.counts.new_zeros(len(targets.counts))

    def see(self, block: int, scores: Tensor, logs: Tensor | None) -> None:
        """Leaves the scores as they are."""
        assert logs is None, "negatives are sampled for the softmax loss only"
        bounded = scores.clamp_min(LOWEST_OF_LOG)
        self._sum += torch.logaddexp(bounded, bounded.new_zeros(()), out=bounded).sum(1)
        self._sum -= self.targets.weighted_sum(block, scores, self._mass)

    def losses(self) -> Tensor:
        """Returns the mean."""
        return self._sum * self.factor

    def differentiate(self, block: int, scores: Tensor) -> None:
        """Computes σ(s) - y."""
        self.targets.subtract(block, scores.clamp_min_(LOWEST).sigmoid_(), self._mass)

    @property
    def factor(self) -> float:
        """1 / V: the loss is a mean over the entities."""
        return 1 / self.targets.entities


LOSSES: Mapping[str, type[Loss]] = {"softmax": SoftmaxLoss, "binary": BinaryLoss}
"""The losses: softmax cross-entropy with the mass spread evenly over the answers, and the paper's binary cross-entropy."""
