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


def test_the_encoder_ranks_if_nothing_else_is_said(starqe, askable_run: Path, queries: Path) -> None:
    plain, named = (
        starqe("evaluate", askable_run, queries, *by, "--shapes", "1p", "--limit", "20", "--json") for by in ((), ("--by", "encoder"))
    )
    assert plain == named


def test_only_a_calibrated_run_of_an_encoder_reasons(starqe, askable_run: Path, queries: Path, tmp_path: Path) -> None:
    shutil.copytree(askable_run, tmp_path / "run")
    (tmp_path / "run" / "reasoning.json").unlink()
    code, _, said = starqe("evaluate", tmp_path / "run", queries, "--by", "mixture")
    assert code == 1
    assert "was not calibrated" in said
    code, _, said = starqe("evaluate", askable_run, "--links", "ours", "--by", "executor")
    assert code == 2
    assert "leave them out with --links" in " ".join(said.replace("│", " ").split())
