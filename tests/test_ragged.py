import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starqe.ragged import Ragged, stable_order

ROWS = Ragged(np.array([0, 2, 2, 5]), np.array([10, 11, 12, 13, 14]))
LISTS = st.lists(st.lists(st.integers(0, 99), max_size=4), max_size=6)


def lists(ragged: Ragged) -> list[list[int]]:
    return [ragged[row].tolist() for row in range(len(ragged))]


def test_rows_counts_owners_and_places_by_hand():
    assert len(ROWS) == 3
    assert lists(ROWS) == [[10, 11], [], [12, 13, 14]]
    assert ROWS.counts.tolist() == [2, 0, 3]
    assert ROWS.owner.tolist() == [0, 0, 2, 2, 2]
    assert ROWS.within.tolist() == [0, 1, 0, 1, 2]
    assert lists(ROWS.places(np.array([2, 0]))) == [[2, 3, 4], [0, 1]]


def test_rows_are_taken_in_any_order_and_more_than_once():
    assert lists(ROWS.take(np.array([2, 1, 2]))) == [[12, 13, 14], [], [12, 13, 14]]
    assert lists(ROWS.slice(1, 3)) == [[], [12, 13, 14]]
    assert lists(ROWS.where(ROWS.items % 2 == 0)) == [[10], [], [12, 14]]
    assert lists(Ragged.ranges(np.array([7, 3]), np.array([0, 2]))) == [[], [3, 4]]


def test_items_may_be_pairs():
    pairs = Ragged.of_lists([[(1, 2)], [], [(3, 4), (5, 6)]], 2)
    assert pairs.take(np.array([2])).items.tolist() == [[3, 4], [5, 6]]
    assert Ragged.stack([pairs, Ragged.empty(2, 2)]).counts.tolist() == [1, 0, 2, 0, 0]
    assert Ragged.of_lists([[], []], 2).items.shape == (0, 2)


def test_offsets_that_do_not_fit_the_items_are_our_own_mistake():
    with pytest.raises(AssertionError):
        Ragged(np.array([0, 1]), np.array([1, 2]))


@given(LISTS, LISTS, st.data())
def test_every_operation_agrees_with_lists(one, other, data):
    ragged = Ragged.of_lists(one)
    rows = data.draw(st.lists(st.integers(0, len(one) - 1), max_size=5)) if one else []
    assert lists(ragged) == one
    assert lists(Ragged.stack([ragged, Ragged.of_lists(other)])) == one + other
    assert lists(ragged.take(np.array(rows, np.int64))) == [one[row] for row in rows]
    assert lists(Ragged.of_owner(ragged.owner, ragged.items, len(one))) == one
    assert lists(ragged.where(ragged.items > 50)) == [[item for item in row if item > 50] for row in one]
    for start in range(len(one) + 1):
        assert lists(ragged.slice(start, len(one))) == one[start:]


def test_ranges_are_joined():
    assert Ragged.ranges(np.array([5, 0, 7]), np.array([2, 0, 3])).items.tolist() == [5, 6, 7, 8, 9]
    assert Ragged.ranges(np.array([], int), np.array([], int)).items.tolist() == []


@given(st.lists(st.integers(0, 3) | st.integers(0, 2**62), max_size=30))
def test_the_order_of_keys_is_stable_whether_they_fit_beside_their_places_or_not(keys):
    assert stable_order(np.array(keys, np.int64)).tolist() == sorted(range(len(keys)), key=lambda place: keys[place])
