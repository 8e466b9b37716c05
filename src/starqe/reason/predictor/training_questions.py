"""Training questions of a predictor: those that statements answer, sampled again for every epoch."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from starqe.errors import InputError
from starqe.kg import Graph
from starqe.queries.exact.entailed import Entailed
from starqe.queries.gaps import HEAD, RELATION, TAIL, VALUE, Gaps, stack_gaps, with_gap
from starqe.ragged import BoolArray, FloatArray, IntArray
from starqe.reason.predictor.config import PredictorTrainConfig
from starqe.seed import generator


class TrainingQuestions:
    """The questions that the statements of some splits answer, as batches; the seed and the number of the epoch decide them.

    Ends: every statement with pairs asks for its tail and for its head. Statements without pairs that ask the same are asked
    together: with ``weigh = "statements"``, up to ``merge`` of them make one weighted question. With ``"questions"``, every
    distinct question without pairs is asked once, including those of statements with pairs.
    A share of the statements asks for the value of a pair, and a share for the relation.

    Every question has all its answers, with the same weight each. So a statement is not the only correct answer to its question,
    and other correct answers are not treated as errors.

    Raises:
        InputError: The splits have no statements.
    """

    def __init__(self, graph: Graph, config: PredictorTrainConfig, seed: int) -> None:
        self._graph, self._config, self._seed = graph, config, seed
        known = graph.known(config.splits)
        if not len(known):
            raise InputError(f"a predictor learns from statements, found none in {', '.join(config.splits)}. Choose other train.splits")
        self.entailed = Entailed(known)
        self._all = known.rows
        self._counts = graph.pairs.counts
        # A number is predicted from its entity, not the other way round.
        self._between = self._all[graph.tail[self._all] < len(graph.entities)]
        asked = {TAIL: (self._all, graph.head), HEAD: (self._between, graph.tail)}
        self._paired = {position: rows[self._counts[rows] > 0] for position, (rows, _) in asked.items()}
        self._plain = {position: self._without_pairs(*of) for position, of in asked.items()}
        self._values = min(len(self._paired[TAIL]), round(config.value_share * len(self._all)))
        self._relations = round(config.relation_share * len(self._between))
        self._share = 1.0
        if config.questions_per_epoch:
            self._share = min(1.0, config.questions_per_epoch / max(1, self.per_epoch))

    @property
    def per_epoch(self) -> int:
        """The number of questions per epoch."""
        ends = (*(rows for rows, _ in self._plain.values()), *self._paired.values())
        return sum(self._share_of(len(rows)) for rows in ends) + self._share_of(self._values) + self._share_of(self._relations)

    def _share_of(self, count: int) -> int:
        """Returns how many of these questions are in an epoch."""
        return count if self._share == 1 else round(self._share * count)

    def _some(self, rows: IntArray, random: np.random.Generator) -> IntArray:
        """Samples the indexes of the questions of an epoch, among those of one kind."""
        if self._share == 1:
            return np.arange(len(rows))
        return random.choice(len(rows), self._share_of(len(rows)), replace=False, shuffle=False)

    @property
    def steps_per_epoch(self) -> int:
        """The number of batches per epoch."""
        return -(-self.per_epoch // self._config.batch)

    def batches(self, epoch: int, start: int = 0) -> Iterator[Gaps]:
        """Yields the batches of an epoch, from the given one on, with their answers."""
        return map(self.entailed.answered, self.asked(epoch, start))

    def asked(self, epoch: int, start: int = 0) -> Iterator[Gaps]:
        """Yields the same batches without their answers."""
        random = generator(self._seed, f"epoch {epoch}")
        questions = self._questions(random)
        order = random.permutation(len(questions))
        size = self._config.batch
        for begin in range(start * size, len(order), size):
            yield questions.take(order[begin : begin + size])

    def _questions(self, random: np.random.Generator) -> Gaps:
        """Samples the questions of an epoch; their answers are looked up batch by batch."""
        graph, parts = self._graph, []
        for position, (plain, weight) in self._plain.items():
            chosen = self._some(plain, random)
            plain, weight = plain[chosen], None if weight is None else weight[chosen]
            parts.append(replace(with_gap(graph, plain, position, np.zeros(self._counts[plain].sum(), bool)), weight=weight))
            paired = self._paired[position][self._some(self._paired[position], random)]
            parts.append(with_gap(graph, paired, position, self._draw(paired, random)))
        rows = random.choice(self._paired[TAIL], self._share_of(self._values), replace=False, shuffle=False)
        before = np.cumsum(self._counts[rows]) - self._counts[rows]
        parts.append(with_gap(graph, rows, VALUE, self._draw(rows, random), before + random.integers(0, self._counts[rows])))
        rows = random.choice(self._between, self._share_of(self._relations), replace=False, shuffle=False)
        parts.append(with_gap(graph, rows, RELATION, self._draw(rows, random)))
        return stack_gaps(parts)

    def _draw(self, rows: IntArray, random: np.random.Generator) -> BoolArray:
        """Samples for each pair of the statements whether it is given: any subset of the pairs makes a true statement."""
        counts = self._counts[rows]
        fate = np.repeat(random.random(len(rows)), counts)
        none, some = self._config.no_pairs, self._config.no_pairs + self._config.some_pairs
        return np.asarray((fate >= some) | ((fate >= none) & (random.random(counts.sum()) < 0.5)))

    def _without_pairs(self, rows: IntArray, given: IntArray) -> tuple[IntArray, FloatArray | None]:
        """Returns the questions without pairs of every epoch, each represented by one of its statements, and their weights."""
        by_statement = self._config.weigh == "statements"
        rows = rows[self._counts[rows] == 0] if by_statement else rows
        codes = given[rows].astype(np.int64) * len(self._graph.relations) + self._graph.relation[rows]
        _, first, count = np.unique(codes, return_index=True, return_counts=True)
        if not by_statement:
            return rows[first], None
        times = -(-count // self._config.merge)
        return np.repeat(rows[first], times), None if self._config.merge == 1 else np.repeat(count / times, times)
