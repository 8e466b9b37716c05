import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from starqe.bench.scale.world import World
from starqe.bench.scale.world_folder import write_world
from starqe.cli.main import app
from starqe.errors import MismatchError
from starqe.kg import load_graph
from starqe.learn import Run, preset
from starqe.measure.index.nearest import FOLDER, HEADER, remove_index
from starqe.measure.retrieval import retrieve
from starqe.model import Encoder
from starqe.queries import MORE_SHAPES, SHAPES, sample
from starqe.queries.gaps import TAIL, with_gap
from starqe.reason import indexing
from starqe.reason.indexing import build_indexes
from starqe.reason.predictor.config import PredictorRecipe
from starqe.reason.predictor.presets import PREDICTORS
from starqe.reason.predictor.run import PredictorRun

pytest.importorskip("faiss", reason="needs the extra index")
SMALL = ["model.width=16", "model.heads=2"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of an encoder with a predictor, both with their first weights, and its indexes."""
    place = tmp_path_factory.mktemp("indexing")
    write_world(World(2_000), place / "world")
    graph = load_graph(place / "world" / "graph")
    run = Run.create(place / "run", preset("demo").with_settings(SMALL), graph)
    run.save_weights(Encoder(run.recipe.model, run.space, 0).state_dict())
    one_hop = PredictorRun.create(place / "run" / "predictor", PredictorRecipe.parse(PREDICTORS["one-hop"]).with_settings(SMALL), graph)
    one_hop.save_weights(one_hop.new_predictor().state_dict())
    build_indexes(place / "run")
    return place / "run"


def test_a_run_is_asked_by_its_index_and_finds_what_exact_search_finds(folder):
    run = Run.open(folder)
    scorer = run.scorer()
    assert scorer.index is not None
    assert scorer.index.measured.recall >= 0.96
    tables = [sample(run.graph, shape, 20, "valid", [(0, 2)] * len(shape.edges)) for shape in SHAPES.values()]
    parts = [(table, np.arange(len(table))) for table in tables if len(table)]
    queries = sum(len(rows) for _, rows in parts)
    found, true = scorer.best(parts, 20), retrieve(scorer.blocks(parts), queries, 20)
    recall = np.mean([np.isin(one, other).mean() for one, other in zip(true.ids, found.ids, strict=True)])
    assert recall > 0.9
    torch.testing.assert_close(found.log_normaliser, true.log_normaliser, atol=1e-4, rtol=0)  # the sample is all of them


def test_unions_have_the_scores_and_the_normaliser_of_exact_search(folder):
    run = Run.open(folder)
    scorer = run.scorer()
    tables = [
        sample(run.graph, shape, 8, "valid", [(0, 1)] * len(shape.edges)) for shape in (MORE_SHAPES["2u"], SHAPES["2i"], MORE_SHAPES["up"])
    ]
    parts = [(table, np.arange(len(table))) for table in tables]
    queries = sum(len(rows) for _, rows in parts)
    dense = retrieve(scorer.blocks(parts), queries, 30)
    without = [ids[1:7] for ids in dense.ids]
    found = scorer.best(parts, 10, without)
    scores = scorer.scores_of(parts, torch.empty(queries, len(run.graph.entities)))
    torch.testing.assert_close(found.scores, scores.gather(1, torch.from_numpy(found.ids)), atol=1e-4, rtol=1e-4)
    true = retrieve(scorer.blocks(parts), queries, 10, without)
    torch.testing.assert_close(found.log_normaliser, true.log_normaliser, atol=1e-3, rtol=0)
    assert np.mean(found.ids == true.ids) > 0.85
    assert not any(np.isin(own, gone).any() for own, gone in zip(found.ids, without, strict=True))


def test_the_predictor_of_a_run_has_an_index_too(folder):
    run = PredictorRun.open(folder / "predictor", Run.open(folder).graph)
    gaps = with_gap(run.graph, np.arange(30), TAIL)
    by_index, exact = run.scorer(), run.scorer()
    assert by_index.index is not None
    exact.index = None
    found, true = by_index.nearest_entities(gaps, 20).best, exact.nearest_entities(gaps, 20).best
    assert np.mean([np.isin(one, other).mean() for one, other in zip(true.ids, found.ids, strict=True)]) > 0.9
    assert (true.error, found.error is None) == (None, False)


def test_other_weights_refuse_the_index_and_saving_weights_removes_it(folder, tmp_path):
    copy = Run.open(shutil.copytree(folder, tmp_path / "run"))
    kept = shutil.copytree(copy.folder / FOLDER, tmp_path / "kept")
    copy.save_weights({name: 2 * tensor for name, tensor in copy.weights().items()})
    assert not (copy.folder / FOLDER).exists()
    assert copy.scorer().index is None
    shutil.copytree(kept, copy.folder / FOLDER)
    with pytest.raises(MismatchError, match=r"was built for the weights .* Build the index again"):
        copy.scorer()


def test_a_fit_indexes_the_models_of_a_large_graph_if_the_library_is_there(folder, tmp_path, monkeypatch):
    runs = [Run.open(shutil.copytree(folder, tmp_path / "run"))]
    remove_index(runs[0].folder)
    indexing.index_large(runs)
    assert runs[0].scorer().index is None  # 2,000 entities are few
    monkeypatch.setattr(indexing, "INDEXED_FROM", 2_000)
    with monkeypatch.context() as without_library:
        without_library.setattr(indexing, "available", lambda: False)
        indexing.index_large(runs)
        assert runs[0].scorer().index is None
    indexing.index_large(runs)
    assert runs[0].scorer().index is not None


def test_the_command_builds_and_replaces_the_indexes_of_a_run(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "run")
    (copy / FOLDER / HEADER).unlink()
    shutil.rmtree(copy / FOLDER)
    result = CliRunner().invoke(app, ["index", str(copy), "--json"])
    measured = json.loads(result.stdout)
    assert list(measured) == ["encoder", "predictor"]
    assert measured["encoder"]["entities"] == 2_000
    assert measured["encoder"] == json.loads((copy / FOLDER / HEADER).read_text())["measured"]
