import numpy as np
import pytest

from starqe.errors import UnsupportedError
from starqe.kg import Graph, Statement, graph_of
from starqe.queries import ALL_SHAPES, SHAPES, Shape
from starqe.queries.sampling.backward import NOTHING, WaysIn, walk_back


def star() -> Graph:
    """Three entities lead into the hub by r, one by s."""
    ends = [("a", "r"), ("b", "r"), ("c", "r"), ("d", "s")]
    return graph_of(train=[Statement(head, relation, "hub") for head, relation in ends])


def ways(graph: Graph) -> WaysIn:
    return WaysIn.of(graph.known(["train"]))


def test_relations_are_drawn_first_so_that_a_rare_one_is_as_likely_as_a_frequent_one() -> None:
    graph = star()
    hub, d, s = graph.entities.id("hub"), graph.entities.id("d"), graph.relations.id("s")
    step, source = ways(graph).draw(np.full(8_000, hub), None, np.random.default_rng(0))
    assert set(np.unique(step)) == {2 * graph.relations.id("r"), 2 * s}
    assert (source[step == 2 * s] == d).all()
    assert np.mean(step == 2 * s) == pytest.approx(1 / 2, abs=0.02)
    assert np.mean(source == graph.entities.id("a")) == pytest.approx(1 / 6, abs=0.02)


def test_every_statement_leads_both_ways() -> None:
    graph = star()
    a, r = graph.entities.id("a"), graph.relations.id("r")
    step, source = ways(graph).draw(np.array([a]), None, np.random.default_rng(0))
    assert (step.tolist(), source.tolist()) == ([2 * r + 1], [graph.entities.id("hub")])


def test_no_step_goes_straight_back_and_where_there_is_no_other_there_is_none() -> None:
    graph = star()
    hub, a = (graph.entities.id(name) for name in ("hub", "a"))
    r, s = (graph.relations.id(name) for name in "rs")
    into, random = ways(graph), np.random.default_rng(0)
    step, source = into.draw(np.full(100, hub), np.full(100, 2 * r + 1), random)  # the hub was left by the inverse of r
    assert set(step) == {2 * s}
    assert set(source) == {graph.entities.id("d")}
    step, source = into.draw(np.array([a, hub]), np.array([2 * r, 2 * s]), random)
    assert (step[0], source[0]) == (NOTHING, NOTHING)
    assert step[1] in (2 * r, 2 * s)  # the same step once more is no way back


def test_paths_end_where_they_could_only_go_back() -> None:
    assert len(walk_back(SHAPES["2p"], ways(star()), 200, np.random.default_rng(0))) > 0
    line = graph_of(train=[Statement("a", "r", "b")])
    assert len(walk_back(SHAPES["2p"], ways(line), 200, np.random.default_rng(0))) == 0


def test_a_step_after_an_intersection_may_go_back() -> None:
    pair = graph_of(train=[Statement("a", "r", "x"), Statement("b", "s", "x")])
    walks = walk_back(SHAPES["2i-1p"], ways(pair), 500, np.random.default_rng(0))
    back = (walks.steps[:, 2] ^ 1) == walks.steps[:, 0]
    assert back.any()


def test_two_edges_from_anchors_into_one_node_are_not_the_same_edge() -> None:
    one = graph_of(train=[Statement("a", "r", "b")])
    assert len(walk_back(SHAPES["2i"], ways(one), 200, np.random.default_rng(0))) == 0


def test_of_equivalent_queries_the_first_is_taken() -> None:
    graph = star()
    for name in ("2i", "2u"):
        walks = walk_back(ALL_SHAPES[name], ways(graph), 2_000, np.random.default_rng(0))
        # Into the hub lead r from a, b, c and s from d: each of the six pairs of these once.
        hub = walks.take(np.flatnonzero((walks.steps & 1 == 0).all(axis=1)))
        assert len(set(hub.keys)) == 6


def test_negated_parts_are_not_exchanged_with_others() -> None:
    walks = walk_back(ALL_SHAPES["2in"], ways(star()), 2_000, np.random.default_rng(0))
    hub = walks.take(np.flatnonzero((walks.steps & 1 == 0).all(axis=1)))
    assert len(set(hub.keys)) == 12  # each of the four edges without each of the others


def test_directions_are_shapes_of_their_own() -> None:
    walks = walk_back(SHAPES["2p"], ways(star()), 500, np.random.default_rng(0))
    tables = walks.tables()
    assert {table.shape.text for _, table in tables} == {"A>x ?>x"}
    assert tables[0][1].shape.name == "2p.01"
    assert sorted(np.concatenate([rows for rows, _ in tables])) == list(range(len(walks)))


@pytest.mark.parametrize("text", ["A>x ?>x", "A>? x>?", "A>x x>y y>x x>?", "A>x B>y x>?{y}"])
def test_only_shapes_whose_edges_lead_to_the_target_are_walked(text: str) -> None:
    with pytest.raises(UnsupportedError, match=r"every edge leads from an anchor towards the target.*found shape 'own'"):
        walk_back(Shape.parse("own", text), ways(star()), 10, np.random.default_rng(0))
