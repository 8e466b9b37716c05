"""Statements with a gap: one thing of each is missing, and is asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from starqe.errors import InputError, UnsupportedError
from starqe.queries import SHAPES, QueryTable
from starqe.queries.shape import INVERSE, TARGET
from starqe.queries.table import ragged_take

POSITIONS = ("head", "relation", "tail", "value")
"""Where the gap can be: at an end, at the main relation, or at the value of a qualifier pair."""
HEAD, RELATION, TAIL, VALUE = range(len(POSITIONS))

MISSING = -1
"""Stands for what is asked for."""


@dataclass(frozen=True, eq=False)
class Gaps:
    """Statements by ids, each with `MISSING` in one place, and what may stand there.

    n statements · P qualifier pairs. The answers of a relation that is asked for are relations, all others are entities.

    Raises:
        InputError: A statement has no gap, or several.
    """

    head: np.ndarray  # (n,)
    relation: np.ndarray  # (n,)
    tail: np.ndarray  # (n,)
    pair_offsets: np.ndarray  # (n + 1,): the pairs of statement i stand at pair_offsets[i] up to the next offset
    pair_relation: np.ndarray  # (P,)
    pair_value: np.ndarray  # (P,)
    answer_offsets: np.ndarray  # (n + 1,)
    answers: np.ndarray  # ascending within a statement
    weight: np.ndarray | None = None  # (n,): how much each counts in learning; all alike if it is left out

    def __post_init__(self) -> None:
        assert len(self.pair_offsets) == len(self.answer_offsets) == len(self) + 1, (len(self), len(self.pair_offsets))
        open_values = np.bincount(self.owner[self.pair_value == MISSING], minlength=len(self))
        gaps = open_values + sum((column == MISSING).astype(np.int64) for column in (self.head, self.relation, self.tail))
        if (gaps != 1).any():
            wrong = int(np.argmax(gaps != 1))
            raise InputError(f"a statement with a gap lacks one thing, found {int(gaps[wrong])} missing in statement {wrong}")

    def __len__(self) -> int:
        return len(self.head)

    @cached_property
    def owner(self) -> np.ndarray:
        """The statement that each pair belongs to: (P,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.pair_offsets))

    @cached_property
    def position(self) -> np.ndarray:
        """Where the gap of each statement is, as a place in `POSITIONS`: (n,)."""
        columns = [column == MISSING for column in (self.head, self.relation, self.tail)]
        return np.select(columns, [HEAD, RELATION, TAIL], VALUE)

    def take(self, rows: np.ndarray | Sequence[int]) -> "Gaps":
        """Gives these statements, in this order."""
        rows = np.asarray(rows, np.int64)
        pair_offsets, pairs = ragged_take(self.pair_offsets, rows)
        answer_offsets, answers = ragged_take(self.answer_offsets, rows)
        return Gaps(
            self.head[rows],
            self.relation[rows],
            self.tail[rows],
            pair_offsets,
            self.pair_relation[pairs],
            self.pair_value[pairs],
            answer_offsets,
            self.answers[answers],
            None if self.weight is None else self.weight[rows],
        )

    def check(self, entities: int, relations: int) -> None:
        """Checks that every id is one of a vocabulary of this size.

        Raises:
            InputError: One is not.
        """
        columns = (
            ("an entity", entities, (self.head, self.tail, self.pair_value)),
            ("a relation", relations, (self.relation, self.pair_relation)),
        )
        for what, limit, of_kind in columns:
            for ids in of_kind:
                if len(ids) and (ids.min() < MISSING or ids.max() >= limit):
                    wrong = ids[(ids < MISSING) | (ids >= limit)][0]
                    raise InputError(
                        f"{what} is an id from 0 to {limit - 1}, found {wrong}. Do the queries belong to another graph than the model?"
                    )


def stack_gaps(parts: Sequence[Gaps]) -> Gaps:
    """Lays gaps end to end; those without a weight count once."""
    columns = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("head", "relation", "tail", "pair_relation", "pair_value", "answers")
    }
    offsets = {
        name: np.concatenate([[0], np.cumsum(np.concatenate([np.diff(getattr(part, name)) for part in parts]))])
        for name in ("pair_offsets", "answer_offsets")
    }
    weights = [np.ones(len(part)) if part.weight is None else part.weight for part in parts]
    weight = None if all(part.weight is None for part in parts) else np.concatenate(weights)
    return Gaps(**columns, **offsets, weight=weight)


def gaps_of(table: QueryTable, rows: np.ndarray | Sequence[int]) -> Gaps:
    """Gives queries of one edge as statements with a gap at their target.

    Raises:
        UnsupportedError: The shape has several edges, or its edge does not join an anchor and the target.
    """
    shape = table.shape
    if len(shape.edges) != 1 or len(shape.anchors) != 1:
        raise UnsupportedError(
            f"a one-hop predictor answers queries of one edge (A>? or ?>A), found the shape '{shape.name}' ({shape.text}). "
            "Ask a run of an encoder, or the executor"
        )
    part = table.take(rows)
    given, missing = part.anchors[:, 0], np.full(len(part), MISSING, part.anchors.dtype)
    head, tail = (missing, given) if shape.edges[0][0] == TARGET else (given, missing)
    pairs = part.pair_offsets, part.pair_relation, part.pair_value
    return Gaps(head, part.relations[:, 0], tail, *pairs, part.answer_offsets, part.answers)


def queries_of(gaps: Gaps) -> QueryTable:
    """Gives statements that all lack their tail, or all lack their head, as queries of one edge."""
    backward = bool((gaps.position == HEAD).all())
    given = gaps.tail if backward else gaps.head
    pairs = gaps.pair_offsets, gaps.pair_relation, gaps.pair_value
    return QueryTable(
        INVERSE if backward else SHAPES["1p"], given[:, None], gaps.relation[:, None], *pairs, gaps.answer_offsets, gaps.answers
    )
