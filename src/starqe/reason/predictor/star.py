"""The encoder of whole queries as a predictor: a statement with a missing end is a query of one edge."""

import torch
from torch import Tensor

from starqe.model import Encoder, ModelConfig, Space, collate
from starqe.model.embedding import MakeTable
from starqe.model.space import Blocks
from starqe.model.weights import weight
from starqe.queries.gaps import HEAD, TAIL, Gaps, queries_by_side
from starqe.reason.predictor.config import PredictorConfig
from starqe.reason.predictor.predictor import Predictor


class StarE(Predictor):
    """Passes messages over the one edge (`starqe.model.Encoder`), with batch norm, which helps a lot for such small queries."""

    positions = ("head", "tail")

    def __init__(self, config: PredictorConfig, entities: int, relations: int, seed: int, table: MakeTable = weight) -> None:
        super().__init__(config, entities, relations)
        same = {key: getattr(config, key) for key in ("width", "layers", "initial_length", "dropout", "input_dropout")}
        # A node of one edge receives one message, so attention over messages would have no effect.
        model = ModelConfig.parse({**same, "batch_norm": True, "weighting": "symmetric"})
        self.encoder = Encoder(model, Space(entities, relations), seed, table)

    def vectors(self, gaps: Gaps, noise: torch.Generator | None) -> Tensor:
        """Computes the query vectors. (B, D)."""
        parts, order = queries_by_side(gaps, (TAIL, HEAD))
        vectors: Tensor = self.encoder(collate(parts, self.encoder.space).to(self.device), noise)
        return vectors.index_select(0, torch.from_numpy(order).to(self.device))

    @property
    def blocks(self) -> dict[str, Blocks]:
        """The parameters with a row for each entity or relation, by name."""
        return {f"encoder.{name}": blocks for name, blocks in self.encoder.blocks.items()}

    def entity_matrix(self) -> Tensor:
        """Returns the input embeddings of the entities. (V, D)."""
        return self.encoder.entity_matrix()
