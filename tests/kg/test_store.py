import json
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from starqe.errors import StorageError
from starqe.kg import Draft, Names, Statement, graph_of, load_graph, save_graph
from tests.kg.strategies import graphs

GRAPH = graph_of([Statement("a", "r", "b", (("q", "v"),))], [Statement("b", "r", "a")])
FILES = ["entities.parquet", "graph.json", "labels.parquet", "pairs.parquet", "relations.parquet", "statements.parquet"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def stored(tmp_path) -> Path:
    save_graph(GRAPH, tmp_path / "graph")
    return tmp_path / "graph"


@given(graphs())
def test_a_stored_graph_loads_with_the_same_content_and_labels(tmp_path_factory, graph):
    folder = tmp_path_factory.mktemp("store") / "graph"
    save_graph(graph, folder)
    loaded = load_graph(folder)
    assert loaded.fingerprint == graph.fingerprint
    assert list(loaded.statements("train", "valid", "test")) == list(graph.statements("train", "valid", "test"))
    assert loaded.entities.labels == graph.entities.labels
    assert loaded.relations.labels == graph.relations.labels
    columns = ("head", "relation", "tail", "split", "offsets", "pair_relation", "pair_value")
    assert [getattr(loaded, name).dtype for name in columns] == [getattr(graph, name).dtype for name in columns]


def test_names_are_stored_too(tmp_path):
    draft = Draft()
    draft.add([["a", "r", "b"]], "train")
    bases = Names("http://example.org/", "http://example.org/p/")
    save_graph(draft.finish(bases), tmp_path / "graph")
    assert load_graph(tmp_path / "graph").names == bases


def test_the_folder_holds_a_header_and_parquet_and_nothing_else(stored):
    assert names(stored) == FILES
    assert json.loads((stored / "graph.json").read_text()) == {
        "format": "starqe graph",
        "version": 1,
        "fingerprint": GRAPH.fingerprint,
        "statements": 2,
        "entities": 3,
        "relations": 2,
        "entity_base": "urn:starqe:entity:",
        "relation_base": "urn:starqe:relation:",
    }
    assert names(stored.parent) == ["graph"]


def test_any_parquet_reader_sees_the_statements(stored):
    query = f"""
        SELECT h.identifier, r.identifier, t.identifier, s.split
        FROM (SELECT *, row_number() OVER () FROM '{stored}/statements.parquet') s
        JOIN (SELECT *, row_number() OVER () - 1 AS id FROM '{stored}/entities.parquet') h ON s.head = h.id
        JOIN (SELECT *, row_number() OVER () - 1 AS id FROM '{stored}/relations.parquet') r ON s.relation = r.id
        JOIN (SELECT *, row_number() OVER () - 1 AS id FROM '{stored}/entities.parquet') t ON s.tail = t.id
        ORDER BY s.split"""
    with duckdb.connect() as connection:
        assert connection.sql(query).fetchall() == [("a", "r", "b", 0), ("b", "r", "a", 1)]
        assert connection.sql(f"FROM '{stored}/pairs.parquet'").fetchall() == [(0, 0, 2)]


def test_a_folder_name_that_looks_like_a_partition_changes_nothing(tmp_path):
    save_graph(GRAPH, tmp_path / "head=7")
    assert load_graph(tmp_path / "head=7").fingerprint == GRAPH.fingerprint


def test_a_graph_is_replaced_only_when_wanted(stored):
    other = graph_of([Statement("x", "r", "y")])
    with pytest.raises(StorageError, match=r"exists already\. Choose another place, or give --overwrite to replace it"):
        save_graph(other, stored)
    save_graph(other, stored, overwrite=True)
    assert load_graph(stored).fingerprint == other.fingerprint
    assert names(stored.parent) == ["graph"]


def test_a_folder_that_is_no_graph_is_never_replaced(tmp_path):
    (tmp_path / "notes.txt").write_text("precious")
    with pytest.raises(StorageError, match="not a graph folder"):
        save_graph(GRAPH, tmp_path, overwrite=True)
    assert names(tmp_path) == ["notes.txt"]


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, lambda path: None])
def test_what_is_no_graph_folder_is_refused(tmp_path, make):
    make(tmp_path / "graph")
    with pytest.raises(StorageError, match=r"graph: not a graph folder \(no readable graph.json: "):
        load_graph(tmp_path / "graph")


def test_a_graph_of_a_newer_format_is_refused(stored):
    change_header(stored, version=2)
    with pytest.raises(StorageError, match=r"written by a newer starqe \(graph format 2, this one reads up to 1\). Upgrade starqe"):
        load_graph(stored)


def test_a_folder_of_another_kind_is_refused(stored):
    change_header(stored, format="starqe queries")
    with pytest.raises(StorageError, match="a graph folder is needed, found a queries folder"):
        load_graph(stored)


@pytest.mark.parametrize("file", [name for name in FILES if name.endswith(".parquet")])
@pytest.mark.parametrize("harm", ["truncate", "scribble", "remove", "other columns"])
def test_a_damaged_file_is_refused(stored, file, harm):
    path = stored / file
    match harm:
        case "truncate":
            path.write_bytes(path.read_bytes()[:-20])
        case "scribble":
            path.write_bytes(b"\x00" * 100)
        case "remove":
            path.unlink()
        case "other columns":
            pq.write_table(pa.table({"x": [1]}), path)
    with pytest.raises(StorageError, match=rf"^{stored}: the graph is damaged \(.*\). Import it again from its source"):
        load_graph(stored)


@pytest.mark.parametrize(
    ("file", "columns"),
    [
        ("statements.parquet", {"head": [None, 1], "relation": [1, 1], "tail": [1, 0], "split": [0, 1]}),
        ("pairs.parquet", {"statement": [-1], "relation": [0], "value": [2]}),
        ("pairs.parquet", {"statement": ["x"], "relation": [0], "value": [2]}),
        ("entities.parquet", {"identifier": [1, 2, 3]}),
        ("entities.parquet", {"identifier": ["a", None, "v"]}),
    ],
)
def test_columns_of_other_values_are_refused(stored, file, columns):
    pq.write_table(pa.table(columns), stored / file)
    with pytest.raises(StorageError, match="Import it again from its source"):
        load_graph(stored)


def test_files_of_another_graph_are_noticed_by_the_fingerprint(stored):
    statements = {"head": np.array([1, 1], np.int32), "relation": np.array([1, 1], np.int32), "tail": np.array([1, 0], np.int32)}
    pq.write_table(pa.table({**statements, "split": np.array([0, 1], np.int8)}), stored / "statements.parquet")
    with pytest.raises(StorageError, match=rf"do not match the header \(fingerprint \w{{12}}, header {GRAPH.fingerprint[:12]}\)"):
        load_graph(stored)


def test_a_header_without_its_fields_is_refused(stored):
    for field in ("fingerprint", "entity_base"):
        header = json.loads((stored / "graph.json").read_text())
        del header[field]
        (stored / "graph.json").write_text(json.dumps(header))
        with pytest.raises(StorageError, match="Import it again from its source"):
            load_graph(stored)


def change_header(folder: Path, **changes: object) -> None:
    header = json.loads((folder / "graph.json").read_text())
    (folder / "graph.json").write_text(json.dumps({**header, **changes}))
