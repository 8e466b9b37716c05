"""The truth of single edges: 1 where a known statement entails the edge, else the capped probability of a predictor.

Truths over entities are `starqe.reason.listed.Listed` rows: dense ones, or the best with a bound on the others.

V entities · n nodes that are asked about · Q different questions among them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from starqe.deadline import NEVER, Deadline
from starqe.errors import UnsupportedError
from starqe.kg.known import Known, Side
from starqe.queries.gaps import MISSING, Gaps
from starqe.ragged import IntArray, Ragged
from starqe.reason.executor.pattern import Label, Questions
from starqe.reason.listed import Listed, Prediction, Source, everywhere

OTHER: dict[Side, Side] = {"head": "tail", "tail": "head"}


class OneHop(Protocol):
    """Predicts the missing part of a statement, an end or a qualifier value: a probability for each entity."""

    def probabilities(self, gaps: Gaps, out: Tensor) -> Tensor:
        """Returns the probability of every entity, in [0, 1]; may write to ``out`` and return it: (B, V).

        All gaps are at ends, or all are values.
        """


@runtime_checkable
class Bounded(Protocol):
    """A one-hop predictor with an upper bound on the probability of an answer that needs no prediction."""

    def ceilings(self, gaps: Gaps) -> Tensor:
        """Returns an upper bound on the probability of every entity that is not a known answer: (B,)."""


@runtime_checkable
class Retrieving(Protocol):
    """A one-hop predictor that finds the most probable entities without a row over all of them."""

    def best(self, gaps: Gaps, count: int) -> list[Listed]:
        """Returns the probabilities of the most probable entities that are not known answers, for each gap; others are bounded by them.

        All gaps are at ends, or all are values.
        """


@runtime_checkable
class Rounding(Protocol):
    """A one-hop predictor with rounded probabilities of all entities, which are faster, and exact ones of any."""

    def rounded(self, gaps: Gaps) -> list[Listed]:
        """Returns the probabilities of all entities for each gap; those that are rounded have an exact source.

        All gaps are at ends, or all are values.
        """


Asked: TypeAlias = tuple[Side, int, Label]
"""The side of the given end, the entity there, and the label of the edge."""
Made: TypeAlias = dict[Asked, Listed]
"""Predictions that were made already, without facts."""


@dataclass(frozen=True)
class Predictions:
    """Asks a one-hop predictor; its probabilities are capped."""

    one_hop: OneHop
    cap: float
    entities: int
    listed: int | None
    """The number of entities that are listed of each prediction; None if all are."""
    may_round: bool = False
    """Whether probabilities of all entities may be rounded: for the target alone, whose best truths are computed exactly in the end."""

    def rows(self, gaps: Gaps, buffer: Tensor | None = None) -> list[Listed]:
        """Predicts what is missing; rows over all entities are in the buffer, if there is one: (B, V)."""
        if self.listed is not None and isinstance(self.one_hop, Retrieving):
            return [_capped(row, self.cap) for row in self.one_hop.best(gaps, self.listed)]
        if self.may_round and isinstance(self.one_hop, Rounding):
            return [_capped(row, self.cap) for row in self.one_hop.rounded(gaps)]
        out = torch.empty(len(gaps), self.entities) if buffer is None else buffer
        return [Listed(row) for row in torch.clamp(self.one_hop.probabilities(gaps, out), 0, self.cap, out=out)]

    @property
    def dense(self) -> bool:
        """Whether predictions are rows over all entities."""
        return self.listed is None or not isinstance(self.one_hop, Retrieving)


def _capped(row: Listed, cap: float) -> Listed:
    source = row.source
    capped: Source | None = None
    if isinstance(source, Prediction):
        capped = replace(source, cap=cap)
    elif source is not None:
        capped = lambda ids: source(ids).clamp_max(cap)  # noqa: E731
    return Listed(row.values.clamp_max(cap), row.ids, min(row.rest, cap), capped)


class Labels:
    """Numbers labels: equal labels have one number, so that equal questions are asked once."""

    def __init__(self) -> None:
        self._numbers: dict[Label, int] = {}
        self._columns: tuple[IntArray, Ragged] | None = None

    def number(self, label: Label) -> int:
        """Returns the number of a label."""
        if label not in self._numbers:
            self._columns = None
        return self._numbers.setdefault(label, len(self._numbers))

    @property
    def meaning(self) -> list[Label]:
        """The labels, by number."""
        return list(self._numbers)

    @property
    def columns(self) -> tuple[IntArray, Ragged]:
        """The relation and the pairs of each label."""
        if self._columns is None:
            relations = np.array([relation for relation, _ in self._numbers], np.int32)
            self._columns = relations, Ragged.of_lists([pairs for _, pairs in self._numbers], 2)
        return self._columns


class EdgeTruth:
    """The truth of the edges of some questions."""

    def __init__(
        self,
        known: Known,
        predictions: Predictions,
        questions: Questions,
        most: int,
        deadline: Deadline = NEVER,
        made: Made | None = None,
    ) -> None:
        self._made = {} if made is None else made
        self.known, self._predictions, self._most, self.deadline = known, predictions, most, deadline
        self.questions, self.all_labels = questions, Labels()
        numbers = [[self.all_labels.number(label) for label in row] for row in questions.labels]
        self.labels = np.array(numbers, np.int64).reshape(len(questions), -1)  # (R, E)
        self._statements: dict[int, IntArray] = {}
        self._buffer: Tensor | None = None

    @property
    def listed(self) -> int:
        """The number of entities that are listed of each row, if not all are."""
        return self._predictions.listed or len(self.known.graph.entities)

    def statements(self, label: int) -> IntArray:
        """Returns all known statements with the relation and the pairs of a label."""
        if label not in self._statements:
            relation, pairs = self.all_labels.meaning[label]
            if pairs:
                rarest = min((self.known.by_qualifier(*pair) for pair in pairs), key=len)
                rows = rarest[self.known.graph.relation[rarest] == relation] if relation >= 0 else rarest
                rows = rows[self.known.with_pairs(rows, pairs)]
            else:
                rows = self.known.by_relation(relation) if relation >= 0 else self.known.rows
            self._statements[label] = rows
        return self._statements[label]

    def ends(self, side: Side, statements: IntArray) -> IntArray:
        """Returns the entities on one side of statements."""
        graph = self.known.graph
        return np.asarray((graph.head if side == "head" else graph.tail)[statements])

    def facts(self, side: Side, nodes: IntArray, labels: IntArray) -> tuple[IntArray, IntArray]:
        """Finds, for every node, the known statements with its label that have it on this side.

        Returns:
            Positions in ``nodes`` and statement rows, of the same length: one pair for each match.
        """
        position, statement = self.known.expand(side, nodes, self.all_labels.columns[0][labels])
        return self._fitting(position, statement, labels)

    def between(self, heads: IntArray, tails: IntArray, labels: IntArray) -> tuple[IntArray, IntArray]:
        """Finds the known statements with each label from each head to each tail: positions and statement rows, as `facts` does."""
        position, statement = self.known.find(heads, self.all_labels.columns[0][labels], tails)
        return self._fitting(position, statement, labels)

    def values(
        self, heads: IntArray, tails: IntArray, labels: IntArray, relations: Sequence[int], fact: bool = False
    ) -> Iterator[tuple[int, Listed, IntArray]]:
        """Predicts the value of a further pair of each statement, given its ends, its label and the relation of the pair.

        Edges that have to be facts are not predicted.

        Yields:
            The position of each statement, the truths of all entities, and the known values.
        """
        graph = self.known.graph
        position, statement = self.between(heads, tails, labels)
        label_relation, label_pairs = self.all_labels.columns
        wanted = np.asarray(relations, np.int32)
        for start in range(0, len(heads), self._most):  # asked together, as many at a time as the buffer holds
            self.deadline.check()
            some = slice(start, start + self._most)
            count = len(heads[some])
            given = label_pairs.take(labels[some])
            asked = np.stack([wanted[some], np.full(count, MISSING, np.int32)], axis=1)
            pairs = Ragged.of_counts(given.counts + 1, np.insert(given.items, given.offsets[1:], asked, axis=0))
            gaps = Gaps(heads[some], label_relation[labels[some]], tails[some], pairs, Ragged.empty(count))
            for place, truth in enumerate([everywhere(0)] * count if fact else self._of_values(gaps), start):
                own = graph.pairs.take(statement[position == place]).items
                known = np.unique(own[own[:, 0] == wanted[place], 1])
                yield place, truth.with_facts(known), known

    def predicted(self, side: Side, nodes: IntArray, labels: IntArray, fact: bool = False) -> Iterator[tuple[int, Listed]]:
        """Predicts the other end of every node's edge: each distinct question once, as many at a time as the buffer holds.

        Edges that have to be facts are not predicted.

        Yields:
            The position of each node, and the truths, which are valid until the next one.
        """
        if fact:
            yield from ((place, everywhere(0)) for place in range(len(nodes)))
            return
        rest = np.arange(len(nodes))
        if self._made:
            missing = []
            for place, question in enumerate(self.asked(side, nodes, labels)):
                if (one := self._made.get(question)) is None:
                    missing.append(place)
                else:
                    yield place, one
            rest = np.array(missing, np.int64)
        if len(rest):
            yield from ((int(rest[place]), row) for place, row in self._asked(side, nodes[rest], labels[rest]))

    def asked(self, side: Side, nodes: IntArray, labels: IntArray) -> list[Asked]:
        """Returns the questions for the other end of every node's edge."""
        meaning = self.all_labels.meaning
        return [(side, node, meaning[label]) for node, label in zip(nodes.tolist(), labels.tolist(), strict=True)]

    def _asked(self, side: Side, nodes: IntArray, labels: IntArray) -> Iterator[tuple[int, Listed]]:
        entities = len(self.known.graph.entities)
        codes, first, place = np.unique(labels * entities + nodes, return_index=True, return_inverse=True)
        order = np.argsort(first)  # in the given order: neighbours belong to one query, whose row then stays in the cache
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        question, codes = rank[place], codes[order]
        by_question = np.argsort(question, kind="stable")
        question = question[by_question]
        for start in range(0, len(codes), self._most):
            self.deadline.check()
            part = codes[start : start + self._most]
            asked = slice(*np.searchsorted(question, [start, start + self._most]))
            rows = self._rows(self._gaps(side, part % entities, part // entities))
            yield from zip(by_question[asked].tolist(), (rows[row] for row in (question[asked] - start).tolist()), strict=True)

    def ceilings(self, side: Side, nodes: IntArray, labels: IntArray) -> Tensor:
        """Returns an upper bound on the predictions for the other end of every node's edge, without facts: (n,)."""
        one_hop, cap = self._predictions.one_hop, self._predictions.cap
        if not isinstance(one_hop, Bounded):
            return torch.full((len(nodes),), cap)
        return one_hop.ceilings(self._gaps(side, nodes, labels)).clamp_max(cap)

    def one(self, side: Side, head: int, tail: int, label: int, fact: bool = False) -> tuple[float, IntArray]:
        """Returns the truth of one edge that is predicted from this side, and the known statements that entail it."""
        _, found = self.between(np.array([head]), np.array([tail]), np.array([label]))
        if len(found) or fact:
            return float(len(found) > 0), found
        given, other = (head, tail) if side == "head" else (tail, head)
        (row,) = self._rows(self._gaps(side, np.array([given]), np.array([label])))
        return float(row.at(np.array([other]))), found

    def _fitting(self, position: IntArray, statement: IntArray, labels: IntArray) -> tuple[IntArray, IntArray]:
        """Keeps the matches whose statement has the pairs of its label."""
        pairs = self.all_labels.columns[1]
        first, last = pairs.offsets[labels[position]], pairs.offsets[labels[position] + 1]
        fits = self.known.have_pairs(statement, first, last, *pairs.items.T)
        return position[fits], statement[fits]

    def _gaps(self, side: Side, nodes: IntArray, labels: IntArray) -> Gaps:
        relations, pairs = self.all_labels.columns
        missing = np.full(len(nodes), MISSING)
        head, tail = (nodes, missing) if side == "head" else (missing, nodes)
        return Gaps(head, relations[labels], tail, pairs.take(labels), Ragged.empty(len(nodes)))

    def _of_values(self, gaps: Gaps) -> list[Listed]:
        """Predicts qualifier values; with a model that predicts heads and tails only, they come from facts alone."""
        try:
            return self._rows(gaps)
        except UnsupportedError:
            return [everywhere(0)] * len(gaps)

    def _rows(self, gaps: Gaps) -> list[Listed]:
        if not self._predictions.dense or self._predictions.may_round:
            return self._predictions.rows(gaps)
        if self._buffer is None or len(self._buffer) < len(gaps):
            self._buffer = torch.empty(len(gaps), len(self.known.graph.entities))
        return self._predictions.rows(gaps, self._buffer[: len(gaps)])
