"""Probabilities of answers from features: maps by hand, and the choice by log loss."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starqe.reason.chance import Beta, Chance, Isotonic, fit_beta, fit_chance, fit_isotonic, log_loss
from starqe.reason.logistic import Logistic, fit_logistic
from starqe.reason.mixture import CLASSES
from starqe.reason.probability import FEATURES


def test_beta_calibration_is_its_formula() -> None:
    # 2 ln 0.8 - 0.5 ln 0.2 + 0.1 = -0.44629 + 0.80472 + 0.1 = 0.45843, of which the logistic function is 0.61264.
    assert Beta(2.0, 0.5, 0.1)(np.array([0.8])) == pytest.approx([0.61264], abs=1e-5)
    assert Beta(1.0, 1.0, 0.0)(np.array([0.1, 0.5, 0.97])) == pytest.approx([0.1, 0.5, 0.97])


def test_isotonic_regression_pools_neighbours_that_fall() -> None:
    # Truths 0, 1, 0, 1 at 0.1, 0.2, 0.4, 0.9: the second and third are pooled. Each block has one more case with the mean truth, 0.5:
    # 0.5 / 2, (1 + 0.5) / 3, 1.5 / 2.
    found = fit_isotonic(np.array([0.1, 0.2, 0.4, 0.9]), np.array([False, True, False, True]), np.ones(4), np.arange(4), samples=1)
    # Between the blocks, at 0.1, 0.3 and 0.9, it is linear.
    assert found(np.array([0.0, 0.1, 0.2, 0.4, 0.9, 1.0])) == pytest.approx([0.25, 0.25, 0.375, 0.5 + 0.25 / 6, 0.75, 0.75])


def test_isotonic_regression_is_the_mean_over_samples_of_queries() -> None:
    # Two queries of one case each, both at 0.5: of the mean of many samples, the one that counts three times has about its share.
    args = np.array([0.5, 0.5]), np.array([True, False]), np.array([30.0, 10.0]), np.arange(2)
    several = [fit_isotonic(*args, samples=samples).y[0] for samples in (1, 200)]
    assert several[0] == pytest.approx((30 + 0.75) / 41)
    assert several[1] == pytest.approx(0.72, abs=0.08)
    assert several[1] != several[0]


def test_isotonic_regression_counts_cases_as_often_as_it_is_told() -> None:
    # One false case and one true one at the same place, which counts three times: 3 of 4, and one more with the mean truth, 0.75.
    found = fit_isotonic(np.array([0.5, 0.5]), np.array([True, False]), np.array([3.0, 1.0]), np.zeros(2, int), samples=1)
    assert found.y == pytest.approx((0.75,))


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans(), st.floats(0.1, 9)), min_size=2, max_size=30))
def test_no_map_changes_the_order_or_leaves_the_unit_interval(cases: list[tuple[float, bool, float]]) -> None:
    chance, truth, counts = (np.array(column) for column in zip(*cases, strict=True))
    asked = np.linspace(0, 1, 101)
    for fit in (fit_beta, fit_isotonic):
        found = fit(chance, truth, counts, np.arange(len(chance)))(asked)
        assert (np.diff(found) >= -1e-12).all()
        assert ((found >= 0) & (found <= 1)).all()


def test_beta_calibration_finds_the_map_that_made_the_data() -> None:
    draw = np.random.default_rng(0)
    said = draw.random(40_000)
    made = Beta(0.6, 1.7, -0.3)
    found = fit_beta(said, draw.random(40_000) < made(said), np.ones(40_000))
    assert (found.a, found.b, found.c) == pytest.approx((0.6, 1.7, -0.3), abs=0.08)


def test_cases_that_count_three_times_are_three_cases() -> None:
    draw = np.random.default_rng(1)
    features, truth = draw.normal(size=(60, 2)), draw.random(60) < 0.4
    often = np.where(np.arange(60) < 20, 3, 1)
    counted = fit_logistic(features, truth, counts=often.astype(float))
    repeated = fit_logistic(np.repeat(features, often, axis=0), np.repeat(truth, often))
    assert [*counted.weights, counted.bias] == pytest.approx([*repeated.weights, repeated.bias], abs=1e-6)


def candidates(queries: int, truth_of: Isotonic | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws candidates of one class whose log share decides: a logistic function of it, which a map may change, is their probability."""
    draw = np.random.default_rng(2)
    share = draw.normal(-2, 2, queries * 10).clip(-9, -0.01)
    features = np.zeros((len(share), len(FEATURES)))
    features[:, FEATURES.index("log share")] = share
    features[:, FEATURES.index("log rank")] = 1  # not the first
    features[:, -len(CLASSES)] = 1
    chance = 1 / (1 + np.exp(-(0.5 + share)))
    truth = draw.random(len(share)) < (chance if truth_of is None else truth_of(chance))
    return features, truth, np.repeat(np.arange(queries), 10)


def test_the_least_log_loss_on_held_out_queries_chooses() -> None:
    step = Isotonic((0.0, 0.3, 0.31, 1.0), (0.02, 0.02, 0.7, 0.7))  # which no logistic function is
    features, truth, query = candidates(400, step)
    chance, losses = fit_chance(features, truth, query, np.ones(len(truth)))
    assert len(losses) == 6
    assert chance.name == min(losses, key=losses.__getitem__)
    assert isinstance(chance.correction, Isotonic)
    assert log_loss(chance(features), truth, np.ones(len(truth))) < losses["logistic, plain features"] - 0.02


def test_few_cases_get_the_logistic_function_of_few_features() -> None:
    features, truth, query = candidates(8, None)
    chance, losses = fit_chance(features, truth, query, np.ones(len(truth)))
    assert losses == {}
    assert chance == Chance(fit_logistic(features, truth))


def test_a_probability_without_a_map_is_the_logistic_function() -> None:
    logistic = Logistic((0.0, 1.0, *[0.0] * (len(FEATURES) - 2)), 0.5)
    features = candidates(1, None)[0]
    assert Chance(logistic)(features).tolist() == logistic(features).tolist()
