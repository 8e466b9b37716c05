import pytest

from starqe.errors import QueryError
from starqe.queries.formula import And, Atom, Not, Or, Variable, in_order

X, Y = Variable("x"), Variable("y")
A, B, C = Atom("a", "r", X), Atom("b", "r", X), Atom("c", "r", X)


def test_qualifiers_of_an_atom_are_a_set():
    one = Atom("a", "r", X, (("q", "v"), ("p", "w"), ("q", "v")))
    assert one == Atom("a", "r", X, (("p", "w"), ("q", "v")))
    assert one.qualifiers == (("p", "w"), ("q", "v"))


def test_a_turned_atom_is_the_same_statement_from_the_other_end():
    atom = Atom("a", "r", X, (("p", "w"),))
    assert atom.turned == Atom(X, "r", "a", (("p", "w"),), inverted=True)
    assert atom.turned.turned == atom
    assert atom.turned.plain == atom
    assert atom.plain == atom


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (And((B, A, B)), And((A, B))),
        (And((A,)), A),
        (And((C, And((B, A)))), And((A, B, C))),
        (Or((C, Or((B, A)))), Or((A, B, C))),
        (And((Or((B, A)), C)), And((C, Or((A, B))))),
        (Not(Not(A)), A),
        (Not(And((B, A))), Not(And((A, B)))),
    ],
)
def test_order_is_canonical(given, expected):
    assert in_order(given) == expected


def test_constants_sort_before_variables_and_by_their_text():
    atoms = Atom(X, "r", Y), Atom("b", "r", X), Atom("a", "s", X), Atom("a", "r", X)
    assert in_order(And(atoms)) == And((Atom("a", "r", X), Atom("a", "s", X), Atom("b", "r", X), Atom(X, "r", Y)))


@pytest.mark.parametrize("name", ["", "a b", "?x", "a-b", 7])
def test_a_variable_without_a_proper_name_is_refused(name):
    with pytest.raises(QueryError, match="a variable's name is letters"):
        Variable(name)


def test_a_position_that_is_not_a_term_is_refused():
    with pytest.raises(QueryError, match="an identifier or a variable, found 7"):
        Atom(7, "r", X)
    with pytest.raises(QueryError, match="found ' a': it begins or ends with white space"):
        Atom(" a", "r", X)


def test_an_empty_formula_is_refused():
    with pytest.raises(QueryError, match="found an empty Or"):
        in_order(And((A, Or(()))))
    with pytest.raises(QueryError, match="a formula is an Atom, Same, And, Or or Not, found 'a'"):
        in_order(And(("a",)))
