import pytest
from hypothesis import given
from hypothesis import strategies as st

from starqe.errors import QueryError
from starqe.kg import Statement, graph_of
from starqe.queries.exact.answering import answer
from starqe.queries.formula import Atom, Variable
from starqe.queries.layout import shape_of_query
from starqe.queries.query import Query
from starqe.queries.strict import strict_form, strictness_problem
from tests.queries.strategies import graphs, queries

T, X, Y = map(Variable, "txy")


@pytest.mark.parametrize(
    "atoms",
    [
        [Atom("a", "r", T)],
        [Atom("a", "r", X), Atom(X, "r", T), Atom("b", "r", T)],
        [Atom("a", "r", X), Atom("a", "r", Y), Atom(X, "r", Y), Atom(Y, "r", T)],
        [Atom("a", "r", "b"), Atom("b", "r", T)],
    ],
)
def test_strict_queries_stay_as_they_are(atoms):
    query = Query.conjunction(atoms, "t")
    assert strictness_problem(query) is None
    assert strict_form(query) is query


@pytest.mark.parametrize(
    ("atoms", "problem"),
    [
        ([Atom("a", "r", T), Atom(T, "r", X), Atom(X, "s", T)], "a directed cycle"),
        ([Atom(T, "r", "a")], "the entity 'a' comes after the variable ?t"),
        ([Atom("a", "r", T), Atom(T, "r", X)], "the target ?t is not the only node that no edge leaves: ?x"),
        ([Atom("a", "r", T), Atom("a", "r", X)], "the target ?t is not the only node that no edge leaves: ?t, ?x"),
        ([Atom("a", "r", T), Atom("a", "r", "b")], "the target ?t is not the only node that no edge leaves: b, ?t"),
    ],
)
def test_the_broken_rule_is_named(atoms, problem):
    assert problem in strictness_problem(Query.conjunction(atoms, "t"))


def test_the_example_of_the_paper_becomes_a_1p_2i():
    query = Query.conjunction([Atom("e1", "r1", T), Atom(T, "r2", X), Atom(X, "r3", "e3")], "t")
    strict = strict_form(query)
    assert strictness_problem(strict) is None
    assert shape_of_query(strict).name == "1p-2i"
    assert str(strict) == "?t : ∃x . r1(e1, ?t) ∧ r3⁻¹(e3, ?x) ∧ r2⁻¹(?x, ?t)"
    assert strict.plain_form() == query
    graph = graph_of([Statement("e1", "r1", "yes"), Statement("e1", "r1", "no"), Statement("yes", "r2", "m"), Statement("m", "r3", "e3")])
    assert [graph.entities.identifier(id_) for id_ in answer(graph.known(["train"]), strict)] == ["yes"]


@pytest.mark.parametrize(
    ("atoms", "message"),
    [
        ([Atom("a", "r", T), Atom(T, "r", T)], r"no inverse relation removes the edge from \?t to itself"),
        ([Atom("a", "r", T), Atom(X, "r", "a")], r"every variable leads to the target, and \?x hangs on entities only"),
    ],
)
def test_what_no_direction_makes_strict_is_refused(atoms, message):
    with pytest.raises(QueryError, match=message):
        strict_form(Query.conjunction(atoms, "t"))


@pytest.mark.full
@given(st.data())
def test_rewriting_makes_a_query_strict_and_keeps_its_answers(data):
    graph = data.draw(graphs())
    query = data.draw(queries(graph))
    try:
        strict = strict_form(query)
    except QueryError:
        assert any(atom.head == atom.tail for atom in query.all_atoms)
        return
    assert strictness_problem(strict) is None
    assert strict.plain_form() == query.plain_form()
    known = graph.known(["train", "valid"])
    assert answer(known, strict).tolist() == answer(known, query).tolist()
