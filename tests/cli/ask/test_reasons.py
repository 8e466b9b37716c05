"""Explanations as text: options, negations, comparisons."""

from dataclasses import replace

from starqe.cli.ask.reasons import reasons_text
from starqe.kg import Statement
from starqe.queries import And, Atom, Not, Or, Query, Variable
from starqe.queries.formula import Same
from starqe.queries.sparql.request import SparqlRequest
from starqe.reason import RuleReason
from tests.ask.test_explainer import EXPLAINER, NO_PRIZE

X, Y = map(Variable, "xy")


class Labels:
    """What an answerer says of names, here written in capitals."""

    def label(self, entity: str) -> str:
        return entity.upper()

    relation_label = label


def text(query: Query, row: dict[str, str]) -> list[str]:
    return reasons_text(Labels(), EXPLAINER.explain(SparqlRequest.of(query), row)).splitlines()  # type: ignore[arg-type]


def test_a_negation_names_the_missing_statement_and_its_probability():
    assert text(NO_PRIZE, {"x": "meitner", "y": "vienna"}) == [
        "meitner, vienna: known",
        "  fact           MEITNER - BORNIN - VIENNA",
        "  relies on: no statement MEITNER - AWARD - NOBEL; probability that there is one 0.25",
    ]


def test_a_negation_of_several_conditions_shows_what_comes_nearest():
    query = Query(And((Atom(X, "bornIn", "vienna"), Not(And((Atom(X, "award", Y), Atom(Y, "bornIn", "warsaw")))))), (X,))
    assert text(query, {"x": "meitner"})[2:] == [
        "  relies on: not all of this; probability that it holds 0.25",
        "    fact           MEITNER - AWARD - DAVY",
        "    missing 0.25   DAVY - BORNIN - WARSAW",
    ]


def test_a_union_lists_all_options_and_first_the_one_that_explains_it():
    query = Query(And((Or((Atom(X, "award", "davy"), Atom(X, "award", "nobel"))), Not(Same(X, "curie")))), (X,))
    assert text(query, {"x": "vienna"}) == [
        f"vienna: predicted, probability {text(query, {'x': 'vienna'})[0].rpartition(' ')[2]}",
        "  compared       CURIE is not VIENNA",
        "  at least one of 2 options: 0.44",
        "    this option explains it: 0.25",
        "      predicted 0.25 VIENNA - AWARD - DAVY",
        "    another option: 0.25",
        "      predicted 0.25 VIENNA - AWARD - NOBEL",
    ]


def test_a_rule_that_supports_a_prediction_is_shown_with_its_facts():
    query = Query(And((Atom("curie", "bornIn", X), Not(Same(X, "davy")))), (X,))
    found = EXPLAINER.explain(SparqlRequest.of(query), "vienna")
    rule = RuleReason("if X - award - Y, then X - bornIn - Y", 3, 1200, 0.1, (Statement("curie", "award", "davy"),))
    (reason,) = found.reasons
    ruled = replace(found, derivation=replace(found.derivation, root=replace(reason, rules=(rule,))))
    assert reasons_text(Labels(), ruled).splitlines()[1:] == [  # type: ignore[arg-type]
        "  predicted 0.25 CURIE - BORNIN - VIENNA",
        "      rule: if X - award - Y, then X - bornIn - Y (right in 3 of 1,200)",
        "        fact         CURIE - AWARD - DAVY",
    ]
