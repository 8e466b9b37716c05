import json
import tempfile
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from pyoxigraph import Quad, QueryResultsFormat, RdfFormat, Store, parse

from starqe.kg import export_graph
from starqe.serve.negotiation import BOOLEANS, FORMS, GRAPHS
from starqe.serve.protocol import NOTE, REFUSED
from tests.serve.questions import BORN_IN_ULM, BROKEN, PREFIXES, SCIENCE, SCORED, TWO_STEPS

FORM, DIRECT = {"Content-Type": "application/x-www-form-urlencoded"}, {"Content-Type": "application/sparql-query"}

SENDERS = {
    "get": lambda client, query, **more: client.get("/sparql", params={"query": query, **more}),
    "form": lambda client, query, **more: client.post("/sparql", data={"query": query, **more}),
    "direct": lambda client, query, **more: client.post("/sparql", content=query, headers=DIRECT, params=more),
}


def entities(response) -> list[str]:
    assert response.status_code == 200, response.text
    target = response.json()["head"]["vars"][0]
    return [row[target]["value"].removeprefix(SCIENCE) for row in response.json()["results"]["bindings"]]


@pytest.mark.parametrize("way", SENDERS)
def test_a_query_is_answered_whichever_way_it_is_sent(client, way):
    response = SENDERS[way](client, BORN_IN_ULM, known_only="true")
    assert response.headers["content-type"] == "application/sparql-results+json"
    assert response.json() == {
        "head": {"vars": ["who"]},
        "results": {"bindings": [{"who": {"type": "uri", "value": SCIENCE + "AlbertEinstein"}}]},
    }


@pytest.mark.parametrize("media_type", FORMS)
def test_results_come_in_every_form(client, media_type):
    response = client.get("/sparql", params={"query": BORN_IN_ULM}, headers={"Accept": media_type})
    assert response.status_code == 200
    assert response.headers["content-type"].split(";")[0] == media_type
    assert response.headers["vary"] == "Accept"
    assert SCIENCE + "AlbertEinstein" in response.text


def test_no_form_that_suits_is_406(client):
    response = client.get("/sparql", params={"query": BORN_IN_ULM}, headers={"Accept": "text/html"})
    assert response.status_code == 406
    assert "text/csv" in response.json()["error"]["message"]


def test_score_and_known_are_columns_where_they_are_asked_for(client):
    first, second = client.get("/sparql", params={"query": SCORED}).json()["results"]["bindings"]
    assert (first["known"]["value"], first["score"]["value"]) == ("true", "1.0")
    assert second["known"]["value"] == "false"
    assert 0 < float(second["score"]["value"]) < 1


def test_further_variables_show_one_way_in_which_the_answer_holds(client):
    (row,) = client.get("/sparql", params={"query": TWO_STEPS, "known_only": "1"}).json()["results"]["bindings"]
    assert row == {
        "university": {"type": "uri", "value": SCIENCE + "ETHZurich"},
        "who": {"type": "uri", "value": SCIENCE + "AlbertEinstein"},
    }


def test_guesses_never_look_like_facts(client):
    """Without a word about predictions in the query or the request, all rows are known."""
    limited = BORN_IN_ULM + " LIMIT 5"
    assert entities(client.get("/sparql", params={"query": limited})) == ["AlbertEinstein"]
    assert entities(client.get("/sparql", params={"query": limited, "predicted": "false", "top": "3"})) == ["AlbertEinstein"]
    for words in ({"predicted": "true"}, {"top": "5"}, {"threshold": "0.9"}):
        assert len(entities(client.get("/sparql", params={"query": limited, **words}))) == 5
    for column in ("?known", "?score"):
        named = limited.replace("SELECT ?who", f"SELECT ?who {column}")
        assert len(entities(client.get("/sparql", params={"query": named}))) == 5


def test_top_and_threshold_decide_how_many_are_predicted(client):
    assert len(entities(client.get("/sparql", params={"query": BORN_IN_ULM, "top": "7"}))) == 1 + 7
    assert entities(client.get("/sparql", params={"query": BORN_IN_ULM, "threshold": "1"})) == ["AlbertEinstein"]
    assert len(entities(client.get("/sparql", params={"query": BORN_IN_ULM, "threshold": "0"}))) == 101


@pytest.mark.parametrize("field", ["top=0", "top=many", "threshold=2", "threshold=nan", "known_only=perhaps", "predicted=maybe"])
def test_options_that_make_no_sense_are_refused(client, field):
    assert client.get(f"/sparql?query={quote(BORN_IN_ULM)}&{field}").status_code == 400


def test_top_has_a_limit(client):
    response = client.get("/sparql", params={"query": BORN_IN_ULM, "top": "1001"})
    assert response.status_code == 422
    assert "at most 1,000" in response.json()["error"]["message"]


def test_limit_never_predicts_more_than_the_service_allows(client_with):
    found = entities(SENDERS["get"](client_with(top=5), BORN_IN_ULM + " LIMIT 600", predicted="true"))
    assert len(found) == 1 + 5


def test_answers_that_have_to_be_explained_are_fewer_and_a_note_says_so(client_with):
    response = SENDERS["get"](client_with(top_supported=2), TWO_STEPS + " LIMIT 100", predicted="true")
    assert len(entities(response)) == 1 + 2
    assert response.headers["starqe-note"].endswith("no more than 2 predicted answers are given")


def test_what_values_gives_is_shown_where_it_is_asked_for(client):
    query = PREFIXES + "SELECT ?who ?place WHERE { VALUES ?place { :Ulm } ?who p:bornIn ?place }"
    (row,) = SENDERS["get"](client, query, known_only="true").json()["results"]["bindings"]
    assert [row[name]["value"] for name in ("who", "place")] == [SCIENCE + "AlbertEinstein", SCIENCE + "Ulm"]


def test_too_many_known_answers_are_cut_and_a_note_says_so(client_with):
    query = PREFIXES + "SELECT ?who WHERE { ?who p:bornIn ?place {| p:country :Germany |} }"
    client = client_with(known=3)
    response = SENDERS["get"](client, query, known_only="true")
    assert len(entities(response)) == 3
    assert "rows are known, and the first 3 are given" in response.headers["starqe-note"]
    rest = SENDERS["get"](client, query + " OFFSET 3", known_only="true")
    assert len(entities(rest)) == 3
    assert not set(entities(rest)) & set(entities(response))


def test_unknown_parameters_of_the_protocol_are_ignored(client):
    found = SENDERS["get"](client, BORN_IN_ULM, known_only="true", format="json", output="json", results="json")
    assert entities(found) == ["AlbertEinstein"]


@pytest.mark.parametrize("way", SENDERS)
def test_a_broken_query_is_400_and_says_where(client, way):
    response = SENDERS[way](client, BROKEN)
    error = response.json()["error"]
    assert (response.status_code, error["kind"]) == (400, "SparqlError")
    assert (error["line"], error["column"], error["offset"], error["length"]) == (2, 17, BROKEN.index("}"), 1)


FORMS_OF_QUERIES = {
    "star": "SELECT * { ?who r:bornIn e:Ulm }",
    "union": "SELECT ?who { { ?who r:bornIn e:Ulm } UNION { ?who r:bornIn e:Warsaw } }",
    "filter": "SELECT ?who { ?who r:bornIn ?where FILTER (?where = e:Ulm) }",
    "path": "SELECT ?who { e:Ulm ^r:bornIn ?who }",
    "no entity": "SELECT ?who { ?who r:bornIn ?where }",
    "aggregate": "SELECT (COUNT(?who) AS ?n) { ?who r:bornIn ?where }",
    "subselect": "SELECT ?who { { SELECT ?who { ?who r:bornIn e:Ulm } } }",
    "values": "SELECT ?who { VALUES ?where { e:Ulm e:Warsaw } ?who r:bornIn ?where }",
    "variable relation": "SELECT ?p { e:AlbertEinstein ?p e:Ulm }",
    "optional": "SELECT ?who ?prize { ?who r:bornIn e:Ulm OPTIONAL { ?who r:award ?prize } }",
}


@pytest.mark.parametrize("text", FORMS_OF_QUERIES.values(), ids=FORMS_OF_QUERIES)
def test_known_rows_of_any_form_are_those_of_a_store(client, answerer, text):
    declared = f"PREFIX e: <{SCIENCE}> PREFIX r: <{SCIENCE}relation/> {text}"
    response = client.get("/sparql", params={"query": declared})
    assert response.status_code == 200, response.text
    assert ("known facts only" in response.headers.get(NOTE, "")) == ("COUNT" in text or text.count("SELECT") > 1)
    store = Store()
    quads = answerer.graph
    with tempfile.TemporaryDirectory() as folder:
        (path,) = export_graph(quads, Path(folder) / "graph.nq", names=quads.names)
        store.bulk_extend(Quad(q.subject, q.predicate, q.object) for q in parse(path=str(path), format=RdfFormat.N_QUADS))
    expected = json.loads(store.query(declared).serialize(format=QueryResultsFormat.JSON))
    found = response.json()
    assert found["head"]["vars"] == expected["head"]["vars"]
    by_text = {"key": lambda row: json.dumps(row, sort_keys=True)}
    assert sorted(found["results"]["bindings"], **by_text) == sorted(expected["results"]["bindings"], **by_text)
    assert found["results"]["bindings"]


@pytest.mark.parametrize("media_type", BOOLEANS)
def test_ask_is_answered_in_every_form_that_has_booleans(client, media_type):
    query = f"ASK {{ <{SCIENCE}AlbertEinstein> ?p ?o }}"
    response = client.get("/sparql", params={"query": query}, headers={"Accept": media_type})
    assert response.headers["content-type"].split(";")[0] == media_type
    assert "true" in response.text
    assert client.get("/sparql", params={"query": query}, headers={"Accept": "text/csv"}).status_code == 406


@pytest.mark.parametrize("media_type", GRAPHS)
def test_construct_gives_triples_in_every_form_of_rdf(client, media_type):
    query = f"CONSTRUCT {{ ?where <urn:birthplaceOf> ?who }} {{ ?who <{SCIENCE}relation/bornIn> ?where . ?who ?p <{SCIENCE}Ulm> }}"
    response = client.get("/sparql", params={"query": query}, headers={"Accept": media_type})
    assert response.headers["content-type"].split(";")[0] == media_type
    triples = {(quad.subject.value, quad.object.value) for quad in parse(response.content, format=GRAPHS[media_type])}
    assert triples == {(SCIENCE + "Ulm", SCIENCE + "AlbertEinstein")}


def test_rows_of_known_facts_are_cut_at_the_limit_of_the_service_and_that_is_said(client_with):
    response = client_with(known=3).get("/sparql", params={"query": "SELECT * { ?s ?p ?o }"})
    assert len(response.json()["results"]["bindings"]) == 3
    assert "the first 3 are given" in response.headers[NOTE]
    response = client_with(known=3).get("/sparql", params={"query": "SELECT * { ?s ?p ?o } ORDER BY ?o"})
    assert len(response.json()["results"]["bindings"]) == 3
    assert "Only the first 3 rows" in response.headers[NOTE]


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("INSERT DATA { <urn:a> <urn:b> <urn:c> }", "INSERT"),
        ("SELECT * { SERVICE <http://localhost/> { ?s ?p ?o } }", "SERVICE"),
        ("SELECT ?s FROM <urn:g> { ?s ?p ?o }", "FROM"),
        ("SELECT (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } }", "GRAPH"),
    ],
)
def test_updates_and_other_graphs_are_refused_by_name(client, query, word):
    response = client.get("/sparql", params={"query": query})
    assert response.status_code == 400
    assert word in response.json()["error"]["message"]


UNKNOWN = {
    "entity": "SELECT ?who { ?who <%srelation/bornIn> <urn:nowhere> }",
    "relation": "SELECT ?who { ?who <urn:no> <%sUlm> }",
    "values": "SELECT ?who { VALUES ?where { <urn:nowhere> } ?who <%srelation/bornIn> ?where }",
    "string": 'SELECT ?who { ?who <%srelation/bornIn> "Nowhere" }',
    "number": "SELECT ?who { ?who <%srelation/bornIn> 1879 }",
}


@pytest.mark.parametrize("text", UNKNOWN.values(), ids=UNKNOWN)
def test_a_term_that_no_fact_has_gives_no_row_as_in_any_store(client, text):
    """Clients that join with other stores send names that this graph does not have."""
    response = client.get("/sparql", params={"query": text % SCIENCE})
    assert (response.status_code, response.json()["results"]["bindings"]) == (200, [])
    assert response.headers[NOTE]


def test_relative_iris_are_resolved_against_the_address_of_the_service(client):
    response = client.get("/sparql", params={"query": "CONSTRUCT { <a> <b> <c> } {}"}, headers={"Accept": "application/n-triples"})
    assert response.text == "<http://localhost/a> <http://localhost/b> <http://localhost/c> .\n"


def test_a_query_of_known_facts_that_takes_too_long_is_503_and_others_are_answered(client_with):
    client = client_with(seconds=0.5)
    endless = "SELECT (COUNT(*) AS ?n) { " + " . ".join(f"?a{i} ?b{i} ?c{i}" for i in range(12)) + " }"
    assert client.get("/sparql", params={"query": "ASK { ?s ?p ?o }"}).status_code in (200, 503)  # the store may still be loading
    assert client.get("/sparql", params={"query": endless}).status_code == 503
    assert client.get("/sparql", params={"query": BORN_IN_ULM}).status_code == 200


@pytest.mark.parametrize("name", ["default-graph-uri", "named-graph-uri"])
def test_parameters_that_a_form_leaves_empty_are_not_parameters(client, name):
    assert client.get("/sparql", params={"query": BORN_IN_ULM, name: ""}).status_code == 200


def test_too_many_patterns_are_refused(client):
    patterns = " . ".join(f"?who p:bornIn ?place{i}" for i in range(12))
    response = SENDERS["form"](client, PREFIXES + f"SELECT ?who WHERE {{ ?who p:bornIn :Ulm . {patterns} }}")
    assert response.status_code == 400
    assert "at most 12" in response.json()["error"]["message"]


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("way", SENDERS)
def test_updates_and_other_graphs_are_refused(client, way, name):
    response = SENDERS[way](client, BORN_IN_ULM, **{name: "http://example.org/"})
    assert response.status_code == 400
    assert name in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("GET", {}),
        ("GET", {"params": [("query", BORN_IN_ULM), ("query", BORN_IN_ULM)]}),
        ("POST", {"content": "", "headers": FORM}),
        ("POST", {"content": urlencode([("query", "a"), ("query", "b")]), "headers": FORM}),
        ("POST", {"content": BORN_IN_ULM, "headers": DIRECT, "params": {"query": BORN_IN_ULM}}),
    ],
)
def test_a_request_has_exactly_one_query(client, method, arguments):
    response = client.request(method, "/sparql", **arguments)
    assert response.status_code == 400
    assert "one query" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "application/json",
        "application/sparql-update",
        "multipart/form-data; boundary=x",
        "text/plain",
        "application/sparql-query; charset=latin-1",
    ],
)
def test_a_body_of_another_type_is_415(client, content_type):
    response = client.post("/sparql", content=BORN_IN_ULM, headers={"Content-Type": content_type} if content_type else {})
    assert response.status_code == 415


@pytest.mark.parametrize("content_type", ["application/sparql-query; charset=UTF-8", 'Application/SPARQL-Query;charset="utf-8"'])
def test_the_type_of_a_body_may_say_utf_8(client, content_type):
    response = client.post("/sparql?known_only=true", content=BORN_IN_ULM, headers={"Content-Type": content_type})
    assert entities(response) == ["AlbertEinstein"]


def test_bytes_that_are_not_utf_8_are_refused(client):
    assert client.post("/sparql", content=b"SELECT \xff", headers=DIRECT).status_code == 400
    assert client.post("/sparql", content=b"query=%FF", headers=FORM).status_code == 400
    assert client.get("/sparql?query=%FF").status_code == 400


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_are_405_and_the_right_ones_are_named(client, method):
    response = client.request(method, "/sparql")
    assert (response.status_code, response.headers["allow"]) == (405, "GET, POST, HEAD")


def test_too_many_fields_are_refused(client):
    assert client.post("/sparql", content="a=1&" * 101, headers=FORM).status_code == 400


def test_labels_beyond_ascii_go_both_ways(client):
    query = PREFIXES + 'SELECT ?who WHERE { ?who p:educatedAt "Universität Zürich"@de {| p:pointInTime :y1905 |} }'
    for way in SENDERS.values():
        assert entities(way(client, query, known_only="true")) == ["AlbertEinstein"]


def test_an_error_is_json_whatever_is_accepted(client):
    response = client.get("/sparql", params={"query": BROKEN}, headers={"Accept": "text/csv"})
    assert response.headers["content-type"] == "application/json"
    assert json.loads(response.text)["error"]["kind"] == "SparqlError"
