import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starqe.kg import SPLITS, Graph, Known, Statement, graph_of
from starqe.kg.known import is_among
from starqe.ragged import Ragged
from tests.kg.strategies import graphs

# Entities a b c v w are 0 … 4, relations q r are 0 and 1; rows in this order.
GRAPH = graph_of(
    [Statement("a", "r", "b", (("q", "v"),)), Statement("a", "r", "b", (("q", "w"),)), Statement("a", "r", "c")],
    valid=[Statement("b", "r", "c", (("q", "v"), ("q", "w")))],
    test=[Statement("c", "q", "a", (("r", "b"),))],
)
A, B, C, V, W = range(5)
Q, R = range(2)

splits = st.sets(st.sampled_from(SPLITS), min_size=1).map(sorted)


def scan(graph: Graph, known_splits: list[str]) -> list[tuple[int, int, int, int, set[tuple[int, int]]]]:
    """Lists the known statements the plain way: row, head, relation, tail, pairs."""
    rows = [row for row in range(len(graph)) if SPLITS[graph.split[row]] in known_splits]
    return [(row, int(graph.head[row]), int(graph.relation[row]), int(graph.tail[row]), set(graph.pairs_of(row))) for row in rows]


def test_look_ups_by_head_tail_relation_and_qualifier():
    known = GRAPH.known(["train", "valid"])
    assert known.by_head(A).tolist() == [0, 1, 2]
    assert known.by_head(A, R).tolist() == [0, 1, 2]
    assert known.by_head(A, Q).tolist() == []
    assert known.by_tail(C).tolist() == [2, 3]
    assert known.by_tail(C, R).tolist() == [2, 3]
    assert known.by_relation(R).tolist() == [0, 1, 2, 3]
    assert known.by_qualifier(Q, V).tolist() == [0, 3]
    assert known.by_qualifier(R, B).tolist() == []
    assert [column.tolist() for column in known.pairs_of(Q)] == [[0, 3, 1, 3], [V, V, W, W]]
    assert [column.tolist() for column in known.pairs_of(R)] == [[], []]
    assert len(known) == 4


@pytest.mark.parametrize("node", [-2, -1, 5, 2**40])
def test_a_node_that_the_graph_does_not_have_has_no_statements(node):
    known = GRAPH.known(SPLITS)
    assert known.by_head(node).tolist() == known.by_tail(node).tolist() == known.by_head(node, Q).tolist() == []


def test_the_test_split_is_seen_only_when_it_is_named():
    assert not GRAPH.known(["train", "valid"]).holds(C, Q, A)
    assert GRAPH.known(["test"]).holds(C, Q, A)
    assert GRAPH.known(["train"]).by_tail(C).tolist() == [2]
    assert GRAPH.known(["train"]).by_qualifier(Q, V).tolist() == [0]


def test_one_statement_must_have_all_the_pairs():
    known = GRAPH.known(SPLITS)
    assert known.holds(A, R, B, [(Q, V)])
    assert known.holds(A, R, B, [(Q, W)])
    assert not known.holds(A, R, B, [(Q, V), (Q, W)])  # each pair is on a statement of its own
    assert known.holds(B, R, C, [(Q, V), (Q, W)])


def test_a_statement_holds_with_any_subset_of_its_pairs():
    known = GRAPH.known(["valid"])
    assert all(known.holds(B, R, C, pairs) for pairs in ([], [(Q, V)], [(Q, W)], [(Q, W), (Q, V)]))


def test_degrees_count_known_statements():
    known = GRAPH.known(["train", "valid"])
    assert known.degree("head").tolist() == [3, 1, 0, 0, 0]
    assert known.degree("tail").tolist() == [0, 2, 2, 0, 0]
    assert GRAPH.known(["test"]).degree("tail").tolist() == [1, 0, 0, 0, 0]


@given(graphs(labels=False), splits)
def test_look_ups_equal_a_scan_over_all_statements(graph, known_splits):
    known, facts = graph.known(known_splits), scan(graph, known_splits)
    assert known.rows.tolist() == [fact[0] for fact in facts]
    for entity in range(len(graph.entities)):
        assert known.by_head(entity).tolist() == [row for row, head, *_ in facts if head == entity]
        assert known.by_tail(entity).tolist() == [row for row, _, _, tail, _ in facts if tail == entity]
        assert known.degree("head")[entity] == len(known.by_head(entity))
        assert known.degree("tail")[entity] == len(known.by_tail(entity))
        for relation in range(len(graph.relations)):
            assert known.by_head(entity, relation).tolist() == [row for row, *key, _, _ in facts if key == [entity, relation]]
            assert known.by_tail(entity, relation).tolist() == [row for row, _, *key, _ in facts if key == [relation, entity]]
            assert known.by_qualifier(relation, entity).tolist() == [row for row, *_, pairs in facts if (relation, entity) in pairs]
    for relation in range(len(graph.relations)):
        assert known.by_relation(relation).tolist() == [row for row, _, main, _, _ in facts if main == relation]


@st.composite
def asked(draw: st.DrawFn) -> tuple[Graph, list[str], tuple[int, int, int], list[tuple[int, int]]]:
    """Draws a graph, splits, and a statement that is near to one of the graph, so that both outcomes are common."""
    graph = draw(graphs(labels=False))
    row = draw(st.integers(0, len(graph) - 1))
    entity, relation = st.integers(0, len(graph.entities) - 1), st.integers(0, len(graph.relations) - 1)
    pairs = st.lists(st.sampled_from(graph.pairs_of(row)) if graph.pairs_of(row) else st.tuples(relation, entity), max_size=3)
    extra = draw(st.lists(st.tuples(relation, entity), max_size=1))
    tail = draw(st.just(int(graph.tail[row])) | entity)
    return graph, draw(splits), (int(graph.head[row]), int(graph.relation[row]), tail), draw(pairs) + extra


@given(asked())
def test_membership_equals_a_scan_over_all_statements(case):
    graph, known_splits, triple, pairs = case
    expected = any((head, relation, tail) == triple and set(pairs) <= own for _, head, relation, tail, own in scan(graph, known_splits))
    assert graph.known(known_splits).holds(*triple, pairs) == expected


@given(asked(), st.data())
def test_adding_a_qualifier_never_makes_a_false_statement_true(case, data):
    graph, known_splits, triple, pairs = case
    known = graph.known(known_splits)
    more = (data.draw(st.integers(0, len(graph.relations) - 1)), data.draw(st.integers(0, len(graph.entities) - 1)))
    assert known.holds(*triple, pairs) or not known.holds(*triple, [*pairs, more])


@given(graphs(labels=False), splits, st.sampled_from(["head", "tail"]))
def test_expanding_many_nodes_equals_looking_up_each(graph, known_splits, side):
    known, nodes = graph.known(known_splits), np.arange(len(graph.entities))
    look_up = known.by_head if side == "head" else known.by_tail
    for relation in range(len(graph.relations)):
        position, rows = known.expand(side, nodes, relation)
        assert list(zip(position, rows, strict=True)) == [(node, row) for node in nodes for row in look_up(node, relation)]
        assert known.count(side, nodes, relation) == len(rows)


@pytest.mark.parametrize("kind", [int, np.int32, np.int64])
def test_ids_of_any_integer_type_are_looked_up_without_overflow(kind):
    # 70,000 relations times 70,002 entities is beyond 32 bits; only columns are needed here, and the vocabularies' sizes.
    size = 70_000
    column = np.array([size - 1], np.int32)
    zero = np.zeros(1, np.int8)
    graph = Graph(range(size + 2), range(size), column, column, column, zero, Ragged(np.array([0, 1]), np.stack([column, column], axis=1)))  # type: ignore[arg-type]
    known = Known(graph, np.array([0]))
    last = kind(size - 1)
    assert known.by_qualifier(last, last).tolist() == [0]
    assert known.by_head(last, last).tolist() == [0]
    assert known.holds(last, last, last, [(last, last)])


@given(st.lists(st.integers(0, 9)), st.sets(st.integers(0, 9)))
def test_membership_in_an_ascending_array_is_that_of_a_set(values, among):
    found = is_among(np.array(values, np.int64), np.array(sorted(among), np.int64))
    assert found.tolist() == [value in among for value in values]


def test_many_nodes_at_once_are_looked_up_as_one_by_one():
    random = np.random.default_rng(0)
    triples = {(f"e{h:02d}", f"r{r}", f"e{t:02d}") for h, r, t in zip(*random.integers(0, [40, 3, 40], (90, 3)).T, strict=True)}
    graph = graph_of([Statement(*triple) for triple in sorted(triples)])
    known = graph.known(["train"])
    nodes, relations = random.integers(0, len(graph.entities), 600).astype(np.int32), random.integers(0, 3, 600)
    for side, column in (("head", graph.head), ("tail", graph.tail)):
        expected = [int(((column == node) & (graph.relation == relation)).sum()) for node, relation in zip(nodes, relations, strict=True)]
        assert known.counts(side, nodes, relations).tolist() == expected
        found, rows = known.draw(side, nodes, random)
        assert found.tolist() == [place for place, node in enumerate(nodes) if node in column]
        assert (column[rows] == nodes[found]).all()
        assert len(set(rows.tolist())) > len(set(nodes.tolist()))  # not always the first statement of a node
