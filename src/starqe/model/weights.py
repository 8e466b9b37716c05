"""Initial values of parameters, from a given random generator and never from the global one."""

from abc import ABC

import torch
from torch import Tensor, nn

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
