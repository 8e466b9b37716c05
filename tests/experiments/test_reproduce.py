"""Reproduction: every table of the embedded graph, with models of seconds, and what is kept when it is interrupted."""

import csv
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from filelock import FileLock

from starqe import __version__
from starqe.errors import ConfigError, InputError, MismatchError, StorageError
from starqe.experiments import REGIMES, ROWS, TABLES, Settings, open_work, regime_recipe, reproduce
from starqe.experiments.model_tables import against_paper, exchange_anchors
from starqe.experiments.reasoning import shapes_table
from starqe.experiments.train_rows import passes, plan, row_recipe, shares, unequal
from starqe.folders import LOCK
from starqe.kg import Statement, graph_of, save_graph
from starqe.learn import Run, preset
from starqe.measure.rows import AVERAGE, Row
from starqe.queries import MORE_SHAPES, SHAPES, generate, load_queries
from tests.experiments.test_findings import MRR

SMALL = Settings(budget=0.06, limit=10, sources=("all splits",), minimum=2)


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the tables share, as they would for a person."""
    folder = tmp_path_factory.mktemp("reproduction") / "work"
    open_work(folder)
    return folder


@pytest.fixture
def fresh(work: Path, tmp_path: Path) -> Path:
    """A folder of its own, in which the queries are generated already."""
    shutil.copytree(work / "queries", tmp_path / "work" / "queries", copy_function=os.link)
    shutil.copy(work / "work.json", tmp_path / "work")
    return tmp_path / "work"


@pytest.mark.full
@pytest.mark.parametrize("table", TABLES)
def test_every_cell_of_every_table_is_filled_and_written_in_every_form(work: Path, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # All further shapes but one are sampled: to generate all their queries takes long even on a small graph.
    monkeypatch.setattr(shapes_table, "SAMPLED", tuple(name for name in MORE_SHAPES if name != "2u"))
    report, files = reproduce(table, work, settings=SMALL)
    assert [file.name for file in files] == ["rows.json", "table.md", "table.csv", "table.tex", "plot.png"]
    rows = json.loads((work / table / "rows.json").read_text())
    keys = {"row", "shape", "metric", "average", "protocol", "n", "seed", "ours", "paper", "difference"}
    assert all(row.keys() >= keys and row["ours"] is not None and row["n"] > 0 for row in rows)
    assert len(list(csv.reader((work / table / "table.csv").read_text().splitlines()))) == 1 + len(rows) == 1 + len(report.rows)
    assert (work / table / "plot.png").read_bytes().startswith(b"\x89PNG")
    page = (work / table / "table.md").read_text()
    assert "## Provenance" in page
    assert "- machine: " in page
    assert not any("not measured" in verdict.word for verdict in report.verdicts)  # the averages may disagree about models of seconds
    assert all(str(verdict) in page for verdict in report.verdicts)
    assert page.count("|  |") == (work / table / "table.tex").read_text().count(r"\begin{tabular}") == len(report.grids)


@pytest.mark.full
def test_a_second_call_trains_and_evaluates_nothing_and_says_the_same(work: Path) -> None:
    reproduce("faithfulness", work, settings=SMALL)
    before = (work / "faithfulness" / "rows.json").read_bytes()
    said: list[str] = []
    reproduce("faithfulness", work, settings=SMALL, tell=said.append)
    assert said == []
    assert (work / "faithfulness" / "rows.json").read_bytes() == before


@pytest.mark.full
def test_tables_share_the_models_of_equal_recipes(work: Path) -> None:
    general, _ = reproduce("generalisation", work, settings=SMALL)
    said: list[str] = []
    main, _ = reproduce("results", work, settings=SMALL, tell=said.append)
    assert not any(text.startswith("starqe-like-0: training") for text in said)
    like, starqe = ([row.ours for row in report.rows if row.name.startswith("StarQE")] for report in (general, main))
    assert like == starqe


@pytest.mark.full
def test_with_exchanged_anchors_every_row_is_evaluated_once_more(work: Path) -> None:
    report, _ = reproduce("anchors", work, settings=SMALL)
    names = [name for row in ROWS["anchors"] for name in (row, f"{row}, exchanged")]
    assert list(dict.fromkeys(row.name for row in report.rows)) == names
    # How far a row was trained depends on the machine, and one number may be equal by chance: all of them are not.
    numbers: dict[bool, dict[tuple[str, ...], float | None]] = {False: {}, True: {}}
    for row in report.rows:
        if row.protocol == "paper":
            name = row.name.removesuffix(", exchanged")
            numbers[name != row.name][name, row.shape, row.metric, row.average] = row.ours
    assert numbers[True].keys() == numbers[False].keys()
    assert numbers[True] != numbers[False]
    assert {row.protocol for row in report.rows if row.name.endswith("exchanged")} == {"paper"}


@pytest.mark.full
def test_exchanged_anchors_are_those_of_the_query_before(work: Path) -> None:
    table = load_queries(work / "queries", "test", ["2i"])["2i"]
    other = exchange_anchors(table)
    assert other.anchors[1:].tolist() == table.anchors[:-1].tolist()
    assert other.anchors[0].tolist() == table.anchors[-1].tolist()
    assert (other.relations.tolist(), other.answers) == (table.relations.tolist(), table.answers)


@pytest.mark.full
def test_several_seeds_become_a_mean_with_its_deviation(work: Path) -> None:
    report, _ = reproduce("faithfulness", work, settings=Settings(budget=0.01, limit=10, seeds=2))
    assert {row.seed for row in report.rows} == {0, 1}
    assert all(" ± " in cell for grid in report.grids for _, cells in grid.lines for cell in cells)
    assert report.provenance["seeds"] == "0, 1"
    assert report.verdicts[-1].claim.startswith("deviations over seeds are about one point")


@pytest.mark.full
def test_a_budget_of_nothing_trains_nothing_and_says_so_in_every_cell(fresh: Path) -> None:
    report, files = reproduce("generalisation", fresh, settings=Settings(budget=0, limit=5))
    assert {cell for grid in report.grids for _, cells in grid.lines for cell in cells} == {"not run"}
    assert {verdict.word for verdict in report.verdicts} == {"not measured"}
    assert all(row.ours is None and row.missing == "not run" for row in report.rows)
    assert any("the budget is 0" in note for note in report.notes)
    assert all(file.exists() for file in files)
    impact, _ = reproduce("qualifiers", fresh, settings=Settings(budget=0, limit=5))
    assert {cells[1] for grid in impact.grids for _, cells in grid.lines} == {"not run"}


def test_a_budget_is_divided_by_weight() -> None:
    weights = {("starqe-like", 0): 1.0, ("triple-only", 0): 1.0, ("reification", 0): 1.5, ("zero-layers", 0): 0.5}
    assert list(shares(90, weights).values()) == [22.5, 22.5, 33.75, 11.25]


@pytest.mark.full
def test_an_interrupted_table_keeps_to_its_division_and_another_budget_is_divided_again(fresh: Path) -> None:
    settings = Settings(budget=8)
    place = open_work(fresh, settings=settings)
    assert plan(place, "results") == {("starqe-like", 0): 2, ("triple-only", 0): 2, ("reification", 0): 3, ("zero-layers", 0): 1}
    record = place.run_folder("starqe-like", 0) / "trained.json"
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    plan(open_work(fresh, settings=Settings(budget=0)), "results")  # a look in between changes nothing
    assert plan(place, "results") == {("triple-only", 0): 2, ("reification", 0): 3, ("zero-layers", 0): 1}
    more = open_work(fresh, settings=Settings(budget=12))
    assert plan(more, "results") == {("triple-only", 0): 4, ("reification", 0): 6, ("zero-layers", 0): 2}
    assert plan(open_work(fresh), "diameter") == {("starqe", 0): None, ("diameter", 0): None, ("diameter-plus-one", 0): None}


@pytest.mark.full
def test_epochs_hold_for_every_row_and_without_them_the_recipe_decides(fresh: Path) -> None:
    by_epochs, by_recipe = open_work(fresh, settings=Settings(epochs=3)), open_work(fresh)
    assert {row_recipe(by_epochs, (regime, 0)).train.epochs for regime in REGIMES} == {3}
    assert all(row_recipe(by_recipe, (regime, 0)) == regime_recipe(regime, 0, tiny=True) for regime in REGIMES)


@pytest.mark.full
def test_only_the_wanted_rows_are_trained_in_the_order_in_which_they_are_wanted(fresh: Path) -> None:
    wanted = open_work(fresh, settings=Settings(rows=("MPQE-like", "Q2B-like"), budget=4))
    assert plan(wanted, "generalisation") == {("mpqe-like", 0): 1, ("q2b-like", 0): 3}
    with pytest.raises(InputError, match=r"the rows of 'results' that are trained are StarQE, .*; found 'MPQE-like'"):
        plan(wanted, "results")


@pytest.mark.full
def test_rows_that_were_trained_for_unequal_times_are_noted(fresh: Path) -> None:
    place = open_work(fresh)

    def note(**granted: float | None) -> list[str]:
        for regime, minutes in granted.items():
            folder = place.run_folder(regime.replace("_", "-"), 0)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "trained.json").write_text(json.dumps({"granted": minutes}))
        return unequal(place, "faithfulness")

    assert note(starqe_like=2.0) == []
    assert note(mpqe_like=0.5) == []  # its weight is a quarter
    assert "(starqe-like-0 2 minutes, mpqe-like-0 5 minutes), which adds to their differences" in note(mpqe_like=5.0)[0]
    assert "(starqe-like-0 2 minutes, mpqe-like-0 to its end), which adds to their differences" in note(mpqe_like=None)[0]
    assert note(starqe_like=None) == []


@pytest.mark.full
def test_two_commands_do_not_work_in_one_folder(fresh: Path) -> None:
    with FileLock(fresh / LOCK), pytest.raises(StorageError, match="another command works in"):
        reproduce("statistics", fresh)
    assert reproduce("statistics", fresh)[1]


def test_a_query_set_that_has_grown_is_another_one(tmp_path: Path) -> None:
    graph = graph_of(train=[Statement("a", "r", "b", (("q", "c"),)), Statement("b", "r", "c", (("q", "c"),))])
    save_graph(graph, tmp_path / "graph")
    places = tmp_path / "work", tmp_path / "graph", tmp_path / "queries"
    generate(graph, tmp_path / "queries", [SHAPES["1p"]])
    open_work(*places)
    open_work(*places)
    generate(graph, tmp_path / "queries", [SHAPES["1p"], SHAPES["2p"]])
    with pytest.raises(StorageError, match=r"made with other settings \(tables\)"):
        open_work(*places)


@pytest.mark.full
def test_a_folder_of_another_graph_or_other_settings_is_refused(fresh: Path, tmp_path: Path) -> None:
    for other in (Settings(as_published=True), Settings(as_run=True)):
        with pytest.raises(StorageError, match=r"made with other settings \(as_published\)"):
            open_work(fresh, settings=other)
    save_graph(graph_of(train=[Statement("a", "r", "b", (("q", "c"),))]), tmp_path / "graph")
    generate(graph_of(train=[Statement("a", "r", "b", (("q", "c"),))]), tmp_path / "queries", [SHAPES["1p"]])
    with pytest.raises(MismatchError, match="tables of another graph"):
        open_work(fresh, tmp_path / "graph", tmp_path / "queries")
    with pytest.raises(InputError, match="give a graph and its queries together"):
        open_work(tmp_path / "new", tmp_path / "graph")
    with pytest.raises(InputError, match="tables are statistics, results"):
        reproduce("tables", fresh)


@pytest.mark.full
def test_a_run_of_another_recipe_is_not_taken_for_the_wanted_one(fresh: Path) -> None:
    place = open_work(fresh)
    Run.create(place.run_folder("starqe-like", 0), preset("demo"), place.graph)
    with pytest.raises(ConfigError, match="has another recipe"):
        reproduce("faithfulness", fresh)


@pytest.mark.full
def test_a_row_without_training_queries_is_left_out_and_the_reason_noted(tmp_path: Path) -> None:
    statements = [Statement(f"a{i}", "r", f"b{i % 3}", (("q", "c"),)) for i in range(9)]
    graph = graph_of(train=statements[:6], valid=statements[6:8], test=statements[8:])
    save_graph(graph, tmp_path / "graph")
    generate(graph, tmp_path / "queries", [SHAPES["1p"]])
    settings = Settings(budget=0.02, limit=5)
    report, _ = reproduce("faithfulness", tmp_path / "work", tmp_path / "graph", tmp_path / "queries", settings)
    assert {row.name for row in report.rows if row.ours is None} == {"StarQE-like"}
    assert any("there are no training queries of the shape '2p'" in note for note in report.notes)


@pytest.mark.slow
def test_a_killed_reproduction_continues_where_its_checkpoint_was(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "starqe",
        "reproduce",
        "faithfulness",
        "--out",
        str(tmp_path / "work"),
        "--budget",
        "0.6",
        "--limit",
        "5",
    ]
    folder = tmp_path / "work" / "runs" / "starqe-like-0"
    with subprocess.Popen(
        command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as process:
        until = time.monotonic() + 120
        while not ((folder / "state.safetensors").exists() and (folder / "metrics.jsonl").exists()):
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGKILL)
    assert not (folder / "trained.json").exists()
    state = Run.open(folder).load_state()
    assert state is not None
    kept = (folder / "metrics.jsonl").read_bytes()[: state[1]["metrics_size"]]
    assert kept
    report, _ = reproduce("faithfulness", tmp_path / "work", settings=Settings(budget=0.6, limit=5))
    assert all(row.ours is not None for row in report.rows)
    metrics = (folder / "metrics.jsonl").read_bytes()
    assert metrics.startswith(kept)
    steps = [json.loads(line)["step"] for line in metrics.splitlines()]
    assert steps == sorted(steps)
    assert json.loads((folder / "trained.json").read_text())["queries"] > state[1]["queries"]


def test_passes_count_how_often_the_queries_of_a_shape_were_seen() -> None:
    config = preset("starqe-fast").train.model_copy(update={"queries_per_shape": 10, "pool_per_shape": 60})
    assert passes(config, {"1p": 8, "2p": 40, "3p": 1000}, 6.0) == {"1p": 6.0, "2p": 1.5, "3p": 1.0}  # 3p draws from a pool of 60
    assert passes(config, {"1p": 8, "2p": 40}, 0.5) == {"1p": 0.5, "2p": 0.12}


@pytest.mark.full
def test_the_passes_of_a_row_are_recorded_and_reported(fresh: Path) -> None:
    report, _ = reproduce("faithfulness", fresh, settings=Settings(limit=5))
    record = json.loads((fresh / "runs" / "mpqe-like-0" / "trained.json").read_text())
    table = load_queries(fresh / "queries", "train", ["1p"])["1p"]
    pool = min(len(table), Run.open(fresh / "runs" / "mpqe-like-0").recipe.train.pool_per_shape)
    assert record["passes"] == {"1p": round(record["queries"] / pool, 2)}
    assert f"{record['queries']:,} queries (passes: 1p {record['passes']['1p']:.3g})" in report.provenance["training"]


@pytest.mark.full
@pytest.mark.parametrize("patient", [False, True])
def test_the_time_left_is_told_unless_patience_ends_the_training(tmp_path: Path, patient: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("starqe.experiments.train_rows.TELL_SECONDS", 0.0)
    said: list[str] = []
    reproduce("faithfulness", tmp_path / "work", settings=Settings(limit=5, rows=("MPQE-like",), as_run=patient), tell=said.append)
    epochs = [text for text in said if text.startswith("  epoch")]
    assert ["left" in text for text in epochs] == [not patient] * 2


@pytest.mark.full
def test_a_row_names_its_recipe_by_the_content_of_its_file(fresh: Path) -> None:
    settings = Settings(limit=5, rows=("MPQE-like",), epochs=1)
    report, _ = reproduce("faithfulness", fresh, settings=settings)
    file = (fresh / "runs" / "mpqe-like-0" / "config.toml").read_bytes()
    assert f"MPQE-like (recipe {hashlib.sha256(file).hexdigest()[:12]}) " in report.provenance["training"]
    assert report.provenance["starqe"] == __version__


def test_the_cells_below_the_paper_are_counted_and_named() -> None:
    rows = [
        replace(MRR, name="Q2B-like", average=average, shape=shape, ours=ours, paper=42.0, protocol=protocol)
        for average, shape, ours, protocol in (
            ("micro", "2p", 41.9, "paper"),
            ("micro", "3p", 42.0, "paper"),
            ("macro", "1p", 1.0, "paper"),
            ("micro", "1p", 1.0, "strict"),
            ("micro", AVERAGE, 1.0, "paper"),
        )
    ]
    oracle = replace(rows[0], name="Oracle (test)")
    assert against_paper([*rows, oracle], {"Q2B-like": ""}) == [
        "MRR, micro: 1 of 2 cells are at or above the paper's; below: Q2B-like 2p (41.9, the paper 42.0)."
    ]


@pytest.mark.full
def test_rows_are_trained_as_the_authors_code_ran(tmp_path: Path) -> None:
    report, _ = reproduce("faithfulness", tmp_path / "work", settings=Settings(as_run=True, budget=0.02, limit=5, rows=("MPQE-like",)))
    assert Run.open(tmp_path / "work" / "runs" / "mpqe-like-0").recipe.model.weighting == "shared-attention"
    assert report.provenance["recipes"].startswith("the paper's hyper-parameters and loss, trained as the authors' code did")
    record = json.loads((tmp_path / "work" / "runs" / "mpqe-like-0" / "trained.json").read_text())
    assert record["validation_hits"] >= 0
    assert {row.name for row in report.rows if row.ours is not None} == {"MPQE-like"}


def test_a_table_is_made_as_published_or_as_run_and_not_both() -> None:
    with pytest.raises(ConfigError, match=r"found both. Choose one of them"):
        Settings.parse({"as_run": True, "as_published": True})


@pytest.mark.full
@pytest.mark.parametrize("content", ['[{"row": "StarQE", "mrr": 50.0}]', '{"rows": []}', "not JSON"])
def test_stored_rows_of_another_form_are_refused_with_the_way_out(fresh: Path, content: str) -> None:
    work, path = open_work(fresh), fresh / "rows.json"
    path.write_text(content)
    with pytest.raises(StorageError, match=r"rows.json.*Delete it, and it is made again"):
        work.rows_once(path, Row, lambda: pytest.fail("made anew"))


@pytest.mark.full
def test_stored_rows_are_read_and_not_made_again(fresh: Path) -> None:
    work, row = open_work(fresh), replace(MRR, name="StarQE", ours=50.0)
    assert work.rows_once(fresh / "rows.json", Row, lambda: [row]) == [row]
    assert work.rows_once(fresh / "rows.json", Row, lambda: pytest.fail("made anew")) == [row]
