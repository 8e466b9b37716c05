"""The trained rows of the paper's tables, as data: the differences between rows, in the paper and in ours.

A regime is the subject of a row: the shapes that are trained on, their form, and the number of layers. *As published* it has the
paper's hyper-parameters and loss. *Ours* is the preset ``starqe-fast`` in the same regime, and nothing else differs between the rows
of a table: so a difference between two rows comes from the regime, and not from two hyper-parameter searches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starqe.learn import Recipe, as_run, preset
from starqe.queries import SHAPES

Changes = Mapping[str, Mapping[str, Any]]
"""Other values of a recipe, by section and key."""

OURS = "starqe-fast"
"""The preset that all of our rows are based on."""


@dataclass(frozen=True)
class Regime:
    """How the model of a row is trained."""

    preset: str
    """The preset with the paper's hyper-parameters."""
    settings: Changes = field(default_factory=dict)
    """The settings of the regime, on top of `OURS`."""
    published: Changes = field(default_factory=dict)
    """The settings of the regime that the preset lacks."""
    weight: float = 1.0
    """The share of a budget: reified queries are three to four times as large, and fewer shapes or no layers need less."""


def _on_shapes(shapes: Sequence[str], epochs: int, **train: Any) -> dict[str, Any]:
    """Returns the training settings of a row about generalisation: the queries of its shapes, and nothing else.

    Auxiliary one-edge queries would drown a row of few shapes, and the paper has none. An epoch has all 1p queries of WD50K and as
    many of each other shape, so the number of epochs is the number of passes over 1p. The last weights count: the validation queries
    of the trained shapes say little about the others.
    """
    seen = {"shapes": list(shapes), "epochs": epochs, "queries_per_shape": 25_000, "validation_queries": 0}
    return {**seen, "one_hop": "none", "candidates": 4_096, **train}


_ALL_SHAPES = _on_shapes(tuple(SHAPES), 6)
_ZERO = {"layers": 0}
# Pooling is that of the paper's row. Rows of 1p alone weight messages by degrees: with one edge into each node, attention weights get no
# gradient. With intersections in training, attention is better on validation (EmQL-like: mean MRR 45.0 against 43.1).
_BY_DEGREE = {"weighting": "symmetric"}
_DIAMETER = {"model": {"steps": "diameter"}}
_ONE_MORE = {"model": {"steps": "diameter+1", "layers": 4}}

REGIMES: Mapping[str, Regime] = {
    "starqe-like": Regime("starqe", {"train": _ALL_SHAPES}),
    "triple-only": Regime("triple-only", {"train": {**_ALL_SHAPES, "variant": "triple-only"}}),
    # Reified, an anchor of 3p is six edges away from the target: only a sum over the nodes sees all of the query, as in the paper.
    "reification": Regime("reification", {"train": {**_ALL_SHAPES, "variant": "reified"}, "model": {"pooling": "sum"}}, weight=1.5),
    "zero-layers": Regime("zero-layers", {"train": _ALL_SHAPES, "model": {**_ZERO, "pooling": "sum-with-values"}}, weight=0.5),
    "zero-layers-relations": Regime(
        "zero-layers",
        {"train": _ALL_SHAPES, "model": {**_ZERO, "pooling": "sum-with-relations"}},
        published={"model": {"pooling": "sum-with-relations"}},
        weight=0.5,
    ),
    "q2b-like": Regime("q2b-like", {"train": _on_shapes(("1p", "2p", "3p", "2i", "3i"), 8), "model": {"pooling": "sum"}}, weight=0.75),
    "emql-like": Regime("emql-like", {"train": _on_shapes(("1p", "2i"), 18)}, weight=0.4),
    "mpqe-like": Regime("mpqe-like", {"train": _on_shapes(("1p",), 20), "model": _BY_DEGREE}, weight=0.25),
    "mpqe-like-reification": Regime(
        "mpqe-like-reification", {"train": _on_shapes(("1p",), 24, variant="reified"), "model": _BY_DEGREE}, weight=0.5
    ),
    # What reasons, and how its steps are chosen, is not a row of the paper: here auxiliary queries of one edge help.
    "starqe": Regime("starqe"),
    # The longest diameter of the seven shapes is 3: each step has its own layer, and a query stops at its own number of steps.
    "diameter": Regime("starqe", _DIAMETER, published=_DIAMETER),
    "diameter-plus-one": Regime("starqe", _ONE_MORE, published=_ONE_MORE),
}
"""The regimes, by the name of the run folder."""

ROWS: Mapping[str, Mapping[str, str]] = {
    "results": {"StarQE": "starqe-like", "Triple-Only": "triple-only", "Reification": "reification", "Zero Layers": "zero-layers"},
    "pooling": {"Zero Layers": "zero-layers", "Zero Layers + Relations": "zero-layers-relations"},
    "generalisation": {
        "StarQE-like": "starqe-like",
        "Q2B-like": "q2b-like",
        "EmQL-like": "emql-like",
        "MPQE-like": "mpqe-like",
        "MPQE-like + Reification": "mpqe-like-reification",
    },
    "anchors": {
        "Q2B-like": "q2b-like",
        "EmQL-like": "emql-like",
        "MPQE-like": "mpqe-like",
        "MPQE-like + Reification": "mpqe-like-reification",
    },
    "faithfulness": {"StarQE-like": "starqe-like", "MPQE-like": "mpqe-like"},
    "qualifiers": {"StarQE": "starqe-like"},
    "reasoning": {"encoder": "starqe"},
    "diameter": {"StarQE": "starqe", "Diameter": "diameter", "Diameter + 1": "diameter-plus-one"},
}
"""The trained rows of each table: the name of the row, and its regime. Rows with the same regime are the same model."""

TINY: Changes = {
    "model": {"width": 32, "heads": 4},
    "train": {
        "batch": 128,
        "queries_per_shape": 500,
        "pool_per_shape": 2000,
        "one_hop_per_direction": 500,
        "validation_queries": 20,
        "epochs": 2,
        "checkpoint_seconds": 1,
    },
}
"""Settings of a recipe that is small enough for a table of the embedded graph in seconds."""


def regime_recipe(regime: str, seed: int, as_published: bool = False, tiny: bool = False, as_authors_ran: bool = False) -> Recipe:
    """Returns the recipe of a regime: ours, the paper's, or the paper's as the authors' code ran it."""
    row = REGIMES[regime]
    begin, settings = (row.preset, row.published) if as_published or as_authors_ran else (OURS, row.settings)
    recipe = preset(begin).replace(seed=seed, **settings)
    recipe = as_run(recipe) if as_authors_ran else recipe
    return recipe.replace(**TINY) if tiny else recipe
