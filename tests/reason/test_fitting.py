"""Fits from the best candidates give what whole rows give, and stop when their time is up."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from starqe.deadline import NEVER, Deadline
from starqe.kg import Graph, Statement, graph_of
from starqe.learn.training_queries import Part
from starqe.measure.exact_search import Nearest
from starqe.queries import SHAPES, Query, QueryTable, Variable, sample, table_of_query
from starqe.queries.formula import Atom
from starqe.queries.table import stack
from starqe.reason import fitting
from starqe.reason.fitting import fit_probability, fit_weights, in_turns
from starqe.reason.listed import Listed, Result, Rows
from tests.reason.test_mixture import nearest_of
from tests.reason.test_probability import Believer

PEOPLE = 40
TRAIN = [Statement(f"p{i}", "livesIn", f"c{i % 4}") for i in range(PEOPLE)] + [Statement("q", "livesIn", "big")]
MOVED = [Statement(f"p{i}", "livesIn", "big" if i % 4 else f"c{(i + 1) % 4}") for i in range(PEOPLE)]
GRAPH = graph_of(train=TRAIN, valid=MOVED)
TABLES = {"1p": sample(GRAPH, SHAPES["1p"], 30, "valid", [(0, 0)])}


class Random:
    """An encoder and an executor with a row of random numbers for each anchor."""

    def __init__(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        self._scores = torch.from_numpy(draw.normal(0, 2, (len(GRAPH.entities),) * 2).astype(np.float32))
        self._truths = torch.from_numpy((draw.random((len(GRAPH.entities),) * 2) ** 3).astype(np.float32))

    @property
    def entities(self) -> int:
        return len(GRAPH.entities)

    def _of(self, numbers: torch.Tensor, parts: Sequence[Part]) -> torch.Tensor:
        return torch.cat([numbers[torch.from_numpy(table.anchors[rows, 0]).long()] for table, rows in parts])

    def scores_of(self, parts: Sequence[Part], out: torch.Tensor) -> torch.Tensor:
        return out.copy_(self._of(self._scores, parts))

    def blocks(self, parts: Sequence[Part]) -> None:
        raise NotImplementedError

    def nearest(self, parts: Sequence[Part], count: int, without: Sequence[np.ndarray] | None = None) -> Nearest:
        return nearest_of(self._of(self._scores, parts), count, without)

    def scores(self, table: QueryTable, rows: np.ndarray, out: torch.Tensor) -> torch.Tensor:
        return self.scores_of([(table, rows)], out)

    def truths_of(self, parts: Sequence[Part], out: torch.Tensor | None = None, deadline: Deadline = NEVER) -> Result:
        raise NotImplementedError

    def rows_of(self, parts: Sequence[Part], deadline: Deadline = NEVER, wanted: int | None = None, listed: int = 0) -> Rows:
        rows = [Listed(row, np.arange(self.entities)).kept(listed) for row in self._of(self._truths, parts)]
        return Rows(rows, torch.zeros(len(rows)))


class Truths(Random):
    """The same as a scorer: the truths are its scores."""

    def scores(self, table: QueryTable, rows: np.ndarray, out: torch.Tensor) -> torch.Tensor:
        return out.copy_(self._of(self._truths, [(table, rows)]))


@pytest.mark.parametrize("seed", range(5))
def test_the_weights_from_the_best_candidates_are_those_of_whole_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder, executor = Random(seed), Truths(seed)
    dense = fit_weights(GRAPH, encoder, executor, TABLES)
    monkeypatch.setattr(fitting, "DENSE", 0)
    monkeypatch.setattr(fitting, "CANDIDATES", len(GRAPH.entities))
    assert fit_weights(GRAPH, encoder, executor, TABLES) == dense


def test_a_fit_stops_when_its_time_is_up_but_has_seen_some_queries_of_every_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "_BATCH", 10)
    scorer = Believer(len(GRAPH.entities), GRAPH.entities.id("big"))
    two = {"1p": TABLES["1p"], "again": TABLES["1p"]}
    every, some = (fit_probability(GRAPH, scorer, two, seconds).evidence for seconds in (None, 0.0))
    assert (every.candidates, some.candidates) == (2 * 30 * fitting.ANSWER_CANDIDATES, 10 * fitting.ANSWER_CANDIDATES)
    assert 0 < some.positives < every.positives


def test_tables_take_turns_until_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [(place, batch.start, batch.stop) for place, batch in in_turns([5, 2, 3], 2, None, least=1)] == [
        *[(0, 0, 2), (1, 0, 2), (2, 0, 2)],
        *[(0, 2, 4), (2, 2, 3)],
        (0, 4, 5),
    ]
    clock = iter(range(100))
    monkeypatch.setattr(fitting.time, "monotonic", lambda: next(clock))
    assert [place for place, _ in in_turns([5, 2, 3], 2, 2.5, least=1)] == [0, 1]  # it is 1 and 2 o'clock, then 3
    assert [place for place, _ in in_turns([5, 2, 3], 2, 0, least=2)] == [0, 1]


class ByAnchor:
    """Scores that depend on the first anchor."""

    def __init__(self, graph: Graph, rows: dict[str, dict[str, float]]) -> None:
        self._rows = torch.full((len(graph.entities),) * 2, 1e-6)
        for anchor, scores in rows.items():
            for entity, score in scores.items():
                self._rows[graph.entities.id(anchor), graph.entities.id(entity)] = score

    def scores(self, table: QueryTable, rows: np.ndarray, out: torch.Tensor) -> torch.Tensor:
        return out.copy_(self._rows[torch.from_numpy(table.anchors[rows, 0]).long()])


@pytest.mark.parametrize(("test", "expected"), [(0, 0.2), (10, 0.0)])
def test_queries_that_lack_several_statements_decide_the_weight_if_there_is_much_to_test(test: int, expected: float) -> None:
    # d -s-> x is known for the answer x of a, and not for the answer w of c. The encoder ranks x third and w first: 1/3 + 1. From a
    # weight of 0.2 on, the executor makes x first and w second: 1 + 1/2. With ten test statements for four of validation w counts
    # 1 + 3.5 times: 1 + 4.5 / 2 is less than 1/3 + 4.5.
    graph = graph_of(
        train=[Statement("d", "s", "x"), Statement("d", "s", "y"), Statement("a", "r", "z"), Statement("c", "r", "z")],
        valid=[Statement("a", "r", "x"), Statement("c", "r", "w"), Statement("d", "s", "w"), Statement("z", "r", "z")],
        test=[Statement("z", "s", f"t{i}") for i in range(test)],
    )
    asked = [Query.conjunction([Atom(anchor, "r", Variable("x")), Atom("d", "s", Variable("x"))], "x") for anchor in ("a", "c")]
    table = stack([table_of_query(query, graph) for query in asked])
    table = QueryTable(**{**vars(table), "header": {"split": "valid", "fingerprint": graph.fingerprint}})
    encoder = ByAnchor(graph, {"a": {"x": 7.0, "y": 8.0, "z": 9.0}, "c": {"w": 9.0, "y": 8.0, "z": 7.0}})
    executor = ByAnchor(graph, {"a": {"x": 0.9, "y": 1e-5, "z": 1e-5}, "c": {"w": 1e-5, "y": 0.9}})
    assert fit_weights(graph, encoder, executor, {"2i": table}).executor["intersection"] == expected
