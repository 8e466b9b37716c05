"""Presets: recipes by name.

The eight of the paper have the hyper-parameters of its table. Loss, number of queries and stopping, which are not in the table, are those
of the authors' training: binary cross-entropy, at most 40,000 queries per shape, patience 5 with a relative delta of 0.02.
"""

from collections.abc import Mapping
from typing import Any

from starqe.errors import ConfigError
from starqe.learn.config import Recipe


def _published(model: dict[str, Any], **train: Any) -> dict[str, Any]:
    usual = {"input_dropout": 0.0, "edge_composition": "multiply", "pair_composition": "multiply", "qualification": "sum"}
    trained = {
        "loss": "binary",
        "smoothing": 0.0,
        "schedule": "constant",
        "warmup": 0.0,
        "one_hop": "none",
        "queries_per_shape": 40_000,
        "pool_per_shape": 40_000,
        "validation_queries": 3_500,
        "patience": 5,
        "delta": 0.02,
        "epochs": 1_000,
    }
    return {"model": {**usual, **model}, "train": {**trained, **train}}


_STARQE = {
    "width": 192,
    "layers": 3,
    "activation": "leaky-relu",
    "pooling": "target",
    "weighting": "attention",
    "similarity": "dot",
    "bias": True,
}
_REIFICATION = {
    "width": 224,
    "layers": 2,
    "activation": "relu",
    "pooling": "sum",
    "weighting": "attention",
    "similarity": "power-norm",
    "bias": True,
    "dropout": 0.3,
}
_ZERO = {
    "width": 160,
    "layers": 0,
    "activation": "relu",
    "pooling": "sum-with-values",
    "weighting": "symmetric",
    "similarity": "power-norm",
    "bias": False,
    "dropout": 0.3,
}
_MPQE = {"layers": 3, "pooling": "target", "similarity": "dot", "bias": False}

# Batch norm is in the authors' code, not in the paper: with it, one epoch on WD50K-QE is worth three without. Starting with
# short embeddings is worth another 4 points of MRR after two epochs: 63.8 against 59.2. Letting them learn faster than the layers
# pays for more dropout.
_FAST = {**_STARQE, "batch_norm": True, "initial_length": 0.1, "dropout": 0.35, "input_dropout": 0.3}
_FAST_TRAIN = {"average": 0.999, "one_hop": "varied", "embedding_rate": 3.0}

PRESETS: Mapping[str, dict[str, Any]] = {
    # The columns of the paper's table of hyper-parameters.
    "starqe": _published({**_STARQE, "dropout": 0.5}, learning_rate=0.0007741, batch=64),
    "reification": _published(_REIFICATION, learning_rate=0.003768, batch=32, variant="reified"),
    "triple-only": _published(_REIFICATION, learning_rate=0.007253, batch=32, variant="triple-only"),
    "zero-layers": _published(_ZERO, learning_rate=0.0008733, batch=64),
    "mpqe-like": _published(
        {**_MPQE, "width": 128, "activation": "prelu", "weighting": "attention", "dropout": 0.5},
        learning_rate=0.0005256,
        batch=128,
        shapes=("1p",),
    ),
    "mpqe-like-reification": _published(
        {**_MPQE, "width": 96, "activation": "relu", "weighting": "symmetric", "dropout": 0.2},
        learning_rate=0.0001414,
        batch=32,
        shapes=("1p",),
        variant="reified",
    ),
    "emql-like": _published(
        {**_MPQE, "width": 256, "activation": "leaky-relu", "weighting": "symmetric", "dropout": 0.3},
        learning_rate=0.007253,
        batch=128,
        shapes=("1p", "2i"),
    ),
    "q2b-like": _published(
        {
            "width": 224,
            "layers": 3,
            "activation": "leaky-relu",
            "pooling": "sum",
            "weighting": "attention",
            "similarity": "power-norm",
            "dropout": 0.1,
        },
        learning_rate=0.002075,
        batch=32,
        shapes=("1p", "2p", "3p", "2i", "3i"),
    ),
    # Ours.
    "starqe-fast": {"model": _FAST, "train": _FAST_TRAIN},
    "starqe-ask": {"model": _FAST, "train": {**_FAST_TRAIN, "varied_per_shape": 60_000, "candidates": 4_096}},
    # For about ten minutes: a higher rate, less dropout, a shorter average and shorter epochs (docs/performance.md).
    "starqe-quick": {
        "model": {**_FAST, "dropout": 0.2, "input_dropout": 0.15},
        "train": {
            **_FAST_TRAIN,
            "varied_per_shape": 60_000,
            "candidates": 4_096,
            "learning_rate": 2e-3,
            "average": 0.998,
            "products": "bfloat16",
            "queries_per_shape": 10_000,
            "one_hop_per_direction": 20_000,
        },
    },
    "demo": {
        "model": {**_STARQE, "width": 128, "dropout": 0.3, "input_dropout": 0.1},
        "train": {
            "batch": 128,
            "learning_rate": 2e-3,
            "queries_per_shape": 2_000,
            "epochs": 10,
            "average": 0.99,
            "validation_queries": 200,
        },
    },
}
"""Name -> the values of a `Recipe` that differ from the defaults."""


def as_run(recipe: Recipe) -> Recipe:
    """Returns a recipe of the paper as the authors' code ran it, where the paper's table is silent.

    Batch norm in every layer; embeddings that begin by Xavier's rule; sums over the nodes that include qualifier values; messages
    weighted by the sum of undirected degrees, or by one attention vector for both directions; no partial batches; and the weights
    of the last validation that gained delta in Hits@10, pooled over all answers.
    """
    model = recipe.model
    ran = {"symmetric": "degree-sum", "attention": "shared-attention", "sum": "sum-with-values"}
    changed = {"weighting": ran.get(model.weighting, model.weighting), "pooling": ran.get(model.pooling, model.pooling)}
    stopped = {"choose_by": "pooled Hits@10", "keep": "gained", "drop_last": True}
    return recipe.replace(model={**changed, "batch_norm": True, "initial": "xavier"}, train=stopped)


def preset(name: str) -> Recipe:
    """Returns the recipe of a preset.

    Raises:
        ConfigError: There is no preset of this name.
    """
    if name not in PRESETS:
        raise ConfigError(f"presets are {', '.join(PRESETS)}; found '{name}'")
    return Recipe.parse(PRESETS[name])
