"""An encoder asked for union, negation and open values: by its alternatives, and by a batch that is the same queries in another form."""

import numpy as np
import pytest
import torch

from starqe.errors import UnsupportedError
from starqe.kg import Statement, graph_of
from starqe.learn import EncoderScorer, preset
from starqe.learn.run import Run
from starqe.model import Encoder, collate
from starqe.queries import MORE_SHAPES, QueryTable, sample

GRAPH = graph_of(
    train=[
        *(
            Statement(f"a{i}", relation, f"b{(i + step) % 5}")
            for i in range(10)
            for relation, step in (("r", 0), ("r", 1), ("t", 1), ("t", 3))
        ),
        *(Statement(f"b{i}", "s", f"d{(i + step) % 3}", (("q", f"b{(i + 1) % 5}"),)) for i in range(5) for step in (0, 1)),
        *(Statement("e", "u", f"d{i}") for i in range(2)),
    ]
)


@pytest.fixture(scope="module")
def scorer(tmp_path_factory) -> EncoderScorer:
    recipe = preset("demo").with_settings(["model.width=8", "model.heads=2"])
    run = Run.create(tmp_path_factory.mktemp("run") / "run", recipe, GRAPH)
    return EncoderScorer(Encoder(recipe.model, run.space, 0).eval(), GRAPH)


def drawn(name: str) -> QueryTable:
    table = sample(GRAPH, MORE_SHAPES[name], 6, "train", [(0, 1)] * len(MORE_SHAPES[name].edges))
    assert len(table)
    return table


def scores(scorer: EncoderScorer, table: QueryTable) -> torch.Tensor:
    return scorer.scores(table, np.arange(len(table)), torch.empty(len(table), len(GRAPH.entities))).clone()


@pytest.mark.parametrize("name", ["2u", "up"])
def test_the_share_of_a_union_is_the_sum_of_those_of_its_alternatives(scorer: EncoderScorer, name: str) -> None:
    table = drawn(name)
    shares = [scores(scorer, branch).softmax(1) for branch in table.branches()]
    torch.testing.assert_close(scores(scorer, table).exp(), shares[0] + shares[1])


@pytest.mark.parametrize("name", ["2in", "3in", "inp", "pin", "pni"])
def test_negated_parts_are_left_out(scorer: EncoderScorer, name: str) -> None:
    table = drawn(name)
    (rest,) = table.branches()
    torch.testing.assert_close(scores(scorer, table), scores(scorer, rest))
    assert len(rest.shape.edges) < len(table.shape.edges)


def test_a_batch_of_several_shapes_is_scored_part_by_part(scorer: EncoderScorer) -> None:
    tables = [drawn("2u"), drawn("2cp"), drawn("pni")]
    whole = scorer.scores_of([(table, np.arange(len(table))) for table in tables], torch.empty(sum(map(len, tables)), len(GRAPH.entities)))
    torch.testing.assert_close(whole, torch.cat([scores(scorer, table) for table in tables]))


def test_an_open_value_is_a_node_of_the_batch(scorer: EncoderScorer) -> None:
    table = drawn("2cp")
    batch = collate([(table, np.arange(len(table)))], scorer._encoder.space)
    edges = len(table.shape.edges)
    opened = batch.pair_edge.numpy() % edges == 2
    # The value of the last edge's pair is the variable that the second edge leads to.
    assert batch.pair_node[opened].tolist() == batch.edge_tail[1::edges].tolist()
    assert sorted(batch.pair_relation[opened].tolist()) == sorted(table.value_relations[:, 0].tolist())


def test_what_the_open_value_is_reached_from_changes_the_scores(scorer: EncoderScorer) -> None:
    table = drawn("2cp").take([0, 0])
    table.anchors[1, table.shape.anchors.index("B")] = GRAPH.entities.id("d1")
    first, second = scores(scorer, table)
    assert not torch.allclose(first, second)


def test_training_refuses_what_is_not_a_conjunction(scorer: EncoderScorer) -> None:
    with pytest.raises(UnsupportedError, match="a batch holds conjunctions, found shape '2u'"):
        collate([(drawn("2u"), np.arange(1))], scorer._encoder.space)
