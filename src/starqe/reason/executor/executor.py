"""Questions by fuzzy logic: known facts where there are some, one-hop predictions where there are none.

The truth of an answer is the best that any choice of the inner variables gives. The truth of a choice is that of the whole formula: a
conjunction joins the truths of its parts by a norm, a disjunction by the dual of the norm, and a negation is 1 less the truth of
its part.
"""

from collections.abc import Collection, Mapping, Sequence
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
from starqe.reason.executor.ahead import MOST, Asked, predict_ahead
from starqe.reason.executor.derivation import Derivation
from starqe.reason.executor.execution import Execution
from starqe.reason.executor.explain import Explaining, explain, explain_known
from starqe.reason.executor.messages import FIRST, least_of_best
from starqe.reason.executor.pattern import Pattern, Questions, pattern_of_shape, question_of, questions_of_rows
from starqe.reason.executor.plan import plan_of
from starqe.reason.executor.prove import Prover
from starqe.reason.executor.settings import ReasonSettings
from starqe.reason.executor.steps import Plan
from starqe.reason.executor.truth import EdgeTruth, OneHop
from starqe.reason.executor.tuples import BestTuples, collect

Ahead = Mapping[Asked, Tensor]
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


@dataclass(frozen=True, eq=False)
class Best:
    """The best answers of some queries beside the known ones, the truest first."""

    ids: np.ndarray  # (B, k)
    truths: Tensor  # (B, k); -inf where there are no more
    slack: Tensor  # (B,)
    """The most that any other answer could have: truths above it are exact, and those of the best ones."""

    @property
    def exact(self) -> Tensor:
        """Whether these are the best answers, with their exact truths, beyond doubt: (B,) bool."""
        return self.slack <= self.truths[:, -1].clamp_min(0)


@dataclass(frozen=True)
class Tuples:
    """The best values of the answer variables of one query, in their order, with their truths."""

    ranked: tuple[tuple[tuple[int, ...], float], ...]
    """The truest first; an id is that of an entity, or of a relation where the variable stands for one."""
    slack: float
    """The most that a tuple which was left out could have: those above it are the best ones, exactly. 0 where none can be among them."""


class Executor:
    """Answers queries by any formula; it keeps nothing between calls."""

    def __init__(self, known: Known, one_hop: OneHop, settings: ReasonSettings | None = None) -> None:
        self.known, self.one_hop, self.settings = known, one_hop, settings or ReasonSettings()
        self._entities = len(known.graph.entities)
        self._most = max(1, CELLS // max(1, self._entities))

    def scores(self, table: QueryTable, rows: np.ndarray, out: Tensor, deadline: Deadline = NEVER) -> Tensor:
        """Computes the truth of all entities as answers of these rows, as `starqe.measure.evaluate` asks for it: (B, V).

        The best `settled` predicted answers are exact, if the beam allows; the other truths are lower bounds.

        Raises:
            UnsupportedError: The table is reified.
            DeadlineError: The time is up.
        """
        return self.scores_of([(table, rows)], out, deadline)

    def scores_of(self, parts: Sequence[tuple[QueryTable, np.ndarray]], out: Tensor, deadline: Deadline = NEVER) -> Tensor:
        """Computes the scores for rows of several tables, part after part, as `scores` does: (B, V).

        What few questions are sure to need is predicted together, whatever their shapes.

        Raises:
            UnsupportedError: A table is reified.
            DeadlineError: The time is up.
        """
        with torch.inference_mode():
            asked = [questions_of_rows(table, rows) for table, rows in parts if len(rows) <= MOST]
            ahead = self._ahead(asked) if len(asked) == len(parts) else {}
        start = 0
        for table, rows in parts:
            self.truths(table, rows, out[start : start + len(rows)], deadline, wanted=self.settings.settled, ahead=ahead)
            start += len(rows)
        return out

    def truths(
        self,
        table: QueryTable,
        rows: np.ndarray,
        out: Tensor | None = None,
        deadline: Deadline = NEVER,
        *,
        wanted: int = 0,
        ahead: Ahead | None = None,
    ) -> Result:
        """Computes the truth of all entities as answers of these rows (written to ``out``, if it is given), and the slack.

        Args:
            table: The queries.
            rows: Those that are asked.
            out: A buffer: (B, V).
            deadline: When to stop.
            wanted: The number of best predicted answers that have to be exact: predictions that cannot change them are not made. With 0,
                predictions are made for every candidate of the beam.
            ahead: Predictions that were made already.

        Raises:
            UnsupportedError: The table is reified.
            DeadlineError: The time is up.
        """
        out = torch.empty(len(rows), self._entities) if out is None else out
        slack = torch.zeros(len(rows))
        with torch.inference_mode():
            for start in range(0, len(rows), self._most):
                part = rows[start : start + self._most]
                self._fill(table, part, out[start : start + len(part)], slack[start : start + len(part)], wanted, deadline, ahead)
        return Result(out, slack)

    def best_rows(
        self, table: QueryTable, rows: np.ndarray, count: int, known: Sequence[np.ndarray] | None = None, deadline: Deadline = NEVER
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
        if known is None:
            result.values.masked_fill_(result.values >= 1, -torch.inf)
        else:
            for place, ids in enumerate(known):
                result.values[place, torch.from_numpy(ids.astype(np.int64))] = -torch.inf
        best = result.values.topk(min(count, self._entities), dim=1)
        return Best(best.indices.numpy(), best.values, result.slack)

    def _fill(
        self, table: QueryTable, rows: np.ndarray, out: Tensor, slack: Tensor, wanted: int, deadline: Deadline, ahead: Ahead | None
    ) -> None:
        """Computes the truths of rows that fit into a buffer.

        Where several variables are to be tried, few candidates of each are tried first. What that settles is done; for the others, more
        candidates are tried as far as they can lift an answer above the best ones so far.
        """
        plan = plan_of(pattern_of_shape(table.shape))
        floor: Tensor | None = None
        left = np.arange(len(rows))
        for narrow in (FIRST, 0) if wanted and plan.repeats and self._width(plan) > FIRST else (0,):
            questions = questions_of_rows(table, rows[left])
            execution = self._execution(questions, deadline, narrow=narrow, ahead=ahead)[1]
            values, slacks = execution.run(plan, execution.start(floor), wanted)
            if len(left) == len(rows) and floor is None:
                out.copy_(values)
                slack.copy_(slacks)
            else:  # both rounds give lower bounds, and answers at the floor were found in the first one
                place = torch.from_numpy(left)
                out[place], slack[place] = torch.maximum(out[place], values), torch.minimum(slack[place], slacks)
            if narrow:
                floor = least_of_best(values, wanted)
                unsettled = slacks > floor
                left, floor = left[unsettled.numpy()], floor[unsettled]
                if not len(left):
                    break
        if plan.binds:
            for place_, row in enumerate(rows):
                out[place_, torch.from_numpy(self._known_answers(table, row, deadline)).long()] = 1

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
        ranked = tuple(best.ranked())
        least = ranked[-1][1] if len(ranked) == count else 0.0
        return Tuples(ranked, best.slack if best.slack > least else 0.0)

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

    def _ahead(self, asked: Sequence[Questions]) -> Ahead:
        plans = [(plan_of(questions.pattern), questions) for questions in asked]
        return predict_ahead(self.one_hop, self.settings.cap, plans, self._entities)

    def _execution(
        self, questions: Questions, deadline: Deadline, *, narrow: int = 0, ahead: Ahead | None = None
    ) -> tuple[Plan, Execution]:
        plan = plan_of(questions.pattern)
        return plan, Execution(*self._parts(plan, questions, deadline, ahead), narrow=narrow)

    def _explaining(self, questions: Questions, deadline: Deadline) -> tuple[Plan, Explaining]:
        plan = plan_of(questions.pattern)
        return plan, Explaining(*self._parts(plan, questions, deadline), keep=True)

    def _parts(
        self, plan: Plan, questions: Questions, deadline: Deadline, ahead: Ahead | None = None
    ) -> tuple[Pattern, EdgeTruth, str, float, int, int]:
        settings = self.settings
        ahead = self._ahead([questions]) if ahead is None else ahead
        truth = EdgeTruth(self.known, self.one_hop, settings.cap, questions, self._most, deadline, ahead)
        return questions.pattern, truth, settings.norm, settings.cap, self._width(plan), self._most

    def _width(self, plan: Plan) -> int:
        return plan.width(min(self.settings.beam, self._entities), self.settings.questions)
