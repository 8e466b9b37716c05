import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from starqe.errors import ConfigError
from starqe.learn import Recipe
from starqe.learn.columns import MOST_ANSWERS, draw
from starqe.learn.loss import ScoreLoss
from starqe.model import SIMILARITY
from starqe.model.weights import STEP
from tests.learn.test_loss import plain_scores

V, D = 200, 5
OFFSETS, ANSWERS = torch.tensor([0, 1, 3, 6]), torch.tensor([7, 7, 9, 150, 3, 199])


def noise(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def example(dtype=torch.float64):
    generator = noise()
    vectors = torch.randn(3, D, generator=generator, dtype=dtype).requires_grad_()
    matrix = torch.randn(V + 2, D, generator=generator, dtype=dtype).requires_grad_()
    return vectors, matrix


@given(seed=st.integers(0, 2**32), count=st.integers(1, V // 2))
def test_answers_count_once_and_sampled_negatives_for_the_rest(seed, count):
    columns, offsets, answers = draw(V, count, OFFSETS, ANSWERS, noise(seed))
    assert torch.equal(offsets, OFFSETS)
    assert torch.equal(columns.rows[answers], ANSWERS)
    own = len(ANSWERS.unique())
    assert sorted(columns.rows[:own].tolist()) == ANSWERS.unique().tolist()
    assert not torch.isin(columns.rows[own:], ANSWERS).any()
    assert columns.logs[:own].eq(0).all()
    assert len(columns.rows) == own + count
    assert columns.logs.exp().sum() == pytest.approx(V, rel=1e-4)


@pytest.mark.parametrize("count", [STEP + 1, 1000, 4096])
def test_many_columns_are_a_multiple_of_a_step(count):
    columns, _, _ = draw(10_000, count, OFFSETS, ANSWERS, noise(0))
    assert columns is not None
    assert len(columns.rows) % STEP == 0
    assert count - STEP < len(columns.rows) <= count + len(ANSWERS)
    others = len(columns.rows) - len(ANSWERS.unique())
    assert columns.logs.exp().sum().item() == pytest.approx(10_000, rel=1e-5)
    assert others > 0


def test_answers_that_are_all_entities_leave_no_entity_to_sample():
    columns, _, answers = draw(6, 3, torch.tensor([0, 6]), torch.arange(6), noise())
    assert columns.rows[answers].tolist() == list(range(6))
    assert columns.logs.tolist() == [0.0] * 6


@pytest.mark.parametrize("count", [0, V // 2 + 1, V + 1])
def test_all_entities_are_compared_with_where_none_or_most_would_be_drawn(count):
    columns, offsets, answers = draw(V, count, OFFSETS, ANSWERS, noise())
    assert columns is None
    assert offsets is OFFSETS
    assert answers is ANSWERS


@pytest.mark.full
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


@pytest.mark.full
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


@pytest.mark.parametrize("rows", [2, 128])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("similarity", SIMILARITY)
def test_loss_and_gradients_equal_those_of_autograd_step_after_step(similarity, smoothing, rows):
    vectors, matrix = example()
    loss, generator = ScoreLoss(similarity, "softmax", smoothing, rows), noise()
    weights = torch.tensor([1.0, 2.0, 0.5]).double()
    for _ in range(3):
        columns, offsets, answers = draw(V, 40, OFFSETS, ANSWERS, generator)
        scores, stands_for = plain_scores(similarity, vectors, matrix[columns.rows]), columns.logs.double().exp()
        beside_all = scores - (scores + columns.logs).logsumexp(1, keepdim=True)  # the logarithm of the share of one entity
        target = smoothing * stands_for.expand(3, -1) / V
        for query in range(3):
            own = answers[offsets[query] : offsets[query + 1]]
            target = target.index_put(
                (torch.full_like(own, query), own), torch.tensor((1 - smoothing) / len(own)).double(), accumulate=True
            )
        expected = -((target * beside_all).sum(1) * weights).mean()
        expected_gradients = torch.autograd.grad(expected, [vectors, matrix])
        value = loss(vectors, matrix[:V], offsets, answers, weights, columns)
        vectors.grad = matrix.grad = None
        (2 * value).backward()
        torch.testing.assert_close(value, expected, atol=1e-6, rtol=1e-6)
        torch.testing.assert_close((vectors.grad / 2, matrix.grad / 2), expected_gradients, atol=1e-6, rtol=1e-5)


def test_gradients_of_several_batches_add_up():
    vectors, matrix = example()
    loss, generator, whole = ScoreLoss(), noise(), torch.zeros(V + 2, D).double()
    for _ in range(2):
        columns, offsets, answers = draw(V, 40, OFFSETS, ANSWERS, generator)
        scores = vectors @ matrix[columns.rows].T + columns.logs
        shares = scores.log_softmax(1)
        means = [shares[query, answers[offsets[query] : offsets[query + 1]]].mean() for query in range(3)]
        whole += torch.autograd.grad(-torch.stack(means).mean(), matrix)[0]
        loss(vectors, matrix[:V], offsets, answers, columns=columns).backward()
    torch.testing.assert_close(matrix.grad, whole, atol=1e-6, rtol=1e-5)


def test_the_binary_loss_compares_with_all_entities():
    vectors, matrix = example()
    columns, offsets, answers = draw(V, 40, OFFSETS, ANSWERS, noise())
    with pytest.raises(ConfigError, match="negatives are sampled for the softmax loss only"):
        ScoreLoss("dot", "binary")(vectors, matrix[:V], offsets, answers, columns=columns)
    with pytest.raises(ConfigError, match="negatives are sampled for the softmax loss only, found the loss 'binary'"):
        Recipe.parse({"train": {"loss": "binary", "candidates": 100}})
