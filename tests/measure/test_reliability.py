import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starqe.measure.reliability import Bin, reliability


def test_errors_are_those_worked_out_by_hand() -> None:
    # Five bins of width 0.2. First: 0.1 and 0.1, one true. Last: 0.9 and 1.0, both true; and the middle one: 0.5, false.
    # Two bins of equal mass: the lower two cases, and the other three.
    found = reliability(np.array([0.1, 0.1, 0.5, 0.9, 1.0]), np.array([True, False, False, True, True]), bins=5, mass_bins=2)
    assert found.bins == (Bin(2, pytest.approx(0.1), 0.5), Bin(1, 0.5, 0.0), Bin(2, pytest.approx(0.95), 1.0))
    assert found.mass == (Bin(2, pytest.approx(0.1), 0.5), Bin(3, pytest.approx(0.8), pytest.approx(2 / 3)))
    assert found.ece == pytest.approx((2 * 0.4 + 3 * (0.8 - 2 / 3)) / 5)
    assert found.log_loss == pytest.approx(-(np.log(0.1) + 2 * np.log(0.9) + np.log(0.5) + np.log(1.0)) / 5)
    assert (found.worst(1), found.worst(2), found.worst(3)) == (0.5, pytest.approx(0.4), 0.0)
    assert found.brier == pytest.approx((0.81 + 0.01 + 0.25 + 0.01 + 0) / 5)
    assert found.base == pytest.approx(0.6)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1))
def test_bins_hold_every_case_once_and_errors_stay_within_bounds(cases: list[tuple[float, bool]]) -> None:
    found = reliability(np.array([p for p, _ in cases]), np.array([t for _, t in cases]))
    assert sum(part.count for part in found.bins) == sum(part.count for part in found.mass) == len(cases)
    assert 0 <= found.ece <= 1
    assert 0 <= found.brier <= 1


def test_probabilities_that_come_true_as_often_as_they_say_have_no_error() -> None:
    assert reliability(np.full(4, 0.25), np.array([True, False, False, False])).ece == pytest.approx(0)


def test_bins_of_equal_mass_keep_equal_probabilities_together() -> None:
    found = reliability(np.array([0.0] * 7 + [0.2, 0.4, 0.6]), np.zeros(10, bool), mass_bins=5)
    assert [part.count for part in found.mass] == [8, 2]  # five bins of two: four begin at 0.0, the last at 0.4
