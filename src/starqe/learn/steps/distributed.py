"""Several processes that train one model together, on one machine or on many, as ``torchrun`` starts them.

Every process has the whole model, and computes its shards of each batch. Gradients are added up over the processes: dense ones as a
whole, those of a table as the rows that were touched. So all processes make the same step. The first one writes the run.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn

from starqe.errors import TrainingError
from starqe.model.embedding import RowGradient, added_up

LONGEST_WAIT = timedelta(hours=4)
"""Time limit for waiting for another process: the first one validates and writes checkpoints alone."""


@dataclass(frozen=True)
class Processes:
    """The processes of a training, and the place of this one among them."""

    rank: int = 0
    count: int = 1
    restarted: bool = False
    """Whether ``torchrun`` has started them again after one of them ended."""

    @property
    def writes(self) -> bool:
        """Whether this process writes the run and reports progress."""
        return self.rank == 0

    def shards(self, count: int) -> range:
        """Returns the shards that this process computes, of a batch with this number of shards."""
        return range(self.rank, count, self.count)

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replaces tensors by their sums over the processes, in place."""
        if self.count == 1 or not tensors:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        with _together():
            dist.all_reduce(flat)
        for tensor, part in zip(tensors, torch.split(flat, [tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def add_up_gradients(self, weights: Sequence[nn.Parameter], others: Sequence[Tensor]) -> None:
        """Adds up the gradients of weights, and other numbers; a weight without a gradient in any process has none afterwards."""
        if self.count == 1:
            return
        has = torch.tensor([weight.grad is not None for weight in weights], dtype=torch.float32, device=others[0].device)
        gradients = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in weights]
        self.add_up([*gradients, has, *others])
        for weight, gradient, processes in zip(weights, gradients, has.tolist(), strict=True):
            weight.grad = gradient if processes else None

    def add_up_rows(self, rows: Tensor, gradient: Tensor) -> RowGradient:
        """Adds up the gradients of rows, each named once, over the processes; returns all rows, ascending. (U,), (U, D)."""
        if self.count == 1:
            return rows, gradient
        sizes = [torch.zeros(1, dtype=torch.int64, device=rows.device) for _ in range(self.count)]
        with _together():
            dist.all_gather(sizes, torch.tensor([len(rows)], device=rows.device))
            counts = [int(size) for size in sizes]
            parts = zip(self._gathered(rows, max(counts)), self._gathered(gradient, max(counts)), counts, strict=True)
        return added_up([(of_process[:count], gradients[:count]) for of_process, gradients, count in parts])

    def _gathered(self, values: Tensor, most: int) -> list[Tensor]:
        """Returns the values of every process, padded to the length of the most."""
        padded = values.new_zeros(most, *values.shape[1:])
        padded[: len(values)] = values
        found = [torch.empty_like(padded) for _ in range(self.count)]
        dist.all_gather(found, padded)
        return found

    def agree(self, stop: bool, *of_first: float) -> tuple[bool, list[float]]:
        """Returns whether any process wants to stop, and numbers of the first one."""
        if self.count == 1:
            return stop, list(of_first)
        own = of_first if self.writes else [0.0] * len(of_first)
        numbers = torch.tensor([float(stop), *own], dtype=torch.float64, device=_device())
        with _together():
            dist.all_reduce(numbers)
        return bool(numbers[0]), numbers[1:].tolist()

    def wait(self) -> None:
        """Waits until all processes have reached this point."""
        self.agree(False)


ALONE = Processes()
"""A training in one process."""


@contextlib.contextmanager
def joined() -> Iterator[Processes]:
    """Joins the processes that ``torchrun`` started, until the block ends; without ``torchrun``, this is the only one."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield ALONE
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo", timeout=LONGEST_WAIT)
    try:
        yield Processes(dist.get_rank(), count, int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0)
    finally:
        dist.destroy_process_group()


def _device() -> torch.device:
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")


@contextlib.contextmanager
def _together() -> Iterator[None]:
    """Explains the error that torch raises if another process has ended."""
    try:
        yield
    except RuntimeError as error:
        raise TrainingError(
            f"another process of this training has ended ({str(error).splitlines()[0]}). The last checkpoint is intact: resume from it"
        ) from None
