import pytest
from hypothesis import given
from hypothesis import strategies as st

from starqe.errors import QueryError, UnsupportedError
from starqe.queries.formula import And, Atom, Not, Or, Variable
from starqe.queries.query import Query
from tests.queries.renaming import equal_but_for_names, renamed
from tests.queries.strategies import graphs, queries

T, X, Y, Z = map(Variable, "txyz")


def test_a_query_is_the_same_in_any_order_of_its_atoms():
    atoms = [Atom("a", "r", X), Atom(X, "s", T, (("q", "v"),)), Atom("b", "r", T)]
    assert Query.conjunction(atoms, "t") == Query.conjunction(reversed(atoms), "t")
    assert hash(Query.conjunction(atoms, "t")) == hash(Query.conjunction(reversed(atoms), "t"))
    assert Query.conjunction(atoms, "t") != Query.conjunction(atoms, "x")


@pytest.mark.parametrize(
    ("atoms", "answers", "message"),
    [
        ([Atom("a", "r", X)], ["x", "x"], r"are different ones, found \?x, \?x"),
        ([Atom("a", "r", X)], ["t"], r"an answer variable occurs in the query, and \?t does not"),
        ([], ["t"], "asks for at least one statement"),
    ],
)
def test_a_query_that_breaks_a_rule_is_refused(atoms, answers, message):
    with pytest.raises(QueryError, match=message):
        Query.conjunction(atoms, *answers)


def test_a_variable_in_a_qualifier_or_as_a_relation_connects():
    query = Query.conjunction([Atom("a", X, T, (("q", Y),)), Atom("b", X, "c"), Atom(Y, "s", Z)], "t", "z")
    assert query.variables == (T, Z, X, Y)


def test_a_query_may_give_no_entity_fall_into_parts_or_ask_for_nothing():
    assert Query.conjunction([Atom(X, "r", T)], "t").variables == (T, X)
    assert Query.conjunction([Atom("a", "r", T), Atom("b", "s", X)], "t").variables == (T, X)
    assert Query.conjunction([Atom("a", "r", X)]).answers == ()


def test_what_is_not_conjunctive_is_refused_by_name():
    a, b = Atom("a", "r", T), Atom("b", "r", T)
    for formula, name in [(Or((a, b)), "disjunction"), (And((a, Not(b))), "negation"), (Not(a), "negation")]:
        query = Query(formula, (T,))
        assert not query.conjunctive
        with pytest.raises(UnsupportedError, match=f"the tester does conjunctive queries only, found a {name}"):
            query.conjuncts("the tester")
    with pytest.raises(UnsupportedError, match=r"found \?x as the relation: \?x\(a, \?t\)"):
        Query.conjunction([Atom("a", X, T)], "t").conjuncts("the tester")
    with pytest.raises(UnsupportedError, match=r"found \?x in a qualifier"):
        Query.conjunction([Atom("a", "r", T, (("q", X),))], "t").conjuncts("the tester")


def test_several_answer_variables_have_no_single_target():
    query = Query.conjunction([Atom("a", "r", X), Atom(X, "r", T)], "t", "x")
    with pytest.raises(UnsupportedError, match=r"one answer variable, found \?t, \?x"):
        _ = query.target


@given(st.data())
def test_the_order_of_atoms_changes_nothing_and_a_name_does(data):
    query = data.draw(queries(data.draw(graphs())))
    atoms = data.draw(st.permutations(query.all_atoms))
    assert Query(And(tuple(atoms)), query.answers) == query
    other = renamed(query, {"t": "u"})
    assert other != query
    assert equal_but_for_names(other, query)


def test_queries_that_join_other_atoms_differ_whatever_the_names():
    one = Query.conjunction([Atom("a", "r", X), Atom("b", "r", Y), Atom(X, "s", T), Atom(Y, "s", T)], "t")
    other = Query.conjunction([Atom("a", "r", X), Atom("b", "r", X), Atom(X, "s", T), Atom(Y, "s", T)], "t")
    assert not equal_but_for_names(one, other)
