"""The rows of the paper's tables that are trained, as data: what differs from row to row, in the paper and in ours.

A regime is what the paper's row is about: which shapes are trained on, in which form, by how many layers. *As published* it has the
paper's hyper-parameters and loss. *Ours* is the preset ``starqe-fast`` in the same regime, and nothing else differs from row
to row: so a difference between two rows is the regime's, and not that of two searches for hyper-parameters.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from starqe.learn import Recipe, preset

OURS = "starqe-fast"
"""The preset that every row of ours begins with."""


@dataclass(frozen=True)
class Regime:
    """How the model of a row is trained."""

    preset: str
    """The preset with the paper's hyper-parameters."""
    settings: tuple[str, ...] = ()
    """What makes the regime, as settings on top of `OURS`."""
    published: tuple[str, ...] = ()
    """What the preset lacks of the regime, as settings on top of it."""
    weight: float = 1.0
    """The share of a budget: reified queries are three to four times as large, and fewer shapes or no layers need less."""


_ONE_MORE = ("model.steps=diameter+1", "model.layers=4")

REGIMES: Mapping[str, Regime] = {
    "starqe": Regime("starqe"),
    "triple-only": Regime("triple-only", ("train.variant=triple-only",)),
    # Reified, an anchor of 3p is six edges away from the target: only a sum over the nodes sees all of the query, as in the paper.
    "reification": Regime("reification", ("train.variant=reified", "model.pooling=sum"), weight=1.5),
    "zero-layers": Regime("zero-layers", ("model.layers=0", "model.pooling=sum-with-values"), weight=0.5),
    "q2b-like": Regime("q2b-like", ('train.shapes=["1p", "2p", "3p", "2i", "3i"]',)),
    "emql-like": Regime("emql-like", ('train.shapes=["1p", "2i"]',), weight=0.5),
    "mpqe-like": Regime("mpqe-like", ('train.shapes=["1p"]',), weight=0.5),
    "mpqe-like-reification": Regime("mpqe-like-reification", ('train.shapes=["1p"]', "train.variant=reified"), weight=0.75),
    # The longest diameter of the seven shapes is 3: each step has its own layer, and a query stops at its own number of steps.
    "diameter": Regime("starqe", ("model.steps=diameter",), published=("model.steps=diameter",)),
    "diameter-plus-one": Regime("starqe", _ONE_MORE, published=_ONE_MORE),
}
"""The regimes, by the name of the run folder."""

ROWS: Mapping[str, Mapping[str, str]] = {
    "results": {"StarQE": "starqe", "Triple-Only": "triple-only", "Reification": "reification", "Zero Layers": "zero-layers"},
    "generalisation": {
        "StarQE-like": "starqe",
        "Q2B-like": "q2b-like",
        "EmQL-like": "emql-like",
        "MPQE-like": "mpqe-like",
        "MPQE-like + Reification": "mpqe-like-reification",
    },
    "faithfulness": {"StarQE-like": "starqe", "MPQE-like": "mpqe-like"},
    "qualifiers": {"StarQE": "starqe"},
    "reasoning": {"encoder": "starqe"},
    "diameter": {"StarQE": "starqe", "Diameter": "diameter", "Diameter + 1": "diameter-plus-one"},
}
"""The trained rows of each table: the name of the row, and its regime. Rows with the same regime are the same model."""

TINY = (
    "model.width=32",
    "model.heads=4",
    "train.batch=128",
    "train.queries_per_shape=500",
    "train.pool_per_shape=2000",
    "train.one_hop_per_direction=500",
    "train.validation_queries=20",
    "train.epochs=2",
    "train.checkpoint_seconds=1",
)
"""What makes a recipe so small that a table of the embedded graph takes seconds."""


def regime_recipe(regime: str, seed: int, as_published: bool = False, tiny: bool = False) -> Recipe:
    """Gives the recipe of a regime: the paper's, or ours."""
    row = REGIMES[regime]
    begin, settings = (row.preset, row.published) if as_published else (OURS, row.settings)
    return preset(begin).with_settings([*settings, *(TINY if tiny else ()), f"seed={seed}"])
