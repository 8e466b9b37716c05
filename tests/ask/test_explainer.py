"""Explanations of rows of any query, on a graph of six statements with a predictor that gives everything a quarter."""

import json
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings

from starqe.ask import Answer, Binding
from starqe.ask.explainer import ABSENCE, GUESS, PROOF, UNPROVED, Explainer
from starqe.deadline import Deadline
from starqe.errors import InputError, KnownOnlyError, UnsupportedError
from starqe.kg import Graph, Statement, graph_of
from starqe.queries import And, Atom, Not, Or, Query, Variable
from starqe.queries.formula import Same
from starqe.queries.sparql.request import Alternative, SparqlRequest
from starqe.reason import Executor
from starqe.reason.rules.firing import RuleBook
from starqe.reason.rules.mining import mine
from tests.conformance.services import untrained
from tests.examples import try_many
from tests.queries.sparql.texts import StoreHere, graphs, labelled_graph, texts
from tests.reason.prizes import PRIZES, Even

X, Y, P, W = map(Variable, "xypw")


def probability(_request: SparqlRequest, _place: int, query: Query, ids: tuple[int, ...], _deadline: object) -> float:
    """A number by which a test knows what was asked for."""
    return len(query.answers) / 10 + sum(ids) / 1000


EXPLAINER = Explainer(Executor(PRIZES.known(["train"]), Even()), None, probability, calibrated=True)  # type: ignore[arg-type]
NO_PRIZE = Query(And((Atom(X, "bornIn", Y), Not(Atom(X, "award", "nobel")))), (X, Y))


def test_a_known_row_of_several_columns_is_proved_with_what_it_relies_on():
    found = EXPLAINER.explain(SparqlRequest.of(NO_PRIZE), {"x": "meitner", "y": "vienna"})
    assert (found.answer.known, found.answer.probability, found.note) == (True, 1.0, f"{PROOF} {ABSENCE}")
    assert {name: one and one.value for name, one in found.answer.bindings.items()} == {"x": "meitner", "y": "vienna"}
    content = json.loads(found.to_json())
    assert content["answer"]["bindings"] == {"x": "meitner", "y": "vienna"}
    assert content["derivation"] == {
        "kind": "all",
        "truth": 0.75,
        "parts": [
            {"kind": "statement", "reason": 0, "truth": 1.0},
            {"kind": "not", "truth": 0.75, "parts": [{"kind": "statement", "reason": 1, "truth": 0.25}]},
        ],
    }
    assert [(reason["head"], reason["fact"]) for reason in content["reasons"]] == [("meitner", True), ("meitner", False)]


def test_a_row_of_the_answers_is_explained_as_it_is():
    columns = {"x": Binding("entity", "meitner", "m"), "label": Binding("literal", "Lise", "Lise"), "y": Binding("entity", "vienna", "v")}
    request = SparqlRequest.of(NO_PRIZE)
    found = EXPLAINER.explain(request, Answer(columns, True, 1.0))  # a label is nothing to prove
    assert found.assignment == {"x": "meitner", "y": "vienna"}
    assert EXPLAINER.explain(request, "meitner").derivation == found.derivation


def test_a_predicted_row_is_explained_by_its_best_way():
    found = EXPLAINER.explain(SparqlRequest.of(NO_PRIZE), {"x": "curie", "y": "warsaw"})
    ids = [PRIZES.entities.id(name) for name in ("curie", "warsaw")]
    assert (found.answer.known, found.answer.probability) == (False, pytest.approx(0.2 + sum(ids) / 1000))
    assert found.derivation.truth == 0  # the graph has what must not be
    assert found.note == f"{GUESS}."
    only = EXPLAINER.explain(SparqlRequest.of(NO_PRIZE), "chemistry")
    assert only.answer.probability == pytest.approx(0.1 + PRIZES.entities.id("chemistry") / 1000)


def test_relations_are_named_like_entities():
    query = Query(Atom("curie", P, X, (("when", W),)), (P, X, W))
    found = EXPLAINER.explain(SparqlRequest.of(query), {"p": "award", "w": "1903"})
    assert found.answer.bindings["p"] == Binding("relation", "award", "award")
    assert found.assignment == {"p": "award", "x": "nobel", "w": "1903"}
    with pytest.raises(InputError, match="nobel"):
        EXPLAINER.explain(SparqlRequest.of(query), {"p": "nobel"})  # an entity, where a relation stands


def test_the_alternative_that_binds_the_columns_of_a_row_explains_it():
    prize = Alternative(Query(And((Atom(X, "bornIn", "vienna"), Atom(X, "award", Y))), (X, Y)))
    none = Alternative(Query(And((Atom(X, "bornIn", "vienna"), Not(Atom(X, "award", Y)))), (X,)))
    request = SparqlRequest((prize, none), ("x", "y"))
    assert EXPLAINER.explain(request, {"x": "meitner", "y": "davy"}).query == prize.query
    open_row = Answer({"x": Binding("entity", "meitner", "m"), "y": None}, False, 0.1)
    found = EXPLAINER.explain(request, open_row)  # it is known with a prize; as it is, without one, it is impossible
    assert (found.query, found.answer.known, found.derivation.truth) == (none.query, False, 0)


def test_a_row_that_is_known_by_something_else_than_statements_is_not_explained_as_a_prediction():
    request = SparqlRequest.of(NO_PRIZE)
    columns = {"x": Binding("entity", "curie", "c"), "y": Binding("entity", "warsaw", "w")}
    with pytest.raises(UnsupportedError, match="this row is known by something else"):
        EXPLAINER.explain(request, Answer(columns, True, 1.0))  # such as by a qualifier with this relation
    prize = Alternative(Query(Atom(X, "award", Y), (X, Y)))
    with pytest.raises(UnsupportedError, match="this row is known by something else"):
        EXPLAINER.explain(SparqlRequest((prize,), ("x", "y")), Answer({"x": columns["x"], "y": None}, True, 1.0))


def check_rows(graph: Graph, text: str) -> list[str]:
    """Asks, and explains a known and a predicted row: each as what it is, with the probability that it has."""
    store = StoreHere(graph)
    with patch("starqe.ask.answerer.KnownStore", lambda *_, **__: store):
        answerer = untrained(graph)
    try:
        answers = answerer.ask(text, top=30)
    except KnownOnlyError:
        return ["not predicted"]
    kinds = []
    for known in (True, False):
        for row in [one for one in answers if one.known is known][:2]:
            try:
                found = answerer.explain(text, row)
            except UnsupportedError as error:
                if not known or str(error) != UNPROVED:
                    raise
                kinds.append("known by something else")
                continue
            assert (found.answer.known, found.answer.probability) == (known, pytest.approx(row.probability, abs=1e-5))
            assert found.answer.label == row.label or row.label == ""
            kinds.append("known" if known else "predicted")
    return kinds


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@example(labelled_graph([]), "SELECT * { e:a r:s e:b }")
@example(labelled_graph([]), "SELECT ?x { e:d r:r ?x . ?y r:s e:a }")
@example(labelled_graph([]), 'SELECT ?x { e:d r:r ?y . ?x rdfs:label "Anna"@en }')
@example(labelled_graph([]), "SELECT ?label { e:d r:r ?x . ?x rdfs:label ?label }")
@example(labelled_graph([]), "SELECT ?key { ?x ?key e:d }")
@given(graphs, texts())
def test_every_row_is_explained_as_what_it_is(graph: Graph, text: str) -> None:
    check_rows(graph, text)


@pytest.mark.slow
def test_every_row_of_many_texts_is_explained_as_what_it_is() -> None:
    counts = try_many(check_rows, graphs, texts(), examples=1_000)
    assert min(counts["known"], counts["predicted"]) >= 50


def test_what_values_gives_is_part_of_the_row():
    alternative = Alternative(Query(Atom("curie", "award", X), (X,)), ((Y, "curie"),))
    request = SparqlRequest((alternative,), ("y", "x"))
    assert list(EXPLAINER.explain(request, {"x": "davy", "y": "curie"}).answer.bindings) == ["y", "x"]
    with pytest.raises(InputError, match="values that VALUES gives"):
        EXPLAINER.explain(request, {"x": "davy", "y": "meitner"})


@pytest.mark.parametrize(
    ("row", "message"),
    [({"z": "curie"}, r"columns of the query \(x, y\), found 'z'"), ("nobody", "nobody"), ({"x": "curie", "y": "nowhere"}, "nowhere")],
)
def test_a_row_that_cannot_be_one_is_refused(row, message):
    with pytest.raises(InputError, match=message):
        EXPLAINER.explain(SparqlRequest.of(NO_PRIZE), row)


def test_a_union_of_comparisons_is_explained():
    query = Query(And((Atom(X, "award", "davy"), Or((Same(X, "curie"), Same(X, "meitner"))))), (X,))
    (_, union) = EXPLAINER.explain(SparqlRequest.of(query), "meitner").derivation.root.parts  # type: ignore[union-attr]
    assert (union.kind, union.chosen, [part.truth for part in union.parts]) == ("any", 1, [0, 1])
    assert np.isclose(union.truth, 1)


def test_a_known_answer_with_many_open_variables_on_a_hub_is_proved_by_the_first_match():
    """400 members, and ten variables that may be any of them: 400^10 ways to hold, of which one is needed."""
    graph = graph_of([Statement(f"m{number:03}", "in", "hub") for number in range(400)])
    explainer = Explainer(Executor(graph.known(["train"]), Even()), None, probability, calibrated=True)  # type: ignore[arg-type]
    several = [Variable(f"v{number}") for number in range(10)]
    request = SparqlRequest.of(Query.conjunction([Atom(X, "in", "hub"), *(Atom(one, "in", "hub") for one in several)], "x"))
    found = explainer.explain(request, "m007", deadline=Deadline(processor_seconds=10.0))
    assert (found.answer.known, found.assignment["x"]) == (True, "m007")
    assert [reason.fact for reason in found.reasons] == [True] * 11


def test_a_predicted_statement_names_the_rules_that_support_it_with_their_facts():
    people = [Statement(f"p{i}", "livesIn", f"t{i}") for i in range(5)] + [Statement(f"p{i}", "worksIn", f"t{i}") for i in range(4)]
    graph = graph_of(train=people)
    known = graph.known(["train"])
    book = RuleBook(mine(known), known)
    explainer = Explainer(Executor(known, Even()), None, probability, calibrated=True, rules=book)  # type: ignore[arg-type]
    request = SparqlRequest.of(Query(And((Atom("p4", "worksIn", X), Not(Same(X, "t1")))), (X,)))
    (reason,) = explainer.explain(request, "t4").reasons  # a comparison is no statement
    (rule,) = reason.rules
    assert (rule.rule, rule.support, rule.body) == ("if X - livesIn - Y, then X - worksIn - Y", 4, 4)
    assert rule.statements == (Statement("p4", "livesIn", "t4"),)
    (other,) = explainer.explain(request, "t0").reasons
    assert other.rules == ()
