"""What holds for every architecture, found by its table; and what each computes, by numbers."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from starqe.config import known_keys
from starqe.errors import ConfigError, InputError, UnsupportedError
from starqe.queries import SHAPES, sample
from starqe.queries.gaps import POSITIONS, Gaps, gaps_of
from starqe.queries.shape import INVERSE
from starqe.ragged import Ragged
from starqe.reason.predictor.architectures import ARCHITECTURES, new_predictor
from starqe.reason.predictor.complex import ComplEx
from starqe.reason.predictor.config import ASKS_VALUES_AND_RELATIONS, PredictorConfig, PredictorRecipe
from starqe.reason.predictor.predictor import Predictor
from starqe.reason.predictor.presets import PREDICTORS, recipe_of
from starqe.reason.predictor.scorer import PredictorScorer
from starqe.reason.predictor.transformer import Transformer, TransformerLayer
from tests.columns import gaps_of_columns
from tests.reason.predicted import gaps, tiny_graph

GRAPH = tiny_graph()
QUESTIONS = (
    ("a", "r", "?", {}),
    ("?", "r", "c", {"q": "y"}),
    ("a", "r", "?", (("q", "x"), ("p", "z"), ("q", "y"))),
    ("?", "s", "c", {"q": "x", "p": "z"}),
    ("e", "r", "?", {"q": "y"}),
    ("a", "?", "c", {"q": "x"}),
    ("a", "r", "c", {"q": "?", "p": "z"}),
)


MEMBERS = "complex with members"
"""Not an architecture of its own, but computed differently, so that the same has to hold."""


def made(architecture: str, **settings: object) -> Predictor:
    of_members = {"architecture": "complex", "members": 2} if architecture == MEMBERS else {"architecture": architecture}
    values = {"width": 8, "heads": 2, "feed_forward": 12, **of_members, **settings}
    return new_predictor(PredictorConfig.parse(values), len(GRAPH.entities), len(GRAPH.relations), 3).eval()


def asked(predictor: Predictor, *more: tuple) -> Gaps:
    """Returns all the questions that a predictor can be asked."""
    every = gaps(GRAPH, *QUESTIONS, *more)
    return every.take([row for row in range(len(every)) if POSITIONS[every.position[row]] in predictor.positions])


@pytest.mark.parametrize("name", [*ARCHITECTURES, MEMBERS])
class TestEveryArchitecture:
    def test_a_batch_of_one_equals_its_row_in_a_larger_batch(self, name):
        predictor = made(name)
        questions = asked(predictor)
        together = predictor(questions)
        alone = torch.cat([predictor(questions.take([row])) for row in range(len(questions))])
        torch.testing.assert_close(together, alone)
        backwards = np.arange(len(questions))[::-1]
        torch.testing.assert_close(predictor(questions.take(backwards)), together.flip(0))

    def test_a_prediction_without_gradients_is_the_same(self, name):
        predictor = made(name)
        questions = asked(predictor)
        with torch.no_grad():
            alone = torch.cat([predictor(questions.take([row])) for row in range(len(questions))])
        torch.testing.assert_close(alone, predictor(questions).detach())

    def test_the_order_of_the_pairs_changes_nothing(self, name):
        predictor = made(name)
        one = gaps(GRAPH, ("a", "r", "?", (("q", "x"), ("p", "z"), ("q", "y"))))
        other = gaps(GRAPH, ("a", "r", "?", (("q", "y"), ("q", "x"), ("p", "z"))))
        torch.testing.assert_close(predictor(one), predictor(other))

    def test_everything_that_is_given_counts(self, name):
        predictor = made(name)
        first, *others = (
            predictor(gaps(GRAPH, question))
            for question in (
                ("a", "r", "?", {"q": "x"}),
                ("b", "r", "?", {"q": "x"}),
                ("a", "s", "?", {"q": "x"}),
                ("a", "r", "?", {}),
                ("a", "r", "?", {"q": "y"}),
                ("a", "r", "?", {"p": "x"}),
                ("?", "r", "a", {"q": "x"}),
            )
        )
        assert all((first - other).abs().max() > 1e-3 for other in others)

    def test_gradients_reach_every_parameter(self, name):
        predictor = made(name)
        vectors = predictor(asked(predictor), torch.Generator().manual_seed(0))
        candidates = [predictor.entity_matrix(), *([predictor.relation_matrix()] if "relation" in predictor.positions else [])]
        sum((part.square().sum() for part in candidates), start=vectors.square().sum()).backward()
        lacking = [name for name, parameter in predictor.named_parameters() if parameter.grad is None or not parameter.grad.abs().sum()]
        assert lacking == []

    def test_noise_comes_from_the_generator_that_is_given(self, name):
        predictor = made(name, dropout=0.5, input_dropout=0.5)
        questions = asked(predictor)
        torch.manual_seed(0)
        state = torch.get_rng_state()
        one, same, other = (predictor(questions, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
        assert torch.equal(one, same)
        assert not torch.equal(one, other)
        assert torch.equal(torch.get_rng_state(), state)

    def test_the_seed_decides_the_first_weights(self, name):
        config = made(name).config
        one, same, other = (new_predictor(config, 5, 2, seed).state_dict() for seed in (1, 1, 2))
        assert all(torch.equal(one[key], same[key]) for key in one)
        assert any(not torch.equal(one[key], other[key]) for key in one)

    def test_what_it_cannot_be_asked_is_refused_by_name(self, name):
        predictor = made(name)
        refused = [position for position in POSITIONS if position not in predictor.positions]
        assert (not refused) == (predictor.config.architecture in ASKS_VALUES_AND_RELATIONS)
        for position, question in zip(("relation", "value"), QUESTIONS[-2:], strict=True):
            if position in refused:
                with pytest.raises(UnsupportedError, match=f"'{name}' can be asked for head, tail, found a question for the {position}"):
                    predictor(gaps(GRAPH, question))

    def test_ids_of_another_graph_are_refused(self, name):
        small = new_predictor(made(name).config, 2, 4, 0)
        with pytest.raises(InputError, match="an entity is an id from 0 to 1"):
            small(gaps(GRAPH, ("e", "r", "?", {})))

    def test_the_scorer_compares_vectors_with_all_entities(self, name):
        predictor = made(name)
        table = sample(GRAPH, INVERSE, 3, "train", [(0, 1)], 0)
        rows = np.arange(len(table))
        scorer = PredictorScorer(predictor)
        scores = scorer.scores(table, rows, torch.empty(len(rows), len(GRAPH.entities)))
        vectors, entities = predictor(gaps_of(table, rows)).detach(), predictor.entity_matrix().detach()
        assert scores[1, 2].item() == pytest.approx(float((vectors[1] * entities[2]).sum()), rel=1e-4)
        assert scores.shape == (len(rows), len(GRAPH.entities))


def test_the_scorer_refuses_longer_queries():
    table = sample(GRAPH, SHAPES["2i"], 1, "train", [(0, 0), (0, 0)], 0)
    with pytest.raises(UnsupportedError, match="found the shape '2i'"):
        PredictorScorer(made("complex")).scores(table, np.array([0]), torch.empty(1, len(GRAPH.entities)))


@pytest.mark.parametrize("name", sorted(ASKS_VALUES_AND_RELATIONS))
def test_relations_and_values_are_scored(name):
    scorer = PredictorScorer(made(name))
    relations = scorer.relation_scores(gaps(GRAPH, QUESTIONS[-2]))
    values = scorer.entity_scores(gaps(GRAPH, QUESTIONS[-1]), torch.empty(1, len(GRAPH.entities)))
    assert relations.shape == (1, len(GRAPH.relations))
    assert values.shape == (1, len(GRAPH.entities))


def test_complex_multiplies_complex_numbers():
    """With E = 1 + 2i, 1 - 1i and R = 3 + 1i, 2i and their inverses 1, 0; P of relation 1 is 1i, of its inverse 1; W is the identity.

    Tail of (0, 0, ?) with the pair (1, 1): (1 + 2i) (3 + 1i + (1 - 1i) 2i) + (1 - 1i) 1i = (1 + 2i) (5 + 3i) + 1 + 1i = 14i.
    Head of (?, 0, 0) with the pair (1, 1): (1 + 2i) (1 + (1 - 1i) 2i) + (1 - 1i) 1 = (1 + 2i) (3 + 2i) + 1 - 1i = 7i.
    Head of (?, 0, 0): the inverse of relation 0 is 1, and leaves the tail as it is.
    Relation of (0, ?, 1) with the pair (1, 0): (1 - 2i) (1 - 1i) + (1 + 2i) 2i = (-1 - 3i) + (-4 + 2i) = -5 - 1i.
    Value of (0, 0, 1) with the pair (1, ?): -2i ((-1 - 3i) + (3 + 1i)) - 1i (1 - 1i) + 1 (1 + 2i) = (-4 - 4i) + (-1 - 1i) + (1 + 2i).
    """
    predictor = ComplEx(PredictorConfig(architecture="complex", width=2), 2, 2, 0)
    with torch.no_grad():
        predictor.embedding.weight.copy_(torch.tensor([[1.0, 2.0], [1.0, -1.0]]))
        predictor.relation_embedding.weight.copy_(torch.tensor([[3.0, 1.0], [0.0, 2.0], [1.0, 0.0], [0.0, 0.0]]))
        predictor.pair_embedding.weight.copy_(torch.tensor([[9.0, 9.0], [0.0, 1.0], [9.0, 9.0], [1.0, 0.0]]))
        predictor.pair_weight.copy_(torch.eye(2))
    ends = {"head": [0, -1, -1, 0, 0], "relation": [0, 0, 0, -1, 0], "tail": [-1, 0, 0, 1, 1]}
    pairs = {"pair_offsets": [0, 1, 2, 2, 3, 4], "pair_relation": [1, 1, 1, 1], "pair_value": [1, 1, 0, -1]}
    asked = gaps_of_columns(
        **{name: np.array(ids) for name, ids in {**ends, **pairs}.items()},
        answer_offsets=np.zeros(6, np.int64),
        answers=np.empty(0, np.int64),
    )
    assert predictor(asked).tolist() == [[0.0, 14.0], [0.0, 7.0], [1.0, 2.0], [-5.0, -1.0], [-4.0, -3.0]]


def test_members_are_models_of_their_own_and_their_scores_are_averaged():
    together = made("complex", width=12, members=3)
    questions, scores, penalties = asked(together), [], []
    for member in range(3):
        own = slice(4 * member, 4 * member + 4)
        alone = made("complex", width=4)
        weights = {name: value[own] if name == "pair_weight" else value[:, own] for name, value in together.state_dict().items()}
        alone.load_state_dict(weights)
        of_entity = torch.from_numpy(questions.position != POSITIONS.index("relation"))[:, None]
        vectors = alone(questions)
        scores.append(torch.where(of_entity, vectors @ alone.entity_matrix()[:4].T, vectors @ alone.relation_matrix()[:4].T))
        answered = replace(questions, answers=Ragged.of_counts(np.ones(len(questions), np.int64), np.zeros(len(questions), np.int32)))
        penalties.append(alone.penalty(answered, torch.Generator().manual_seed(0)))
    found = together(questions)
    matrices = together.entity_matrix()[:4], together.relation_matrix()[:4]
    expected = torch.where(of_entity, *(found @ matrix.T for matrix in matrices))
    torch.testing.assert_close(expected, sum(scores) / 3)
    torch.testing.assert_close(together.penalty(answered, torch.Generator().manual_seed(0)), sum(penalties) / 3)


def test_the_penalty_sums_third_powers_of_all_that_takes_part():
    """|3 + 4i|³ = 125 and |1|³ = 1 for entities 0 and 1; |2i|³ = 8, |1 + 0i|³ = 1 for relation 0 and its inverse, |3i|³ = 27 for 1.

    Tail of (0, 0, ?) is 1: 125 + 8 + 1. Head of (?, 0, 1) is 0: 125 + 1 + 1. Relation of (0, ?, 1) is 1: 125 + 27 + 1.
    Value of (1, 0, 1) with the pair (1, ?) is 1: 1 + 8 + 1 + 27 + 1. Head of (?, 0, 1) with the pair (1, 0) is 0: 127 + 27 + 125.
    """
    predictor = ComplEx(PredictorConfig(architecture="complex", width=2), 2, 2, 0)
    with torch.no_grad():
        predictor.embedding.weight.copy_(torch.tensor([[3.0, 4.0], [1.0, 0.0]]))
        predictor.relation_embedding.weight.copy_(torch.tensor([[0.0, 2.0], [0.0, 3.0], [1.0, 0.0], [5.0, 5.0]]))
    ends = {"head": [0, -1, 0, 1, -1], "relation": [0, 0, -1, 0, 0], "tail": [-1, 1, 1, 1, 1]}
    pairs = {"pair_offsets": [0, 0, 0, 0, 1, 2], "pair_relation": [1, 1], "pair_value": [-1, 0]}
    rest = {"answer_offsets": range(6), "answers": [1, 0, 1, 1, 0]}
    asked = gaps_of_columns(**{name: np.array(ids) for name, ids in {**ends, **pairs, **rest}.items()})
    costs = [134, 127, 153, 38, 279]
    for row, cost in enumerate(costs):
        assert predictor.penalty(asked.take([row]), torch.Generator()).item() == pytest.approx(cost)
    assert predictor.penalty(asked, torch.Generator()).item() == pytest.approx(sum(costs) / 5)
    weighed = replace(asked, weight=np.array([2.0, 1.0, 1.0, 3.0, 1.0]))
    assert predictor.penalty(weighed, torch.Generator()).item() == pytest.approx((2 * 134 + 127 + 153 + 3 * 38 + 279) / 5)


def test_a_layer_of_the_transformer_attends_within_a_statement_only():
    """With the identity for queries, keys and values, one head and no second part, worked out entry by entry."""
    from starqe.reason.predictor.transformer import Layout

    layer = TransformerLayer(PredictorConfig(width=2, heads=1, feed_forward=1))
    with torch.no_grad():
        for matrix in (layer.query, layer.out):
            matrix.copy_(torch.eye(2))
        layer.key_value.copy_(torch.eye(2).repeat(2, 1))
        for name in ("widen", "narrow", "query_bias", "value_bias", "out_bias", "widen_bias", "narrow_bias"):
            getattr(layer, name).zero_()
    questions = gaps(GRAPH, ("a", "r", "?", {}), ("?", "r", "b", {}))
    layout = Layout.of(questions, torch.device("cpu"))
    assert layout.blocks == ((2, 3),)
    assert layout.gap.tolist() == [2, 3]
    # The norm of two numbers is ±1 (less a little): the tokens below are (1, -1) or (-1, 1) after it.
    tokens = torch.tensor([[3.0, 1.0], [1.0, 5.0], [9.0, 1.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0]])
    found = layer(tokens, layout, None, None)
    same, other = np.exp(2 / np.sqrt(2)), np.exp(-2 / np.sqrt(2))
    mean = (2 * same - other) / (2 * same + other)  # of the two that are (1, -1) and the one that is not, seen from the first
    assert found[0].tolist() == pytest.approx([3 + mean, 1 - mean], abs=1e-3)
    assert found[5].tolist() == pytest.approx([1 - 1, 2 + 1], abs=1e-3)  # the second statement sees itself alone
    torch.testing.assert_close(layer(tokens, layout, layout.gap, None), found[layout.gap])


def test_the_layout_puts_statements_with_as_many_pairs_side_by_side():
    from starqe.reason.predictor.transformer import Layout

    layout = Layout.of(asked(made("transformer")), torch.device("cpu"))
    assert layout.blocks == ((1, 3), (3, 4), (2, 5), (1, 6))
    assert sorted(layout.order.tolist()) == list(range(3 + 12 + 10 + 6))
    # In the order of places: tail, head, tail, relation, head, value (the first pair), tail.
    assert layout.gap.tolist() == [2, 3, 9, 12, 15, 23, 27]
    assert layout.back.tolist() == [0, 1, 6, 4, 2, 3, 5]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": {"architecture": "complex", "width": 3}}, "complex numbers need an even width, found model.width=3"),
        ({"model": {"architecture": "complex", "width": 10, "members": 2}}, "each of 2 members needs an even width, found model.width=10"),
        ({"model": {"members": 2}}, "only the architecture 'complex' has members, found 'transformer' with 2"),
        ({"model": {"width": 10, "heads": 4}}, "heads that divide the width, found 4 heads and width 10"),
        ({"model": {"architecture": "stare"}}, "'stare' is asked for heads and tails only, found value_share 0.1"),
        ({"train": {"no_pairs": 0.6, "some_pairs": 0.5}}, "at most 1 together, found 0.6 and 0.5"),
        ({"train": {"penalty": 0.1}}, "only the architecture 'complex' has a penalty, found 'transformer' with 0.1"),
        ({"train": {"splits": []}}, "train.splits"),
        ({"train": {"shapes": ["1p"]}}, "unknown key 'train.shapes'"),
    ],
)
def test_recipes_that_cannot_be_are_refused(values, message):
    with pytest.raises(ConfigError, match=message):
        PredictorRecipe.parse(values)


def test_every_architecture_has_a_preset_and_every_key_is_explained():
    assert {recipe_of(name).model.architecture for name in PREDICTORS} == ARCHITECTURES.keys()
    for section in (PredictorConfig, type(PredictorRecipe().train)):
        assert [key for key in known_keys(section) if not section.model_fields[key].description] == []


def test_the_transformer_of_one_layer_sees_everything_as_well():
    predictor = made("transformer", layers=1)
    assert isinstance(predictor, Transformer)
    assert predictor(asked(predictor)).shape == (len(QUESTIONS), 8)
