"""Drawings of queries of any formula: nodes, edges, marks, conditions; and explanations on them."""

from starqe.queries import And, Atom, Not, Or, Query, Variable
from starqe.queries.formula import Same
from starqe.queries.sparql.request import Alternative, SparqlRequest
from starqe.serve.drawing import draw, draw_request, explained
from tests.ask.test_explainer import EXPLAINER, NO_PRIZE
from tests.reason.prizes import PRIZES

X, Y, P, W = map(Variable, "xypw")


def marks(drawing):
    return [[mark.text for mark in edge.marks] for edge in drawing.edges]


def test_options_are_lettered_and_have_their_inner_variables_for_themselves():
    branches = (And((Atom(X, "award", Y), Atom(Y, "bornIn", "vienna"))), And((Atom(X, "bornIn", Y), Atom(Y, "award", "davy"))))
    found = draw(Query(And((Atom(X, "award", "davy"), Or(branches))), (X,)), PRIZES)
    assert marks(found) == [[], ["option A"], ["option A"], ["option B"], ["option B"]]
    inner = [node.id for node in found.nodes if node.kind == "variable"]
    assert len(inner) == 2
    assert {node.split("@")[0] for node in inner} == {"y"}
    assert [edge.to for edge in found.edges if edge.to in inner] == inner
    shared = draw(Query(And((Atom(Y, "award", "davy"), Or(branches))), (X,)), PRIZES)
    assert [node.id for node in shared.nodes if node.kind == "variable"] == ["y"]


def test_negations_are_marked_and_several_are_numbered():
    one = draw(NO_PRIZE, PRIZES)
    assert marks(one) == [[], ["not"]]
    both = Not(And((Atom(X, "award", Y), Atom(Y, "bornIn", "vienna"))))
    other = Not(And((Atom(X, "award", Y), Atom(Y, "bornIn", "warsaw"))))
    found = draw(Query(And((Atom(X, "award", "davy"), both, other)), (X,)), PRIZES)
    assert marks(found) == [[], *[["not together 1"]] * 2, *[["not together 2"]] * 2]


def test_comparisons_are_beside_the_graph():
    query = Query(
        And((Atom(X, "award", "davy"), Atom(Y, "award", "davy"), Not(Same(X, Y)), Or((Same("curie", X), Same("curie", Y))))), (X, Y)
    )
    found = draw(query, PRIZES)
    assert [(one.text, [mark.text for mark in one.marks]) for one in found.conditions] == [
        ("?x ≠ ?y", []),
        ("?x = curie", ["option A"]),
        ("?y = curie", ["option B"]),
    ]
    holds = [
        one.holds
        for one in explained(EXPLAINER.explain(SparqlRequest.of(query), {"x": "curie", "y": "meitner"}), PRIZES).drawing.conditions
    ]
    assert holds == [True, True, False]


def test_variables_as_relation_and_in_qualifiers_are_named_and_filled():
    query = Query(Atom("curie", P, X, (("when", W), ("field", "physics"))), (P, X))
    (edge,) = draw(query, PRIZES).edges
    assert (edge.relation.kind, edge.relation.label, edge.relation.variable) == ("target", "?p", "?p")
    assert [(pair.relation.label, pair.value.label, pair.value.kind) for pair in edge.qualifiers] == [
        ("field", "physics", "anchor"),
        ("when", "?w", "variable"),
    ]
    answer = explained(EXPLAINER.explain(SparqlRequest.of(query), {"p": "award", "x": "nobel"}), PRIZES)
    (edge,) = answer.drawing.edges
    assert (edge.relation.label, edge.relation.variable) == ("award", "?p")
    assert [(pair.relation.label, pair.value.label) for pair in edge.qualifiers] == [("field", "physics"), ("when", "1903")]
    assert (answer.assignment["p"].entity, answer.assignment["w"].entity) == ("award", "1903")


def test_an_explanation_names_the_option_and_what_is_missing():
    query = Query(And((Or((Atom(X, "bornIn", "warsaw"), Atom(X, "award", "davy"))), Not(Atom(X, "award", "nobel")))), (X,))
    found = explained(EXPLAINER.explain(SparqlRequest.of(query), "meitner"), PRIZES)
    assert [(edge.relation.label, edge.used, edge.fact, edge.probability) for edge in found.drawing.edges] == [
        ("award", True, False, 0.25),
        ("award", True, True, 1.0),
        ("bornIn", False, False, 0.25),
    ]
    assert [reason.used for reason in found.reasons] == [False, True, False]
    negation, union = found.derivation.parts
    assert (negation.kind, negation.parts[0].reason) == ("not", 0)
    assert (union.kind, union.chosen, [part.reason for part in union.parts]) == ("any", 0, [1, 2])


def test_alternatives_are_drawn_as_what_they_share_and_what_differs():
    shared, prize = Atom(X, "bornIn", "vienna"), Atom(X, "award", Y)
    with_prize = Alternative(Query(And((shared, prize)), (X, Y)))
    without = Alternative(Query(And((shared, Not(Atom(X, "award", Variable("blank1"))))), (X,)))
    optional = draw_request(SparqlRequest((with_prize, without), ("x", "y")), PRIZES)
    assert {edge.relation.label: [mark.text for mark in edge.marks] for edge in optional.edges} == {"award": ["optional"], "bornIn": []}
    other = Alternative(Query(And((shared, Atom(X, "bornIn", W))), (X, W)))
    either = draw_request(SparqlRequest((with_prize, other), ("x", "y", "w")), PRIZES)
    assert sorted(mark.text for edge in either.edges for mark in edge.marks) == ["option A", "option B"]
    assert {node.id for node in either.nodes if node.kind == "target"} == {"x", "y", "w"}
