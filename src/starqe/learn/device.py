"""The device of models: the CPU, or CUDA."""

import contextlib
from collections.abc import Iterator
from typing import Literal

import torch

from starqe.errors import ConfigError
from starqe.learn.config import AnyRecipe
from starqe.model.weights import product_settings


def training_device(recipe: AnyRecipe) -> torch.device:
    """Returns the device of a recipe for training.

    Raises:
        ConfigError: It names CUDA, and there is none.
    """
    if recipe.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device=cuda needs a CUDA device, and torch finds none. Set device=auto or device=cpu")
    return device_of(recipe)


def device_of(recipe: AnyRecipe) -> torch.device:
    """Returns the device for using a trained model: that of its recipe if it exists on this machine, else the CPU."""
    return torch.device("cpu" if recipe.device == "cpu" or not torch.cuda.is_available() else "cuda")


def has_short_products() -> bool:
    """Returns whether this processor multiplies bfloat16 faster than float32, and this torch can be told to."""
    tests = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return product_settings() is not None and any(test() for test in tests if test)


@contextlib.contextmanager
def products_as(wanted: Literal["float32", "bfloat16"]) -> Iterator[None]:
    """Computes products of float32 on the CPU with inputs rounded to bfloat16, if that is wanted and the processor has it; else exactly.

    Sums and results are float32 all the same, so that nothing else changes. Products that begin in a backward pass are included.
    """
    if (settings := product_settings()) is None:
        yield
        return
    before = settings.fp32_precision
    settings.fp32_precision = "bf16" if wanted == "bfloat16" and has_short_products() else "ieee"
    try:
        yield
    finally:
        settings.fp32_precision = before
