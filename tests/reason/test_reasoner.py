"""A run that was calibrated: what is fitted is kept, and opened as it was."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from starqe.errors import MismatchError, StorageError
from starqe.kg import Graph, Statement, graph_of
from starqe.learn import EncoderScorer, Run, preset
from starqe.measure.evaluate import Scorer
from starqe.model import Encoder
from starqe.queries import SHAPES, QueryTable, sample
from starqe.reason.executor.executor import Executor
from starqe.reason.executor.settings import ReasonSettings
from starqe.reason.mixture import CLASSES, Mixture
from starqe.reason.predictor.presets import recipe_of
from starqe.reason.predictor.run import PredictorRun
from starqe.reason.predictor.scorer import PredictorScorer
from starqe.reason.reasoner import RANKED_BY, Reasoner, fit_reasoner, save_reasoner

ENCODER = ["model.width=8", "model.heads=2"]
PREDICTOR = ["model.width=8", "model.heads=2", "model.feed_forward=8"]


def world(test_city: str = "c4") -> Graph:
    """People who live in cities of countries; some of what is known is held out."""
    people = [Statement(f"p{i}", "livesIn", f"c{i % 5}", (("since", f"y{i % 3}"),)) for i in range(24)]
    cities = [Statement(f"c{i}", "in", f"n{i % 2}") for i in range(5)]
    more = [Statement(f"p{i}", "livesIn", f"c{(i + 1) % 5}") for i in range(8)]
    return graph_of(train=[*people, *cities], valid=more, test=[Statement("p9", "livesIn", test_city)])


@pytest.fixture(scope="module")
def graph() -> Graph:
    return world()


@pytest.fixture(scope="module")
def validation(graph: Graph) -> dict[str, QueryTable]:
    return {name: sample(graph, SHAPES[name], 10, "valid", [(0, 0)] * len(SHAPES[name].edges)) for name in ("1p", "2p")}


@pytest.fixture
def run(graph: Graph, tmp_path: Path) -> Run:
    """A run whose weights are the first ones: what it says is arbitrary, and always the same."""
    made = Run.create(tmp_path / "run", preset("demo").with_settings(ENCODER), graph)
    made.save_weights(Encoder(made.recipe.model, made.space, 0).state_dict())
    return made


def predictor_of(graph: Graph, folder: Path, *settings: str) -> PredictorRun:
    made = PredictorRun.create(folder, recipe_of("one-hop").with_settings([*PREDICTOR, *settings]), graph)
    made.save_weights(made.new_predictor().state_dict())
    return made


def calibrated(
    run: Run, predictor: PredictorRun | None, validation: dict[str, QueryTable], settings: ReasonSettings | None = None
) -> Reasoner:
    reasoner = fit_reasoner(run, predictor, validation, settings)
    save_reasoner(run.folder, reasoner, predictor)
    return reasoner


def all_scores(reasoner: Reasoner, tables: dict[str, QueryTable]) -> list[torch.Tensor]:
    def of(scorer: Scorer, table: QueryTable) -> torch.Tensor:
        return scorer.scores(table, np.arange(len(table)), torch.empty(len(table), len(reasoner.graph.entities))).clone()

    return [of(make(reasoner), table) for make in RANKED_BY.values() for table in tables.values()]


@pytest.mark.parametrize("with_predictor", [False, True])
def test_what_is_opened_scores_as_what_was_fitted(
    run: Run, graph: Graph, validation: dict[str, QueryTable], tmp_path: Path, with_predictor: bool
) -> None:
    predictor = predictor_of(graph, tmp_path / "one-hop") if with_predictor else None
    fitted = calibrated(run, predictor, validation, ReasonSettings(norm="goedel", beam=3))
    if predictor is not None:
        shutil.rmtree(predictor.folder)  # the run has its own
    opened = Reasoner.open(Run.open(run.folder))
    assert isinstance(opened.one_hop, PredictorScorer if with_predictor else EncoderScorer)
    assert (opened.calibration, opened.weights, opened.settings) == (fitted.calibration, fitted.weights, fitted.settings)
    assert opened.weights.executor.keys() == set(CLASSES)
    assert all(map(torch.equal, all_scores(opened, validation), all_scores(fitted, validation)))


def test_the_executor_and_the_mixture_know_the_given_splits(run: Run, graph: Graph, validation: dict[str, QueryTable]) -> None:
    reasoner = calibrated(run, None, validation)
    assert len(reasoner.executor(["train"]).known) == 29
    assert len(reasoner.executor(["train", "valid", "test"]).known) == len(graph) == 38
    executor, mixture = (RANKED_BY[name](reasoner) for name in ("executor", "mixture"))
    assert isinstance(executor, Executor)
    assert isinstance(mixture, Mixture)
    assert len(executor.known) == 29


def test_a_run_that_was_not_calibrated_says_what_to_do(run: Run) -> None:
    with pytest.raises(StorageError, match=rf"was not calibrated, so it can rank, but not reason\. Run: starqe calibrate {run.folder}"):
        Reasoner.open(run)


def test_a_predictor_of_another_graph_is_refused_however_it_was_opened(
    run: Run, graph: Graph, validation: dict[str, QueryTable], tmp_path: Path
) -> None:
    # The same vocabulary, so it would fit; but its train split may hold what is test here.
    other = predictor_of(world("c3"), tmp_path / "other")
    assert other.graph.vocabulary_fingerprint == graph.vocabulary_fingerprint
    for opened in (other, PredictorRun.open(other.folder, graph)):
        with pytest.raises(MismatchError, match=r"of one graph: .* Train the predictor on the graph of the run"):
            calibrated(run, opened, validation)
    assert not (run.folder / "answering.json").exists()


def test_a_predictor_that_learned_the_validation_statements_is_refused(
    run: Run, graph: Graph, validation: dict[str, QueryTable], tmp_path: Path
) -> None:
    knowing = predictor_of(graph, tmp_path / "knowing", 'train.splits=["train", "valid"]')
    with pytest.raises(MismatchError, match=r"learned from the split valid\. Train one on train alone"):
        calibrated(run, knowing, validation)


def test_a_write_that_fails_leaves_the_calibration_before_it(
    run: Run, graph: Graph, validation: dict[str, QueryTable], tmp_path: Path
) -> None:
    calibrated(run, None, validation)
    before = (run.folder / "answering.json").read_bytes()
    predictor = predictor_of(graph, tmp_path / "one-hop")
    (predictor.folder / "dangling").symlink_to(tmp_path / "nothing")  # copying it fails
    with pytest.raises(StorageError, match="cannot write"):
        calibrated(run, predictor, validation)
    assert (run.folder / "answering.json").read_bytes() == before
    assert isinstance(Reasoner.open(run).one_hop, EncoderScorer)
    (predictor.folder / "dangling").unlink()
    calibrated(run, predictor, validation)
    assert isinstance(Reasoner.open(run).one_hop, PredictorScorer)


def test_numbers_that_were_damaged_are_refused_and_can_be_fitted_again(run: Run, validation: dict[str, QueryTable]) -> None:
    calibrated(run, None, validation)
    (run.folder / "answering.json").write_text('{"format": "starqe ans')
    with pytest.raises(StorageError, match="not the header of a answering folder"):
        Reasoner.open(run)
    calibrated(run, None, validation)
    content = json.loads((run.folder / "answering.json").read_text())
    (run.folder / "answering.json").write_text(json.dumps({**content, "checksum": None, "one_hop": {"weights": [1.0, "2"], "bias": 0}}))
    with pytest.raises(StorageError, match=r"4 weights and a bias were expected, found \{'weights': .*Calibrate it again"):
        Reasoner.open(run)
    calibrated(run, None, validation)
    content = json.loads((run.folder / "answering.json").read_text())
    assert content["format"] == "starqe answering"
    assert not content["predictor"]
    assert list(run.folder.glob(".answering*")) == []


def test_a_predictor_that_is_in_the_run_stays_there(run: Run, graph: Graph, validation: dict[str, QueryTable]) -> None:
    inside = predictor_of(graph, run.folder / "predictor")
    fitted = calibrated(run, inside, validation)
    assert (inside.folder / "graph").is_dir()  # not copied onto itself
    assert all(map(torch.equal, all_scores(Reasoner.open(run), validation), all_scores(fitted, validation)))
    (inside.folder / "weights.safetensors").unlink()
    with pytest.raises(StorageError, match=r"no weights\.safetensors yet"):
        Reasoner.open(run)
