from typing import get_args

import numpy as np
import pytest
import torch
from tests.columns import query_table

from starqe.model import Encoder, ModelConfig, Space, collate, config
from starqe.model.embedding import InputEmbedding
from starqe.model.message_steps import plan
from starqe.queries.shape import Shape

SMALL = {"width": 8, "heads": 2, "layers": 2}
CHOICES = (
    [{"pair_composition": name} for name in get_args(config.Composition)]
    + [{"edge_composition": name} for name in get_args(config.Composition)]
    + [{"qualification": name} for name in get_args(config.Qualification)]
    + [{"weighting": name} for name in get_args(config.Weighting)]
    + [{"activation": name} for name in get_args(config.Activation)]
    + [{"pooling": name} for name in get_args(config.Pooling)]
    + [{"steps": name, "shared": shared, "pooling": "sum-with-relations"} for name in get_args(config.Steps) for shared in (False, True)]
    + [{"initial": name} for name in get_args(config.Initial)]
    + [{"batch_norm": True}, {"bias": False}, {"layers": 3}, {"layers": 1, "shared": True}, {"layers": 2, "shared": True}]
    + [{"layers": 0, "pooling": name} for name in ("sum", "sum-with-values", "sum-with-relations")]
)


def encoder_of(choices, space):
    return Encoder(ModelConfig(**{**SMALL, **choices}), space, seed=1)


def label(choices):
    return ",".join(f"{key}={value}" for key, value in choices.items())


@pytest.fixture(params=CHOICES, ids=label)
def encoder(request, space):
    made = encoder_of(request.param, space)
    for layer in made.layers:
        if layer.norm is not None:
            layer.norm.running_mean.fill_(0.1)
            layer.norm.running_var.fill_(0.5)
    return made


def test_a_batch_of_one_equals_its_row_in_a_mixed_batch(encoder, mixed, mixed_batch, space):
    with torch.no_grad():
        together = encoder(mixed_batch)
        alone = [encoder(collate([(part, np.array([row]))], space)) for part, rows in mixed for row in rows]
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-6, rtol=1e-5)


def test_gradients_reach_every_parameter(encoder, mixed_batch):
    # An attention to the receiver cancels where all scores have one sign; some draw out of four has both.
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        encoder.reset_parameters(generator)
        vectors = encoder(mixed_batch, generator)
        (vectors * torch.randn(vectors.shape, generator=generator)).sum().backward()
    silent = [name for name, values in encoder.named_parameters() if values.grad is None or not values.grad.abs().sum() > 0]
    assert silent == []


def test_the_order_of_the_queries_changes_nothing(encoder, mixed, space):
    chain, join = mixed[0][0], mixed[1][0]
    with torch.no_grad():
        one = encoder(collate([(chain, np.array([0, 1])), (join, np.array([1, 0]))], space))
        other = encoder(collate([(join, np.array([0, 1])), (chain, np.array([1, 0]))], space))
    torch.testing.assert_close(one, other[[3, 2, 1, 0]], atol=1e-6, rtol=1e-5)


def test_renaming_variables_and_reordering_edges_change_nothing(encoder, table, space):
    pairs = [[[(0, 3)], [(1, 2), (2, 5)], []]]
    one = table("A>x x>y y>?", [[4]], [[0, 1, 2]], pairs)
    other = table("w>? A>z z>w", [[4]], [[2, 0, 1]], [[[], [(0, 3)], [(2, 5), (1, 2)]]])
    with torch.no_grad():
        vectors = [encoder(collate([(part, np.array([0]))], space)) for part in (one, other)]
    torch.testing.assert_close(*vectors, atol=1e-6, rtol=1e-5)


def test_a_batch_without_any_pair_is_encoded(encoder, table, space):
    batch = collate([(table("A>x x>?", [[1], [2]], [[0, 1], [0, 2]], [[[], []], [[], []]]), np.array([0, 1]))], space)
    vectors = encoder(batch, torch.Generator().manual_seed(0))
    vectors.sum().backward()
    assert vectors.isfinite().all()
    assert not torch.allclose(vectors[0], vectors[1])


@pytest.mark.parametrize("choices", [{}, {"layers": 0, "pooling": "sum-with-values"}], ids=label)
def test_a_qualifier_changes_the_vector(choices, table, space):
    encoder = encoder_of(choices, space)
    batch = collate([(table("A>?", [[1], [1], [1]], [[0], [0], [0]], [[[(0, 2)]], [[(0, 3)]], [[]]]), np.arange(3))], space)
    vectors = encoder(batch)
    assert min((vectors[i] - vectors[j]).abs().max() for i, j in ((0, 1), (0, 2), (1, 2))) > 1e-3


def test_a_reified_space_is_encoded(table):
    space = Space(entities=6, relations=3, reified=True)
    encoder = encoder_of({}, space)
    query = table("_b>A _b>B _b>?", [[5, 8], [5, 7]], [[3, 4, 5], [3, 4, 5]], [[[], [], []]] * 2)
    vectors = encoder(collate([(query, np.arange(2))], space))
    assert encoder.entity_matrix().shape == (6, 8)
    assert not torch.allclose(vectors[0], vectors[1])


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_what_is_not_computed_was_not_needed(layers, mixed_batch, space):
    encoder = encoder_of({"layers": layers}, space)
    batch = mixed_batch
    count = torch.full((len(batch),), layers)
    inverse = batch.edge_relation + space.directed
    steps = plan(batch, count, torch.zeros_like(batch.on_edge), True, batch.edge_relation, inverse, batch.pair_relation)
    nodes, relations = encoder.embedding.weight[batch.node], encoder.relation_embedding
    for number, (layer, step) in enumerate(zip(encoder.layers, steps, strict=True)):
        assert len(step.updated) == len(nodes)
        nodes = layer(nodes, relations, step, None)
        relations = layer.update_relations(relations) if number + 1 < layers else relations
    torch.testing.assert_close(encoder(batch), nodes[batch.target])


def test_the_last_step_of_target_pooling_updates_the_targets_only(mixed_batch):
    batch = mixed_batch
    pooled = torch.zeros_like(batch.on_edge).index_fill(0, batch.target, True)
    steps = plan(batch, torch.full((len(batch),), 2), pooled, False, batch.edge_relation, batch.edge_relation, batch.pair_relation)
    assert steps[1].updated.tolist() == sorted(batch.target.tolist())
    assert set(steps[0].updated.tolist()) > set(batch.target.tolist())


@pytest.mark.parametrize(("steps", "expected"), [("layers", [3, 3]), ("diameter", [1, 3]), ("diameter+1", [2, 4])])
def test_the_steps_of_a_query(steps, expected, table, space):
    one = table("A>?", [[0]], [[0]], [[[]]])
    three = table("A>x x>y y>?", [[0]], [[0, 1, 2]], [[[], [], []]])
    batch = collate([(one, np.array([0])), (three, np.array([0]))], space)
    assert encoder_of({"layers": 3, "steps": steps, "shared": True}, space)._steps_of(batch).tolist() == expected
    own = encoder_of({"layers": 3, "steps": steps}, space)
    assert own._steps_of(batch).tolist() == [min(3, count) for count in expected]


def test_shared_steps_repeat_one_layer(mixed_batch, space):
    shared, own = encoder_of({"layers": 2, "shared": True}, space), encoder_of({"layers": 2}, space)
    assert len(shared.layers) == 1
    own.load_state_dict(
        {**own.state_dict(), **shared.state_dict()}
        | {name.replace("layers.0", "layers.1"): values for name, values in shared.state_dict().items() if "relation_weight" not in name}
    )
    torch.testing.assert_close(shared(mixed_batch), own(mixed_batch))


def test_the_same_seed_gives_the_same_parameters_and_leaves_the_global_generator_alone(space):
    before = torch.get_rng_state()
    one, other = (Encoder(ModelConfig(**SMALL), space, seed=5).state_dict() for _ in range(2))
    assert all(torch.equal(values, other[name]) for name, values in one.items())
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(one["embedding.weight"], Encoder(ModelConfig(**SMALL), space, seed=6).state_dict()["embedding.weight"])


def test_the_same_noise_gives_the_same_vectors(mixed_batch, space):
    encoder = encoder_of({}, space)
    one, other = (encoder(mixed_batch, torch.Generator().manual_seed(2)) for _ in range(2))
    assert torch.equal(one, other)
    assert not torch.equal(one, encoder(mixed_batch))


def test_the_gradient_of_the_embedding_is_added_in_place():
    embedding = InputEmbedding(4, 2)
    embedding.reset_parameters(torch.Generator().manual_seed(0))
    index, factors = torch.tensor([1, 3, 1]), torch.tensor([[1.0, 2.0], [3.0, 4.0], [10.0, 20.0]])
    (embedding(index, 0.0, None) * factors).sum().backward()
    place = embedding.weight.grad
    assert place.tolist() == [[0.0, 0.0], [11.0, 22.0], [0.0, 0.0], [3.0, 4.0]]
    (embedding(index, 0.0, None) * factors).sum().backward()
    assert embedding.weight.grad is place
    assert place[3].tolist() == [6.0, 8.0]


@pytest.mark.parametrize("length", [1.0, 0.1])
def test_entities_begin_with_the_length_that_was_chosen(length, space):
    embedding = InputEmbedding(500, 64)
    embedding.reset_parameters(torch.Generator().manual_seed(0), length)
    assert abs(embedding.weight.norm(dim=1).mean() / length - 1) < 0.02
    short, long = (encoder_of({"initial_length": one}, space).entity_matrix() for one in (length, 1.0))
    torch.testing.assert_close(short, length * long)


@torch.no_grad()
def test_by_xaviers_rule_the_size_of_the_whole_matrix_decides_where_embeddings_begin():
    space = Space(entities=6000, relations=500)
    made = Encoder(ModelConfig(width=128, initial="xavier", initial_length=9.0), space, seed=0)
    rows = space.input_rows
    # Deviation sqrt(2 / (rows + columns)), so a row of 128 has the length sqrt(128) times that: 0.19 here, 0.07 for 47,155 entities.
    assert made.embedding.weight.norm(dim=1).mean() == pytest.approx((128 * 2 / (rows + 128)) ** 0.5, rel=0.01)
    assert pytest.approx(0.07, abs=0.005) == (128 * 2 / (47_155 + 128)) ** 0.5
    assert made.relation_embedding.std() == pytest.approx((2 / (space.relation_rows + 128)) ** 0.5, rel=0.01)
    assert made.layers[0].loop_relation.std() == pytest.approx((2 / (1 + 128)) ** 0.5, rel=0.2)


def test_a_shared_attention_vector_weighs_both_directions(space, mixed_batch):
    made, apart = (encoder_of({"weighting": name}, space) for name in ("shared-attention", "attention"))
    names = {name for name, _ in made.named_parameters()}
    assert "layers.0.weigh_forward.message_vector" in names
    assert names == {name for name, _ in apart.named_parameters() if "weigh_backward" not in name}
    values = made.state_dict()
    twice = {name.replace("weigh_forward", "weigh_backward"): value for name, value in values.items() if "weigh_forward" in name}
    apart.load_state_dict({**values, **twice})
    torch.testing.assert_close(made(mixed_batch), apart(mixed_batch))


def test_a_user_shape_with_parallel_edges_and_a_loop_of_edges_is_encoded(space):
    shape = Shape.parse("knot", "A>x A>x x>? ?>A")
    query = query_table(
        shape,
        np.array([[1]], np.int32),
        np.array([[0, 1, 2, 0]], np.int32),
        np.zeros(5, np.int64),
        np.empty(0, np.int32),
        np.empty(0, np.int32),
        np.array([0, 1]),
        np.array([2], np.int32),
    )
    assert encoder_of({}, space)(collate([(query, np.array([0]))], space)).isfinite().all()


def test_the_parts_that_are_computed_with_fewer_bits_fit_together(encoder, mixed_batch):
    with torch.autocast("cpu", torch.bfloat16):
        vectors = encoder(mixed_batch, torch.Generator().manual_seed(0))
    vectors.float().sum().backward()
    assert torch.isfinite(vectors.float()).all()
