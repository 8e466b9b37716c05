"""Questions by fuzzy logic: known facts where there are some, one-hop predictions where there are none.

The truth of an answer is the best that any choice of the inner variables gives. The truth of a choice is that of the whole formula: a
conjunction joins the truths of its parts by a norm, a disjunction by the dual of the norm, and a negation is 1 less the truth of
its part.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from starqe.deadline import NEVER, Deadline
from starqe.errors import InputError, UnsupportedError
from starqe.kg import Known
from starqe.queries import Query, QueryTable
from starqe.queries.exact import answers as exact
from starqe.queries.shape import TARGET
from starqe.reason.executor.derivation import Derivation
from starqe.reason.executor.execution import Execution
from starqe.reason.executor.explain import Explaining, explain, explain_known
from starqe.reason.executor.pattern import Pattern, Questions, question_of, questions_of_rows
from starqe.reason.executor.plan import plan_of
from starqe.reason.executor.prove import Prover
from starqe.reason.executor.settings import ReasonSettings
from starqe.reason.executor.steps import Plan
from starqe.reason.executor.truth import EdgeTruth, OneHop
from starqe.reason.executor.tuples import BestTuples, collect

CELLS = 1 << 23
"""The number of values in a buffer (32 MiB): as many questions, times all entities, are worked on at once."""
PARTIAL_SOLUTIONS = 1_000_000
"""How far the facts of a query with a cycle are joined, for the answers that need no prediction."""


@dataclass(frozen=True, eq=False)
class Result:
    """How true every entity is as an answer, and how sure that is."""

    values: Tensor  # (B, V) in [0, 1]
    slack: Tensor  # (B,)
    """The most that a candidate which was left out could still give: values above it are exact, others are lower bounds."""

    @property
    def approximate(self) -> Tensor:
        """Whether candidates were left out that could matter: (B,) bool."""
        return self.slack > 0


@dataclass(frozen=True)
class Tuples:
    """The best values of the answer variables of one query, in their order, with their truths."""

    ranked: tuple[tuple[tuple[int, ...], float], ...]
    """The truest first; an id is that of an entity, or of a relation where the variable stands for one."""
    slack: float
    """The most that a tuple which was left out could have: those above it are the best ones, exactly."""


class Executor:
    """Answers queries by any formula; it keeps nothing between calls."""

    def __init__(self, known: Known, one_hop: OneHop, settings: ReasonSettings | None = None) -> None:
        self.known, self.one_hop, self.settings = known, one_hop, settings or ReasonSettings()
        self._entities = len(known.graph.entities)
        self._most = max(1, CELLS // max(1, self._entities))

    def scores(self, table: QueryTable, rows: np.ndarray, out: Tensor, deadline: Deadline = NEVER) -> Tensor:
        """Computes the truth of all entities as answers of these rows, as `starqe.measure.evaluate` asks for it: (B, V).

        Raises:
            UnsupportedError: The table is reified.
            DeadlineError: The time is up.
        """
        return self.truths(table, rows, out, deadline).values

    def truths(self, table: QueryTable, rows: np.ndarray, out: Tensor | None = None, deadline: Deadline = NEVER) -> Result:
        """Computes the truth of all entities as answers of these rows (written to ``out``, if it is given), and the slack.

        Raises:
            UnsupportedError: The table is reified.
            DeadlineError: The time is up.
        """
        out = torch.empty(len(rows), self._entities) if out is None else out
        slack = torch.zeros(len(rows))
        with torch.inference_mode():
            for start in range(0, len(rows), self._most):
                span = slice(start, start + self._most)
                questions = questions_of_rows(table, rows[span])
                plan, execution = self._execution(questions, deadline)
                out[span], slack[span] = execution.run(plan, execution.start())
                if plan.binds:
                    for place, row in enumerate(rows[span], start):
                        out[place, torch.from_numpy(self._known_answers(table, row, deadline)).long()] = 1
        return Result(out, slack)

    def query_truths(self, query: Query, deadline: Deadline = NEVER) -> Result:
        """Computes the truth of all entities as answers of a query with one answer variable: (1, V).

        Raises:
            InputError: An identifier does not occur in the graph.
            UnsupportedError: The query has several answer variables, or one that stands for a relation.
            DeadlineError: The time is up.
        """
        questions = question_of(query, self.known.graph)
        if len(questions.pattern.answers) != 1 or {*questions.pattern.answers} & questions.pattern.relations:
            raise UnsupportedError(f"truths over all entities are of one variable that stands for entities, found {query}")
        with torch.inference_mode():
            plan, execution = self._execution(questions, deadline)
            values, slack = execution.run(plan, execution.start())
            return Result(values.clone(), slack)

    def best(self, query: Query, count: int, deadline: Deadline = NEVER, without: Collection[tuple[int, ...]] = frozenset()) -> Tuples:
        """Finds the best values of the answer variables of a query, without trying all, and without those that are not wanted.

        Raises:
            InputError: An identifier does not occur in the graph.
            DeadlineError: The time is up.
        """
        questions = question_of(query, self.known.graph)
        best = BestTuples(count, without)
        with torch.inference_mode():
            plan, execution = self._execution(questions, deadline)
            collect(execution, plan, execution.start(), best)
        return Tuples(tuple(best.ranked()), best.slack)

    def explain(self, query: Query, answers: Sequence[Sequence[int]], deadline: Deadline = NEVER) -> list[Derivation]:
        """Finds the best way to make each of some answers of a query true; an answer has a value for each answer variable.

        Raises:
            InputError: An identifier does not occur in the graph, or a value is no id of it.
            DeadlineError: The time is up.
        """
        return self._explain(question_of(query, self.known.graph), answers, deadline)

    def explain_known(self, query: Query, answer: Sequence[int | None], deadline: Deadline = NEVER) -> Derivation | None:
        """Derives an answer from facts alone: one proof; None where there is none.

        Args:
            query: The query.
            answer: A value for each answer variable, or None where it may be any.
            deadline: When to stop.

        Raises:
            InputError: An identifier does not occur in the graph.
            DeadlineError: The time is up.
        """
        questions = question_of(query, self.known.graph)
        given = {str(variable): id_ for variable, id_ in zip(query.answers, answer, strict=True) if id_ is not None}
        constants = {node: int(ids[0]) for node, ids in questions.constants.items()}
        return self._explain_known(questions, constants | given, deadline)

    def explain_row(self, table: QueryTable, row: int, answer: int, deadline: Deadline = NEVER) -> Derivation:
        """Finds the best way to make an answer of one row of a table true: its truth is that of `truths`.

        Raises:
            InputError: The answer is no entity of the graph.
            UnsupportedError: The table is reified.
            DeadlineError: The time is up.
        """
        questions = questions_of_rows(table, np.array([row]))
        if table.shape.plain and plan_of(questions.pattern).binds and answer in self._known_answers(table, row, deadline):
            given = {node: int(ids[0]) for node, ids in questions.constants.items()} | {TARGET: answer}
            proof = self._explain_known(questions, given, deadline)
            assert proof is not None, "a known answer has a proof"
            return proof
        return self._explain(questions, [[answer]], deadline)[0]

    def _explain(self, questions: Questions, answers: Sequence[Sequence[int]], deadline: Deadline) -> list[Derivation]:
        pattern, graph = questions.pattern, self.known.graph
        for node, ids in zip(pattern.answers, zip(*answers, strict=True), strict=bool(answers)):
            kind, limit = ("a relation", len(graph.relations)) if node in pattern.relations else ("an entity", len(graph.entities))
            for id_ in ids:
                if not 0 <= id_ < limit:
                    raise InputError(f"an answer is {kind} by its id, below {limit:,}, found {id_}")
        with torch.inference_mode():
            plan, execution = self._explaining(questions, deadline)
            return explain(execution, plan, [dict(zip(pattern.answers, ids, strict=True)) for ids in answers])

    def _known_answers(self, table: QueryTable, row: int, deadline: Deadline) -> np.ndarray:
        """Returns the answers that facts alone entail: from bound variables facts are followed for their candidates only.

        Where there are too many facts to join, none: the slack says then that others may be true. None with a negation, either:
        that a fact is missing makes nothing quite true.
        """
        with suppress(UnsupportedError):
            if table.shape.negated:
                return np.empty(0, np.int32)
            if not table.shape.plain:
                return exact.answer_rows(self.known, table, [row], PARTIAL_SOLUTIONS)[0]
            return exact.answer(self.known, Query.from_row(table, row, self.known.graph), PARTIAL_SOLUTIONS, deadline)
        return np.empty(0, np.int32)

    def _explain_known(self, questions: Questions, given: dict[str, int], deadline: Deadline) -> Derivation | None:
        prover = Prover(self.known, questions, deadline)
        values = prover.first(questions.pattern.tree, given)
        if values is None:
            return None
        with torch.inference_mode():
            _, execution = self._explaining(questions, deadline)
            return explain_known(execution, prover, values)

    def _execution(self, questions: Questions, deadline: Deadline) -> tuple[Plan, Execution]:
        plan = plan_of(questions.pattern)
        return plan, Execution(*self._parts(plan, questions, deadline))

    def _explaining(self, questions: Questions, deadline: Deadline) -> tuple[Plan, Explaining]:
        plan = plan_of(questions.pattern)
        return plan, Explaining(*self._parts(plan, questions, deadline), keep=True)

    def _parts(self, plan: Plan, questions: Questions, deadline: Deadline) -> tuple[Pattern, EdgeTruth, str, float, int, int]:
        settings = self.settings
        truth = EdgeTruth(self.known, self.one_hop, settings.cap, questions, self._most, deadline)
        width = plan.width(min(settings.beam, self._entities), settings.questions)
        return questions.pattern, truth, settings.norm, settings.cap, width, self._most
