"""Scales of numbers and dates, worked out by hand; and a predictor that learns from them."""

import json
import shutil
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from starqe.ask.continuing import start_of
from starqe.errors import ConfigError, InputError, StorageError, UnsupportedError
from starqe.folders import checksum, write_header
from starqe.kg import Changes, Graph, Statement, graph_of, update_graph
from starqe.kg.literal import DATE, DECIMAL, INTEGER, STRING, Literal
from starqe.learn import Trainer
from starqe.queries.exact.entailed import Entailed
from starqe.queries.gaps import HEAD, RELATION, TAIL, VALUE, Gaps, asked_relation, with_gap
from starqe.ragged import Ragged
from starqe.reason.predictor.complex import ComplEx
from starqe.reason.predictor.config import PredictorConfig, PredictorRecipe
from starqe.reason.predictor.lesson import PredictLesson
from starqe.reason.predictor.presets import recipe_of
from starqe.reason.predictor.run import SCALES, PredictorRun
from starqe.reason.predictor.scales import Distributions, Levels, Scales
from starqe.reason.predictor.scorer import PredictorScorer
from starqe.reason.predictor.training_questions import TrainingQuestions
from tests.reason.sized_town import HELD_OUT, PEOPLE, size_of, sized_town


def number(text: object) -> Literal:
    return Literal(str(text), INTEGER)


SIZES = [Statement(f"e{i:02}", "size", number(10 * i)) for i in range(41)]
MORE = [
    Statement("e00", "knows", "e01", (("since", Literal("2000-01-01", DATE)),)),
    *(Statement("e01", "knows", f"e{i:02}", (("since", Literal(f"20{i:02}-01-01", DATE)),)) for i in range(2, 14)),
    Statement("e02", "size", Literal("3.5", DECIMAL, unit="km")),
    Statement("e02", "name", Literal("two", STRING)),
    *(Statement(f"e{i:02}", "rare", number(i)) for i in range(9)),
]
GRAPH = graph_of([*SIZES, *MORE], [Statement("e00", "knows", "e05")], [Statement("e40", "size", number(1000))])


def scales(most: int = 5) -> Scales:
    return Scales.fitted(GRAPH, most, ["train"])


def ids(relation: str, *values: Literal) -> tuple[np.ndarray, np.ndarray]:
    return np.full(len(values), GRAPH.relations.id(relation)), np.array([GRAPH.value_id(value) for value in values])


class TestScales:
    def test_knots_are_quantiles_of_train_and_relations_with_few_values_have_none(self):
        made = scales()
        assert dict(zip(made.names, made.axes, strict=True)) == {"since": "time", "size": "number"}
        assert made.of(made.names.index("size")).tolist() == [0, 100, 200, 300, 400]
        assert len(made.of(made.names.index("since"))) == 2  # 13 values, and 5 for each knot
        assert len(scales(0)) == 0

    def test_a_value_lies_between_two_knots(self):
        made = scales()
        first = made.places.offsets[made.names.index("size")]
        below, share = made.between(*ids("size", number(0), number(30), number(100), number(350), number(400), number(1000)))
        assert (below - first).tolist() == [0, 0, 1, 3, 3, 3]
        assert share.tolist() == [0, 0.3, 0, 0.5, 1, 1]

    @pytest.mark.parametrize("value", [Literal("3.5", DECIMAL, unit="km"), Literal("two", STRING), number(3)])
    def test_what_is_not_on_the_scale_of_its_relation_is_refused(self, value):
        relation = "rare" if value == number(3) else "size"
        assert not scales().has(*ids(relation, value)).any()
        with pytest.raises(InputError, match="on the scale of their relation"):
            scales().between(*ids(relation, value))

    def test_the_part_that_a_model_sees_has_entities_and_what_is_on_a_scale(self):
        part = scales().part
        kept = {tuple(one.fields()) for one in part.statements("train")}
        assert kept == {tuple(one.fields()) for one in [*SIZES, *MORE[:13]]}
        assert [one.fields() for one in part.statements("valid", "test")] == [one.fields() for one in GRAPH.statements("valid", "test")]

    def test_scales_are_written_by_relation_and_read_for_a_graph_with_other_ids(self):
        written = json.loads(scales().to_json())
        assert written["size"] == {"axis": "number", "knots": [0, 100, 200, 300, 400]}
        other = graph_of([Statement("x", "a relation before", "y"), *SIZES])
        read = Scales.of_json(written, other)
        assert read.names == ("size",)
        assert read.relation.tolist() == [-1, 0]


SHARES = st.lists(st.floats(0.01, 1), min_size=5, max_size=5).map(lambda some: np.array(some) / sum(some))


class TestDistributions:
    def distribution(self, shares, levels=()) -> Distributions:
        made = Scales.of_json({"size": {"axis": "number", "knots": [0, 100, 200, 300, 400]}}, GRAPH)
        return Distributions(np.array([0]), Ragged.of_counts([5], np.array(shares)), made, levels)

    def test_half_of_a_knot_lies_below_it(self):
        found = self.distribution([0.2, 0.2, 0.4, 0.1, 0.1])
        assert [float(found.below(np.array([at]))[0]) for at in (-1, 0, 100, 150, 200, 400, 401)] == pytest.approx(
            [0, 0.1, 0.3, 0.45, 0.6, 0.95, 1]
        )
        assert [float(found.quantile(share)[0]) for share in (0.05, 0.1, 0.45, 0.6, 0.99)] == pytest.approx([0, 0, 150, 200, 400])

    def test_levels_correct_what_validation_shows(self):
        levels = Levels((0.0, 0.4, 0.5, 0.6, 1.0))  # half of all values are between 0.4 and 0.6 of the prediction: it is too wide
        found, plain = self.distribution([0.2] * 5, (levels,)), self.distribution([0.2] * 5)
        assert found.quantile(0.25)[0] == plain.quantile(0.4)[0]
        assert found.below(plain.quantile(0.6))[0] == pytest.approx(0.75)

    @given(SHARES, st.floats(0.02, 0.98))
    def test_quantile_and_probability_are_inverse(self, shares, share):
        levels = (Levels((0.0, 0.2, 0.5, 0.7, 1.0)),)
        for found in (self.distribution(shares), self.distribution(shares, levels)):
            at = found.quantile(share)
            if 0 < at[0] < 400:
                assert found.below(at)[0] == pytest.approx(share)

    @given(st.lists(st.floats(0, 1), min_size=30, max_size=60))
    def test_fitted_levels_hold_on_what_they_were_fitted_on(self, shares):
        levels = Levels.fitted(np.array(shares), 10)
        for wanted in (0.2, 0.5, 0.9):
            (limit,) = levels.predicted(np.array([wanted]))
            assert np.mean(np.array(shares) < limit - 1e-9) <= wanted + 0.05
            assert np.mean(np.array(shares) <= limit + 1e-9) >= wanted - 0.05

    @pytest.mark.parametrize("shares", [(0.0,), (0.0, 0.6, 0.5, 1.0), (0.0, float("nan"), 1.0), (-0.1, 1.0)])
    def test_levels_that_are_no_probabilities_are_refused(self, shares):
        with pytest.raises(ValueError, match="ascending probabilities"):
            Levels(shares)


def predictor(**settings: object) -> ComplEx:
    made = scales()
    config = PredictorConfig.parse({"architecture": "complex", "width": 8, "knots": 5, "input_dropout": 0.0, **settings})
    return ComplEx(config, len(GRAPH.entities), len(GRAPH.relations), 3, made).eval()


def question(since: Literal | None = None, position: int = TAIL) -> Gaps:
    """Asks whom e01 knows, since when, or for its size."""
    relation = "size" if since is None else "knows"
    pairs = [[]] if since is None else [[(GRAPH.relations.id("since"), -1 if position == VALUE else GRAPH.value_id(since))]]
    tail = GRAPH.entities.id("e02") if position == VALUE else -1
    columns = (np.array([one], np.int32) for one in (GRAPH.entities.id("e01"), GRAPH.relations.id(relation), tail))
    return Gaps(*columns, Ragged.of_lists(pairs, 2), Ragged.empty(1))


def date(text: str) -> Literal:
    return Literal(text, DATE)


class TestPredictor:
    def test_a_value_is_a_mixture_of_its_knots(self):
        model = predictor()
        made = model.scales
        assert made is not None
        relation, value = ids("since", date("2005-01-01"))
        (below,), (share,) = made.between(relation, value)
        rows = model.embedding.weight[len(GRAPH.entities) + below : len(GRAPH.entities) + below + 2]
        mixed = (1 - share) * rows[0] + share * rows[1]
        torch.testing.assert_close(model._values(value, relation, None)[0], mixed.float())
        assert 0 < share < 1

    def test_vectors_move_evenly_with_a_date(self):
        model = predictor()
        early, middle, late = (model(question(date(text))) for text in ("2002-01-01", "2004-01-01", "2006-01-01"))
        share = (days("2004-01-01") - days("2002-01-01")) / (days("2006-01-01") - days("2002-01-01"))
        torch.testing.assert_close(middle, early + share * (late - early), atol=1e-5, rtol=1e-4)
        assert not torch.allclose(early, late)

    def test_both_knots_learn_from_a_value(self):
        model = predictor()
        model(question(date("2005-01-01"))).sum().backward()
        made = model.scales
        assert made is not None
        moved = np.flatnonzero(model.embedding.weight.grad[len(GRAPH.entities) :].abs().sum(1).numpy())
        assert moved.tolist() == made.places[made.names.index("since")].tolist()

    def test_numbers_are_predicted_by_the_products_with_the_knots(self):
        model = predictor()
        made = model.scales
        assert made is not None
        for asked, name in ((question(), "size"), (question(date("2005-01-01"), VALUE), "since")):
            found = PredictorScorer(model).numbers(asked)
            knots = model.embedding.weight[len(GRAPH.entities) :][made.places[made.names.index(name)]]
            wanted = (model(asked) @ knots.T).softmax(1)[0].detach().numpy()
            assert found.shares[0] == pytest.approx(wanted, abs=1e-6)
            assert made.names[found.scale[0]] == name

    def test_only_relations_with_a_scale_are_predicted_and_only_by_models_with_scales(self):
        model = predictor()
        with pytest.raises(InputError, match="found 'knows'"):
            PredictorScorer(model).numbers(question(date("2005-01-01")))
        plain = ComplEx(PredictorConfig(architecture="complex", width=8), len(GRAPH.entities), len(GRAPH.relations), 3)
        with pytest.raises(UnsupportedError, match="predicts entities only"):
            PredictorScorer(plain).numbers(question())
        with pytest.raises(ConfigError, match="only the architecture 'complex' has scales"):
            PredictorConfig.parse({"architecture": "stare", "knots": 3})

    def test_without_scales_the_first_weights_are_those_of_a_model_of_entities(self):
        config = PredictorConfig(architecture="complex", width=8)
        with_scales, plain = (ComplEx(config, len(GRAPH.entities), 4, 3, made).state_dict() for made in (scales(0), None))
        assert all(torch.equal(with_scales[name], plain[name]) for name in plain)


def days(text: str) -> float:
    return date(text).number


def test_a_question_for_a_head_or_a_relation_is_never_about_a_number():
    part = scales().part
    recipe = recipe_of("one-hop").with_settings(["train.batch=16"])
    assert isinstance(recipe, PredictorRecipe)
    questions = TrainingQuestions(part, recipe.train, 0)
    batches = list(questions.batches(0))
    asked = [(int(position), int(tail)) for batch in batches for position, tail in zip(batch.position, batch.tail, strict=True)]
    assert len(asked) == questions.per_epoch
    assert all(tail < len(part.entities) for position, tail in asked if position in (HEAD, RELATION))
    numbers = [
        batch.answers[row].tolist() for batch in batches for row in range(len(batch)) if batch.relation[row] == part.relations.id("size")
    ]
    assert sorted(numbers) == sorted([part.value_id(one.tail)] for one in SIZES)


def test_answers_may_be_literals_where_ids_of_entities_end():
    part = scales().part
    rows = part.known(["train"]).rows
    for position in (TAIL, HEAD):
        gaps = with_gap(part, rows, position)
        found = Entailed(part.known(["train"])).answers(gaps)
        column = part.tail if position == TAIL else part.head
        assert all(column[row] in found[place] for place, row in enumerate(rows))
        assert max(found.counts) <= 13  # literals and entities are not mixed up


def test_the_asked_relation_is_that_of_the_gap():
    assert asked_relation(question()).tolist() == [GRAPH.relations.id("size")]
    assert asked_relation(question(date("2005-01-01"), VALUE)).tolist() == [GRAPH.relations.id("since")]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> PredictorRun:
    size = ["model.width=32", "model.knots=12", "train.epochs=30", "train.batch=64", "train.average=0.9", "train.validation_questions=0"]
    recipe = recipe_of("one-hop").with_settings(size)
    assert isinstance(recipe, PredictorRecipe)
    run = PredictorRun.create(tmp_path_factory.mktemp("town") / "run", recipe, sized_town())
    Trainer(run, PredictLesson(run)).train()
    return run


def test_a_predictor_learns_numbers_from_what_else_is_known(trained):
    made = trained.scales
    gaps = with_gap(made.part, rows := _valid(made.part), TAIL)
    values = made.part.literals.numbers[made.part.tail[rows] - len(made.part.entities)]
    error = np.abs(trained.scorer().numbers(gaps).quantile(0.5) - values)
    baseline = np.abs(np.median([size_of(person) for person in range(HELD_OUT, PEOPLE)]) - values)
    assert len(rows) == HELD_OUT
    assert error.mean() < 0.5 * baseline.mean()


def _valid(part: Graph) -> np.ndarray:
    rows = part.known(["valid"]).rows
    return rows[part.tail[rows] >= len(part.entities)]


def test_a_warm_start_keeps_scales_and_rows(trained, tmp_path):
    graph, _ = update_graph(
        sized_town(), Changes.of([graph_of([Statement("p200", "livesIn", "town0"), Statement("p200", "size", number(99_999))])])
    )
    after = PredictorRun(trained.folder, trained.recipe, graph.entity_part)
    run = PredictorRun.create(tmp_path / "run", trained.recipe, graph, start_of(trained, after.new_predictor(), graph.entity_part))
    assert (run.folder / SCALES).read_bytes() == (trained.folder / SCALES).read_bytes()
    weights, before = run.weights()["embedding.weight"], trained.weights()["embedding.weight"]
    knots = len(trained.scales.knots)
    assert len(weights) == len(before) + 1
    torch.testing.assert_close(weights[-knots:], before[-knots:])
    gaps = with_gap(run.learned, np.arange(3), TAIL)
    assert len(PredictorRun.open(run.folder).scorer().predictor(gaps)) == 3


@pytest.mark.parametrize("harm", ["", "[1, 2]", '{"size": {"axis": "number"}}', '{"size": {"axis": "number", "knots": "x"}}'])
def test_damaged_scales_are_refused(trained, tmp_path, harm):
    copy = tmp_path / "run"
    shutil.copytree(trained.folder, copy)
    (copy / SCALES).write_text(harm)
    with pytest.raises(StorageError, match=r"scales\.json: damaged"):
        _ = PredictorRun.open(copy).scales
    header = json.loads((copy / "run.json").read_text())
    header["checksums"][SCALES] = checksum(harm.encode())
    content = {key: value for key, value in header.items() if key not in ("format", "version", "checksum")}
    write_header(copy / "run.json", header["format"], header["version"], content)
    with pytest.raises(StorageError, match=r"scales\.json: damaged"):
        _ = PredictorRun.open(copy).scales


def test_knots_ascend():
    assert all(one < other for scale in range(len(scales())) for one, other in pairwise(scales().of(scale).tolist()))
