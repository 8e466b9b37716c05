import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starqe.reason.logistic import Logistic, fit_logistic


def test_a_probability_is_the_logistic_function_of_the_features() -> None:
    # 0.5 + 2 * 1 - 1 * 3 = -0.5, and 1 / (1 + e^0.5) = 0.37754
    assert Logistic((2.0, -1.0), 0.5)(np.array([[1.0, 3.0]])) == pytest.approx([0.37754], abs=1e-5)


def test_without_features_the_fit_is_the_share_that_came_true() -> None:
    fitted = fit_logistic(np.empty((8, 0)), np.array([1, 1, 1, 1, 1, 1, 0, 0], bool))
    assert fitted(np.empty((1, 0))) == pytest.approx([0.75], abs=0.01)


def test_a_fit_finds_the_weights_that_the_truth_was_drawn_with() -> None:
    random = np.random.default_rng(0)
    features = random.normal(size=(40_000, 2))
    truth = random.random(40_000) < Logistic((1.5, -0.7), -1.0)(features)
    fitted = fit_logistic(features, truth)
    assert fitted.weights == pytest.approx((1.5, -0.7), abs=0.06)
    assert fitted.bias == pytest.approx(-1.0, abs=0.05)


@given(st.lists(st.tuples(st.floats(-30, 30), st.booleans()), min_size=1, max_size=30))
def test_a_fit_is_finite_whatever_the_cases(cases: list[tuple[float, bool]]) -> None:
    fitted = fit_logistic(np.array([[x] for x, _ in cases]), np.array([y for _, y in cases]))
    assert np.isfinite([*fitted.weights, fitted.bias]).all()


def test_the_mean_of_the_probabilities_is_the_share_that_came_true() -> None:
    random = np.random.default_rng(1)
    features = random.normal(size=(5_000, 3)) * 4
    truth = random.random(5_000) < 0.1 + 0.6 * (features[:, 0] > 1)
    assert fit_logistic(features, truth)(features).mean() == pytest.approx(truth.mean(), abs=1e-3)
