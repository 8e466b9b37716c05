import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from starqe.ask import Answerer
from starqe.kg import load_graph
from starqe.queries import SHAPES, generate
from starqe.reason.mixture import CLASSES

pytestmark = pytest.mark.full

Starqe = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(askable_run: Path, tmp_path: Path) -> Path:
    """A run that was trained, but not calibrated."""
    folder = shutil.copytree(askable_run, tmp_path / "run")
    (folder / "answering.json").unlink()
    return folder


def test_a_run_that_was_not_calibrated_says_how_to(starqe: Starqe, run: Path) -> None:
    code, out, err = starqe("ask", run, "SELECT ?x { e:Ulm r:country ?x }")
    assert (code, out) == (1, "")
    assert f"Run: starqe calibrate {run}" in err


def test_calibrating_makes_a_run_answer_and_checks_it_on_test(starqe: Starqe, run: Path) -> None:
    code, out, err = starqe("calibrate", run, "--limit", 8, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert set(found["weight_of_executor"]) == set(CLASSES)
    assert found["test_candidates"] > 0
    assert 0 <= found["test_ece"] <= 1
    assert json.loads((run / "reliability.json").read_text())["count"] == found["test_candidates"]
    assert (run / "reliability.png").read_bytes().startswith(b"\x89PNG")
    assert Answerer.open(run).ask('SELECT ?x { "Ulm" "country" ?x }').known[0].entity == "Germany"


def test_queries_of_a_set_and_settings_of_the_executor_are_taken(starqe: Starqe, run: Path, tmp_path: Path) -> None:
    generate(load_graph(run / "graph"), tmp_path / "queries", [SHAPES["1p"], SHAPES["2p"]], splits=["valid", "test"], threads=1)
    code, out, _ = starqe("calibrate", run, "--queries", tmp_path / "queries", "--limit", 10, "--set", "beam=4")
    assert code == 0
    assert out.startswith(f"{run} can be asked: starqe ask {run} 'SELECT ...'\n  weight of the executor, one-hop")
    assert json.loads((run / "answering.json").read_text())["settings"]["beam"] == 4


def test_a_run_with_a_predictor_keeps_it_when_it_is_calibrated_again(starqe: Starqe, run: Path, tmp_path: Path) -> None:
    size = ["--set", "model.width=8", "--set", "train.epochs=1", "--threads", 1]
    assert starqe("train", "--preset", "one-hop-demo", *size, run / "graph", "--out", tmp_path / "one-hop")[0] == 0
    for given in (["--predictor", tmp_path / "one-hop"], []):
        assert starqe("calibrate", run, "--limit", 8, *given)[0] == 0
        assert json.loads((run / "answering.json").read_text())["predictor"] is True


def test_an_unknown_setting_is_refused_and_nothing_is_written(starqe: Starqe, run: Path) -> None:
    code, _, err = starqe("calibrate", run, "--set", "beem=4")
    assert code == 1
    assert "unknown key 'beem'. Did you mean 'beam'?" in err
    assert not (run / "answering.json").exists()
