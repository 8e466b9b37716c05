"""Statements with a gap: one part of each is missing, and is the question."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from starqe.errors import InputError, UnsupportedError
from starqe.kg.graph import Graph
from starqe.queries.shape import TARGET
from starqe.queries.table import QueryTable, one_hop_table
from starqe.ragged import BoolArray, FloatArray, IntArray, PairColumns, Ragged

POSITIONS = ("head", "relation", "tail", "value")
"""Where the gap can be: at an end, at the main relation, or at the value of a qualifier pair."""
HEAD, RELATION, TAIL, VALUE = range(len(POSITIONS))

MISSING = -1
"""Marks the part that is asked for."""


@dataclass(frozen=True, eq=False)
class Gaps(PairColumns):
    """Statements by ids, each with `MISSING` in one place, and the ids that fill it.

    n statements · P qualifier pairs. Answers are relations where the main relation is missing, and entities otherwise.

    Raises:
        InputError: A statement has no gap, or several.
    """

    head: IntArray  # (n,)
    relation: IntArray  # (n,)
    tail: IntArray  # (n,)
    pairs: Ragged  # n rows of (relation, value): (P, 2)
    answers: Ragged  # n rows of ids, ascending
    weight: FloatArray | None = None  # (n,): the weight of each in the loss; equal if left out

    def __post_init__(self) -> None:
        assert len(self.pairs) == len(self.answers) == len(self), (len(self), len(self.pairs), len(self.answers))
        open_values = np.bincount(self.pairs.owner[self.pair_value == MISSING], minlength=len(self))
        gaps = open_values + sum((column == MISSING).astype(np.int64) for column in (self.head, self.relation, self.tail))
        if (gaps != 1).any():
            wrong = int(np.argmax(gaps != 1))
            raise InputError(f"a statement with a gap lacks one part, found {int(gaps[wrong])} missing in statement {wrong}")

    def __len__(self) -> int:
        return len(self.head)

    @cached_property
    def position(self) -> IntArray:
        """Where the gap of each statement is, as an index of `POSITIONS`: (n,)."""
        columns = [column == MISSING for column in (self.head, self.relation, self.tail)]
        return np.select(columns, [HEAD, RELATION, TAIL], VALUE)

    def take(self, rows: IntArray | Sequence[int]) -> "Gaps":
        """Returns these statements, in this order."""
        rows = np.asarray(rows, np.int64)
        weight = None if self.weight is None else self.weight[rows]
        return Gaps(self.head[rows], self.relation[rows], self.tail[rows], self.pairs.take(rows), self.answers.take(rows), weight)

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


def with_gap(graph: Graph, rows: IntArray, position: int, kept: BoolArray | None = None, hidden: IntArray | None = None) -> Gaps:
    """Makes statements with a gap from statements of a graph, without answers.

    Args:
        graph: The graph.
        rows: The statements. (n,)
        position: Where the gap is: an index of `POSITIONS`.
        kept: Whether each of their concatenated pairs is given; all are if left out. (P,)
        hidden: For a gap at a value, the pair whose value is missing: an index of the concatenated pairs. (n,)
    """
    columns = {name: getattr(graph, name)[rows] for name in ("head", "relation", "tail")}
    pairs = graph.pairs.take(rows)
    kept = np.ones(len(pairs.items), bool) if kept is None else kept.copy()
    if position == VALUE:
        assert hidden is not None, "a gap at a value is at a pair"
        pairs.items[hidden, 1] = MISSING
        kept[hidden] = True
    else:
        columns[POSITIONS[position]] = np.full(len(rows), MISSING, np.int32)
    return Gaps(columns["head"], columns["relation"], columns["tail"], pairs.where(kept), Ragged.empty(len(rows)))


def stack_gaps(parts: Sequence[Gaps]) -> Gaps:
    """Concatenates gaps; those without a weight get weight 1."""
    columns = [np.concatenate([getattr(part, name) for part in parts]) for name in ("head", "relation", "tail")]
    weights = [np.ones(len(part)) if part.weight is None else part.weight for part in parts]
    weight = None if all(part.weight is None for part in parts) else np.concatenate(weights)
    head, relation, tail = columns
    pairs, answers = Ragged.stack([part.pairs for part in parts]), Ragged.stack([part.answers for part in parts])
    return Gaps(head, relation, tail, pairs, answers, weight)


def asked_relation(gaps: Gaps) -> IntArray:
    """Returns the relation whose value is missing: that of the open pair, or the main relation. (n,)."""
    relation, open_pairs = gaps.relation.copy(), gaps.pair_value == MISSING
    relation[gaps.pairs.owner[open_pairs]] = gaps.pair_relation[open_pairs]
    return relation


def gaps_of(table: QueryTable, rows: IntArray | Sequence[int]) -> Gaps:
    """Returns queries of one edge as statements with a gap at their target.

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
    return Gaps(head, part.relations[:, 0], tail, part.pairs, part.answers)


def queries_of(gaps: Gaps) -> QueryTable:
    """Returns statements that all lack their tail, or all lack their head, as queries of one edge.

    Raises:
        UnsupportedError: One lacks something else.
    """
    if lost := gaps.position[~np.isin(gaps.position, (HEAD, TAIL))].tolist():
        raise UnsupportedError(
            f"queries of one edge ask for heads and tails, found a question for the {POSITIONS[lost[0]]}. Ask a predictor"
        )
    backward = bool((gaps.position == HEAD).all())
    given = gaps.tail if backward else gaps.head
    return one_hop_table("tail" if backward else "head", given, gaps.relation, gaps.pairs, gaps.answers)


def queries_by_side(gaps: Gaps, sides: Sequence[int] = (HEAD, TAIL)) -> tuple[list[tuple[QueryTable, IntArray]], IntArray]:
    """Returns statements that lack their head or their tail as queries of one edge, one table per side with all of its rows.

    Also returns the index of each statement among the rows of all tables: (n,).
    """
    rows = [found for side in sides if len(found := np.flatnonzero(gaps.position == side))]
    return [(queries_of(gaps.take(one)), np.arange(len(one))) for one in rows], np.argsort(np.concatenate(rows))
