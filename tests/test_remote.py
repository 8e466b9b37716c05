"""Graphs and query sets on another file system: fsspec's in memory stands for s3, hdfs and others."""

from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import starqe
from starqe.errors import InputError, MismatchError, StorageError, UnsupportedError
from starqe.kg import Statement, graph_of, load_graph, save_graph
from starqe.kg.graph_folder import FILES, graph_header
from starqe.queries import SHAPES, QuerySettings, generate, load_queries, query_set_stats, sample_queries
from starqe.remote import address
from tests.queries.generate.by_hand import GRAPH

OTHER = graph_of([Statement("a", "r", "b")])


@pytest.fixture
def place():
    system = fsspec.filesystem("memory")
    yield Path("memory://bucket/graph")
    system.rm("/", recursive=True)


def names() -> set[str]:
    return {path.removeprefix("/bucket/graph/") for path in fsspec.filesystem("memory").find("/bucket/graph")}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("s3://bucket/a/b", "s3://bucket/a/b"),
        ("hdfs://host:8020/graph", "hdfs://host:8020/graph"),
        ("memory://x", "memory://x"),
        ("graph", None),
        ("/data/graph", None),
        ("no-such-scheme://bucket/graph", None),
        ("C:/graph", None),
        ("a:b", None),
    ],
)
def test_an_address_names_a_file_system_that_fsspec_knows(path, found):
    assert address(Path(path)) == found


def test_a_graph_is_written_and_read_by_its_address(place):
    save_graph(GRAPH, place)
    assert names() == FILES - {"literals.parquet"}
    assert load_graph(place).fingerprint == GRAPH.fingerprint
    assert starqe.read("memory://bucket/graph").fingerprint == GRAPH.fingerprint
    assert graph_header(place)["fingerprint"] == GRAPH.fingerprint


def test_a_graph_is_replaced_only_when_wanted_and_only_a_graph(place):
    save_graph(GRAPH, place)
    with pytest.raises(StorageError, match=r"^memory://bucket/graph exists already.*option overwrite"):
        save_graph(OTHER, place)
    header = graph_header(place)
    save_graph(OTHER, place, overwrite=True, replaces=header)
    assert load_graph(place).fingerprint == OTHER.fingerprint
    with pytest.raises(StorageError, match="was changed by another command meanwhile"):
        save_graph(GRAPH, place, overwrite=True, replaces=header)
    fsspec.filesystem("memory").pipe("/bucket/graph/notes.txt", b"mine")
    with pytest.raises(StorageError, match=r"is not replaced: it holds notes\.txt"):
        save_graph(GRAPH, place, overwrite=True)
    assert load_graph(place).fingerprint == OTHER.fingerprint


STEPS = 7 + 6 + 7
"""Six files and a mark are written in another place, the files are copied from there, and that place is emptied."""


class Killed(BaseException):
    """Ends a command at once, as a kill does."""


def killed_at(step, patch):
    """Lets a number of changes pass, and none afterwards."""
    left = [step]

    def failing(work):
        def changing(*args, **kwargs):
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return work(*args, **kwargs)

        return changing

    for name in ("put_file", "rm_file", "cp_file"):
        patch.setattr(MemoryFileSystem, name, failing(getattr(MemoryFileSystem, name)))


@pytest.mark.parametrize("has_old", [False, True], ids=["new", "replaced"])
@pytest.mark.parametrize("step", range(STEPS))
def test_a_kill_at_any_step_leaves_the_old_graph_or_the_new_one_and_the_next_command_goes_on(place, monkeypatch, step, has_old):
    if has_old:
        save_graph(GRAPH, place)
    with monkeypatch.context() as patch:
        killed_at(step, patch)
        with pytest.raises(Killed):
            save_graph(OTHER, place, overwrite=has_old)
    complete = step >= 7
    if complete or has_old:
        assert load_graph(place).fingerprint == (OTHER if complete else GRAPH).fingerprint
    else:
        with pytest.raises(StorageError, match="not a graph folder"):
            load_graph(place)
    if complete and not has_old:
        with pytest.raises(StorageError, match="exists already"):
            save_graph(OTHER, place)
    else:
        save_graph(OTHER, place, overwrite=has_old)
    assert load_graph(place).fingerprint == OTHER.fingerprint
    assert names() == FILES - {"literals.parquet"}


def test_a_write_takes_these_steps_and_a_file_system_that_cannot_copy_is_written_too(place, monkeypatch):
    with monkeypatch.context() as patch:
        killed_at(STEPS, patch)
        save_graph(GRAPH, place)
    with monkeypatch.context() as patch:
        patch.delattr(MemoryFileSystem, "cp_file")
        save_graph(OTHER, place, overwrite=True)
    assert load_graph(place).fingerprint == OTHER.fingerprint


def test_a_connection_that_is_lost_is_an_error_that_names_the_address(place, monkeypatch):
    def lost(*_):
        raise OSError("connection lost")

    monkeypatch.setattr(MemoryFileSystem, "put_file", lost)
    with pytest.raises(StorageError, match=r"memory://bucket/graph: the file system refuses \(connection lost\)"):
        save_graph(GRAPH, place)


def test_a_damaged_file_is_noticed_and_named_by_its_address(place):
    save_graph(GRAPH, place)
    fsspec.filesystem("memory").pipe("/bucket/graph/statements.parquet", b"other bytes")
    with pytest.raises(StorageError, match=r"^memory://bucket/graph/statements\.parquet: damaged or changed"):
        load_graph(place)


def test_what_is_not_there_is_no_graph(place):
    with pytest.raises(StorageError, match="memory://bucket/graph: not a graph folder"):
        load_graph(place)


def test_a_file_system_without_its_package_is_named():
    with pytest.raises((UnsupportedError, StorageError), match="oss://bucket/graph"):
        load_graph(Path("oss://bucket/graph"))


def test_query_sets_are_written_continued_and_read_by_their_address(place, tmp_path):
    shapes = [SHAPES["1p"], SHAPES["2i"]]
    generate(GRAPH, place, shapes[:1], threads=1)
    first = fsspec.filesystem("memory").modified("/bucket/graph/train/1p.parquet")
    generate(GRAPH, place, shapes, threads=1)
    generate(GRAPH, tmp_path, shapes, threads=1)
    assert fsspec.filesystem("memory").modified("/bucket/graph/train/1p.parquet") == first, "a finished table is kept"
    assert names() == {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    for split in ("train", "valid", "test"):
        there, here = load_queries(place, split, graph=GRAPH), load_queries(tmp_path, split)
        assert {name: table.answers.items.tolist() for name, table in there.items()} == {
            name: table.answers.items.tolist() for name, table in here.items()
        }
    assert query_set_stats(place, GRAPH) == query_set_stats(tmp_path, GRAPH)
    with pytest.raises(MismatchError, match="memory://bucket/graph holds queries of another graph"):
        load_queries(place, "train", graph=OTHER)
    with pytest.raises(InputError, match="memory://bucket/graph"):
        load_queries(place, "train", ["3p"])


def test_samples_are_written_to_an_address(place):
    settings = QuerySettings(limit=3, hub_threshold=None, qualifiers="0-1")
    sample_queries(GRAPH, place, [SHAPES["1p"]], "train", settings, turn=False)
    assert len(load_queries(place, "train")["1p"]) == 3


def test_tables_that_were_finished_before_an_error_are_kept(place):
    def stop(split, shape, count):
        if shape == "2i":
            raise StorageError("stopped")

    with pytest.raises(StorageError, match="stopped"):
        generate(GRAPH, place, [SHAPES["1p"], SHAPES["2i"]], splits=["train"], progress=stop, threads=1)
    assert {"queries.json", "train/1p.parquet"} <= names()


@pytest.mark.parametrize("step", range(4))
def test_queries_go_on_after_a_kill_at_any_step(place, tmp_path, monkeypatch, step):
    """The header is written, and then three tables."""
    with monkeypatch.context() as patch:
        killed_at(step, patch)
        with pytest.raises(Killed):
            generate(GRAPH, place, [SHAPES["1p"]], threads=1)
    generate(GRAPH, place, [SHAPES["1p"]], threads=1)
    generate(GRAPH, tmp_path, [SHAPES["1p"]], threads=1)
    for split in ("train", "valid", "test"):
        there, here = (load_queries(folder, split)["1p"].answers.items.tolist() for folder in (place, tmp_path))
        assert there == here
