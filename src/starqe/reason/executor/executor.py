"""Answers questions by fuzzy logic: from known facts if there are any, else from one-hop predictions.

The truth of an answer is the maximum over all choices of the inner variables. The truth of a choice is that of the whole formula: a
conjunction joins the truths of its parts by a norm, a disjunction by the dual of the norm, and a negation is 1 minus the truth of
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
from starqe.learn.training_queries import Part
from starqe.measure.retrieval import DENSE, Best, best_of
from starqe.queries import Query, QueryTable
from starqe.queries.exact import answering as exact
from starqe.queries.gaps import Gaps
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
from starqe.reason.executor.truth import Asked, EdgeTruth, Made, OneHop, Predictions
from starqe.reason.executor.tuples import BestTuples, Tuples, collect
from starqe.reason.listed import Listed, Result, Rows, everywhere, greatest

CELLS = 1 << 23
"""The number of values in a buffer (32 MiB): it bounds the number of questions, times all entities, in one batch."""
LISTED_ROWS = 256
"""The number of questions in one batch if only the best entities are listed."""
PARTIAL_SOLUTIONS = 1_000_000
"""Maximum number of partial solutions when the facts of a query with a cycle are joined, for answers without predictions."""


class Executor:
    """Answers queries of any formula; it is stateless between calls."""

    def __init__(self, known: Known, one_hop: OneHop, settings: ReasonSettings | None = None) -> None:
        self.known, self.one_hop, self.settings = known, one_hop, settings or ReasonSettings()
        self._entities = len(known.graph.entities)
        self._most = max(1, CELLS // max(1, self._entities))

    def scores(self, table: QueryTable, rows: IntArray, out: Tensor, deadline: Deadline = NEVER) -> Tensor:
        """Computes the truth of all entities as answers of these rows, for `starqe.measure.evaluate`: (B, V).

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

    def truths_of(self, parts: Sequence[Part], out: Tensor | None = None, deadline: Deadline = NEVER, wanted: int | None = None) -> Result:
        """Computes the truths for rows of several tables, part after part, as `truths` does; the `settled` best are wanted by default.

        A small number of queries shares its predictions, whatever the shapes.

        Raises:
            UnsupportedError: A table is reified.
            DeadlineError: The time is up.
        """
        values = torch.empty(sum(len(rows) for _, rows in parts), self._entities) if out is None else out
        return Result(values, self._found(parts, wanted, None, deadline, values).slack)

    def rows_of(self, parts: Sequence[Part], deadline: Deadline = NEVER, wanted: int | None = None, listed: int = 0) -> Rows:
        """Computes the truths for rows of several tables as `truths_of` does, with only the best listed, or rounded with an exact source.

        Args:
            parts: The queries.
            deadline: When to stop.
            wanted: The number of best predicted answers that have to be exact; `settled` by default.
            listed: The number of entities that are listed of each prediction, if it is more than the settings say.

        Raises:
            UnsupportedError: A table is reified.
            DeadlineError: The time is up.
        """
        return self._found(parts, wanted, self._listed(listed), deadline, rough=True)

    def best_rows(
        self, table: QueryTable, rows: IntArray, count: int, known: Sequence[IntArray] | None = None, deadline: Deadline = NEVER
    ) -> Best:
        """Finds the best answers of these rows apart from the known ones; predictions that cannot change them are skipped.

        Args:
            table: The queries.
            rows: Those that are asked.
            count: The number of answers wanted.
            known: The answers to exclude for each row; by default, those that facts alone make true.
            deadline: When to stop.

        Raises:
            UnsupportedError: The table is reified.
            DeadlineError: The time is up.
        """
        found = self._found([(table, rows)], count, self._listed(count), deadline)
        known = [row.facts for row in found.rows] if known is None else known
        with torch.inference_mode():
            best = best_of([row.pairs(self._entities) for row in found.rows], count, known)
        bound = torch.tensor([row.rest if row.ids is not None else 0.0 for row in found.rows])
        ceiling = torch.maximum(found.slack, bound)
        return replace(best, ceiling=torch.where(ceiling > 0, ceiling, -torch.inf))

    def _listed(self, least: int = 0) -> int | None:
        """Returns the number of entities that are listed of each prediction; None if all are."""
        return None if self._entities <= max(DENSE, least) else max(self.settings.listed, least)

    def _found(
        self, parts: Sequence[Part], wanted: int | None, listed: int | None, end: Deadline, out: Tensor | None = None, rough: bool = False
    ) -> Rows:
        """Computes the truths of rows of several tables, to ``out`` if it is given; others may be rounded."""
        count = sum(len(rows) for _, rows in parts)
        rough = rough and all(table.shape.plain and not table.shape.of_kind("variable") for table, _ in parts)
        asking = _Asking(self._predictions(listed, rough), {}, self.settings.settled if wanted is None else wanted, end, count)
        found = Rows([everywhere(1)] * count, torch.zeros(count))
        most = self._most if asking.predictions.dense else LISTED_ROWS
        works, start = list[Work[None]](), 0
        for table, rows in parts:
            for first in range(0, len(rows), most):
                part = rows[first : first + most]
                works.append(self._fill(table, part, asking, found, start, out))
                start += len(part)
        with torch.inference_mode():
            if count <= MOST:
                side_by_side(works, asking.made, lambda asked: self._predict(asking.predictions, asked))
            else:
                for work in works:
                    alone(work)
        return found

    def _fill(self, table: QueryTable, rows: IntArray, asking: "_Asking", found: Rows, start: int, out: Tensor | None) -> Work[None]:
        """Computes the truths of rows that fit into a buffer; yields its questions before it asks them.

        If several variables are to be tried, few candidates of each are tried first. Rows that this settles are done; for the others, more
        candidates are tried, as far as they can raise an answer above the best ones so far.
        """
        plan = plan_of(pattern_of_shape(table.shape))
        floor: Tensor | None = None
        left = np.arange(len(rows))
        known = [np.unique(self._known_answers(table, row, asking.deadline)) for row in rows] if plan.binds else []
        first, wanted = tried_first(FIRST, self._entities), asking.wanted
        for narrow in (first, 0) if wanted and plan.repeats and self._width(plan) > first else (0,):
            questions = questions_of_rows(table, rows[left])
            yield list(at_constants(plan, questions)) if asking.together <= MOST else []
            execution = Execution(*self._parts(plan, questions, asking.predictions, asking.deadline, asking.made), narrow=narrow)
            truths, slacks = yield from execution.stepwise(plan, execution.start(floor), wanted)
            for place, row, slack in zip(left.tolist(), truths, slacks, strict=True):
                if floor is not None:  # both rounds give lower bounds, and answers at the floor were found in the first one
                    row, slack = greatest([found.rows[start + place], row]), min(slack, float(found.slack[start + place]))
                found.rows[start + place], found.slack[start + place] = row.with_facts(known[place]) if known else row, slack
            if narrow:
                floor = torch.tensor([float(least_of_best(row.values.clone(), wanted)) for row in found.rows[start : start + len(rows)]])
                unsettled = torch.tensor(slacks) > floor
                left, floor = left[unsettled.numpy()], floor[unsettled]
                if not len(left):
                    break
        if out is not None:
            for place in range(start, start + len(rows)):
                out[place] = found.rows[place].dense(self._entities)
                found.rows[place] = Listed(out[place])

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
            plan, execution = self._execution(questions, self._predictions(None), deadline)
            (row,), slack = execution.run(plan, execution.start())
            return Result(row.dense(self._entities)[None], torch.tensor(slack))

    def best(self, query: Query, count: int, deadline: Deadline = NEVER, without: Collection[tuple[int, ...]] = frozenset()) -> Tuples:
        """Finds the best values of the answer variables of a query, except those in ``without``; it need not try all.

        Raises:
            InputError: An identifier does not occur in the graph.
            DeadlineError: The time is up.
        """
        questions = question_of(query, self.known.graph)
        best = BestTuples(count, without)
        with torch.inference_mode():
            plan, execution = self._execution(questions, self._predictions(self._listed(best.wanted)), deadline)
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
        """Returns the answers that facts alone entail: beyond bound variables, facts are followed for their candidates only.

        It returns none if there are too many facts to join; the slack then says that others may be true. Nor with a negation:
        a missing fact proves nothing.
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

    def probability(self, gap: Gaps, entity: int) -> float:
        """Returns the capped probability of an entity in one gap, whatever is known."""
        (row,) = self._predictions(self._listed()).rows(gap)
        return float(row.at(np.array([entity])))

    def _predictions(self, listed: int | None, may_round: bool = False) -> Predictions:
        return Predictions(self.one_hop, self.settings.cap, self._entities, listed, may_round)

    def _predict(self, predictions: Predictions, asked: Sequence[Asked]) -> Made:
        return predict(predictions, asked) if 0 < len(asked) <= (self._most if predictions.dense else LISTED_ROWS) else {}

    def _execution(self, questions: Questions, predictions: Predictions, deadline: Deadline) -> tuple[Plan, Execution]:
        plan = plan_of(questions.pattern)
        return plan, Execution(*self._parts(plan, questions, predictions, deadline))

    def _explaining(self, questions: Questions, deadline: Deadline) -> tuple[Plan, Explaining]:
        plan = plan_of(questions.pattern)
        return plan, Explaining(*self._parts(plan, questions, self._predictions(self._listed()), deadline), keep=True)

    def _parts(
        self, plan: Plan, questions: Questions, predictions: Predictions, deadline: Deadline, made: Made | None = None
    ) -> tuple[Pattern, EdgeTruth, str, float, int, int]:
        settings = self.settings
        most = self._most if predictions.dense else LISTED_ROWS
        if made is None:
            made = self._predict(predictions, list(dict.fromkeys(at_constants(plan, questions))))
        truth = EdgeTruth(self.known, predictions, questions, most, deadline, made)
        return questions.pattern, truth, settings.norm, settings.cap, self._width(plan), most if plan.binds else len(questions)

    def _width(self, plan: Plan) -> int:
        return plan.width(min(self.settings.beam, self._entities), self.settings.questions)


@dataclass(frozen=True)
class _Asking:
    """The shared state of the queries of one call."""

    predictions: Predictions
    made: Made
    wanted: int
    deadline: Deadline
    together: int
    """The number of queries."""
