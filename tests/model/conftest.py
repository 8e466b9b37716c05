from collections.abc import Callable, Sequence

import numpy as np
import pytest
from tests.columns import query_table

from starqe.model import Batch, Space, collate
from starqe.queries.shape import Shape
from starqe.queries.table import QueryTable

Pairs = Sequence[Sequence[Sequence[tuple[int, int]]]]


def small_table(edges: str, anchors: Sequence, relations: Sequence, pairs: Pairs, answers: Sequence | None = None) -> QueryTable:
    """Writes a table down: for each query its anchors, its relations, the pairs of each edge, its answers."""
    shape = Shape.parse("small", edges)
    flat = [pair for query in pairs for edge in query for pair in edge]
    answers = answers or [[0] for _ in anchors]
    return query_table(
        shape,
        np.array(anchors, np.int32),
        np.array(relations, np.int32),
        np.cumsum([0] + [len(edge) for query in pairs for edge in query]),
        np.array([relation for relation, _ in flat], np.int32),
        np.array([value for _, value in flat], np.int32),
        np.cumsum([0] + [len(own) for own in answers]),
        np.array([answer for own in answers for answer in own], np.int32),
    )


@pytest.fixture
def table() -> Callable[..., QueryTable]:
    return small_table


SPACE = Space(entities=6, relations=3)
MIXED = {
    "chain": small_table("A>x x>?", [[0], [4]], [[0, 1], [2, 2]], [[[(2, 3)], []], [[(0, 4), (1, 5)], [(2, 1)]]], [[1, 2], [5]]),
    "join": small_table("A>? B>?", [[0, 0], [1, 2]], [[0, 1], [2, 0]], [[[(1, 0)], [(1, 2)]], [[], [(0, 3)]]], [[3], [0, 4, 5]]),
    "inverse": small_table("?>A", [[5], [3]], [[1], [2]], [[[]], [[(0, 1)]]], [[2], [1]]),
    "fan": small_table(  # enough messages into one node for attention scores of both signs
        "?>A ?>B ?>C", [[1, 4, 0], [2, 5, 3], [0, 1, 5]], [[0, 2, 1], [1, 1, 2], [0, 0, 2]], [[[(1, 3)], [], [(0, 5)]]] * 3, [[0], [1], [2]]
    ),
    "blank": small_table("_b>A _b>x x>?", [[2]], [[0, 1, 2]], [[[(2, 5)], [], []]], [[4]]),
}


@pytest.fixture
def space() -> Space:
    return SPACE


@pytest.fixture
def mixed() -> list[tuple[QueryTable, np.ndarray]]:
    return [(part, np.arange(len(part))) for part in MIXED.values()]


@pytest.fixture
def mixed_batch(mixed: list[tuple[QueryTable, np.ndarray]]) -> Batch:
    return collate(mixed, SPACE)
