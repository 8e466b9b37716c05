from pathlib import Path

import pytest

import starqe
from starqe.bench.asking import SHARED, _loads, bench_ask
from starqe.errors import InputError, StarqeError
from starqe.kg import load_graph
from starqe.queries import read_sparql

SOURCE = Path(starqe.__file__).parents[1]


@pytest.mark.full
def test_two_versions_are_asked_the_same_questions(askable_run: Path) -> None:
    rows = {row["load"]: row for row in bench_ask(askable_run, 3, SOURCE)}
    assert list(rows) == [*SHARED, "one pattern", "union of two", "tuples of three"]
    assert all(row["questions"] == 3 and row["cpu_ms"] > 0 for row in rows.values())
    assert [load for load, row in rows.items() if "of_other" in row] == [*SHARED]
    assert rows["union of two"]["of_one_pattern"] > 0
    assert rows["union of two"]["of_one_pattern_cpu"] > 0


def test_unions_have_two_branches_and_tuples_three_columns(askable_run: Path) -> None:
    graph, loads = load_graph(askable_run / "graph"), _loads(askable_run, 0)
    assert all(" UNION " in text and len(read_sparql(text, graph).shown) == 1 for text in loads["union of two"][:5])
    assert all(len(read_sparql(text, graph).shown) == 3 for text in loads["tuples of three"][:5])


def test_numbers_and_folders_out_of_range_are_refused(askable_run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="1 or more, found 0 and 1"):
        bench_ask(askable_run, 0)
    with pytest.raises(InputError, match="another version is given by its folder src"):
        bench_ask(askable_run, 1, tmp_path)


@pytest.mark.full
def test_a_version_that_does_not_start_is_an_error(askable_run: Path, tmp_path: Path) -> None:
    (tmp_path / "starqe" / "ask").mkdir(parents=True)
    with pytest.raises(StarqeError, match="does not start"):
        bench_ask(askable_run, 1, tmp_path)
