import math

import pytest
import torch

from starqe.model.qualify import QUALIFY

RELATIONS = torch.tensor([[1.0, 2.0], [3.0, 4.0]])  # edge 0 has two pairs, edge 1 has none
PAIRS = torch.tensor([[1.0, 0.0], [2.0, 1.0]])
PAIR_EDGE = torch.tensor([0, 0])
SWAP = torch.tensor([[0.0, 1.0], [1.0, 0.0]])


def qualified(name, **weights):
    qualify = QUALIFY[name](2, 1)
    with torch.no_grad():
        for key, value in weights.items():
            getattr(qualify, key).copy_(torch.as_tensor(value))
    return qualify(RELATIONS, qualify.digest(PAIRS, PAIR_EDGE, 2), PAIR_EDGE)


def test_sum_averages_the_relation_and_the_transformed_pairs():
    # Σ h = (3, 1), swapped (1, 3); ½ (1, 2) + ½ (1, 3); without pairs ½ (3, 4)
    torch.testing.assert_close(qualified("sum", pair_weight=SWAP), torch.tensor([[1.0, 2.5], [1.5, 2.0]]))


def test_concatenate_transforms_the_relation_beside_the_sum_of_the_pairs():
    weight = torch.cat([2 * torch.eye(2), SWAP])
    # 2 (1, 2) + (1, 3); without pairs 2 (3, 4)
    torch.testing.assert_close(qualified("concatenate", joint_weight=weight), torch.tensor([[3.0, 7.0], [6.0, 8.0]]))


def test_multiply_leaves_a_relation_without_pairs_as_it_is():
    # (1, 2) * (1, 3); without pairs (3, 4)
    torch.testing.assert_close(qualified("multiply", pair_weight=SWAP), torch.tensor([[1.0, 6.0], [3.0, 4.0]]))


def test_attention_mixes_the_relation_with_its_pairs():
    # Items of edge 0: r = (1, 2), (0, 1), (1, 2). Scores LeakyReLU(r_0 · 0 + first component of the item): 1, 0, 1.
    result = qualified("attention", pair_weight=SWAP, relation_vector=[[0.0, 0.0]], item_vector=[[1.0, 0.0]])
    e = math.e
    shares = [e / (2 * e + 1), 1 / (2 * e + 1), e / (2 * e + 1)]
    first = [shares[0] * 1 + shares[2] * 1, shares[0] * 2 + shares[1] * 1 + shares[2] * 2]
    torch.testing.assert_close(result, torch.tensor([first, [3.0, 4.0]]))


def test_negative_attention_scores_are_leaky():
    # relation_vector (-1, 0): scores LeakyReLU(-1 + item_0): LeakyReLU(0) = 0, LeakyReLU(-1) = -0.01, 0
    result = qualified("attention", pair_weight=SWAP, relation_vector=[[-1.0, 0.0]], item_vector=[[1.0, 0.0]])
    total = 2 + math.exp(-0.01)
    torch.testing.assert_close(result[0], torch.tensor([2 / total, (4 + math.exp(-0.01)) / total]))


@pytest.mark.parametrize("name", QUALIFY)
def test_an_edge_without_pairs_still_depends_on_its_relation(name):
    qualify = QUALIFY[name](2, 1)
    qualify.reset_parameters(torch.Generator().manual_seed(0))
    none, empty = torch.empty(0, 2), torch.empty(0, dtype=torch.int64)
    result = qualify(RELATIONS, qualify.digest(none, empty, 2), empty)
    assert (result.abs().sum(1) > 0.1).all()
    assert not torch.allclose(result[0], result[1])
