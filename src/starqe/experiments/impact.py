"""How much a qualifier relation helps: the same queries with and without its pairs.

For one relation, only the queries that contain it count. Their answers are ranked with the full queries, and again without
the relation's pairs; the impact is the first number minus the second.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from starqe.measure.evaluate import Scorer
from starqe.measure.metrics import AVERAGES, TERMS, Accumulator, terms_of
from starqe.measure.ranking_protocols import paper
from starqe.measure.ranks import filtered_ranks
from starqe.queries import QueryTable
from starqe.ragged import FloatArray, IntArray, Ragged

IMPACT_METRICS = ("AMRI", "Hits@10", "MRR")
"""The metrics of the paper's appendix, in its order."""


@dataclass(frozen=True)
class Impact:
    """The impact of one relation on one metric, in percent."""

    relation: int
    metric: str
    average: str
    full: float
    restricted: float
    n: int
    """The queries that contain the relation."""

    @property
    def points(self) -> float:
        """Full minus restricted: positive if the qualifiers help."""
        return self.full - self.restricted


def impacts(scorer: Scorer, table: QueryTable, entities: int, minimum: int = 1, batch: int = 512) -> list[Impact]:
    """Measures every qualifier relation that enough queries of a table contain.

    The full queries are scored once, and then every (query, relation of it) once, all relations together.

    Args:
        scorer: Scores all entities.
        table: Queries of one shape.
        entities: The number of entities.
        minimum: Relations that fewer queries contain are left out.
        batch: Number of queries per batch.
    """
    relation, row = _occurrences(table)
    found, counts = np.unique(relation, return_counts=True)
    kept = np.isin(relation, found[counts >= minimum])
    relation, row = relation[kept], row[kept]
    full = _terms(scorer, table, entities, batch)
    restricted = _terms(scorer, without(table.take(row), relation), entities, batch)
    measured = []
    for one in np.unique(relation):
        occurrence = np.flatnonzero(relation == one)
        before, after = _mean(full, row[occurrence]), _mean(restricted, occurrence)
        for metric in IMPACT_METRICS:
            for average in AVERAGES:
                whole, less = (100 * float(part.values(metric, average)[0]) for part in (before, after))
                measured.append(Impact(int(one), metric, average, whole, less, len(occurrence)))
    return measured


def without(table: QueryTable, relation: IntArray) -> QueryTable:
    """Removes the pairs of one relation from each query. Answers stay the same."""
    query = table.pairs.owner // len(table.shape.edges)
    return replace(table, pairs=table.pairs.where(table.pair_relation != relation[query]))


def _occurrences(table: QueryTable) -> tuple[IntArray, IntArray]:
    """Returns every distinct pair of a qualifier relation and a row that contains it, by relation."""
    query = table.pairs.owner // len(table.shape.edges)
    pairs = np.unique(np.stack([table.pair_relation, query], axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]


def _terms(scorer: Scorer, table: QueryTable, entities: int, batch: int) -> Ragged:
    """Ranks every listed answer of a table, filtered by the query's own: the terms of each answer, by query. (answers, terms)."""
    buffer = torch.empty(min(batch, len(table)), entities)  # (B, V)
    parts: list[FloatArray] = [np.empty((0, len(TERMS)))]
    for rows in _batches(len(table), batch):
        task = paper(None, table, rows)
        assert len(task.rows) == len(rows), "every query of a table has an answer"
        ranks = filtered_ranks(scorer.scores(table, rows, buffer[: len(rows)]), task.ranked, task.filtered)
        parts.append(terms_of(ranks.realistic, ranks.candidates))
    return Ragged(table.answers.offsets, np.concatenate(parts))


def _batches(count: int, batch: int) -> Iterator[IntArray]:
    for start in range(0, count, batch):
        yield np.arange(start, min(start + batch, count))


def _mean(terms: Ragged, rows: IntArray) -> Accumulator:
    """Averages the terms of some queries."""
    chosen = terms.take(rows)
    mean = Accumulator(replicates=0)
    mean.add_terms(np.asarray(chosen.items, np.float64), chosen.counts)
    return mean
