"""Partially evaluated questions: bound variables, conditions on each open node, and their possible error."""

from dataclasses import dataclass

import torch
from torch import Tensor

from starqe.ragged import IntArray


@dataclass
class Partial:
    """R partially evaluated questions: bound variables, and the truth of each entity for each open node so far."""

    query: IntArray  # (R,) places in the batch
    constants: dict[str, IntArray]  # node -> (R,)
    truth: dict[str, Tensor]  # node -> (most, V), of which the first R rows count; a node without condition has none
    slack: dict[str, Tensor]  # node -> (R,)
    weight: Tensor  # (R,) the truth of what concerns no open node
    ceiling: Tensor  # (R,) the most that the weight could be
    floor: Tensor | None = None  # (R,) answers that are not truer than this do not matter

    def __len__(self) -> int:
        return len(self.query)


def largest_open(values: Tensor, ceiling: Tensor) -> Tensor:
    """Returns the largest ceiling that is above its value, or 0: the slack of a row whose numbers have ceilings of their own."""
    return torch.where(ceiling > values, ceiling, 0).amax()
