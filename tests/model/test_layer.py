import numpy as np
import pytest
import torch

from starqe.model import ModelConfig, collate
from starqe.model.layer import ACTIVATE, StarELayer
from starqe.model.message_steps import plan

NODES = torch.tensor([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0]])  # anchor 0, qualifier value 3, target
RELATIONS = torch.tensor([[2.0, 1.0], [1.0, 2.0], [0.0, 0.0], [1.0, 3.0], [0.0, 0.0], [0.0, 0.0]])  # r = 0, its inverse 3, qualifier 1
SWAP = torch.tensor([[0.0, 1.0], [1.0, 0.0]])


@pytest.fixture
def step(table, space):
    batch = collate([(table("A>?", [[0]], [[0]], [[[(1, 3)]]]), np.array([0]))], space)
    everyone = torch.ones(3, dtype=torch.bool)
    return plan(batch, torch.tensor([1]), everyone, False, batch.edge_relation, batch.edge_relation + 3, batch.pair_relation)[0]


def layer(**choices):
    made = StarELayer(ModelConfig(width=2, heads=1, **choices), updates_relations=True)
    made.reset_parameters(torch.Generator().manual_seed(0))
    with torch.no_grad():
        made.qualify.pair_weight.copy_(torch.eye(2))
        made.forward_weight.copy_(SWAP)
        made.backward_weight.copy_(2 * torch.eye(2))
        made.loop_weight.copy_(torch.eye(2))
        made.loop_relation.copy_(torch.tensor([1.0, -1.0]))
        if made.bias is not None:
            made.bias.copy_(torch.tensor([0.5, -1.0]))
    return made


@pytest.mark.parametrize("weighting", ["symmetric", "attention"])
def test_a_layer_on_one_edge_by_hand(step, weighting):
    # h_q = (2, 1) * (1, 2) = (2, 2). Forward: ½ (2, 1) + ½ (2, 2) = (2, 1.5), times (1, 2) = (2, 3), swapped (3, 2).
    # Backward: ½ (1, 3) + ½ (2, 2) = (1.5, 2.5), times (1, 1), doubled (3, 5). Loops: (1, -2), (2, -1), (1, -1).
    result = layer(activation="identity", bias=False, weighting=weighting)(NODES, RELATIONS, step, None)
    torch.testing.assert_close(result, torch.tensor([[4.0, 3.0], [2.0, -1.0], [4.0, 1.0]]) / 3)


def test_bias_comes_before_the_activation(step):
    result = layer(activation="leaky-relu", bias=True, weighting="symmetric")(NODES, RELATIONS, step, None)
    leaky = 0.01
    torch.testing.assert_close(result, torch.tensor([[11 / 6, 0.0], [7 / 6, -4 / 3 * leaky], [11 / 6, -2 / 3 * leaky]]))


def test_gamma_q_and_gamma_r_are_two_choices(step):
    made = layer(activation="identity", bias=False, weighting="symmetric", pair_composition="subtract", edge_composition="multiply")
    # h_q = (2, 1) - (1, 2) = (1, -1). Forward: ½ (2, 1) + ½ (1, -1) = (1.5, 0), times (1, 2) = (1.5, 0), swapped (0, 1.5).
    torch.testing.assert_close(made(NODES, RELATIONS, step, None)[2], torch.tensor([1.0, 0.5]) / 3)
    made = layer(activation="identity", bias=False, weighting="symmetric", pair_composition="multiply", edge_composition="subtract")
    # Forward: (1, 2) - (2, 1.5) = (-1, 0.5), swapped (0.5, -1). Loop of the target: (1, 1) - (1, -1) = (0, 2).
    torch.testing.assert_close(made(NODES, RELATIONS, step, None)[2], torch.tensor([0.5, 1.0]) / 3)


def test_relations_are_transformed_by_their_own_weight():
    made = layer()
    with torch.no_grad():
        made.relation_weight.copy_(SWAP)
    torch.testing.assert_close(made.update_relations(RELATIONS[:2]), torch.tensor([[1.0, 2.0], [2.0, 1.0]]))


def test_dropout_spares_the_self_loop(step):
    made = layer(activation="identity", bias=False, weighting="symmetric", dropout=0.5)
    noise = torch.Generator().manual_seed(0)
    seen = {tuple(made(NODES, RELATIONS, step, noise).mul(3).round(decimals=4).flatten().tolist()) for _ in range(200)}
    # The anchor's loop is (1, -2) and its message 0 or doubled, feature by feature; the value has no message at all.
    assert {values[:2] for values in seen} == {(1.0 + a, -2.0 + b) for a in (0.0, 6.0) for b in (0.0, 10.0)}
    assert {values[2:4] for values in seen} == {(2.0, -1.0)}
    assert {values[4:] for values in seen} == {(1.0 + a, -1.0 + b) for a in (0.0, 6.0) for b in (0.0, 4.0)}


def test_batch_norm_uses_the_batch_in_training_and_the_running_statistics_in_evaluation(step):
    made = layer(activation="identity", bias=False, weighting="symmetric", batch_norm=True, dropout=0.0)
    trained = made(NODES, RELATIONS, step, torch.Generator())
    torch.testing.assert_close(trained.mean(0), torch.zeros(2), atol=1e-6, rtol=0)
    torch.testing.assert_close(trained.var(0, unbiased=False), torch.ones(2), atol=1e-3, rtol=0)
    # One update with momentum 0.1 of the mean (10/9, 1/3), from 0.
    torch.testing.assert_close(made.norm.running_mean, torch.tensor([1 / 9, 1 / 30]))
    before = made.norm.running_mean.clone()
    made(NODES, RELATIONS, step, None)
    assert torch.equal(made.norm.running_mean, before)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("leaky-relu", [-0.02, 3.0]),
        ("identity", [-2.0, 3.0]),
        ("prelu", [-0.5, 3.0]),
        ("relu", [0.0, 3.0]),
        ("tanh", [-0.9640276, 0.9950548]),
        ("gelu", [-0.0455003, 2.9959507]),
    ],
)
def test_an_activation_by_hand(name, expected):
    torch.testing.assert_close(ACTIVATE[name]()(torch.tensor([-2.0, 3.0])), torch.tensor(expected))
