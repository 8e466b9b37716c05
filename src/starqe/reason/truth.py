"""The truth of single edges: 1 where a known statement entails the edge, else the capped probability of a predictor.

V entities · n nodes that are asked about · Q different questions among them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from starqe.kg.known import Known, Side
from starqe.queries.shape import INVERSE, SHAPES
from starqe.queries.table import QueryTable, ragged_take

ONE_HOP = {"head": SHAPES["1p"], "tail": INVERSE}
"""The shape of a question, by the side of the given node."""
OTHER: dict[Side, Side] = {"head": "tail", "tail": "head"}


class OneHop(Protocol):
    """Anything that says how probable each entity is as the answer of a one-hop query."""

    def probabilities(self, table: QueryTable, rows: np.ndarray, out: Tensor) -> Tensor:
        """Gives the probability of every entity as the answer, in [0, 1]; may write to ``out`` and return it: (B, V).

        The table has the shape ``A>?`` (which tails?) or ``?>A`` (which heads?).
        """


@dataclass(frozen=True, eq=False)
class Predicted:
    """Some questions with the probabilities of all entities, and which of the nodes asked them."""

    nodes: np.ndarray  # (Q,)
    labels: np.ndarray  # (Q,)
    truth: Tensor  # (Q, V), up to the cap; valid until the next ones are asked for
    asked: np.ndarray  # positions in the nodes that were given
    question: np.ndarray  # the row of ``truth`` for each of them


class EdgeTruth:
    """The truth of the edges of some rows of a table.

    What an edge says apart from its ends (its relation and its set of pairs) is its label. Labels are numbered, so that
    equal questions of different rows are asked once.
    """

    def __init__(self, known: Known, one_hop: OneHop, cap: float, table: QueryTable, rows: np.ndarray, most: int) -> None:
        self.known, self._one_hop, self._cap, self._most = known, one_hop, cap, most
        edges = len(table.shape.edges)
        numbers: dict[tuple[int, tuple[tuple[int, int], ...]], int] = {}
        self.labels = np.empty((len(rows), edges), np.int64)
        for place, row in enumerate(rows.tolist()):
            for edge in range(edges):
                label = int(table.relations[row, edge]), tuple(sorted(set(table.pairs_of(row, edge))))
                self.labels[place, edge] = numbers.setdefault(label, len(numbers))
        self.meaning = list(numbers)
        self._relation = np.array([relation for relation, _ in numbers], np.int32)
        self._offsets = np.concatenate([[0], np.cumsum([len(pairs) for _, pairs in numbers])]).astype(np.int64)
        self._pairs = np.array([pair for _, pairs in numbers for pair in pairs], np.int32).reshape(-1, 2)
        self._statements: dict[int, np.ndarray] = {}
        self._buffer: Tensor | None = None

    def statements(self, label: int) -> np.ndarray:
        """Gives all known statements with the relation and the pairs of a label."""
        if label not in self._statements:
            relation, pairs = self.meaning[label]
            if pairs:
                rarest = min((self.known.by_qualifier(*pair) for pair in pairs), key=len)
                rows = rarest[self.known.graph.relation[rarest] == relation]
                rows = rows[self.known.with_pairs(rows, pairs)]
            else:
                rows = self.known.by_relation(relation)
            self._statements[label] = rows
        return self._statements[label]

    def ends(self, side: Side, statements: np.ndarray) -> np.ndarray:
        """Gives the entities on one side of statements."""
        graph = self.known.graph
        return np.asarray((graph.head if side == "head" else graph.tail)[statements])

    def facts(self, side: Side, nodes: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Finds, for every node, the known statements with its label that have it on this side.

        Returns:
            Positions in ``nodes`` and statement rows, of the same length: one pair for each match.
        """
        position, statement = self.known.expand(side, nodes, self._relation[labels])
        first, last = self._offsets[labels[position]], self._offsets[labels[position] + 1]
        fits = self.known.have_pairs(statement, first, last, *self._pairs.T)
        return position[fits], statement[fits]

    def predicted(self, side: Side, nodes: np.ndarray, labels: np.ndarray) -> Iterator[Predicted]:
        """Asks for the other end of every node's edge: each different question once, and so many at a time as the buffer holds."""
        entities = len(self.known.graph.entities)
        codes, first, place = np.unique(labels * entities + nodes, return_index=True, return_inverse=True)
        order = np.argsort(first)  # as they come: neighbours belong to one query, whose row then stays in the cache
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        question, codes = rank[place], codes[order]
        by_question = np.argsort(question, kind="stable")
        question = question[by_question]
        for start in range(0, len(codes), self._most):
            part = codes[start : start + self._most]
            asked = slice(*np.searchsorted(question, [start, start + self._most]))
            truth = self._ask(side, part % entities, part // entities)
            yield Predicted(part % entities, part // entities, truth, by_question[asked], question[asked] - start)

    def one(self, side: Side, head: int, tail: int, label: int) -> tuple[float, np.ndarray]:
        """Gives the truth of one edge that is predicted from this side, and the known statements that entail it."""
        given, other = (head, tail) if side == "head" else (tail, head)
        _, found = self.facts(side, np.array([given]), np.array([label]))
        found = found[self.ends(OTHER[side], found) == other]
        if len(found):
            return 1.0, found
        return float(self._ask(side, np.array([given]), np.array([label]))[0, other]), found

    def _ask(self, side: Side, nodes: np.ndarray, labels: np.ndarray) -> Tensor:
        if self._buffer is None:
            self._buffer = torch.empty(self._most, len(self.known.graph.entities))  # pages that are never touched cost nothing
        offsets, pairs = ragged_take(self._offsets, labels)
        table = QueryTable(
            ONE_HOP[side],
            nodes[:, None].astype(np.int32),
            self._relation[labels][:, None],
            offsets,
            self._pairs[pairs, 0],
            self._pairs[pairs, 1],
            np.zeros(len(nodes) + 1, np.int64),
            np.empty(0, np.int32),
        )
        out = self._buffer[: len(nodes)]
        return torch.clamp(self._one_hop.probabilities(table, np.arange(len(nodes)), out), 0, self._cap, out=out)
