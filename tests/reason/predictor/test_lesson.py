"""A predictor through the whole loop: what it learns, that it resumes to the bit, and that it sees the training splits only."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch

from starqe.errors import StorageError
from starqe.kg import Graph
from starqe.kg.graph import canonical
from starqe.learn import Run, Trainer
from starqe.queries.exact.entailed import Entailed
from starqe.queries.gaps import RELATION
from starqe.reason.predictor.architectures import ARCHITECTURES
from starqe.reason.predictor.config import PredictorRecipe
from starqe.reason.predictor.lesson import PredictLesson
from starqe.reason.predictor.presets import PREDICTORS, recipe_of
from starqe.reason.predictor.run import PredictorRun, open_run
from starqe.reason.predictor.scorer import PredictorScorer
from tests.learn.conftest import small_graph
from tests.learn.resuming import train_steps, train_the_rest
from tests.reason.predicted import gaps, tiny_graph

TINY = ["model.width=24", "model.heads=2", "model.feed_forward=16", "train.batch=64", "train.epochs=2", "train.average=0"]
FITS = [
    "train.epochs=150",
    "train.learning_rate=0.01",
    "train.embedding_rate=1",
    "train.batch=8",
    "train.weigh=questions",
    "train.smoothing=0",
    "train.penalty=0",
    "train.validation_questions=0",
    "model.initial_length=1",
    "model.dropout=0",
    "model.input_dropout=0",
]
MakeTrainer = Callable[..., Trainer]


@pytest.fixture
def trainer(tmp_path: Path) -> MakeTrainer:
    """Makes a trainer of a new run in a folder, with settings on top of tiny ones."""

    def make(*settings: str, graph: Graph, name: str = "run", preset: str = "one-hop") -> Trainer:
        run = PredictorRun.create(tmp_path / name, recipe_of(preset).with_settings([*TINY, *settings]), graph)
        return Trainer(run, PredictLesson(run))

    return make


def weights_hash(run: Path) -> str:
    return sha256((run / "weights.safetensors").read_bytes()).hexdigest()


@pytest.mark.full
@pytest.mark.parametrize("preset", PREDICTORS)
def test_a_predictor_learns_the_facts_it_is_shown(preset: str, trainer: MakeTrainer, tmp_path: Path) -> None:
    graph = tiny_graph()
    trainer(*FITS, "model.width=48", "train.value_share=0", "train.relation_share=0", graph=graph, preset=preset).train()
    scorer = PredictorRun.open(tmp_path / "run").scorer()
    asked = gaps(graph, ("a", "r", "?", {"q": "y"}), ("a", "r", "?", {"q": "x"}), ("?", "r", "c", {"q": "y"}), ("?", "s", "c", {}))
    answered = Entailed(graph.known(["train"])).answered(asked)
    shares = scorer.entity_scores(asked, torch.empty(4, len(graph.entities))).softmax(1)
    found = [shares[row, answered.answers[row].tolist()] for row in range(4)]
    assert all(float(part.sum()) > 0.9 for part in found), found
    assert float(found[1].min()) > 0.3  # two answers share the belief


@pytest.mark.full
@pytest.mark.parametrize("preset", ["one-hop", "one-hop-transformer"])
def test_values_and_relations_are_learned_too(preset: str, trainer: MakeTrainer, tmp_path: Path) -> None:
    graph = tiny_graph()
    trainer(*FITS, "train.value_share=1", "train.relation_share=1", graph=graph, preset=preset).train()
    scorer = PredictorRun.open(tmp_path / "run").scorer()
    values = scorer.entity_scores(gaps(graph, ("e", "r", "c", {"q": "?"})), torch.empty(1, len(graph.entities)))
    relations = scorer.relation_scores(gaps(graph, ("x", "?", "y", {})))
    assert graph.entities.identifier(int(values.argmax())) == "y"
    assert graph.relations.identifier(int(relations.argmax())) == "r"


def test_the_loss_is_the_mean_over_questions_for_entities_and_relations(tmp_path: Path) -> None:
    recipe = PredictorRecipe().with_settings([*TINY, "train.relation_share=0.5", "model.dropout=0", "model.input_dropout=0"])
    run = PredictorRun.create(tmp_path / "run", recipe, small_graph())
    lesson = PredictLesson(run)
    model, batch = lesson.new_model(), next(lesson.questions.batches(0))
    loss, count = lesson.loss_per_query(model, batch, torch.Generator().manual_seed(0))
    expected = 0.0
    for row in range(len(batch)):
        matrix = model.relation_matrix() if batch.position[row] == RELATION else model.entity_matrix()
        logs = (model(batch.take([row])) @ matrix.T).log_softmax(1)[0]
        target = torch.full_like(logs, 0.1 / len(logs))
        answers = batch.answers[row]
        target[answers.tolist()] += 0.9 / len(answers)
        expected -= float((target * logs).sum().detach())
    assert (batch.position == RELATION).any()
    assert count == len(batch) == 64
    assert float(loss.detach()) == pytest.approx(expected / count, rel=1e-4)
    loss.backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_resumed_training_equals_the_uninterrupted_one(architecture: str, trainer: MakeTrainer, tmp_path: Path) -> None:
    graph, preset = small_graph(), next(name for name in PREDICTORS if recipe_of(name).model.architecture == architecture)
    settings = ("train.average=0.9", "train.candidates=5")
    trainer(*settings, graph=graph, name="whole", preset=preset).train()
    train_steps(trainer(*settings, "train.checkpoint_seconds=0", graph=graph, name="broken", preset=preset), 3)
    run = PredictorRun.open(tmp_path / "broken")
    train_the_rest(Trainer(run, PredictLesson(run)), 3)
    assert weights_hash(tmp_path / "broken") == weights_hash(tmp_path / "whole")


def test_validation_ranks_both_ends_of_validation_statements(trainer: MakeTrainer) -> None:
    made = trainer("train.epochs=8", "train.learning_rate=0.03", "model.dropout=0.1", "train.penalty=0", graph=small_graph())
    made.train()
    found = [line["validation"] for line in made._run.metrics() if line.get("validation")]
    assert len(found) == 8
    assert found[0].keys() == {"tail", "head", "average"}
    assert found[0]["average"] == pytest.approx((found[0]["tail"] + found[0]["head"]) / 2, abs=1e-3)
    assert max(line["tail"] for line in found) > 60  # the country follows from the city


def test_a_short_training_validates_on_fewer_statements(tmp_path: Path) -> None:
    run = PredictorRun.create(tmp_path / "run", recipe_of("one-hop").with_settings(TINY), small_graph())
    assert len(PredictLesson(run)._validation) > 2
    assert len(PredictLesson(run, 2)._validation) == 2


@pytest.mark.parametrize("setting", ["train.validation_questions=0", 'train.splits=["train", "valid"]'])
def test_without_validation_the_last_weights_are_kept(setting: str, trainer: MakeTrainer) -> None:
    counters = trainer(setting, graph=small_graph()).train()
    assert counters.best is None
    assert counters.best_epoch == 1


def test_a_run_says_what_kind_of_model_it_holds(trainer: MakeTrainer, tmp_path: Path) -> None:
    trainer(graph=small_graph()).train()
    opened = open_run(tmp_path / "run")
    assert isinstance(opened, PredictorRun)
    assert isinstance(opened.scorer(), PredictorScorer)
    with pytest.raises(StorageError, match="is a run of the kind 'predictor', and one of the kind 'encoder' is needed here"):
        Run.open(tmp_path / "run")


def shuffled(graph: Graph) -> Graph:
    """Returns the graph with the tails of its valid and test statements in another order."""
    tail = graph.tail.copy()
    held_out = np.flatnonzero(graph.split > 0)
    tail[held_out] = np.roll(tail[held_out], 1)
    columns = graph.head, graph.relation, tail, graph.split, graph.pairs
    made, _ = canonical(graph.entities, graph.relations, *columns)
    assert made.fingerprint != graph.fingerprint
    return made


@pytest.mark.parametrize("preset", PREDICTORS)
def test_facts_of_valid_and_test_change_no_bit(preset: str, trainer: MakeTrainer, tmp_path: Path) -> None:
    for name, graph in (("own", small_graph()), ("other", shuffled(small_graph()))):
        trainer("train.epochs=1", graph=graph, name=name, preset=preset).train()
    assert weights_hash(tmp_path / "own") == weights_hash(tmp_path / "other")


def test_a_predictor_that_learns_from_valid_is_caught(trainer: MakeTrainer, tmp_path: Path) -> None:
    for name, graph in (("own", small_graph()), ("other", shuffled(small_graph()))):
        trainer("train.epochs=1", 'train.splits=["train", "valid"]', graph=graph, name=name).train()
    assert weights_hash(tmp_path / "own") != weights_hash(tmp_path / "other")
