import inspect

import numpy as np
import pytest

from starqe.errors import InputError
from starqe.kg import Graph, Known, Statement, graph_of

TRAIN = [Statement("a", "r", "b", (("q", "v"), ("q", "w"))), Statement("a", "r", "b")]
VALID, TEST = [Statement("b", "r", "c")], [Statement("c", "s", "a", (("q", "a"),))]
GRAPH = graph_of(TRAIN, VALID, TEST)  # entities a b c v w are 0 … 4, relations q r s are 0 … 2


def test_the_columns_are_small_integers_in_canonical_order():
    assert [column.tolist() for column in (GRAPH.head, GRAPH.relation, GRAPH.tail, GRAPH.split)] == [
        [0, 0, 1, 2],
        [1, 1, 1, 2],
        [1, 1, 2, 0],
        [0, 0, 1, 2],
    ]
    assert GRAPH.pairs.offsets.tolist() == [0, 0, 2, 2, 3]
    assert GRAPH.pair_relation.tolist() == [0, 0, 0]
    assert GRAPH.pair_value.tolist() == [3, 4, 0]
    assert GRAPH.pairs.owner.tolist() == [1, 1, 3]
    columns = (GRAPH.head, GRAPH.relation, GRAPH.tail, GRAPH.pair_relation, GRAPH.pair_value, GRAPH.split, GRAPH.pairs.offsets)
    assert [column.dtype for column in columns] == [np.int32] * 5 + [np.int8, np.int64]


def test_statements_come_back_by_their_split():
    assert len(GRAPH) == 4
    assert list(GRAPH.statements("train")) == [TRAIN[1], TRAIN[0]]
    assert list(GRAPH.statements("valid", "test")) == VALID + TEST
    assert GRAPH.statement(3) == TEST[0]
    assert GRAPH.pairs_of(1) == [(0, 3), (0, 4)]


def test_the_splits_that_count_as_known_have_no_default():
    assert inspect.signature(Graph.known).parameters["splits"].default is inspect.Parameter.empty
    assert [name for name in dir(Known) if name.startswith(("by_", "holds", "degree")) and hasattr(Graph, name)] == []
    with pytest.raises(InputError, match=r"splits are one or more of train, valid, test, found \(\)"):
        list(GRAPH.statements())


@pytest.mark.parametrize("splits", [[], "train", ["trian"], ["train", "all"]])
def test_splits_are_named_exactly(splits):
    with pytest.raises(InputError, match="splits are one or more of train, valid, test, found"):
        GRAPH.known(splits)


def test_look_ups_are_made_once_whatever_the_order_of_the_splits():
    assert GRAPH.known(["train", "valid"]) is GRAPH.known(("valid", "train", "train"))
    assert GRAPH.known(["train"]) is not GRAPH.known(["valid"])


def test_the_fingerprint_distinguishes_statements_qualifiers_and_splits():
    graphs = [
        GRAPH,
        graph_of(TRAIN, VALID),
        graph_of(TRAIN + VALID, [], TEST),
        graph_of([TRAIN[0]], VALID, TEST),
        graph_of([TRAIN[1], Statement("a", "r", "b", (("q", "v"),)), Statement("a", "r", "b", (("q", "w"),))], VALID, TEST),
        graph_of([TRAIN[1], Statement("b", "r", "a", (("q", "v"), ("q", "w")))], VALID, TEST),
    ]
    assert len({graph.fingerprint for graph in graphs}) == len(graphs)
    assert graph_of(TRAIN, VALID, TEST).fingerprint == GRAPH.fingerprint


def test_the_fingerprint_is_the_same_in_every_version():
    assert GRAPH.fingerprint == "8763c8edc5b4d43f17bbac0c832b91452d813190facc0c5ba0c91a88f22cfd70"


def test_the_vocabulary_fingerprint_does_not_depend_on_the_statements():
    other = graph_of([*VALID, *TEST], TRAIN)
    assert other.vocabulary_fingerprint == GRAPH.vocabulary_fingerprint
    assert other.fingerprint != GRAPH.fingerprint
    assert graph_of(VALID).vocabulary_fingerprint != GRAPH.vocabulary_fingerprint


def test_a_graph_shows_what_it_has():
    assert repr(GRAPH) == f"Graph(4 statements, 5 entities, 3 relations, {GRAPH.fingerprint[:12]})"
