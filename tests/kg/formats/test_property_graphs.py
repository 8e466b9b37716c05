import csv
import json
from collections import Counter
from functools import partial
from pathlib import Path
from warnings import catch_warnings
from xml.etree import ElementTree

import networkx
import pytest
from hypothesis import given

from starqe.errors import InputError
from starqe.kg import FORMS, Statement, export_graph, graph_of
from starqe.kg import import_graph as import_with_literals
from starqe.kg import literal as types
from starqe.kg.literal import Literal
from starqe.kg.reading.import_task import ImportTask
from tests.kg.strategies import graphs
from tests.places import DATA

import_graph = partial(import_with_literals, literals="drop")  # tests/kg/test_literals.py has what is kept


FILES = DATA / "formats" / "property-graph"
real = pytest.mark.skipif(not FILES.is_dir(), reason="needs the real files")

PEOPLE = 'personId:ID(Person),name,born:int,:LABEL,note:IGNORE\n1,"Reeves, Keanu",1964,Actor;Person,x\n2,Carrie,,Person,\n'
MOVIES = "movieId:ID(Movie);title;year:int;tags:string[];:LABEL\n1;The Matrix;1999;a|b;Movie\n".replace("a|b", "a")
ROLES = ":START_ID(Person)\trole\tyears:int[]\t:END_ID(Movie)\t:TYPE\n1\tNeo\t1998;1999\t1\tACTED_IN\n2\t\t\t1\tACTED_IN\n"


def rows_of(form: str, *paths: Path, **fields) -> tuple[list, list]:
    """Returns the statements that a reader hands to the import, literals and all, and the labels."""
    rows, labels = [], []

    class Task(ImportTask):
        def add(self, more, split):
            rows.extend(more)

    task = Task(**fields)
    task.draft.label = lambda *label: labels.append(label)
    for path in paths:
        FORMS[form].read(task, path, "train")
    return rows, labels


def write_neo4j(folder: Path) -> Path:
    for name, text in (("people.csv", PEOPLE), ("movies.csv", MOVIES), ("roles.csv", ROLES)):
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_tables_of_neo4j_in_a_folder_are_one_graph(tmp_path):
    graph, report = import_graph(write_neo4j(tmp_path))
    assert set(graph.statements("train")) == {
        Statement("Person/1", "type", "Actor"),
        Statement("Person/1", "type", "Person"),
        Statement("Person/2", "type", "Person"),
        Statement("Movie/1", "type", "Movie"),
        Statement("Person/1", "ACTED_IN", "Movie/1"),
        Statement("Person/2", "ACTED_IN", "Movie/1"),
    }
    assert report.forms == {"neo4j": 3}
    assert report.left_out == {"xsd:integer": {"born": 1, "year": 1, "years": 2}, "xsd:string": {"tags": 1, "role": 1}}
    names = {graph.entities.identifier(id_): text for id_, text in graph.entities.labels[""].items()}
    assert names == {"Person/1": "Reeves, Keanu", "Person/2": "Carrie", "Movie/1": "The Matrix"}


def test_properties_of_edges_are_qualifiers_and_those_of_nodes_statements_with_literals(tmp_path):
    write_neo4j(tmp_path)
    rows, _ = rows_of("neo4j", tmp_path / "roles.csv")
    years = ["years", Literal("1998", types.INTEGER), "years", Literal("1999", types.INTEGER)]
    assert rows == [["Person/1", "ACTED_IN", "Movie/1", "role", Literal("Neo"), *years], ["Person/2", "ACTED_IN", "Movie/1"]]
    rows, labels = rows_of("neo4j", tmp_path / "people.csv", label_relations=("born",))
    assert ["Person/1", "name", Literal("Reeves, Keanu")] not in rows
    assert ("Person/1", "1964", "", "entity") in labels  # what the user names comes first


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (":ID,:LABEL\n1,A\n2\n", r"a.csv:3: a row has as many fields as the header \(2\), found 1"),
        (":ID,:LABEL\n1,A\n,B\n", "a.csv:3: an identifier is one line of text, found '': it is empty"),
    ],
)
def test_a_malformed_row_is_refused_with_its_line_or_skipped(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        import_graph(tmp_path / "a.csv")
    graph, report = import_graph(tmp_path / "a.csv", on_error="skip")
    assert (len(graph), report.skipped) == (1, 1)


def test_a_table_without_ids_is_refused_and_edges_without_type_are_called_by_their_file(tmp_path):
    (tmp_path / "a.csv").write_text("name,:LABEL\nx,y\n")
    with pytest.raises(InputError, match=r"a.csv:1: a table of nodes has :ID \(or ~id\)"):
        import_graph(tmp_path / "a.csv")
    (tmp_path / "KNOWS.csv").write_text(":START_ID,:END_ID\na,b\n")
    graph, report = import_graph(tmp_path / "KNOWS.csv")
    assert list(graph.statements("train")) == [Statement("a", "KNOWS", "b")]
    assert "the header has no :TYPE, so the relation is named after the file: 'KNOWS'" in report.notes[0]


@real
@pytest.mark.full
def test_real_tables_of_neptune_are_read_to_the_last_row():
    nodes, edges = FILES / "air-routes-latest-nodes.csv", FILES / "air-routes-latest-edges.csv"
    with edges.open(encoding="utf-8", newline="") as file:
        routes = [(row["~from"], row["~label"], row["~to"], row["dist:int"]) for row in csv.DictReader(file)]
    with nodes.open(encoding="utf-8", newline="") as file:
        airports = list(csv.DictReader(file))
    rows, labels = rows_of("neptune", nodes, edges, label_relations=("desc",))
    edge_rows = [row for row in rows if row[1] in ("route", "contains")]
    assert Counter((*row[:3], row[4].lexical if len(row) > 3 else "") for row in edge_rows) == Counter(routes)
    assert [row[4].datatype for row in edge_rows if len(row) > 3] == [types.INTEGER] * sum(dist != "" for *_, dist in routes)
    cells = Counter(key.split(":")[0] for row in airports for key, value in row.items() if value and key[0] != "~" and key != "desc:string")
    assert Counter(row[1] for row in rows if isinstance(row[2], Literal)) == cells
    assert len(labels) == sum(row["desc:string"] != "" for row in airports)
    graph, report = import_graph([nodes, edges])
    assert report.forms == {"neptune": 2}
    assert len(graph) + report.duplicates == len(routes) + len(airports)
    assert report.left_out["xsd:integer"]["dist"] == sum(dist != "" for *_, dist in routes)
    assert Statement("1", "type", "airport") in set(graph.statements("train"))


@real
def test_real_graphml_is_read_to_the_last_property():
    path = FILES / "air-routes-small.graphml"
    root = ElementTree.parse(path).getroot()
    space = "{http://graphml.graphdrawing.org/xmlns}"
    data = {
        kind: [(element, {one.get("key"): one.text for one in element.iter(f"{space}data")}) for element in root.iter(space + kind)]
        for kind in ("node", "edge")
    }
    rows, _ = rows_of("graphml", path)
    edges = Counter((e.get("source"), d["labelE"], e.get("target"), d.get("dist")) for e, d in data["edge"])
    assert Counter((*row[:3], row[4].lexical if len(row) > 3 else None) for row in rows if row[1] in ("route", "contains")) == edges
    labels = Counter((node.get("id"), properties["labelV"]) for node, properties in data["node"])
    assert Counter((row[0], row[2]) for row in rows if isinstance(row[2], str) and row[1] == "type") == labels
    literals = Counter(key for _, properties in data["node"] for key, text in properties.items() if text is not None and key != "labelV")
    assert Counter(row[1] for row in rows if isinstance(row[2], Literal)) == literals
    graph, report = import_graph(path)
    assert len(graph) + report.duplicates == len(data["node"]) + len(data["edge"])
    assert report.forms == {"graphml": 1}


def test_graphml_of_other_tools_and_malformed_graphml(tmp_path):
    path = tmp_path / "a.graphml"
    body = (
        '<graphml><key id="d0" for="edge" attr.name="weight" attr.type="double"/><graph edgedefault="directed">'
        '<node id="a" labels=":Person:Actor"><data key="name">Ann</data></node><node id="b"/>'
        '<edge source="a" target="b"><data key="d0">0.5</data></edge><edge source="a" target="b" label="KNOWS"/>'
        "<hyperedge/>{}</graph></graphml>"
    )
    path.write_text(body.format(""))
    graph, report = import_graph(path)
    assert set(graph.statements("train")) == {
        Statement("a", "type", "Person"),
        Statement("a", "type", "Actor"),
        Statement("a", "edge", "b"),
        Statement("a", "KNOWS", "b"),
    }
    assert report.left_out == {"xsd:double": {"weight": 1}}
    assert report.records == {"hyperedge": 1}
    assert graph.entities.label(graph.entities.id("a")) == "Ann"
    path.write_text(body.format('\n<node id="c"/>\n<edge source="a"/>'))
    with pytest.raises(InputError, match=r"a.graphml:3: edge: an identifier is one line of text, found ''"):
        import_graph(path)
    assert import_graph(path, on_error="skip")[1].skipped == 1
    path.write_text(body.format("<node"))
    with pytest.raises(InputError, match=r"a.graphml:1: GraphML is XML, found an error at column \d+"):
        import_graph(path)


def typed(type_, value):
    return {"@type": type_, "@value": value}


VERSION_1 = {"id": 1, "label": "person", "properties": {"name": [{"id": 0, "value": "Ann"}], "age": [{"id": 1, "value": 29}]}}
VERSION_1["outE"] = {"knows": [{"id": 7, "inV": 2, "properties": {"weight": 0.5}}]}
VERSION_3 = typed(
    "g:Vertex",
    {
        "id": typed("g:Int32", 1),
        "label": "person",
        "outE": {"knows": [{"id": typed("g:Int32", 7), "inV": typed("g:Int32", 2), "properties": {"weight": typed("g:Double", 0.5)}}]},
        "properties": {
            "name": [{"id": typed("g:Int64", 0), "value": "Ann"}],
            "age": [typed("g:VertexProperty", {"id": typed("g:Int64", 1), "value": typed("g:Int32", 29), "label": "age"})],
        },
    },
)
WHOLE = {
    "mode": "NORMAL",
    "vertices": [{"_id": 1, "_type": "vertex", "_label": "person", "name": "Ann", "age": 29}, {"_id": 2, "_type": "vertex"}],
    "edges": [{"_id": 7, "_type": "edge", "_outV": 1, "_inV": 2, "_label": "knows", "weight": 0.5}],
}
WHOLE_3 = typed(
    "tinker:graph",
    {
        "vertices": [
            typed("g:Vertex", {key: value for key, value in VERSION_3["@value"].items() if key != "outE"}),
            typed("g:Vertex", {"id": 2}),
        ],
        "edges": [
            typed(
                "g:Edge",
                {
                    "id": 7,
                    "label": "knows",
                    "outV": typed("g:Int32", 1),
                    "inV": 2,
                    "properties": {"weight": typed("g:Property", {"key": "weight", "value": typed("g:Double", 0.5)})},
                },
            )
        ],
    },
)


@pytest.mark.parametrize("document", [VERSION_1, VERSION_3, WHOLE, WHOLE_3], ids=["1", "3", "whole 1", "whole 3"])
def test_every_version_of_graphson_gives_the_same_statements(tmp_path, document):
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(document) + "\n" + ("" if document in (WHOLE, WHOLE_3) else json.dumps({"id": 2, "outE": {}}) + "\n"))
    rows, labels = rows_of("graphson", path)
    assert sorted(rows, key=lambda row: row[1]) == [
        ["1", "age", Literal("29", types.INTEGER)],
        ["1", "knows", "2", "weight", Literal("0.5", types.DOUBLE)],
        ["1", "type", "person"],
    ]
    assert labels == [("1", "Ann", "", "entity")]
    graph, report = import_graph(path)
    assert (len(graph), report.forms) == (2, {"graphson": 1})


def test_properties_of_properties_dates_and_lists_of_graphson(tmp_path):
    path = tmp_path / "graph.json"
    place = {"id": 0, "value": "Ulm", "properties": {"since": typed("g:Date", 0), "open": True}}
    vertex = {"id": "a", "outE": {}, "properties": {"place": [place], "tags": [{"value": typed("g:List", ["x", "y"])}]}}
    path.write_text(json.dumps(vertex) + "\n")
    since = Literal("1970-01-01T00:00:00Z", types.DATE_TIME)
    assert rows_of("graphson", path)[0] == [
        ["a", "place", Literal("Ulm"), "since", since, "open", Literal("true", types.BOOLEAN)],
        ["a", "tags", Literal("x")],
        ["a", "tags", Literal("y")],
    ]
    path.write_text(json.dumps(VERSION_1) + '\n{"outE": {}}\n')
    with pytest.raises(InputError, match=r"graph.json:2 \(byte [\d,]+\): a record is a vertex or an edge of GraphSON"):
        import_graph(path)
    assert import_graph(path, on_error="skip")[1].skipped == 1


def test_defaults_of_graphml_count_and_drawings_are_left_out(tmp_path):
    (tmp_path / "a.graphml").write_text(
        '<graphml xmlns:y="urn:y"><key id="c" for="node" attr.name="colour"><default>red</default></key>'
        '<key id="w" for="edge" attr.name="weight" attr.type="int"><desc>heavy</desc><default>1</default></key><key id="g"/>'
        '<graph><node id="a"><data key="g">\n<y:ShapeNode><y:data key="c">blue</y:data></y:ShapeNode>\n</data></node>'
        '<node id="b"><data key="c">blue</data><graph><node id="c"/></graph></node>'
        '<edge source="a" target="b"/><edge source="b" target="a"><data key="w">2</data></edge></graph></graphml>'
    )
    graph, report = import_with_literals(tmp_path / "a.graphml")
    assert set(graph.statements("train")) == {
        Statement("a", "colour", Literal("red")),
        Statement("b", "colour", Literal("blue")),
        Statement("c", "colour", Literal("red")),
        Statement("a", "edge", "b", (("weight", Literal("1", types.INTEGER)),)),
        Statement("b", "edge", "a", (("weight", Literal("2", types.INTEGER)),)),
    }
    assert report.records == {"data that is no text": 1}


def test_too_many_defaults_of_graphml_are_refused(tmp_path):
    keys = "".join(f'<key id="k{number}"><default>x</default></key>' for number in range(101))
    (tmp_path / "a.graphml").write_text(f'<graphml>{keys}<graph><node id="a"/></graph></graphml>')
    with pytest.raises(InputError, match=r"a\.graphml: at most 100 properties have defaults, found more"):
        import_graph(tmp_path / "a.graphml")


def test_an_export_as_graphml_is_read_by_another_library(tmp_path):
    born = Literal("1867-11-07", types.DATE)
    statements = [
        Statement("Curie & Co", "award", "Prize", (("for", "a;b"), ("for", "c%"), ("in", born))),
        Statement("Curie & Co", "born", born),
    ]
    files = export_graph(graph_of(statements, valid=[Statement("x", "r", "y")]), tmp_path / "out", "graphml")
    assert [file.name for file in files] == ["train.graphml", "valid.graphml"]
    with catch_warnings(action="ignore"):
        read = networkx.read_graphml(tmp_path / "out" / "train.graphml")
    date = '"1867-11-07"^^xsd:date'
    assert set(read.nodes) == {"Curie & Co", "Prize", "a;b", "c%", date}
    assert read.get_edge_data("Curie & Co", "Prize") == {"labelE": "award", "->for": "a%3Bb;c%25", "->in": date}
    assert read.get_edge_data("Curie & Co", date) == {"labelE": "born"}
    assert set(import_with_literals(tmp_path / "out")[0].statements("train")) == set(statements)


def test_a_character_that_xml_does_not_have_is_refused_on_export(tmp_path):
    with pytest.raises(InputError, match=r"XML has no character U\+FFFE, found 'a\\ufffe'. Choose another form"):
        export_graph(graph_of([Statement("a\ufffe", "r", "b")]), tmp_path / "out", "graphml")
    assert not (tmp_path / "out").exists()


@given(graph=graphs())
def test_graphml_written_and_read_again_gives_the_same_graph(tmp_path_factory, graph):
    folder = tmp_path_factory.mktemp("graphml") / "out"
    export_graph(graph, folder, "graphml")
    again, report = import_graph(folder)
    assert (again.fingerprint, report.skipped) == (graph.fingerprint, 0)


@given(graph=graphs())
def test_tables_of_neo4j_written_and_read_again_give_the_same_graph(tmp_path_factory, graph):
    folder = tmp_path_factory.mktemp("neo4j") / "out"
    export_graph(graph, folder, "neo4j")
    again, report = import_graph(folder)
    assert again.fingerprint == graph.fingerprint
    assert report.skipped == 0
