"""The table of reasoning on the embedded graph: its numbers are those of evaluation, and what is kept is not measured again."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from starqe.errors import MismatchError, StorageError
from starqe.experiments import Settings, open_work, reproduce
from starqe.experiments.reasoning.measurements import explained, measured
from starqe.experiments.reasoning.reasoning_table import NEW, loss_rows, ranked_rows, reason_rows, worth_rows
from starqe.kg import embedded_graph
from starqe.learn import Run
from starqe.measure.evaluate import Measure, evaluate
from starqe.queries import QueryTable, load_queries
from starqe.reason.reasoner import RANKED_BY, Reasoner

pytestmark = pytest.mark.full

LIMIT = 30


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reasoning") / "work"
    open_work(folder)
    return folder


@pytest.fixture(scope="module")
def reasoner(askable_run: Path) -> Reasoner:
    return Reasoner.open(Run.open(askable_run))


@pytest.fixture(scope="module")
def tables(work: Path) -> dict[str, QueryTable]:
    return load_queries(work / "queries", "test", ["1p", "2p", "2i"], LIMIT)


@pytest.fixture(scope="module")
def kept(reasoner: Reasoner, tables: dict[str, QueryTable]) -> dict[str, dict]:
    return {shape: json.loads(json.dumps(measured(reasoner, table))) for shape, table in tables.items()}


def test_the_numbers_are_those_of_evaluation(reasoner: Reasoner, tables: dict[str, QueryTable], kept: dict[str, dict]) -> None:
    rows = {(row.name, row.protocol, row.shape, row.metric, row.average): row for row in ranked_rows(kept, 0)}
    for by, make in RANKED_BY.items():
        for protocol in ("paper", "strict"):
            expected = evaluate(make(reasoner), tables, len(reasoner.graph.entities), Measure(protocol=protocol), graph=reasoner.graph)
            for one in expected:
                row = rows[by, protocol, one.shape, one.metric, one.average]
                assert (row.n, row.dropped) == (one.n, one.dropped)
                assert (row.ours, row.low, row.high) == pytest.approx((one.ours, one.low, one.high))


def test_queries_that_are_all_new_are_measured_apart(reasoner: Reasoner, tables: dict[str, QueryTable], kept: dict[str, dict]) -> None:
    new = kept["1p"]["all_new"]
    assert 0 < len(new) <= LIMIT
    apart = evaluate(reasoner.executor(["train"]), {"1p": tables["1p"].take(np.array(new))}, len(reasoner.graph.entities))
    (expected,) = (row.ours for row in apart if (row.shape, row.metric, row.average) == ("1p", "MRR", "micro"))
    key = f"executor{NEW}", "1p", "MRR", "micro", "paper"
    (row,) = (one for one in ranked_rows(kept, 0) if (one.name, one.shape, one.metric, one.average, one.protocol) == key)
    assert row.ours == pytest.approx(expected)


def test_a_missing_edge_of_a_query_of_one_edge_is_worth_the_same_alone(kept: dict[str, dict]) -> None:
    reciprocal = kept["1p"]["missing"]["reciprocal"]
    assert reciprocal["alone"] == pytest.approx(reciprocal["executor"])
    assert set(kept["1p"]["missing"]["choices"]) == {1}


def test_an_explanation_without_inner_variables_names_the_missing_statement(
    reasoner: Reasoner, tables: dict[str, QueryTable], kept: dict[str, dict]
) -> None:
    missing = kept["2i"]["missing"]
    assert missing["query"]
    for place in range(len(missing["query"])):
        why = explained(reasoner.executor(["train"]), tables["2i"], missing, place)
        assert (why["edge"], why["statement"], why["edge at random"], why["statement at random"]) == (True, True, 0.5, 1.0)


def test_an_explanation_that_predicts_another_statement_does_not_count(
    reasoner: Reasoner, tables: dict[str, QueryTable], kept: dict[str, dict]
) -> None:
    missing = {key: values for key, values in kept["2i"]["missing"].items() if key != "reciprocal"}
    executor = reasoner.executor(["train"])
    turned = {**missing, "edge": [1 - edge for edge in missing["edge"]]}
    assert not explained(executor, tables["2i"], turned, 0)["edge"]
    moved = {**missing, "head": [head + 1 for head in missing["head"]]}
    assert [explained(executor, tables["2i"], moved, 0)[key] for key in ("edge", "statement")] == [True, False]


def test_shares_means_and_losses_are_worked_out_by_hand(reasoner: Reasoner) -> None:
    def part(relation: list[int], alone: list[float], executor: list[float]) -> dict:
        reciprocal = {"alone": alone, "encoder": alone, "executor": executor, "mixture": executor}
        return {"missing": {"query": list(range(len(relation))), "relation": relation, "reciprocal": reciprocal}}

    kept = {"2p": part([0, 0, 1], [1.0, 0.5, 0.25], [1.0, 0.5, 0.5]), "2i": part([1], [0.25], [0.0]), "3p": part([], [], [])}
    worth = {(row.name, row.shape): (row.ours, row.n) for row in worth_rows(kept, 0)}
    assert worth["alone", "2p"] == (pytest.approx(175 / 3), 3)
    assert worth["executor", "all"] == (50, 4)
    assert ("alone", "3p") not in worth
    model = type("Model", (), {"reasoner": reasoner, "seed": 0})
    losses = [(row.name, row.n, row.ours, row.alone, row.answer) for row in loss_rows(kept, model)]
    name = reasoner.graph.relations.identifier
    assert losses == [(name(1), 2, 75, 25, 25), (name(0), 2, 25, 75, 75)]  # of the loss of 2, one loses 1.5
    reasons = [
        {"shape": shape, "edge": named, "edge at random": 0.5, "statement": False, "statement at random": chance}
        for shape, named, chance in (("2p", True, 0.25), ("2p", False, 0.25), ("2i", True, 1.0))
    ]
    shares = {(row.name, row.shape): row.ours for row in reason_rows(reasons, 0)}
    assert shares["edge", "2p"] == 50
    assert shares["edge", "all"] == pytest.approx(200 / 3)
    assert (shares["statement", "2i"], shares["statement at random", "all"]) == (0, 50)
    assert (shares["statement, of several", "all"], shares["statement at random, of several", "2p"]) == (0, 25)
    assert ("statement, of several", "2i") not in shares  # there is no other


@pytest.mark.full
def test_the_table_of_a_given_run_is_written_and_a_second_call_measures_nothing(askable_run: Path, work: Path) -> None:
    said: list[str] = []
    settings = Settings(run=askable_run, limit=8)
    report, files = reproduce("reasoning", work, settings=settings, tell=said.append)
    assert said[0] == "reasoning, seed 0: 1p"
    assert said[-1].startswith("reasoning, seed 0: explaining ")
    assert {row.name for row in report.rows} >= {"encoder", "executor", "mixture", f"mixture{NEW}", "alone", "edge", "statement"}
    assert all(row.ours is not None and row.n > 0 for row in report.rows)
    page = (work / "reasoning" / "table.md").read_text()
    for title in ("Test queries", "Explanations: how often", "One missing edge: MRR", "The relations that lose most"):
        assert f"**{title}" in page
    before = files[0].read_bytes()
    again: list[str] = []
    reproduce("reasoning", work, settings=settings, tell=again.append)
    assert again == []
    assert files[0].read_bytes() == before


@pytest.mark.full
def test_what_was_measured_is_kept_by_model(askable_run: Path, work: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(askable_run, other)
    header = json.loads((other / "answering.json").read_text())
    (other / "answering.json").write_text(json.dumps({**header, "executor": dict.fromkeys(header["executor"], 0.3), "checksum": None}))
    said: list[str] = []
    for run in (askable_run, other):
        reproduce("reasoning", work, settings=Settings(run=run, limit=4), tell=said.append)
    assert sum(text == "reasoning, seed 0: 2p" for text in said) == 2


def test_a_run_that_cannot_be_measured_is_refused(askable_run: Path, work: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    shutil.copytree(askable_run, plain)
    (plain / "answering.json").unlink()
    with pytest.raises(StorageError, match="was not calibrated"):
        reproduce("reasoning", work, settings=Settings(run=plain, limit=4))
    header = json.loads((plain / "run.json").read_text())
    assert header["fingerprint"] == embedded_graph().fingerprint
    (plain / "run.json").write_text(json.dumps({**header, "fingerprint": "0" * 64, "checksum": None}))
    with pytest.raises(MismatchError, match="what is test here may be train there"):
        reproduce("reasoning", work, settings=Settings(run=plain, limit=4))


def test_a_budget_of_nothing_says_so_in_every_cell(work: Path) -> None:
    report, _ = reproduce("reasoning", work, settings=Settings(budget=0, limit=4))
    assert {cell for grid in report.grids for _, cells in grid.lines for cell in cells} == {"not run"}
    assert any("not run, the budget is 0" in note for note in report.notes)
    assert report.provenance["weight of the executor"] == "not run"


@pytest.mark.full
def test_encoder_and_predictor_are_trained_and_calibrated_where_no_run_is_given(work: Path) -> None:
    said: list[str] = []
    settings = Settings(budget=0.04, limit=4)
    report, _ = reproduce("reasoning", work, settings=settings, tell=said.append)
    assert "starqe-0: calibrating on validation queries" in said
    assert (work / "runs" / "starqe-0" / "predictor" / "weights.safetensors").exists()
    assert all(row.ours is not None for row in report.rows)
    assert "encoder" in report.provenance["training"]
