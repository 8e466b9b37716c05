"""The command line with one-hop predictors."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from starqe.cli.main import app
from starqe.config import to_toml
from starqe.errors import ConfigError, UnsupportedError
from starqe.kg import embedded_graph, save_graph
from starqe.learn import kind_of
from starqe.queries import SHAPES, generate
from starqe.reason.predictor.presets import recipe_of

SMALL = ["model.width=16", "model.heads=2", "model.feed_forward=16", "train.epochs=1", "train.validation_questions=20"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph, a few of its queries, and a predictor made by the command line."""
    folder = tmp_path_factory.mktemp("cli")
    graph = embedded_graph()
    save_graph(graph, folder / "graph")
    generate(graph, folder / "queries", [SHAPES["1p"], SHAPES["2p"]], splits=["test"], threads=1)
    call("train", folder / "graph", "--preset", "one-hop", "--out", folder / "run", *(f"--set={setting}" for setting in SMALL))
    return folder


def call(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 2
    return " ".join(result.stderr.replace("│", " ").split())


def test_a_predictor_is_trained_on_a_graph_alone(place: Path) -> None:
    assert kind_of(place / "run") == "predictor"
    assert 'kind = "predictor"' in (place / "run" / "config.toml").read_text()


def test_a_recipe_file_says_which_kind_of_model_it_is_for(place: Path) -> None:
    (place / "recipe.toml").write_text(to_toml(recipe_of("one-hop-stare").with_settings(SMALL)))
    printed = call("train", place / "recipe.toml", place / "graph", "--out", place / "from-file", "--set", "seed=5", "--json")
    assert json.loads(printed)["epochs"] == 1
    assert kind_of(place / "from-file") == "predictor"
    (place / "other.toml").write_text('kind = "predictr"\n')
    with pytest.raises(ConfigError, match=r"other\.toml: the kind of a recipe is one of encoder, predictor, found 'predictr'"):
        call("train", place / "other.toml", place / "graph", "--out", place / "none")
    (place / "plain.toml").write_text('[model]\narchitecture = "complex"\n')  # without a kind, an encoder is meant
    with pytest.raises(ConfigError, match=r"plain\.toml: unknown key 'model\.architecture'"):
        call("train", place / "plain.toml", place / "graph", place / "queries", "--out", place / "none")


def test_a_predictor_resumes_without_a_recipe(place: Path) -> None:
    printed = call("train", place / "graph", "--out", place / "run", "--resume", "--json")
    assert json.loads(printed)["epochs"] == 1


def test_queries_are_given_where_they_are_learned_from_and_nowhere_else(place: Path) -> None:
    given = ("--out", place / "none")
    assert "leave QUERIES out" in refused("train", place / "graph", place / "queries", "--preset", "one-hop", *given)
    assert "an encoder learns from queries" in refused("train", place / "graph", "--preset", "demo", *given)
    assert "an encoder learns from queries" in refused("train", place / "graph", "--preset", "demo", *given)
    assert "give [CONFIG.toml] GRAPH [QUERIES]" in refused("train", "a.toml", *given)
    assert "give [CONFIG.toml] GRAPH [QUERIES]" in refused("train", "a", "b", "c", *given)
    assert not (place / "none").exists()


def test_an_unknown_preset_lists_those_of_all_kinds(place: Path) -> None:
    with pytest.raises(ConfigError, match=r"presets are starqe, .*, one-hop, .*found 'one-hpo'"):
        call("train", place / "graph", "--preset", "one-hpo", "--out", place / "none")


def test_one_hop_queries_are_evaluated(place: Path) -> None:
    rows = json.loads(call("evaluate", place / "run", place / "queries", "--limit", "20", "--json"))
    assert {row["shape"] for row in rows} == {"1p", "average", "all"}
    assert {row["row"] for row in rows} == {"Predictor (complex)"}
    with pytest.raises(UnsupportedError, match="found the shape '2p'"):
        call("evaluate", place / "run", place / "queries", "--shapes", "2p")


@pytest.mark.parametrize("protocol", ["published", "ours"])
def test_links_are_predicted_by_either_protocol(place: Path, protocol: str) -> None:
    rows = json.loads(call("evaluate", place / "run", "--links", protocol, "--limit", "30", "--json"))
    assert {(row["protocol"], row["shape"]) for row in rows} == {(protocol, shape) for shape in ("tail", "head", "average", "all")}
    assert {row["n"] for row in rows if row["shape"] == "all"} == {60}
    assert f"protocol {protocol}" in call("evaluate", place / "run", "--links", protocol, "--split", "valid", "--limit", "5")


def test_queries_or_links_are_evaluated_and_not_both(place: Path) -> None:
    assert "give QUERIES" in refused("evaluate", place / "run")
    assert "give QUERIES" in refused("evaluate", place / "run", place / "queries", "--links", "ours")
    assert "leave them out with --links" in refused("evaluate", place / "run", "--links", "ours", "--shapes", "1p")
