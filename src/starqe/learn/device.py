"""The device of models: the CPU, or CUDA."""

import torch

from starqe.errors import ConfigError
from starqe.learn.config import AnyRecipe, Recipe


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


def shortens(recipe: Recipe) -> bool:
    """Returns whether products of a training are computed in bfloat16 on the CPU: if the recipe wants it, and the processor has it."""
    tests = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return recipe.train.products == "bfloat16" and any(test() for test in tests if test)
