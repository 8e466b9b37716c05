"""Fits that go on from a run."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import starqe
from starqe.ask import Answerer, with_validation
from starqe.ask.continuing import WARM_RATE, Before
from starqe.errors import InputError, MismatchError, StorageError
from starqe.kg import Changes, Graph, Statement, graph_of, update_graph, with_split
from tests.ask.town import town

NEW = [Statement("newcomer", "worksFor", "c1"), Statement("newcomer", "knows", "p3"), Statement("p5", "likes", "newcomer")]


def grown(graph: Graph) -> Graph:
    return update_graph(graph, Changes.of([graph_of(NEW)]))[0]


@pytest.mark.full
def test_a_fit_goes_on_from_a_run_and_answers_about_what_is_new(fitted: Path, tmp_path: Path) -> None:
    answerer = starqe.fit(grown(town()), tmp_path / "run", minutes=0.05, start=fitted)
    origin = json.loads((tmp_path / "run" / "run.json").read_text())["from"]
    assert (origin["run"], origin["new_entities"], origin["new_relations"]) == (str(fitted), 1, 1)
    assert origin["fingerprint"] == Before.open(fitted).run.graph.fingerprint
    answers = answerer.ask('SELECT ?x { "newcomer" "knows" ?x }', top=5)
    assert [one.entity for one in answers.known] == ["p3"]
    assert len(answers.predicted) == 5
    first, second = Before.open(fitted), Before.open(tmp_path / "run")
    rates = [[one.recipe.train.learning_rate for one in (before.run, before.predictor)] for before in (first, second)]
    assert rates[1] == pytest.approx([WARM_RATE * rate for rate in rates[0]])
    again = second.recipes(["1p"], 0, 100)
    assert [recipe.train.learning_rate for recipe in again] == rates[1], "rates do not fall with every update"
    assert Answerer.open(tmp_path / "run").graph.fingerprint == answerer.graph.fingerprint


@pytest.mark.full
def test_a_model_starts_where_the_other_ended_also_if_it_is_killed_before_its_first_checkpoint(fitted: Path, tmp_path: Path) -> None:
    before, graph = Before.open(fitted), with_validation(town())
    start, _ = before.starts(graph)
    from starqe.learn import QueryLesson, Run, Trainer
    from starqe.queries import SHAPES, sample

    table = sample(graph, SHAPES["1p"], 50, "train", [(0, 2)])
    run = Run.create(tmp_path / "run", before.recipes(["1p"], 0, 50)[0], graph, start)
    for opened in (run, Run.open(tmp_path / "run")):
        trainer = Trainer(opened, QueryLesson(opened, {"1p": table}))
        trainer.resume()
        for model in (trainer.model, trainer.average):
            assert model is not None
            for name, tensor in model.state_dict().items():
                assert np.array_equal(tensor.numpy(), before.run.weights()[name].numpy()), name


@pytest.mark.full
def test_validation_is_what_the_run_validated_on_and_never_what_it_learned(fitted: Path) -> None:
    before = Before.open(fitted)
    held_out = set(before.run.graph.statements("valid"))
    assert held_out
    assert set(before.with_validation(grown(town())).statements("valid")) == held_out
    other = with_validation(town(), seed=1)
    learned = len(set(other.statements("valid")) - held_out)
    with pytest.raises(MismatchError, match=f"and {learned} statements that are valid or test here were train statements"):
        before.with_validation(other)
    rest = graph_of([statement for statement in town().statements("train") if statement not in held_out])
    with pytest.raises(InputError, match=r"are not in the graph any more\. Give the graph a validation split"):
        before.with_validation(rest)
    same = with_split(before.run.graph, before.run.graph.split)
    assert before.with_validation(same) is same


def test_a_run_without_a_predictor_is_refused(askable_run: Path, tmp_path: Path) -> None:
    shutil.copytree(askable_run, tmp_path / "run")
    with pytest.raises(StorageError, match="has no predictor"):
        starqe.fit(town(), tmp_path / "new", minutes=0.05, start=tmp_path / "run")
    assert not (tmp_path / "new").exists()
