"""Numbers and dates that are not known: predicted with an interval, and conditions on them with a probability."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from starqe.ask import Answerer
from starqe.ask.explainer import PROOF
from starqe.ask.predicted_numbers import INTERVAL, SAMPLES, VALUES, _sample
from starqe.cli.main import main
from starqe.kg.literal import DATE, DECIMAL, INTEGER, YEAR, Literal
from starqe.reason.numbers import NumberPredictor, condition_reliability, fit_levels, number_rows
from starqe.reason.predictor.scales import Scales
from starqe.reason.predictor.scorer import PredictorScorer
from starqe.serve import create_app
from starqe.serve.settings import ServeSettings
from tests.reason.sized_town import HELD_OUT, size_of, sized_run, sized_town

pytestmark = pytest.mark.full
TEST = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of an encoder that knows nothing, with a predictor that has learned the sizes."""
    settings = ("model.width=32", "model.knots=12", "train.epochs=20", "train.batch=64", "train.average=0.9")
    return sized_run(tmp_path_factory.mktemp("sizes"), *settings)


@pytest.fixture(scope="module")
def town(folder):
    made = Answerer.open(folder, splits=["train"])
    yield made
    made.close()


def numbers_of(town: Answerer) -> NumberPredictor:
    found = town.reasoner.numbers(["train"])
    assert found is not None
    return found


def distribution(town: Answerer, person: str):
    return numbers_of(town).tails([town.graph.entities.id(person)], "size")


def test_an_unknown_number_is_predicted_with_its_median_and_interval(town):
    found = town.ask("SELECT ?s { e:p0 r:size ?s }")
    (answer,) = found.predicted
    (wanted,) = distribution(town, "p0").quantile(0.5)
    one = answer.bindings["s"]
    assert not found.known
    assert not any("known facts only" in note for note in found.notes)
    assert answer.probability == pytest.approx(INTERVAL)
    assert one.term == {"type": "literal", "value": one.value, "datatype": INTEGER}
    low, high = map(int, one.interval)
    assert low <= int(one.value) <= high
    assert one.label == f"{one.value} ({low} to {high})"
    assert float(one.value) == pytest.approx(wanted, abs=(high - low) / 10 + 1)


def test_a_known_number_is_not_predicted_again(town):
    found = town.ask("SELECT ?s { e:p60 r:size ?s }")
    assert [(one.entity, one.known) for one in found] == [(str(size_of(60)), True)]
    assert not town.ask(f"SELECT ?s {{ e:p60 r:size ?s FILTER (?s != {size_of(60)}) }}", threshold=0.0).answers
    assert not found.notes


@pytest.mark.parametrize("limit", [-5, 10, 900, 1500, 2500, 4020, 90_000])
@pytest.mark.parametrize("person", ["p0", "p3"])
def test_a_condition_has_the_probability_that_the_distribution_gives_it(town, limit, person):
    (below,) = distribution(town, person).below(np.array([float(limit)]))
    for condition, chance in ((f"?s < {limit}", below), (f"!(?s / 2 < {limit} / 2)", 1 - below), (f"?s >= {limit} || ?s < 0", 1 - below)):
        found = town.ask(f"SELECT ?s {{ e:{person} r:size ?s FILTER ({condition}) }}", threshold=0.0)
        given = found.predicted[0].probability if found.predicted else 0.0
        assert given == pytest.approx(chance, abs=2 / SAMPLES), condition
        for answer in found.predicted:
            value = float(answer.bindings["s"].value)
            assert value < limit if condition.startswith("?s <") else value >= limit


def test_only_what_reaches_the_threshold_is_given(town):
    text = "SELECT ?s { e:p0 r:size ?s FILTER (?s > 3000) }"
    (chance,) = 1 - distribution(town, "p0").below(np.array([3000.0]))
    assert 0 < chance < 0.5
    assert not town.ask(text).predicted
    assert len(town.ask(text, threshold=0.0).predicted) == 1
    assert len(town.ask(text, top=1).predicted) == 1
    assert not town.ask(text, known_only=True, top=1).answers


def test_entities_with_an_unknown_number_give_rows_too(town):
    found = town.ask("SELECT ?x ?s { ?x r:livesIn e:town0 ; r:size ?s }", top=100)
    known = {one.entity: one.support["s"] for one in found.known}
    people = {one.head for one in town.graph.statements("train") if one.tail == "town0"}
    held_out = {f"p{person}" for person in range(HELD_OUT + TEST)} & people
    assert known == {name: str(size_of(int(name[1:]))) for name in people - held_out}
    predicted = {one.entity: one for one in found.predicted if one.bindings["s"].interval is not None}
    assert held_out <= predicted.keys()
    assert not predicted.keys() & known.keys()
    assert all((one.probability == pytest.approx(INTERVAL)) == (name in held_out) for name, one in predicted.items())
    few = town.ask("SELECT ?x ?s { ?x r:livesIn e:town0 ; r:size ?s FILTER (?s < 1000) }")
    assert {one.entity for one in few.predicted} <= held_out


def test_an_explanation_says_that_the_value_is_predicted(town):
    text = "SELECT ?x ?s { ?x r:livesIn e:town0 ; r:size ?s }"
    found = town.ask(text, top=100)
    predicted = next(one for one in found.predicted if one.entity == "p6")
    explained = town.explain(text, predicted)
    assert (explained.answer.known, explained.answer.probability) == (False, pytest.approx(INTERVAL))
    assert explained.answer.bindings == predicted.bindings
    assert [reason.fact for reason in explained.reasons] == [True]
    assert explained.note == VALUES
    known = town.explain(text, found.known[0])
    assert (known.answer.known, known.note) == (True, PROOF)


def test_what_the_model_has_no_scale_for_is_not_predicted(town):
    found = town.ask("SELECT ?s { e:town0 r:size ?s . e:p0 r:size ?t FILTER (?s < ?t) }", threshold=0.0)
    assert found.predicted  # both are predicted, and compared sample by sample
    assert all(0 < one.probability <= 1 for one in found.predicted)
    assert not town.ask('SELECT ?t { e:p0 r:size "3"^^xsd:integer ; r:size ?t }', threshold=0.0).predicted


def test_ask_has_the_probability_of_its_condition(town):
    (below,) = distribution(town, "p0").below(np.array([1000.0]))
    found = town.ask("ASK { e:p0 r:size ?s FILTER (?s < 1000) }")
    assert not found.boolean
    assert found.probability == pytest.approx(below, abs=2 / SAMPLES)


def test_the_service_gives_the_interval(town):
    with TestClient(create_app(town, ServeSettings.parse({})), base_url="http://localhost") as client:
        (answer,) = client.post("/api/ask", json={"query": "SELECT ?s { e:p0 r:size ?s }"}).json()["answers"]
        rows = client.get("/sparql", params={"query": "SELECT ?s ?score ?known { e:p0 r:size ?s }"}).json()["results"]["bindings"]
    low, high = answer["bindings"]["s"]["interval"]
    assert int(low) <= int(answer["bindings"]["s"]["entity"]) <= int(high)
    assert rows[0]["s"] == {"type": "literal", "value": answer["bindings"]["s"]["entity"], "datatype": INTEGER}
    assert (float(rows[0]["score"]["value"]), rows[0]["known"]["value"]) == (pytest.approx(INTERVAL), "false")


def test_numbers_are_written_as_the_values_of_their_relation(town):
    written = {
        DATE: (Literal("1999-12-31", DATE).number, "1999-12-31"),
        YEAR: (Literal("1999", YEAR).number, "1999"),
        INTEGER: (12.6, "13"),
        DECIMAL: (1_234_567.0, "1234570"),
    }
    for datatype, (number, text) in written.items():
        numbers = numbers_of(town)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(NumberPredictor, "_written", [(datatype, "")])
            assert numbers.literal("size", number) == Literal(text, datatype)


def test_a_date_stays_a_date_where_the_graph_has_no_values_to_look_at():
    content = {"size": {"axis": "number", "knots": [0, 1]}, "knows": {"axis": "time", "knots": [0, 365]}}
    scales = Scales.of_json(content, sized_town().entity_part)
    numbers = NumberPredictor(PredictorScorer.__new__(PredictorScorer), scales)
    assert (numbers.literal("size", 0.5), numbers.literal("knows", 31.0)) == (Literal("0.5", DECIMAL), Literal("1970-02-01", DATE))


def test_two_values_of_a_row_are_compared_independently():
    for place in range(6):
        assert sorted(_sample(number, place) for number in range(SAMPLES)) == list(range(SAMPLES))
    assert [_sample(number, 1) for number in range(3)] == [0, 7, 14]


def test_errors_are_those_of_the_median_and_in_percent_of_the_range(town):
    numbers = numbers_of(town)
    *_, every = number_rows(numbers, "test")
    persons = range(HELD_OUT, HELD_OUT + TEST)
    found = [float(distribution(town, f"p{person}").quantile(0.5)[0]) for person in persons]
    train = [size_of(person) for person in range(HELD_OUT + TEST, 120)]
    extent = max(train) - min(train)
    errors = [100 * abs(one - size_of(person)) / extent for one, person in zip(found, persons, strict=True)]
    baseline = [100 * abs(np.median(train) - size_of(person)) / extent for person in persons]
    assert (every.relation, every.count) == ("all", TEST)
    assert every.predicted.mae == pytest.approx(np.mean(errors), rel=1e-5)  # of 32-bit numbers, which batches round differently
    assert every.predicted.rmse == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=1e-5)
    assert every.baseline == pytest.approx((np.mean(baseline), np.sqrt(np.mean(np.square(baseline)))))
    assert every.predicted.mae < every.baseline.mae


def test_few_values_calibrate_nothing_and_many_make_intervals_hold(town, monkeypatch):
    numbers = numbers_of(town)
    assert fit_levels(numbers.scorer) == {}
    monkeypatch.setattr("starqe.reason.numbers.LEAST_NUMBERS", HELD_OUT)
    fitted = replace(numbers, levels=fit_levels(numbers.scorer))
    *_, every = number_rows(fitted, "valid")
    assert every.within[0] == pytest.approx(50, abs=100 / HELD_OUT)
    assert every.within[0] < every.within[1] <= every.within[2]
    assert fit_levels(object()) == {}


def test_the_probability_that_there_is_a_value_counts(town, monkeypatch):
    monkeypatch.setattr(NumberPredictor, "existence", lambda _, heads, relation: np.full(len(heads), 0.25))
    (answer,) = town.ask("SELECT ?s { e:p0 r:size ?s }", top=1).predicted
    assert answer.probability == pytest.approx(0.25 * INTERVAL)
    assert not town.ask("SELECT ?s { e:p0 r:size ?s }").predicted


def test_probabilities_of_conditions_are_compared_with_what_is_true(town):
    numbers = numbers_of(town)
    found = condition_reliability(numbers, "test")
    knots = numbers.scales.of(0)
    limits = [np.quantile(knots, share) for share in np.arange(1, 10) / 10]
    truth = [size_of(person) < limit for person in range(HELD_OUT, HELD_OUT + TEST) for limit in limits]
    chances = [
        float(distribution(town, f"p{person}").below(np.array([limit]))[0])
        for person in range(HELD_OUT, HELD_OUT + TEST)
        for limit in limits
    ]
    assert (found.count, found.base) == (9 * TEST, pytest.approx(np.mean(truth)))
    assert found.brier == pytest.approx(np.mean(np.square(np.array(chances) - truth)))


def test_a_run_with_numbers_is_evaluated_and_calibrated_by_the_command_line(folder, capsys, monkeypatch):
    for arguments in (["evaluate", str(folder), "--numbers", "--json"], ["calibrate", str(folder), "--limit", "5", "--json"]):
        monkeypatch.setattr("sys.argv", ["starqe", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        found = json.loads(capsys.readouterr().out)
        assert found["relations"][-1]["count"] == TEST if arguments[0] == "evaluate" else found["calibrated"] in (True, False)
