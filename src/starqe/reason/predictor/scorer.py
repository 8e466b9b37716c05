"""The scorer of a trained predictor: it scores every entity."""

import torch
from torch import Tensor

from starqe.learn.scorer import scores_into
from starqe.model import SIMILARITY
from starqe.model.similarity import PackedRows
from starqe.queries import QueryTable
from starqe.queries.gaps import RELATION, Gaps, gaps_of
from starqe.ragged import IntArray
from starqe.reason.predictor.predictor import Predictor


class PredictorScorer:
    """Scores one-hop queries (and other statements with a gap) with a predictor; looks nothing up in a graph.

    B questions · V entities.

    Args:
        predictor: The predictor.
        frozen: Whether its weights no longer change, so that the entities can be packed for fast products on first use.
    """

    def __init__(self, predictor: Predictor, *, frozen: bool = False) -> None:
        self.predictor, self._frozen = predictor, frozen
        self._packed: PackedRows | None = None

    def scores(self, table: QueryTable, rows: IntArray, out: Tensor) -> Tensor:
        """Computes the scores of all entities for these rows of a table: (B, V).

        Raises:
            InputError: An id lies outside the vocabulary of the model.
            UnsupportedError: The queries have more than one edge.
        """
        return self.entity_scores(gaps_of(table, rows), out)

    def entity_scores(self, gaps: Gaps, out: Tensor) -> Tensor:
        """Computes the scores of all entities for missing heads, tails and values; may write them to ``out``: (B, V).

        Raises:
            InputError: An id lies outside the vocabulary of the model.
            UnsupportedError: The architecture cannot be asked for what is missing.
        """
        assert not (gaps.position == RELATION).any(), "a missing relation needs relation_scores"
        with torch.no_grad():
            vectors, entities = self.predictor(gaps), self.predictor.entity_matrix()
            if not self._frozen:
                return scores_into(SIMILARITY["dot"], vectors, entities, out)
            self._packed = self._packed or PackedRows(entities)
            return self._packed.products(vectors, out)

    def relation_scores(self, gaps: Gaps) -> Tensor:
        """Computes the scores of all relations for missing relations: (B, relations).

        Raises:
            InputError: An id lies outside the vocabulary of the model.
            UnsupportedError: The architecture cannot be asked for relations.
        """
        assert (gaps.position == RELATION).all(), "a missing entity needs entity_scores"
        with torch.inference_mode():
            vectors: Tensor = self.predictor(gaps)
            return (vectors @ self.predictor.relation_matrix().T).cpu()
