from pathlib import Path

import optuna
import pytest

from starqe.errors import ConfigError
from starqe.experiments.tuning.search_space import (
    AUTHORS_SPACE,
    Range,
    distributions,
    parse_space,
    plain,
    read_space,
    value_at,
    with_values,
)
from starqe.learn import Recipe, preset

ALLOWED = {
    "model.width": {32, 64, 96, 128, 160, 192, 224, 256},
    "model.layers": {2, 3},
    "model.dropout": {0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8},
    "model.bias": {True, False},
    "model.similarity": {"dot", "cosine", "distance", "power-norm"},
    "model.weighting": {"symmetric", "attention"},
    "model.activation": {"leaky-relu", "identity", "prelu", "relu"},
    "model.pooling": {"target", "sum"},
    "train.batch": {32, 64, 128, 256, 512, 1024},
}


def test_the_authors_space_gives_all_allowed_values_and_no_others() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    drawn = [with_values(preset("starqe"), study.ask(fixed_distributions=distributions(AUTHORS_SPACE)).params) for _ in range(150)]
    for key, allowed in ALLOWED.items():
        assert {value_at(recipe, key) for recipe in drawn} == allowed, key
    rates = [recipe.train.learning_rate for recipe in drawn]
    assert 1e-4 <= min(rates) < 2e-4
    assert 5e-3 < max(rates) <= 1e-2
    assert ALLOWED.keys() | {"train.learning_rate"} == AUTHORS_SPACE.keys()


def test_values_outside_the_space_stay_those_of_the_base() -> None:
    base = preset("starqe-fast")
    recipe = with_values(base, {"model.width": 64, "model.dropout": 0.1 + 0.2})
    assert (recipe.model.width, recipe.model.dropout) == (64, 0.3)
    assert recipe == base.with_settings(["model.width=64", "model.dropout=0.3"])


def test_a_file_has_choices_and_ranges(tmp_path: Path) -> None:
    (tmp_path / "space.toml").write_text("""
        seed = [1, 2]
        model.width = {low = 16, high = 64, step = 16}
        [train]
        learning_rate = {low = 1e-4, high = 1, log = true}
        one_hop = ["none", "plain"]
    """)
    space = read_space(tmp_path / "space.toml")
    assert space == {
        "seed": (1, 2),
        "model.width": Range(low=16, high=64, step=16),
        "train.learning_rate": Range(low=1e-4, high=1, log=True),
        "train.one_hop": ("none", "plain"),
    }
    assert parse_space({key: plain(domain) for key, domain in space.items()}) == space


def test_the_kind_of_number_is_that_of_the_key() -> None:
    found = distributions({"model.width": Range(low=16, high=64), "train.weight_decay": Range(low=0, high=1)})
    assert found["model.width"] == optuna.distributions.IntDistribution(16, 64)
    assert found["train.weight_decay"] == optuna.distributions.FloatDistribution(0.0, 1.0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": {"widht": [16]}}, r"unknown key 'model.widht'. Did you mean 'model.width'\?"),
        ({"model": [16]}, "unknown key 'model'"),
        ({}, "at least one key"),
        ({"model.width": []}, "'model.width' has a list of choices, or"),
        ({"model.width": 16}, r"'model.width' has a list of choices, or .* \(got 16\)"),
        ({"model.width": [16, 0]}, r"'model.width': Input should be greater than or equal to 1 \(got 0\)"),
        ({"model.activation": ["relu", "rleu"]}, r"'model.activation': Input should be .* \(got 'rleu'\)"),
        ({"model.dropout": {"low": 0, "high": 1}}, "'model.dropout': Input should be less than 1"),
        ({"model.width": {"low": 16, "high": 17, "step": 0.5}}, "'model.width': Input should be a valid integer"),
        ({"model.width": {"low": 16, "hihg": 32}}, r"'model.width': .*unknown key 'hihg'. Did you mean 'high'\?"),
        ({"model.width": {"low": 64, "high": 16}}, "found low 64 and high 16"),
        ({"model.width": {"low": 16, "high": 40, "step": 16}}, "found 1.500 steps of 16"),
        ({"train.learning_rate": {"low": 0, "high": 1, "log": True}}, "begins above 0"),
        ({"train.learning_rate": {"low": 0.1, "high": 1, "step": 0.1, "log": True}}, "has no step"),
        ({"train.shapes": [["1p"], ["2p"]]}, "decides which queries are read"),
        ({"model.width": [[16], [32]]}, "a choice is a text, a number, true or false"),
    ],
)
def test_what_is_not_a_space_of_a_recipe_is_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        parse_space(values)


def test_values_that_do_not_go_together_are_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError, match="heads that divide the width"):
        with_values(Recipe(), {"model.width": 20})
