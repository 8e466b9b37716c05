import json

import pytest
from pyoxigraph import QueryResultsFormat, parse_query_results

from starqe.ask import Answer, Answers, Binding, Counts
from starqe.kg import Names
from starqe.queries import Atom, Query, Variable
from starqe.serve.results import iri, write_results

NAMES = Names("http://example.org/", "http://example.org/relation/")
QUERY = Query.conjunction([Atom("a", "r", Variable("y")), Atom(Variable("y"), "r", Variable("x"))], "x")
COLUMNS = ("score", "x", "y", "given", "known")


def entity(identifier: str) -> Binding:
    return Binding("entity", identifier, identifier)


ANSWERS = Answers(
    QUERY,
    COLUMNS,
    (
        Answer({"x": entity("b & <c>"), "y": entity("_:blank"), "given": entity("urn:g")}, True, 1.0),
        Answer({"x": entity('http://other.org/"ü'), "y": entity("a"), "given": entity("urn:g")}, False, 1e-05),
    ),
    ("train",),
    Counts(1, True, 1, 1),
)


def written(form: QueryResultsFormat) -> str:
    return write_results(ANSWERS, NAMES, form).decode()


def test_json_has_iris_blank_nodes_and_typed_literals_in_the_order_of_select():
    content = json.loads(written(QueryResultsFormat.JSON))
    assert content["head"] == {"vars": ["score", "x", "y", "given", "known"]}
    first, second = content["results"]["bindings"]
    assert first == {
        "score": {"type": "literal", "value": "1.0", "datatype": "http://www.w3.org/2001/XMLSchema#double"},
        "x": {"type": "uri", "value": "http://example.org/b%20%26%20%3Cc%3E"},
        "y": {"type": "bnode", "value": "blank"},
        "given": {"type": "uri", "value": "urn:g"},
        "known": {"type": "literal", "value": "true", "datatype": "http://www.w3.org/2001/XMLSchema#boolean"},
    }
    assert second["score"]["value"] == "1e-05"
    assert second["known"]["value"] == "false"


def test_csv_is_plain_and_tsv_is_turtle():
    assert written(QueryResultsFormat.CSV).splitlines()[:2] == [
        "score,x,y,given,known",
        "1.0,http://example.org/b%20%26%20%3Cc%3E,_:blank,urn:g,true",
    ]
    tsv = written(QueryResultsFormat.TSV).split("\n")
    assert tsv[0] == "?score\t?x\t?y\t?given\t?known"
    assert tsv[1].split("\t")[1:] == ["<http://example.org/b%20%26%20%3Cc%3E>", "_:blank", "<urn:g>", "true"]


@pytest.mark.parametrize(
    "form", [QueryResultsFormat.JSON, QueryResultsFormat.XML, QueryResultsFormat.TSV], ids=lambda form: form.file_extension
)
def test_every_form_that_can_be_read_back_says_the_same(form):
    found = parse_query_results(written(form).encode(), format=form)
    assert [str(variable) for variable in found.variables] == ["?score", "?x", "?y", "?given", "?known"]
    rows = [[None if term is None else term.value for term in row] for row in found]
    assert [row[1:] for row in rows] == [
        ["http://example.org/b%20%26%20%3Cc%3E", "blank", "urn:g", "true"],
        ["http://example.org/http%3A%2F%2Fother.org%2F%22%C3%BC", "http://example.org/a", "urn:g", "false"],
    ]
    assert [float(row[0]) for row in rows] == [1.0, 1e-05]


@pytest.mark.parametrize(("identifier", "expected"), [("a", "http://example.org/a"), ("urn:x", "urn:x"), ("_:b", "_:b")])
def test_an_entity_is_written_as_rdf_does(identifier, expected):
    assert iri(entity(identifier), NAMES) == expected
