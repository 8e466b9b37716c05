"""Named graphs as qualifiers."""

from pathlib import Path

import pytest

from starqe.kg import Names, Statement, export_graph, import_graph

TRIG = """
@prefix : <http://e.org/> .
:a :r :b .
:g1 { :a :r :c . :d :r :e {| :since :y1990 |} . }
:g2 { :a :r :c . }
<http://e.org/test> { :t :r :u . }
[] { :x :r :y . }
"""
NAMES = Names("http://e.org/", "http://e.org/")


def read(path: Path, text: str, relation: str | None = "source"):
    path.write_text(text)
    return import_graph(path, names=NAMES, graph_qualifier=relation)


def test_statements_tell_their_named_graphs(tmp_path):
    graph, report = read(tmp_path / "g.trig", TRIG)
    found = set(graph.statements("train"))
    blank = {one for one in found if one.head == "x"}
    assert found - blank == {
        Statement("a", "r", "b"),
        Statement("a", "r", "c", (("source", "g1"),)),
        Statement("a", "r", "c", (("source", "g2"),)),
        Statement("d", "r", "e", (("since", "y1990"), ("source", "g1"))),
    }
    assert [one.qualifiers[0][0] for one in blank] == ["source"]
    assert set(graph.statements("test")) == {Statement("t", "r", "u")}, "a split is no source"
    assert report.in_several_graphs == 0


def test_without_the_option_graphs_are_merged(tmp_path):
    graph, report = read(tmp_path / "g.trig", TRIG, None)
    assert Statement("a", "r", "c") in set(graph.statements("train"))
    assert "source" not in graph.relations
    assert report.in_several_graphs == 1


@pytest.mark.parametrize("name", ["out.nq", "out.trig", "out.reified.nq"])
def test_the_graph_comes_back_from_an_export(tmp_path, name):
    graph, _ = read(tmp_path / "g.trig", TRIG)
    export_graph(graph, tmp_path / name)
    assert import_graph(tmp_path / name, names=NAMES)[0].fingerprint == graph.fingerprint


def test_standard_reification_in_a_named_graph_has_that_graph_as_a_qualifier(tmp_path):
    rdf = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
    roles = {"subject": "a", "predicate": "r", "object": "b"}
    lines = [f"_:s <{rdf}{role}> <http://e.org/{value}> <http://e.org/g> ." for role, value in roles.items()]
    graph, _ = read(tmp_path / "g.nq", "\n".join([*lines, "<http://e.org/a> <http://e.org/r> <http://e.org/b> ."]))
    assert set(graph.statements("train")) == {Statement("a", "r", "b", (("source", "g"),))}


def test_the_command_has_the_option(tmp_path):
    from starqe.cli.import_choices import ImportChoices

    (tmp_path / "g.nq").write_text("<http://e.org/a> <http://e.org/r> <http://e.org/b> <http://e.org/g> .")
    graph, _ = ImportChoices(graph_qualifier="http://e.org/in").read(tmp_path / "g.nq")
    assert set(graph.statements("train")) == {
        Statement("http://e.org/a", "http://e.org/r", "http://e.org/b", (("http://e.org/in", "http://e.org/g"),))
    }
