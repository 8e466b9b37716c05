import numpy as np
import pytest
import torch

from starqe.measure.index.lists import clustered, search

faiss = pytest.importorskip("faiss", reason="needs the extra index")
D = 16


def rows_of_lengths(seed: int, lengths: torch.Tensor) -> torch.Tensor:
    directions = torch.randn(len(lengths), D, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(directions) * lengths[:, None]


def test_every_row_is_in_one_list():
    rows = rows_of_lengths(0, torch.linspace(0.1, 3.0, 3_000))
    for similarity in ("dot", "cosine", "distance"):
        lists = clustered(rows, similarity, 0)
        found = search(lists, rows[:2], similarity, 3_000, lists.nlist)
        np.testing.assert_array_equal(np.sort(found, axis=1), np.tile(np.arange(3_000), (2, 1)))


def test_by_products_long_rows_of_no_special_direction_are_visited_first():
    """The best of 100 long rows among 5,000 are found in a tenth of the lists, and a query of any length visits the same ones."""
    lengths = torch.ones(5_000)
    lengths[:100] = 4.0
    rows = rows_of_lengths(1, lengths)
    lists = clustered(rows, "dot", 0)
    queries = rows_of_lengths(2, torch.full((20,), 0.5))
    best = (queries @ rows.T).topk(10).indices.numpy()
    found = search(lists, queries, "dot", 200, lists.nlist // 10)
    assert np.mean([np.isin(one, other).mean() for one, other in zip(best, found, strict=True)]) > 0.8
    again = search(lists, 100 * queries, "dot", 200, lists.nlist // 10)
    assert np.mean([np.isin(one, other).mean() for one, other in zip(found, again, strict=True)]) > 0.95


def test_a_list_is_ranked_by_its_mean_and_by_the_spread_of_its_rows():
    rows = rows_of_lengths(3, torch.linspace(0.5, 2.0, 2_000))
    lists = clustered(rows, "dot", 0)
    centres = faiss.rev_swig_ptr(faiss.downcast_index(lists.quantizer).get_xb(), lists.nlist * (D + 1)).reshape(-1, D + 1)
    kept = faiss.downcast_InvertedLists(lists.invlists)
    for number in (0, lists.nlist - 1):
        size = kept.list_size(number)
        own = rows[torch.from_numpy(faiss.rev_swig_ptr(kept.get_ids(number), size).copy())]
        np.testing.assert_allclose(centres[number, :-1], own.mean(0), atol=1e-5)
        spread = ((own - own.mean(0)).square().sum(1).mean() / D).sqrt()
        np.testing.assert_allclose(centres[number, -1], 1.5 * spread, atol=1e-4)


def test_rows_of_one_length_and_rows_of_zeros_are_clustered_too():
    rows = torch.cat([rows_of_lengths(4, torch.ones(1_500)), torch.zeros(500, D)])
    lists = clustered(rows, "dot", 0)
    assert lists.ntotal == 2_000
    best = (rows[:5] @ rows.T).topk(5).indices.numpy()
    found = search(lists, rows[:5], "dot", 100, lists.nlist)
    assert all(np.isin(one, other).all() for one, other in zip(best, found, strict=True))
