"""Adam for the rows of a table: the cost of a step depends on the rows that a batch touches, and the state of a row is two numbers.

N steps so far · U rows that a batch touches · V rows · D width.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from starqe.model.embedding import Table
from starqe.model.noise import round_to_half
from starqe.seed import derive

DECAY = 0.999
"""The decay per step of the moment, as in Adam."""
SMALLEST = 1e-8
BLOCK = 65_536
"""The number of rows that are settled at a time."""


class RowAdam:
    """Updates the rows that a batch touches, and the average of the weights with them.

        u = 0.999^n v + 0.001 g²              with n steps since the row was touched last, g its gradient; (D,)
        w ← w - rate g / √(u / (1 - 0.999^N))
        v ← mean(u)                           over the features

    A row that is not touched stays, whereas dense Adam moves it for some more steps by the mean of its last gradients; here it
    moves at once by as much as Adam does in total. What is kept of earlier gradients is one number per row, so rows that are touched
    rarely move as by Adam, feature by feature. The average of the weights is exact: in n steps in which w stays, it comes closer to w
    by the product of the n decays.

    Args:
        table: The weights.
        average: The average of the weights, or None.
        decay: The decay of the average per step.
        seed: Decides how numbers are rounded to float16.
    """

    def __init__(self, table: Table, average: Table | None, decay: float, seed: int) -> None:
        self.table, self.average, self._decay, self._seed = table, average, decay, seed
        self._moment = torch.zeros(len(table), device=table.device)
        self._last = torch.zeros(len(table), dtype=torch.int32, device=table.device)
        self._noise = torch.Generator(table.device)

    @torch.no_grad()
    def step(self, rows: Tensor, gradient: Tensor, rate: float, done: int) -> None:
        """Updates rows, each named once, after ``done`` steps. (U,), (U, D)."""
        self._noise.manual_seed(derive(self._seed, f"rounding of step {done}"))
        last = self._last[rows]
        faded = self._moment[rows].mul_(torch.pow(DECAY, done + 1 - last))
        moments = gradient.square().mul_(1 - DECAY).add_(faded[:, None])  # (U, D)
        moment = moments.mean(1)
        before = self.table[rows].float()
        after = torch.addcdiv(before, gradient, moments.div_(1 - DECAY ** (done + 1)).sqrt_().add_(SMALLEST), value=-rate)
        if self.average is not None:
            mean = self._followed(self.average[rows].float(), before, last, done)
            mean.lerp_(after, 1 - decay_at(done, self._decay))
            self.average[rows] = round_to_half(mean, self._noise)
        self.table[rows] = round_to_half(after, self._noise)
        self._moment[rows] = moment
        self._last[rows] = done + 1

    @torch.no_grad()
    def settle(self, done: int) -> None:
        """Brings the average of all rows up to date, for its use after ``done`` steps."""
        if self.average is None:
            return
        self._noise.manual_seed(derive(self._seed, f"rounding after step {done}"))
        for start in range(0, len(self.table), BLOCK):
            part = slice(start, start + BLOCK)
            last = self._last[part]
            mean = self._followed(self.average[part].float(), self.table[part].float(), last, done)
            self.average[part] = round_to_half(mean, self._noise)
            self._moment[part].mul_(torch.pow(DECAY, done - last))
            last.fill_(done)

    def _followed(self, mean: Tensor, weights: Tensor, last: Tensor, done: int) -> Tensor:
        """Returns the average after ``done`` steps of rows that stayed since their last one. (U, D)."""
        kept = (log_kept(torch.full_like(last, done), self._decay) - log_kept(last, self._decay)).exp().float()
        return torch.lerp(weights, mean, kept[:, None])

    def state(self) -> dict[str, Tensor]:
        """Returns the part of a checkpoint besides the weights."""
        return {"moment": self._moment, "last": self._last}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restores the state.

        Raises:
            ValueError: It is of another table.
        """
        for own, found in ((self._moment, state["moment"]), (self._last, state["last"])):
            if own.shape != found.shape or own.dtype != found.dtype:
                raise ValueError(f"the state of {len(self.table)} rows has one number for each, found {tuple(found.shape)}")
            own.copy_(found)


def decay_at(done: int, most: float) -> float:
    """Returns the decay of the average in the step after ``done`` others: less early on, so that it forgets the beginning."""
    return min(most, (1 + done) / (10 + done))


def log_kept(done: Tensor, most: float) -> Tensor:
    """Computes the logarithm of the product of the decays of the first ``done`` steps: (n,) -> (n,).

    While the decay is (1 + s) / (10 + s), the product of those of the steps s < n is n! 9! / (n + 9)!.
    """
    rising = max(0, math.ceil((10 * most - 1) / (1 - most)))
    first = done.clamp_max(rising).double()
    return torch.lgamma(first + 1) - torch.lgamma(first + 10) + math.lgamma(10) + (done - first) * math.log(most)
