import math

import pytest
import torch

from starqe.model import SIMILARITY
from starqe.model.similarity import PACKED_ROWS, PackedRows

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


@pytest.mark.parametrize("rows", [PACKED_ROWS, 10])
@pytest.mark.parametrize("vectors", [1, 3, 20])
def test_packed_rows_give_the_dot_products(rows, vectors):
    generator = torch.Generator().manual_seed(0)
    entities, queries = torch.randn(rows, 24, generator=generator), torch.randn(vectors, 24, generator=generator)
    found = PackedRows(entities).products(queries, torch.empty(vectors, rows))
    torch.testing.assert_close(found, queries @ entities.T)
