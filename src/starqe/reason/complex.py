"""A product of complex numbers, with the qualifiers in the relation."""

import numpy as np
import torch
from torch import Tensor

from starqe.model.compose import complex_multiply
from starqe.model.embedding import InputEmbedding
from starqe.model.noise import drop
from starqe.model.segment import segment_sum
from starqe.model.weights import normal, weight, xavier
from starqe.reason.config import PredictorConfig
from starqe.reason.gaps import HEAD, Gaps
from starqe.reason.predictor import Predictor
from starqe.seed import derive


class ComplEx(Predictor):
    """Multiplies the given end by the qualified relation, in complex numbers (ComplEx, with a relation for each direction).

        h_q = E[value] R[relation]                       for every qualifier pair
        r'  = R[r] + W_q Σ h_q                           with the inverse row of r where the head is missing
        vector = E[given end] r'

    The dot product of the vector with an entity e is the real part of  E[given end] r' conj(E[e]).
    """

    positions = ("head", "tail")

    def __init__(self, config: PredictorConfig, entities: int, relations: int, seed: int) -> None:
        super().__init__(config, entities, relations)
        self.embedding = InputEmbedding(entities, config.width)
        self.relation_embedding = weight(2 * relations, config.width)
        self.pair_weight = weight(config.width, config.width)
        self.reset_parameters(torch.Generator().manual_seed(derive(seed, "model parameters")))

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draws every parameter; relations of unit size keep the scale of the entities."""
        self.embedding.reset_parameters(generator, self.config.initial_length)
        normal(self.relation_embedding, 1.0, generator)
        xavier(self.pair_weight, generator)

    def vectors(self, gaps: Gaps, noise: torch.Generator | None) -> Tensor:
        """Gives the vector of each gap. (B, D)."""
        backward = gaps.position == HEAD
        given = np.where(backward, gaps.tail, gaps.head)
        nodes = self.embedding(self._index(np.concatenate([given, gaps.pair_value])), self.config.input_dropout, noise)
        end, value = nodes.tensor_split([len(gaps)])
        relation = self.relation_embedding.index_select(0, self._index(gaps.relation + backward * self.relations))  # (B, D)
        key = self.relation_embedding.index_select(0, self._index(gaps.pair_relation))  # (Q, D)
        pairs = segment_sum(complex_multiply(value, key), self._index(gaps.owner), len(gaps))  # (B, D)
        return drop(complex_multiply(end, relation + pairs @ self.pair_weight), self.config.dropout, noise)

    def entity_matrix(self) -> Tensor:
        """Gives the embeddings of the entities. (V, D)."""
        return self.embedding.weight[: self.entities]

    def _index(self, ids: np.ndarray) -> Tensor:
        return torch.from_numpy(ids.astype(np.int64)).to(self.device)
