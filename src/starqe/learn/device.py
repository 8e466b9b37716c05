"""Where models are: on the processor, or on CUDA."""

import torch

from starqe.errors import ConfigError
from starqe.learn.config import AnyRecipe


def training_device(recipe: AnyRecipe) -> torch.device:
    """Returns the device that a recipe names, for training.

    Raises:
        ConfigError: It names CUDA, and there is none.
    """
    if recipe.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device=cuda needs a CUDA device, and torch finds none. Set device=auto or device=cpu")
    return device_of(recipe)


def device_of(recipe: AnyRecipe) -> torch.device:
    """Returns the device that a trained model is used on: what its recipe names, if that exists here, else the processor."""
    return torch.device("cpu" if recipe.device == "cpu" or not torch.cuda.is_available() else "cuda")
