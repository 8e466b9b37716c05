import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from starqe.errors import StorageError
from starqe.kg import Statement, graph_of
from starqe.queries.query_set import check_tables
from starqe.queries.shape import SHAPES
from starqe.queries.table import METADATA, column_names, load_table, save_table, table_writer
from tests.columns import query_table

# Three 2p queries. Pairs by (query, edge): (7 70) | – ; – | (8 80)(9 90) ; (6 60) | –
TABLE = query_table(
    SHAPES["2p"],
    np.array([[10], [11], [12]], np.int32),
    np.array([[0, 1], [2, 3], [4, 5]], np.int32),
    np.array([0, 1, 1, 1, 3, 4, 4]),
    np.array([7, 8, 9, 6], np.int32),
    np.array([70, 80, 90, 60], np.int32),
    np.array([0, 2, 2, 3]),
    np.array([20, 21, 22], np.int32),
    {"split": "test"},
)


def content(table):
    edges = range(len(table.shape.edges))
    return [
        (
            table.anchors[row].tolist(),
            table.relations[row].tolist(),
            [table.pairs_of(row, edge) for edge in edges],
            table.answers[row].tolist(),
        )
        for row in range(len(table))
    ]


ROWS = [
    ([10], [0, 1], [[(7, 70)], []], [20, 21]),
    ([11], [2, 3], [[], [(8, 80), (9, 90)]], []),
    ([12], [4, 5], [[(6, 60)], []], [22]),
]


def test_pairs_and_answers_are_at_their_offsets():
    assert content(TABLE) == ROWS


def test_take_gives_rows_in_any_order_and_more_than_once():
    assert content(TABLE.take([2, 0, 2])) == [ROWS[2], ROWS[0], ROWS[2]]
    assert content(TABLE.take([])) == []


def test_a_table_comes_back_from_disk_whole_or_in_part(tmp_path):
    path = tmp_path / "2p.parquet"
    save_table(TABLE, path)
    for limit, rows in ((None, ROWS), (2, ROWS[:2]), (9, ROWS), (0, [])):
        back = load_table(path, limit)
        assert content(back) == rows
        assert (back.shape, back.header) == (TABLE.shape, {"split": "test"})
        assert {column.dtype for column in (back.anchors, back.relations, back.answers.items)} == {np.dtype(np.int32)}
    assert [file.name for file in tmp_path.iterdir()] == ["2p.parquet"]


def test_a_table_in_several_row_groups_comes_back_whole_or_in_part(tmp_path, monkeypatch):
    monkeypatch.setattr("starqe.queries.table.FIRST_GROUP", 2)
    monkeypatch.setattr("starqe.queries.table.ROW_GROUP", 4)
    order = [0, 1, 2, 2, 1, 0, 1, 0, 2, 1, 2]
    save_table(TABLE.take(order), tmp_path / "2p.parquet")
    file = pq.ParquetFile(tmp_path / "2p.parquet")
    assert [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)] == [2, 2, 4, 3]  # worked out by hand
    for limit in (None, *range(13)):
        assert content(load_table(tmp_path / "2p.parquet", limit)) == [ROWS[row] for row in order[:limit]]


def test_an_empty_table_comes_back_too(tmp_path):
    save_table(TABLE.take([]), tmp_path / "2p.parquet")
    assert len(load_table(tmp_path / "2p.parquet")) == 0


def test_other_programs_read_plain_columns(tmp_path):
    save_table(TABLE, tmp_path / "2p.parquet")
    table = pq.read_table(tmp_path / "2p.parquet")
    assert table.column_names == column_names(SHAPES["2p"])
    assert table["qualifier_values_1"].to_pylist() == [[], [80, 90], []]


def test_what_is_not_a_query_table_is_refused(tmp_path):
    path = tmp_path / "x.parquet"
    with pytest.raises(StorageError, match="cannot read the query table"):
        load_table(path)
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(StorageError, match="cannot read the query table"):
        load_table(path)
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(StorageError, match="not a query table of starqe"):
        load_table(path)
    header = json.dumps({"format": "starqe queries", "version": 99, "shape": "1p", "edges": "A>?"})
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({METADATA: header}), path)
    with pytest.raises(StorageError, match="newer starqe"):
        load_table(path)
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({METADATA: json.dumps({"format": "starqe queries", "version": 1})}), path)
    with pytest.raises(StorageError, match=r"cannot read the query table \('shape'\)"):
        load_table(path)


def test_a_table_with_a_missing_column_or_another_type_is_refused(tmp_path):
    path = tmp_path / "2p.parquet"
    save_table(TABLE, path)
    arrow = pq.read_table(path)
    pq.write_table(arrow.drop_columns(["relation_1"]), path)
    with pytest.raises(StorageError, match=rf"^{path}: damaged \(it has a column 'relation_1' of int32, found none\)\. Delete it"):
        load_table(path)
    at = arrow.column_names.index("relation_1")
    pq.write_table(arrow.set_column(at, "relation_1", arrow["relation_1"].cast(pa.string())), path)
    with pytest.raises(StorageError, match="a column 'relation_1' of int32, found a column of string"):
        load_table(path)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("relation_0", pa.array([0, -2, 4], pa.int32()), "ids begin at 0, found a negative one"),
        ("relation_0", pa.array([0, None, 4], pa.int32()), "a value of 'relation_0' is missing"),
        ("qualifier_values_0", pa.array([[1, 2], [], [3]], pa.list_(pa.int32())), "edge 0 has qualifier relations without values"),
    ],
)
def test_a_table_of_an_earlier_version_with_impossible_values_is_refused(tmp_path, column, values, message):
    path = tmp_path / "2p.parquet"
    save_table(TABLE, path)
    arrow = pq.read_table(path)
    metadata = {METADATA: arrow.schema.metadata[METADATA]}
    changed = arrow.set_column(arrow.column_names.index(column), column, values).replace_schema_metadata(metadata)
    pq.write_table(changed, path)
    with pytest.raises(StorageError, match=f"damaged \\({message}"):
        load_table(path)


def test_ids_that_the_graph_does_not_have_are_refused(tmp_path):
    graph = graph_of([Statement("a", "r", "b")])
    with pytest.raises(StorageError, match=r"the 2p queries: damaged \(ids are from 0 to 1, found 10 to 12\)"):
        check_tables(graph, [TABLE])


def test_two_commands_may_write_into_one_folder_at_once(tmp_path):
    path = tmp_path / "2p.parquet"
    with table_writer(path, TABLE.shape, {}) as write:
        save_table(TABLE, path)
        assert content(load_table(path)) == ROWS
        write(pq.read_table(path).slice(0, 1))
    assert content(load_table(path)) == ROWS[:1]
