import json
from pathlib import Path

import duckdb
import pytest
from filelock import FileLock
from typer.testing import CliRunner

from starqe.cli.main import app
from starqe.config import to_toml
from starqe.errors import ConfigError, QueryError, StorageError
from starqe.folders import LOCK
from starqe.kg import embedded_graph, save_graph
from starqe.learn import Recipe, preset

SMALL = ["model.width=16", "model.heads=2", "train.queries_per_shape=60", "train.one_hop_per_direction=60", "train.validation_queries=20"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph, its queries and a model, all made by the command line."""
    folder = tmp_path_factory.mktemp("cli")
    save_graph(embedded_graph(), folder / "graph")
    call("queries", "generate", folder / "graph", folder / "queries", "--limit", "200")
    settings = [f"--set={setting}" for setting in (*SMALL, "train.epochs=1")]
    call("train", folder / "graph", folder / "queries", "--preset", "demo", "--out", folder / "run", *settings)
    return folder


def call(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.full
def test_training_prints_one_line_per_epoch_and_where_the_model_is(place: Path) -> None:
    settings = [f"--set={setting}" for setting in (*SMALL, "train.epochs=2")]
    printed = call("train", place / "graph", place / "queries", "--preset", "demo", "--out", place / "two", *settings)
    assert [line.split()[:2] for line in printed.splitlines() if line.startswith("epoch")] == [["epoch", "0"], ["epoch", "1"]]
    result, baseline = printed.splitlines()[-2:]
    assert result.startswith(f"{place / 'two'}: ")
    assert baseline.startswith("  to compare with: ")


def test_a_recipe_file_and_settings_on_top_of_it(place: Path) -> None:
    (place / "recipe.toml").write_text(to_toml(preset("demo").with_settings([*SMALL, "train.epochs=1"])))
    printed = call(
        "train", place / "recipe.toml", place / "graph", place / "queries", "--out", place / "from-file", "--set", "seed=5", "--json"
    )
    assert json.loads(printed)["epochs"] == 1
    assert "seed = 5" in (place / "from-file" / "config.toml").read_text()


def test_resuming_needs_no_recipe_and_refuses_another(place: Path) -> None:
    printed = call("train", place / "graph", place / "queries", "--out", place / "run", "--resume")
    assert "this training is already finished" in printed
    with pytest.raises(ConfigError, match="has another recipe"):
        call("train", place / "graph", place / "queries", "--preset", "starqe", "--out", place / "run", "--resume")


def test_a_run_is_trained_and_calibrated_by_one_command_at_a_time(place: Path) -> None:
    before = {path: path.read_bytes() for path in (place / "run").iterdir() if path.is_file()}
    with FileLock(place / "run" / LOCK):  # as another process holds it
        for command in (["train", place / "graph", place / "queries", "--resume", "--out"], ["calibrate"]):
            with pytest.raises(StorageError, match=rf"^another command works in {place / 'run'}\. Wait until it has ended"):
                call(*command, place / "run")
    assert {path: path.read_bytes() for path in (place / "run").iterdir() if path.is_file()} == before | {place / "run" / LOCK: b""}


@pytest.mark.parametrize("more", [["--set", "train.epochs=50"], ["--preset", "demo", "recipe.toml"]], ids=["settings", "two recipes"])
def test_resuming_does_not_pass_over_what_it_cannot_do(place: Path, more: list[str]) -> None:
    (place / "recipe.toml").write_text(to_toml(preset("demo")))
    places = [str(place / name) for name in (*[word for word in more if word.endswith(".toml")], "graph", "queries")]
    options = [word for word in more if not word.endswith(".toml")]
    result = CliRunner().invoke(app, ["train", *places, "--out", str(place / "run"), "--resume", *options])
    assert result.exit_code == 2


def test_a_recipe_is_needed(place: Path) -> None:
    result = CliRunner().invoke(app, ["train", str(place / "graph"), str(place / "queries"), "--out", str(place / "none")])
    assert result.exit_code == 2
    assert "give a recipe" in result.stderr
    assert not (place / "none").exists()


def test_queries_that_do_not_suit_leave_no_folder_behind(place: Path) -> None:
    call("queries", "generate", place / "graph", place / "none", "--shapes", "1p,2i", "--limit", "20", "--qualifiers", "8")
    with pytest.raises(QueryError, match=r"no training queries of the shape '1p' \(there are some of none\)\. Generate them"):
        call("train", "--preset", "demo", "--set", 'train.shapes=["1p"]', place / "graph", place / "none", "--out", place / "unmade")
    assert not (place / "unmade").exists()


def test_an_unknown_preset_lists_the_known_ones(place: Path) -> None:
    with pytest.raises(ConfigError, match=r"presets are starqe, reification, .*found 'starqe-fats'"):
        call("train", place / "graph", place / "queries", "--preset", "starqe-fats", "--out", place / "none")


def test_evaluation_gives_rows_for_every_protocol_average_shape_and_metric(place: Path) -> None:
    rows = json.loads(call("evaluate", place / "run", place / "queries", "--limit", "30", "--json"))
    assert {(row["protocol"], row["average"]) for row in rows} == {(p, a) for p in ("paper", "strict") for a in ("micro", "macro")}
    assert {row["shape"] for row in rows} == {"1p", "2p", "3p", "2i", "3i", "2i-1p", "1p-2i", "average", "all"}
    assert all(row.keys() >= {"row", "shape", "metric", "average", "protocol", "n", "seed", "ours", "paper"} for row in rows)


def test_every_rank_can_be_written_out(place: Path) -> None:
    call(
        "evaluate",
        place / "run",
        place / "queries",
        "--limit",
        "10",
        "--protocol",
        "paper",
        "--per-query",
        place / "ranks.parquet",
        "--shapes",
        "1p,2p",
    )
    columns = "shape, count(DISTINCT query) AS queries, min(rank) >= 1 AS valid"
    found = duckdb.sql(f"SELECT {columns} FROM '{place / 'ranks.parquet'}' GROUP BY shape ORDER BY shape")
    assert found.fetchall() == [("1p", 10, True), ("2p", 10, True)]


def test_faithfulness_is_evaluation_on_the_training_queries(place: Path) -> None:
    rows = json.loads(call("evaluate", place / "run", place / "queries", "--split", "train", "--limit", "20", "--json"))
    assert {row["protocol"] for row in rows} == {"paper"}


@pytest.mark.full
def test_training_is_measured_for_every_similarity_and_loss(place: Path) -> None:
    rows = json.loads(call("bench", "train", "--graph", place / "graph", "--queries", place / "queries", "--steps", "2", "--json"))
    assert len({(row["similarity"], row["loss"]) for row in rows}) == 8
    assert all(row["queries_per_second"] > 0 and row["share_of_bound"] > 0 and row["peak_mb"] > 0 for row in rows)


def test_evaluation_is_measured_by_shape(place: Path) -> None:
    rows = json.loads(call("bench", "evaluate", place / "run", place / "queries", "--limit", "20", "--json"))
    assert [row["queries"] for row in rows] == [20] * 7


def test_the_recipe_of_a_run_is_written_out_whole(place: Path) -> None:
    from starqe.config import read_toml

    assert read_toml(place / "run" / "config.toml", Recipe) == preset("demo").with_settings([*SMALL, "train.epochs=1"])
