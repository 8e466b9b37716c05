"""A trained encoder as something that scores every entity."""

import numpy as np
import torch

from starqe.kg import Graph
from starqe.learn.config import Variant
from starqe.learn.examples import as_variant
from starqe.model import SIMILARITY, Encoder, collate
from starqe.queries import QueryTable


class EncoderScorer:
    """Scores rows of query tables with an encoder; looks nothing up in the graph but the size of its vocabulary."""

    def __init__(self, encoder: Encoder, graph: Graph, variant: Variant = "qualified") -> None:
        self._encoder, self._graph, self._variant = encoder, graph, variant
        self._similarity = SIMILARITY[encoder.config.similarity]

    def scores(self, table: QueryTable, rows: np.ndarray, out: torch.Tensor) -> torch.Tensor:
        """Gives the scores of all entities for these rows of a table: (B, V)."""
        with torch.inference_mode():
            return self._similarity.scores(self.vectors(table, rows), self._encoder.entity_matrix(), out)

    def vectors(self, table: QueryTable, rows: np.ndarray) -> torch.Tensor:
        """Gives the query vectors of these rows: (B, D)."""
        parts: list[tuple[QueryTable, np.ndarray]] = [(table, rows)]
        place = np.arange(len(rows))
        if self._variant != "qualified":
            given = as_variant(table.take(rows), self._variant, self._graph)
            parts = [(part, np.arange(len(part))) for part, _ in given]
            place = np.concatenate([came_from for _, came_from in given])
        device = self._encoder.embedding.weight.device
        with torch.inference_mode():
            vectors: torch.Tensor = self._encoder(collate(parts, self._encoder.space).to(device))
            if self._variant == "qualified":
                return vectors
            ordered = torch.empty_like(vectors)
            ordered[torch.from_numpy(place)] = vectors
            return ordered
