"""What is fitted on validation: how much data is enough, and the file that keeps the numbers."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from starqe.errors import StorageError
from starqe.kg import Graph, Statement, graph_of
from starqe.reason.calibration import (
    MIN_POSITIVES,
    MIN_STATEMENTS,
    AnswerProbability,
    Calibration,
    Evidence,
    load_calibration,
    save_calibration,
)
from starqe.reason.chance import Beta, Chance, Isotonic, detailed
from starqe.reason.executor.settings import ReasonSettings
from starqe.reason.logistic import Logistic
from starqe.reason.mixture import CLASSES, EVEN
from starqe.reason.predictor import one_hop
from starqe.reason.probability import FEATURES

ANSWERS = AnswerProbability(Chance(Logistic((0.5,) * len(FEATURES), -1.0)), Evidence(60, 400, 30))
CALIBRATION = Calibration(
    ReasonSettings(beam=7), Logistic((1.0,) * len(one_hop.FEATURES), 0.25), EVEN, False, {"mixture": ANSWERS, "encoder": ANSWERS}
)


@pytest.fixture
def graph() -> Graph:
    return graph_of(
        train=[Statement(f"p{i}", "livesIn", "c") for i in range(60)],
        valid=[Statement(f"p{i}", "knows", "c") for i in range(MIN_STATEMENTS)],
    )


@pytest.mark.parametrize(
    ("statements", "positives", "enough"),
    [
        (MIN_STATEMENTS, MIN_POSITIVES, True),
        (MIN_STATEMENTS - 1, MIN_POSITIVES, False),
        (MIN_STATEMENTS, MIN_POSITIVES - 1, False),
        (1, 1, False),
    ],
)
def test_probabilities_need_enough_validation_statements_and_predictions_that_came_true(
    statements: int, positives: int, enough: bool
) -> None:
    evidence = Evidence(statements, 1_000, positives)
    assert evidence.enough is enough
    assert (evidence.note == "") is enough
    if not enough:
        assert f"not calibrated: they were fitted on {statements} validation statements with {positives} predictions" in evidence.note


def test_what_is_loaded_is_what_was_saved_with_its_evidence(graph: Graph, tmp_path: Path) -> None:
    save_calibration(tmp_path, CALIBRATION)
    assert load_calibration(tmp_path, graph) == CALIBRATION
    written = {**json.loads((tmp_path / "answering.json").read_text()), "checksum": None}
    assert written["answers"]["mixture"]["evidence"] == {"statements": 60, "candidates": 400, "positives": 30}


@pytest.mark.parametrize("correction", [None, Beta(0.5, 2.0, -0.1), Isotonic((0.1, 0.5), (0.0, 0.75))])
def test_every_kind_of_probability_is_kept(graph: Graph, tmp_path: Path, correction: Beta | Isotonic | None) -> None:
    many = len(detailed(np.zeros((1, len(FEATURES))))[0])
    kept = AnswerProbability(Chance(Logistic((0.25,) * many, 2.0), True, correction), ANSWERS.evidence)
    save_calibration(tmp_path, replace(CALIBRATION, answers={"mixture": kept}))
    assert load_calibration(tmp_path, graph).answers["mixture"] == kept


@pytest.mark.parametrize("classes", [5, 8])
def test_classes_that_came_later_count_as_mixed(graph: Graph, tmp_path: Path, classes: int) -> None:
    save_calibration(tmp_path, CALIBRATION)
    written = {**json.loads((tmp_path / "answering.json").read_text()), "checksum": None}
    numbers = list(map(float, range(4 + classes)))  # the mixed class is the fifth, after four other features
    written["answers"] = {"mixture": {"weights": numbers, "bias": 0.5, "evidence": written["answers"]["mixture"]["evidence"]}}
    (tmp_path / "answering.json").write_text(json.dumps(written))
    found = load_calibration(tmp_path, graph).answers["mixture"].chance
    assert found == Chance(Logistic((*numbers, *[8.0] * (len(CLASSES) - classes)), 0.5))


@pytest.mark.parametrize("points", [[[0.1, 0.5], [0.75, 0.0]], [[0.1], [0.2, 0.3]], [[0.1], ["high"]], [[], []]])
def test_points_that_do_not_rise_are_refused(graph: Graph, tmp_path: Path, points: list[list[object]]) -> None:
    save_calibration(tmp_path, CALIBRATION)
    written = {**json.loads((tmp_path / "answering.json").read_text()), "checksum": None}
    written["answers"]["mixture"]["isotonic"] = points
    (tmp_path / "answering.json").write_text(json.dumps(written))
    with pytest.raises(StorageError, match=r"points of a map that rises were expected.*Calibrate it again"):
        load_calibration(tmp_path, graph)


def old_files(folder: Path) -> None:
    """Writes what runs had before all fitted numbers stood in one file."""
    numbers = {"weights": [0.5] * len(FEATURES), "bias": -1.0}
    answering = {"format": "starqe answering", "version": 1, "mixture": numbers, "encoder": numbers}
    (folder / "answering.json").write_text(json.dumps(answering))
    reasoning = {"format": "starqe reasoning", "version": 1, "predictor": False, "settings": {"beam": 7}}
    one_hop_numbers = {"weights": [1.0] * len(one_hop.FEATURES), "bias": 0.25}
    (folder / "reasoning.json").write_text(json.dumps({**reasoning, "one_hop": one_hop_numbers, "executor": dict.fromkeys(CLASSES, 0.5)}))


def test_the_two_files_of_older_runs_are_read_and_judged_by_their_validation_statements(graph: Graph, tmp_path: Path) -> None:
    old_files(tmp_path)
    found = load_calibration(tmp_path, graph)
    assert replace(found, answers={}) == replace(CALIBRATION, answers={})
    assert found.answers["mixture"].chance == ANSWERS.chance
    assert found.answers["mixture"].evidence.enough  # 50 validation statements
    small = graph_of(train=[Statement("a", "r", "b"), Statement("b", "r", "a")], valid=[Statement("a", "r", "a")])
    assert not load_calibration(tmp_path, small).answers["mixture"].evidence.enough


def test_a_new_calibration_takes_the_place_of_both_older_files(graph: Graph, tmp_path: Path) -> None:
    old_files(tmp_path)
    save_calibration(tmp_path, CALIBRATION)
    assert [path.name for path in tmp_path.iterdir()] == ["answering.json"]
    assert load_calibration(tmp_path, graph) == CALIBRATION


def test_missing_and_damaged_parts_are_refused_with_the_way_out(graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=f"was not calibrated.* Run: starqe calibrate {tmp_path}"):
        load_calibration(tmp_path, graph)
    save_calibration(tmp_path, CALIBRATION)
    written = {**json.loads((tmp_path / "answering.json").read_text()), "checksum": None}
    for broken in ({**written, "settings": None}, {**written, "answers": {"mixture": {"weights": [1.0], "bias": 0}}}):
        (tmp_path / "answering.json").write_text(json.dumps(broken))
        with pytest.raises(StorageError, match=r"starqe calibrate|Calibrate it again"):
            load_calibration(tmp_path, graph)
