import pytest
from hypothesis import given
from hypothesis import strategies as st

from starqe.errors import InputError, UnsupportedError
from starqe.kg import Statement, graph_of
from starqe.queries.formula import Atom, Variable
from starqe.queries.layout import query_of_row, shape_of_query, table_of_query
from starqe.queries.query import Query
from starqe.queries.shape import SHAPES, Shape
from starqe.queries.strict import strict_form
from starqe.queries.table import QueryTable
from starqe.queries.variants import reify
from tests.queries.renaming import equal_but_for_names, renamed
from tests.queries.strategies import graphs, queries

T, X, Y = map(Variable, "txy")
GRAPH = graph_of([Statement("a", "r", "b", (("p", "v"), ("q", "w"))), Statement("c", "s", "d")])


def row(table: QueryTable) -> tuple[list[int], list[int], list[list[tuple[int, int]]]]:
    return table.anchors[0].tolist(), table.relations[0].tolist(), [table.pairs_of(0, edge) for edge in range(len(table.shape.edges))]


def test_a_query_becomes_a_row_of_the_shape_it_has():
    atoms = [Atom("c", "s", T), Atom(Y, "r", T, (("q", "w"), ("p", "v"))), Atom("a", "r", Y)]
    table = table_of_query(Query.conjunction(atoms, "t"), GRAPH, answers=[3, 1, 3])
    # Ids by text: a b c d v w are 0 … 5, p q r s are 0 … 3. The shape is A>x x>? B>?.
    assert table.shape == SHAPES["1p-2i"]
    assert row(table) == ([0, 2], [2, 2, 3], [[], [(0, 4), (1, 5)], []])
    assert table.answers[0].tolist() == [1, 3]


def test_a_row_becomes_a_query_again():
    atoms = [Atom("c", "s", T), Atom(X, "r", T, (("q", "w"), ("p", "v"))), Atom("a", "r", X)]
    query = Query.conjunction(atoms, "t")
    assert query_of_row(table_of_query(query, GRAPH), 0, GRAPH) == renamed(query, {"t": "target"})


def test_equal_entities_are_two_anchors():
    table = table_of_query(Query.conjunction([Atom("a", "r", T), Atom("a", "s", T)], "t"), GRAPH)
    assert table.shape == SHAPES["2i"]
    assert row(table) == ([0, 0], [2, 3], [[], []])


def test_a_shape_without_a_name_is_written_from_the_query():
    query = Query.conjunction([Atom("a", "r", X), Atom(T, "s", X), Atom(T, "s", "d")], "t")
    table = table_of_query(query, GRAPH)
    assert table.shape == Shape.parse("query", "A>x ?>B ?>x")
    assert row(table) == ([0, 3], [2, 3, 3], [[], [], []])
    assert table_of_query(query, GRAPH, shapes={"mine": Shape.parse("mine", "?>Z ?>y Y>y")}).shape.name == "mine"


def test_different_nodes_of_a_shape_are_different_nodes_of_the_query():
    shapes = {"mine": Shape.parse("mine", "A>x B>y x>? y>?")}
    apart = [Atom("a", "r", X), Atom("c", "r", Y), Atom(X, "r", T), Atom(Y, "s", T)]
    assert table_of_query(Query.conjunction(apart, "t"), GRAPH, shapes=shapes).shape.name == "mine"
    joined = [Atom("a", "r", X), Atom("c", "r", X), Atom(X, "r", T), Atom(X, "s", T)]
    assert table_of_query(Query.conjunction(joined, "t"), GRAPH, shapes=shapes).shape.text == "A>x B>x x>? x>?"


def test_one_entity_is_one_anchor_where_the_query_would_fall_apart():
    query = Query.conjunction([Atom("a", "r", T), Atom("a", "s", X)], "t")
    assert shape_of_query(query) == Shape.parse("query", "A>? A>x")


def test_a_rewritten_query_has_the_shape_as_written_and_the_row_of_its_statements():
    query = Query.conjunction([Atom("a", "r", T), Atom(T, "s", X), Atom(X, "s", "d")], "t")
    strict = strict_form(query)
    assert shape_of_query(strict).name == "1p-2i"
    assert table_of_query(strict, GRAPH).shape == table_of_query(query, GRAPH).shape == Shape.parse("query", "A>? ?>x x>B")


def test_what_has_no_row_is_refused():
    with pytest.raises(InputError, match="'z' does not occur in this graph"):
        table_of_query(Query.conjunction([Atom("z", "r", T)], "t"), GRAPH)
    with pytest.raises(UnsupportedError, match=r"no edge from a node to itself, found one at \?t"):
        table_of_query(Query.conjunction([Atom("a", "r", T), Atom(T, "r", T)], "t"), GRAPH)
    with pytest.raises(UnsupportedError, match="gives no head and no tail"):
        table_of_query(Query.conjunction([Atom(X, "r", T, (("p", "v"),))], "t"), GRAPH)
    reified = reify(table_of_query(Query.conjunction([Atom("a", "r", T)], "t"), GRAPH), 6, 4)[0].table
    with pytest.raises(UnsupportedError, match="Undo the reification first"):
        query_of_row(reified, 0, GRAPH)


def test_a_variable_of_a_shape_named_target_stays_apart_from_the_target():
    shape = Shape.parse("mine", "A>target target>?")
    query = Query.conjunction([Atom("a", "r", X), Atom(X, "s", T)], "t")
    table = table_of_query(query, GRAPH, shapes={"mine": shape})
    assert table.shape is shape
    assert equal_but_for_names(query_of_row(table, 0, GRAPH), query)


@given(st.data())
def test_a_query_comes_back_from_its_row(data):
    graph = data.draw(graphs())
    query = data.draw(queries(graph))
    if any(atom.head == atom.tail for atom in query.all_atoms):
        return
    table = table_of_query(query, graph)
    again = query_of_row(table, 0, graph)
    assert equal_but_for_names(again, query.plain_form())
    if table.shape.name in SHAPES:
        twice = table_of_query(again, graph)
        assert twice.shape == table.shape
        assert row(twice) == row(table)
