"""Exact search in blocks finds what sorting whole rows finds."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from starqe.measure import retrieval
from starqe.measure.retrieval import Best, LogSum, dense_blocks, retrieve
from starqe.model import SIMILARITY, similarity
from starqe.model.similarity import EntityRows


def check(best: Best, scores: np.ndarray, count: int, without: list[np.ndarray]) -> None:
    """Compares with sorting: by score, then by id."""
    for row, own in enumerate(scores.astype(float)):
        own[without[row]] = -np.inf
        expected = np.lexsort((np.arange(len(own)), -own))[:count]
        there = np.isfinite(own[expected])
        np.testing.assert_array_equal(best.ids[row][there], expected[there])
        np.testing.assert_allclose(best.scores[row].numpy(), own[expected], rtol=1e-6)
        total = np.logaddexp.reduce(own)
        assert best.log_normaliser[row].item() == pytest.approx(total, abs=1e-5)
        np.testing.assert_allclose(best.shares[row].numpy()[there], own[expected][there] - total, atol=1e-5)


@pytest.mark.parametrize("name", SIMILARITY)
@settings(max_examples=40)
@given(data=st.data())
def test_the_best_entities_are_those_of_whole_rows(name: str, data: st.DataObject) -> None:
    entities, queries = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 4))
    numbers = st.integers(-2, 2)  # few values, so that many scores are equal
    rows = torch.tensor(data.draw(st.lists(st.tuples(numbers, numbers), min_size=entities, max_size=entities)), dtype=torch.float32)
    vectors = torch.tensor(data.draw(st.lists(st.tuples(numbers, numbers), min_size=queries, max_size=queries)), dtype=torch.float32)
    without = [np.array(sorted(data.draw(st.sets(st.integers(0, entities - 1)))), np.int64) for _ in range(queries)]
    count = data.draw(st.integers(1, 35))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(similarity, "BLOCK", data.draw(st.integers(1, 10)))
        patch.setattr(retrieval, "_GROUP", data.draw(st.integers(1, 3)))
        blocks = [(start, block.clone()) for start, block in EntityRows(SIMILARITY[name], lambda: rows).blocks(vectors)]
        whole = torch.cat([block for _, block in blocks], 1).numpy()
        best = retrieve(blocks, queries, count, without)
        check(best, whole, count, without)
    np.testing.assert_allclose(whole, SIMILARITY[name].scores(vectors, rows).numpy(), atol=1e-5)
    assert best.exact.all()


def test_dense_rows_are_searched_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieval, "BLOCK", 2)
    scores = torch.tensor([[0.0, 3.0, 1.0, 3.0, 2.0], [5.0, 5.0, 5.0, 5.0, 5.0]])
    best = retrieve(dense_blocks(scores.clone()), 2, 3, [np.array([4]), np.array([0, 3])])
    assert best.ids.tolist() == [[1, 3, 2], [1, 2, 4]]
    assert best.log_normaliser.tolist() == pytest.approx([np.log(2 * np.exp(3) + np.exp(1) + 1), 5 + np.log(3)])


def test_a_sum_over_blocks_without_any_score_stays_a_number() -> None:
    total = LogSum(2)
    total.add(torch.full((2, 3), -torch.inf))
    total.add(torch.tensor([[-torch.inf, -torch.inf], [700.0, 700.0]]))
    assert total.value.tolist() == pytest.approx([-np.inf, 700 + np.log(2)])
