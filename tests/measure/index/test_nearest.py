import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from starqe.errors import InputError, MismatchError, StorageError, UnsupportedError
from starqe.folders import file_checksum, write_header
from starqe.measure.index import lists, nearest
from starqe.measure.index.nearest import HEADER, LISTS, EntityIndex, build_index, open_index
from starqe.measure.retrieval import Best, retrieve
from starqe.model.similarity import SIMILARITY, EntityRows

pytest.importorskip("faiss", reason="needs the extra index")
V, D, B = 4_000, 16, 12


def clustered(seed: int, rows: int) -> torch.Tensor:
    """Rows around 60 centres, as communities are in trained embeddings."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(60, D, generator=generator)
    generator.manual_seed(seed)
    return centres[torch.randint(60, (rows,), generator=generator)] + 0.4 * torch.randn(rows, D, generator=generator)


ROWS, VECTORS = clustered(1, V), clustered(2, B)


def exact(similarity: str, count: int, without: list[np.ndarray] | None = None, rows: torch.Tensor = ROWS) -> Best:
    return retrieve(EntityRows(SIMILARITY[similarity], lambda: rows).blocks(VECTORS), B, count, without)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index") / "index"
    build_index(folder, lambda: ROWS, "dot", VECTORS, "abc")
    return folder


@pytest.fixture(scope="module")
def index(folder: Path) -> EntityIndex:
    return open_index(folder, lambda: ROWS, "dot", "abc")


def visiting_all(index: EntityIndex) -> EntityIndex:
    return EntityIndex(index._lists, "dot", lambda: ROWS, replace(index.measured, probes=index.measured.lists))


@pytest.mark.parametrize("similarity", SIMILARITY)
def test_every_similarity_finds_most_of_the_best_entities_with_their_exact_scores(similarity, tmp_path):
    index = build_index(tmp_path / "index", lambda: ROWS, similarity, VECTORS, "abc")
    found, true = index.best(VECTORS, 100), exact(similarity, 100)
    recall = np.mean([np.isin(one, other).mean() for one, other in zip(true.ids, found.ids, strict=True)])
    assert recall >= nearest.ENOUGH
    assert index.measured.recall == pytest.approx(recall)
    scores = SIMILARITY[similarity].scores(VECTORS, ROWS)
    torch.testing.assert_close(found.scores, scores.gather(1, torch.from_numpy(found.ids)))
    assert (found.scores[:, :-1] >= found.scores[:, 1:]).all()


def test_visiting_all_lists_is_exact_search(index):
    found, true = visiting_all(index).best(VECTORS, 20), exact("dot", 20)
    np.testing.assert_array_equal(found.ids, true.ids)
    torch.testing.assert_close(found.scores, true.scores)


def test_entities_that_do_not_compete_are_neither_found_nor_counted(index):
    without = [best[: 5 * row].copy() for row, best in enumerate(exact("dot", 100).ids)]
    found, true = visiting_all(index).best(VECTORS, 20, without), exact("dot", 20, without)
    np.testing.assert_array_equal(found.ids, true.ids)
    torch.testing.assert_close(found.log_normaliser, true.log_normaliser, rtol=0, atol=1e-4)


def test_a_sample_of_all_entities_gives_the_exact_normaliser_and_no_error(index):
    found = index.best(VECTORS, 10)
    torch.testing.assert_close(found.log_normaliser, exact("dot", 10).log_normaliser)
    assert found.error is not None
    assert (found.error == 0).all()
    assert not found.exact.any()  # what was not visited may be better


@pytest.mark.parametrize(("scale", "least", "most"), [(0.2, 0.6, 1.4), (0.5, 0.05, 1.4)], ids=["even", "few large terms"])
def test_the_error_of_the_normaliser_is_as_large_as_the_estimate_says(index, monkeypatch, scale, least, most):
    """The difference divided by its standard error has a mean square of about 1 over many samples; less, if the sum has few large terms."""
    monkeypatch.setattr(nearest, "SAMPLE", 600)
    monkeypatch.setattr(nearest, "CANDIDATES", 100)
    true, off = log_sum(scale), []
    for seed in range(40):
        whole = replace(index.measured, probes=index.measured.lists)
        found = EntityIndex(index._lists, "dot", lambda: ROWS, whole, seed).best(scale * VECTORS, 10)
        assert found.error is not None
        assert (found.error > 0).all()
        off.append(((found.log_normaliser - true) / found.error).numpy())
    assert least < np.mean(np.square(off)) < most
    assert abs(np.mean(off)) < 0.3


def log_sum(scale: float) -> torch.Tensor:
    return torch.logsumexp(scale * VECTORS @ ROWS.T, 1)


def test_fewer_entities_than_asked_for_are_filled_up_with_nothing(index):
    without = [np.arange(V - 3)] * B
    found = visiting_all(index).best(VECTORS, 5, without)
    assert (found.scores[:, 3:] == -torch.inf).all()
    assert (found.scores[:, :3] > -torch.inf).all()
    assert set(found.ids[0, :3].tolist()) == {V - 3, V - 2, V - 1}


def test_the_same_seed_gives_the_same_index(folder, tmp_path):
    build_index(tmp_path / "again", lambda: ROWS, "dot", VECTORS, "abc")
    assert file_checksum(tmp_path / "again" / LISTS) == file_checksum(folder / LISTS)


def test_an_index_of_other_weights_or_another_similarity_is_refused(folder):
    with pytest.raises(MismatchError, match=r"was built for the weights abc and the similarity dot, and the model has the weights def"):
        open_index(folder, lambda: ROWS, "dot", "def")
    with pytest.raises(MismatchError, match=r"and cosine. Build the index again"):
        open_index(folder, lambda: ROWS, "cosine", "abc")


def test_a_damaged_index_is_refused(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "index")
    content = bytearray((copy / LISTS).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / LISTS).write_bytes(content)
    with pytest.raises(StorageError, match=r"lists.faiss: damaged or changed"):
        open_index(copy, lambda: ROWS, "dot", "abc")
    (copy / LISTS).unlink()
    with pytest.raises(StorageError, match="Build the index again"):
        open_index(copy, lambda: ROWS, "dot", "abc")
    header = json.loads((copy / HEADER).read_text())
    (copy / HEADER).write_text(json.dumps({**header, "seed": 7}))
    with pytest.raises(StorageError, match="damaged or changed"):
        open_index(copy, lambda: ROWS, "dot", "abc")


def test_what_is_left_of_a_removed_index_is_replaced(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "index")
    (copy / HEADER).unlink()  # a kill while it was removed
    build_index(copy, lambda: ROWS, "dot", VECTORS, "abc")
    assert open_index(copy, lambda: ROWS, "dot", "abc").measured.entities == V


@pytest.mark.parametrize("change", [{"probes": 0}, {"entities": V + 1}, {"lists": 1}, {"candidates": 0}])
def test_an_index_of_other_sizes_is_refused(folder, tmp_path, change):
    copy = shutil.copytree(folder, tmp_path / "index")
    header = json.loads((copy / HEADER).read_text())
    header.pop("checksum")
    write_header(copy / HEADER, header.pop("format"), header.pop("version"), {**header, "measured": {**header["measured"], **change}})
    with pytest.raises(StorageError, match=r"damaged \((entities and lists are|an index has 1 to) .*Build the index again"):
        open_index(copy, lambda: ROWS, "dot", "abc")


def test_what_cannot_be_indexed_is_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="at least 1,000 entities and is measured by queries, found 10 and 12"):
        build_index(tmp_path / "index", lambda: ROWS[:10], "dot", VECTORS, "abc")
    with monkeypatch.context() as patch:
        patch.setattr(SIMILARITY["dot"], "order", None, raising=False)
        with pytest.raises(UnsupportedError, match=r"found the similarity 'dot'. Use exact search"):
            build_index(tmp_path / "index", lambda: ROWS, "dot", VECTORS, "abc")
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert not lists.available()
    with pytest.raises(UnsupportedError, match=r"needs the package faiss-cpu. Install it \(pip install 'starqe\[index\]'\)"):
        build_index(tmp_path / "index", lambda: ROWS, "dot", VECTORS, "abc")
    assert not (tmp_path / "index").exists()
