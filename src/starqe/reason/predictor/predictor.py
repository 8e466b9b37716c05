"""The interface of one-hop predictors: a model that maps a statement with a gap to a vector."""

from abc import abstractmethod
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from starqe.errors import UnsupportedError
from starqe.model.space import Blocks
from starqe.queries.gaps import POSITIONS, Gaps
from starqe.ragged import IntArray
from starqe.reason.predictor.config import ASKS_VALUES_AND_RELATIONS, PredictorConfig
from starqe.reason.predictor.scales import Scales


class Predictor(nn.Module):
    """Maps every statement with a gap to a vector; what fits into the gap has a large dot product with it.

    B statements · Q pairs · V entities · D width. The same seed gives the same parameters.
    """

    positions: ClassVar[tuple[str, ...]]
    """The supported positions of the gap."""

    def __init__(self, config: PredictorConfig, entities: int, relations: int, scales: Scales | None = None) -> None:
        super().__init__()
        self.config, self.entities, self.relations = config, entities, relations
        self.scales = scales
        """The scales of numbers and dates that the model knows; None if it knows entities only."""

    @abstractmethod
    def vectors(self, gaps: Gaps, noise: torch.Generator | None) -> Tensor:
        """Computes the vectors of valid statements. (B, D)."""

    @abstractmethod
    def entity_matrix(self) -> Tensor:
        """Returns the candidates for a head, a tail or a value: the leading rows of a parameter. (V, D)."""

    @property
    @abstractmethod
    def blocks(self) -> dict[str, Blocks]:
        """The parameters with a row for each entity or relation, by name."""

    def relation_matrix(self) -> Tensor:
        """Returns the candidates for a relation: the leading rows of a parameter. (relations, D).

        Raises:
            UnsupportedError: The architecture cannot be asked for relations.
        """
        raise self._refusal("relation")

    def number_logits(self, vectors: Tensor, scales: IntArray) -> Tensor:  # noqa: ARG002
        """Returns the logits of the knots of some scales, one scale after the other. (B, D) -> (B, knots).

        Raises:
            UnsupportedError: The architecture has no scales.
        """
        raise UnsupportedError(
            f"the architecture '{self.config.architecture}' predicts no numbers. Train one with model.architecture=complex"
        )

    def penalty(self, gaps: Gaps, noise: torch.Generator) -> Tensor:  # noqa: ARG002
        """Returns the penalty on large embeddings, a mean over statements with their answers. ().

        Raises:
            UnsupportedError: The architecture has no such penalty.
        """
        raise UnsupportedError(f"the architecture '{self.config.architecture}' has no penalty. Set train.penalty=0")

    def forward(self, gaps: Gaps, noise: torch.Generator | None = None) -> Tensor:
        """Computes the vectors: with noise in training (dropout, batch statistics), without in evaluation. (B, D).

        Raises:
            InputError: An id lies outside the vocabulary.
            UnsupportedError: The architecture cannot be asked for what is missing.
        """
        gaps.check(self.entities if self.scales is None else self.scales.graph.value_count, self.relations)
        for position in np.unique(gaps.position):
            if POSITIONS[position] not in self.positions:
                raise self._refusal(POSITIONS[position])
        return self.vectors(gaps, noise)

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return self.entity_matrix().device

    def _refusal(self, position: str) -> UnsupportedError:
        asked = ", ".join(self.positions)
        return UnsupportedError(
            f"the architecture '{self.config.architecture}' can be asked for {asked}, found a question for the {position}. "
            f"Train one with model.architecture={sorted(ASKS_VALUES_AND_RELATIONS)[0]}"
        )
