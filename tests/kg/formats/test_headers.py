import time
from pathlib import Path

import pytest

from starqe.errors import InputError
from starqe.kg import Graph, Report, Statement, import_graph

FACTS = [("Ada", "worksFor", "Acme"), ("Bob", "worksFor", "Initech"), ("Ada", "knows", "Bob")]


def read(tmp_path: Path, header: str, rows=FACTS, name: str = "file.csv") -> tuple[Graph, Report]:
    separator = "\t" if "\t" in header else ","
    (tmp_path / name).write_text("".join(line + "\n" for line in [header, *(separator.join(row) for row in rows)]))
    return import_graph(tmp_path / name, "statements")  # some of the headers would be recognised as other forms


@pytest.mark.parametrize(
    "header",
    [
        "head,relation,tail",
        "Subject,Predicate,Object,qualifier,value",
        '"source"\tproperty\ttarget',
        '"source","type","target"',
        "source,type,target",
        "node1\tlabel\tnode2",
        ":START_ID,:TYPE,:END_ID",
        "person:START_ID(Person),:TYPE,:END_ID(Company)",
        "~from,~label,~to",
        "Person,Relation,Organisation",
        "name:string,kind:string,employer:string",
        "From Node,Edge Type,To Node",
        "s,p,o",
        "\n\n  h,r,t",
    ],
)
def test_a_header_is_left_out_with_a_word(tmp_path, header):
    graph, report = read(tmp_path, header)
    assert set(graph.statements("train")) == {Statement(*fact) for fact in FACTS}
    (note,) = report.notes
    assert note.startswith(f"{tmp_path}/file.csv:{header.count(chr(10)) + 1} is a header, not a statement (")
    assert report.skipped == 0


def test_names_that_occur_nowhere_else_are_a_header_where_relations_repeat(tmp_path):
    many = [(f"person {number}", ("likes", "knows")[number % 2], f"person {number + 1}") for number in range(12)]
    graph, report = read(tmp_path, "Lover,Feeling,Beloved", many)
    assert len(graph) == 12
    assert report.notes == [
        f"{tmp_path}/file.csv:1 is a header, not a statement (Lover,Feeling,Beloved): none of its names occurs on another line. "
        "If it is a statement, move it to another line"
    ]


@pytest.mark.parametrize(
    ("first", "rows"),
    [
        ("Ada,type,Person", FACTS),  # "type" alone is a relation
        ("Ada,rdf:type,xsd:string", [*FACTS, ("Bob", "rdf:type", "xsd:string")]),
        ("Eve,likes,Music", FACTS),  # too few lines to tell
        ("Q1,P5,Q2", [(f"Q{number}", "P6", f"Q{number + 1}") for number in range(10, 30)]),  # names with digits are identifiers
        ("Eve,likes,Music", [(f"a{number}", f"r{number}", "b") for number in range(20)]),  # no relation repeats
        ("Eve,knows,Music", [(f"a{number}", "knows", "b") for number in range(20)]),
        ("s,p,o", [("s", "p", "x"), ("x", "p", "o")]),
    ],
)
def test_a_first_statement_is_not_a_header(tmp_path, first, rows):
    graph, report = read(tmp_path, first, rows)
    assert len(graph) == len(rows) + 1
    assert report.notes == []


def test_a_header_of_one_line_is_a_statement(tmp_path):
    (tmp_path / "file.csv").write_text("Person,Relation,Organisation\n")
    assert len(import_graph(tmp_path / "file.csv")[0]) == 1


@pytest.mark.parametrize(
    ("header", "row", "message"),
    [
        (
            "relation,head,tail",
            "r,a,b",
            "found head in column 2, relation in column 1, tail in column 3. Name the columns",
        ),
        ("id\tnode1\tlabel\tnode2", "1\ta\tr\tb", "found head in column 2, relation in column 3, tail in column 4. Name the columns"),
        ("~id,~from,~to,~label,dist:int", "1,a,b,r,8", "found head in column 2, relation in column 4, tail in column 3"),
        (":START_ID,since:int,:END_ID,:TYPE", "a,1990,b,r", "found head in column 1, relation in column 4, tail in column 3"),
        ("source,target,type", "a,b,r", "found head in column 1, relation in column 3, tail in column 2"),
        (
            "source,type,target,since,until",
            "a,r,b,1990,2000",
            "the columns after the third are pairs of a qualifier relation and its value, found a column 'since'",
        ),
    ],
)
def test_columns_that_a_statement_does_not_have_are_refused(tmp_path, header, row, message):
    for on_error in ("stop", "skip"):
        (tmp_path / "file.csv").write_text(f"{header}\n{row}\n{row}\n")
        with pytest.raises(InputError) as caught:
            import_graph(tmp_path / "file.csv", "statements", on_error=on_error)  # some headers are those of other forms
        assert str(caught.value).startswith(f"{tmp_path}/file.csv:1: the columns ")
        assert message in str(caught.value)


def test_the_files_of_a_folder_share_their_header(tmp_path):
    many = [(f"person {number}", "likes", f"person {number + 1}") for number in range(12)]
    read(tmp_path, "Lover,Feeling,Beloved", many, "train.csv")
    (tmp_path / "test.csv").write_text("Lover,Feeling,Beloved\nperson 1,likes,person 5\n")
    graph, report = import_graph(tmp_path)
    assert (len(graph), len(report.notes)) == (13, 2)


def test_a_first_line_of_many_brackets_is_read_at_once(tmp_path):
    began = time.process_time()
    graph, _ = read(tmp_path, "Ada," + "<<( " * 50_000 + ",Bob")
    assert len(graph) == 1 + len(FACTS)
    assert time.process_time() - began < 2  # by a regular expression it took more than four
