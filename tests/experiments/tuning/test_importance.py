import numpy as np
import pytest

from starqe.experiments.tuning.importance import FEWEST, Importances, explained, importances
from starqe.experiments.tuning.search_space import Range
from starqe.experiments.tuning.study import Result

SPACE = {"model.bias": (True, False), "model.width": Range(low=1, high=80)}


@pytest.mark.parametrize(
    ("values", "groups", "share"),
    [
        ([1, 1, 3, 3], "aabb", 1.0),
        ([0, 2, 4, 6], "aabb", 0.7),  # 1 - (4 / 2) / (20 / 3)
        ([1, 3, 1, 3], "aabb", 0.0),  # 1 - (4 / 2) / (4 / 3) is below 0
        ([1, 2, 3, 4], "aaaa", 0.0),
        ([1, 2, 3, 4], "abcd", 0.0),
        ([2, 2, 2, 2], "aabb", 0.0),
    ],
)
def test_the_share_of_the_variance_that_groups_explain(values: list[float], groups: str, share: float) -> None:
    assert explained(np.array(values, float), np.array(list(groups))) == pytest.approx(share)


def trial(number: int, value: float, bias: bool, width: int, complete: bool = True) -> Result:
    return Result(number, "complete" if complete else "pruned", value, 1, 1.0, {"model.bias": bias, "model.width": width}, None)


def test_what_made_the_difference_comes_first() -> None:
    by_bias = [trial(i, 50.0 if i % 2 else 10.0, bool(i % 2), 10 * (i // 2) + 1) for i in range(8)]
    assert list(importances(by_bias, SPACE).shares.items()) == [("model.bias", 1.0), ("model.width", 0.0)]
    by_width = [trial(i, 5.0 * (i // 2), bool(i % 2), 10 * (i // 2) + 1) for i in range(8)]
    assert list(importances(by_width, SPACE).shares.items()) == [("model.width", 1.0), ("model.bias", 0.0)]


@pytest.mark.full
def test_a_parameter_that_decides_is_above_chance_and_one_that_does_not_rarely_does() -> None:
    draw = np.random.default_rng(0)
    above = {"decides": 0, "nothing": 0}
    for _ in range(20):
        biases, widths = draw.integers(0, 2, 30).astype(bool), draw.integers(1, 81, 30)
        for name, effect in (("decides", 5.0), ("nothing", 0.0)):
            values = effect * biases + draw.normal(size=30)
            found = importances([trial(i, values[i], bool(biases[i]), int(widths[i])) for i in range(30)], SPACE)
            above[name] += max(found.shares.values()) > found.chance
    assert above["decides"] == 20
    assert above["nothing"] <= 4  # 1 is expected


def test_too_few_complete_trials_say_nothing() -> None:
    results = [trial(i, float(i), bool(i % 2), i, complete=i > 0) for i in range(FEWEST)]
    assert importances(results, SPACE) == Importances(trials=FEWEST - 1)
