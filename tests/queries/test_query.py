import pytest
from hypothesis import given
from hypothesis import strategies as st

from starqe.errors import QueryError, UnsupportedError
from starqe.queries.formula import And, Atom, Not, Or, Variable
from starqe.queries.query import Query
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


CYCLES = [
    ([Atom("a", "r", T)], False),
    ([Atom("a", "r", X), Atom(X, "r", T), Atom("a", "r", T)], False),
    ([Atom("a", "r", X), Atom(X, "r", Y), Atom(Y, "r", T), Atom(X, "s", T)], True),
    ([Atom("a", "r", X), Atom(X, "r", T), Atom(T, "s", X)], True),
    ([Atom("a", "r", T), Atom(T, "s", T)], True),
]


@pytest.mark.parametrize(("atoms", "cyclic"), CYCLES)
def test_cycles_are_marked(atoms, cyclic):
    assert Query.conjunction(atoms, "t").cyclic is cyclic


@pytest.mark.parametrize(
    ("atoms", "diameter"),
    [
        ([Atom("a", "r", T)], 1),
        ([Atom("a", "r", T), Atom("b", "r", T)], 2),
        ([Atom("a", "r", X), Atom(X, "r", Y), Atom(Y, "r", T)], 3),
        ([Atom("a", "r", X), Atom(X, "r", T), Atom("a", "s", T)], 3),  # an entity twice is two anchors, as in 1p-2i
        ([Atom("a", "r", T), Atom(T, "r", T)], 1),
    ],
)
def test_the_diameter_is_the_longest_shortest_path(atoms, diameter):
    assert Query.conjunction(atoms, "t").diameter == diameter


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


def test_renaming_never_merges_variables():
    query = Query.conjunction([Atom("a", "r", X), Atom(X, "r", T)], "t")
    assert query.renamed({"x": "t", "t": "x"}) == Query.conjunction([Atom("a", "r", T), Atom(T, "r", X)], "x")
    with pytest.raises(QueryError, match="different variables keep different names"):
        query.renamed({"x": "t"})


def test_canonical_forms_tell_different_queries_apart():
    one = Query.conjunction([Atom("a", "r", X), Atom("b", "r", Y), Atom(X, "s", T), Atom(Y, "s", T)], "t")
    other = Query.conjunction([Atom("a", "r", X), Atom("b", "r", X), Atom(X, "s", T), Atom(Y, "s", T)], "t")
    assert one.canonical() != other.canonical()
    assert one.canonical() == one.renamed({"x": "y", "y": "x", "t": "z"}).canonical()


def test_a_canonical_form_of_too_many_look_alikes_is_refused():
    atoms = [Atom("a", "r", T), *(Atom(Variable(f"v{i}"), "r", T) for i in range(8))]
    with pytest.raises(UnsupportedError, match="found 8 variables that look alike"):
        Query.conjunction(atoms, "t").canonical()


@given(st.data())
def test_renaming_and_reordering_change_nothing_canonical(data):
    query = data.draw(queries(data.draw(graphs())))
    names = data.draw(st.permutations(["t", "x", "y", "u"]))
    atoms = data.draw(st.permutations(query.all_atoms))
    other = Query(And(tuple(atoms)), query.answers).renamed(dict(zip(["t", "x", "y"], names, strict=False)))
    assert other.canonical() == query.canonical()
    assert other.cyclic == query.cyclic
    assert other.diameter == query.diameter
