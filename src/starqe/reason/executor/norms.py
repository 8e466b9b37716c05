"""Triangular norms and their duals: how the truths of two conditions become the truth of both, or of either.

Each norm is associative, commutative and monotone, has 1 as its neutral element, and gives 0 where one side is 0. The executor
relies on nothing else, so a new norm is two functions and one line of the table. The dual of a norm is ``1 - norm(1 - a, 1 - b)``.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

Norm = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""Takes two tensors that broadcast, and where to write (it may be one of them)."""


def product(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Returns ``a · b``: the conditions are independent, and every doubt counts."""
    return torch.mul(a, b, out=out)


def goedel(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Returns ``min(a, b)``: a chain is as strong as its weakest edge."""
    return torch.minimum(a, b, out=out)


def lukasiewicz(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Returns ``max(0, a + b - 1)``: doubts add up."""
    doubt = torch.maximum(a, b).neg_().add_(1)  # of the larger one; a + b - 1 as written would round small truths away
    return torch.minimum(a, b, out=out).sub_(doubt).clamp_min_(0)


def probabilistic_sum(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Returns ``a + b - a · b``, the dual of the product."""
    return torch.add(b, torch.rsub(b, 1) * a, out=out)


def maximum(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Returns ``max(a, b)``, the dual of the minimum."""
    return torch.maximum(a, b, out=out)


def bounded_sum(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Returns ``min(1, a + b)``, the dual of the Łukasiewicz norm."""
    return torch.add(a, b, out=out).clamp_max_(1)


NORMS: Mapping[str, Norm] = {"product": product, "goedel": goedel, "lukasiewicz": lukasiewicz}
DUALS: Mapping[str, Norm] = {"product": probabilistic_sum, "goedel": maximum, "lukasiewicz": bounded_sum}
"""The dual of each norm: how the truths of two conditions become the truth of either."""
