from itertools import pairwise, product
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starqe.deadline import Deadline
from starqe.errors import DeadlineError, QueryError, UnsupportedError
from starqe.kg import Graph, Statement, graph_of
from starqe.queries.exact import solutions
from starqe.queries.exact.join import MANY
from starqe.queries.exact.solutions import Solutions, solve
from starqe.queries.formula import Atom, Variable
from starqe.queries.query import Query
from tests.queries.strategies import brute_force, graphs, queries

ALL = ("train", "valid", "test")
T, X, Y = map(Variable, "txy")


def hub(members: int) -> Graph:
    """A hub with this number of members, each of which likes the next one."""
    names = [f"m{i:04}" for i in range(members)]
    likes = [Statement(one, "likes", other) for one, other in pairwise(names)]
    return graph_of([*(Statement(name, "is", "hub") for name in names), *likes])


def listed(found: Solutions, graph: Graph, limit: int | None = None, offset: int = 0) -> list[tuple[str, ...]]:
    columns = found.rows(limit, offset)
    return list(zip(*([graph.entities.identifier(id_) for id_ in columns[v].tolist()] for v in found.variables), strict=True))


def test_every_binding_of_the_variables_is_a_row():
    graph = graph_of([Statement(*triple.split()) for triple in ("e born ulm", "e at eth", "e at uzh", "m born ulm")])
    query = Query.conjunction([Atom(T, "born", "ulm"), Atom(T, "at", X)], "t")
    assert listed(solve(graph.known(ALL), query, [T, X]), graph) == [("e", "eth"), ("e", "uzh")]
    assert listed(solve(graph.known(ALL), query, [T]), graph) == [("e",)]


def test_independent_variables_are_counted_and_not_multiplied():
    graph = hub(300)
    variables = [Variable(f"v{i}") for i in range(8)]
    found = solve(graph.known(ALL), Query.conjunction([Atom(v, "is", "hub") for v in variables], "v0"), variables[:3])
    assert (found.count, found.exact) == (300**3, True)
    assert listed(found, graph, 3) == [("m0000", "m0000", f"m000{i}") for i in range(3)]
    assert listed(found, graph, 2, offset=300) == [("m0000", "m0001", "m0000"), ("m0000", "m0001", "m0001")]
    assert listed(found, graph, 5, offset=300**3) == []
    everything = solve(graph.known(ALL), Query.conjunction([Atom(v, "is", "hub") for v in variables], "v0"))
    assert (everything.count, everything.exact) == (MANY, False)  # 300^8
    assert listed(everything, graph, 1) == [("m0000",) * 8]
    with pytest.raises(UnsupportedError, match=r"at most 2,500,000 rows are listed for 8 variables"):
        everything.rows()


def test_a_variable_that_has_to_exist_costs_no_product():
    # 300 * 300 pairs of members have the hub in common; the table on the way has 300 rows.
    graph = hub(300)
    atoms = [Atom(T, "is", X), Atom(Y, "is", X), Atom(Y, "is", "hub")]
    found = solve(graph.known(ALL), Query.conjunction(atoms, "t"), [T], max_rows=300)
    assert found.count == len(found.first) == 300


def test_a_variable_in_between_that_would_multiply_is_kept_and_its_rows_are_merged():
    graph = graph_of([Statement(f"m{i}", "is", hub) for i in range(9) for hub in ("h", "k")])
    query = Query.conjunction([Atom(T, "is", X), Atom(Y, "is", X), Atom(T, "is", "h")], "t")
    expected = sorted(product((f"m{i}" for i in range(9)), repeat=2))
    for eliminated, compared, count, exact in ((1_000, 1_000, 81, True), (10, 1_000, 81, True), (10, 50, 50, False)):
        with patch.object(solutions, "_ELIMINATED", eliminated), patch.object(solutions, "_COMPARED", compared):
            found = solve(graph.known(ALL), query, [T, Y])
            rows = listed(found, graph)
            assert sorted(rows) == expected
            assert [listed(found, graph, 5, offset) for offset in (0, 40, 78)] == [rows[0:5], rows[40:45], rows[78:]]
            assert found.exact == exact
            assert found.count == count if exact else found.count <= 81


def test_cycles_are_followed_from_the_end_with_fewer_matches():
    graph = graph_of([Statement(*triple.split()) for triple in ("a r b", "b r c", "c r a", "b r a", "a s z")])
    triangle = Query.conjunction([Atom(T, "r", X), Atom(X, "r", Y), Atom(Y, "r", T), Atom(T, "s", "z")], "t")
    found = solve(graph.known(ALL), triangle)
    assert listed(found, graph) == [("a", "b", "c")]
    # A star of 300 on both sides: the pairs in between would be 90,000.
    wide = graph_of([Statement("a", "r", f"m{i}") for i in range(300)] + [Statement(f"m{i}", "r", "z") for i in range(300)])
    query = Query.conjunction([Atom("a", "r", X), Atom(X, "r", T), Atom("a", "r", Y), Atom(Y, "r", T), Atom(T, "r", T)], "t")
    assert not len(solve(wide.known(ALL), query, [T], max_rows=300).first)


def test_a_condition_between_entities_that_does_not_hold_leaves_nothing():
    graph = hub(3)
    atoms = [Atom(T, "is", "hub"), Atom("m0000", "likes", "m0002"), Atom(T, "likes", "m0002")]
    assert solve(graph.known(ALL), Query.conjunction(atoms, "t")).count == 0
    atoms = [Atom(T, "is", "hub"), Atom("m0000", "likes", "m0001"), Atom(T, "likes", "m0001")]
    assert solve(graph.known(ALL), Query.conjunction(atoms, "t")).count == 1


def test_it_stops_at_its_deadline_and_says_what_it_cannot_do():
    graph, query = hub(30), Query.conjunction([Atom(T, "is", X), Atom(Y, "is", X), Atom(Y, "is", "hub")], "t")
    with pytest.raises(DeadlineError):
        solve(graph.known(ALL), query, deadline=Deadline(0))
    with pytest.raises(DeadlineError):
        solve(graph.known(ALL), query).rows(deadline=Deadline(0))
    with pytest.raises(QueryError, match=r"variables of the query, found \?z"):
        solve(graph.known(ALL), query, [Variable("z")])
    cycle = [Atom(T, "is", X), Atom(Y, "is", X), Atom(T, "is", "hub"), Atom(T, "likes", Y)]
    with pytest.raises(UnsupportedError, match="holds up to 10 partial solutions"):
        solve(graph.known(ALL), Query.conjunction(cycle, "t"), max_rows=10)


@pytest.mark.full
@given(st.data())
def test_rows_and_counts_equal_those_of_trying_every_assignment(data):
    graph = data.draw(graphs())
    query = data.draw(queries(graph))
    wanted = data.draw(st.permutations(query.variables))[: data.draw(st.integers(1, len(query.variables)))]
    tried = brute_force(graph, ALL, query)
    expected = {tuple(values[query.variables.index(variable)] for variable in wanted) for values in tried}
    bounds = {"_ELIMINATED": data.draw(st.sampled_from([0, 250_000])), "_COMPARED": data.draw(st.sampled_from([1, 200_000]))}
    with patch.multiple(solutions, **bounds):
        found = solve(graph.known(ALL), query, wanted)
        rows = listed(found, graph)
        limit, offset = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 4))
        assert listed(found, graph, limit, offset) == rows[offset : offset + limit]
    assert len(rows) == len(set(rows))
    assert set(rows) == expected
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert [graph.entities.identifier(id_) for id_ in found.first.tolist()] == sorted({row[0] for row in expected})
    assert found.count == len(expected) if found.exact else found.count <= len(expected)


@pytest.mark.full
@given(st.data())
def test_the_first_row_with_an_entity_given_is_one_of_its_rows(data):
    graph = data.draw(graphs())
    query, known = data.draw(queries(graph)), graph.known(ALL)
    tried = brute_force(graph, ALL, query)
    for id_ in solve(known, query, [query.target]).first.tolist():
        (row,) = listed(solve(known, query, given={query.target: id_}), graph, 1)
        assert row in tried
        assert row[0] == graph.entities.identifier(id_)


@given(st.data())
def test_the_rows_among_some_are_those_that_hold(data):
    graph = data.draw(graphs())
    query, entities = data.draw(queries(graph)), len(graph.entities)
    wanted = data.draw(st.permutations(query.variables))[: data.draw(st.integers(1, len(query.variables)))]
    row = st.tuples(*[st.integers(0, entities - 1)] * len(wanted))
    among = np.array(data.draw(st.lists(row, min_size=1, max_size=30)))
    tried = {tuple(values[query.variables.index(variable)] for variable in wanted) for values in brute_force(graph, ALL, query)}
    names = {tuple(graph.entities.identifier(id_) for id_ in ids) for ids in among.tolist()}
    found = listed(solve(graph.known(ALL), query, wanted, among=among), graph)
    assert sorted(found) == sorted(names & tried)


def test_wd50k_hubs_are_counted_before_anything_is_listed(wd50k):
    known = wd50k.known(ALL)
    people = [Variable(f"p{i}") for i in range(12)]
    found = solve(known, Query.conjunction([Atom(p, "P31", "Q5") for p in people[:3]], "p0"), people[:3])
    each = len(known.by_tail(wd50k.entities.id("Q5"), wd50k.relations.id("P31")))
    assert found.count == len(np.unique(wd50k.head[known.by_tail(wd50k.entities.id("Q5"), wd50k.relations.id("P31"))])) ** 3
    assert each**3 >= found.count > 10**10
    assert len(found.rows(10)[people[0]]) == 10
    twelve = solve(known, Query.conjunction([Atom(p, "P31", "Q5") for p in people], "p0"))
    assert (twelve.count, len(twelve.rows(1_000)[people[11]])) == (MANY, 1_000)
