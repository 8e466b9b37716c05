"""RDF-star from before RDF 1.2: a quoted triple is one term."""

import pytest

from starqe.errors import InputError
from starqe.kg import Statement, import_graph
from starqe.kg.literal import INTEGER, Literal

A, KNOWS, B, SINCE, WHERE, C, D = (f"http://e/{name}" for name in ("a", "knows", "b", "since", "where", "c", "d"))
IRI = "<http://e/{}>".format
TRIPLE = f"{IRI('a')} {IRI('knows')} {IRI('b')}"
NUMBER = '"1990"^^<http://www.w3.org/2001/XMLSchema#integer>'
ANNOTATED = {Statement(A, KNOWS, B, ((SINCE, Literal("1990", INTEGER)), (WHERE, C)))}

PREFIX = "@prefix : <http://e/> .\n"
DOCUMENTS = {
    "facts.nt": f"{TRIPLE} .\n<< {TRIPLE} >> {IRI('since')} {NUMBER} .\n<<{TRIPLE}>> {IRI('where')} {IRI('c')} . # by hand\r\n",
    "facts.nq": f"{TRIPLE} {IRI('g')} .\n<< {TRIPLE} >> {IRI('since')} {NUMBER} {IRI('g')} .\n<< {TRIPLE} >> {IRI('where')} {IRI('c')} .\n",
    "facts.ttls": f"{PREFIX}:a :knows :b .\n<< :a :knows :b >> :since 1990 .\n<< :a :knows :b >> :where :c .\n",
    "more.ttls": f"{PREFIX}:a :knows :b {{| :since 1990 |}} .\n:a :knows :b {{| :where :c |}} .\n",
    "facts.trigs": f"{PREFIX}:g {{ :a :knows :b . << :a :knows :b >> :since 1990 . }}\n<< :a :knows :b >> :where :c .\n",
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_all_that_is_said_about_a_triple_is_one_statement(tmp_path, name):
    (tmp_path / name).write_text(DOCUMENTS[name], newline="")
    graph, _ = import_graph(tmp_path / name)
    assert set(graph.statements("train")) == ANNOTATED


def test_in_rdf_1_2_each_annotation_is_a_statement(tmp_path):
    (tmp_path / "facts.ttl").write_text(DOCUMENTS["facts.ttls"])
    graph, _ = import_graph(tmp_path / "facts.ttl")
    assert set(graph.statements("train")) == {Statement(A, KNOWS, B, (pair,)) for pair in ((SINCE, Literal("1990", INTEGER)), (WHERE, C))}


@pytest.mark.parametrize("name", ["facts.nt", "facts.nq", "facts.ttls", "facts.trigs"])
def test_a_triple_that_is_only_quoted_is_not_asserted(tmp_path, name):
    (tmp_path / name).write_text(f"{IRI('c')} {IRI('knows')} {IRI('d')} .\n<< {TRIPLE} >> {IRI('where')} {IRI('c')} .\n")
    graph, report = import_graph(tmp_path / name)
    assert (set(graph.statements("train")), report.unasserted) == ({Statement(C, KNOWS, D)}, 1)
    kept, _ = import_graph(tmp_path / name, unasserted="keep")
    assert set(kept.statements("train")) == {Statement(C, KNOWS, D), Statement(A, KNOWS, B, ((WHERE, C),))}


@pytest.mark.parametrize("name", ["facts.nt", "facts.nq", "facts.ttls", "facts.trigs"])
def test_a_quoted_triple_as_a_value_is_left_out_and_counted(tmp_path, name):
    quoted = f"<< {TRIPLE} >>"
    (tmp_path / name).write_text(
        f"{TRIPLE} .\n{IRI('d')} {IRI('says')} {quoted} .\n{quoted} {IRI('where')} {IRI('c')} .\n"
        f"<< {quoted} {IRI('where')} {IRI('c')} >> {IRI('since')} {NUMBER} .\n{quoted} {IRI('asIn')} {quoted} .\n"
    )
    graph, report = import_graph(tmp_path / name)
    assert set(graph.statements("train")) == {Statement(A, KNOWS, B, ((WHERE, C),))}
    assert report.left_out == {"triple term": {"http://e/says": 1, "http://e/asIn": 1}}


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("facts.nt", f"<< {TRIPLE} > {IRI('since')} {NUMBER} ."),
        ("facts.nt", f"<< {TRIPLE} >> {IRI('since')} ."),
        ("facts.nt", f"<< {TRIPLE} >> {IRI('where')} {IRI('c')} {IRI('g')} ."),
        ("facts.nt", f"<< {IRI('a')} {IRI('b')} >> {IRI('where')} {IRI('c')} ."),
        ("facts.nt", f"<< {TRIPLE} >> {IRI('where')} 1990 ."),
        ("facts.nq", f"<< {TRIPLE} >> << {TRIPLE} >> {IRI('c')} ."),
        ("facts.nq", f"<< {TRIPLE} >> {IRI('where')} {IRI('c')} {IRI('g')} {IRI('h')} ."),
    ],
)
def test_a_malformed_line_is_named_and_costs_no_other(tmp_path, name, line):
    (tmp_path / name).write_text(f"{DOCUMENTS['facts.nt']}{line}\n")
    with pytest.raises(InputError, match=rf"{name}:4: "):
        import_graph(tmp_path / name)
    graph, report = import_graph(tmp_path / name, on_error="skip")
    assert (set(graph.statements("train")), report.skipped) == (ANNOTATED, 1)
