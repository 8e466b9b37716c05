"""The input embedding, with one dense gradient that is filled in place, or with a gradient of the rows that a batch touches.

The embedding is by far the largest parameter, and its gradient comes from two places: the scores against the entities, which are
dense, and the nodes of the queries, which are few rows. Autograd would make a dense matrix for each and add them; here both
write into ``.grad`` itself. So this gradient comes from ``backward()``, not from ``torch.autograd.grad``.

A `Table` has no dense gradient: with sampled negatives a batch touches few of its rows, and only their gradients are kept.
"""

import os
import tempfile
from collections.abc import Callable, Sequence
from mmap import mmap
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from starqe.model.noise import drop
from starqe.model.weights import normal, weight

RowGradient = tuple[Tensor, Tensor]
"""Rows of a table, and their gradients: (U,), (U, D)."""


class Table(nn.Parameter):
    """An embedding of float16 rows that is trained row by row: it collects the gradients of the rows that batches touch.

    Arithmetic is float32: rows are converted when they are read, and rounded at random when they are written, since most updates are
    smaller than half the distance to the next float16.
    """

    parts: list[RowGradient]
    """What `backward` finds; rows may be repeated."""

    def gradient(self) -> RowGradient:
        """Returns the gradients of the rows that were touched, and forgets them."""
        parts, self.parts = self.parts, []
        return (
            added_up(parts) if parts else (torch.empty(0, dtype=torch.int64, device=self.device), self.new_empty(0, self.shape[1]).float())
        )


def added_up(parts: Sequence[RowGradient]) -> RowGradient:
    """Adds up the gradients of rows that occur several times, in the order of the parts."""
    rows, place = torch.unique(torch.cat([index for index, _ in parts]), return_inverse=True)
    gradients = torch.cat([gradient for _, gradient in parts])
    return rows, gradients.new_zeros(len(rows), gradients.shape[1]).index_add_(0, place, gradients)


MakeTable = Callable[[int, int], nn.Parameter]
"""Makes the parameter of an embedding, to be filled: its number of rows and its width."""


def table(rows: int, width: int, folder: Path | None = None) -> Table:
    """Makes a `Table`: in memory, or mapped from a file without a name in a folder, which the system can write out when memory is short."""
    if folder is None:
        values = torch.empty(rows, width, dtype=torch.float16)
    else:
        with tempfile.TemporaryFile(dir=folder) as file:  # it never has a name on Linux, so that a kill leaves nothing behind
            os.posix_fallocate(file.fileno(), 0, 2 * rows * width)  # refuses now if the disk is full
            values = torch.frombuffer(mmap(file.fileno(), 2 * rows * width), dtype=torch.float16).view(rows, width)
    made = Table(values)
    made.parts = []
    return made


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, index: Tensor) -> Tensor:
        ctx.matrix, ctx.index = matrix, index
        rows = matrix.index_select(0, index)
        return rows.float() if isinstance(matrix, Table) else rows

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None]:
        spread_gradient(ctx.matrix, ctx.index, gradients[0])
        return None, None


class InputEmbedding(nn.Module):
    """One row for each entity, then for each relation node and special symbol."""

    def __init__(self, rows: int, width: int, make: MakeTable = weight) -> None:
        super().__init__()
        self.weight = make(rows, width)

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
    if isinstance(leaf, Table):
        leaf.parts.append((index, gradient))
        return
    if leaf.grad is None:
        leaf.grad = torch.zeros_like(leaf)
    leaf.grad.index_add_(0, index, gradient)


def leaf_of(matrix: Tensor) -> Tensor:
    """Returns the leaf of a matrix: itself, or the parameter whose leading rows it views."""
    leaf = matrix if matrix._base is None else matrix._base
    assert leaf.is_leaf, "not a view of a parameter"
    assert (leaf.data_ptr(), leaf.stride()) == (matrix.data_ptr(), matrix.stride()), "not the leading rows of a parameter"
    return leaf
