import json
from pathlib import Path

import pytest

from starqe.experiments import TABLES
from starqe.kg import embedded_graph, save_graph

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the commands share: queries are generated once."""
    return tmp_path_factory.mktemp("reproduction") / "work"


def test_statistics_are_printed_and_the_files_named(starqe, work: Path) -> None:
    code, printed, said = starqe("reproduce", "statistics", "--out", work)
    assert (code, said) == (0, "counting queries and answers\n")
    assert "The query set in numbers" in printed
    assert "147,840" in printed
    assert printed.splitlines()[-1] == str(work / "statistics" / "plot.png")


def test_a_table_as_json_is_all_its_rows(starqe, work: Path) -> None:
    code, printed, _ = starqe("reproduce", "generalisation", "--out", work, "--budget", "0", "--limit", "5", "--json")
    rows = json.loads(printed)
    assert code == 0
    assert {row["row"] for row in rows} == {"StarQE-like", "Q2B-like", "EmQL-like", "MPQE-like", "MPQE-like + Reification"}
    assert {row["ours"] for row in rows} == {None}


def test_findings_and_provenance_are_printed(starqe, work: Path) -> None:
    _, printed, _ = starqe("reproduce", "diameter", "--out", work, "--budget", "0")
    assert "not measured: as many steps as the diameter" in printed
    assert "\nmachine: " in printed


@pytest.mark.slow
def test_the_oracle_of_the_embedded_graph_is_computed(starqe) -> None:
    code, printed, _ = starqe("reproduce", "oracle", "--sources", "all splits, test", "--json")
    rows = json.loads(printed)
    assert code == 0
    assert {row["row"] for row in rows} == {"Oracle (all splits)", "Oracle (test)"}
    assert {row["shape"] for row in rows} == {"1p", "2p", "3p", "2i", "3i", "2i-1p", "1p-2i", "average"}


def test_wrong_use_is_explained(starqe, tmp_path: Path) -> None:
    save_graph(embedded_graph(), tmp_path / "graph")
    code, _, said = starqe("reproduce", "oracle", "--graph", tmp_path / "graph")
    assert (code, "give a graph and its queries together" in said) == (1, True)
    code, _, said = starqe("reproduce", "results", "--graph", tmp_path / "graph", "--queries", tmp_path / "queries")
    assert (code, "models are trained for this table" in said) == (2, True)
    code, _, said = starqe("reproduce", "oracle", "--sources", "nothing")
    assert (code, "sources are test, all splits, merged; found 'nothing'" in said) == (1, True)
    code, _, said = starqe("reproduce", "table")
    assert code == 2
    assert all(table in said for table in TABLES)
