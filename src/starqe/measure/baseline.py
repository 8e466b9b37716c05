"""The simplest baseline: the most frequent entity for a relation."""

from collections.abc import Collection

import numpy as np
import torch
from torch import Tensor

from starqe.kg import Graph
from starqe.queries import QueryTable
from starqe.queries.gaps import TAIL, Gaps
from starqe.queries.shape import TARGET
from starqe.ragged import IntArray, Ragged


class FrequencyScorer:
    """Scores an entity by how often it is an end of a relation in the known splits, whatever else is asked.

    For a query, the last edge at the target counts. B queries or questions · V entities.
    """

    def __init__(self, graph: Graph, known: Collection[str] = ("train",)) -> None:
        rows = graph.known(known).rows
        self._tails = _Counts(graph.relation[rows], graph.tail[rows], graph)
        self._heads = _Counts(graph.relation[rows], graph.head[rows], graph)

    def scores(self, table: QueryTable, rows: IntArray, out: Tensor) -> Tensor:
        """Scores all entities for these rows of a table: (B, V)."""
        edge = max(place for place, ends in enumerate(table.shape.edges) if TARGET in ends)
        counts = self._tails if table.shape.edges[edge][1] == TARGET else self._heads
        return counts.fill(table.relations[rows, edge], out)

    def entity_scores(self, gaps: Gaps, out: Tensor) -> Tensor:
        """Scores all entities as what is missing at an end: (B, V)."""
        tails = gaps.position == TAIL
        for counts, chosen in ((self._tails, np.flatnonzero(tails)), (self._heads, np.flatnonzero(~tails))):
            if len(chosen):
                out[torch.from_numpy(chosen)] = counts.fill(gaps.relation[chosen], out.new_empty(len(chosen), out.shape[1]))
        return out


class _Counts:
    """How often each entity is one end of each relation."""

    def __init__(self, relation: IntArray, end: IntArray, graph: Graph) -> None:
        entities = len(graph.entities)
        codes, self._times = np.unique(relation.astype(np.int64) * entities + end, return_counts=True)
        self._ends = Ragged.of_owner(codes // entities, codes % entities, len(graph.relations))

    def fill(self, relations: IntArray, out: Tensor) -> Tensor:
        """Writes the counts of each relation into a row: (B,) -> (B, V)."""
        places = self._ends.places(relations)
        rows, columns = torch.from_numpy(places.owner), torch.from_numpy(self._ends.items[places.items])
        out.zero_()[rows, columns] = torch.from_numpy(self._times[places.items].astype(np.float32))
        return out
