"""The input embedding, with one dense gradient that is filled in place.

The embedding is by far the largest parameter, and its gradient comes from two places: the scores against the entities, which are
dense, and the nodes of the queries, which are few rows. Autograd would make a dense matrix for each and add them; here both
write into ``.grad`` itself. So this gradient comes from ``backward()``, not from ``torch.autograd.grad``.
"""

from typing import Any

import torch
from torch import Tensor, nn

from starqe.model.noise import drop
from starqe.model.weights import normal, weight


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, index: Tensor) -> Tensor:
        ctx.matrix, ctx.index = matrix, index
        return matrix.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None]:
        spread_gradient(ctx.matrix, ctx.index, gradients[0])
        return None, None


class InputEmbedding(nn.Module):
    """One row for each entity, then for each relation node and special symbol."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.weight = weight(rows, width)

    def reset_parameters(self, generator: torch.Generator, length: float = 1.0) -> None:
        """Initialises rows with about this length: up to 1, dot products start small next to the logarithm of the number of entities."""
        normal(self.weight, length * self.weight.shape[1] ** -0.5, generator)

    def forward(self, index: Tensor, dropout: float, noise: torch.Generator | None) -> Tensor:
        """Returns the rows of nodes. (N,) -> (N, D)."""
        rows: Tensor = _Rows.apply(self.weight, index)  # type: ignore[no-untyped-call]
        return drop(rows, dropout, noise)


def adopt_gradient(matrix: Tensor, gradient: Tensor, factor: float) -> None:
    """Adds ``factor * gradient`` to the gradient of a parameter or of its leading rows, without a copy where there was none.

    Args:
        matrix: A leaf, or a view of the leading rows of one.
        gradient: As many rows as the leaf; the rows after those of the matrix are zero. If the leaf has no gradient yet, this
            tensor becomes it.
        factor: The upstream gradient.
    """
    leaf = leaf_of(matrix)
    if leaf.grad is None:
        leaf.grad = gradient if factor == 1 else gradient.mul_(factor)
    else:
        leaf.grad.add_(gradient, alpha=factor)


def spread_gradient(matrix: Tensor, index: Tensor, gradient: Tensor) -> None:
    """Adds the gradient of some rows, possibly repeated, to that of a parameter or of its leading rows. (N,), (N, D)."""
    leaf = leaf_of(matrix)
    if leaf.grad is None:
        leaf.grad = torch.zeros_like(leaf)
    leaf.grad.index_add_(0, index, gradient)


def leaf_of(matrix: Tensor) -> Tensor:
    """Returns the leaf of a matrix: itself, or the parameter whose leading rows it views."""
    leaf = matrix if matrix._base is None else matrix._base
    assert leaf.is_leaf, "not a view of a parameter"
    assert (leaf.data_ptr(), leaf.stride()) == (matrix.data_ptr(), matrix.stride()), "not the leading rows of a parameter"
    return leaf
