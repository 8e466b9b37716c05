import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from starqe.errors import ConfigError
from starqe.learn import Recipe
from starqe.learn.columns import MOST_ANSWERS, draw
from starqe.learn.loss import ScoreLoss

V, D = 200, 5
OFFSETS, ANSWERS = torch.tensor([0, 1, 3, 6]), torch.tensor([7, 7, 9, 150, 3, 199])


def noise(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def example(dtype=torch.float64):
    generator = noise()
    vectors = torch.randn(3, D, generator=generator, dtype=dtype).requires_grad_()
    matrix = torch.randn(V + 2, D, generator=generator, dtype=dtype).requires_grad_()
    return vectors, matrix


@given(seed=st.integers(0, 2**32), count=st.integers(1, V - 1))
def test_answers_stand_for_themselves_and_the_others_for_the_rest(seed, count):
    columns, offsets, answers = draw(V, count, OFFSETS, ANSWERS, noise(seed))
    assert torch.equal(offsets, OFFSETS)
    assert torch.equal(columns.rows[answers], ANSWERS)
    own = len(ANSWERS.unique())
    assert sorted(columns.rows[:own].tolist()) == ANSWERS.unique().tolist()
    assert not torch.isin(columns.rows[own:], ANSWERS).any()
    assert columns.logs[:own].eq(0).all()
    if len(columns.rows) > own:
        assert columns.logs.exp().sum() == pytest.approx(V, rel=1e-4)


@pytest.mark.parametrize("count", [0, V, V + 1])
def test_all_entities_are_compared_with_where_none_or_all_are_drawn(count):
    columns, offsets, answers = draw(V, count, OFFSETS, ANSWERS, noise())
    assert columns is None
    assert offsets is OFFSETS
    assert answers is ANSWERS


def test_of_many_answers_some_are_drawn_all_of_them_alike():
    many, rounds = 4 * MOST_ANSWERS, 400
    seen, generator = torch.zeros(V), noise()
    for _ in range(rounds):
        columns, offsets, answers = draw(V, 10, torch.tensor([0, 1, 1 + many]), torch.arange(1 + many), generator)
        assert offsets.tolist() == [0, 1, 1 + MOST_ANSWERS]
        assert columns.rows[answers[0]] == 0
        seen += torch.bincount(columns.rows[answers[1:]], minlength=V)
    expected = rounds * MOST_ANSWERS / many  # 100 each
    assert seen[1 : 1 + many].min() > expected - 6 * math.sqrt(expected)
    assert seen[1 : 1 + many].max() < expected + 6 * math.sqrt(expected)
    assert seen[1 + many :].sum() == 0


def test_the_sum_of_exponentials_is_right_on_average():
    vectors, matrix = example()
    scores = (vectors @ matrix[:V].T).detach()
    sums, generator = [], noise()
    for _ in range(3_000):
        columns, _, _ = draw(V, 50, OFFSETS, ANSWERS, generator)
        sums.append((scores[:, columns.rows] + columns.logs).exp().sum(1))
    drawn = torch.stack(sums)
    error = drawn.std(0) / math.sqrt(len(drawn))
    assert ((drawn.mean(0) - scores.exp().sum(1)).abs() < 5 * error).all()


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("similarity", ["dot", "cosine", "distance"])
def test_loss_and_gradients_equal_those_of_autograd(similarity, smoothing):
    vectors, matrix = example()
    columns, offsets, answers = draw(V, 40, OFFSETS, ANSWERS, noise())
    some = matrix[columns.rows]
    scores = {
        "dot": lambda: vectors @ some.T,
        "cosine": lambda: torch.nn.functional.normalize(vectors, dim=1) @ torch.nn.functional.normalize(some, dim=1).T,
        "distance": lambda: -torch.cdist(vectors, some),
    }[similarity]()
    target = smoothing * columns.logs.double().exp().expand(3, -1) / V
    for query in range(3):
        own = answers[offsets[query] : offsets[query + 1]]
        target = target.index_put((torch.full_like(own, query), own), torch.tensor((1 - smoothing) / len(own)).double(), accumulate=True)
    weights = torch.tensor([1.0, 2.0, 0.5]).double()
    expected = -((target * (scores + columns.logs).log_softmax(1)).sum(1) * weights).mean()
    expected_gradients = torch.autograd.grad(expected, [vectors, matrix])
    value = ScoreLoss(similarity, "softmax", smoothing)(vectors, matrix[:V], offsets, answers, weights, columns)
    (2 * value).backward()
    torch.testing.assert_close(value, expected, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close((vectors.grad / 2, matrix.grad / 2), expected_gradients, atol=1e-6, rtol=1e-5)


def test_the_binary_loss_compares_with_all_entities():
    vectors, matrix = example()
    columns, offsets, answers = draw(V, 40, OFFSETS, ANSWERS, noise())
    with pytest.raises(ConfigError, match="columns stand for others in the softmax loss only"):
        ScoreLoss("dot", "binary")(vectors, matrix[:V], offsets, answers, columns=columns)
    with pytest.raises(ConfigError, match="candidates stand for others in the softmax loss only, found the loss 'binary'"):
        Recipe.parse({"train": {"loss": "binary", "candidates": 100}})
