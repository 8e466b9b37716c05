"""The recipes of a fit: what is trained, by the size of the graph and the time there is."""

from collections.abc import Iterable

from starqe.learn import Recipe, preset
from starqe.reason.predictor.config import PredictorRecipe
from starqe.reason.predictor.presets import PREDICTORS

TRAINING, TRAINING_PER_MINUTE, TRAINING_LEAST = 20_000, 2_000, 1_000
"""The number of training queries per shape: at most, per minute of a shorter fit, and at least."""
SMALL = 5_000
"""Graphs with fewer entities train with smaller batches: they have fewer queries, and need as many steps."""
AVERAGED, AVERAGED_MINUTES = 60_000, 15
"""The most entities and the fewest minutes for which the one-hop predictor averages three models. They triple the cost of comparing
a vector with all entities."""
LARGE = 200_000
"""Graphs with more entities train narrower embeddings, row by row, with other queries in every epoch."""
QUICK_MINUTES = 40
"""Fits that take no longer train the encoder with a higher rate and less dropout."""
_SMALL_STEPS = ("train.batch=128", "train.average=0.99")
_LARGE_ROWS = ("model.width=64", "train.optimizer=rows")
_ONE_HOP_OF_LARGE = ("train.questions_per_epoch=2000000", "train.batch=1024", "train.candidates=1024")
"""It is validated after each epoch, and with fewer negatives it learns more questions."""


def training_queries(minutes: float) -> int:
    """Returns the number of training queries per shape for a fit of this length."""
    return max(TRAINING_LEAST, min(TRAINING, round(TRAINING_PER_MINUTE * minutes)))


def recipes_for(entities: int, shapes: Iterable[str], seed: int, minutes: float) -> tuple[Recipe, PredictorRecipe]:
    """Chooses the recipes of encoder and one-hop predictor that suit the number of entities and the time."""
    names = ", ".join(f'"{shape}"' for shape in shapes)
    drawn = [f"seed={seed}", f"train.shapes=[{names}]", f"train.varied_per_shape={training_queries(minutes)}"]
    name, encoder, one_hop = "one-hop", [], []
    if entities < SMALL:
        encoder, one_hop = [*_SMALL_STEPS, "train.learning_rate=2e-3"], [*_SMALL_STEPS]
    elif entities > LARGE:
        encoder, one_hop = [*_LARGE_ROWS, "train.redraw=true"], [*_LARGE_ROWS, *_ONE_HOP_OF_LARGE]
    elif entities <= AVERAGED and minutes >= AVERAGED_MINUTES:
        name = "one-hop-averaged"
    quick = SMALL <= entities <= LARGE and minutes <= QUICK_MINUTES
    return (
        preset("starqe-quick" if quick else "starqe-ask").with_settings([*encoder, *drawn]),
        PredictorRecipe.parse(PREDICTORS[name]).with_settings([*one_hop, f"seed={seed}"]),
    )
