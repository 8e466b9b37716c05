"""The scorer of a trained encoder: it scores every entity."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from starqe.errors import UnsupportedError
from starqe.kg import Graph
from starqe.learn.training_queries import Part, as_variant
from starqe.model import SIMILARITY, Encoder, Similarity, collate
from starqe.model.similarity import PackedRows
from starqe.queries import QueryTable
from starqe.queries.gaps import HEAD, POSITIONS, TAIL, Gaps, queries_of
from starqe.queries.variants import Variant
from starqe.ragged import IntArray


def _log_sum(shares: torch.Tensor) -> torch.Tensor:
    return torch.logsumexp(shares, 0)


UNION: Callable[[torch.Tensor], torch.Tensor] = _log_sum
"""How the logarithms of the shares in several alternatives become one: (alternatives, B, V) -> (B, V)."""


def scores_into(similarity: Similarity, vectors: torch.Tensor, entities: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Scores entities on the device of the model, and copies the scores to ``out`` on its device: (B, D), (V, D) -> (B, V)."""
    if entities.device == out.device:
        return similarity.scores(vectors, entities, out)
    return out.copy_(similarity.scores(vectors, entities, torch.empty_like(out, device=entities.device)))


class EncoderScorer:
    """Scores rows of query tables with an encoder; looks nothing up in the graph but the size of its vocabulary.

    Args:
        encoder: The encoder.
        graph: The graph of its vocabulary.
        variant: How the queries were changed for training.
        frozen: Whether the weights no longer change, so that the entities can be packed for fast products on first use.
    """

    def __init__(self, encoder: Encoder, graph: Graph, variant: Variant = "qualified", *, frozen: bool = False) -> None:
        self._encoder, self._graph, self._variant = encoder, graph, variant
        self._similarity = SIMILARITY[encoder.config.similarity]
        self._packs = frozen and encoder.config.similarity == "dot"
        self._packed: PackedRows | None = None

    def scores(self, table: QueryTable, rows: IntArray, out: torch.Tensor) -> torch.Tensor:
        """Computes the scores of all entities for these rows of a table: (B, V)."""
        return self.scores_of([(table, rows)], out)

    def scores_of(self, parts: Sequence[Part], out: torch.Tensor) -> torch.Tensor:
        """Computes the scores of all entities for rows of several tables, part after part: (B, V).

        Conjunctions take one pass. A union has the score of its disjunctive normal form: each alternative is scored by itself, and
        `UNION` combines their shares of all entities. Negated parts are left out: an encoder ranks what the rest says.
        """
        with torch.inference_mode():
            if all(table.shape.tree is None for table, _ in parts):
                return self._similar(self.vectors(parts), out)
            start = 0
            for table, rows in parts:
                self._union(table.take(rows).branches(), out[start : start + len(rows)])
                start += len(rows)
            return out

    def _similar(self, vectors: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Scores all entities for query vectors: (B, D) -> (B, V)."""
        entities = self._encoder.entity_matrix()
        if not self._packs:
            return scores_into(self._similarity, vectors, entities, out)
        self._packed = self._packed or PackedRows(entities)
        return out.copy_(self._packed.products(vectors, out))

    def _union(self, alternatives: Sequence[QueryTable], out: torch.Tensor) -> torch.Tensor:
        """Scores queries that are given by their alternatives: (B, V)."""
        rows = np.arange(len(out))
        if len(alternatives) == 1 or not len(rows):
            return self.scores(alternatives[0], rows, out) if len(rows) else out
        found = [torch.log_softmax(self.scores(one, rows, torch.empty_like(out)), 1) for one in alternatives]
        return out.copy_(UNION(torch.stack(found)))

    def entity_scores(self, gaps: Gaps, out: torch.Tensor) -> torch.Tensor:
        """Returns the scores of all entities for statements that all lack their tail, or all lack their head: (B, V).

        Raises:
            UnsupportedError: A statement lacks something else, such as a qualifier value.
        """
        if lost := gaps.position[~np.isin(gaps.position, (HEAD, TAIL))].tolist():
            raise UnsupportedError(f"an encoder predicts heads and tails, found a question for the {POSITIONS[lost[0]]}. Train a predictor")
        return self.scores(queries_of(gaps), np.arange(len(gaps)), out)

    def vectors(self, parts: Sequence[Part]) -> torch.Tensor:
        """Computes the query vectors of rows of several tables, part after part: (B, D)."""
        given, place, before = list(parts), [], 0
        if self._variant != "qualified":
            given = []
            for table, rows in parts:
                for part, came_from in as_variant(table.take(rows), self._variant, self._graph):
                    given.append((part, np.arange(len(part))))
                    place.append(before + came_from)
                before += len(rows)
        device = self._encoder.embedding.weight.device
        with torch.inference_mode():
            vectors: torch.Tensor = self._encoder(collate(given, self._encoder.space).to(device))
            if self._variant == "qualified":
                return vectors
            ordered = torch.empty_like(vectors)
            ordered[torch.from_numpy(np.concatenate(place))] = vectors
            return ordered
