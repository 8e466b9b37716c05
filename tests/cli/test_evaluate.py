"""``starqe evaluate --by``: the model, or what reasons with it."""

import json
import shutil
from pathlib import Path

import pytest

from starqe.kg import embedded_graph
from starqe.queries import SHAPES, generate


@pytest.fixture(scope="module")
def queries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluated") / "queries"
    generate(embedded_graph(), folder, [SHAPES["1p"], SHAPES["2p"]], splits=["test"], threads=1)
    return folder


def test_rows_are_named_after_what_ranked(starqe, askable_run: Path, queries: Path) -> None:
    found = {}
    for by in ("encoder", "executor", "mixture"):
        code, printed, _ = starqe("evaluate", askable_run, queries, "--by", by, "--limit", "70", "--json")
        assert code == 0
        rows = json.loads(printed)
        assert {row["protocol"] for row in rows} == {"paper", "strict"}
        (name,) = {row["row"] for row in rows}
        found[name] = [row["ours"] for row in rows if (row["metric"], row["average"]) == ("MRR", "macro")]
    assert found.keys() == {"StarQE", "executor", "mixture"}
    assert found["StarQE"] != found["executor"]


def test_the_encoder_ranks_by_default(starqe, askable_run: Path, queries: Path) -> None:
    plain, named = (
        starqe("evaluate", askable_run, queries, *by, "--shapes", "1p", "--limit", "20", "--json") for by in ((), ("--by", "encoder"))
    )
    assert plain == named


def test_only_a_calibrated_run_of_an_encoder_reasons(starqe, askable_run: Path, queries: Path, tmp_path: Path) -> None:
    shutil.copytree(askable_run, tmp_path / "run")
    (tmp_path / "run" / "answering.json").unlink()
    code, _, said = starqe("evaluate", tmp_path / "run", queries, "--by", "mixture")
    assert code == 1
    assert "was not calibrated" in said
    code, _, said = starqe("evaluate", askable_run, "--links", "ours", "--by", "predictor")
    assert code == 1
    assert f"--by predictor needs a one-hop predictor, and {askable_run} has none. Choose --by encoder" in said


@pytest.mark.full
def test_links_of_a_run_are_measured_by_what_answers_single_facts_in_it(starqe, askable_run: Path, tmp_path: Path) -> None:
    """A run without a predictor is measured by its encoder; with one by that, unless --by says something else."""
    run = shutil.copytree(askable_run, tmp_path / "run")
    size = ["--set", "model.width=8", "--set", "train.epochs=1", "--set", "train.validation_questions=20", "--threads", 1]
    assert starqe("train", "--preset", "one-hop-demo", *size, run / "graph", "--out", run / "predictor")[0] == 0
    links = ("--links", "ours", "--limit", 20)

    def measured(folder: Path, *by: str) -> tuple[str, list[float]]:
        code, out, err = starqe("evaluate", folder, *links, *by, "--json")
        assert code == 0, err
        rows = json.loads(out)
        return rows[0]["row"], [row["ours"] for row in rows]

    assert measured(askable_run)[0] == "StarQE"
    assert measured(run)[0] == "Predictor (complex)"
    assert measured(run) == measured(run, "--by", "predictor") == measured(run / "predictor")
    assert measured(run, "--by", "encoder") == measured(askable_run)
    for by in ("executor", "mixture"):
        assert measured(run, "--by", by)[0] == by
    _, out, _ = starqe("evaluate", run, *links)
    assert out.startswith("measured: Predictor (complex), which predicts single facts in this run\n")
