"""Answers questions by fuzzy logic: from known facts where there are some, else from one-hop predictions.

The truth of an answer is the best that any choice of the inner variables gives. The truth of a choice is that of the whole formula: a
conjunction joins the truths of its parts by a norm, a disjunction by the dual of the norm, and a negation is 1 less the truth of
its part.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from starqe.deadline import NEVER, Deadline
from starqe.errors import InputError, UnsupportedError
from starqe.kg import Known
from starqe.measure.retrieval import Best, dense_blocks, retrieve
from starqe.queries import Query, QueryTable
from starqe.queries.exact import answering as exact
from starqe.queries.layout import query_of_row
from starqe.queries.shape import TARGET
from starqe.ragged import IntArray
from starqe.reason.executor.ahead import MOST, Work, alone, at_constants, predict, side_by_side
from starqe.reason.executor.derivation import Derivation
from starqe.reason.executor.execution import Execution
from starqe.reason.executor.explain import Explaining, explain, explain_known
from starqe.reason.executor.messages import FIRST, least_of_best, tried_first
from starqe.reason.executor.pattern import Pattern, Questions, pattern_of_shape, question_of, questions_of_rows
from starqe.reason.executor.plan import plan_of
from starqe.reason.executor.prove import Prover
from starqe.reason.executor.settings import ReasonSettings
from starqe.reason.executor.steps import Plan
from starqe.reason.executor.truth import Asked, EdgeTruth, Made, OneHop
from starqe.reason.executor.tuples import BestTuples, collect

CELLS = 1 << 23
"""The number of values in a buffer (32 MiB): it bounds the number of questions, times all entities, in one batch."""
PARTIAL_SOLUTIONS = 1_000_000
"""Maximum number of partial solutions when the facts of a query with a cycle are joined, for answers without predictions."""


@dataclass(frozen=True, eq=False)
class Result:
    """How true every entity is as an answer, and how sure that is."""

    values: Tensor  # (B, V) in [0, 1]
    slack: Tensor  # (B,)
    """The highest truth that a skipped candidate could give: values above it are exact, others are lower bounds."""

    @property
    def approximate(self) -> Tensor:
        """Whether candidates were left out that could matter: (B,) bool."""
        return self.slack > 0


@dataclass(frozen=True)
class Tuples:
    """The best values of the answer variables of one query, in their order, with their truths."""

    ranked: tuple[tuple[tuple[int, ...], float], ...]
    """The most probable first; an id is that of an entity, or of a relation if the variable is one."""
    slack: float
    """The highest truth that a skipped tuple could have: tuples above it are exactly the best ones. 0 if no tuple was skipped."""


class Executor:
    """Answers queries by any formula; it keeps nothing between calls."""

    def __init__(self, known: Known, one_hop: OneHop, settings: ReasonSettings | None = None) -> None:
        self.known, self.one_hop, self.settings = known, one_hop, settings or ReasonSettings()
        self._entities = len(known.graph.entities)
        self._most = max(1, CELLS // max(1, self._entities))

    def scores(self, table: QueryTable, rows: IntArray, out: Tensor, deadline: Deadline = NEVER) -> Tensor:
        """Computes the truth of all entities as answers of these rows, as `starqe.measure.evaluate` asks for it: (B, V).

        The best `settled` predicted answers are exact, if the beam allows; the other truths are lower bounds.

        Raises:
            UnsupportedError: The table is reified.
            DeadlineError: The time is up.
        """
        return self.truths_of([(table, rows)], out, deadline).values

    def truths(
        self, table: QueryTable, rows: IntArray, out: Tensor | None = None, deadline: Deadline = NEVER, *, wanted: int = 0
    ) -> Result:
        """Computes the truth of all entities as answers of these rows (written to ``out``, if it is given), and the slack.

        Args:
            table: The queries.
            rows: Those that are asked.
            out: A buffer: (B, V).
            deadline: When to stop.
            wanted: The number of best predicted answers that have to be exact: predictions that cannot change them are not made. With 0,
                predictions are made for every candidate of the beam.

        Raises:
            UnsupportedError: The table is reified.
            DeadlineError: The time is up.
        """
        return self.truths_of([(table, rows)], out, deadline, wanted)

    def truths_of(
        self, parts: Sequence[tuple[QueryTable, IntArray]], out: Tensor | None = None, deadline: Deadline = NEVER, wanted: int | None = None
    ) -> Result:
        """Computes the truths for rows of several tables, part after part, as `truths` does; the `settled` best are wanted by default.

        What few queries ask at the same time is predicted together, whatever their shapes.

        Raises:
            UnsupportedError: A table is reified.
            DeadlineError: The time is up.
        """
        count = sum(len(rows) for _, rows in parts)
        found = Result(torch.empty(count, self._entities) if out is None else out, torch.zeros(count))
        made: Made = {}
        works, start = list[Work[None]](), 0
        for table, rows in parts:
            for first in range(0, len(rows), self._most):
                part = rows[first : first + self._most]
                own = Result(found.values[start : start + len(part)], found.slack[start : start + len(part)])
                works.append(self._fill(table, part, own, self.settings.settled if wanted is None else wanted, deadline, made, count))
                start += len(part)
        with torch.inference_mode():
            if count <= MOST:
                side_by_side(works, made, self._predict)
            else:
                for work in works:
                    alone(work)
        return found

    def best_rows(
        self, table: QueryTable, rows: IntArray, count: int, known: Sequence[IntArray] | None = None, deadline: Deadline = NEVER
    ) -> Best:
        """Finds the best answers of these rows beside the known ones; predictions that cannot change them are not made.

        Args:
            table: The queries.
            rows: Those that are asked.
            count: The number of answers wanted.
            known: The answers that are left out, of each; those that facts alone make true if left out.
            deadline: When to stop.

        Raises:
            UnsupportedError: The table is reified.
            DeadlineError: The time is up.
        """
        result = self.truths(table, rows, None, deadline, wanted=count)
        without = [np.flatnonzero(row >= 1) for row in result.values.numpy()] if known is None else known
        with torch.inference_mode():
            best = retrieve(dense_blocks(result.values), len(rows), count, without)
        return replace(best, ceiling=torch.where(result.slack > 0, result.slack, -torch.inf))

    def _fill(
        self, table: QueryTable, rows: IntArray, found: Result, wanted: int, deadline: Deadline, made: Made, together: int
    ) -> Work[None]:
        """Computes the truths of rows that fit into a buffer; says what it asks before it does.

        Where several variables are to be tried, few candidates of each are tried first. What that settles is done; for the others, more
        candidates are tried as far as they can lift an answer above the best ones so far.
        """
        plan = plan_of(pattern_of_shape(table.shape))
        floor: Tensor | None = None
        left = np.arange(len(rows))
        known = [torch.from_numpy(self._known_answers(table, row, deadline)).long() for row in rows] if plan.binds else []
        first = tried_first(FIRST, self._entities)
        for narrow in (first, 0) if wanted and plan.repeats and self._width(plan) > first else (0,):
            questions = questions_of_rows(table, rows[left])
            yield list(at_constants(plan, questions)) if together <= MOST else []
            execution = Execution(*self._parts(plan, questions, deadline, made), narrow=narrow)
            values, slacks = yield from execution.stepwise(plan, execution.start(floor), wanted)
            if len(left) == len(rows) and floor is None:
                found.values.copy_(values)
                found.slack.copy_(slacks)
            else:  # both rounds give lower bounds, and answers at the floor were found in the first one
                place = torch.from_numpy(left)
                found.values[place] = torch.maximum(found.values[place], values)
                found.slack[place] = torch.minimum(found.slack[place], slacks)
            for place_, answers in enumerate(known):
                found.values[place_, answers] = 1
            if narrow:
                floor = least_of_best(found.values.clone(), wanted)
                unsettled = slacks > floor
                left, floor = left[unsettled.numpy()], floor[unsettled]
                if not len(left):
                    break

    def query_truths(self, query: Query, deadline: Deadline = NEVER) -> Result:
        """Computes the truth of all entities as answers of a query with one answer variable: (1, V).

        Raises:
            InputError: An identifier does not occur in the graph.
            UnsupportedError: The query has several answer variables, or one that ranges over relations.
            DeadlineError: The time is up.
        """
        questions = question_of(query, self.known.graph)
        if len(questions.pattern.answers) != 1 or {*questions.pattern.answers} & questions.pattern.relations:
            raise UnsupportedError(f"truths over all entities need one answer variable that ranges over entities, found {query}")
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
        ranked = tuple(best.ranked())
        least = ranked[-1][1] if len(ranked) == count else 0.0
        return Tuples(ranked, best.slack if best.slack > least else 0.0)

    def explain(self, query: Query, answers: Sequence[Sequence[int]], deadline: Deadline = NEVER) -> list[Derivation]:
        """Finds the best way to make each of some answers of a query true; an answer has a value for each answer variable.

        Raises:
            InputError: An identifier does not occur in the graph, or a value is not an id of it.
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
            InputError: The answer is not an entity of the graph.
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

    def _known_answers(self, table: QueryTable, row: int, deadline: Deadline) -> IntArray:
        """Returns the answers that facts alone entail: from bound variables facts are followed for their candidates only.

        Returns none if there are too many facts to join; the slack then says that others may be true. None with a negation, either:
        that a fact is missing makes nothing quite true.
        """
        with suppress(UnsupportedError):
            if table.shape.negated:
                return np.empty(0, np.int32)
            if not table.shape.plain:
                return exact.answer_rows(self.known, table, [row], PARTIAL_SOLUTIONS)[0]
            return exact.answer(self.known, query_of_row(table, row, self.known.graph), PARTIAL_SOLUTIONS, deadline)
        return np.empty(0, np.int32)

    def _explain_known(self, questions: Questions, given: dict[str, int], deadline: Deadline) -> Derivation | None:
        prover = Prover(self.known, questions, deadline)
        values = prover.first(questions.pattern.tree, given)
        if values is None:
            return None
        with torch.inference_mode():
            _, execution = self._explaining(questions, deadline)
            return explain_known(execution, prover, values)

    def _predict(self, asked: Sequence[Asked]) -> Made:
        return predict(self.one_hop, self.settings.cap, asked, self._entities) if 0 < len(asked) <= self._most else {}

    def _execution(self, questions: Questions, deadline: Deadline) -> tuple[Plan, Execution]:
        plan = plan_of(questions.pattern)
        return plan, Execution(*self._parts(plan, questions, deadline))

    def _explaining(self, questions: Questions, deadline: Deadline) -> tuple[Plan, Explaining]:
        plan = plan_of(questions.pattern)
        return plan, Explaining(*self._parts(plan, questions, deadline), keep=True)

    def _parts(
        self, plan: Plan, questions: Questions, deadline: Deadline, made: Made | None = None
    ) -> tuple[Pattern, EdgeTruth, str, float, int, int]:
        settings = self.settings
        if made is None:
            made = self._predict(list(dict.fromkeys(at_constants(plan, questions))))
        truth = EdgeTruth(self.known, self.one_hop, settings.cap, questions, self._most, deadline, made)
        rows = self._most if plan.binds else len(questions)
        return questions.pattern, truth, settings.norm, settings.cap, self._width(plan), rows

    def _width(self, plan: Plan) -> int:
        return plan.width(min(self.settings.beam, self._entities), self.settings.questions)
