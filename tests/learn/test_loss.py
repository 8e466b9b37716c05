import math

import pytest
import torch
from torch import nn

from starqe.errors import ConfigError, InputError
from starqe.learn.device import has_short_products, products_as
from starqe.learn.loss import ScoreLoss
from starqe.learn.steps.losses import BLOCK, LOSSES
from starqe.model import SIMILARITY

OFFSETS = torch.tensor([0, 1, 3, 6, 10, 15, 16])
V, D, B = 50, 4, 6


def plain_scores(name, x, y):
    difference = x[:, None, :] - y[None, :, :]
    return {
        "dot": lambda: x @ y.T,
        "cosine": lambda: nn.functional.normalize(x, dim=1) @ nn.functional.normalize(y, dim=1).T,
        "distance": lambda: -difference.norm(dim=2),
        "power-norm": lambda: -difference.square().sum(2),
    }[name]()


def plain_loss(name, scores, answers, smoothing):
    """The definition, word by word: a target for every entity, and torch's own losses."""
    target = torch.zeros_like(scores)
    for query in range(len(scores)):
        own = answers[OFFSETS[query] : OFFSETS[query + 1]]
        target[query, own] = 1 / len(own) if name == "softmax" else 1
    target = (1 - smoothing) * target + smoothing / scores.shape[1]
    if name == "softmax":
        return -(target * scores.log_softmax(1)).sum(1).mean()
    return nn.functional.binary_cross_entropy_with_logits(scores, target)


def example(dtype=torch.float64, entities=V):
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(B, D, generator=generator, dtype=dtype).requires_grad_()
    rows = torch.randn(entities + 3, D, generator=generator, dtype=dtype).requires_grad_()
    answers = torch.cat([torch.randperm(entities, generator=generator)[:count] for count in OFFSETS.diff().tolist()])
    return vectors, rows, answers


@pytest.mark.parametrize("rows", [4, 128])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("similarity", SIMILARITY)
def test_loss_and_gradients_equal_those_of_autograd(similarity, loss, smoothing, rows):
    vectors, matrix, answers = example()
    expected = plain_loss(loss, plain_scores(similarity, vectors, matrix[:V]), answers, smoothing)
    expected_gradients = torch.autograd.grad(expected, [vectors, matrix])
    value = ScoreLoss(similarity, loss, smoothing, rows)(vectors, matrix[:V], OFFSETS, answers)
    value.backward()
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close((vectors.grad, matrix.grad), expected_gradients, atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize("rows", [4, 512])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("similarity", SIMILARITY)
def test_several_blocks_of_entities_give_the_loss_and_the_gradients_of_all(similarity, loss, smoothing, rows):
    count = 2 * BLOCK + 7
    vectors, matrix, answers = example(entities=count)
    with torch.no_grad():
        matrix[:BLOCK] *= 20  # the largest scores of the blocks are far apart
    expected = plain_loss(loss, plain_scores(similarity, vectors, matrix[:count]), answers, smoothing)
    expected_gradients = torch.autograd.grad(expected, [vectors, matrix])
    value = ScoreLoss(similarity, loss, smoothing, rows)(vectors, matrix[:count], OFFSETS, answers)
    value.backward()
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close((vectors.grad, matrix.grad), expected_gradients, atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("similarity", SIMILARITY)
def test_members_learn_as_if_each_were_alone(similarity, loss):
    vectors, matrix, answers = example()
    expected = torch.zeros((), dtype=torch.float64)
    for own in (slice(0, 2), slice(2, 4)):
        expected = expected + plain_loss(loss, plain_scores(similarity, vectors[:, own], matrix[:V, own]), answers, 0.1) / 2
    expected_gradients = torch.autograd.grad(expected, [vectors, matrix])
    value = ScoreLoss(similarity, loss, 0.1, members=2)(vectors, matrix[:V], OFFSETS, answers)
    value.backward()
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close((vectors.grad, matrix.grad), expected_gradients, atol=1e-9, rtol=1e-6)


@pytest.mark.parametrize("rows", [2, 128])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("similarity", SIMILARITY)
def test_a_weight_counts_a_query_several_times(similarity, loss, rows):
    vectors, matrix, answers = example()
    counts = torch.tensor([3, 1, 2, *[1] * (len(vectors) - 3)])
    times = torch.repeat_interleave(torch.arange(len(vectors)), counts)
    sizes = OFFSETS.diff()[times]
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), sizes.cumsum(0)])
    repeated = torch.cat([answers[OFFSETS[row] : OFFSETS[row + 1]] for row in times.tolist()])
    expected = ScoreLoss(similarity, loss, 0.1)(vectors[times], matrix[:V], offsets, repeated) * len(times) / len(vectors)
    expected.backward()
    expected_gradients, vectors.grad, matrix.grad = (vectors.grad, matrix.grad.clone()), None, None
    value = ScoreLoss(similarity, loss, 0.1, rows)(vectors, matrix[:V], OFFSETS, answers, counts.double())
    value.backward()
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close((vectors.grad, matrix.grad), expected_gradients)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("similarity", SIMILARITY)
def test_32_bits_suffice(similarity, loss):
    vectors, matrix, answers = example(torch.float32)
    exact_vectors, exact_matrix, _ = (values.detach().double().requires_grad_() for values in (vectors, matrix, answers.double()))
    ScoreLoss(similarity, loss, 0.1)(vectors, matrix[:V], OFFSETS, answers).backward()
    ScoreLoss(similarity, loss, 0.1)(exact_vectors, exact_matrix[:V], OFFSETS, answers).backward()
    torch.testing.assert_close(vectors.grad.double(), exact_vectors.grad, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(matrix.grad.double(), exact_matrix.grad, atol=1e-6, rtol=1e-5)


@pytest.mark.skipif(not has_short_products(), reason="this processor multiplies bfloat16 no faster than float32")
@pytest.mark.parametrize("rows", [4, 512])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("similarity", SIMILARITY)
def test_products_of_bfloat16_are_close(similarity, loss, rows):
    """Small products are always exact, so the example is a larger one. Processors without tiles may compute it exactly, too."""
    count, found = 2 * B, []
    for precision in ("float32", "bfloat16"):
        generator = torch.Generator().manual_seed(0)
        vectors = torch.randn(count, 32, generator=generator).requires_grad_()
        matrix = torch.randn(BLOCK + V, 32, generator=generator).requires_grad_()
        with products_as(precision):
            value = ScoreLoss(similarity, loss, 0.1, rows)(vectors, matrix, torch.arange(count + 1), torch.arange(count))
            value.backward()
        found.append((value.detach()[None], vectors.grad, matrix.grad))
    for exact, short in zip(*found, strict=True):
        error = (exact - short).norm()
        assert error < 0.02 * exact.norm()  # eight bits
        assert error > 0 or not torch.cpu._is_amx_tile_supported()


def test_a_softmax_loss_by_hand():
    # Scores 0, ln 2, ln 3 give the probabilities 1/6, 2/6, 3/6; the answers 0 and 2 have the mass ½ each.
    entities = torch.tensor([[0.0], [math.log(2)], [math.log(3)]])
    value = ScoreLoss("dot", "softmax")(torch.ones(1, 1), entities, torch.tensor([0, 2]), torch.tensor([0, 2]))
    assert value.item() == pytest.approx((math.log(6) + math.log(2)) / 2)


def test_a_binary_loss_by_hand():
    # Scores 0 and ln 3: σ = 1/2 and 3/4; entity 1 is the answer: (ln 2 + ln 4/3) / 2.
    entities = torch.tensor([[0.0], [math.log(3)]])
    value = ScoreLoss("dot", "binary")(torch.ones(1, 1), entities, torch.tensor([0, 1]), torch.tensor([1]))
    assert value.item() == pytest.approx((math.log(2) + math.log(4 / 3)) / 2)


def test_what_follows_the_loss_scales_both_gradients():
    vectors, matrix, answers = example()
    loss = ScoreLoss("dot", "softmax", 0.1)
    loss(vectors, matrix[:V], OFFSETS, answers).backward()
    once = vectors.grad.clone(), matrix.grad.clone()
    vectors.grad = matrix.grad = None
    (3 * loss(vectors, matrix[:V], OFFSETS, answers)).backward()
    torch.testing.assert_close((vectors.grad, matrix.grad), (3 * once[0], 3 * once[1]))


def test_gradients_of_several_batches_add_up():
    vectors, matrix, answers = example()
    loss = ScoreLoss("cosine", "binary", 0.1)
    for _ in range(3):
        loss(vectors, matrix[:V], OFFSETS, answers).backward()
    total = matrix.grad.clone()
    matrix.grad = None
    loss(vectors, matrix[:V], OFFSETS, answers).backward()
    torch.testing.assert_close(total, 3 * matrix.grad)


def test_a_gradient_of_zeros_equals_no_gradient():
    vectors, matrix, answers = example()
    loss, optimiser = ScoreLoss(), torch.optim.SGD([matrix], 0.0)
    gradients = []
    for to_none in (True, False, False, True):
        loss(vectors, matrix[:V], OFFSETS, answers).backward()
        gradients.append(matrix.grad.clone())
        optimiser.zero_grad(set_to_none=to_none)
    assert all(torch.equal(gradient, gradients[0]) for gradient in gradients)


def test_the_gradient_buffer_is_reused_after_the_gradient_is_let_go():
    vectors, matrix, answers = example()
    loss = ScoreLoss()
    places = set()
    for _ in range(3):
        matrix.grad = None
        loss(vectors, matrix[:V], OFFSETS, answers).backward()
        matrix.grad[V:] += 1  # as the nodes of the queries do
        places.add(matrix.grad.data_ptr())
    assert len(places) == 1
    matrix.grad = None
    loss(vectors, matrix[:V], OFFSETS, answers).backward()
    assert not matrix.grad[V:].any()


def test_without_gradients_nothing_is_left_behind():
    vectors, matrix, answers = example()
    with torch.no_grad():
        value = ScoreLoss()(vectors, matrix[:V], OFFSETS, answers)
    assert not value.requires_grad
    assert matrix.grad is None


def test_constant_entities_get_no_gradient():
    vectors, matrix, answers = example()
    fixed = matrix.detach()
    ScoreLoss()(vectors, fixed[:V], OFFSETS, answers).backward()
    assert vectors.grad.abs().sum() > 0
    assert fixed.grad is None


@pytest.mark.parametrize("loss", LOSSES)
def test_a_score_that_is_not_a_number_shows_in_the_loss(loss):
    vectors, matrix, answers = example()
    with torch.no_grad():
        vectors[2, 1] = torch.nan
    assert ScoreLoss("dot", loss)(vectors, matrix[:V], OFFSETS, answers).isnan()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("similarity", SIMILARITY)
def test_far_apart_and_coinciding_vectors_give_finite_gradients(similarity, loss):
    matrix = torch.tensor([[1.0, 1.0], [300.0, -300.0], [0.0, 0.0]], requires_grad=True)
    vectors = torch.tensor([[1.0, 1.0], [0.0, 0.0]], requires_grad=True)
    value = ScoreLoss(similarity, loss, 0.1)(vectors, matrix[:3], torch.tensor([0, 1, 2]), torch.tensor([1, 2]))
    value.backward()
    assert value.isfinite()
    assert vectors.grad.isfinite().all()
    assert matrix.grad.isfinite().all()


def test_a_query_without_an_answer_is_refused():
    vectors, matrix, answers = example()
    with pytest.raises(InputError, match="found none for query 1 of the batch"):
        ScoreLoss()(vectors[:2], matrix[:V], torch.tensor([0, 1, 1]), answers[:1])


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"similarity": "cosin"}, "expected one of dot, cosine, distance, power-norm, found 'cosin'"),
        ({"loss": "hinge"}, "expected one of softmax, binary, found 'hinge'"),
        ({"smoothing": 1.0}, "found 1.0 and 512"),
    ],
)
def test_choices_out_of_range_are_refused(choices, message):
    with pytest.raises(ConfigError, match=message):
        ScoreLoss(**choices)
