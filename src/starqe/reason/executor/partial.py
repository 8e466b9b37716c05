"""Partially evaluated questions: bound variables, conditions on each open node, and their possible error."""

from dataclasses import dataclass

from torch import Tensor

from starqe.ragged import IntArray
from starqe.reason.listed import Listed


@dataclass
class Partial:
    """R partially evaluated questions: bound variables, and the truth of each entity for each open node so far."""

    query: IntArray  # (R,) places in the batch
    constants: dict[str, IntArray]  # node -> (R,)
    truth: dict[str, list[Listed]]  # node -> R rows; a node without condition has none
    slack: dict[str, list[float]]  # node -> R numbers
    weight: Tensor  # (R,) the truth of what concerns no open node
    ceiling: Tensor  # (R,) upper bound of the weight
    floor: Tensor | None = None  # (R,) answers with a truth up to this are not needed

    def __len__(self) -> int:
        return len(self.query)
