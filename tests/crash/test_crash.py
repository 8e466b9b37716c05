"""Kills at every rename and at random moments leave the old state or the new one, and the same command goes on to the same end."""

import json
import os
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from starqe.ask import Answerer
from starqe.errors import StorageError
from starqe.folders import recover
from starqe.kg import embedded_graph, export_graph, graph_of, load_graph, save_graph
from starqe.kg.statement import Statement
from starqe.learn import Run
from starqe.queries import load_queries, tables_of
from starqe.reason.predictor.run import PredictorRun
from starqe.reason.reasoner import Reasoner
from tests.crash.harness import Flushes, die_after, die_at_rename, leftovers, run

TINY = ["--set=train.epochs=2", "--set=model.width=4"]


@dataclass(frozen=True)
class Job:
    """A command, what stands before it, how it goes on after a kill, and how its result is read."""

    command: list[Any]
    name: str
    """What it writes."""
    read: Callable[[Path], Any]
    prepare: Callable[[Path], None] = lambda place: None
    again: tuple[str, ...] = ()
    """What is added to the command where the name exists already."""
    in_steps: bool = False
    """Whether it keeps what is finished, so that a kill leaves a part of it."""
    done_is_refused: bool = False
    """Whether the command refuses to replace what is finished."""


def fingerprint(folder: Path) -> Any:
    return load_graph(folder).fingerprint, load_graph(folder).entities.labels


def texts(folder: Path) -> Any:
    recover(folder)  # as the next command on this name does; files for other programs have no opening of ours
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def queries(folder: Path) -> Any:
    return {
        (split, shape): (table.anchors.tolist(), table.answers.items.tolist())
        for split, shapes in tables_of(folder).items()
        for shape, table in load_queries(folder, split).items()
        if shape in shapes
    }


def weights(folder: Path) -> Any:
    return {name: tensor.tolist() for name, tensor in PredictorRun.open(folder).predictor().state_dict().items()}


def calibration(folder: Path) -> Any:
    reasoner = Reasoner.open(Run.open(folder))
    return repr((reasoner.calibration, reasoner.weights, reasoner.settings))


def askable(folder: Path) -> Any:
    """Opens a run for questions. Its weights depend on the time that training had, so they are not compared."""
    answerer = Answerer.open(folder)
    return answerer.graph.fingerprint, len(answerer.ask('SELECT ?x { "Albert Einstein" "educated at" ?x }').answers) > 0


def reproduction(folder: Path) -> Any:
    """Reads queries and rows; trained for a time, models differ a little, so that their numbers are not compared."""
    rows = json.loads((folder / "diameter" / "rows.json").read_text())
    return queries(folder / "queries"), [(row["row"], row["shape"], row["ours"] is not None) for row in rows]


def old_graph(place: Path) -> None:
    save_graph(graph_of([Statement("a", "r", "b")]), place / "new")


def old_export(place: Path) -> None:
    export_graph(graph_of([Statement("a", "r", "b")]), place / "new", "statements")


JOBS = {
    "import": Job(["data", "import", "source", "new"], "new", fingerprint, done_is_refused=True),
    "import --overwrite": Job(["data", "import", "source", "new", "--overwrite"], "new", fingerprint, old_graph),
    "export": Job(["data", "export", "graph", "new", "--format", "statements", "--overwrite"], "new", texts, old_export),
    "generate": Job(["queries", "generate", "graph", "new", "--shapes", "1p,2i", "--splits", "valid,test"], "new", queries, in_steps=True),
    "train": Job(["train", "--preset", "one-hop-demo", *TINY, "graph", "--out", "new"], "new", weights, again=("--resume",), in_steps=True),
    "calibrate": Job(["calibrate", "run", "--limit", "3"], "run", calibration),
    "calibrate --predictor": Job(["calibrate", "run", "--predictor", "predictor", "--limit", "3"], "run", calibration),
    "fit": Job(["fit", "source", "--out", "new", "--minutes", "0.05"], "new", askable, again=("--resume",), in_steps=True),
    "reproduce": Job(["reproduce", "diameter", "--out", "new", "--limit", "2", "--budget", "0.02"], "new", reproduction, in_steps=True),
}
INPUTS = ("graph", "source", "run", "predictor")
"""Folders that commands read, or work in."""


@pytest.fixture
def world(request, name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the command of a test reads."""
    folder = tmp_path_factory.mktemp("world")
    save_graph(embedded_graph(), folder / "graph")
    export_graph(embedded_graph(), folder / "source", "statements")
    if "run" in JOBS[name].command:
        shutil.copytree(request.getfixturevalue("askable_run"), folder / "run")
    if "predictor" in JOBS[name].command:  # in the place of another one
        train = ["train", "--preset", "one-hop-demo", *TINY, folder / "graph", "--out"]
        assert run([*train, folder / "first"]) == 0
        assert run([*train, folder / "predictor", "--set=seed=1"]) == 0
        assert run(["calibrate", folder / "run", "--predictor", folder / "first", "--limit", "2"]) == 0
    return folder


def begin(job: Job, world: Path, place: Path) -> list[Any]:
    """Prepares a folder for a command, and returns the command with its paths."""
    for name in INPUTS:
        if name in job.command:
            shutil.copytree(world / name, place / name)
    place.mkdir(exist_ok=True)
    job.prepare(place)
    return [place / word if word in (*INPUTS, "new") else word for word in job.command]


def state(job: Job, place: Path) -> Any:
    """Reads what stands under the name: None if there is nothing, or nothing finished yet."""
    try:
        return job.read(place / job.name)
    except (StorageError, FileNotFoundError) as error:
        if "damaged" in str(error):
            raise
        return None


def goes_on(job: Job, command: list[Any], place: Path, before: Any, after: Any) -> None:
    """Checks the state after a kill, and that the same command goes on from there to the same end."""
    found = state(job, place)
    assert job.in_steps or found in (before, after)
    code = run([*command, *(job.again if (place / job.name / "run.json").exists() else ())])
    assert code == 0 or (job.done_is_refused and found == after)
    assert state(job, place) == after
    assert leftovers(place) == []


def ends(job: Job, world: Path, place: Path) -> tuple[Any, Any, float]:
    """Runs a command undisturbed: returns what stood there before and after, and how long it took."""
    command = begin(job, world, place)
    before, start = state(job, place), time.perf_counter()
    assert run(command) == 0
    return before, state(job, place), time.perf_counter() - start


QUICK = ("import --overwrite", "generate")


@pytest.mark.parametrize("two_renames", [False, True], ids=["exchange", "two renames"])
@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in JOBS])
def test_a_kill_at_any_rename_loses_nothing(world, tmp_path, name, two_renames):
    job = JOBS[name]
    before, after, _ = ends(job, world, tmp_path / "whole")
    for number in range(1, 99):
        place = tmp_path / str(number)
        command = begin(job, world, place)
        if (code := run(command, die_at_rename(number, two_renames))) == 0:
            break
        assert code == -9
        goes_on(job, command, place, before, after)
    assert number > 1
    print(f"{name}: killed at {number - 1} renames")


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_a_kill_at_any_moment_loses_nothing(world, tmp_path, name):
    job, chance, killed, tries = JOBS[name], random.Random(name), 0, 0
    before, after, seconds = ends(job, world, tmp_path / "whole")
    while killed < KILLS:
        tries += 1
        place = tmp_path / str(tries)
        command, start = begin(job, world, place), time.perf_counter()
        if run(command, die_after(seconds * chance.random())) == -9:
            killed += 1
        else:  # it was faster than the first time
            seconds = min(seconds, time.perf_counter() - start)
        goes_on(job, command, place, before, after)
        shutil.rmtree(place)
    print(f"{name}: killed at {killed} random moments, ended before in {tries - killed}")


KILLS = int(os.environ.get("STARQE_KILLS", "50"))


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in JOBS])
def test_a_power_cut_loses_nothing_that_was_done(world, tmp_path, name):
    job = JOBS[name]
    flushes = Flushes(tmp_path / "report")
    assert run(begin(job, world, tmp_path / "place"), flushes.prepare, flushes.end) == 0
    assert (tmp_path / "report").read_text() == ""
