"""The scorer of a trained encoder: it scores every entity."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from starqe.errors import UnsupportedError
from starqe.kg import Graph
from starqe.learn.training_queries import Part, as_variant
from starqe.measure.exact_search import LEADING, EntitySearch, Nearest, Scored, Search, exact_scores, nearest, together
from starqe.measure.index.nearest import EntityIndex
from starqe.measure.retrieval import Best, best_of, dense_blocks
from starqe.model import SIMILARITY, Encoder, collate
from starqe.model.similarity import EntityRows
from starqe.queries import QueryTable
from starqe.queries.gaps import HEAD, POSITIONS, TAIL, Gaps, queries_by_side
from starqe.queries.variants import Variant
from starqe.ragged import IntArray


def _log_sum(shares: torch.Tensor) -> torch.Tensor:
    return torch.logsumexp(shares, 0)


UNION: Callable[[torch.Tensor], torch.Tensor] = _log_sum
"""How the logarithms of the shares in several alternatives become one: (alternatives, B, V) -> (B, V)."""


class EncoderScorer:
    """Scores rows of query tables with an encoder; looks nothing up in the graph but the size of its vocabulary.

    Args:
        encoder: The encoder.
        graph: The graph of its vocabulary.
        variant: How the queries were changed for training.
        frozen: Whether the weights no longer change, so that the entities can be packed for fast products on first use.
        index: An index of the entities, by which `best` finds them; without one, it compares with all.
    """

    def __init__(
        self, encoder: Encoder, graph: Graph, variant: Variant = "qualified", *, frozen: bool = False, index: EntityIndex | None = None
    ) -> None:
        self._encoder, self._graph, self._variant, self.index = encoder, graph, variant, index
        self._entities = EntityRows(SIMILARITY[encoder.config.similarity], encoder.entity_matrix, frozen=frozen)
        self._exact = EntitySearch(self._entities)

    @property
    def entities(self) -> int:
        """The number of entities that are scored."""
        return len(self._graph.entities)

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
                found = self._entities.scores(self.vectors(parts), out)
                return found if found is out else out.copy_(found)
            start = 0
            for table, rows in parts:
                self._union(table.take(rows).branches(), out[start : start + len(rows)])
                start += len(rows)
            return out

    def blocks(self, parts: Sequence[Part]) -> Iterator[tuple[int, torch.Tensor]]:
        """Yields the same scores, up to `BLOCK` entities at a time, with the first entity of each block: (B, n)."""
        if all(table.shape.tree is None for table, _ in parts):
            return self._entities.blocks(self.vectors(parts))
        return dense_blocks(self.scores_of(parts, torch.empty(sum(len(rows) for _, rows in parts), len(self._graph.entities))))

    def all_entities(self, parts: Sequence[Part]) -> Scored:
        """Scores all entities; conjunctions may have rounded scores, except for the best."""
        if all(table.shape.tree is None for table, _ in parts):
            with torch.inference_mode():
                return self._exact.all(self.vectors(parts)).with_exact_best(LEADING)
        scores = self.scores_of(parts, torch.empty(sum(len(rows) for _, rows in parts), self.entities))
        return exact_scores(scores)

    def best(self, parts: Sequence[Part], count: int, without: Sequence[IntArray] | None = None) -> Best:
        """Finds the best entities for rows of several tables, part after part, besides those that do not compete."""
        return self.nearest(parts, count, without).best

    def nearest(self, parts: Sequence[Part], count: int, without: Sequence[IntArray] | None = None) -> Nearest:
        """Finds the best entities as `best` does, and can score any others."""
        if all(table.shape.tree is None for table, _ in parts):
            return nearest(self._search, self.vectors(parts), count, without)
        found, start = [], 0
        for table, rows in parts:
            own = None if without is None else without[start : start + len(rows)]
            found.append(self._nearest_of_union(table.take(rows).branches(), count, own))
            start += len(rows)
        return together(found)

    def _nearest_of_union(self, alternatives: Sequence[QueryTable], count: int, without: Sequence[IntArray] | None) -> Nearest:
        """Finds the best entities of queries that are given by their alternatives, among the best of each alternative."""
        rows = np.arange(len(alternatives[0]))
        without = [np.empty(0, np.int64)] * len(rows) if without is None else [np.unique(ids).astype(np.int64) for ids in without]
        vectors = [self.vectors([(one, rows)]) for one in alternatives]
        if len(alternatives) == 1:
            return nearest(self._search, vectors[0], count, without)
        found = [nearest(self._search, some, count + max(map(len, without), default=0)) for some in vectors]

        def at(some: IntArray, ids: IntArray) -> torch.Tensor:
            total = [one.best.log_normaliser[torch.from_numpy(some)][:, None] for one in found]
            return UNION(torch.stack([one.at(some, ids) - each for one, each in zip(found, total, strict=True)]))

        candidates, total = [], torch.empty(len(rows))
        for row in rows.tolist():
            ids = np.unique(np.concatenate([one.best.ids[row][one.best.scores[row].numpy() > -np.inf] for one in found]))
            ids = np.setdiff1d(ids, without[row])
            united = at(np.array([row]), np.concatenate([ids, without[row]]))[0]
            candidates.append((ids, united[: len(ids)]))
            # The shares in every alternative add up to 1.
            total[row] = torch.log((len(alternatives) - united[len(ids) :].exp().sum()).clamp_min(torch.finfo(torch.float32).tiny))
        errors = [one.best.error for one in found if one.best.error is not None]
        ceiling = torch.full((len(rows),), torch.inf)
        best = replace(
            best_of(candidates, count), log_normaliser=total, ceiling=ceiling, error=torch.stack(errors).amax(0) if errors else None
        )
        return Nearest(best, at)

    def nearest_entities(self, gaps: Gaps, count: int, without: Sequence[IntArray] | None = None) -> Nearest:
        """Finds the best entities for statements that lack their tail or their head.

        Raises:
            UnsupportedError: A statement lacks something else, such as a qualifier value.
        """
        parts, order = self._sides(gaps)
        return nearest(self._search, self.vectors(parts)[torch.from_numpy(order)], count, without)

    @property
    def _search(self) -> Search:
        return self._exact if self.index is None else self.index

    def _union(self, alternatives: Sequence[QueryTable], out: torch.Tensor) -> torch.Tensor:
        """Scores queries that are given by their alternatives: (B, V)."""
        rows = np.arange(len(out))
        if len(alternatives) == 1 or not len(rows):
            return self.scores(alternatives[0], rows, out) if len(rows) else out
        found = [torch.log_softmax(self.scores(one, rows, torch.empty_like(out)), 1) for one in alternatives]
        return out.copy_(UNION(torch.stack(found)))

    def entity_scores(self, gaps: Gaps, out: torch.Tensor) -> torch.Tensor:
        """Returns the scores of all entities for statements that lack their tail or their head: (B, V).

        Raises:
            UnsupportedError: A statement lacks something else, such as a qualifier value.
        """
        parts, order = self._sides(gaps)
        found = self.scores_of(parts, out)
        return found if len(parts) == 1 else found[torch.from_numpy(order)]

    def _sides(self, gaps: Gaps) -> tuple[list[Part], IntArray]:
        """Returns the queries for heads and for tails, and where each gap is among them."""
        if lost := gaps.position[~np.isin(gaps.position, (HEAD, TAIL))].tolist():
            raise UnsupportedError(f"an encoder predicts heads and tails, found a question for the {POSITIONS[lost[0]]}. Train a predictor")
        return queries_by_side(gaps)

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
