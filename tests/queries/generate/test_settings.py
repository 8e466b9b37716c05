import pytest

from starqe.errors import ConfigError, QueryError
from starqe.queries.generate.settings import QuerySettings, qualifier_counts
from starqe.queries.shape import SHAPES


def test_the_defaults_are_those_of_the_paper():
    settings = QuerySettings()
    assert settings.stored() == {"qualifiers": "1", "hub_threshold": 50, "solutions_below": {"3p": 100}, "seed": 0, "limit": None}
    assert settings.counts_for(SHAPES["3p"]) == ((1, 1), (1, 1), (1, 1))


@pytest.mark.parametrize(
    ("text", "counts"), [("0", ((0, 0),)), ("2", ((2, 2),)), ("0-2", ((0, 2),)), ("1, 0,0-2", ((1, 1), (0, 0), (0, 2))), ("8", ((8, 8),))]
)
def test_numbers_of_qualifiers_are_read_for_every_edge_or_edge_by_edge(text, counts):
    assert qualifier_counts(text) == counts


@pytest.mark.parametrize("text", ["", "-1", "2-1", "9", "0-9", "a", "1,,2", "1.5"])
def test_other_numbers_of_qualifiers_are_refused(text):
    with pytest.raises(ConfigError, match="a number up to 8 or a range such as 0-2"):
        QuerySettings.parse({"qualifiers": text})


def test_numbers_edge_by_edge_must_fit_the_shape():
    settings = QuerySettings(qualifiers="1,0")
    assert settings.counts_for(SHAPES["2i"]) == ((1, 1), (0, 0))
    with pytest.raises(QueryError, match="'1,0' has 2 edges, and shape '3i' has 3"):
        settings.counts_for(SHAPES["3i"])


@pytest.mark.parametrize(("key", "value"), [("hub_threshold", 0), ("limit", 0), ("sead", 1)])
def test_settings_out_of_range_or_unknown_are_refused(key, value):
    with pytest.raises(ConfigError, match=key):
        QuerySettings.parse({key: value})
