"""Initial values of parameters, from a given random generator and never from the global one."""

from abc import ABC
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

STEP = 256
"""Products in training have a multiple of this many rows or columns: for every new shape, oneDNN compiles a program."""
_BLOCK = 65_536  # rows that are converted at a time


class Weighted(nn.Module, ABC):
    """A part of a layer whose parameters are all matrices."""

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialises the parameters."""
        for values in self.parameters():
            xavier(values, generator)


def weight(*shape: int) -> nn.Parameter:
    """Makes a parameter that `reset_parameters` fills."""
    return nn.Parameter(torch.empty(*shape))


def product_settings() -> Any:
    """Returns the settings of products on the CPU; None in versions of torch that have none."""
    return getattr(torch.backends.mkldnn, "matmul", None)


def product(rows: Tensor, matrix: Tensor) -> Tensor:
    """Multiplies rows with a matrix. (n, D) @ (D, E) -> (n, E).

    With bfloat16, compiling a program for a new number of rows takes longer than the product. So rows of zeros are added, up to a
    multiple of `STEP`.
    """
    settings = product_settings()
    if settings is None or settings.fp32_precision != "bf16" or not (missing := -len(rows) % STEP):
        return rows @ matrix
    return (pad(rows, (0, 0, 0, missing)) @ matrix)[: len(rows)]


@torch.no_grad()
def xavier(values: Tensor, generator: torch.Generator) -> None:
    """Fills a matrix uniformly within ±sqrt(6 / (rows + columns)), which keeps the scale of its inputs."""
    bound = (6 / (values.shape[-2] + values.shape[-1])) ** 0.5
    values.uniform_(-bound, bound, generator=generator)


def xavier_normal(values: Tensor, generator: torch.Generator) -> None:
    """Fills a matrix with normal values of the deviation sqrt(2 / (rows + columns))."""
    normal(values, (2 / (values.shape[-2] + values.shape[-1])) ** 0.5, generator)


@torch.no_grad()
def normal(values: Tensor, deviation: float, generator: torch.Generator) -> None:
    """Fills a tensor with normal values around zero."""
    if values.dtype != torch.float16:
        values.normal_(0, deviation, generator=generator)
        return
    for block in torch.split(values, _BLOCK):  # the same numbers, rounded
        block.copy_(torch.empty(block.shape).normal_(0, deviation, generator=generator))
