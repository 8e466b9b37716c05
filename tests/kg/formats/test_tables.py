import json
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starqe.errors import InputError
from starqe.kg import Statement, export_graph, graph_of_table
from starqe.kg import import_graph as import_with_literals
from starqe.kg import literal as types
from starqe.kg.formats import tables
from starqe.kg.formats.tables import read_table
from starqe.kg.literal import Literal
from starqe.kg.reading.import_options import Columns
from starqe.kg.reading.import_task import ImportTask
from tests.kg.strategies import graphs

import_graph = partial(import_with_literals, literals="drop")  # tests/kg/test_literals.py has what is kept


COLUMNS = Columns("subject", "predicate", "object", ("since", "until"))
ROWS = [
    {"no": 1, "object": "Ulm", "subject": "Ann", "predicate": "lives in", "since": "y1990", "until": None},
    {"no": 2, "object": "Rome, Italy", "subject": "Bob", "predicate": "lives in", "since": "y1990", "until": "y2000"},
]
EXPECTED = {
    Statement("Ann", "lives in", "Ulm", (("since", "y1990"),)),
    Statement("Bob", "lives in", "Rome, Italy", (("since", "y1990"), ("until", "y2000"))),
}


def write(path, separator=","):
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    else:
        pd.DataFrame(ROWS).to_csv(path, sep=separator, index=False)
    return path


@pytest.mark.parametrize(("name", "separator"), [("a.csv", ","), ("a.tsv", "\t"), ("a.csv", ";"), ("a.parquet", ""), ("a.jsonl", "")])
def test_the_named_columns_make_the_statements(tmp_path, name, separator):
    graph, report = import_graph(write(tmp_path / name, separator), columns=COLUMNS)
    assert set(graph.statements("train")) == EXPECTED
    assert report.skipped == 0


@pytest.mark.parametrize("make", [pa.Table.from_pylist, pd.DataFrame, pl.DataFrame, lambda rows: pa.RecordBatch.from_pylist(rows)])
def test_tables_of_python_make_a_graph(make):
    graph = graph_of_table(make(ROWS), head="subject", relation="predicate", tail="object", qualifiers=["since", "until"])
    assert set(graph.statements("train")) == EXPECTED


cells = st.none() | st.sampled_from(["", " ", "a", " b", "c ", "d,e", "ü", "12"])


@given(st.lists(st.tuples(*[cells] * 5), min_size=1, max_size=8), st.booleans())
def test_columns_of_texts_make_the_statements_that_their_rows_make(rows, coded):
    table = pa.Table.from_pylist(
        [dict(zip("hrtxy", row, strict=True)) for row in rows], pa.schema([(name, pa.string()) for name in "hrtxy"])
    )
    by_rows, by_columns, columns = ImportTask(), ImportTask(), Columns("h", "r", "t", ("x", "y"))
    for task in (by_rows, by_columns):
        task.report.on_error = "skip"
    cells_of = [(f"the table, row {number}", cells) for number, cells in enumerate(table.to_pylist(), 1)]
    tables._add(cells_of, by_rows, "train", columns)
    typed = table.set_column(0, "h", table["h"].dictionary_encode()) if coded else table
    tables._add_batches(typed.to_batches(3), "the table", by_columns, "train", columns)
    for task in (by_rows, by_columns):
        task.finish()
    assert by_columns.report.as_dict() == by_rows.report.as_dict()
    assert len(by_columns.draft) == len(by_rows.draft)
    if len(by_rows.draft):
        assert by_columns.draft.finish().fingerprint == by_rows.draft.finish().fingerprint


def test_a_table_of_polars_keeps_its_types():
    table = pl.DataFrame(
        {"who": ["a"], "does": ["born"], "when": [date(1867, 11, 7)], "in": [["w", "x"]], "share": [0.25]},
        schema_overrides={"does": pl.Categorical},
    )
    (statement,) = graph_of_table(table, "who", "does", "when", ["in", "share"]).statements("train")
    assert statement == Statement(
        "a", "born", Literal("1867-11-07", types.DATE), (("in", "w"), ("in", "x"), ("share", Literal("0.25", types.DOUBLE)))
    )


def rows_of(path, columns):
    rows = []

    class Task(ImportTask):
        def add(self, more, split):
            rows.extend(more)

    read_table(Task(columns=columns), path, "train")
    return rows


def test_values_of_typed_tables_are_literals_and_texts_entities(tmp_path):
    table = pa.table(
        {
            "h": ["a"] * 7,
            "r": ["r"] * 7,
            "t": ["b"] * 7,
            "i": pa.array([1, None, None, None, None, None, None]),
            "f": pa.array([None, 0.5, None, None, None, None, None]),
            "d": pa.array([None, None, date(1990, 1, 2), None, None, None, None]),
            "m": pa.array([None, None, None, datetime(1990, 1, 2, tzinfo=UTC), None, None, None]),
            "b": pa.array([None, None, None, None, True, None, None]),
            "n": pa.array([None, None, None, None, None, Decimal("1.50"), None]),
            "l": pa.array([None, None, None, None, None, None, ["x", "y"]]),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    rows = rows_of(tmp_path / "a.parquet", Columns("h", "r", "t", tuple("ifdmbnl")))
    assert [row[3:] for row in rows] == [
        ["i", Literal("1", types.INTEGER)],
        ["f", Literal("0.5", types.DOUBLE)],
        ["d", Literal("1990-01-02", types.DATE)],
        ["m", Literal("1990-01-02T00:00:00Z", types.DATE_TIME)],
        ["b", Literal("true", types.BOOLEAN)],
        ["n", Literal("1.50", types.DECIMAL)],
        ["l", "x", "l", "y"],
    ]


def test_whole_numbers_are_identifiers_where_heads_are(tmp_path):
    pq.write_table(pa.table({"h": [1], "r": ["r"], "t": [2]}), tmp_path / "a.parquet")
    assert rows_of(tmp_path / "a.parquet", Columns("h", "r", "t")) == [["1", "r", "2"]]
    pq.write_table(pa.table({"h": ["a"], "r": ["r"], "t": [2]}), tmp_path / "a.parquet")
    assert rows_of(tmp_path / "a.parquet", Columns("h", "r", "t")) == [["a", "r", Literal("2", types.INTEGER)]]


def test_a_column_of_text_may_be_named_with_a_type(tmp_path):
    (tmp_path / "a.csv").write_text("h,r,t,since,height\na,r,b,1990-01-02,1.50\n")
    rows = rows_of(tmp_path / "a.csv", Columns("h", "r", "t", ("since:date", "height:decimal")))
    assert rows == [["a", "r", "b", "since", Literal("1990-01-02", types.DATE), "height", Literal("1.50", types.DECIMAL)]]


def test_a_missing_column_and_missing_names_are_refused(tmp_path):
    path = write(tmp_path / "a.csv")
    with pytest.raises(InputError, match=r"a.csv:1: there is no column 'from', found no, object, subject, predicate, since, until"):
        import_graph(path, columns=Columns("from", "predicate", "object"))
    with pytest.raises(InputError, match=r"a.csv: a table needs the names of its columns. Name those of head, relation and tail"):
        import_graph(path, "table")
    with pytest.raises(InputError, match="the table: there is no column 'x'"):
        graph_of_table(pd.DataFrame(ROWS), "x", "predicate", "object")


@pytest.mark.parametrize(
    ("name", "text", "place", "message"),
    [
        ("a.csv", "h,r,t\na,r,b\na,,b\n", "a.csv:3", "an identifier is one line of text, found '' in the column 'r': it is empty"),
        ("a.csv", "h,r,t\na,r,b\na,r\n", "a.csv:3", r"a row has as many fields as the header \(3\), found 2"),
        ("a.csv", "h,r,t\na,r,b\na,r,\n", "a.csv:3", "a statement has one tail, found 0 in the column 't'"),
        ("a.jsonl", '{"h":"a","r":"r","t":"b"}\n{"h":"a"}\n', r"a.jsonl:2 \(byte 26\)", "a statement has one tail, found 0"),
        ("a.jsonl", '{"h":"a","r":"r","t":"b"}\n[1]\n', r"a.jsonl:2 \(byte 26\)", r"a record is an object, found \[1\]"),
    ],
)
def test_a_malformed_row_is_refused_with_its_place_or_skipped(tmp_path, name, text, place, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=f"{place}: {message}"):
        import_graph(tmp_path / name, columns=Columns("h", "r", "t"))
    graph, report = import_graph(tmp_path / name, columns=Columns("h", "r", "t"), on_error="skip")
    assert (len(graph), report.skipped) == (1, 1)


def test_a_damaged_parquet_file_is_refused(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(InputError, match=r"a.parquet: the Parquet file is damaged"):
        import_graph(tmp_path / "a.parquet", columns=COLUMNS)


def test_json_lines_may_have_literals_and_errors_name_their_place(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"head":"a","relation":"r","tail":"b","qualifiers":{"n":3,"q":["x","y"]}}\n')
    graph, report = import_graph(path)
    assert list(graph.statements("train")) == [Statement("a", "r", "b", (("q", "x"), ("q", "y")))]
    assert report.left_out == {"xsd:integer": {"n": 1}}
    path.write_text('{"head":"a","relation":"r","tail":"b","split":"dev"}\n')
    with pytest.raises(InputError, match=r"a.jsonl:1 \(byte 0\): a split is one of train, valid, test, found 'dev'"):
        import_graph(path)


@given(graph=graphs())
def test_json_lines_written_and_read_again_give_the_same_graph_and_labels(tmp_path_factory, graph):
    path = tmp_path_factory.mktemp("jsonl") / "out.jsonl"
    export_graph(graph, path)
    again, report = import_graph(path)
    assert again.fingerprint == graph.fingerprint
    assert (again.entities.labels, again.relations.labels) == (graph.entities.labels, graph.relations.labels)
    assert report.skipped == 0


@pytest.mark.parametrize("form", ["table", "neo4j"])
@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"head,relation,\xd9,:START_ID,:END_ID", "text is UTF-8, found the byte 0xd9"),
        (b"head," + b"x" * 200_000, r"1: not valid CSV \(field larger"),
    ],
)
def test_a_header_that_cannot_be_read_is_refused_like_a_row(tmp_path, form, header, message):
    (tmp_path / "a.csv").write_bytes(header + b"\n")
    with pytest.raises(InputError, match=message):
        import_graph(tmp_path / "a.csv", form, columns=Columns("head", "relation", "tail") if form == "table" else None)
