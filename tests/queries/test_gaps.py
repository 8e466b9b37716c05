import numpy as np
import pytest

from starqe.errors import InputError, UnsupportedError
from starqe.queries import SHAPES, QueryTable, Shape
from starqe.queries.gaps import HEAD, MISSING, RELATION, TAIL, VALUE, Gaps, gaps_of, queries_by_side, queries_of, stack_gaps
from starqe.queries.shape import INVERSE
from tests.columns import columns_of, query_table
from tests.reason.predicted import gaps, tiny_graph

GRAPH = tiny_graph()
FOUR = gaps(
    GRAPH,
    ("a", "r", "?", {"q": "x", "p": "z"}),
    ("?", "s", "c", {}),
    ("a", "?", "c", {"q": "y"}),
    ("a", "r", "c", {"q": "x", "p": "?"}),
)


def one_hop(shape: Shape) -> QueryTable:
    """Two queries: of 7 by relation 1 with the pair (2, 3) and the answers 4, 5, and of 8 by relation 0 with no pair and the answer 6."""
    return query_table(
        shape,
        np.array([[7], [8]], np.int32),
        np.array([[1], [0]], np.int32),
        np.array([0, 1, 1]),
        np.array([2], np.int32),
        np.array([3], np.int32),
        np.array([0, 2, 3]),
        np.array([4, 5, 6], np.int32),
    )


def test_the_position_of_a_gap_is_where_something_is_missing():
    assert FOUR.position.tolist() == [TAIL, HEAD, RELATION, VALUE]


@pytest.mark.parametrize("wrong", [("a", "r", "c", {"q": "x"}), ("?", "r", "?", {}), ("?", "r", "c", {"q": "?"})])
def test_a_statement_lacks_one_thing_and_no_more(wrong):
    with pytest.raises(InputError, match=r"lacks one part, found [02] missing in statement 1"):
        gaps(GRAPH, ("a", "r", "?", {}), wrong)


def test_rows_are_taken_in_the_order_given_with_their_pairs_and_answers():
    table = gaps_of(one_hop(SHAPES["1p"]), [1, 0, 1])
    assert table.head.tolist() == [8, 7, 8]
    assert table.pairs.offsets.tolist() == [0, 0, 1, 1]
    assert table.answers.items.tolist() == [6, 4, 5, 6]


def test_a_query_of_one_edge_lacks_its_tail_and_an_inverse_one_its_head():
    forward, inverse = (gaps_of(one_hop(shape), [0, 1]) for shape in (SHAPES["1p"], INVERSE))
    assert (forward.head.tolist(), forward.tail.tolist()) == ([7, 8], [MISSING, MISSING])
    assert (inverse.head.tolist(), inverse.tail.tolist()) == ([MISSING, MISSING], [7, 8])
    assert inverse.relation.tolist() == [1, 0]
    assert (inverse.pair_relation.tolist(), inverse.pair_value.tolist()) == ([2], [3])


def test_a_shape_is_known_by_its_edge_and_not_by_its_name():
    assert gaps_of(one_hop(Shape.parse("mine", "?>B")), [0]).position.tolist() == [HEAD]


@pytest.mark.parametrize("shape", [SHAPES["1p"], INVERSE])
def test_gaps_of_ends_become_the_queries_that_they_came_from(shape):
    table = one_hop(shape)
    back = queries_of(gaps_of(table, [0, 1]))
    assert back.shape == shape
    assert columns_of(back) == columns_of(table)


def test_gaps_at_both_ends_become_one_table_per_side_and_keep_their_places():
    forward, inverse = gaps_of(one_hop(SHAPES["1p"]), [0, 1]), gaps_of(one_hop(INVERSE), [0, 1])
    mixed = stack_gaps([forward, inverse]).take([2, 0, 3, 1])
    parts, order = queries_by_side(mixed, (TAIL, HEAD))
    assert [(table.shape, rows.tolist()) for table, rows in parts] == [(SHAPES["1p"], [0, 1]), (INVERSE, [0, 1])]
    assert [columns_of(table) for table, _ in parts] == [columns_of(one_hop(shape)) for shape in (SHAPES["1p"], INVERSE)]
    assert order.tolist() == [2, 0, 3, 1]
    (alone,), order = queries_by_side(inverse)
    assert (alone[0].shape, order.tolist()) == (INVERSE, [0, 1])


def test_longer_queries_are_refused_by_name():
    table = query_table(
        SHAPES["2p"],
        np.array([[0]], np.int32),
        np.array([[0, 0]], np.int32),
        np.zeros(3, np.int64),
        *(np.empty(0, np.int32),) * 2,
        np.zeros(2, np.int64),
        np.empty(0, np.int32),
    )
    with pytest.raises(UnsupportedError, match=r"queries of one edge .*found the shape '2p' \(A>x x>\?\)"):
        gaps_of(table, [0])


def test_ids_outside_the_vocabulary_are_refused():
    FOUR.check(len(GRAPH.entities), len(GRAPH.relations))
    with pytest.raises(InputError, match="an entity is an id from 0 to 2, found"):
        FOUR.check(3, len(GRAPH.relations))
    with pytest.raises(InputError, match="a relation is an id from 0 to 1, found"):
        FOUR.check(len(GRAPH.entities), 2)


def test_gaps_stack():
    both = stack_gaps([FOUR.take([3]), FOUR.take([0, 1])])
    assert both.position.tolist() == [VALUE, TAIL, HEAD]
    assert both.pairs.offsets.tolist() == [0, 2, 4, 4]
    assert isinstance(both, Gaps)
