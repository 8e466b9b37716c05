import numpy as np
import pytest

from starqe.errors import InputError
from starqe.model import Space, collate


def described(batch, query):
    """Describes one query of a batch by input rows: its edges with their pairs, as a set."""
    row = batch.node.tolist()
    edges = set()
    for edge, (head, tail, relation) in enumerate(zip(batch.edge_head, batch.edge_tail, batch.edge_relation, strict=True)):
        if batch.query_of_node[head] == query:
            pairs = [(int(r), row[n]) for e, r, n in zip(batch.pair_edge, batch.pair_relation, batch.pair_node, strict=True) if e == edge]
            edges.add((row[head], int(relation), row[tail], tuple(pairs)))
    return edges


def test_a_chain_becomes_nodes_and_edges(table, space):
    batch = collate([(table("A>x x>?", [[4]], [[2, 0]], [[[(1, 3)], []]], [[5, 2]]), np.array([0]))], space)
    variable, target = 6, 7
    assert described(batch, 0) == {(4, 2, variable, ((1, 3),)), (variable, 0, target, ())}
    assert sorted(batch.node.tolist()) == [3, 4, variable, target]
    assert batch.node[batch.target].tolist() == [target]
    assert batch.diameter.tolist() == [2]
    assert batch.node[~batch.on_edge].tolist() == [3]
    assert (batch.answer_offsets.tolist(), batch.answers.tolist()) == ([0, 2], [5, 2])


def test_rows_of_several_shapes_keep_their_order(mixed, space):
    (chain, _), (join, _), *_ = mixed
    batch = collate([(join, np.array([1])), (chain, np.array([1, 0]))], space)
    assert described(batch, 0) == {(1, 2, 7, ()), (2, 0, 7, ((0, 3),))}
    assert described(batch, 1) == {(4, 2, 6, ((0, 4), (1, 5))), (6, 2, 7, ((2, 1),))}
    assert described(batch, 2) == {(0, 0, 6, ((2, 3),)), (6, 1, 7, ())}
    assert batch.diameter.tolist() == [2, 2, 2]
    assert batch.answers.tolist() == [0, 4, 5, 5, 1, 2]
    assert batch.answer_offsets.tolist() == [0, 3, 4, 6]


def test_an_entity_is_one_node_of_a_query(table, space):
    twice = table("A>? B>?", [[0, 0], [0, 1]], [[0, 1], [0, 1]], [[[(1, 0)], []], [[(1, 1)], []]])
    batch = collate([(twice, np.array([0, 1]))], space)
    assert sorted(batch.node[batch.query_of_node == 0].tolist()) == [0, 7]
    assert sorted(batch.node[batch.query_of_node == 1].tolist()) == [0, 1, 7]
    assert len(set(batch.edge_head[:2].tolist())) == 1
    assert batch.pair_node[0] == batch.edge_head[0]
    assert batch.on_edge.all()


def test_two_variables_are_two_nodes(table, space):
    batch = collate([(table("A>x x>y y>?", [[1]], [[0, 1, 2]], [[[], [], []]]), np.array([0]))], space)
    assert sorted(batch.node.tolist()) == [1, 6, 6, 7]


def test_an_inverse_query_is_an_edge_from_the_target(table, space):
    batch = collate([(table("?>A", [[2]], [[1]], [[[]]]), np.array([0]))], space)
    assert described(batch, 0) == {(7, 1, 2, ())}


def test_a_reified_query_names_relation_nodes(table):
    space = Space(entities=6, relations=3, reified=True)
    batch = collate([(table("_b>A _b>B _b>?", [[5, 6 + 2]], [[3, 4, 5]], [[[], [], []]]), np.array([0]))], space)
    blank, target = 6 + 3 + 2, 6 + 3 + 1
    assert described(batch, 0) == {(blank, 3, 5, ()), (blank, 4, 8, ()), (blank, 5, target, ())}


@pytest.mark.parametrize(
    ("anchors", "relations", "pair", "message"),
    [
        ([[6]], [[0]], (0, 0), "an anchor or a qualifier value is an id from 0 to 5, found 6"),
        ([[0]], [[0]], (0, -1), "an anchor or a qualifier value is an id from 0 to 5, found -1"),
        ([[0]], [[3]], (0, 0), "a relation is an id from 0 to 2, found 3"),
        ([[0]], [[0]], (3, 0), "a qualifier relation is an id from 0 to 2, found 3"),
    ],
)
def test_ids_of_another_graph_are_refused(table, space, anchors, relations, pair, message):
    with pytest.raises(InputError, match=message):
        collate([(table("A>?", anchors, relations, [[[pair]]]), np.array([0]))], space)


def test_an_empty_batch_is_refused(mixed, space):
    with pytest.raises(InputError, match="at least one query"):
        collate([(mixed[0][0], np.array([], np.int64))], space)


def test_a_batch_moves_to_a_device(mixed_batch):
    moved = mixed_batch.to("meta")
    assert moved.node.device.type == "meta"
    assert len(moved) == len(mixed_batch) == 10
