"""The best candidates of queries that are not known to be answers, with their probabilities; the last rankings are remembered."""

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import torch

from starqe.deadline import NEVER, Deadline
from starqe.errors import UnsupportedError
from starqe.kg import Graph
from starqe.queries import Query, Shape
from starqe.queries.table import QueryTable, stack
from starqe.ragged import FloatArray, IntArray
from starqe.reason.executor.executor import Executor
from starqe.reason.logistic import Logistic
from starqe.reason.mixture import CLASSES, Mixture, log_truth
from starqe.reason.probability import FEATURES, best_candidates, probabilities

MOST_PREDICTED = 100
"""Number of predicted answers at most, where neither top nor LIMIT is given."""
CUT = "not every candidate was tried (the search was cut), so better predictions may exist"
"""The note to predictions of a query whose candidates are too many."""
_BATCH = 32
_KEPT, _KEPT_OF_EACH = 256, 1_000  # how many rankings are remembered, and how much of each

Ranked = list[tuple[tuple[int, ...], float]]
"""Values of the answer variables, by their ids, with their probabilities; the most probable first."""


@dataclass(frozen=True)
class Wanted:
    """A query, its known answers, and how many candidates are wanted beside them."""

    query: Query
    known: IntArray  # (n, A) the values of the answer variables
    count: int


@dataclass
class _Found:
    """What there is for one query: its ranking, and what a reader should know about it."""

    ranked: Ranked = field(default_factory=list)
    note: str = ""


class Ranking:
    """Ranks candidates: those of a shape by the mixture, those of any other query by the executor. Safe to use from several threads."""

    def __init__(self, graph: Graph, mixture: Mixture, executor: Executor, probability: Logistic) -> None:
        self._graph, self._mixture, self._executor, self._probability = graph, mixture, executor, probability
        self._kept: dict[Query, tuple[int, Ranked]] = {}  # how many were asked for, and those that there are
        self._lock = threading.Lock()  # around what is remembered; not around the arithmetic

    def best(self, wanted: Sequence[Wanted], deadline: Deadline = NEVER) -> list[tuple[Ranked, str]]:
        """Returns the best candidates of every query, and a note where some may have been missed.

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
            if (table := self._table(one.query)) is not None:
                members.append((i, table))
            else:
                found[i] = self._execute(one, deadline)
        for start in range(0, len(members), _BATCH):
            for i, ranked in self._rank(members[start : start + _BATCH], wanted, deadline):
                found[i].ranked = ranked[: wanted[i].count]
        return [(one.ranked, one.note) for one in found]

    def _table(self, query: Query) -> QueryTable | None:
        """Returns the query as the mixture takes it; None where it has no shape, or several answer variables."""
        if len(query.answers) != 1 or not query.conjunctive:
            return None
        with suppress(UnsupportedError):
            return query.to_table(self._graph)
        return None

    def _execute(self, wanted: Wanted, deadline: Deadline) -> _Found:
        """Ranks by the executor alone: a query of any formula, with any number of answer variables."""
        most = max(MOST_PREDICTED, wanted.count)
        best = self._executor.best(wanted.query, most, deadline, {tuple(ids) for ids in wanted.known.tolist()})
        truths = np.array([truth for _, truth in best.ranked])
        chances = tuple_probabilities(self._probability, truths, len(wanted.known))
        ranked = [(ids, chance) for (ids, _), chance in zip(best.ranked, chances.tolist(), strict=True)]
        cut = len(truths) < most if best.slack > 0 else False
        self._remember(wanted.query, min(most, _KEPT_OF_EACH), ranked[:_KEPT_OF_EACH])
        return _Found(ranked[: wanted.count], CUT if cut or (len(truths) and best.slack > truths[-1]) else "")

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
            best = best_candidates(scores, [wanted[i].known[:, 0] for i in numbers], most)
        chances = probabilities(self._probability, shapes, best)
        found = []
        for place, i in enumerate(numbers):
            finite = np.isfinite(best.scores[place])
            ids = ((id_,) for id_ in best.entities[place][finite].tolist())
            ranked: Ranked = list(zip(ids, chances[place][finite].tolist(), strict=True))
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


def tuple_probabilities(fitted: Logistic, truths: FloatArray, known: int) -> FloatArray:
    """Computes the probabilities of candidates that the executor alone has ranked, the truest first: (K,).

    There is no fit of their own for formulas beyond shapes. They get that of the class "mixed", with the logarithm of the truth as
    the score, and the share among the candidates that were found. A probability never exceeds the truth, and never rises along the ranking.
    """
    if not len(truths):
        return np.empty(0)
    scores = log_truth(torch.from_numpy(truths.astype(np.float64))).numpy()
    columns = {
        "score": scores,
        "log share": scores - np.log(np.exp(scores).sum()),
        "log rank": np.log(np.arange(1, len(scores) + 1)),
        "log known answers": np.full(len(scores), np.log1p(known)),
        **{name: np.full(len(scores), float(name == "mixed")) for name in CLASSES},
    }
    chances = fitted(np.stack([columns[name] for name in FEATURES], axis=1))
    return np.asarray(np.minimum.accumulate(np.minimum(chances, truths)))
