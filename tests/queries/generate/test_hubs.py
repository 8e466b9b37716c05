from math import comb

import pytest

from starqe.kg import Statement, graph_of
from starqe.queries.generate.hubs import hub_stats, hubs, in_degree

GRAPH = graph_of(
    train=[
        Statement("a", "r", "h"),
        Statement("b", "r", "h", (("q", "v"),)),
        Statement("b", "r", "h", (("q", "v"), ("p", "v"))),  # the same triple; p v is new, q v is not
        Statement("b", "s", "h"),
        Statement("c", "r", "d", (("q", "v"), ("q", "w"))),
    ],
    valid=[Statement("a", "r", "h"), Statement("h", "r", "v")],
)


def test_in_degree_counts_each_triple_and_each_annotation_once_over_all_splits():
    degree = dict(zip(GRAPH.entities, in_degree(GRAPH).tolist(), strict=True))
    # h: a-r, b-r, b-s. v: the triple h-r-v, the annotations q and p of b-r-h, and q of c-r-d. w: q of c-r-d.
    assert degree == {"a": 0, "b": 0, "c": 0, "d": 1, "h": 3, "v": 4, "w": 1}


def test_a_hub_has_at_least_the_threshold():
    assert [GRAPH.entities.identifier(hub) for hub in hubs(GRAPH, 3)] == ["h", "v"]
    assert [GRAPH.entities.identifier(hub) for hub in hubs(GRAPH, 4)] == ["v"]
    assert len(hubs(GRAPH, 5)) == 0


def test_a_node_of_in_degree_d_answers_d_over_3_intersections():
    found = hub_stats(GRAPH, 4)
    assert found["3i_queries_with_hubs"] == comb(4, 3) + comb(3, 3) == 5
    assert (found["hubs"], found["largest_in_degree"], found["3i_queries_at_the_largest"]) == (1, 4, 4)
    assert (found["share_of_the_largest"], found["share_of_hubs"]) == (80.0, 80.0)
    assert (found["hits_at_10_of_constant_answer"], found["hits_at_10_of_constant_answer_without_hubs"]) == (100.0, 100.0)


@pytest.mark.full
def test_the_hubs_of_wd50k_are_those_of_the_paper(wd50k):
    found = hub_stats(wd50k)
    assert found["hubs"] == 623
    assert found["largest_in_degree"] == 4_424
    assert wd50k.entities.identifier(int(in_degree(wd50k).argmax())) == "Q30"
    assert found["3i_queries_with_hubs"] == 38_011_148_464
    assert found["3i_queries_at_the_largest"] == comb(4_424, 3) == 14_421_138_424
    assert round(found["share_of_the_largest"]) == 38
    assert round(found["hits_at_10_of_constant_answer"]) == 93
    assert round(found["hits_at_10_of_constant_answer_without_hubs"]) == 3
