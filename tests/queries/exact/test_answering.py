import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starqe.errors import InputError, QueryError, UnsupportedError
from starqe.kg import Graph, Statement, graph_of
from starqe.queries.exact.answering import answer, answer_rows, assignments, derivation_rows, easy_and_hard
from starqe.queries.formula import And, Atom, Not, Variable
from starqe.queries.layout import query_of_row, table_of_query
from starqe.queries.query import Query
from starqe.queries.shape import SHAPES
from starqe.queries.table import QueryTable, stack
from starqe.queries.variants import reify
from starqe.ragged import Ragged
from tests.columns import query_table
from tests.queries.strategies import brute_force, graphs, queries

T, X, Y = map(Variable, "txy")
BSC, PHD = ("degree", "BSc"), ("degree", "PhD")

# Two universities of Einstein, one of Curie; ETH is named in two statements of Einstein.
GRAPH = graph_of(
    train=[
        Statement("Einstein", "educatedAt", "ETH", (BSC, ("year", "1900"))),
        Statement("Einstein", "educatedAt", "ETH", (PHD,)),
        Statement("Einstein", "educatedAt", "UZH", (PHD, ("year", "1905"))),
        Statement("Curie", "educatedAt", "Sorbonne", (BSC,)),
        Statement("ETH", "locatedIn", "Zurich"),
        Statement("UZH", "locatedIn", "Zurich"),
    ],
    valid=[Statement("Sorbonne", "locatedIn", "Paris"), Statement("Curie", "educatedAt", "ETH", (PHD,))],
    test=[Statement("ETH", "locatedIn", "Switzerland"), Statement("Sorbonne", "twin", "Sorbonne")],
)
ALL = ("train", "valid", "test")


def names(ids: np.ndarray, graph: Graph = GRAPH) -> list[str]:
    return [graph.entities.identifier(id_) for id_ in ids]


def ask(*atoms: Atom, splits: tuple[str, ...] = ALL) -> list[str]:
    return names(answer(GRAPH.known(splits), Query.conjunction(atoms, "t")))


def test_a_hop_gives_the_tails():
    assert ask(Atom("Einstein", "educatedAt", T)) == ["ETH", "UZH"]
    assert ask(Atom(T, "educatedAt", "ETH")) == ["Curie", "Einstein"]


def test_an_inverted_atom_is_read_from_its_tail():
    assert ask(Atom("ETH", "educatedAt", T, inverted=True)) == ["Curie", "Einstein"]


def test_one_statement_has_all_the_pairs():
    assert ask(Atom("Einstein", "educatedAt", T, (BSC,))) == ["ETH"]
    assert ask(Atom("Einstein", "educatedAt", T, (PHD,))) == ["ETH", "UZH"]
    # ETH has both degrees, in two statements.
    assert ask(Atom("Einstein", "educatedAt", T, (BSC, PHD))) == []
    assert ask(Atom("Einstein", "educatedAt", T, (PHD, ("year", "1905")))) == ["UZH"]


def test_only_the_named_splits_are_known():
    located = Atom(X, "locatedIn", T)
    assert ask(Atom("Curie", "educatedAt", X), located, splits=("train",)) == []
    assert ask(Atom("Curie", "educatedAt", X), located, splits=("train", "valid")) == ["Paris", "Zurich"]
    assert ask(Atom("Curie", "educatedAt", X), located) == ["Paris", "Switzerland", "Zurich"]


def test_intersections_and_cycles():
    assert ask(Atom("Einstein", "educatedAt", T), Atom("Curie", "educatedAt", T)) == ["ETH"]
    assert ask(Atom(T, "educatedAt", X), Atom(T, "educatedAt", Y, (BSC,)), Atom(X, "locatedIn", "Zurich")) == ["Curie", "Einstein"]
    assert ask(Atom("Curie", "educatedAt", T), Atom(T, "twin", T)) == ["Sorbonne"]
    assert ask(Atom("Einstein", "educatedAt", T), Atom(T, "twin", T)) == []


def test_an_atom_between_entities_is_a_condition():
    condition = Atom("Einstein", "educatedAt", "UZH", (PHD,))
    assert ask(Atom("Einstein", "educatedAt", T), condition) == ["ETH", "UZH"]
    assert ask(Atom("Einstein", "educatedAt", T), replace(condition, qualifiers=(BSC,))) == []


def test_a_query_may_give_qualifier_values_only():
    assert ask(Atom(X, "educatedAt", T, (BSC,))) == ["ETH", "Sorbonne"]


def test_a_loop_is_found_without_any_bound_end():
    graph = graph_of([Statement("a", "twin", "a", (("q", "v"),)), Statement("a", "twin", "b", (("q", "v"),)), Statement("b", "twin", "b")])
    query = Query.conjunction([Atom(T, "twin", T, (("q", "v"),))], "t")
    assert names(answer(graph.known(["train"]), query), graph) == ["a"]


def test_assignments_show_the_inner_variables():
    query = Query.conjunction([Atom("Einstein", "educatedAt", X), Atom(X, "locatedIn", T)], "t")
    known = GRAPH.known(ALL)
    found = assignments(known, query)
    rows = [names(found[T]), names(found[X])]
    assert rows == [["Switzerland", "Zurich", "Zurich"], ["ETH", "ETH", "UZH"]]
    assert names(assignments(known, query, limit=2)[X]) == ["ETH", "ETH"]
    assert names(assignments(known, query, given={T: GRAPH.entities.id("Zurich")})[X]) == ["ETH", "UZH"]
    assert names(assignments(known, query, given={T: GRAPH.entities.id("Zurich")})[T]) == ["Zurich", "Zurich"]
    assert names(assignments(known, query, variables=[X])[X]) == ["ETH", "UZH"]
    with pytest.raises(QueryError, match=r"variables of the query, found \?y"):
        assignments(known, query, variables=[Y])


def test_several_answer_variables_are_assigned_together():
    query = Query.conjunction([Atom("Curie", "educatedAt", X), Atom(X, "locatedIn", T)], "x", "t")
    found = assignments(GRAPH.known(("train", "valid")), query)
    assert list(found) == [X, T]
    assert list(zip(names(found[X]), names(found[T]), strict=True)) == [("ETH", "Zurich"), ("Sorbonne", "Paris")]


def test_what_it_cannot_do_is_refused():
    known = GRAPH.known(ALL)
    with pytest.raises(InputError, match="'Newton' does not occur in this graph"):
        ask(Atom("Newton", "educatedAt", T))
    with pytest.raises(UnsupportedError, match="the exact engine does conjunctive queries only, found a negation"):
        answer(known, Query(And((Atom("Curie", "educatedAt", T), Not(Atom("Einstein", "educatedAt", T)))), (T,)))
    cycle = [Atom(X, "educatedAt", "ETH"), *(Atom(person, "educatedAt", place) for person in (X, Y) for place in (T, Variable("z")))]
    with pytest.raises(UnsupportedError, match="up to 2 partial solutions, and this query has 4 or more"):
        answer(known, Query.conjunction(cycle, "t"), max_rows=2)


def test_variables_of_no_further_use_do_not_multiply():
    # 60 × 60 paths lead over the two hubs; the rows in between stay at 60.
    middle = [f"m{i}" for i in range(60)]
    graph = graph_of([s for m in middle for s in (Statement("a", "r", m), Statement(m, "r", "hub"), Statement("hub", "s", m))])
    query = Query.conjunction([Atom("a", "r", X), Atom(X, "r", Y), Atom(Y, "s", T)], "t")
    assert len(answer(graph.known(["train"]), query, max_rows=60)) == 60


def table_of(rows: list[tuple[list[str], list[str], list[list[tuple[str, str]]]]], shape: str, graph: Graph = GRAPH) -> QueryTable:
    pairs = [pair for _, _, of_row in rows for of_edge in of_row for pair in of_edge]
    counts = [len(of_edge) for _, _, of_row in rows for of_edge in of_row]
    return query_table(
        SHAPES[shape],
        np.array([graph.entities.ids(anchors) for anchors, _, _ in rows]),
        np.array([graph.relations.ids(relations) for _, relations, _ in rows]),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        graph.relations.ids(relation for relation, _ in pairs),
        graph.entities.ids(value for _, value in pairs),
        np.zeros(len(rows) + 1, np.int64),
        np.empty(0, np.int32),
    )


TABLE = table_of(
    [
        (["Einstein"], ["educatedAt", "locatedIn"], [[BSC, ("year", "1900")], []]),
        (["Curie"], ["educatedAt", "locatedIn"], [[], []]),
        (["Einstein"], ["educatedAt", "twin"], [[], []]),
        (["Curie"], ["educatedAt", "locatedIn"], [[PHD], []]),
    ],
    "2p",
)


def lists(answers: Ragged) -> list[list[str]]:
    return [names(answers[row]) for row in range(len(answers))]


def test_a_table_is_answered_row_by_row():
    expected = [["Switzerland", "Zurich"], ["Paris", "Switzerland", "Zurich"], [], ["Switzerland", "Zurich"]]
    assert lists(answer_rows(GRAPH.known(ALL), TABLE)) == expected
    assert lists(answer_rows(GRAPH.known(ALL), TABLE, [3, 2, 3])) == [expected[3], expected[2], expected[3]]
    assert lists(answer_rows(GRAPH.known(ALL), TABLE, [])) == []


def test_a_table_is_answered_in_parts_where_all_at_once_is_too_much():
    known = GRAPH.known(ALL)
    assert lists(answer_rows(known, TABLE, max_rows=4)) == lists(answer_rows(known, TABLE))
    with pytest.raises(UnsupportedError, match="up to 1 partial solutions"):
        answer_rows(known, TABLE, max_rows=1)


def test_easy_answers_follow_from_older_facts_and_hard_ones_do_not():
    easy, hard = easy_and_hard(GRAPH, TABLE, None, "valid")
    assert lists(easy) == [["Zurich"], [], [], []]
    assert lists(hard) == [[], ["Paris", "Zurich"], [], ["Zurich"]]
    easy, hard = easy_and_hard(GRAPH, TABLE, [1, 0], "test")
    assert lists(easy) == [["Paris", "Zurich"], ["Zurich"]]
    assert lists(hard) == [["Switzerland"], ["Switzerland"]]
    with pytest.raises(InputError, match="valid and test, found 'train'"):
        easy_and_hard(GRAPH, TABLE, None, "train")


def test_a_reified_table_is_refused():
    reified = reify(TABLE, len(GRAPH.entities), len(GRAPH.relations))[0].table
    with pytest.raises(UnsupportedError, match="Undo the reification first"):
        answer_rows(GRAPH.known(ALL), reified)


@pytest.mark.full
@given(st.data())
def test_answers_equal_those_of_trying_every_assignment(data):
    graph = data.draw(graphs())
    query = data.draw(queries(graph))
    splits = data.draw(st.sampled_from([("train",), ("train", "valid"), ALL]))
    expected = brute_force(graph, splits, query)
    known = graph.known(splits)
    found = assignments(known, query)
    rows = list(zip(*(names(found[variable], graph) for variable in query.variables), strict=True))
    assert sorted(rows) == sorted(expected)
    assert names(answer(known, query), graph) == sorted({values[0] for values in expected})


@given(st.data())
def test_adding_a_qualifier_never_adds_an_answer(data):
    """The paper's theorem (pairs added to one edge), and its corollaries (to any edges; to edges without pairs)."""
    graph = data.draw(graphs())
    query = data.draw(queries(graph))
    known = graph.known(ALL)
    pairs = sorted({pair for statement in graph.statements(*ALL) for pair in statement.qualifiers})
    more = st.lists(st.sampled_from(pairs), max_size=2).map(tuple) if pairs else st.just(())
    chosen = data.draw(st.integers(0, len(query.all_atoms) - 1))
    one = [replace(atom, qualifiers=atom.qualifiers + data.draw(more)) if i == chosen else atom for i, atom in enumerate(query.all_atoms)]
    any_ = [replace(atom, qualifiers=atom.qualifiers + data.draw(more)) for atom in query.all_atoms]
    none = [replace(atom, qualifiers=()) for atom in query.all_atoms]
    answers = {name: set(answer(known, Query.conjunction(atoms, "t"))) for name, atoms in (("one", one), ("any", any_), ("none", none))}
    plain = set(answer(known, query))
    assert answers["one"] <= plain
    assert answers["any"] <= plain
    assert plain <= answers["none"]


@pytest.mark.full
@given(st.data())
def test_a_table_and_its_queries_have_the_same_answers(data):
    graph = data.draw(graphs())
    shape = data.draw(st.sampled_from(sorted(SHAPES)))
    entity = st.sampled_from(list(graph.entities))
    relation = st.sampled_from([relation for relation in graph.relations if relation in "rs"])
    pairs = sorted({pair for statement in graph.statements(*ALL) for pair in statement.qualifiers})
    some_pairs = st.lists(st.sampled_from(pairs), max_size=2) if pairs else st.just([])
    anchors, edges = len(SHAPES[shape].anchors), len(SHAPES[shape].edges)
    sizes = {"min_size": edges, "max_size": edges}
    row = st.tuples(st.lists(entity, min_size=anchors, max_size=anchors), st.lists(relation, **sizes), st.lists(some_pairs, **sizes))
    table = table_of(data.draw(st.lists(row, min_size=1, max_size=5)), shape, graph)
    known = graph.known(("train", "valid"))
    answers = answer_rows(known, table)
    for i in range(len(table)):
        assert answers[i].tolist() == answer(known, query_of_row(table, i, graph)).tolist()


def test_wd50k_is_answered_in_milliseconds(wd50k):
    graph = wd50k
    known = graph.known(ALL)
    qualified = np.flatnonzero(graph.pairs.counts)
    random = np.random.default_rng(0)
    asked = []
    while len(asked) < 1000:
        last = int(random.choice(qualified))
        before = known.by_tail(graph.head[last])
        if len(before):
            first = graph.statement(int(random.choice(before)))
            second = graph.statement(last)
            atoms = Atom(first.head, first.relation, X, first.qualifiers), Atom(X, second.relation, T, second.qualifiers[:1])
            asked.append((Query.conjunction(atoms, "t"), second.tail))
    answer(known, asked[0][0])
    start = time.perf_counter()
    found = [answer(known, query) for query, _ in asked]
    seconds = time.perf_counter() - start
    assert all(graph.entities.id(expected) in ids for ids, (_, expected) in zip(found, asked, strict=True))
    assert seconds < 5


def _two_hops(person: str) -> QueryTable:
    return table_of_query(Query.conjunction([Atom(person, "educatedAt", X), Atom(X, "locatedIn", T)], "t"), GRAPH)


def test_the_derivations_of_a_table_name_every_node():
    table = stack([_two_hops("Curie"), _two_hops("Einstein")])
    expected = [
        *((0, "Curie", *pair) for pair in (("ETH", "Switzerland"), ("ETH", "Zurich"), ("Sorbonne", "Paris"))),
        *((1, "Einstein", *pair) for pair in (("ETH", "Switzerland"), ("ETH", "Zurich"), ("UZH", "Zurich"))),
    ]
    for limit in (1_000_000, 4):  # at once, and in halves
        place, nodes = derivation_rows(GRAPH.known(ALL), table, max_rows=limit)
        assert sorted(zip(place.tolist(), *(names(nodes[node]) for node in table.shape.nodes), strict=True)) == sorted(expected)


def test_derivations_may_leave_edges_out_and_be_given_more_nodes():
    table = stack([_two_hops("Curie"), _two_hops("Einstein")])
    zurich = np.array([GRAPH.entities.id("Zurich")] * 2)
    place, nodes = derivation_rows(GRAPH.known(ALL), table, given={"?": zurich})
    assert list(zip(place.tolist(), names(nodes["x"]), strict=True)) == [(0, "ETH"), (1, "ETH"), (1, "UZH")]
    place, nodes = derivation_rows(GRAPH.known(["train"]), table, [0], edges=[1], given={"?": zurich[:1]})
    assert (place.tolist(), names(nodes["x"]), names(nodes["A"])) == ([0, 0], ["ETH", "UZH"], ["Curie", "Curie"])
    _, nodes = derivation_rows(GRAPH.known(ALL), table, [0], edges=[0])
    assert "?" not in nodes  # nothing binds it
