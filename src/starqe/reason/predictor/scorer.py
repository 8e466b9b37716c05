"""The scorer of a trained predictor: it scores every entity."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from starqe.errors import InputError, UnsupportedError
from starqe.measure.exact_search import LEADING, EntitySearch, Nearest, Scored, nearest
from starqe.measure.index.nearest import EntityIndex
from starqe.model import SIMILARITY
from starqe.model.similarity import EntityRows
from starqe.queries import QueryTable
from starqe.queries.gaps import RELATION, Gaps, asked_relation, gaps_of
from starqe.ragged import IntArray, Ragged
from starqe.reason.predictor.predictor import Predictor
from starqe.reason.predictor.scales import LEAST, Distributions
from starqe.reason.rules.firing import RuleBook


class PredictorScorer:
    """Scores one-hop queries (and other statements with a gap) with a predictor, and with rules if there are some.

    Without rules it needs no graph.

    B questions · V entities.

    Args:
        predictor: The predictor.
        frozen: Whether its weights no longer change, so that the entities can be packed for fast products on first use.
        index: An index of the entities for `nearest_entities`; without one, the search is exact.
        rules: Rules whose evidence is added to the scores of entities.
    """

    def __init__(
        self, predictor: Predictor, *, frozen: bool = False, index: EntityIndex | None = None, rules: RuleBook | None = None
    ) -> None:
        self.predictor, self.index, self.rules = predictor, index, rules
        self._entities = EntityRows(SIMILARITY["dot"], predictor.entity_matrix, frozen=frozen)
        self._exact = EntitySearch(self._entities)

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
            scores = self._entities.scores(self.predictor(gaps), out)
        added = None if self.rules is None else self.rules.added(gaps)
        return scores if added is None else added.to_all(scores)

    def every_entity(self, gaps: Gaps) -> Scored:
        """Scores all entities as `entity_scores` does; rounded for few gaps, except for the best.

        Raises:
            InputError: An id lies outside the vocabulary of the model.
            UnsupportedError: The architecture cannot be asked for what is missing.
        """
        with torch.inference_mode():
            found = self._exact.all(self.predictor(gaps).cpu())
            added = None if self.rules is None else self.rules.added(gaps)
            return (found if added is None else added.to_scored(found)).with_exact_best(LEADING)

    def nearest_entities(self, gaps: Gaps, count: int, without: Sequence[IntArray] | None = None) -> Nearest:
        """Finds the best entities for missing heads, tails and values, excluding those in ``without``.

        Raises:
            InputError: An id lies outside the vocabulary of the model.
            UnsupportedError: The architecture cannot be asked for what is missing.
        """
        with torch.inference_mode():
            found = nearest(self._exact if self.index is None else self.index, self.predictor(gaps).cpu(), count, without)
            added = None if self.rules is None else self.rules.added(gaps)
            return found if added is None else added.to_nearest(found, without)

    def numbers(self, gaps: Gaps) -> Distributions:
        """Predicts missing tails and values that are numbers or dates.

        Raises:
            InputError: The relation of what is missing has no scale, or an id lies outside the vocabulary of the model.
            UnsupportedError: The model knows entities only.
        """
        scales, relation = self.predictor.scales, asked_relation(gaps)
        if scales is None:
            raise UnsupportedError("the model predicts entities only: it was trained without numbers and dates. Train again")
        scale = scales.relation[relation]
        if (scale < 0).any():
            name = scales.graph.relations.identifier(int(relation[np.argmin(scale)]))
            raise InputError(f"numbers and dates are predicted for relations with at least {LEAST} of them in train, found '{name}'")
        places = scales.places.take(scale)
        with torch.inference_mode():
            logits = self.predictor.number_logits(self.predictor(gaps), np.arange(len(scales))).cpu()  # (B, knots)
        shares = [logits[row, places[row]].softmax(0).numpy() for row in range(len(gaps))]
        return Distributions(scale, Ragged(places.offsets, np.concatenate([*shares, np.empty(0, np.float32)])), scales)

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
