import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starqe.errors import InputError, UnsupportedError
from starqe.queries.shape import SHAPES, Shape
from starqe.queries.table import QueryTable, load_table, save_table
from starqe.queries.variants import Reified, reify, triple_only, unreify
from tests.columns import columns_of, query_table

ENTITIES, RELATIONS = 100, 10

# 2p: (entity 7) -3{5: 50}-> x -4-> ?, answers 1 and 2; and (entity 8) -3-> x -4{6: 60, 7: 70}-> ?, answer 9.
TABLE = query_table(
    SHAPES["2p"],
    np.array([[7], [8]], np.int32),
    np.array([[3, 4], [3, 4]], np.int32),
    np.array([0, 1, 1, 1, 3]),
    np.array([5, 6, 7], np.int32),
    np.array([50, 60, 70], np.int32),
    np.array([0, 2, 3]),
    np.array([1, 2, 9], np.int32),
    {"split": "train"},
)


def assert_equal(one: QueryTable, other: QueryTable) -> None:
    assert one.shape == other.shape
    assert one.header == other.header
    assert columns_of(one) == columns_of(other)
    assert one.pairs.items.dtype == other.pairs.items.dtype == one.answers.items.dtype == np.int32


def test_triple_only_takes_the_pairs_and_nothing_else():
    plain = triple_only(TABLE)
    assert [plain.pairs_of(row, edge) for row in range(2) for edge in range(2)] == [[], [], [], []]
    assert plain.anchors.tolist() == [[7], [8]]
    assert plain.relations.tolist() == [[3, 4], [3, 4]]
    assert plain.answers[0].tolist() == [1, 2]
    assert plain.header == {"split": "train", "variant": "triple only"}


def test_reification_is_three_triples_an_edge_and_one_a_pair():
    second, first = reify(TABLE, ENTITIES, RELATIONS)  # in the order of the numbers of pairs: (0, 2), (1, 0)
    assert first.rows.tolist() == [0]
    assert first.table.shape == Shape.parse("2p-reified-1-0", "_0>A _0>P0 _0>x _0>V0x0 _1>x _1>P1 _1>?")
    assert first.table.shape.anchors == ("A", "P0", "V0x0", "P1")
    assert first.table.anchors.tolist() == [[7, 103, 50, 104]]
    assert first.table.relations.tolist() == [[10, 11, 12, 5, 10, 11, 12]]
    assert first.table.answers[0].tolist() == [1, 2]
    assert second.rows.tolist() == [1]
    assert second.table.shape.text == "_0>A _0>P0 _0>x _1>x _1>P1 _1>? _1>V1x0 _1>V1x1"
    assert second.table.relations.tolist() == [[10, 11, 12, 10, 11, 12, 6, 7]]
    assert len(first.table.pair_relation) == len(second.table.pair_relation) == 0


def test_a_reified_shape_has_its_own_diameter():
    # A - _0 - x - _1 - ? is twice as long as A - x - ?.
    assert SHAPES["2p"].diameter == 2
    assert {part.table.shape.diameter for part in reify(TABLE, ENTITIES, RELATIONS)} == {4}


def test_new_nodes_never_take_the_name_of_an_old_one():
    shape = Shape.parse("mine", "P0>x V0x0>x x>?")
    table = query_table(shape, np.array([[1, 2]], np.int32), np.array([[0, 1, 2]], np.int32), np.array([0, 1, 1, 1]), *TABLE_ENDS)
    (part,) = reify(table, ENTITIES, RELATIONS)
    assert part.table.shape.text == "_0>P0 _0>PP0 _0>x _0>VV0x0 _1>V0x0 _1>PP1 _1>x _2>x _2>PP2 _2>?"
    assert_equal(unreify([part]), table)


TABLE_ENDS = np.array([5], np.int32), np.array([50], np.int32), np.array([0, 0]), np.empty(0, np.int32)


def test_both_variants_are_saved_like_any_table(tmp_path):
    for table in (triple_only(TABLE), *(part.table for part in reify(TABLE, ENTITIES, RELATIONS))):
        save_table(table, tmp_path / "table.parquet")
        assert_equal(load_table(tmp_path / "table.parquet"), table)


def test_a_reified_table_is_not_reified_again():
    with pytest.raises(UnsupportedError, match="shape '2p-reified-0-2' has blank nodes already"):
        reify(reify(TABLE, ENTITIES, RELATIONS)[0].table, ENTITIES, RELATIONS)


def test_undoing_what_is_not_a_whole_reification_is_refused():
    parts = reify(TABLE, ENTITIES, RELATIONS)
    with pytest.raises(InputError, match="takes a reified table, found shape '2p'"):
        unreify([Reified(TABLE, np.arange(2))])
    for some in ([], parts[:1], [*parts, parts[0]]):
        with pytest.raises(InputError, match="takes all the parts of one table"):
            unreify(some)


@st.composite
def tables(draw: st.DrawFn) -> QueryTable:
    shape = draw(st.sampled_from([*SHAPES.values(), Shape.parse("mine", "A>x P0>x x>y y>? ?>y")]))
    n, anchors, edges = draw(st.integers(0, 6)), len(shape.anchors), len(shape.edges)
    ids = st.integers(0, RELATIONS - 1)

    def numbers(count: int | np.int64) -> np.ndarray:
        return np.array(draw(st.lists(ids, min_size=int(count), max_size=int(count))), np.int32)

    def offsets(count: int) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)))]).astype(np.int64)

    pairs, answers = offsets(n * edges), offsets(n)
    columns = numbers(n * anchors).reshape(n, anchors), numbers(n * edges).reshape(n, edges)
    return query_table(shape, *columns, pairs, numbers(pairs[-1]), numbers(pairs[-1]), answers, numbers(answers[-1]), {"split": "valid"})


@given(tables())
def test_reification_and_back_is_the_identity(table):
    parts = reify(table, ENTITIES, RELATIONS)
    assert sorted(row for part in parts for row in part.rows.tolist()) == list(range(len(table)))
    for part in parts:
        for i, row in enumerate(part.rows):
            assert part.table.answers[i].tolist() == table.answers[row].tolist()
    assert_equal(unreify(parts), table)
