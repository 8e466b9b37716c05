"""Protocols: which answers are ranked and which are filtered, on a graph small enough to see."""

from dataclasses import replace

import numpy as np
import pytest
from tests.columns import query_table

from starqe.errors import MismatchError, UnsupportedError
from starqe.kg import Graph, Statement, graph_of
from starqe.measure.ranking_protocols import PROTOCOLS, Task
from starqe.queries.shape import SHAPES
from starqe.queries.table import QueryTable

PAIR = (("q", "v"),)


@pytest.fixture(scope="module")
def graph() -> Graph:
    """One new tail of (a, r) in every split; (b, r, x) is in test and already in train."""
    return graph_of(
        train=[Statement("a", "r", "x", PAIR), Statement("b", "r", "x", PAIR), Statement("a", "r", "w")],
        valid=[Statement("a", "r", "y", PAIR)],
        test=[Statement("a", "r", "z", PAIR), Statement("b", "r", "x", PAIR)],
    )


def table(graph: Graph, split: str, queries: dict[str, list[str]]) -> QueryTable:
    """The queries ``(anchor, r, ?) with q=v`` with their listed answers."""
    ids, n = graph.entities.id, len(queries)
    return query_table(
        SHAPES["1p"],
        np.array([[ids(anchor)] for anchor in queries], np.int32),
        np.full((n, 1), graph.relations.id("r"), np.int32),
        np.arange(n + 1),
        np.full(n, graph.relations.id("q"), np.int32),
        np.full(n, ids("v"), np.int32),
        np.cumsum([0, *map(len, queries.values())]),
        np.array([ids(answer) for answers in queries.values() for answer in answers], np.int32),
        {"split": split, "fingerprint": graph.fingerprint},
    )


def named(graph: Graph, task: Task) -> list[tuple[int, list[str], list[str]]]:
    name = graph.entities.identifier
    parts = [(task.ranked[i], task.filtered[i]) for i in range(len(task.rows))]
    return [(int(row), [*map(name, ranked)], [*map(name, held)]) for row, (ranked, held) in zip(task.rows, parts, strict=True)]


def test_paper_ranks_and_filters_the_listed_answers_only(graph: Graph):
    task = PROTOCOLS["paper"](None, table(graph, "test", {"b": ["x"], "a": ["z"]}), np.array([1, 0]))
    assert named(graph, task) == [(1, ["z"], ["z"]), (0, ["x"], ["x"])]
    assert task.dropped == 0


def test_strict_ranks_what_needs_the_new_split_and_filters_all_answers(graph: Graph):
    test = PROTOCOLS["strict"](graph, table(graph, "test", {"a": ["z"]}), np.array([0]))
    valid = PROTOCOLS["strict"](graph, table(graph, "valid", {"a": ["y"]}), np.array([0]))
    assert named(graph, test) == [(0, ["z"], ["x", "y", "z"])]
    assert named(graph, valid) == [(0, ["y"], ["x", "y"])]  # nothing of the test split, and w has not the pair


def test_strict_drops_and_counts_queries_without_a_hard_answer(graph: Graph):
    task = PROTOCOLS["strict"](graph, table(graph, "test", {"b": ["x"], "a": ["z"], "x": []}), np.arange(3))
    assert named(graph, task) == [(1, ["z"], ["x", "y", "z"])]
    assert task.dropped == 2


def test_strict_is_refused_for_training_queries(graph: Graph):
    with pytest.raises(UnsupportedError, match="found 'train'"):
        PROTOCOLS["strict"](graph, table(graph, "train", {"a": ["x"]}), np.array([0]))


def test_strict_is_refused_without_a_graph(graph: Graph):
    with pytest.raises(UnsupportedError, match="needs the graph"):
        PROTOCOLS["strict"](None, table(graph, "test", {"a": ["z"]}), np.array([0]))


def test_strict_is_refused_with_another_graph(graph: Graph):
    foreign = replace(table(graph, "test", {"a": ["z"]}), header={"split": "test", "fingerprint": "f" * 64})
    with pytest.raises(MismatchError, match="ffffffffffff"):
        PROTOCOLS["strict"](graph, foreign, np.array([0]))
