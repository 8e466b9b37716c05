import csv
from collections import Counter
from functools import partial

import pytest
from hypothesis import given

from starqe.errors import InputError
from starqe.kg import Statement, export_graph
from starqe.kg import import_graph as import_with_literals
from starqe.kg import literal as types
from starqe.kg.formats.kgtk import read_kgtk, value_of
from starqe.kg.literal import Literal
from starqe.kg.reading.import_options import WikidataOptions
from starqe.kg.reading.import_task import ImportTask
from tests.kg.strategies import graphs
from tests.places import DATA

import_graph = partial(import_with_literals, literals="drop")  # tests/kg/test_literals.py has what is kept


SAMPLE = DATA / "formats" / "kgtk" / "wikidata_sample.tsv"

EDGES = """id\tnode1\tlabel\tnode2\trank\tnode1;label\tnode2;description\tsource
e1\tQ937\tP166\tQ38104\tnormal\t'Einstein'@en\t'a prize'@en\tQ1|Q2
e1-q1\te1\tP585\t^1921-00-00T00:00:00Z/9\t\t\t\t
e1-q2\te1\tP1411\tQ7\t\t\t\t
e1-q3\te1-q2\tP3\tQ7\t\t\t\t
e2\tQ937\tP166\tQ99\tdeprecated\t\t\t
\tQ937\tP2048\t+1.75[+1.7,+1.8]Q11573\t\t\t\t
l1\tP166\tlabel\t'award \\'received\\''@en\t\t\t\t
l2\tQ38104\tlabel\t'Nobelpris'@sv\t\t\t\t
"""


def test_edges_about_edges_are_qualifiers_and_further_columns_too(tmp_path):
    (tmp_path / "edges.tsv").write_text(EDGES, encoding="utf-8")
    graph, report = import_graph(tmp_path / "edges.tsv")
    pairs = (("P1411", "Q7"), ("source", "Q1"), ("source", "Q2"))
    assert list(graph.statements("train")) == [Statement("Q937", "P166", "Q38104", pairs)]
    assert report.left_out == {
        "rank deprecated": {"P166": 1},
        "qualifier of a qualifier": {"P3": 1},
        "xsd:dateTime": {"P585": 1},
        "xsd:decimal": {"P2048": 1},
    }
    assert graph.entities.label(graph.entities.id("Q937")) == "Einstein"
    assert graph.entities.labels["sv"] == {graph.entities.id("Q38104"): "Nobelpris"}  # there is none in English
    assert graph.relations.label(graph.relations.id("P166")) == "award 'received'"
    assert report.forms == {"kgtk": 1}
    graph, _ = import_graph(tmp_path / "edges.tsv", wikidata=WikidataOptions(ranks=("deprecated",)))
    assert [one.tail for one in graph.statements("train")] == ["Q99"]


def test_qualifiers_may_be_in_another_file_and_before_their_edges(tmp_path):
    (tmp_path / "a.tsv").write_text("id\tnode1\tlabel\tnode2\nq1\te1\tP1\tQ3\n")
    (tmp_path / "b.tsv").write_text("node1\tid\tnode2\tlabel\nQ1\te1\tQ2\tP2\n")
    expected = [Statement("Q1", "P2", "Q2", (("P1", "Q3"),))]
    assert list(import_graph(tmp_path)[0].statements("train")) == expected
    assert list(import_graph([tmp_path / "b.tsv", tmp_path / "a.tsv"])[0].statements("train")) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Q5", "Q5"),
        ('"a \\"b\\"\\n|"', Literal('a "b"\n|')),
        ("'it''s'@pt-br", Literal("it''s", types.LANGUAGE_STRING, "pt-br")),
        ("^1952-03-11T00:00:00Z/11", Literal("1952-03-11T00:00:00Z", types.DATE_TIME, precision=11)),
        ("^-0044-03", Literal("-0044-03", types.DATE_TIME)),
        ("@50.9/-1.8", Literal("Point(-1.8 50.9)", types.WKT)),
        ("17", Literal("17", types.INTEGER)),
        ("-1.5", Literal("-1.5", types.DECIMAL)),
        ("2.5e-09", Literal("2.5e-09", types.DOUBLE)),
        ("+5[+4,+6]Q11573", Literal("+5", types.INTEGER, unit="Q11573", lower="+4", upper="+6")),
        ("True", Literal("true", types.BOOLEAN)),
        ("%31990", "1990"),
    ],
)
def test_values_are_recognised_by_their_first_character(text, value):
    assert value_of(text) == value


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("e\ta\tr", r"a line has as many fields as the header \(4\), found 3"),
        ("e\ta\tr\t", "a symbol is one line of text without space around it, found '': it is empty"),
        ("e\ta\tr\t^then", "a value that begins with \\^ has the form of its type, found '\\^then'"),
        ("e\ta\tr\t'half", "a value that begins with ' has the form of its type"),
    ],
)
def test_a_malformed_line_is_refused_with_its_place_or_skipped(tmp_path, line, message):
    path = tmp_path / "edges.tsv"
    path.write_text(f"id\tnode1\tlabel\tnode2\ng\ta\tr\tb\n{line}\n")
    with pytest.raises(InputError, match=f"edges.tsv:3: {message}"):
        import_graph(path)
    graph, report = import_graph(path, on_error="skip")
    assert (len(graph), report.skipped) == (1, 1)


def test_columns_that_are_not_an_edge_are_refused(tmp_path):
    (tmp_path / "a.tsv").write_text("id\tnode1\tlabel\n")
    with pytest.raises(InputError, match="has the columns node1, label and node2, found none for node2"):
        import_graph(tmp_path / "a.tsv", "kgtk")


@pytest.mark.skipif(not SAMPLE.exists(), reason="needs the real file")
def test_a_real_file_is_read_to_the_last_edge():
    with SAMPLE.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows, labels = [], []

    class Task(ImportTask):
        def add(self, more, split):
            rows.extend(more)

    task = Task()
    task.draft.label = lambda *label: labels.append(label)
    read_kgtk(task, SAMPLE, "train")
    task.finish()
    assert len(lines) == 9993
    assert Counter(row[1] for row in rows) == Counter(line["label"] for line in lines if line["label"] != "label")
    assert all(isinstance(row[2], Literal) for row in rows)
    english = {line["node1"] for line in lines if line["label"] == "label" and line["node2"].endswith("@en")}
    named = {line["node1"] for line in lines if line["label"] == "label"}
    assert {node for node, _, language in labels if language == "en"} == english
    assert {node for node, _, _ in labels} == named
    texts = sorted((row[0], row[2].lexical) for row in rows if row[1] == "alias")
    aliases = ((line["node1"], line["node2"].rpartition("@")[0][1:-1]) for line in lines if line["label"] == "alias")
    assert texts == sorted((node, text.replace("\\\\", "\0").replace("\\", "").replace("\0", "\\")) for node, text in aliases)
    with pytest.raises(InputError, match=r"found none\. .* left out: rdf:langString 5,527, xsd:double 1,009, xsd:int"):
        import_graph(SAMPLE)


@given(graph=graphs())
def test_edge_files_written_and_read_again_give_the_same_graph(tmp_path_factory, graph):
    folder = tmp_path_factory.mktemp("kgtk") / "out"
    export_graph(graph, folder, "kgtk")
    again, report = import_graph(folder, wikidata=WikidataOptions(languages=("en", "de", "pt-br")))
    assert again.fingerprint == graph.fingerprint
    assert report.skipped == 0
    for ours, theirs in ((graph.entities, again.entities), (graph.relations, again.relations)):
        for language, by_id in ours.labels.items():
            assert set(by_id) <= set(theirs.labels.get(language, {}))
