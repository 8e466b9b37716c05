import pytest

from starqe.errors import UnsupportedError
from starqe.queries.formula import And, Atom, Not, Or, Variable
from starqe.queries.query import Query
from starqe.queries.text import hypergraph, logic, picture, reified

CITY, STATE, X = Variable("city"), Variable("state"), Variable("x")
BIRTH = Atom("Einstein", "bornIn", CITY)
CAPITAL = Atom(CITY, "capitalOf", STATE, (("since", "1848"), ("rank", "first")))
MEMBER = Atom("Bern", "memberOf", STATE)
QUERY = Query.conjunction([BIRTH, CAPITAL, MEMBER], "city")


def test_logic_names_answers_quantifier_and_qualifiers():
    text = "?city : ∃state . memberOf(Bern, ?state) ∧ bornIn(Einstein, ?city) ∧ capitalOf{rank: first, since: 1848}(?city, ?state)"
    assert logic(QUERY) == text
    assert str(QUERY) == text


def test_logic_without_inner_variables_has_no_quantifier():
    assert logic(Query.conjunction([BIRTH, CAPITAL], "city", "state")).startswith("?city, ?state : bornIn(Einstein, ?city) ∧ ")


def test_logic_shows_labels():
    labels = {"Einstein": "Albert Einstein", "bornIn": "place of birth"}
    query = Query.conjunction([BIRTH], "city")
    assert logic(query, lambda identifier: labels.get(identifier, identifier)) == "?city : place of birth(Albert Einstein, ?city)"


def test_logic_binds_a_variable_of_a_negation_inside_it():
    query = Query(And((BIRTH, Not(And((CAPITAL, MEMBER))))), (CITY,))
    inside = "∃state . (memberOf(Bern, ?state) ∧ capitalOf{rank: first, since: 1848}(?city, ?state))"
    assert logic(query) == f"?city : bornIn(Einstein, ?city) ∧ ¬{inside}"


def test_logic_brackets_a_disjunction_in_a_conjunction():
    query = Query(And((BIRTH, Or((Atom("a", "r", CITY), Atom("b", "r", CITY))))), (CITY,))
    assert logic(query) == "?city : bornIn(Einstein, ?city) ∧ (r(a, ?city) ∨ r(b, ?city))"


def test_a_picture_is_a_tree_below_the_target():
    assert picture(QUERY) == (
        "?city\n"
        "├◀─ bornIn ── Einstein\n"
        "└─▶ capitalOf{rank: first, since: 1848} ── ?state\n"
        "    └◀─ memberOf ── Bern"
    )  # fmt: skip


def test_a_picture_draws_every_edge_of_a_cycle_once():
    query = Query.conjunction([BIRTH, Atom(CITY, "r", STATE), Atom(STATE, "s", X), Atom(X, "t", CITY)], "city")
    assert picture(query, str.upper) == (
        "?city\n"
        "├◀─ BORNIN ── EINSTEIN\n"
        "├─▶ R ── ?state\n"
        "│   └─▶ S ── ?x\n"
        "└◀─ T ── ?x"
    )  # fmt: skip


def test_a_picture_shows_inverse_relations_and_loops():
    query = Query.conjunction([Atom(CITY, "bornIn", "Einstein", inverted=True), Atom(CITY, "twin", CITY)], "city")
    assert picture(query) == "?city\n├─▶ bornIn⁻¹ ── Einstein\n└─▶ twin ── ?city"


def test_a_picture_draws_what_hangs_on_a_qualifier_as_a_tree_of_its_own():
    query = Query.conjunction([Atom("a", "r", CITY, (("q", X),)), Atom(X, "s", "b")], "city")
    assert picture(query) == "?city\n└◀─ r{q: ?x} ── a\n?x\n└─▶ s ── b"


def test_a_picture_of_a_negation_is_refused():
    with pytest.raises(UnsupportedError, match="a picture shows conjunctive queries only"):
        picture(Query(And((BIRTH, Not(CAPITAL))), (CITY,)))


def test_a_hyperedge_groups_all_terms_of_an_atom_without_their_roles():
    assert hypergraph(QUERY).splitlines() == [
        "memberOf {Bern, ?state}",
        "bornIn {Einstein, ?city}",
        "capitalOf|rank|since {1848, first, ?city, ?state}",
    ]
    turned = Query.conjunction([Atom(CITY, "bornIn", "Einstein"), CAPITAL, MEMBER], "city")
    assert hypergraph(turned) == hypergraph(QUERY)


def test_an_inverse_relation_is_written_as_the_statement_it_means():
    query = Query.conjunction([Atom(CITY, "bornIn", "Einstein", inverted=True)], "city")
    assert hypergraph(query) == "bornIn {Einstein, ?city}"
    assert reified(query).splitlines() == ["_:0 rdf:subject Einstein", "_:0 rdf:predicate bornIn", "_:0 rdf:object ?city"]


def test_a_reified_query_has_three_triples_and_one_for_each_pair():
    assert reified(QUERY, str.upper).splitlines()[6:] == [
        "_:2 rdf:subject ?city",
        "_:2 rdf:predicate CAPITALOF",
        "_:2 rdf:object ?state",
        "_:2 RANK FIRST",
        "_:2 SINCE 1848",
    ]


@pytest.mark.parametrize("write", [hypergraph, reified])
def test_only_conjunctions_are_written_as_graphs(write):
    with pytest.raises(UnsupportedError):
        write(Query(Or((BIRTH, Atom("b", "r", CITY))), (CITY,)))
