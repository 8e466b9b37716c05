"""The best candidates of queries that are not known answers, with their probabilities; recent rankings are cached."""

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import torch

from starqe.deadline import NEVER, Deadline
from starqe.errors import QueryError, UnsupportedError
from starqe.kg import Graph
from starqe.queries import And, Query, Shape
from starqe.queries.formula import disjuncts
from starqe.queries.layout import table_of_query
from starqe.queries.table import QueryTable, stack
from starqe.ragged import FloatArray, IntArray
from starqe.reason.chance import Chance
from starqe.reason.executor.executor import Executor
from starqe.reason.mixture import CLASSES, Mixture, log_truth
from starqe.reason.probability import FEATURES, answer_features, probabilities

MOST_PREDICTED = 100
"""Maximum number of predicted answers if neither top nor LIMIT is given."""
CUT = "not every candidate was tried (the search was cut), so better predictions may exist"
"""The note on predictions of a query with too many candidates."""
_BATCH = 32
_KEPT, _KEPT_OF_EACH = 256, 1_000  # number of cached rankings, and candidates of each

Ranked = list[tuple[tuple[int, ...], float]]
"""Values of the answer variables, by their ids, with their probabilities; the most probable first."""


@dataclass(frozen=True)
class Wanted:
    """A query, its known answers, and the number of candidates wanted apart from them."""

    query: Query
    known: IntArray  # (n, A) the values of the answer variables
    count: int


@dataclass
class _Found:
    """The result for one query: its ranking, and a note about it if there is one."""

    ranked: Ranked = field(default_factory=list)
    note: str = ""


class Ranking:
    """Ranks candidates; safe to use from several threads.

    A query with one answer variable and without negations is ranked by the mixture: it is a disjunction of shapes. Any other query is
    ranked by the executor.
    """

    def __init__(self, graph: Graph, mixture: Mixture, executor: Executor, probability: Chance) -> None:
        self._graph, self._mixture, self._executor, self._probability = graph, mixture, executor, probability
        self._kept: dict[tuple[Query, int], tuple[int, Ranked]] = {}  # number of candidates asked for, and the ranking
        self._lock = threading.Lock()  # protects the cache, not the arithmetic

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
            asked, kept = self._remembered(one)
            if asked >= one.count:
                found[i].ranked = kept[: one.count]
                continue
            if tables := tables_of(one.query, self._graph):
                members += [(i, table) for table in tables]
            else:
                found[i] = self._execute(one, deadline)
        parts: dict[int, list[Ranked]] = {}
        for start in range(0, len(members), _BATCH):
            for i, ranked in self._rank(members[start : start + _BATCH], wanted, deadline):
                parts.setdefault(i, []).append(ranked)
        for i, of_query in parts.items():
            ranked = of_query[0] if len(of_query) == 1 else either(of_query)
            self._remember(wanted[i], min(max(MOST_PREDICTED, wanted[i].count), _KEPT_OF_EACH), ranked[:_KEPT_OF_EACH])
            found[i].ranked = ranked[: wanted[i].count]
        return [(one.ranked, one.note) for one in found]

    def _execute(self, wanted: Wanted, deadline: Deadline) -> _Found:
        """Ranks by the executor alone: a query of any formula, with any number of answer variables."""
        most = max(MOST_PREDICTED, wanted.count)
        best = self._executor.best(wanted.query, most, deadline, {tuple(ids) for ids in wanted.known.tolist()})
        truths = np.array([truth for _, truth in best.ranked])
        chances = tuple_probabilities(self._probability, truths, len(wanted.known))
        ranked = [(ids, chance) for (ids, _), chance in zip(best.ranked, chances.tolist(), strict=True)]
        cut = len(truths) < most if best.slack > 0 else False
        self._remember(wanted, min(most, _KEPT_OF_EACH), ranked[:_KEPT_OF_EACH])
        return _Found(ranked[: wanted.count], CUT if cut or (len(truths) and best.slack > truths[-1]) else "")

    def _rank(self, members: Sequence[tuple[int, QueryTable]], wanted: Sequence[Wanted], deadline: Deadline) -> list[tuple[int, Ranked]]:
        by_shape: dict[Shape, list[tuple[int, QueryTable]]] = {}
        for i, table in members:
            by_shape.setdefault(table.shape, []).append((i, table))
        tables = [stack([table for _, table in of_shape]) for of_shape in by_shape.values()]
        numbers = [i for of_shape in by_shape.values() for i, _ in of_shape]
        shapes = [shape for shape, of_shape in by_shape.items() for _ in of_shape]
        # A client that asks for few answers often asks for more, or for explanations, next.
        most = max(MOST_PREDICTED, *(wanted[i].count for i in numbers))
        size = len(self._graph.entities)
        known = [ids[ids < size] for ids in (wanted[i].known[:, 0] for i in numbers)]  # others are newer than the model
        best = self._mixture.best([(table, np.arange(len(table))) for table in tables], most, known, deadline)
        chances = probabilities(self._probability, answer_features(shapes, best, [len(ids) for ids in known]))
        found = []
        for place, i in enumerate(numbers):
            finite = best.scores[place].isfinite().numpy()
            ids = ((id_,) for id_ in best.ids[place][finite].tolist())
            ranked: Ranked = list(zip(ids, chances[place][finite].tolist(), strict=True))
            found.append((i, ranked))
        return found

    def _remembered(self, wanted: Wanted) -> tuple[int, Ranked]:
        with self._lock:
            return self._kept.get((wanted.query, len(wanted.known)), (0, []))

    def _remember(self, wanted: Wanted, asked: int, ranked: Ranked) -> None:
        with self._lock:
            self._kept[wanted.query, len(wanted.known)] = asked, ranked
            while len(self._kept) > _KEPT:
                self._kept.pop(next(iter(self._kept)))


def tables_of(query: Query, graph: Graph) -> list[QueryTable]:
    """Returns a query for the mixture: one table for each part of its disjunctive normal form.

    An empty list if the executor alone ranks it: it has several answer variables, a negation, what must be a fact, or a part without
    a shape.
    """
    if len(query.answers) != 1 or (parts := disjuncts(query.formula)) is None or any(atom.fact for atom in query.all_atoms):
        return []
    with suppress(QueryError, UnsupportedError):
        return [table_of_query(Query(And(part), query.answers), graph) for part in parts]
    return []


def either(rankings: Sequence[Ranked]) -> Ranked:
    """Joins the rankings of the parts of a disjunction: an answer of several parts is missing only if all of them are wrong."""
    wrong: dict[tuple[int, ...], float] = {}
    for ranked in rankings:
        for ids, chance in ranked:
            wrong[ids] = wrong.get(ids, 1.0) * (1 - chance)
    return sorted(((ids, 1 - chance) for ids, chance in wrong.items()), key=lambda one: (-one[1], one[0]))


def tuple_probabilities(fitted: Chance, truths: FloatArray, known: int) -> FloatArray:
    """Computes the probabilities of candidates that the executor alone has ranked, in descending order of truth: (K,).

    Formulas beyond shapes have no fit of their own. They use that of the class "mixed", with the logarithm of the truth as
    the score, and the share among the candidates found. A probability never exceeds the truth, and never rises along the ranking.
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
