import json

import pytest

from starqe import __version__
from starqe.ask import Answerer
from starqe.kg import Statement, graph_of
from starqe.queries.sparql.read import read_sparql
from starqe.serve.examples import DRAWN, examples
from tests.serve.questions import BORN_IN_ULM, BROKEN, PREFIXES, SCIENCE, TWO_STEPS


def post(client, route, **body):
    response = client.post(f"/api/{route}", json=body)
    assert response.status_code == 200, response.text
    return response.json()


def test_ask_gives_known_answers_first_and_then_predicted_ones(client):
    found = post(client, "ask", query=BORN_IN_ULM, top=3)
    assert (found["columns"], found["known_splits"], found["notes"]) == (["who"], ["train", "valid", "test"], [])
    assert found["answers"][0] == {
        "entity": "AlbertEinstein",
        "iri": SCIENCE + "AlbertEinstein",
        "label": "Albert Einstein",
        "known": True,
        "probability": 1.0,
        "support": {},
        "bindings": {
            "who": {
                "entity": "AlbertEinstein",
                "label": "Albert Einstein",
                "kind": "entity",
                "iri": SCIENCE + "AlbertEinstein",
                "datatype": None,
                "language": None,
                "interval": None,
            }
        },
    }
    assert found["counts"] == {"known": 1, "known_exact": True, "known_shown": 1, "predicted_shown": 3}
    predicted = found["answers"][1:]
    assert [answer["known"] for answer in predicted] == [False, False, False]
    assert predicted[0]["probability"] >= predicted[1]["probability"]
    assert found["milliseconds"] > 0


def test_ask_gives_the_support_with_labels(client):
    found = post(client, "ask", query=TWO_STEPS, known_only=True)
    assert found["columns"] == ["university", "who"]
    assert found["answers"][0]["support"] == {"who": {"entity": "AlbertEinstein", "label": "Albert Einstein"}}


def test_score_and_known_are_not_columns_but_belong_to_every_answer(client):
    query = BORN_IN_ULM.replace("SELECT ?who", "SELECT ?score ?who ?known")
    assert post(client, "ask", query=query)["columns"] == ["who"]


def test_what_is_not_predicted_is_answered_from_known_facts(client):
    count = 'SELECT ?where (COUNT(?who) AS ?n) { ?who "place of birth" ?where } GROUP BY ?where ORDER BY DESC(?n) ?where'
    found = post(client, "ask", query=count, top=2)
    assert (found["columns"], found["predictable"], found["drawing"]["nodes"]) == (["where", "n"], False, [])
    assert "nothing is predicted" in found["notes"][0]
    rows = [(row["label"], row["bindings"]["n"]["label"], row["known"]) for row in found["answers"]]
    assert rows == [("Vienna", "10", True), ("New York City", "7", True)]
    assert found["counts"]["known"] > found["counts"]["known_shown"] == 2
    misspelled = post(client, "ask", query='SELECT (COUNT(*) AS ?n) { ?who "place of birth" "Viena" }')
    assert "called 'Viena'" in misspelled["notes"][1]
    assert post(client, "check", query=count)["predictable"] is False
    described = post(client, "ask", query='DESCRIBE "Ulm"')
    assert described["columns"] == ["subject", "predicate", "object"]
    assert ["Ulm", "country", "Germany"] in [[one["label"] for one in row["bindings"].values()] for row in described["answers"]]
    truth = 'ASK {{ "Albert Einstein" "doctoral advisor"+ "{}" }}'
    assert [len(post(client, "ask", query=truth.format(name))["answers"]) for name in ("Alfred Kleiner", "Ulm")] == [1, 0]


def test_check_draws_the_query(client):
    given = {"kind": "anchor", "variable": None}
    assert post(client, "check", query=TWO_STEPS)["drawing"] == {
        "nodes": [
            {"id": "0.head", "kind": "anchor", "entity": "LawOfThePhotoelectricEffect", "label": "law of the photoelectric effect"},
            {"id": "who", "kind": "target", "entity": None, "label": "?who"},
            {"id": "university", "kind": "target", "entity": None, "label": "?university"},
        ],
        "edges": [
            {
                "from": "0.head",
                "to": "who",
                "relation": {"entity": "discovererOrInventor", "label": "discoverer or inventor", **given},
                "qualifiers": [],
                "marks": [],
                "used": True,
                "fact": None,
                "probability": None,
            },
            {
                "from": "who",
                "to": "university",
                "relation": {"entity": "educatedAt", "label": "educated at", **given},
                "qualifiers": [
                    {
                        "relation": {"entity": "academicDegree", "label": "academic degree", **given},
                        "value": {"entity": "BachelorOfScience", "label": "Bachelor of Science", **given},
                    }
                ],
                "marks": [],
                "used": True,
                "fact": None,
                "probability": None,
            },
        ],
        "conditions": [],
    }


def test_an_entity_that_is_given_twice_is_two_nodes(client):
    query = PREFIXES + "SELECT ?who WHERE { ?who p:bornIn :Ulm . ?who p:diedIn :Ulm }"
    nodes = post(client, "check", query=query)["drawing"]["nodes"]
    assert [(node["kind"], node["entity"]) for node in nodes] == [("target", None), ("anchor", "Ulm"), ("anchor", "Ulm")]
    assert len({node["id"] for node in nodes}) == 3


def test_explain_proves_a_known_answer(client):
    found = post(client, "explain", query=TWO_STEPS, entity="ETHZurich")
    assert found["answer"] == {"entity": "ETHZurich", "label": "ETH Zurich", "known": True, "probability": 1.0}
    assert found["assignment"]["who"] == {"entity": "AlbertEinstein", "label": "Albert Einstein"}
    assert [reason["edge"] for reason in found["reasons"]] == [0, 1]
    assert found["reasons"][1]["fact"]
    assert found["reasons"][1]["qualifiers"][0]["difference"] is None
    assert found["reasons"][1]["statements"] == [
        "Albert Einstein · educated at · ETH Zurich (academic degree: Bachelor of Science, academic major: physics, point in time: 1900)"
    ]
    assert {node["id"]: node["entity"] for node in found["drawing"]["nodes"]} == {
        "0.head": "LawOfThePhotoelectricEffect",
        "who": "AlbertEinstein",
        "university": "ETHZurich",
    }
    assert [edge["fact"] for edge in found["drawing"]["edges"]] == [True, True]


def test_explain_says_how_a_prediction_could_hold(client):
    found = post(client, "explain", query=TWO_STEPS, entity="Vienna")
    assert not found["answer"]["known"]
    reason = found["reasons"][1]
    assert not reason["fact"]
    assert 0 < reason["probability"] < 1
    assert isinstance(reason["qualifiers"][0]["difference"], float)
    assert found["drawing"]["edges"][1]["probability"] == reason["probability"]


@pytest.mark.parametrize("route", ["ask", "check", "explain"])
def test_a_broken_query_is_400_with_its_place(client, route):
    response = client.post(f"/api/{route}", json={"query": BROKEN} | ({"entity": "Ulm"} if route == "explain" else {}))
    assert response.status_code == 400
    assert response.json()["error"]["line"] == 2


def test_an_entity_that_does_not_exist_is_400(client):
    response = client.post("/api/explain", json={"query": BORN_IN_ULM, "entity": "Nobody"})
    assert (response.status_code, response.json()["error"]["kind"]) == (400, "InputError")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "JSON decode error"),
        (b"[]", "dict"),
        (b"{}", "'query': Field required"),
        (b'{"query": 3}', "'query': Input should be a valid string"),
        (b'{"query": "", "top": 0}', "'top': Input should be greater than or equal to 1"),
        (b'{"query": "", "threshold": 2}', "'threshold'"),
        (b'{"query": "", "threshold": NaN}', "'threshold'"),
        (b'{"query": "", "tpo": 1}', "'tpo': Extra inputs are not permitted"),
        (b'{"query": "", "\\ud800": 1}', "unable to parse raw data as a unicode string"),
    ],
)
def test_a_body_that_is_not_as_described_is_422_in_the_same_form(client, body, message):
    response = client.post("/api/ask", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 422
    assert response.json()["error"]["kind"] == "InvalidRequest"
    assert message in response.json()["error"]["message"]


def test_text_that_is_not_unicode_is_400(client):
    headers = {"Content-Type": "application/json"}
    bodies = (
        b'{"query": "SELECT ?x WHERE { ?x <urn:a> \\"\\ud800\\" }"}',
        b'{"query": %s, "entity": "\\ud800"}' % json.dumps(BORN_IN_ULM).encode(),
    )
    for route, body in zip(("ask", "explain"), bodies, strict=True):
        assert client.post(f"/api/{route}", content=body, headers=headers).status_code == 400


def test_top_has_a_limit(client_with):
    response = client_with(top=10).post("/api/ask", json={"query": BORN_IN_ULM, "top": 11})
    assert response.status_code == 422
    assert "at most 10" in response.json()["error"]["message"]


def test_entities_are_found_by_any_word_of_their_names(client):
    found = client.get("/api/entities", params={"prefix": "EINST", "count": 1}).json()
    assert found == {"entities": [{"entity": "AlbertEinstein", "label": "Albert Einstein", "name": "Albert Einstein"}]}
    assert client.get("/api/entities", params={"count": 101}).status_code == 422


def test_an_ambiguous_label_is_not_what_to_write(client):
    found = client.get("/api/entities", params={"prefix": "cambridge", "count": 2}).json()["entities"]
    assert [one["label"] for one in found] == ["Cambridge", "Cambridge"]
    assert [one["name"] for one in found] == ["Cambridge", "CambridgeMassachusetts"]  # the first is an identifier too


def test_relations_are_listed_by_use_and_found_by_name(client, answerer):
    graph = answerer.graph
    listed = client.get("/api/relations").json()["relations"]
    assert len(listed) == len(graph.relations)
    assert [one["statements"] for one in listed] == sorted((one["statements"] for one in listed), reverse=True)
    assert sum(one["statements"] for one in listed) == len(graph)
    assert sum(one["qualifiers"] for one in listed) == len(graph.pair_relation)
    (found,) = client.get("/api/relations", params={"prefix": "birth"}).json()["relations"]
    assert (found["entity"], found["label"], found["name"]) == ("bornIn", "place of birth", "place of birth")
    assert found["statements"] == sum(graph.relation == graph.relations.id("bornIn"))
    assert client.get("/api/relations", params={"prefix": "zzzz"}).json() == {"relations": []}


def test_an_error_suggests_what_may_replace_its_place(client):
    response = client.post("/api/check", json={"query": 'SELECT ?x { "Albert Einstien" "educated at" ?x }'})
    error = response.json()["error"]
    assert error["suggestions"][0] == '"Albert Einstein"'
    assert (error["offset"], error["length"]) == (12, 17)
    assert post(client, "check", query=f'SELECT ?x {{ {error["suggestions"][0]} "educated at" ?x }}')["drawing"]


def test_examples_begin_with_that_of_the_paper_and_can_all_be_asked(client):
    found = client.get("/api/examples").json()["examples"]
    assert len(found) == 1 + len(DRAWN)
    assert found[0]["title"].startswith("Where did the discoverer of the law of the photoelectric effect")
    assert found == client.get("/api/examples").json()["examples"]
    for example in found:
        assert post(client, "ask", query=example["query"], known_only=True)["answers"]


def test_examples_of_another_graph_are_drawn_from_it():
    statements = [Statement(f"Q{i}", "knows well", f"Q{i % 3}", (("since", "Q0"),)) for i in range(3, 12)]
    graph = graph_of(train=[*statements, Statement("Q1", "likes", "_:b")])
    found = examples(graph)
    assert found
    for example in found:
        assert "_:b" not in example.query
        assert read_sparql(example.query, graph).query


def test_the_graph_is_described(client, answerer):
    assert client.get("/api/graph").json() == {
        "name": "graph",
        "statements": len(answerer.graph),
        "entities": len(answerer.graph.entities),
        "relations": len(answerer.graph.relations),
        "known_splits": ["train", "valid", "test"],
        "version": __version__,
    }


def test_probabilities_fitted_on_too_little_are_marked_in_every_interface(client, client_with, six_statements_run):
    small = client_with(Answerer.open(six_statements_run))
    query = 'SELECT ?x ?score { "a" "knows" ?x }'
    found = post(small, "ask", query=query, top=4)
    assert found["calibrated"] is False
    assert any("not calibrated" in note for note in found["notes"])
    predicted = next(answer["entity"] for answer in found["answers"] if not answer["known"])
    assert post(small, "explain", query=query, entity=predicted)["calibrated"] is False
    assert "not calibrated" in small.get("/sparql", params={"query": query, "top": 4}).headers["Starqe-Note"]
    assert post(client, "ask", query=BORN_IN_ULM, top=3)["calibrated"] is True
