from pathlib import Path

import pytest

import starqe
from starqe.bench.versions import bench_versions, summary
from starqe.bench.working_process import WORK
from starqe.errors import InputError
from starqe.kg import load_graph
from starqe.queries import generate

SOURCE = Path(starqe.__file__).parents[1]


@pytest.mark.full
def test_two_versions_do_the_same_work(askable_run: Path, tmp_path: Path) -> None:
    generate(load_graph(askable_run / "graph"), tmp_path / "queries", splits=["train", "test"])
    rows = bench_versions(askable_run, tmp_path / "queries", SOURCE, rounds=1, limit=10)
    assert [row["work"] for row in rows] == [*WORK]
    assert all(row["cpu_ms"] > 0 and row["other_cpu_ms"] > 0 for row in rows)


def test_numbers_and_folders_out_of_range_are_refused(askable_run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="1 or more, found 0, 2000 and 1"):
        bench_versions(askable_run, tmp_path, SOURCE, rounds=0)
    with pytest.raises(InputError, match="another version is given by its folder src"):
        bench_versions(askable_run, tmp_path, tmp_path)


def test_ratios_are_ours_divided_by_the_others() -> None:
    own, other = {"cpu": [0.001, 0.002, 0.009], "wall": [0.003] * 3}, {"cpu": [0.001, 0.001, 0.004], "wall": [0.1] * 3}
    found = summary([own, other])
    assert found == {"cpu_ms": 2.0, "ms": 3.0, "other_cpu_ms": 1.0, "of_other": 2.0, "of_other_in_sum": 2.0}
