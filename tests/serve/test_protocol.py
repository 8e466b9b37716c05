import json
from urllib.parse import quote, urlencode

import pytest

from starqe.serve.negotiation import FORMS
from starqe.serve.protocol import REFUSED
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


def test_top_and_threshold_decide_how_many_are_predicted(client):
    assert len(entities(client.get("/sparql", params={"query": BORN_IN_ULM, "top": "7"}))) == 7
    assert entities(client.get("/sparql", params={"query": BORN_IN_ULM, "threshold": "1"})) == ["AlbertEinstein"]
    assert len(entities(client.get("/sparql", params={"query": BORN_IN_ULM, "threshold": "0"}))) == 101


@pytest.mark.parametrize("field", ["top=0", "top=many", "threshold=2", "threshold=nan", "known_only=perhaps"])
def test_options_that_make_no_sense_are_refused(client, field):
    assert client.get(f"/sparql?query={quote(BORN_IN_ULM)}&{field}").status_code == 400


def test_top_has_a_limit(client):
    response = client.get("/sparql", params={"query": BORN_IN_ULM, "top": "1001"})
    assert response.status_code == 422
    assert "at most 1,000" in response.json()["error"]["message"]


def test_limit_never_predicts_more_than_the_service_allows(client_with):
    found = entities(SENDERS["get"](client_with(top=5), BORN_IN_ULM + " LIMIT 600"))
    assert len(found) == 1 + 5


def test_answers_that_have_to_be_explained_are_fewer_and_a_note_says_so(client_with):
    response = SENDERS["get"](client_with(top_supported=2), TWO_STEPS + " LIMIT 100")
    assert len(entities(response)) == 1 + 2
    assert response.headers["starqe-note"] == "no more than 2 predicted answers are given"


def test_what_values_gives_is_shown_where_it_is_asked_for(client):
    query = PREFIXES + "SELECT ?who ?place WHERE { VALUES ?place { :Ulm } ?who p:bornIn ?place }"
    (row,) = SENDERS["get"](client, query, known_only="true").json()["results"]["bindings"]
    assert [row[name]["value"] for name in ("who", "place")] == [SCIENCE + "AlbertEinstein", SCIENCE + "Ulm"]


def test_too_many_known_answers_are_cut_and_a_note_says_so(client_with):
    query = PREFIXES + "SELECT ?who WHERE { ?who p:bornIn ?place {| p:country :Germany |} }"
    client = client_with(known=3)
    response = SENDERS["get"](client, query, known_only="true")
    assert len(entities(response)) == 3
    assert "the first 3 of them are given" in response.headers["starqe-note"]
    rest = SENDERS["get"](client, query + " OFFSET 3", known_only="true")
    assert len(entities(rest)) == 3
    assert not set(entities(rest)) & set(entities(response))


def test_what_is_no_parameter_of_the_protocol_is_left_aside(client):
    found = SENDERS["get"](client, BORN_IN_ULM, known_only="true", format="json", output="json", results="json")
    assert entities(found) == ["AlbertEinstein"]


@pytest.mark.parametrize("way", SENDERS)
def test_a_broken_query_is_400_and_says_where(client, way):
    response = SENDERS[way](client, BROKEN)
    error = response.json()["error"]
    assert (response.status_code, error["kind"]) == (400, "SparqlError")
    assert (error["line"], error["column"], error["offset"], error["length"]) == (2, 17, BROKEN.index("}"), 1)


def test_what_goes_beyond_the_language_is_refused_by_name(client):
    response = SENDERS["get"](client, "SELECT ?x WHERE { ?x ?p ?y FILTER(?x = ?y) }")
    assert response.status_code == 400
    assert response.json()["error"].keys() == {"kind", "message", "line", "column", "offset", "length"}


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


def test_bytes_that_are_no_utf_8_are_refused(client):
    assert client.post("/sparql", content=b"SELECT \xff", headers=DIRECT).status_code == 400
    assert client.post("/sparql", content=b"query=%FF", headers=FORM).status_code == 400
    assert client.get("/sparql?query=%FF").status_code == 400


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_are_405_and_the_right_ones_are_named(client, method):
    response = client.request(method, "/sparql")
    assert (response.status_code, response.headers["allow"]) == (405, "GET, POST")


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
