import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from starqe.config import to_toml
from starqe.kg import Statement, embedded_graph, graph_of, save_graph
from starqe.learn import preset
from starqe.queries import SHAPES, generate

Starqe = Callable[..., tuple[int, str, str]]
SETTINGS = [
    'train.shapes=["1p", "2i"]',
    "model.heads=2",
    "train.one_hop=none",
    "train.queries_per_shape=100",
    "train.epochs=2",
    "train.validation_queries=20",
]
SPACE = """
    [model]
    width = [8, 16]
    dropout = {low = 0.0, high = 0.4, step = 0.1}
    [train]
    learning_rate = {low = 1e-3, high = 1e-1, log = true}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph, its queries, a space and a base."""
    folder = tmp_path_factory.mktemp("tune")
    save_graph(embedded_graph(), folder / "graph")
    generate(embedded_graph(), folder / "queries", [SHAPES["1p"], SHAPES["2i"]], splits=("train", "valid"), threads=1)
    (folder / "space.toml").write_text(SPACE)
    (folder / "base.toml").write_text(to_toml(preset("demo").with_settings(SETTINGS)))
    return folder


def words(place: Path, out: str, *more: object) -> list[object]:
    given = ["--base", place / "base.toml", "--space", place / "space.toml", "--threads", "1"]
    return ["tune", place / "graph", place / "queries", "--out", place / out, *given, *more]


@pytest.mark.full
def test_a_search_prints_one_line_per_trial_and_the_best_beside_the_paper(starqe: Starqe, place: Path) -> None:
    code, printed, errors = starqe(*words(place, "lines", "--trials", 2))
    assert (code, errors) == (0, "")
    lines = printed.splitlines()
    assert [line.split()[:3] for line in lines[:2]] == [["trial", "0", "complete"], ["trial", "1", "complete"]]
    assert "best Hits@10" in printed
    assert [line.split()[0] for line in lines if "." in line.split(" ")[1]] == ["model.width", "model.dropout", "train.learning_rate"]
    assert lines[-1].startswith(f"{place / 'lines'}: 2 of 2 trials are finished; train the best with: starqe train ")


@pytest.mark.full
def test_the_same_command_continues_and_the_best_recipe_trains_as_it_is(starqe: Starqe, place: Path) -> None:
    first = json.loads(starqe(*words(place, "study", "--trials", 1, "--json"))[1])
    second = json.loads(starqe(*words(place, "study", "--trials", 2, "--json"))[1])
    assert (first["finished"], second["finished"]) == (1, 2)
    assert second["trials"][0] == first["trials"][0]
    assert second["best"]["value"] == max(trial["value"] for trial in second["trials"])
    run = "--out", place / "run", "--threads", 1, "--json"
    trained = json.loads(starqe("train", place / "study" / "best.toml", place / "graph", place / "queries", *run)[1])
    reports = (place / "study" / "trials" / f"{second['best']['trial']:03d}" / "metrics.jsonl").read_text().splitlines()
    assert trained["validation_mrr"] == json.loads(reports[-1])["best_mrr"]


def test_a_setting_takes_its_key_out_of_the_space_and_the_seed_is_one(starqe: Starqe, place: Path) -> None:
    more = "--trials", 1, "--set", "model.width=12", "--seed", 7, "--objective", "MRR", "--json"
    found = json.loads(starqe(*words(place, "set", *more))[1])
    assert found["objective"] == "MRR"
    assert found["best"]["parameters"].keys() == {"model.dropout", "train.learning_rate"}
    text = (place / "set" / "best.toml").read_text()
    assert "width = 12" in text
    assert "seed = 7" in text


def test_what_does_not_fit_is_refused(starqe: Starqe, place: Path) -> None:
    (place / "wrong.toml").write_text("model.widht = [16, 32]")
    code, _, errors = starqe(*words(place, "wrong", "--space", place / "wrong.toml"))
    assert (code, errors) == (1, f"starqe: {place / 'wrong.toml'}: unknown key 'model.widht'. Did you mean 'model.width'?\n")
    settings = [f"--set={key}=1" for key in ("model.width", "train.learning_rate")]
    code, _, errors = starqe(*words(place, "wrong", *settings, "--set=model.dropout=0", "--set=model.heads=1"))
    assert code == 1
    assert "--set decides them all" in errors
    code, _, errors = starqe(*words(place, "wrong", "--base", "starqe-fats"))
    assert code == 1
    assert "found 'starqe-fats'" in errors
    assert not (place / "wrong").exists()


@pytest.mark.full
def test_a_study_of_another_graph_is_refused(starqe: Starqe, place: Path) -> None:
    train = [Statement(f"a{i}", "r", f"b{i % 3}", (("q", f"c{i % 2}"),)) for i in range(12)]
    other = graph_of(train=train, valid=[Statement("a0", "r", "b1", (("q", "c0"),))])
    save_graph(other, place / "other")
    generate(other, place / "other-queries", [SHAPES["1p"], SHAPES["2i"]], splits=("train", "valid"), threads=1)
    assert starqe(*words(place, "graph-study", "--trials", 1, "--total-minutes", 0))[0] == 0
    arguments = words(place, "graph-study", "--trials", 1)
    arguments[1:3] = place / "other", place / "other-queries"
    code, _, errors = starqe(*arguments)
    assert code == 1
    assert f"'graph' is {embedded_graph().fingerprint[:12]} in {place / 'graph-study'} and {other.fingerprint[:12]} here" in errors


def process(place: Path, *more: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "starqe", *words(place, "killed", *more)]
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(path: Path, running: subprocess.Popen[str]) -> None:
    while not path.exists():
        assert running.poll() is None, running.communicate()
        time.sleep(0.005)


@pytest.mark.slow
def test_a_search_that_is_interrupted_and_then_killed_ends_with_all_its_trials(starqe: Starqe, place: Path) -> None:
    interrupted = process(place, "--trials", 10)
    wait_for(place / "killed" / "trials" / "001" / "config.toml", interrupted)
    interrupted.send_signal(signal.SIGINT)
    _, errors = interrupted.communicate(timeout=60)
    assert interrupted.returncode == 130
    assert "of 10 trials are finished and kept. The same command continues" in errors
    assert "Traceback" not in errors

    killed = process(place, "--trials", 10)
    wait_for(place / "killed" / "trials" / "004" / "config.toml", killed)
    killed.kill()
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL

    code, printed, errors = starqe(*words(place, "killed", "--trials", 10, "--json"))
    assert (code, errors) == (0, "")
    found = json.loads(printed)
    states = [trial["state"] for trial in found["trials"]]
    assert found["finished"] == 10
    assert [trial["trial"] for trial in found["trials"]] == list(range(len(states)))
    assert "running" not in states
    assert len(states) - states.count("cut off") == 10
    assert 0 < states.count("cut off") <= 2
