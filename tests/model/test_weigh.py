import math

import numpy as np
import pytest
import torch

from starqe.model import collate
from starqe.model.message_steps import plan
from starqe.model.weigh import WEIGH


@pytest.fixture
def step(table, space):
    # Two edges end in the target, and entity 0 sends one more edge: nodes 0, 1, variable, target.
    query = table("A>? B>? A>x", [[0, 1]], [[0, 1, 2]], [[[], [], []]])
    batch = collate([(query, np.array([0]))], space)
    everyone = torch.ones(len(batch.node), dtype=torch.bool)
    relation = batch.edge_relation
    return plan(batch, torch.tensor([1]), everyone, False, relation, relation + 3, batch.pair_relation)[0]


def test_symmetric_weights_come_from_the_product_of_the_degrees(step):
    messages = torch.ones(3, 2)
    # 0>?: 2 sent, 2 received; 1>?: 1 sent, 2 received; 0>x: 2 sent, 1 received
    expected = torch.tensor([[1 / 2], [1 / math.sqrt(2)], [1 / math.sqrt(2)]]).expand(3, 2)
    weigh = WEIGH["symmetric"](2, 1)
    torch.testing.assert_close(weigh(messages, torch.zeros(4, 2), step.forward), expected)
    torch.testing.assert_close(weigh(messages, torch.zeros(4, 2), step.backward), expected)


def test_weights_by_the_sum_of_degrees_count_edges_whichever_way_they_point(step):
    # 0 has 2 edges, 1 has 1, the target 2, x 1. 0>?: 2 + 2; 1>?: 1 + 2; 0>x: 2 + 1
    expected = torch.tensor([[1 / 2], [1 / math.sqrt(3)], [1 / math.sqrt(3)]]).expand(3, 2)
    weigh = WEIGH["degree-sum"](2, 1)
    torch.testing.assert_close(weigh(torch.ones(3, 2), torch.zeros(4, 2), step.forward), expected)
    torch.testing.assert_close(weigh(torch.ones(3, 2), torch.zeros(4, 2), step.backward), expected)


def test_in_a_chain_the_sum_of_degrees_differs_from_their_product(table, space):
    batch = collate([(table("A>x x>?", [[0]], [[0, 1]], [[[], []]]), np.array([0]))], space)
    everyone, relation = torch.ones(len(batch.node), dtype=torch.bool), batch.edge_relation
    step = plan(batch, torch.tensor([1]), everyone, False, relation, relation + 3, batch.pair_relation)[0]
    # x has 2 edges, the others 1: 1 + 2 on both edges. In one direction every node sends and gets at most one message.
    torch.testing.assert_close(step.forward.degree_sum, torch.full((2,), 1 / math.sqrt(3)))
    torch.testing.assert_close(step.forward.symmetric, torch.ones(2))


def test_a_shared_attention_vector_begins_as_one_matrix():
    weigh = WEIGH["shared-attention"](64, 4)
    weigh.reset_parameters(torch.Generator().manual_seed(0))
    values = torch.cat([weigh.message_vector, weigh.receiver_vector], dim=1)  # (4, 32)
    bound = math.sqrt(6 / (4 + 32))
    assert 0.9 * bound < values.abs().max() <= bound


def test_attention_is_a_softmax_over_the_messages_into_a_node_head_by_head(step):
    weigh = WEIGH["attention"](2, 2)
    with torch.no_grad():
        weigh.message_vector.copy_(torch.tensor([[1.0], [2.0]]))
        weigh.receiver_vector.copy_(torch.tensor([[1.0], [-1.0]]))
    messages = torch.tensor([[1.0, 1.0], [3.0, -1.0], [5.0, 7.0]])
    nodes = torch.zeros(4, 2)
    target = step.forward.receivers[step.forward.receiver[0]]
    nodes[target] = torch.tensor([1.0, 1.0])
    # Into the target, head 0: scores 1 + 1 and 3 + 1; head 1: LeakyReLU(2 - 1) = 1 and LeakyReLU(-2 - 1) = -0.03
    one, other = 1 / (1 + math.exp(2)), 1 / (1 + math.exp(-1.03))
    expected = torch.tensor([[one, other], [3 * (1 - one), -(1 - other)], [5.0, 7.0]])
    torch.testing.assert_close(weigh(messages, nodes, step.forward), expected)


def test_attention_weighs_each_direction_by_its_own_receivers(step):
    weigh = WEIGH["attention"](2, 1)
    with torch.no_grad():
        weigh.message_vector.fill_(0)
        weigh.receiver_vector.fill_(0)
    # Backward, entity 0 receives the messages of edges 0 and 2, entity 1 that of edge 1.
    torch.testing.assert_close(weigh(torch.ones(3, 2), torch.ones(4, 2), step.backward), torch.tensor([[0.5, 0.5], [1.0, 1.0], [0.5, 0.5]]))
