"""Metrics: worked by hand, and the two averages."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starqe.measure.metrics import AVERAGES, METRICS, Accumulator, mean_estimate
from starqe.measure.ranks import Ranks


def ranks_at(*places: int, candidates: int = 11) -> Ranks:
    """Ranks without ties, at these places."""
    n = len(places)
    return Ranks(np.array(places) - 1, np.ones(n, np.int64), np.full(n, candidates))


def value(sums: Accumulator, metric: str, average: str) -> float:
    return sums.estimate(metric, average).value


@pytest.fixture
def sums() -> Accumulator:
    """One query with the ranks 1 and 4, one with the rank 2; eleven candidates each."""
    sums = Accumulator()
    sums.add(ranks_at(1, 4, 2), np.array([2, 1]))
    return sums


@pytest.mark.parametrize(
    ("metric", "micro", "macro"),
    [
        ("Hits@1", 1 / 3, (1 / 2 + 0) / 2),
        ("Hits@3", 2 / 3, (1 / 2 + 1) / 2),
        ("Hits@10", 1, 1),
        ("MRR", (1 + 1 / 4 + 1 / 2) / 3, ((1 + 1 / 4) / 2 + 1 / 2) / 2),
        ("MR", 7 / 3, (5 / 2 + 2) / 2),
        ("AMRI", 1 - (4 / 3) / 5, 1 - (5 / 4) / 5),  # a random order gives (11 + 1) / 2 = 6
    ],
)
def test_metrics_worked_by_hand(sums: Accumulator, metric: str, micro: float, macro: float):
    assert value(sums, metric, "micro") == pytest.approx(micro)
    assert value(sums, metric, "macro") == pytest.approx(macro)


def test_n_counts_answers_for_micro_and_queries_for_macro(sums: Accumulator):
    assert (sums.estimate("MRR", "micro").n, sums.estimate("MRR", "macro").n) == (3, 2)


def test_amri_weighs_the_candidates_of_each_rank():
    sums = Accumulator()
    sums.add(Ranks(np.array([0, 4, 1]), np.ones(3, np.int64), np.array([5, 5, 101])), np.array([2, 1]))
    assert value(sums, "AMRI", "micro") == pytest.approx(1 - (0 + 4 + 1) / (2 + 2 + 50))
    assert value(sums, "AMRI", "macro") == pytest.approx(1 - (2 + 1) / (2 + 50))


def test_amri_is_one_for_perfect_and_minus_one_for_worst_and_zero_in_the_middle():
    for place, expected in ((1, 1), (11, -1), (6, 0)):
        sums = Accumulator()
        sums.add(ranks_at(place), np.array([1]))
        assert value(sums, "AMRI", "micro") == pytest.approx(expected)


def test_amri_without_any_rival_is_not_a_number():
    sums = Accumulator()
    sums.add(ranks_at(1, candidates=1), np.array([1]))
    assert math.isnan(value(sums, "AMRI", "macro"))
    assert value(sums, "MRR", "macro") == 1


@pytest.mark.parametrize(("ties", "hits", "mrr"), [("optimistic", 1, 1), ("realistic", 0, 1 / 2), ("pessimistic", 0, 1 / 3)])
def test_ties_are_resolved_as_asked(ties: str, hits: float, mrr: float):
    sums = Accumulator()
    sums.add(Ranks(np.array([0]), np.array([3]), np.array([9])), np.array([1]), ties)
    assert value(sums, "Hits@1", "macro") == hits
    assert value(sums, "MRR", "macro") == pytest.approx(mrr)


def test_queries_without_ranks_do_not_count(sums: Accumulator):
    other = Accumulator()
    other.add(ranks_at(1, 4, 2), np.array([0, 2, 0, 1, 0]))
    for average in AVERAGES:
        assert other.estimate("MRR", average) == sums.estimate("MRR", average)


def test_nothing_seen_gives_no_number():
    estimate = Accumulator().estimate("MRR", "macro")
    assert math.isnan(estimate.value)
    assert math.isnan(estimate.low)
    assert estimate.n == 0


@given(st.lists(st.integers(1, 11), min_size=1, max_size=30))
def test_micro_is_macro_when_every_query_has_one_answer(places: list[int]):
    sums = Accumulator(replicates=0)
    sums.add(ranks_at(*places), np.ones(len(places), np.int64))
    for metric in METRICS:
        assert value(sums, metric, "micro") == pytest.approx(value(sums, metric, "macro"))


@given(st.lists(st.lists(st.integers(1, 11), min_size=1, max_size=4), min_size=2, max_size=12), st.integers(1, 11))
def test_batches_give_what_one_pass_gives(queries: list[list[int]], cut: int):
    whole, parts = Accumulator(replicates=20), Accumulator(replicates=20)
    for sums, batches in ((whole, [queries]), (parts, [queries[:cut], queries[cut:]])):
        for batch in batches:
            sums.add(ranks_at(*(place for query in batch for place in query)), np.array([len(query) for query in batch], np.int64))
    for metric in METRICS:
        for average in AVERAGES:
            one, other = whole.estimate(metric, average), parts.estimate(metric, average)
            assert (one.value, one.low, one.high, one.n) == pytest.approx((other.value, other.low, other.high, other.n), nan_ok=True)


def test_added_accumulators_hold_what_both_have_seen(sums: Accumulator):
    other = Accumulator(stream="other")
    other.add(ranks_at(10), np.array([1]))
    both = sums + other
    assert value(both, "MR", "micro") == pytest.approx((1 + 4 + 2 + 10) / 4)
    assert value(both, "MR", "macro") == pytest.approx((2.5 + 2 + 10) / 3)
    assert both.estimate("MR", "macro").n == 3


def test_the_mean_over_parts_counts_every_part_the_same(sums: Accumulator):
    other = Accumulator(stream="other")
    other.add(ranks_at(10), np.array([1]))
    estimate = mean_estimate([sums, other], "MR", "macro")
    assert estimate.value == pytest.approx((2.25 + 10) / 2)
    assert estimate.n == 3


def test_the_interval_is_as_wide_as_the_theory_says():
    n = 2000
    sums = Accumulator(replicates=1000, seed=3)
    sums.add(ranks_at(*([1, 2] * (n // 2))), np.ones(n, np.int64))
    estimate = sums.estimate("Hits@1", "macro")
    half = 1.96 * math.sqrt(0.25 / n)  # the standard error of a share of one half
    assert estimate.low == pytest.approx(0.5 - half, abs=0.2 * half)
    assert estimate.high == pytest.approx(0.5 + half, abs=0.2 * half)


def test_the_bootstrap_draws_queries_and_not_answers():
    """A thousand answers of two queries are two draws: the interval reaches from one query to the other."""
    sums = Accumulator(seed=1)
    sums.add(ranks_at(*[1] * 500, *[2] * 500), np.array([500, 500]))
    estimate = sums.estimate("Hits@1", "micro")
    assert (estimate.low, estimate.high) == (0, 1)


def test_the_same_seed_gives_the_same_interval_and_another_one_another():
    def interval(seed: int, stream: str = "") -> tuple[float, float]:
        sums = Accumulator(seed=seed, stream=stream)
        sums.add(ranks_at(*range(1, 12)), np.ones(11, np.int64))
        estimate = sums.estimate("MRR", "macro")
        return estimate.low, estimate.high

    assert interval(0) == interval(0)
    assert len({interval(0), interval(1), interval(0, "2p")}) == 3


def test_without_replicates_there_is_no_interval(sums: Accumulator):
    bare = Accumulator(replicates=0)
    bare.add(ranks_at(1, 4, 2), np.array([2, 1]))
    assert bare.estimate("MRR", "macro").value == sums.estimate("MRR", "macro").value
    assert math.isnan(bare.estimate("MRR", "macro").low)
