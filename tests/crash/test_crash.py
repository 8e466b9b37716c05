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

from starqe.ask import Answerer, prepare
from starqe.ask import recipes as fit_recipes
from starqe.errors import StorageError
from starqe.experiments import work_folder
from starqe.folders import file_checksum, recover
from starqe.kg import Graph, export_graph, graph_of, load_graph, save_graph
from starqe.kg.statement import Statement
from starqe.learn import Recipe, Run, preset
from starqe.measure.index.nearest import LISTS
from starqe.model import Encoder
from starqe.queries import load_queries, tables_of
from starqe.reason.calibration import PREDICTOR
from starqe.reason.predictor.config import PredictorRecipe
from starqe.reason.predictor.run import PredictorRun
from starqe.reason.reasoner import Reasoner
from tests.crash.harness import Flushes, die_at_rename, import_what_it_needs, leftovers, run
from tests.golden.test_golden import INDEXED

CALIBRATE = ["calibrate", "run", "--queries", "queries", "--limit", "3"]
TINY = ["--set=train.epochs=6", "--set=model.width=4", "--set=train.checkpoint_seconds=0.01"]


ROWS = ["--set=train.optimizer=rows", "--set=train.mapped=true", "--set=train.rules=true"]
"""Embeddings in files that are trained row by row, and rules mined at the end."""


def small_graph() -> Graph:
    """Returns a graph that has queries of every shape, and on which everything takes a moment."""
    chance = random.Random(0)
    names = [f"e{number:02}" for number in range(24)]
    triples = {(*chance.sample(names, 2), chance.choice("rst")) for _ in range(130)}
    made = [Statement(head, relation, tail, (("q", chance.choice(names)),)) for head, tail, relation in sorted(triples)]
    chance.shuffle(made)
    return graph_of(train=made[:80], valid=made[80:100], test=made[100:])


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
    return {name: tensor.tolist() for name, tensor in PredictorRun.open(folder).weights().items()}


def weights_and_rules(folder: Path) -> Any:
    book = PredictorRun.open(folder).rules()
    if book is None:
        raise FileNotFoundError(folder)
    return weights(folder), book.rules.weight, [book.rules.words(rule) for rule in book.rules.best(20)]


def index(folder: Path) -> Any:
    found = Run.open(folder).scorer().index
    assert found is not None
    return found.measured, file_checksum(folder / "index" / LISTS)


def calibration(folder: Path) -> Any:
    reasoner = Reasoner.open(Run.open(folder))
    return repr((reasoner.calibration, reasoner.weights, reasoner.settings))


def fitted(folder: Path) -> Any:
    """Reads the weights of both models and what was fitted to them; the run can be asked."""
    answers = Answerer.open(folder).ask('SELECT ?x { "e00" "r" ?x }', top=3).answers
    encoder = {name: tensor.tolist() for name, tensor in Run.open(folder).weights().items()}
    return encoder, weights(folder / PREDICTOR), calibration(folder), [(answer.entity, answer.probability) for answer in answers]


def make_fit_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a fit take a second, and end by validation instead of the clock: then its weights do not depend on the speed of the machine."""
    for name in ("TRAINING", "TRAINING_LEAST"):
        monkeypatch.setattr(fit_recipes, name, 30)
    for name, value in {"VALIDATION": 8, "VALIDATION_COMPOSED": 3, "PROBED": 1}.items():
        monkeypatch.setattr(prepare, name, value)
    loop = ["train.schedule=constant", "train.warmup=0", "train.patience=1", "train.delta=1", "train.checkpoint_seconds=0", "model.width=8"]
    recipes = prepare.recipes_for

    def small_recipes(*arguments: Any) -> tuple[Recipe, PredictorRecipe]:
        encoder, one_hop = recipes(*arguments)
        return encoder.with_settings([*loop, "model.heads=2"]), one_hop.with_settings(loop)

    monkeypatch.setattr(prepare, "recipes_for", small_recipes)


def reproduction(folder: Path) -> Any:
    """Reads queries and rows; trained for a time, models differ a little, so that their numbers are not compared."""
    rows = json.loads((folder / "diameter" / "rows.json").read_text())
    return queries(folder / "queries"), [(row["row"], row["shape"], row["ours"] is not None) for row in rows]


def old_graph(place: Path) -> None:
    save_graph(graph_of([Statement("a", "r", "b")]), place / "new")


def old_export(place: Path) -> None:
    export_graph(graph_of([Statement("a", "r", "b")]), place / "new", "statements")


def old_graphml(place: Path) -> None:
    export_graph(graph_of([Statement("a", "r", "b")]), place / "new", "graphml")


JOBS = {
    "import": Job(["data", "import", "source", "new"], "new", fingerprint, done_is_refused=True),
    "import --overwrite": Job(["data", "import", "source", "new", "--overwrite"], "new", fingerprint, old_graph),
    "update": Job(["data", "update", "new", "source"], "new", fingerprint, old_graph),
    "export": Job(["data", "export", "graph", "new", "--format", "statements", "--overwrite"], "new", texts, old_export),
    "export graphml": Job(["data", "export", "graph", "new", "--format", "graphml", "--overwrite"], "new", texts, old_graphml),
    "generate": Job(["queries", "generate", "graph", "new", "--shapes", "1p,2i", "--splits", "valid,test"], "new", queries, in_steps=True),
    "train": Job(["train", "--preset", "one-hop-demo", *TINY, "graph", "--out", "new"], "new", weights, again=("--resume",), in_steps=True),
    "train rows": Job(
        ["train", "--preset", "one-hop-demo", *TINY, *ROWS, "graph", "--out", "new"],
        "new",
        weights_and_rules,
        again=("--resume",),
        in_steps=True,
    ),
    "index": Job(["index", "indexed", "--seed", "3"], "indexed", index),
    "calibrate": Job(CALIBRATE, "run", calibration),
    "calibrate --predictor": Job([*CALIBRATE, "--predictor", "predictor"], "run", calibration),
    "fit": Job(["fit", "source", "--out", "new", "--minutes", "60"], "new", fitted, again=("--resume",), in_steps=True),
    "fit --from": Job(
        ["fit", "source", "--from", "fitted", "--out", "new", "--minutes", "60"], "new", fitted, again=("--resume",), in_steps=True
    ),
    "reproduce": Job(["reproduce", "diameter", "--out", "new", "--limit", "2", "--budget", "0.005"], "new", reproduction, in_steps=True),
}
INPUTS = ("graph", "source", "run", "predictor", "queries", "indexed", "fitted")
"""Folders that commands read, or work in."""


@pytest.fixture
def world(name: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the command of a test reads."""
    folder = tmp_path_factory.mktemp("world")
    graph = small_graph()
    monkeypatch.setattr(work_folder, "embedded_graph", lambda: graph)
    make_fit_small(monkeypatch)
    save_graph(graph, folder / "graph")
    export_graph(graph, folder / "source", "statements")
    if "indexed" in JOBS[name].command:
        pytest.importorskip("faiss", reason="needs the extra index")
        shutil.copytree(INDEXED, folder / "indexed")
    if "queries" in JOBS[name].command[1:]:
        assert run(["queries", "generate", folder / "graph", folder / "queries", "--shapes", "1p,2i", "--splits", "valid,test"]) == 0
    if "run" in JOBS[name].command:
        made = Run.create(folder / "run", preset("demo").with_settings(["model.width=8", "model.heads=2"]), graph)
        made.save_weights(Encoder(made.recipe.model, made.space, 0).state_dict())
        assert run(["calibrate", folder / "run", "--limit", "2"]) == 0
    if "predictor" in JOBS[name].command:  # in the place of another one
        train = ["train", "--preset", "one-hop-demo", *TINY, folder / "graph", "--out"]
        assert run([*train, folder / "first"]) == 0
        assert run([*train, folder / "predictor", "--set=seed=1"]) == 0
        assert run(["calibrate", folder / "run", "--predictor", folder / "first", "--limit", "2"]) == 0
    if "fitted" in JOBS[name].command:
        assert run(["fit", folder / "source", "--out", folder / "fitted", "--minutes", "60"]) == 0
    return folder


def begin(job: Job, world: Path, place: Path) -> list[Any]:
    """Prepares a folder for a command, and returns the command with its paths."""
    for name in INPUTS:
        if name in job.command[1:]:
            shutil.copytree(world / name, place / name)
    place.mkdir(parents=True, exist_ok=True)
    job.prepare(place)
    return [job.command[0], *(place / word if word in (*INPUTS, "new") else word for word in job.command[1:])]


def state(job: Job, place: Path) -> Any:
    """Reads what stands under the name: None if there is nothing, or nothing finished yet."""
    try:
        return job.read(place / job.name)
    except (StorageError, FileNotFoundError) as error:
        if "damaged" in str(error):
            raise
        return None


def check_that_it_continues(job: Job, command: list[Any], place: Path, before: Any, after: Any) -> None:
    """Checks the state after a kill, and that the same command goes on from there to the same end."""
    found = state(job, place)
    assert job.in_steps or found in (before, after)
    code = run([*command, *(job.again if (place / job.name / "run.json").exists() else ())])
    assert code == 0 or (job.done_is_refused and found == after)
    assert state(job, place) == after
    assert leftovers(place) == []


def ends(job: Job, world: Path, place: Path) -> tuple[Any, Any, float]:
    """Runs a command undisturbed: returns what stood there before and after, and how long it took."""
    import_what_it_needs(begin(job, world, place / "first"), place / "modules")
    command = begin(job, world, place / "second")
    place /= "second"
    before, start = state(job, place), time.perf_counter()
    assert run(command) == 0
    return before, state(job, place), time.perf_counter() - start


FULL = ("update", "generate")
JOBS_BY_COST = [
    pytest.param(name, marks=[] if name == "import --overwrite" else pytest.mark.full if name in FULL else pytest.mark.slow)
    for name in JOBS
]


@pytest.mark.parametrize("two_renames", [False, True], ids=["exchange", "two renames"])
@pytest.mark.parametrize("name", JOBS_BY_COST)
def test_a_kill_at_any_rename_loses_nothing(world, tmp_path, name, two_renames):
    job = JOBS[name]
    before, after, _ = ends(job, world, tmp_path / "whole")
    for number in range(1, 99):
        place = tmp_path / str(number)
        command = begin(job, world, place)
        if (code := run(command, die_at_rename(number, two_renames))) == 0:
            break
        assert code == -9
        check_that_it_continues(job, command, place, before, after)
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
        if run(command, killed_after=seconds * chance.random()) == -9:
            killed += 1
        else:  # it was faster than the first time
            seconds = min(seconds, time.perf_counter() - start)
        check_that_it_continues(job, command, place, before, after)
        shutil.rmtree(place)
    print(f"{name}: killed at {killed} random moments, ended before in {tries - killed}")


KILLS = int(os.environ.get("STARQE_KILLS", "50"))


@pytest.mark.parametrize("name", JOBS_BY_COST)
def test_a_power_cut_loses_nothing_that_was_done(world, tmp_path, name):
    job = JOBS[name]
    flushes = Flushes(tmp_path / "report")
    assert run(begin(job, world, tmp_path / "place"), flushes.prepare, flushes.end) == 0
    assert (tmp_path / "report").read_text() == ""
