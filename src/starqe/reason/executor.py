"""Queries by fuzzy logic: known facts where there are some, one-hop predictions where there are none.

The truth of a query for an answer is the best that any choice of its inner variables gives; the truth of a choice is that of
all its edges, joined by a norm. Disjunction would take the better of two such truths, negation ``1 - truth`` of an edge;
neither is there yet (see `starqe.reason.plan` for where they go).
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from starqe.errors import InputError, UnsupportedError
from starqe.kg import Known
from starqe.queries import QueryTable, answer_rows
from starqe.reason.execution import Execution
from starqe.reason.explain import Explanation, explain_answers, explain_known
from starqe.reason.norms import NORMS
from starqe.reason.plan import plan_of
from starqe.reason.settings import ReasonSettings
from starqe.reason.truth import EdgeTruth, OneHop

CELLS = 1 << 23
"""How many numbers a buffer holds (32 MiB): so many queries or questions, times all entities, are worked on at once."""
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


class Executor:
    """Answers conjunctive queries of any connected shape; it keeps nothing between calls."""

    def __init__(self, known: Known, one_hop: OneHop, settings: ReasonSettings | None = None) -> None:
        self.known, self.one_hop, self.settings = known, one_hop, settings or ReasonSettings()
        self._entities = len(known.graph.entities)
        self._most = max(1, CELLS // max(1, self._entities))

    def scores(self, table: QueryTable, rows: np.ndarray, out: Tensor) -> Tensor:
        """Gives the truth of all entities as answers of these rows, as `starqe.measure.evaluate` asks for it: (B, V).

        Raises:
            UnsupportedError: The table is reified.
        """
        return self.truths(table, rows, out).values

    def truths(self, table: QueryTable, rows: np.ndarray, out: Tensor | None = None) -> Result:
        """Gives the truth of all entities as answers of these rows (written to ``out``, if it is given), and the slack.

        Raises:
            UnsupportedError: The table is reified.
        """
        out = torch.empty(len(rows), self._entities) if out is None else out
        slack = torch.zeros(len(rows))
        with torch.inference_mode():
            for start in range(0, len(rows), self._most):
                span = slice(start, start + self._most)
                execution = self._execution(table, rows[span])
                partial = execution.start(table.anchors[rows[span]])
                out[span], slack[span] = execution.run(execution.plan.steps, partial)
            if plan_of(table.shape).cyclic:
                for place, row in enumerate(rows):
                    out[place, torch.from_numpy(self._known_answers(table, row)).long()] = 1
        return Result(out, slack)

    def explain(self, table: QueryTable, row: int, answer: int) -> Explanation:
        """Gives the best way to make an answer of one query true: its truth is that of `truths`.

        Raises:
            InputError: The answer is no entity of the graph.
            UnsupportedError: The table is reified.
        """
        return self.explain_many(table, row, [answer])[0]

    def explain_many(self, table: QueryTable, row: int, answers: Sequence[int]) -> list[Explanation]:
        """Gives the best way to make each of several answers of one query true, which is faster than one by one.

        Raises:
            InputError: An answer is no entity of the graph.
            UnsupportedError: The table is reified.
        """
        for answer in answers:
            if not 0 <= answer < self._entities:
                raise InputError(f"an answer is an entity by its id, below {self._entities:,}, found {answer}")
        rows = np.array([row])
        with torch.inference_mode():
            known = self._known_answers(table, row) if plan_of(table.shape).cyclic else np.empty(0, np.int64)
            derived = [answer for answer in answers if answer not in known]
            execution = self._execution(table, rows, keep=True)
            found = explain_answers(execution, table.anchors[rows], derived) if derived else []
            ways = dict(zip(derived, found, strict=True))
            return [ways[answer] if answer in ways else explain_known(execution, table, row, answer) for answer in answers]

    def _known_answers(self, table: QueryTable, row: int) -> np.ndarray:
        """Gives the answers that facts alone entail: along a cycle facts are followed from the bound candidates only.

        Where there are too many facts to join, none: the slack says then that others may be true.
        """
        with suppress(UnsupportedError):
            return answer_rows(self.known, table, [row], PARTIAL_SOLUTIONS)[1]
        return np.empty(0, np.int32)

    def _execution(self, table: QueryTable, rows: np.ndarray, *, keep: bool = False) -> Execution:
        plan, settings = plan_of(table.shape), self.settings
        truth = EdgeTruth(self.known, self.one_hop, settings.cap, table, rows, self._most)
        width = plan.width(min(settings.beam, self._entities), settings.questions)
        return Execution(plan, truth, NORMS[settings.norm], settings.cap, width, self._most, keep=keep)
