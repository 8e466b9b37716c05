"""All queries of random graphs by brute force, and the numbers of queries in the paper."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from starqe.kg import SPLITS, Graph
from starqe.queries import SHAPES, QuerySettings, easy_and_hard, generate, load_table
from starqe.queries.query_set import table_path
from tests.queries import brute_force
from tests.queries.strategies import graphs

QUALIFIERS = st.sampled_from(["0", "1", "2", "0-1", "0-2"])


@st.composite
def cases(draw, max_edges=3):
    """Draws a graph, a shape, settings and a split."""
    shape = draw(brute_force.shapes(max_edges))
    edge_by_edge = st.lists(QUALIFIERS, min_size=len(shape.edges), max_size=len(shape.edges)).map(",".join)
    chosen = QuerySettings(
        qualifiers=draw(QUALIFIERS | edge_by_edge),
        hub_threshold=draw(st.sampled_from([None, 3, 6])),
        solutions_below=draw(st.sampled_from([{}, {"random": 2}, {"random": 5}])),
    )
    return draw(graphs()), shape, chosen, draw(st.sampled_from(SPLITS))


@pytest.mark.full
@given(cases())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_brute_force_finds_the_same_queries_and_answers_each_query_once(tmp_path_factory, case):
    graph, shape, chosen, split = case
    folder = tmp_path_factory.mktemp("queries")
    generate(graph, folder, [shape], chosen, [split], threads=1)
    found = brute_force.read(folder, split, shape)
    assert len({query for query, _ in found}) == len(found), "one query stands in two rows, up to the names of variables"
    cap = chosen.solutions_below.get("random")
    assert dict(found) == brute_force.generated(graph, shape, chosen.counts_for(shape), split, chosen.hub_threshold, cap)


@pytest.mark.full
@given(graphs(), st.sampled_from(["1p", "2p", "3p"]), st.sampled_from(["valid", "test"]), st.sampled_from(["0", "1", "0-2"]))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_listed_answers_are_exact_and_those_that_need_a_new_fact_are_all_listed(tmp_path_factory, graph, shape, split, qualifiers):
    folder = tmp_path_factory.mktemp("queries")
    generate(graph, folder, [SHAPES[shape]], QuerySettings(qualifiers=qualifiers, solutions_below={}), [split], threads=1)
    table = load_table(table_path(folder, split, shape))
    easy, hard = easy_and_hard(graph, table, None, split)
    for row in range(len(table)):
        old, new = (set(answers[row].tolist()) for answers in (easy, hard))
        assert new <= set(table.answers[row].tolist()) <= old | new


COUNTS = {
    "train": (24_819, 313_088, 5_950_990, 48_513, 318_735, 306_022, 1_088_539),
    "valid": (4_100, 100_706, 2_968_315, 15_648, 169_195, 169_438, 569_957),
    "test": (7_716, 202_045, 6_433_476, 38_207, 547_272, 445_007, 1_267_452),
}
"""The paper's table of counts, shapes in the order of SHAPES."""


def counted(graph: Graph, folder: Path, shapes: list[str]) -> dict[tuple[str, str], int]:
    found = {}
    generate(graph, folder, [SHAPES[name] for name in shapes], progress=lambda split, shape, count: found.update({(split, shape): count}))
    return found


def expected(shapes: list[str]) -> dict[tuple[str, str], int]:
    return {(split, shape): dict(zip(SHAPES, counts, strict=True))[shape] for split, counts in COUNTS.items() for shape in shapes}


@pytest.mark.full
def test_wd50k_has_as_many_queries_of_the_small_shapes_as_in_the_paper(wd50k, tmp_path):
    assert counted(wd50k, tmp_path, ["1p", "2p", "2i"]) == expected(["1p", "2p", "2i"])


@pytest.mark.slow
def test_wd50k_has_as_many_queries_as_in_the_paper_in_all_21_tables(wd50k, tmp_path):
    assert counted(wd50k, tmp_path, list(SHAPES)) == expected(list(SHAPES))
