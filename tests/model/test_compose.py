import pytest
import torch

from starqe.model.compose import COMPOSE, NEUTRAL


@pytest.mark.parametrize(
    ("name", "node", "relation", "expected"),
    [
        ("multiply", [1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [4.0, 10.0, 18.0]),
        ("subtract", [1.0, 2.0, 3.0], [4.0, 6.0, 8.0], [-3.0, -4.0, -5.0]),
        # (1 + 3i)(5 + 7i) = -16 + 22i and (2 + 4i)(6 + 8i) = -20 + 40i
        ("complex", [1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0], [-16.0, -20.0, 22.0, 40.0]),
        # 2 turned by the angle of 3i is 2i; (1 + i) turned by the angle of 3 + 4i is (1 + i)(0.6 + 0.8i) = -0.2 + 1.4i
        ("rotate", [2.0, 1.0, 0.0, 1.0], [0.0, 3.0, 3.0, 4.0], [0.0, -0.2, 2.0, 1.4]),
        # c_0 = 1·4 + 2·5 + 3·6, c_1 = 1·5 + 2·6 + 3·4, c_2 = 1·6 + 2·4 + 3·5
        ("correlate", [1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [32.0, 29.0, 29.0]),
        # c_0 = 1·4 + 2·6 + 3·5, c_1 = 1·5 + 2·4 + 3·6, c_2 = 1·6 + 2·5 + 3·4
        ("convolve", [1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [31.0, 31.0, 28.0]),
    ],
)
def test_a_composition_by_hand(name, node, relation, expected):
    result = COMPOSE[name](torch.tensor([node]), torch.tensor([relation]))
    torch.testing.assert_close(result, torch.tensor([expected]))


@pytest.mark.parametrize("name", COMPOSE)
def test_one_relation_composes_with_every_row(name):
    generator = torch.Generator().manual_seed(0)
    nodes, relation = torch.randn(5, 4, generator=generator), torch.randn(4, generator=generator)
    torch.testing.assert_close(COMPOSE[name](nodes, relation), COMPOSE[name](nodes, relation.expand(5, 4)))


def test_a_rotation_keeps_the_length():
    generator = torch.Generator().manual_seed(0)
    nodes, relations = torch.randn(5, 4, generator=generator), torch.randn(5, 4, generator=generator)
    torch.testing.assert_close(COMPOSE["rotate"](nodes, relations).norm(dim=1), nodes.norm(dim=1))


def test_a_rotation_by_zero_has_a_finite_gradient():
    relation = torch.zeros(1, 4, requires_grad=True)
    COMPOSE["rotate"](torch.ones(1, 4), relation).sum().backward()
    assert relation.grad.isfinite().all()


@pytest.mark.parametrize("name", COMPOSE)
def test_the_neutral_relation_leaves_the_features_of_a_node_as_they_are(name):
    node = torch.tensor([[1.0, -2.0, 3.0, 4.0]])
    composed = COMPOSE[name](node, NEUTRAL[name](4))
    expected = torch.tensor([[1.0, 4.0, 3.0, -2.0]]) if name == "correlate" else node  # c_k is feature -k there
    torch.testing.assert_close(composed, expected)
