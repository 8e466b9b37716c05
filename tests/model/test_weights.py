"""The product of rows with a matrix, which is padded for the programs of oneDNN."""

import pytest
import torch

from starqe.learn.device import products_as
from starqe.model.weights import STEP, product


@pytest.mark.parametrize("rows", [0, 1, STEP - 1, STEP, STEP + 1])
def test_rows_of_zeros_change_neither_the_product_nor_its_gradients(rows):
    generator = torch.Generator().manual_seed(rows)
    left, right = (torch.randn(shape, generator=generator).requires_grad_() for shape in ((rows, 8), (8, 5)))
    with products_as("bfloat16"):
        found = product(left, right)
        found.sum().backward()
    # Numbers of 8 bits of mantissa: eight products of about 1, each off by at most 2^-8.
    torch.testing.assert_close(found, left @ right, atol=0.1, rtol=0)
    assert left.grad is not None
    assert left.grad.shape == left.shape
    torch.testing.assert_close(left.grad, right.sum(1).expand(rows, 8), atol=0.1, rtol=0)


def test_a_product_in_float32_is_as_torch_computes_it():
    left, right = torch.randn(STEP + 1, 8), torch.randn(8, 5)
    assert torch.equal(product(left, right), left @ right)
