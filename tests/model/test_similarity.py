import math

import pytest
import torch

from starqe.model import SIMILARITY
from starqe.model.similarity import BLOCK, PRODUCT_BYTES, EntityRows

QUERIES = torch.tensor([[1.0, 2.0], [0.0, 3.0]])
ENTITIES = torch.tensor([[1.0, 2.0], [4.0, -2.0], [0.0, 0.0]])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dot", [[5.0, 0.0, 0.0], [6.0, -6.0, 0.0]]),
        ("cosine", [[1.0, 0.0, 0.0], [2 / math.sqrt(5), -1 / math.sqrt(5), 0.0]]),
        ("distance", [[0.0, -5.0, -math.sqrt(5)], [-math.sqrt(2), -math.sqrt(41), -3.0]]),
        ("power-norm", [[0.0, -25.0, -5.0], [-2.0, -41.0, -9.0]]),
    ],
)
def test_a_similarity_by_hand(name, expected):
    torch.testing.assert_close(SIMILARITY[name].scores(QUERIES, ENTITIES), torch.tensor(expected), atol=1.5e-4, rtol=1e-6)


@pytest.mark.parametrize("name", SIMILARITY)
def test_scores_fill_a_given_buffer(name):
    buffer = torch.full((2, 3), torch.nan)
    assert SIMILARITY[name].scores(QUERIES, ENTITIES, out=buffer) is buffer
    assert torch.equal(buffer, SIMILARITY[name].scores(QUERIES, ENTITIES))


@pytest.mark.parametrize("name", SIMILARITY)
def test_known_terms_give_the_same_scores(name):
    similarity = SIMILARITY[name]
    assert torch.equal(similarity.scores(QUERIES, ENTITIES, terms=similarity.terms(ENTITIES)), similarity.scores(QUERIES, ENTITIES))


@pytest.mark.parametrize("name", SIMILARITY)
def test_scoring_leaves_its_inputs_as_they_are(name):
    queries, entities = QUERIES.clone(), ENTITIES.clone()
    SIMILARITY[name].scores(queries, entities)
    assert torch.equal(queries, QUERIES)
    assert torch.equal(entities, ENTITIES)


@pytest.mark.parametrize("name", SIMILARITY)
@pytest.mark.parametrize("rows", [BLOCK + 100, 10])
@pytest.mark.parametrize("vectors", [1, 3, 20, 1 + PRODUCT_BYTES // (4 * BLOCK)])
def test_frozen_entities_have_the_same_scores_whole_and_in_blocks(name, rows, vectors):
    generator = torch.Generator().manual_seed(0)
    entities, queries = torch.randn(rows, 24, generator=generator), torch.randn(vectors, 24, generator=generator)
    expected = SIMILARITY[name].scores(queries, entities)
    frozen = EntityRows(SIMILARITY[name], lambda: entities, frozen=True)
    torch.testing.assert_close(frozen.scores(queries, torch.empty(vectors, rows)), expected, rtol=1e-5, atol=1e-5)
    starts, blocks = zip(*frozen.blocks(queries), strict=True)
    assert starts == tuple(range(0, rows, BLOCK))
    torch.testing.assert_close(torch.cat(blocks, 1), expected, rtol=1e-5, atol=1e-5)


def test_entities_that_still_change_are_read_again():
    entities = torch.zeros(BLOCK, 2)
    changing = EntityRows(SIMILARITY["dot"], lambda: entities)
    assert changing.scores(QUERIES, torch.empty(2, BLOCK))[0, 7] == 0
    entities[7] = torch.tensor([1.0, 1.0])
    assert changing.scores(QUERIES, torch.empty(2, BLOCK))[0, 7] == 3
    assert next(changing.blocks(QUERIES))[1][0, 7] == 3
