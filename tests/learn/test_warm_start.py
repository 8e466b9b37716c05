"""Warm starts: rows of what is known are kept by identifier, and new ones are means worked out by hand."""

import numpy as np
import pytest
import torch

from starqe.errors import MismatchError
from starqe.kg import Changes, Statement, embedded_graph, graph_of, update_graph
from starqe.learn.scorer import EncoderScorer
from starqe.learn.warm_start import carried_over
from starqe.model import Encoder, ModelConfig, Space
from starqe.queries import SHAPES, sample
from starqe.queries.gaps import HEAD, TAIL, with_gap
from starqe.reason.predictor.architectures import ARCHITECTURES, new_predictor
from starqe.reason.predictor.config import PredictorConfig

OLD = graph_of([Statement("a", "r", "t"), Statement("b", "r", "t"), Statement("c", "r", "u"), Statement("c", "s", "u", (("q", "a"),))])
"""Entities a, b, c, t, u and relations q, r, s."""
ROWS = torch.tensor([[1.0, 0.0], [3.0, 2.0], [8.0, 4.0], [0.0, 8.0], [2.0, 6.0]])
RELATIONS = torch.tensor([[1.0, 1.0], [2.0, 0.0], [4.0, 2.0]])


def start(*statements: Statement, valid: tuple[Statement, ...] = ()) -> dict[str, torch.Tensor]:
    """Returns the rows above, carried over to the graph with further statements."""
    new, _ = update_graph(OLD, Changes.of([graph_of(statements, valid=valid)]))
    blocks = {"e": ("entities", 1), "r": ("relations", "relations")}
    fresh = {"e": torch.zeros(len(new.entities) + 1, 2), "r": torch.zeros(2 * len(new.relations), 2), "w": torch.zeros(3)}
    weights = {"e": torch.cat([ROWS, torch.tensor([[9.0, 9.0]])]), "r": torch.cat([RELATIONS, -RELATIONS]), "w": torch.arange(3.0)}
    return carried_over(weights, blocks, OLD, new, fresh)


def test_what_is_known_is_kept_and_other_rows_stay_behind_the_new_ones():
    found = start(Statement("n", "r", "t"))
    assert torch.equal(found["e"][:5], ROWS)
    assert found["e"][6].tolist() == [9, 9]
    assert found["w"].tolist() == [0, 1, 2]


def test_a_new_entity_is_the_mean_of_what_fills_the_same_place():
    found = start(Statement("n", "r", "t"))  # as a and b do
    assert found["e"][5].tolist() == [2, 1]


def test_where_nothing_fills_the_same_place_the_relation_decides():
    found = start(Statement("n", "r", "a"))  # heads of r: a, b, c, and tails of r: t, t, u do not count
    assert found["e"][5].tolist() == [4, 2]


def test_every_statement_counts_once():
    found = start(Statement("n", "r", "t"), Statement("c", "r", "n"))  # (2, 1) as head, and (2, 6) beside u as tail
    assert found["e"][5].tolist() == [2, 3.5]


def test_values_of_pairs_count_too():
    found = start(Statement("c", "s", "u", (("q", "n"),)))  # beside a
    assert found["e"][5].tolist() == [1, 0]


def test_validation_statements_do_not_count():
    found = start(Statement("a", "s", "t"), valid=(Statement("n", "r", "t"),))
    assert found["e"][5].tolist() == ROWS.mean(0).tolist()


def test_a_new_relation_is_the_mean_of_those_between_the_same_entities_in_both_directions():
    found = start(Statement("c", "z", "u"))  # r and s
    assert found["r"][[3, 7]].tolist() == [[3, 1], [-3, -1]]
    assert torch.equal(found["r"][:3], RELATIONS)
    assert torch.equal(found["r"][4:7], -RELATIONS)


def test_rows_are_found_by_identifier_in_whatever_order():
    new = graph_of([Statement("0", "r", "t"), *OLD.statements("train")])  # every id is one higher
    fresh = {"e": torch.zeros(6, 2)}
    found = carried_over({"e": ROWS}, {"e": ("entities",)}, OLD, new, fresh)
    assert torch.equal(found["e"][1:], ROWS)
    assert found["e"][0].tolist() == [2, 1]


@pytest.mark.parametrize(
    ("weights", "message"),
    [({"e": torch.zeros(5, 3)}, "'e' is 5x2 here, and 5x3"), ({}, "and none in"), ({"e": torch.zeros(6, 2)}, "and 6x2 in")],
)
def test_another_width_and_another_architecture_are_refused(weights, message):
    with pytest.raises(MismatchError, match=message):
        carried_over(weights, {"e": ("entities",)}, OLD, OLD, {"e": torch.zeros(5, 2)})


def grown_graph():
    """The embedded graph, a bit larger, with other ids."""
    graph = embedded_graph()
    more = [Statement("!new", graph.relations.identifier(0), graph.entities.identifier(3)), Statement("!new", "!relation", "!other")]
    return graph, graph_of([*graph.statements("train"), *more], graph.statements("valid"), graph.statements("test"))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_predictor_that_is_carried_over_scores_what_it_knew_as_before(architecture):
    old, new = grown_graph()
    config = PredictorConfig(architecture=architecture, width=16, heads=2, feed_forward=8)
    before = new_predictor(config, len(old.entities), len(old.relations), 0).eval()
    after = new_predictor(config, len(new.entities), len(new.relations), 1).eval()
    after.load_state_dict(carried_over(before.state_dict(), after.blocks, old, new, after.state_dict()))
    place = torch.from_numpy(new.entities.ids(old.entities).astype(np.int64))
    for position in (HEAD, TAIL):
        with torch.no_grad():
            one = before(with_gap(old, np.arange(20), position)) @ before.entity_matrix().T
            rows = np.array([find(new, old.statement(row)) for row in range(20)])
            two = after(with_gap(new, rows, position)) @ after.entity_matrix().T
        torch.testing.assert_close(two[:, place], one)


@pytest.mark.parametrize("variant", ["qualified", "reified"])
def test_an_encoder_that_is_carried_over_scores_what_it_knew_as_before(variant):
    old, new = grown_graph()
    config = ModelConfig.parse({"width": 16, "heads": 2, "layers": 2})
    before, after = (
        Encoder(config, Space(len(graph.entities), len(graph.relations), variant == "reified"), 0).eval() for graph in (old, new)
    )
    after.load_state_dict(carried_over(before.state_dict(), after.blocks, old, new, after.state_dict()))
    # the same queries by the ids of both graphs: what is sampled from a graph with the same ids first, then those of an update
    appended, _ = update_graph(old, Changes.of([graph_of([Statement("!new", old.relations.identifier(0), "!other")])]))
    third = Encoder(config, Space(len(appended.entities), len(appended.relations), variant == "reified"), 1).eval()
    third.load_state_dict(carried_over(after.state_dict(), third.blocks, new, appended, third.state_dict()))
    table = sample(old, SHAPES["2p"], 10, "train", [(0, 2)] * 2)
    scores = [
        EncoderScorer(model, graph, variant).scores(table, np.arange(len(table)), torch.empty(len(table), len(graph.entities)))
        for model, graph in ((before, old), (third, appended))
    ]
    torch.testing.assert_close(scores[1][:, : len(old.entities)], scores[0])


def find(graph, statement) -> int:
    rows = np.flatnonzero(graph.head == graph.entities.id(statement.head)).tolist()
    return next(row for row in rows if graph.statement(row) == statement)
