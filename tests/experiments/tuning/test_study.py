import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from starqe.config import read_toml
from starqe.errors import ConfigError, MismatchError, StorageError
from starqe.experiments.tuning.search_space import Range
from starqe.experiments.tuning.study import Study, Terms
from starqe.experiments.tuning.study_report import draw, summary, write_summary
from starqe.learn import Recipe
from tests.places import ROOT

SPACE = {"model.width": (16, 32), "train.learning_rate": Range(low=1e-4, high=1e-2, log=True)}
TERMS = Terms("0123456789abcdef", {"train.1p": 10, "valid.1p": 5}, {"seed": 0}, Recipe(seed=3), SPACE)
KILLED = """
import os, signal
from pathlib import Path
from starqe.experiments.tuning.study import Study
from tests.experiments.tuning.test_study import TERMS
trial = Study(Path({folder!r}), TERMS).begin(9)
assert trial is not None
os.kill(os.getpid(), signal.SIGKILL)
"""


def ended(study: Study, *values: float) -> None:
    for value in values:
        trial = study.begin(99)
        assert trial is not None
        trial.report(value, 0)
        study.end(trial, "complete", value)


def test_a_study_is_found_again_with_its_trials(tmp_path: Path) -> None:
    ended(Study(tmp_path / "study", TERMS), 10.0, 30.0, 30.0, 20.0)
    study = Study(tmp_path / "study", TERMS)
    assert [(result.trial, result.state, result.value, result.epochs) for result in study.results()] == [
        (0, "complete", 10.0, 1),
        (1, "complete", 30.0, 1),
        (2, "complete", 30.0, 1),
        (3, "complete", 20.0, 1),
    ]
    assert study.best is not None
    assert study.best.trial == 1
    assert study.best.parameters.keys() == SPACE.keys()


def test_no_trial_begins_when_enough_are_finished_or_running(tmp_path: Path) -> None:
    study = Study(tmp_path, TERMS)
    ended(study, 10.0)
    running = study.begin(2)
    assert running is not None
    assert Study(tmp_path, TERMS).begin(2) is None
    study.end(running, "cut off")
    again = study.begin(2)
    assert again is not None
    study.end(again, "failed", error="the loss is not a number")
    assert study.begin(2) is None
    assert [result.state for result in study.results()] == ["complete", "cut off", "failed"]


def test_settings_that_a_study_of_an_earlier_version_did_not_have_were_as_they_are_by_default(tmp_path: Path) -> None:
    Study(tmp_path, TERMS)
    header = json.loads((tmp_path / "study.json").read_text())
    del header["checksum"], header["base"]["train.clip"]
    (tmp_path / "study.json").write_text(json.dumps(header))
    Study(tmp_path, TERMS)
    with pytest.raises(MismatchError, match=r"'base.train.clip' is 0.0 in .* and 1.0 here"):
        Study(tmp_path, dataclasses.replace(TERMS, base=Recipe(seed=3).with_settings(["train.clip=1"])))


@pytest.mark.full
def test_the_trial_of_a_killed_process_is_cut_off_and_one_of_a_living_process_is_not(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED.format(folder=str(tmp_path))], cwd=ROOT, check=False)
    assert killed.returncode == -9
    first, second = Study(tmp_path, TERMS), Study(tmp_path, TERMS)
    assert [result.state for result in first.results()] == ["running"]
    living = first.begin(9)
    assert second.begin(9) is not None
    assert [result.state for result in second.results()] == ["cut off", "running", "running"]
    assert living is not None
    first.end(living, "complete", 1.0)
    assert [result.state for result in second.results()] == ["cut off", "complete", "running"]


def test_two_openings_of_a_study_try_different_things_and_the_seed_decides_them(tmp_path: Path) -> None:
    def drawn(folder: str, openings: int) -> list[object]:
        studies = [Study(tmp_path / folder, TERMS) for _ in range(openings)]
        return [trial.params for number in range(4) if (trial := studies[number % openings].begin(9))]

    alone, shared = drawn("alone", 1), drawn("shared", 2)
    assert alone == shared
    assert len({str(parameters) for parameters in alone}) == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"graph": "fedcba9876543210"}, "'graph' is 0123456789ab in .* and fedcba987654 here"),
        ({"space": {**SPACE, "model.width": (16, 64)}}, r"'space.model.width' is \[16, 32\] in .* and \[16, 64\] here"),
        ({"space": {"model.width": (16, 32)}}, "'base.train.learning_rate' is not there in .* and 0.001 here"),
        ({"base": Recipe(seed=3).with_settings(["train.epochs=5"])}, "'base.train.epochs' is 12 in .* and 5 here"),
        ({"base": Recipe(seed=4)}, "'base.seed' is 3 in .* and 4 here"),
        ({"queries": {"train.1p": 11, "valid.1p": 5}}, "'queries.train.1p' is 10 in .* and 11 here"),
        ({"made": {"seed": 1}}, "'made.seed' is 0 in .* and 1 here"),
        ({"objective": "MRR"}, "'objective' is Hits@10 in .* and MRR here"),
        ({"minutes": 2.5}, "'minutes' is not there in .* and 2.5 here"),
    ],
)
def test_a_study_of_other_terms_is_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    Study(tmp_path, TERMS)
    with pytest.raises(MismatchError, match=message):
        Study(tmp_path, dataclasses.replace(TERMS, **change))  # type: ignore[arg-type]


def test_what_the_space_decides_may_differ_in_the_base(tmp_path: Path) -> None:
    ended(Study(tmp_path, TERMS), 10.0)
    again = Study(tmp_path, dataclasses.replace(TERMS, base=Recipe(seed=3).with_settings(["model.width=64"])))
    assert [result.value for result in again.results()] == [10.0]


def test_a_folder_with_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StorageError, match="holds something else"):
        Study(tmp_path, TERMS)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_without_validation_there_is_no_objective() -> None:
    with pytest.raises(ConfigError, match=r"found train\.validation_queries=0"):
        dataclasses.replace(TERMS, base=Recipe().with_settings(["train.validation_queries=0"]))


def test_a_line_that_was_cut_off_is_taken_back_and_a_damaged_journal_is_refused(tmp_path: Path) -> None:
    ended(Study(tmp_path, TERMS), 10.0)
    with (tmp_path / "journal.jsonl").open("a") as journal:
        journal.write('{"op_code": 4, "work')
    study = Study(tmp_path, TERMS)
    ended(study, 20.0)
    assert [result.value for result in Study(tmp_path, TERMS).results()] == [10.0, 20.0]
    with (tmp_path / "journal.jsonl").open("a") as journal:
        journal.write("nonsense\n{}\n")
    with pytest.raises(StorageError, match=r"journal\.jsonl: damaged"):
        Study(tmp_path, TERMS)


def test_only_the_best_trial_keeps_its_weights(tmp_path: Path) -> None:
    study = Study(tmp_path, TERMS)
    for value in (10.0, 30.0, 20.0):
        trial = study.begin(9)
        assert trial is not None
        folder = study.run_folder(trial.number)
        (folder / "graph").mkdir(parents=True)
        for name in ("config.toml", "metrics.jsonl", "weights.safetensors", "state.safetensors", "graph/graph.json"):
            (folder / name).write_text("")
        study.end(trial, "complete", value)
    kept = {number: {path.name for path in study.run_folder(number).iterdir()} for number in range(3)}
    assert kept[0] == kept[2] == {"config.toml", "metrics.jsonl"}
    assert kept[1] == {"config.toml", "metrics.jsonl", "weights.safetensors", "graph"}
    assert not list((tmp_path / "trials").glob(".*"))


def test_the_summary_shows_the_best_beside_the_paper_and_every_trial(tmp_path: Path) -> None:
    study = Study(tmp_path, TERMS)
    assert "No trial is complete yet." in summary(study)
    ended(study, 10.0, 30.0)
    failed = study.begin(9)
    assert failed is not None
    study.end(failed, "failed", error="the loss is not a number")
    write_summary(study)
    text = (tmp_path / "summary.md").read_text()
    best = study.results()[1].parameters
    assert "**Best: 30.00, trial 1**" in text
    assert f"| model.width | {best['model.width']} | 192 | 16, 32 | – |" in text
    assert f"| train.learning_rate | {best['train.learning_rate']:.4g} | 0.0007741 | 0.0001 to 0.01, log | – |" in text
    assert f"| 1 | complete | 30.00 | 1 | 0.0 | {best['model.width']} |" in text
    assert "| 2 | failed | – | 0 |" in text
    assert "- trial 2: the loss is not a number" in text
    assert read_toml(tmp_path / "best.toml", Recipe) == study.recipe(best)


def test_pictures_are_drawn_from_what_there_is(tmp_path: Path) -> None:
    study = Study(tmp_path, TERMS)
    draw(study)
    assert not list(tmp_path.glob("*.png"))
    ended(study, 10.0, 30.0)
    draw(study)
    assert [path.name for path in tmp_path.glob("*.png")] == ["history.png"]
    ended(study, 20.0, 25.0, 1.0, 2.0, 3.0, 4.0)
    draw(study)
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in ("history.png", "importances.png"))
