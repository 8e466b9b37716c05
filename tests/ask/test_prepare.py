from pathlib import Path
from typing import Any

import pytest

from starqe.ask import Answerer, calibrate, drawn_queries, fit, prepare, with_validation
from starqe.ask.prepare import LEAST_CALIBRATION, CalibrationCosts, calibration_queries
from starqe.ask.recipes import AVERAGED, AVERAGED_MINUTES, LARGE, QUICK_MINUTES, SMALL, recipes_for
from starqe.errors import InputError, MismatchError, StorageError
from starqe.kg import Graph, Statement, check_split, embedded_graph, export_graph, graph_of, import_graph
from starqe.learn import Run
from starqe.queries import SHAPES, Atom, Query, Variable
from tests.ask.town import town


def test_a_graph_with_a_validation_split_stays_as_it_is() -> None:
    graph = embedded_graph()
    assert with_validation(graph) is graph


def test_a_graph_without_one_gives_up_one_statement_in_twenty_that_others_can_spare() -> None:
    split = with_validation(town())
    assert len(split.known(["valid"])) == round(0.05 * 127)
    assert not len(split.known(["test"]))
    assert check_split(split).clean
    assert with_validation(town(), seed=1).fingerprint != split.fingerprint == with_validation(town()).fingerprint


HELD_BACK = [Statement(f"p{n}", "knows", f"p{n + 1}") for n in range(0, 50, 5)]
"""Statements that are test, and have to stay test."""


def of_test(graph: Graph) -> set[Statement]:
    return {graph.statement(row) for row in graph.known(["test"]).rows.tolist()}


@pytest.mark.parametrize("form", ["statements", "turtle", "named graphs"])
def test_what_is_test_stays_test_when_validation_is_held_out(tmp_path: Path, form: str) -> None:
    graph = graph_of(train=[town().statement(row) for row in range(len(town()))], test=HELD_BACK)
    names = {"statements": "folder", "turtle": "folder", "named graphs": "graph.nq"}
    export_graph(graph, tmp_path / names[form], {"statements": "statements", "turtle": "turtle", "named graphs": "nquads"}[form])
    read, _ = import_graph(tmp_path / names[form])
    split = with_validation(read)
    assert len(of_test(read)) == len(HELD_BACK)
    assert of_test(split) == of_test(read)
    assert len(split.known(["train"])) + len(split.known(["valid"])) == len(read.known(["train"])) == 127
    assert len(split.known(["valid"])) == round(0.05 * 127)


def test_a_small_graph_gives_up_one_statement() -> None:
    square = graph_of([Statement("a", "r", "b"), Statement("b", "r", "c"), Statement("c", "r", "d"), Statement("d", "r", "a")])
    assert len(with_validation(square).known(["valid"])) == 1


@pytest.mark.parametrize("count", [1, 5])
def test_statements_that_share_nothing_cannot_be_held_out_and_nothing_is_left_behind(tmp_path: Path, count: int) -> None:
    graph = graph_of([Statement(f"a{i}", f"r{i}", f"b{i}") for i in range(count)])
    with pytest.raises(InputError, match=f"none of its {count} can: each mentions something that no other"):
        fit(graph, tmp_path / "run", minutes=0.05)
    assert not list(tmp_path.iterdir())


def test_a_file_in_the_place_of_the_run_is_refused_before_queries_are_sampled(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("here already")
    stages: list[str] = []
    with pytest.raises(StorageError, match="run is a file, and a folder is written there"):
        fit(town(), tmp_path / "run", minutes=0.05, note=lambda stage, _: stages.append(stage))
    assert stages == []


def test_queries_are_drawn_in_every_direction_and_with_and_without_qualifiers() -> None:
    tables = drawn_queries(embedded_graph(), "valid", 40)
    assert {name.partition(".")[0] for name in tables} == set(SHAPES)
    assert {"2p", "2p.01", "2p.10", "2p.11"} <= tables.keys()
    pairs = sum(len(table.pair_relation) for table in tables.values())
    edges = sum(table.relations.size for table in tables.values())
    assert 0 < pairs < 2 * edges


def test_small_graphs_train_with_smaller_batches() -> None:
    encoder, one_hop = recipes_for(200, ["1p", "2p"], 7, 10)
    assert encoder.train.shapes == ("1p", "2p")
    assert (encoder.seed, one_hop.seed, encoder.train.batch, one_hop.train.batch) == (7, 7, 128, 128)
    assert [recipe.train.batch for recipe in recipes_for(SMALL, ["1p"], 0, 10)] == [512, 512]


@pytest.mark.parametrize(
    ("entities", "minutes", "members"),
    [(SMALL - 1, 10, 1), (SMALL, AVERAGED_MINUTES, 3), (SMALL, AVERAGED_MINUTES - 1, 1), (AVERAGED + 1, 10, 1)],
)
def test_the_predictor_is_several_models_where_time_and_size_allow(entities, minutes, members) -> None:
    model = recipes_for(entities, ["1p"], 0, minutes)[1].model
    assert model.members == members
    assert model.width == 192 * members


def test_short_fits_train_the_encoder_with_a_higher_rate() -> None:
    quick, long = (recipes_for(SMALL, ["1p"], 0, minutes)[0] for minutes in (QUICK_MINUTES, QUICK_MINUTES + 1))
    assert quick.train.learning_rate > long.train.learning_rate
    assert quick.model.dropout < long.model.dropout


def test_embeddings_of_large_graphs_are_narrow_and_trained_row_by_row() -> None:
    for recipe in recipes_for(LARGE + 1, ["1p"], 0, 10):
        assert recipe.model.width == 64
        assert recipe.train.optimizer == "rows"


@pytest.mark.full
def test_a_graph_is_fitted_and_answers(fitted: Path) -> None:
    answerer = Answerer.open(fitted)
    who = Variable("who")
    company = Variable("company")
    answers = answerer.ask(Query.conjunction([Atom(who, "worksFor", company), Atom(company, "in", "city1")], "who"), top=40)
    expected = sorted(f"p{n}" for n in range(60) if n % 7 in (1, 4))
    assert sorted(one.entity for one in answers.known) == expected
    assert answers.predicted


@pytest.mark.full
def test_a_calibration_that_is_interrupted_leaves_the_one_before(six_statements_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    before = {path: path.read_bytes() for path in six_statements_run.iterdir() if path.is_file()}
    monkeypatch.setattr(prepare, "fit_probability", interrupted)
    with pytest.raises(KeyboardInterrupt):
        calibrate(Run.open(six_statements_run))
    assert {path: path.read_bytes() for path in six_statements_run.iterdir() if path.is_file()} == before


@pytest.mark.full
def test_a_fitted_run_is_not_overwritten_and_a_resumed_one_is_of_the_same_graph(fitted: Path) -> None:
    with pytest.raises(StorageError, match=r"exists already\. Continue it with the option resume"):
        fit(town(), fitted, minutes=0.05)
    with pytest.raises(MismatchError, match="is a run on another graph"):
        fit(town(50), fitted, minutes=0.05, resume=True)
    weights = (fitted / "weights.safetensors").read_bytes()
    assert fit(town(), fitted, minutes=0.05, resume=True).graph.fingerprint == with_validation(town()).fingerprint
    assert (fitted / "weights.safetensors").read_bytes() == weights


@pytest.mark.full
def test_the_time_of_a_large_graph_is_planned_without_measuring_calibration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stages: dict[str, dict[str, Any]] = {}
    measured: list[object] = []
    monkeypatch.setattr(prepare, "calibration_costs", lambda *models: measured.append(models))
    monkeypatch.setattr(prepare, "LARGE", len(town().entities) - 1)
    fit(town(), tmp_path / "run", minutes=0.1, note=lambda stage, line: stages.setdefault(stage, {}).update(line))
    assert stages[prepare.SAMPLING]["calibration_seconds"] == pytest.approx(6 * prepare.CALIBRATION_SHARE)
    assert measured == [], "it takes a minute there, and calibration ends in time anyway"


def test_calibration_takes_as_many_queries_as_the_time_that_is_left_allows() -> None:
    tables = {name: table for name, table in drawn_queries(embedded_graph(), "valid", 40).items() if len(table) == 20}
    assert len(tables) >= 2
    queries = sum(map(len, tables.values()))
    costs = CalibrationCosts(single_facts=2.0, per_query=10.0 / queries)
    half, seconds = calibration_queries(tables, costs, 7.0)  # 2 s for facts, and 5 s of the 10 that all queries would take
    assert ({len(table) for table in half.values()}, seconds) == ({10}, pytest.approx(7.0))
    everything, seconds = calibration_queries(tables, costs, 1000.0)
    assert ({len(table) for table in everything.values()}, seconds) == ({20}, pytest.approx(12.0))
    least, _ = calibration_queries(tables, costs, -5.0)  # nothing is left: some are needed all the same
    assert {len(table) for table in least.values()} == {LEAST_CALIBRATION}


def test_as_many_statements_are_validated_on_as_fit_into_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "_seconds", lambda _: 16.0)
    monkeypatch.setattr(prepare, "PROBED", 1)  # 8 statements, of 2 seconds each
    graph = embedded_graph()
    assert len(graph.known(["valid"])) > 20
    assert prepare._predictor_validation(None, graph, 1_000, 40.0) == (20, 40.0)  # type: ignore[arg-type]
    assert prepare._predictor_validation(None, graph, 10, 40.0) == (10, 20.0)  # type: ignore[arg-type]
    assert prepare._predictor_validation(None, graph, 1_000, 1.0) == (8, 16.0)  # type: ignore[arg-type]
