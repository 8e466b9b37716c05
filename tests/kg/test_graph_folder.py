import json
import re
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from starqe.errors import StorageError
from starqe.kg import Draft, Graph, Names, Statement, graph_folder, graph_of, import_graph, load_graph, save_graph, with_split
from tests.kg.strategies import graphs

GRAPH = graph_of([Statement("a", "r", "b", (("q", "v"),))], [Statement("b", "r", "a")])
FILES = ["entities.parquet", "graph.json", "labels.parquet", "pairs.parquet", "relations.parquet", "statements.parquet"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def stored(tmp_path) -> Path:
    save_graph(GRAPH, tmp_path / "graph")
    return tmp_path / "graph"


def columns(graph: Graph) -> list[np.ndarray]:
    return [graph.head, graph.relation, graph.tail, graph.split, graph.pairs.offsets, graph.pairs.items]


@given(graphs())
def test_a_stored_graph_loads_with_the_same_content_and_labels(tmp_path_factory, graph):
    folder = tmp_path_factory.mktemp("store") / "graph"
    save_graph(graph, folder)
    loaded = load_graph(folder)
    assert loaded.fingerprint == graph.fingerprint
    assert list(loaded.statements("train", "valid", "test")) == list(graph.statements("train", "valid", "test"))
    assert loaded.entities.labels == graph.entities.labels
    assert loaded.relations.labels == graph.relations.labels
    assert [column.dtype for column in columns(loaded)] == [column.dtype for column in columns(graph)]


def test_names_are_stored_too(tmp_path):
    draft = Draft()
    draft.add([["a", "r", "b"]], "train")
    bases = Names("http://example.org/", "http://example.org/p/")
    save_graph(draft.finish(bases), tmp_path / "graph")
    assert load_graph(tmp_path / "graph").names == bases


def test_the_title_is_that_of_the_source_and_is_stored_too(tmp_path):
    (tmp_path / "my-people.csv").write_text("Einstein,bornIn,Ulm\n", encoding="utf-8")
    graph, _ = import_graph(tmp_path / "my-people.csv")
    assert graph.title == "my-people"
    save_graph(graph, tmp_path / "graph")
    assert load_graph(tmp_path / "graph").title == "my-people"
    assert with_split(graph, graph.split).title == "my-people"


def test_the_folder_holds_a_header_and_parquet_and_nothing_else(stored):
    assert names(stored) == FILES
    header = json.loads((stored / "graph.json").read_text())
    assert header.pop("checksums").keys() == set(FILES) - {"graph.json"}
    assert len(header.pop("checksum")) == 8
    assert header == {
        "format": "starqe graph",
        "version": 1,
        "title": "",
        "fingerprint": GRAPH.fingerprint,
        "statements": 2,
        "pairs": 1,
        "entities": 3,
        "relations": 2,
        "labels": 0,
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
    with pytest.raises(StorageError, match=r"exists already\. Choose another place, or replace it with the option overwrite"):
        save_graph(other, stored)
    save_graph(other, stored, overwrite=True)
    assert load_graph(stored).fingerprint == other.fingerprint
    assert names(stored.parent) == ["graph"]


def test_a_folder_that_is_not_a_graph_is_never_replaced(tmp_path):
    (tmp_path / "notes.txt").write_text("precious")
    with pytest.raises(StorageError, match="not a graph folder"):
        save_graph(GRAPH, tmp_path, overwrite=True)
    assert names(tmp_path) == ["notes.txt"]


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch, lambda path: None])
def test_what_is_not_a_graph_folder_is_refused(tmp_path, make):
    make(tmp_path / "graph")
    with pytest.raises(StorageError, match=r"graph: not a graph folder \(no readable graph.json: "):
        load_graph(tmp_path / "graph")


def test_a_graph_of_a_newer_format_is_refused(stored):
    change_header(stored, version=3)
    with pytest.raises(StorageError, match=r"written by a newer starqe \(graph format 3, this one reads up to 2\). Upgrade starqe"):
        load_graph(stored)


def test_a_folder_of_another_kind_is_refused(stored):
    change_header(stored, format="starqe queries")
    with pytest.raises(StorageError, match="a graph folder is needed, found a queries folder"):
        load_graph(stored)


@pytest.mark.parametrize("file", [name for name in FILES if name.endswith(".parquet")])
@pytest.mark.parametrize("harm", ["truncate", "scribble", "remove", "other columns"])
@pytest.mark.parametrize("checksums", [True, False])
def test_a_damaged_file_is_refused(stored, file, harm, checksums):
    path = stored / file
    if not checksums:
        make_old(stored)
    match harm:
        case "truncate":
            path.write_bytes(path.read_bytes()[:-20])
        case "scribble":
            path.write_bytes(b"\x00" * 100)
        case "remove":
            path.unlink()
        case "other columns":
            pq.write_table(pa.table({"x": [1]}), path)
    with pytest.raises(StorageError, match=rf"^{stored}.*(damaged|cannot be read).* \(.*\)\. Import it again from its source"):
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
    make_old(stored)
    pq.write_table(pa.table(columns), stored / file)
    with pytest.raises(StorageError, match="Import it again from its source"):
        load_graph(stored)


INTS = {"head": pa.int32(), "relation": pa.int32(), "tail": pa.int32(), "split": pa.int8(), "statement": pa.int64(), "value": pa.int32()}


@pytest.mark.parametrize(
    ("file", "column", "values", "message"),
    [
        ("statements", "head", [0, 3], "'head' is from 0 to 2, found 0 to 3"),
        ("statements", "tail", [-1, 0], "'tail' is from 0 to 2, found -1 to 0"),
        ("statements", "relation", [0, 2], "'relation' is from 0 to 1, found 0 to 2"),
        ("statements", "split", [0, 9], "'split' is from 0 to 2, found 0 to 9"),
        ("pairs", "statement", [2], "'statement' is from 0 to 1, found 2 to 2"),
        ("pairs", "value", [2**31 - 1], "'value' is from 0 to 2, found 2,147,483,647"),
        ("statements", "tail", [0, 1, 2], "it has 2 rows by its header, found 3"),
    ],
)
def test_ids_out_of_range_are_refused_with_the_file(stored, file, column, values, message):
    make_old(stored)
    table = pq.read_table(stored / f"{file}.parquet")
    columns = {name: pa.array([0] * len(values), INTS[name]) for name in table.column_names} | {column: pa.array(values, INTS[column])}
    pq.write_table(pa.table(columns), stored / f"{file}.parquet")
    with pytest.raises(StorageError, match=rf"^{stored / file}\.parquet: damaged \({re.escape(message)}"):
        load_graph(stored)


@pytest.mark.full
def test_a_small_file_that_fills_the_memory_is_refused(stored):
    rows = 2 * 10**7
    make_old(stored, statements=rows)
    zeros = {name: pa.array(np.zeros(rows, np.int8)).cast(INTS[name]) for name in ("head", "relation", "tail", "split")}
    pq.write_table(pa.table(zeros), stored / "statements.parquet", compression="zstd")
    with pytest.raises(StorageError, match=r"statements\.parquet: .* bytes of a file take at most 268,435,456 bytes in memory, found 640"):
        load_graph(stored)


@pytest.mark.full
def test_a_dictionary_that_expands_to_far_more_than_its_size_is_refused(stored):
    make_old(stored, entities=100_000)
    pq.write_table(pa.table({"identifier": ["x" * 10_000] * 100_000}), stored / "entities.parquet", compression="zstd")
    with pytest.raises(StorageError, match=r"entities\.parquet: .* bytes in memory, found 1,000,000,000"):
        load_graph(stored)


def test_a_bad_base_names_the_folder(stored):
    make_old(stored, entity_base="no base")
    with pytest.raises(StorageError, match=rf"^{stored}: the graph is damaged \(a base is an absolute IRI .*found 'no base'\)"):
        load_graph(stored)


def test_a_graph_of_a_version_without_checksums_is_read(stored):
    make_old(stored)
    assert load_graph(stored).fingerprint == GRAPH.fingerprint


def test_files_of_another_graph_are_noticed_by_the_fingerprint(stored):
    make_old(stored)
    statements = {"head": np.array([1, 1], np.int32), "relation": np.array([1, 1], np.int32), "tail": np.array([1, 0], np.int32)}
    pq.write_table(pa.table({**statements, "split": np.array([0, 1], np.int8)}), stored / "statements.parquet")
    with pytest.raises(StorageError, match=rf"do not match the header \(fingerprint \w{{12}}, header {GRAPH.fingerprint[:12]}\)"):
        load_graph(stored)


def test_a_header_without_its_fields_is_refused(stored):
    make_old(stored)
    for field in ("fingerprint", "entity_base"):
        header = json.loads((stored / "graph.json").read_text())
        del header[field]
        (stored / "graph.json").write_text(json.dumps(header))
        with pytest.raises(StorageError, match="Import it again from its source"):
            load_graph(stored)


def test_a_graph_that_is_replaced_while_it_is_read_is_read_again(stored, monkeypatch):
    other = graph_of([Statement("c", "r", "d")])
    read, replaced = graph_folder._read, []

    def read_and_replace(path: Path, *more: object) -> pa.Table:
        table = read(path, *more)
        if not replaced:
            replaced.append(path)
            save_graph(other, stored, overwrite=True)
        return table

    monkeypatch.setattr(graph_folder, "_read", read_and_replace)
    assert load_graph(stored).fingerprint == other.fingerprint


def change_header(folder: Path, **changes: object) -> None:
    header = json.loads((folder / "graph.json").read_text())
    (folder / "graph.json").write_text(json.dumps({**header, **changes}))


def make_old(folder: Path, **changes: object) -> None:
    """Makes a folder as earlier versions wrote it, without checksums."""
    change_header(folder, **changes)
    header = json.loads((folder / "graph.json").read_text())
    (folder / "graph.json").write_text(json.dumps({key: value for key, value in header.items() if not key.startswith("checksum")}))
