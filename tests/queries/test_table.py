import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from starqe.errors import StorageError
from starqe.queries.shape import SHAPES
from starqe.queries.table import METADATA, QueryTable, column_names, load_table, ragged_take, save_table

# Three 2p queries. Pairs by (query, edge): (7 70) | – ; – | (8 80)(9 90) ; (6 60) | –
TABLE = QueryTable(
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
            table.answers_of(row).tolist(),
        )
        for row in range(len(table))
    ]


ROWS = [
    ([10], [0, 1], [[(7, 70)], []], [20, 21]),
    ([11], [2, 3], [[], [(8, 80), (9, 90)]], []),
    ([12], [4, 5], [[(6, 60)], []], [22]),
]


def test_pairs_and_answers_stand_at_their_offsets():
    assert content(TABLE) == ROWS


def test_take_gives_rows_in_any_order_and_more_than_once():
    assert content(TABLE.take([2, 0, 2])) == [ROWS[2], ROWS[0], ROWS[2]]
    assert content(TABLE.take([])) == []


def test_ragged_take_lays_the_chosen_cells_end_to_end():
    offsets, items = ragged_take(np.array([0, 2, 2, 5]), np.array([2, 1, 0]))
    assert (offsets.tolist(), items.tolist()) == ([0, 3, 3, 5], [2, 3, 4, 0, 1])


def test_a_table_comes_back_from_disk_whole_or_in_part(tmp_path):
    path = tmp_path / "2p.parquet"
    save_table(TABLE, path)
    for limit, rows in ((None, ROWS), (2, ROWS[:2]), (9, ROWS), (0, [])):
        back = load_table(path, limit)
        assert content(back) == rows
        assert (back.shape, back.header) == (TABLE.shape, {"split": "test"})
        assert [getattr(back, name).dtype for name in ("anchors", "relations", "answers")] == [np.int32] * 3
    assert [file.name for file in tmp_path.iterdir()] == ["2p.parquet"]


def test_an_empty_table_comes_back_too(tmp_path):
    save_table(TABLE.take([]), tmp_path / "2p.parquet")
    assert len(load_table(tmp_path / "2p.parquet")) == 0


def test_other_programs_read_plain_columns(tmp_path):
    save_table(TABLE, tmp_path / "2p.parquet")
    table = pq.read_table(tmp_path / "2p.parquet")
    assert table.column_names == column_names(SHAPES["2p"])
    assert table["qualifier_values_1"].to_pylist() == [[], [80, 90], []]


def test_what_is_no_query_table_is_refused(tmp_path):
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
