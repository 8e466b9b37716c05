from typing import get_args

import pytest

from starqe.config import to_toml
from starqe.errors import ConfigError
from starqe.model import SIMILARITY, ModelConfig, config
from starqe.model.compose import COMPOSE
from starqe.model.layer import ACTIVATE
from starqe.model.pool import POOL
from starqe.model.qualify import QUALIFY
from starqe.model.weigh import WEIGH


@pytest.mark.parametrize(
    ("names", "table"),
    [
        (config.Composition, COMPOSE),
        (config.Qualification, QUALIFY),
        (config.Weighting, WEIGH),
        (config.Activation, ACTIVATE),
        (config.Pooling, POOL),
        (config.SimilarityName, SIMILARITY),
    ],
)
def test_the_configuration_names_exactly_the_entries_of_the_table(names, table):
    assert get_args(names) == tuple(table)


def test_every_field_is_explained():
    assert all(field.description for field in ModelConfig.model_fields.values())


def test_the_configuration_is_written_as_toml():
    assert 'pooling = "target"' in to_toml(ModelConfig())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"width": 3, "heads": 1, "edge_composition": "rotate"}, "'rotate' needs an even width, found 3"),
        ({"width": 12, "heads": 8}, "heads that divide the width, found 8 heads and width 12"),
        ({"layers": 0, "pooling": "sum", "steps": "diameter"}, "need at least one layer"),
        ({"layers": 0}, "sees nothing of the query"),
        ({"dropout": 1.0}, "less than 1"),
        ({"wieghting": "attention"}, "Did you mean 'weighting'"),
    ],
)
def test_choices_that_do_not_fit_are_refused(values, message):
    with pytest.raises(ConfigError, match=message):
        ModelConfig.parse(values)


def test_heads_are_free_where_nothing_attends():
    assert ModelConfig(width=10, heads=8, weighting="symmetric").width == 10
