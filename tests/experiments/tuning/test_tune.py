import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from starqe.config import read_toml
from starqe.errors import QueryError
from starqe.experiments.tuning.search_space import Range, Space
from starqe.experiments.tuning.study import Objective, Study, Terms
from starqe.experiments.tuning.tune import tune
from starqe.kg import Graph, embedded_graph
from starqe.learn import QueryLesson, Recipe, Run, Trainer
from starqe.measure.evaluate import Measure, evaluate
from starqe.queries import SHAPES, QueryTable, generate, load_queries
from tests.places import ROOT

TINY = [
    'train.shapes=["1p", "2i"]',
    "model.layers=2",
    "model.heads=2",
    "train.one_hop=none",
    "train.queries_per_shape=100",
    "train.batch=50",
    "train.epochs=2",
    "train.validation_queries=20",
]
SPACE: Space = {"model.width": (8, 16), "train.learning_rate": Range(low=1e-3, high=1e-1, log=True)}


class Place:
    """The embedded graph, a few queries, and a folder for studies."""

    def __init__(self, folder: Path, queries: Path) -> None:
        self.folder, self.graph = folder, embedded_graph()
        self.train, self.valid = (load_queries(queries, split, limit=limit) for split, limit in (("train", 100), ("valid", 20)))

    def study(self, *settings: str, space: Space = SPACE, objective: Objective = "Hits@10") -> Study:
        base = Recipe().with_settings([*TINY, *settings])
        return Study(self.folder / "study", Terms(self.graph.fingerprint, {}, {}, base, space, objective))

    def tune(self, study: Study, trials: int, **more: Any) -> Study:
        tune(study, self.graph, self.train, self.valid, trials, **more)
        return study


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tune") / "queries"
    generate(embedded_graph(), folder, [SHAPES["1p"], SHAPES["2i"]], splits=("train", "valid"), threads=1)
    return folder


@pytest.fixture
def place(tmp_path: Path, queries: Path) -> Place:
    return Place(tmp_path, queries)


EXPECTED = {"Hits@10": ("Hits@10", "macro", "average"), "MRR": ("MRR", "macro", "average"), "pooled Hits@10": ("Hits@10", "micro", "all")}


def measured(graph: Graph, run: Run, tables: dict[str, QueryTable], objective: str) -> float:
    rows = evaluate(run.scorer(), tables, len(graph.entities), Measure(replicates=0))
    (found,) = (row.ours for row in rows if (row.metric, row.average, row.shape) == EXPECTED[objective])
    return round(found, 3)


@pytest.mark.parametrize("objective", EXPECTED)
def test_the_best_trial_is_a_run_whose_model_has_the_value_and_its_recipe_gives_the_same_model(place: Place, objective: Objective) -> None:
    study = place.tune(place.study(objective=objective), 3)
    best = study.best
    assert best is not None
    assert best.value == max(result.value or 0 for result in study.results())
    run = Run.open(study.run_folder(best.trial))
    assert measured(place.graph, run, place.valid, objective) == best.value
    recipe = read_toml(study.folder / "best.toml", Recipe)
    assert recipe == run.recipe
    again = Run.create(place.folder / "again", recipe, place.graph)
    Trainer(again, QueryLesson(again, place.train, place.valid)).train()
    assert (again.folder / "weights.safetensors").read_bytes() == (run.folder / "weights.safetensors").read_bytes()


def test_a_hopeless_trial_is_stopped_after_its_first_epoch(place: Place) -> None:
    study = place.study("train.epochs=5")
    for _ in range(5):
        trial = study.begin(5)
        assert trial is not None
        trial.report(99.9, 0)
        study.end(trial, "complete", 99.9)
    place.tune(study, 6)
    pruned = study.results()[5]
    assert (pruned.state, pruned.epochs, pruned.counts) == ("pruned", 1, True)
    assert len((study.run_folder(5) / "metrics.jsonl").read_text().splitlines()) == 1


def test_parameters_that_do_not_train_or_go_together_are_failed_trials_and_not_the_end(place: Place) -> None:
    study = place.tune(place.study(space={"train.learning_rate": (1e38,), "model.width": (8, 9)}), 4)
    results = study.results()
    assert [result.state for result in results] == ["failed"] * 4
    assert {str(result.error).split(" (")[0].split(" at ")[0] for result in results} == {
        "the loss is not a number",
        "attention needs heads that divide the width, found 2 heads and width 9",
    }
    assert study.best is None
    assert not (study.folder / "best.toml").exists()
    assert "No trial is complete yet." in (study.folder / "summary.md").read_text()


def test_an_interrupted_trial_does_not_count_and_the_search_continues(place: Place) -> None:
    def interrupt(line: dict[str, Any]) -> None:
        if line["trial"] == 1 and "state" not in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place.tune(place.study(), 3, observer=interrupt)
    assert [result.state for result in place.study().results()] == ["complete", "cut off"]
    assert "Best: " in (place.folder / "study" / "summary.md").read_text()
    study = place.tune(place.study(), 3)
    assert [result.counts for result in study.results()] == [True, False, True, True]


def test_the_observer_hears_of_every_epoch_and_of_every_end(place: Place) -> None:
    lines: list[dict[str, Any]] = []
    study = place.tune(place.study(), 1, observer=lines.append)
    assert [(line["trial"], line.get("epoch"), line.get("state")) for line in lines] == [(0, 0, None), (0, 1, None), (0, None, "complete")]
    assert lines[2]["value"] in (lines[0]["objective"], lines[1]["objective"])
    assert lines[2]["parameters"] == study.results()[0].parameters


def test_no_trial_begins_after_the_time_is_up(place: Place) -> None:
    assert place.tune(place.study(), 5, total_minutes=0).results() == []


def test_without_validation_queries_nothing_is_tried(place: Place) -> None:
    place.valid = {}
    with pytest.raises(QueryError, match="Generate the split valid"):
        place.tune(place.study(), 1)
    assert place.study().results() == []


WORKER = """
import json, sys, time
from pathlib import Path
from tests.experiments.tuning.test_tune import Place
folder, queries, name, other = (Path(argument) for argument in sys.argv[1:])
place, ended = Place(folder, queries), []

def note(line):
    if "state" in line:
        ended.append(line["trial"])
        name.touch()
        while not other.exists():  # after its first trial each waits for the other, so that both take part
            time.sleep(0.01)

place.tune(place.study(), 6, observer=note)
print(json.dumps(ended))
"""


@pytest.mark.slow
def test_two_processes_share_one_study(place: Place, queries: Path) -> None:
    names = place.folder / "a", place.folder / "b"
    arguments = [[sys.executable, "-c", WORKER, place.folder, queries, *pair] for pair in (names, names[::-1])]
    started: Callable[..., subprocess.Popen[str]] = subprocess.Popen
    workers = [started(words, stdout=subprocess.PIPE, text=True, cwd=ROOT) for words in arguments]
    ended = [json.loads(worker.communicate(timeout=120)[0]) for worker in workers]
    assert all(ended)
    assert sorted([*ended[0], *ended[1]]) == [0, 1, 2, 3, 4, 5]
    study = place.study()
    assert [(result.trial, result.counts) for result in study.results()] == [(number, True) for number in range(6)]
    assert sorted(path.name for path in (study.folder / "trials").iterdir()) == [f"00{number}" for number in range(6)]
    assert study.best is not None
    assert Run.open(study.run_folder(study.best.trial)).encoder() is not None
