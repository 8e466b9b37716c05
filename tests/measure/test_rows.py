"""Rows: means over seeds."""

import pytest

from starqe.measure.rows import over_seeds


def row(seed: int, ours: float | None, shape: str = "1p") -> dict:
    given = {"row": "StarQE", "shape": shape, "metric": "MRR", "average": "macro", "protocol": "paper", "n": 9}
    return {**given, "seed": seed, "ours": ours, "paper": 30.98, "low": 1.0, "high": 2.0}


def test_seeds_are_merged_into_mean_and_sample_deviation():
    (merged,) = over_seeds([row(0, 30.0), row(1, 32.0), row(2, 37.0)])
    assert merged["ours"] == pytest.approx(33)
    assert merged["deviation"] == pytest.approx(13**0.5)  # (9 + 1 + 16) / 2
    assert (merged["seed"], merged["n"], merged["paper"]) == ([0, 1, 2], 9, 30.98)
    assert "low" not in merged


def test_what_differs_in_more_than_the_seed_stays_apart():
    merged = over_seeds([row(0, 30.0), row(0, 40.0, "2p"), row(1, 32.0)])
    assert [(one["shape"], one["ours"]) for one in merged] == [("1p", 31.0), ("2p", 40.0)]


def test_one_seed_has_no_deviation_and_missing_numbers_stay_missing():
    one, none = over_seeds([row(0, 30.0), row(0, None, "2p")])
    assert (one["ours"], one["deviation"]) == (30.0, None)
    assert (none["ours"], none["deviation"]) == (None, None)
