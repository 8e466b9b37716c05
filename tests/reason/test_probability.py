from collections.abc import Sequence

import numpy as np
import pytest
import torch

from starqe.errors import QueryError
from starqe.kg import Statement, graph_of
from starqe.measure.retrieval import Best, dense_blocks, retrieve
from starqe.queries import SHAPES, QueryTable, sample
from starqe.reason.fitting import check_probability, fit_probability
from starqe.reason.logistic import Logistic
from starqe.reason.mixture import CLASSES
from starqe.reason.probability import answer_features, best_candidates, probabilities


def searched(*scores: float, known: Sequence[int] = (), count: int) -> Best:
    return retrieve(dense_blocks(torch.tensor([scores], dtype=torch.float32)), 1, count, [np.array(known, np.int64)])


def test_candidates_leave_known_answers_out_and_share_the_rest() -> None:
    best = searched(*np.log([4.0, 8.0, 2.0, 2.0]), known=[1], count=2)
    assert best.ids.tolist() == [[0, 2]]
    assert best.shares[0].exp().tolist() == pytest.approx([0.5, 0.25])  # of 4 + 2 + 2


def test_features_are_score_share_rank_known_answers_and_class() -> None:
    best = searched(*np.log([4.0, 8.0, 2.0, 2.0]), known=[1], count=2)
    second = answer_features([SHAPES["2i"]], best, [1])[0, 1]
    classes = [float(name == "intersection") for name in CLASSES]
    assert second.tolist() == pytest.approx([np.log(2), np.log(0.25), np.log(2), np.log(2), *classes], abs=1e-6)


def test_probabilities_never_rise_along_the_ranking() -> None:
    rising = Logistic((0.0, 0.0, 2.0, 0.0, *[0.0] * len(CLASSES)), 0.0)  # more for a lower rank
    features = answer_features([SHAPES["1p"]], searched(3.0, 2.0, 1.0, count=3), [0])
    assert probabilities(rising, features)[0].tolist() == pytest.approx([0.5, 0.5, 0.5])


class Believer:
    """Scores "big" high for everyone."""

    def __init__(self, entities: int, big: int) -> None:
        self.row = torch.zeros(entities)
        self.row[big] = 5.0

    def scores(self, table: QueryTable, rows: np.ndarray, out: torch.Tensor) -> torch.Tensor:
        return out.copy_(self.row.expand(len(rows), -1))


def test_a_fit_gives_what_is_believed_the_share_in_which_it_came_true() -> None:
    # Twenty people move: 15 of them to "big", as is believed, and 5 elsewhere.
    train = [Statement(f"p{i}", "livesIn", f"c{i % 4}") for i in range(20)] + [Statement("q", "livesIn", "big")]
    moved = [Statement(f"p{i}", "livesIn", "big" if i < 15 else f"c{(i + 1) % 4}") for i in range(20)]
    graph = graph_of(train=train, valid=moved)
    scorer = Believer(len(graph.entities), graph.entities.id("big"))
    tables = {"1p": sample(graph, SHAPES["1p"], 20, "valid", [(0, 0)])}
    fitted = fit_probability(graph, scorer, tables).chance
    best = best_candidates(scorer, tables["1p"], np.arange(1), [np.empty(0, int)], 3, len(graph.entities))
    assert probabilities(fitted, answer_features([SHAPES["1p"]], best, [0]))[0, 0] == pytest.approx(0.75, abs=0.12)
    found = check_probability(graph, scorer, fitted, tables)
    assert found is not None
    assert found.every.ece < 0.1
    assert list(found.classes) == ["one-hop"]
    assert {name: part.count for name, part in found.known.items()} == {"1 or 2": found.every.count}  # each has one home in train


def test_without_hard_answers_nothing_can_be_fitted() -> None:
    graph = graph_of(train=[Statement("a", "r", "b"), Statement("b", "r", "c")])
    with pytest.raises(QueryError, match="answers that train lacks, and there are none"):
        fit_probability(graph, Believer(3, 0), {})
