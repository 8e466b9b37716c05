"""The architectures of one-hop predictors, by name."""

from collections.abc import Callable, Mapping

from starqe.model.embedding import MakeTable
from starqe.model.weights import weight
from starqe.reason.predictor.complex import ComplEx
from starqe.reason.predictor.config import PredictorConfig
from starqe.reason.predictor.predictor import Predictor
from starqe.reason.predictor.scales import Scales
from starqe.reason.predictor.star import StarE
from starqe.reason.predictor.transformer import Transformer

ARCHITECTURES: Mapping[str, Callable[..., Predictor]] = {
    "transformer": Transformer,
    "stare": StarE,
    "complex": ComplEx,
}
"""Name -> the function that makes a predictor from its configuration, the numbers of entities and relations, a seed, and its table."""


def new_predictor(
    config: PredictorConfig, entities: int, relations: int, seed: int, scales: Scales | None = None, table: MakeTable = weight
) -> Predictor:
    """Makes a predictor with its initial weights; with scales, it knows numbers and dates too."""
    if scales is not None:
        return ComplEx(config, entities, relations, seed, scales, table)
    return ARCHITECTURES[config.architecture](config, entities, relations, seed, table=table)
