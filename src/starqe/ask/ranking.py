"""The best candidates of queries that are not known to be answers, with their probabilities; the last rankings are remembered."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from starqe.deadline import NEVER, Deadline
from starqe.errors import UnsupportedError
from starqe.kg import Graph
from starqe.queries import Query, Shape
from starqe.queries.table import QueryTable, stack
from starqe.reason.logistic import Logistic
from starqe.reason.mixture import Mixture
from starqe.reason.probability import best_candidates, probabilities

MOST_PREDICTED = 100
"""Number of predicted answers at most, where neither top nor LIMIT is given."""
_BATCH = 32
_KEPT, _KEPT_OF_EACH = 256, 1_000  # how many rankings are remembered, and how much of each

Ranked = list[tuple[int, float]]
"""Entities with their probabilities, the most probable first."""


@dataclass(frozen=True)
class Wanted:
    """A query, its known answers (ascending ids), and how many candidates are wanted beside them."""

    query: Query
    known: np.ndarray
    count: int


@dataclass
class _Found:
    """What there is for one query: its ranking, or why it has none."""

    ranked: Ranked = field(default_factory=list)
    problem: str = ""


class Ranking:
    """Ranks candidates by a mixture; safe to use from several threads."""

    def __init__(self, graph: Graph, mixture: Mixture, probability: Logistic) -> None:
        self._graph, self._mixture, self._probability = graph, mixture, probability
        self._kept: dict[Query, tuple[int, Ranked]] = {}  # how many were asked for, and those that there are
        self._lock = threading.Lock()  # around what is remembered; not around the arithmetic

    def best(self, wanted: Sequence[Wanted], deadline: Deadline = NEVER) -> list[tuple[Ranked, str]]:
        """Returns the best candidates of every query, and why there are none where it has no shape.

        Raises:
            DeadlineError: The time is up.
        """
        found = [_Found() for _ in wanted]
        members: list[tuple[int, QueryTable]] = []
        for i, one in enumerate(wanted):
            if not one.count:
                continue
            asked, kept = self._remembered(one.query)
            if asked >= one.count:
                found[i].ranked = kept[: one.count]
                continue
            try:
                members.append((i, one.query.to_table(self._graph)))
            except UnsupportedError as error:
                found[i].problem = str(error)
        for start in range(0, len(members), _BATCH):
            for i, ranked in self._rank(members[start : start + _BATCH], wanted, deadline):
                found[i].ranked = ranked[: wanted[i].count]
        return [(one.ranked, one.problem) for one in found]

    def _rank(self, members: Sequence[tuple[int, QueryTable]], wanted: Sequence[Wanted], deadline: Deadline) -> list[tuple[int, Ranked]]:
        by_shape: dict[Shape, list[tuple[int, QueryTable]]] = {}
        for i, table in members:
            by_shape.setdefault(table.shape, []).append((i, table))
        tables = [stack([table for _, table in of_shape]) for of_shape in by_shape.values()]
        numbers = [i for of_shape in by_shape.values() for i, _ in of_shape]
        shapes = [shape for shape, of_shape in by_shape.items() for _ in of_shape]
        # Whoever asks for few may ask for more, or for reasons, next.
        most = max(MOST_PREDICTED, *(wanted[i].count for i in numbers))
        with torch.inference_mode():
            parts = [(table, np.arange(len(table))) for table in tables]
            scores = self._mixture.scores_of(parts, torch.empty(len(members), len(self._graph.entities)), deadline)
            best = best_candidates(scores, [wanted[i].known for i in numbers], most)
        chances = probabilities(self._probability, shapes, best)
        found = []
        for place, i in enumerate(numbers):
            finite = np.isfinite(best.scores[place])
            ranked = list(zip(best.entities[place][finite].tolist(), chances[place][finite].tolist(), strict=True))
            self._remember(wanted[i].query, min(most, _KEPT_OF_EACH), ranked[:_KEPT_OF_EACH])
            found.append((i, ranked))
        return found

    def _remembered(self, query: Query) -> tuple[int, Ranked]:
        with self._lock:
            return self._kept.get(query, (0, []))

    def _remember(self, query: Query, asked: int, ranked: Ranked) -> None:
        with self._lock:
            self._kept[query] = asked, ranked
            while len(self._kept) > _KEPT:
                self._kept.pop(next(iter(self._kept)))
