"""What a predictor learns from: the questions that statements answer, in a fresh pass every epoch."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from starqe.errors import InputError
from starqe.kg import Graph
from starqe.queries.table import ragged_take
from starqe.reason.config import PredictorTrainConfig
from starqe.reason.entailed import Entailed
from starqe.reason.gaps import HEAD, MISSING, POSITIONS, RELATION, TAIL, VALUE, Gaps, stack_gaps
from starqe.seed import generator


def with_gap(graph: Graph, rows: np.ndarray, position: int, kept: np.ndarray | None = None, hidden: np.ndarray | None = None) -> Gaps:
    """Gives statements with a gap, and no answers yet.

    Args:
        graph: Where the statements are.
        rows: Which ones. (n,)
        position: Where the gap is: a place in `POSITIONS`.
        kept: Whether each of their pairs, laid end to end, is given; all are if it is left out. (P,)
        hidden: For a gap at a value, the pair whose value is missing: a place among the pairs laid end to end. (n,)
    """
    offsets, pairs = ragged_take(graph.offsets, rows)
    columns = {name: getattr(graph, name)[rows] for name in ("head", "relation", "tail")}
    value = graph.pair_value[pairs]
    kept = np.ones(len(pairs), bool) if kept is None else kept.copy()
    if position == VALUE:
        assert hidden is not None, "a gap at a value is at a pair"
        value[hidden] = MISSING
        kept[hidden] = True
    else:
        columns[POSITIONS[position]] = np.full(len(rows), MISSING, np.int32)
    owner = np.repeat(np.arange(len(rows)), np.diff(offsets))
    left, none = np.zeros(len(rows) + 1, np.int64), np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.bincount(owner[kept], minlength=len(rows)), out=left[1:])
    given = graph.pair_relation[pairs[kept]], value[kept]
    return Gaps(columns["head"], columns["relation"], columns["tail"], left, *given, none, np.empty(0, np.int32))


class Statements:
    """The questions that the statements of some splits answer, as batches; the seed and the number of the epoch decide them.

    The ends: every statement that has pairs asks for its tail and for its head. Statements without pairs that ask the same are asked
    together: with ``weigh = "statements"``, up to ``merge`` of them make one question, of their weight. With ``"questions"``, every
    distinct question without pairs is asked once, those of statements with pairs among them.
    A share of the statements asks for the value of a pair, and a share for the relation.

    Every question has all its answers, with the same weight each. So a statement is not the one right answer of its question,
    and what the others say is no mistake.

    Raises:
        InputError: The splits have no statement.
    """

    def __init__(self, graph: Graph, config: PredictorTrainConfig, seed: int) -> None:
        self._graph, self._config, self._seed = graph, config, seed
        known = graph.known(config.splits)
        if not len(known):
            raise InputError(f"a predictor learns from statements, found none in {', '.join(config.splits)}. Choose other train.splits")
        self.entailed = Entailed(known)
        self._all = known.rows
        self._counts = np.diff(graph.offsets)
        self._paired = self._all[self._counts[self._all] > 0]
        self._plain = {position: self._without_pairs(given) for position, given in ((TAIL, graph.head), (HEAD, graph.tail))}
        self._values = min(len(self._paired), round(config.value_share * len(self._all)))
        self._relations = round(config.relation_share * len(self._all))

    @property
    def per_epoch(self) -> int:
        """How many questions an epoch has."""
        plain = sum(len(rows) for rows, _ in self._plain.values())
        return plain + 2 * len(self._paired) + self._values + self._relations

    @property
    def steps_per_epoch(self) -> int:
        """How many batches an epoch has."""
        return -(-self.per_epoch // self._config.batch)

    def batches(self, epoch: int, start: int = 0) -> Iterator[Gaps]:
        """Gives the batches of an epoch, from the given one on."""
        random = generator(self._seed, f"epoch {epoch}")
        questions = self._questions(random)
        order = random.permutation(len(questions))
        size = self._config.batch
        for begin in range(start * size, len(order), size):
            yield self.entailed.answered(questions.take(order[begin : begin + size]))

    def _questions(self, random: np.random.Generator) -> Gaps:
        """Draws the questions of an epoch; their answers are found batch by batch."""
        graph, parts = self._graph, []
        for position, (plain, weight) in self._plain.items():
            parts.append(replace(with_gap(graph, plain, position, np.zeros(self._counts[plain].sum(), bool)), weight=weight))
            parts.append(with_gap(graph, self._paired, position, self._draw(self._paired, random)))
        rows = random.choice(self._paired, self._values, replace=False, shuffle=False)
        before = np.cumsum(self._counts[rows]) - self._counts[rows]
        parts.append(with_gap(graph, rows, VALUE, self._draw(rows, random), before + random.integers(0, self._counts[rows])))
        rows = random.choice(self._all, self._relations, replace=False, shuffle=False)
        parts.append(with_gap(graph, rows, RELATION, self._draw(rows, random)))
        return stack_gaps(parts)

    def _draw(self, rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Says of each pair of the statements whether it is given: by the monotone meaning, any subset makes a true statement."""
        counts = self._counts[rows]
        fate = np.repeat(random.random(len(rows)), counts)
        none, some = self._config.no_pairs, self._config.no_pairs + self._config.some_pairs
        return np.asarray((fate >= some) | ((fate >= none) & (random.random(counts.sum()) < 0.5)))

    def _without_pairs(self, given: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Gives the questions without pairs that are asked in every epoch, each as a statement that it comes from, and their weights."""
        by_statement = self._config.weigh == "statements"
        rows = self._all[self._counts[self._all] == 0] if by_statement else self._all
        codes = given[rows].astype(np.int64) * len(self._graph.relations) + self._graph.relation[rows]
        _, first, count = np.unique(codes, return_index=True, return_counts=True)
        if not by_statement:
            return rows[first], None
        times = -(-count // self._config.merge)
        return np.repeat(rows[first], times), None if self._config.merge == 1 else np.repeat(count / times, times)
