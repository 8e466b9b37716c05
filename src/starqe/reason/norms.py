"""Triangular norms: how the truths of two conditions become the truth of both.

Each is associative, commutative and monotone, has 1 as its neutral element, and gives 0 where one side is 0. The executor
relies on nothing else, so a new norm is one function and one line of the table. A disjunction would be a table of
co-norms beside it, and a negation ``1 - a``.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

Norm = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""Takes two tensors that broadcast, and where to write (it may be one of them)."""


def product(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Gives ``a · b``: the conditions are independent, and every doubt counts."""
    return torch.mul(a, b, out=out)


def goedel(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Gives ``min(a, b)``: a chain is as strong as its weakest edge."""
    return torch.minimum(a, b, out=out)


def lukasiewicz(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Gives ``max(0, a + b - 1)``: doubts add up."""
    doubt = torch.maximum(a, b).neg_().add_(1)  # of the larger: a + b - 1, as it is written, would round small truths away
    return torch.minimum(a, b, out=out).sub_(doubt).clamp_min_(0)


NORMS: Mapping[str, Norm] = {"product": product, "goedel": goedel, "lukasiewicz": lukasiewicz}
