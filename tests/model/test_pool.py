import numpy as np
import pytest
import torch

from starqe.model import collate
from starqe.model.pool import POOL


@pytest.fixture
def batch(table, space):
    # Nodes: entity 0 (anchor), 3 (qualifier value), variable 6, target 7
    return collate([(table("A>x x>?", [[0]], [[0, 1]], [[[(2, 3)], []]]), np.array([0]))], space)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("target", 1000.0), ("sum", 1101.0), ("sum-with-values", 1111.0), ("sum-with-relations", 1111.0 + 0.25 + 0.5 + 0.125)],
)
def test_a_pooling_by_hand(batch, name, expected):
    value_of_row = {0: 1.0, 3: 10.0, 6: 100.0, 7: 1000.0}
    nodes = torch.tensor([[value_of_row[row]] for row in batch.node.tolist()])
    pool = POOL[name]
    relations = (torch.tensor([[0.25], [0.5]]), torch.tensor([[0.125]])) if pool.relations else (None, None)
    assert pool(batch, nodes, *relations).tolist() == [[expected]]
