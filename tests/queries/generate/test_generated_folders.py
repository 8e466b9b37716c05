"""Folders of generated queries: seeds, limits, interruptions, and what they refuse."""

from pathlib import Path

import pytest

from starqe.errors import ConfigError, InputError, MismatchError, QueryError, StorageError
from starqe.kg import graph_of
from starqe.queries import SHAPES, QuerySettings, Shape, generate
from starqe.queries.generate import database
from starqe.queries.generate.sql import SqlEngine
from starqe.queries.query_set import table_path
from tests.queries.generate.by_hand import GRAPH, asked, fact


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


CROWD = graph_of(train=[fact(f"a{i} r x{i % 7}", ("q", f"v{j}")) for i in range(20) for j in range(3)])


@pytest.mark.full
def test_the_same_seed_gives_the_same_bytes_on_any_number_of_threads(tmp_path):
    for name, threads in (("one", 1), ("two", 2), ("again", 2)):
        generate(GRAPH, tmp_path / name, threads=threads)
    assert contents(tmp_path / "one") == contents(tmp_path / "two") == contents(tmp_path / "again")


def test_another_seed_gives_the_same_queries_in_another_order(tmp_path):
    tables = []
    for seed in (0, 1):
        generate(CROWD, tmp_path / str(seed), [SHAPES["2i"]], QuerySettings(seed=seed), ["train"], threads=1)
        tables.append(list(asked(tmp_path / str(seed), CROWD, "train", "2i").items()))
    assert sorted(tables[0]) == sorted(tables[1])
    assert tables[0] != tables[1]
    assert tables[0] != sorted(tables[0])


def test_a_limit_gives_the_first_queries_of_the_whole_table(tmp_path):
    generate(CROWD, tmp_path / "whole", [SHAPES["2i"]], splits=["train"], threads=1)
    generate(CROWD, tmp_path / "part", [SHAPES["2i"]], QuerySettings(limit=10), ["train"], threads=1)
    whole = list(asked(tmp_path / "whole", CROWD, "train", "2i").items())
    assert len(whole) > 10
    assert list(asked(tmp_path / "part", CROWD, "train", "2i").items()) == whole[:10]


def test_tables_leave_the_database_in_slices_without_a_seam(tmp_path, monkeypatch):
    generate(CROWD, tmp_path / "whole", [SHAPES["2i"]], splits=["train"], threads=1)
    monkeypatch.setattr(database, "SLICE", 7)
    for name, limit in (("slices", None), ("part", 30)):
        generate(CROWD, tmp_path / name, [SHAPES["2i"]], QuerySettings(limit=limit), ["train"], threads=1)
    whole, slices, part = (list(asked(tmp_path / name, CROWD, "train", "2i").items()) for name in ("whole", "slices", "part"))
    assert (slices, part) == (whole, whole[:30])


class Interrupted(SqlEngine):
    """Breaks off at the third table."""

    calls = 0

    def solve(self, shape, split, settings):
        Interrupted.calls += 1
        if Interrupted.calls == 3:
            raise KeyboardInterrupt
        return super().solve(shape, split, settings)


def test_an_interrupted_generation_keeps_what_was_finished_and_continues(tmp_path):
    shapes = [SHAPES[name] for name in ("1p", "2p", "2i", "3i")]
    generate(GRAPH, tmp_path / "whole", shapes, threads=1)
    with pytest.raises(KeyboardInterrupt):
        generate(GRAPH, tmp_path / "part", shapes, engine=Interrupted, threads=1)
    before = contents(tmp_path / "part")
    assert sorted(before) == ["queries.json", "train/1p.parquet", "train/2p.parquet"]
    times = {name: (tmp_path / "part" / name).stat().st_mtime_ns for name in before}

    finished = []
    Interrupted.calls = 100
    generate(GRAPH, tmp_path / "part", shapes, engine=Interrupted, progress=lambda *table: finished.append(table), threads=1)
    assert Interrupted.calls == 110  # twelve tables, two of them finished before
    assert contents(tmp_path / "part") == contents(tmp_path / "whole")
    assert {name: (tmp_path / "part" / name).stat().st_mtime_ns for name in before} == times
    assert finished[:3] == [("train", "1p", 7), ("train", "2p", 5), ("train", "2i", 6)]


def test_another_graph_in_the_same_folder_is_refused(folder):
    before = contents(folder)
    with pytest.raises(MismatchError, match="holds queries of another graph"):
        generate(CROWD, folder)
    assert contents(folder) == before


def test_other_settings_in_the_same_folder_are_refused_by_name(folder):
    with pytest.raises(StorageError, match=r"other settings \(hub_threshold, seed\)"):
        generate(GRAPH, folder, settings=QuerySettings(seed=1, hub_threshold=None))


def test_another_shape_of_the_same_name_is_refused(folder):
    with pytest.raises(StorageError, match="another shape of the same name"):
        generate(GRAPH, folder, [Shape.parse("2p", "A>x ?>x")])


def test_a_damaged_table_is_named(tmp_path):
    generate(GRAPH, tmp_path, [SHAPES["1p"]], threads=1)
    table_path(tmp_path, "valid", "1p").write_bytes(b"PAR1 and no more")
    with pytest.raises(StorageError, match=r"1p\.parquet: cannot read the query table"):
        generate(GRAPH, tmp_path, [SHAPES["1p"]], threads=1)


def test_what_is_not_for_queries_is_left_alone(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StorageError, match="not a query set folder"):
        generate(GRAPH, tmp_path)
    with pytest.raises(StorageError, match="is a file"):
        generate(GRAPH, tmp_path / "file")
    assert contents(tmp_path) == {"file": b"mine"}


def test_wrong_use_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(QueryError, match="has 2 edges"):
        generate(GRAPH, tmp_path / "queries", settings=QuerySettings(qualifiers="1,1"))
    with pytest.raises(InputError, match="splits are one or more of"):
        generate(GRAPH, tmp_path / "queries", splits=["dev"])
    with pytest.raises(InputError, match="engines are sql, sparql, spark; found 'hadoop'"):
        generate(GRAPH, tmp_path / "queries", engine="hadoop")
    assert not (tmp_path / "queries").exists()


@pytest.mark.parametrize(("limits", "named"), [({"memory": "much"}, "all and 'much'"), ({"threads": -1}, "-1 and '4GB'")])
def test_invalid_limits_are_named(tmp_path, limits, named):
    with pytest.raises(ConfigError, match=rf"threads are at least 1 and memory is a size such as 4GB, found {named}"):
        generate(GRAPH, tmp_path / "queries", **limits)
