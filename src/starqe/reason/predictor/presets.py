"""Recipes of one-hop predictors by name, and recipes of every kind of model by name or file."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starqe.config import read_toml
from starqe.errors import ConfigError
from starqe.learn.config import AnyRecipe, Recipe
from starqe.learn.presets import PRESETS, preset
from starqe.reason.predictor.config import PredictorRecipe

_LINKS = {"weigh": "statements", "merge": 8, "candidates": 4_096}
_FAST_EMBEDDINGS = {**_LINKS, "embedding_rate": 10.0}
_ENDS_ONLY = {"value_share": 0.0, "relation_share": 0.0}

# Short initial embeddings, a high rate for them, and a penalty that keeps them small: on WD50K, 24.8 instead of 14.2 after a few minutes.
_ONE_HOP = {"architecture": "complex", "knots": 32, "initial_length": 0.03, "dropout": 0.1, "input_dropout": 0.1}
_SMALL_NUMBERS = {**_LINKS, "learning_rate": 3e-2, "penalty": 0.04, "rules": True}

PREDICTORS: Mapping[str, dict[str, Any]] = {
    "one-hop": {"model": _ONE_HOP, "train": _SMALL_NUMBERS},
    # Three models side by side: on WD50K, 2 points more than one of them after the same time (docs/results.md).
    "one-hop-averaged": {
        "model": {**_ONE_HOP, "width": 576, "members": 3},
        "train": {**_SMALL_NUMBERS, "batch": 1_024, "products": "bfloat16"},
    },
    "one-hop-transformer": {"model": {"initial_length": 0.1}, "train": _FAST_EMBEDDINGS},
    "one-hop-stare": {
        "model": {"architecture": "stare", "initial_length": 0.1, "dropout": 0.3, "input_dropout": 0.1},
        "train": {**_FAST_EMBEDDINGS, **_ENDS_ONLY},
    },
    "one-hop-demo": {"model": _ONE_HOP, "train": {**_SMALL_NUMBERS, "merge": 1, "batch": 128, "epochs": 20, "average": 0.99}},
}
"""Name -> the values of a `PredictorRecipe` that differ from the defaults."""

RECIPES: Mapping[str, type[AnyRecipe]] = {"encoder": Recipe, "predictor": PredictorRecipe}
"""The recipes, by the kind of model."""


def recipe_of(name: str) -> AnyRecipe:
    """Returns the recipe of a preset of any kind.

    Raises:
        ConfigError: There is no preset of this name.
    """
    if name in PREDICTORS:
        return PredictorRecipe.parse(PREDICTORS[name])
    if name not in PRESETS:
        raise ConfigError(f"presets are {', '.join([*PRESETS, *PREDICTORS])}; found '{name}'")
    return preset(name)


def read_recipe(path: Path) -> AnyRecipe:
    """Reads a recipe of any kind from a TOML file: its key ``kind`` says which; the default is an encoder.

    Raises:
        ConfigError: The file is missing, not TOML, or has a key or value that is not valid for its kind.
    """
    try:
        kind = tomllib.loads(path.read_text(encoding="utf-8")).get("kind", "encoder")
    except (OSError, ValueError):
        kind = "encoder"  # parsing it as a recipe reports the error
    if kind not in RECIPES:
        raise ConfigError(f"{path}: the kind of a recipe is one of {', '.join(RECIPES)}, found {kind!r}")
    return read_toml(path, RECIPES[kind])
