"""A trained encoder as something that scores every entity."""

from collections.abc import Sequence

import numpy as np
import torch

from starqe.kg import Graph
from starqe.learn.config import Variant
from starqe.learn.examples import Part, as_variant
from starqe.model import SIMILARITY, Encoder, collate
from starqe.queries import QueryTable


class EncoderScorer:
    """Scores rows of query tables with an encoder; looks nothing up in the graph but the size of its vocabulary."""

    def __init__(self, encoder: Encoder, graph: Graph, variant: Variant = "qualified") -> None:
        self._encoder, self._graph, self._variant = encoder, graph, variant
        self._similarity = SIMILARITY[encoder.config.similarity]

    def scores(self, table: QueryTable, rows: np.ndarray, out: torch.Tensor) -> torch.Tensor:
        """Gives the scores of all entities for these rows of a table: (B, V)."""
        return self.scores_of([(table, rows)], out)

    def scores_of(self, parts: Sequence[Part], out: torch.Tensor) -> torch.Tensor:
        """Gives the scores of all entities for rows of several tables, part after part, in one pass: (B, V)."""
        with torch.inference_mode():
            return self._similarity.scores(self.vectors(parts), self._encoder.entity_matrix(), out)

    def vectors(self, parts: Sequence[Part]) -> torch.Tensor:
        """Gives the query vectors of rows of several tables, part after part: (B, D)."""
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
