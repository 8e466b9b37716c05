"""How much a qualifier relation helps: the same queries with and without its pairs.

For one relation, only the queries that contain it count. Their answers are ranked as the queries stand, and again without
the relation's pairs, by the same answers; the impact is the first number minus the second.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from starqe.measure.evaluate import Scorer
from starqe.measure.metrics import AVERAGES, Accumulator, terms_of
from starqe.measure.protocol import paper
from starqe.measure.ranks import filtered_ranks
from starqe.queries import QueryTable

IMPACT_METRICS = ("AMRI", "Hits@10", "MRR")
"""The metrics of the paper's appendix, in its order."""


@dataclass(frozen=True)
class Impact:
    """What one relation does to one metric; percent."""

    relation: int
    metric: str
    average: str
    full: float
    restricted: float
    n: int
    """The queries that contain the relation."""

    @property
    def points(self) -> float:
        """Full minus restricted: positive where the qualifiers help."""
        return self.full - self.restricted


def impacts(scorer: Scorer, table: QueryTable, entities: int, minimum: int = 1, batch: int = 512) -> list[Impact]:
    """Measures every qualifier relation that enough queries of a table contain.

    The whole queries are scored once, and then every (query, relation of it) once, all relations together.

    Args:
        scorer: Scores all entities.
        table: Queries of one shape.
        entities: The number of entities.
        minimum: Relations that fewer queries contain are left out.
        batch: How many queries are scored at once.
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


def without(table: QueryTable, relation: np.ndarray) -> QueryTable:
    """Takes away, from each query, the pairs of one relation: that at its place. Answers stay as they are."""
    edges = len(table.shape.edges)
    cell = np.repeat(np.arange(len(table) * edges), np.diff(table.pair_offsets))
    kept = table.pair_relation != relation[cell // edges]
    counts = np.bincount(cell[kept], minlength=len(table) * edges)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return replace(table, pair_offsets=offsets, pair_relation=table.pair_relation[kept], pair_value=table.pair_value[kept])


def _occurrences(table: QueryTable) -> tuple[np.ndarray, np.ndarray]:
    """Gives every distinct pair of a qualifier relation and a row that contains it, by relation."""
    counts = np.diff(table.pair_offsets).reshape(len(table), -1).sum(1)
    pairs = np.unique(np.stack([table.pair_relation, np.repeat(np.arange(len(table)), counts)], axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]


Terms = tuple[np.ndarray, np.ndarray]
"""The terms of every ranked answer, (answers, terms), and where those of each query begin, (queries + 1,)."""


def _terms(scorer: Scorer, table: QueryTable, entities: int, batch: int) -> Terms:
    """Ranks every listed answer of a table, filtered by the query's own."""
    buffer = torch.empty(min(batch, len(table)), entities)  # (B, V)
    parts = [np.empty((0, terms_of(np.ones(0), np.ones(0)).shape[1]))]
    for rows in _batches(len(table), batch):
        task = paper(None, table, rows)
        assert len(task.rows) == len(rows), "every query of a table has an answer"
        ranks = filtered_ranks(scorer.scores(table, rows, buffer[: len(rows)]), task.ranked, task.filtered)
        parts.append(terms_of(ranks.realistic, ranks.candidates))
    return np.concatenate(parts), table.answer_offsets


def _batches(count: int, batch: int) -> Iterator[np.ndarray]:
    for start in range(0, count, batch):
        yield np.arange(start, min(start + batch, count))


def _mean(terms: Terms, rows: np.ndarray) -> Accumulator:
    """Averages the terms of some queries."""
    values, offsets = terms
    counts = np.diff(offsets)[rows]
    chosen = np.concatenate([np.arange(offsets[row], offsets[row + 1]) for row in rows])
    mean = Accumulator(replicates=0)
    mean.add_terms(values[chosen], counts)
    return mean
