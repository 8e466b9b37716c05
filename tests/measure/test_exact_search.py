"""The best entities by rounded rows are those of exact search, with exact scores."""

import numpy as np
import pytest
import torch

from starqe.measure import exact_search
from starqe.measure.exact_search import EntitySearch, Rounded, nearest, rounded
from starqe.measure.retrieval import retrieve
from starqe.model import SIMILARITY
from starqe.model.similarity import EntityRows

ENTITIES, WIDTH = 6_000, 32
ROWS = torch.randn(ENTITIES, WIDTH, generator=torch.Generator().manual_seed(0)) * torch.linspace(0.2, 3, ENTITIES)[:, None]
VECTORS = torch.randn(20, WIDTH, generator=torch.Generator().manual_seed(1)) * torch.linspace(0.01, 2, 20)[:, None]
WITHOUT = [np.arange(row, ENTITIES, 7) for row in range(20)]


def rows_of(*, frozen: bool = True, similarity: str = "dot") -> EntityRows:
    return EntityRows(SIMILARITY[similarity], lambda: ROWS, frozen=frozen)


needs_rounding = pytest.mark.skipif(rounded(ROWS) is None, reason="this processor or this torch has no products of 8 bits")


@needs_rounding
def test_rounded_rows_find_the_best_entities_and_score_them_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EntityRows, "blocks", None)  # whole rows of scores are not asked for
    search = EntitySearch(rows_of())
    best = search.best(VECTORS, 50, WITHOUT)
    monkeypatch.undo()
    expected = retrieve(rows_of().blocks(VECTORS), len(VECTORS), 50, WITHOUT)
    np.testing.assert_array_equal(best.ids[:, :40], expected.ids[:, :40])  # the last ones may differ
    torch.testing.assert_close(best.scores, expected.scores, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(best.log_normaliser, expected.log_normaliser, rtol=0, atol=5e-4)
    for row, ids in enumerate(best.ids):
        torch.testing.assert_close(best.scores[row], ROWS[ids] @ VECTORS[row], rtol=1e-5, atol=1e-4)


@needs_rounding
def test_rounded_products_are_close_to_exact_ones_for_long_and_short_vectors() -> None:
    for start, scores in Rounded(ROWS).blocks(VECTORS[:4]):
        exact = VECTORS[:4] @ ROWS[start : start + scores.shape[1]].T
        assert ((scores - exact).abs().amax(1) < 0.1 * exact.std(1)).all()


@needs_rounding
def test_all_entities_of_few_vectors_have_rounded_scores_and_the_best_exact_ones() -> None:
    exact, search = VECTORS @ ROWS.T, EntitySearch(rows_of())
    found = search.all(VECTORS[: exact_search.FAST])
    assert found.rounded
    found = found.with_exact_best(20)
    few = exact[: exact_search.FAST]
    assert not torch.equal(found.scores, few)
    assert ((found.scores - few).abs().amax(1) < 0.1 * few.std(1)).all()
    ids = few.topk(20).indices
    torch.testing.assert_close(found.scores.gather(1, ids), few.gather(1, ids), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(found.scores.logsumexp(1), few.logsumexp(1), rtol=0, atol=5e-4)
    rows, places = np.array([2, 0, 2]), np.array([7, 5_999, 0])
    torch.testing.assert_close(found.pairs(rows, places), exact[rows, places], rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(found.at(np.array([2, 1]), places), exact[[2, 1]][:, places], rtol=1e-5, atol=1e-4)
    many = search.all(VECTORS)
    assert not many.rounded
    torch.testing.assert_close(many.scores, exact, rtol=1e-4, atol=1e-3)


def test_pairs_of_other_similarities_are_scored_too() -> None:
    rows, ids = rows_of(similarity="distance"), torch.tensor([5, 3])
    torch.testing.assert_close(rows.pairs(VECTORS[:2], ids), -(VECTORS[:2] - ROWS[ids]).norm(dim=1), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("rows", [rows_of(frozen=False), rows_of(similarity="distance")], ids=["changing", "distance"])
def test_rows_that_change_or_have_distances_are_searched_exactly(rows: EntityRows) -> None:
    best, expected = EntitySearch(rows).best(VECTORS, 50, WITHOUT), retrieve(rows.blocks(VECTORS), len(VECTORS), 50, WITHOUT)
    np.testing.assert_array_equal(best.ids, expected.ids)
    assert torch.equal(best.scores, expected.scores)
    assert torch.equal(best.log_normaliser, expected.log_normaliser)


def test_a_processor_that_multiplies_badly_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    class Saturating(Rounded):
        def blocks(self, vectors):
            return ((start, scores.clamp(-1, 1)) for start, scores in super().blocks(vectors))

    monkeypatch.setattr(exact_search, "Rounded", Saturating)
    assert rounded(ROWS) is None


def test_many_wanted_entities_are_searched_exactly() -> None:
    best = EntitySearch(rows_of()).best(VECTORS[:2], ENTITIES)
    assert best.ids.shape == (2, ENTITIES)
    np.testing.assert_array_equal(np.sort(best.ids[0]), np.arange(ENTITIES))


def test_any_entities_can_be_scored() -> None:
    found = nearest(EntitySearch(rows_of()), VECTORS, 10)
    ids = np.array([5, 3, 5_999])
    torch.testing.assert_close(found.at(np.array([2, 0]), ids), VECTORS[[2, 0]] @ ROWS[ids].T)
