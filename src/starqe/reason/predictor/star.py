"""The encoder of whole queries as a predictor: a statement with a missing end is a query of one edge."""

import numpy as np
import torch
from torch import Tensor

from starqe.model import Encoder, ModelConfig, Space, collate
from starqe.model.embedding import MakeTable
from starqe.model.space import Blocks
from starqe.model.weights import weight
from starqe.queries.gaps import HEAD, TAIL, Gaps, queries_of
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
        of_position = [np.flatnonzero(gaps.position == position) for position in (TAIL, HEAD)]
        parts = [(queries_of(gaps.take(rows)), np.arange(len(rows))) for rows in of_position if len(rows)]
        vectors: Tensor = self.encoder(collate(parts, self.encoder.space).to(self.device), noise)
        back = np.argsort(np.concatenate(of_position))
        return vectors.index_select(0, torch.from_numpy(back).to(self.device))

    @property
    def blocks(self) -> dict[str, Blocks]:
        """The parameters with a row for each entity or relation, by name."""
        return {f"encoder.{name}": blocks for name, blocks in self.encoder.blocks.items()}

    def entity_matrix(self) -> Tensor:
        """Returns the input embeddings of the entities. (V, D)."""
        return self.encoder.entity_matrix()
