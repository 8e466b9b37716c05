from pathlib import Path

import psutil
import pytest

from starqe.learn import memory_limit
from starqe.learn.memory_limit import free_memory

STAT = "anon 5\ninactive_file 300\ntotal_inactive_file 300\n"


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(memory_limit, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(memory_limit, "OWN_GROUPS", tmp_path / "own")
    return tmp_path / "groups"


def limit(group: Path, most: str, used: str, names: tuple[str, str] = ("memory.max", "memory.current")) -> None:
    group.mkdir(parents=True, exist_ok=True)
    for name, text in zip((*names, "memory.stat"), (most, used, STAT), strict=True):
        (group / name).write_text(text)


def test_the_limits_of_a_service_and_of_all_groups_around_it_count_and_files_that_were_read_do_not(groups, tmp_path):
    (tmp_path / "own").write_text("0::/system.slice/starqe.service\n")
    limit(groups / "system.slice" / "starqe.service", "10000", "4000")
    assert free_memory() == 10_000 - 4_000 + 300
    limit(groups / "system.slice", "9000", "8000")
    assert free_memory() == 9_000 - 8_000 + 300
    limit(groups / "system.slice", "9000", "12000")
    assert free_memory() == 0, "more is used than the limit allows: nothing is free"


def test_the_limit_of_a_container_of_the_first_version_counts(groups, tmp_path):
    (tmp_path / "own").write_text("5:cpu,cpuacct:/docker/x\n4:memory,hugetlb:/docker/x\n")
    limit(groups / "memory", "5000", "1000", ("memory.limit_in_bytes", "memory.usage_in_bytes"))
    assert free_memory() == 5_000 - 1_000 + 300


@pytest.mark.parametrize("own", ["0::/\n", "", None])
def test_without_a_limit_the_machine_counts(groups, tmp_path, own):
    if own is not None:
        (tmp_path / "own").write_text(own)
    limit(groups, "max", "4000")
    assert 0 < free_memory() <= psutil.virtual_memory().total
