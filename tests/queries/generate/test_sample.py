from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starqe.errors import UnsupportedError
from starqe.kg import Graph, Statement, embedded_graph, graph_of
from starqe.queries import SHAPES, QuerySettings, Shape, answer, load_queries, sample, sample_queries, turned
from starqe.queries.layout import query_of_row
from tests.kg.strategies import graphs


@pytest.fixture(scope="module")
def science() -> Graph:
    return embedded_graph()


def test_a_turned_shape_says_in_its_name_which_edges_are_reversed() -> None:
    assert turned(SHAPES["2p"], [False, True]) == Shape.parse("2p.01", "A>x ?>x")
    assert turned(SHAPES["2p"], [False, False]) == SHAPES["2p"]


def test_the_only_query_of_a_tiny_graph_is_found_with_all_its_answers() -> None:
    graph = graph_of(train=[Statement("a", "r", "b", (("q", "v"),)), Statement("b", "s", "c"), Statement("b", "s", "d")])
    table = sample(graph, SHAPES["2p"], 10, "train", [(1, 1), (0, 0)])
    assert len(table) == 1
    query = query_of_row(table, 0, graph)
    assert str(query) == "?target : ∃x . r{q: v}(a, ?x) ∧ s(?x, ?target)"
    assert [graph.entities.identifier(entity) for entity in table.answers[0]] == ["c", "d"]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("counts", [(0, 0), (1, 1), (2, 2), (0, 2)])
def test_every_query_has_the_qualifiers_that_were_asked_for_and_exactly_its_answers(
    science: Graph, name: str, counts: tuple[int, int]
) -> None:
    shape = turned(SHAPES[name], [i % 2 == 0 for i in range(len(SHAPES[name].edges))])
    table = sample(science, shape, 30, "test", [counts] * len(shape.edges))
    assert len(table) == 30
    numbers = table.pairs.counts
    assert numbers.min() >= counts[0]
    assert numbers.max() == counts[1]
    known, older = science.known(["train", "valid", "test"]), science.known(["train", "valid"])
    needs_new = 0
    for row in range(len(table)):
        query = query_of_row(table, row, science)
        assert answer(known, query).tolist() == table.answers[row].tolist()
        needs_new += len(answer(older, query)) < len(table.answers[row])
    assert needs_new > 0


def test_queries_are_distinct_and_the_same_seed_draws_the_same(science: Graph) -> None:
    tables = [sample(science, SHAPES["2i"], 200, "train", [(0, 2)] * 2, seed) for seed in (1, 1, 2)]
    assert [tables[0].anchors.tolist() == other.anchors.tolist() for other in tables[1:]] == [True, False]
    queries = {query_of_row(tables[0], row, science) for row in range(200)}
    assert len(queries) > 190  # of 200 rows; the two edges of a 2i may stand in either order


def test_training_queries_use_training_statements_only(science: Graph) -> None:
    table = sample(science, SHAPES["1p"], 300, "train", [(0, 2)])
    known = science.known(["train"])
    assert len(table) == 300
    for row in range(len(table)):
        assert answer(known, query_of_row(table, row, science)).tolist() == table.answers[row].tolist() != []


def test_a_circle_is_refused_by_name(science: Graph) -> None:
    with pytest.raises(UnsupportedError, match=r"shape 'triangle' \('A>x x>\? A>\?'\) has a cycle"):
        sample(science, Shape.parse("triangle", "A>x x>? A>?"), 1, "train", [(0, 0)] * 3)


@given(graph=graphs(), name=st.sampled_from(sorted(SHAPES)), most=st.integers(0, 2))
@settings(max_examples=60)
def test_on_any_graph_what_is_drawn_has_an_answer(graph: Graph, name: str, most: int) -> None:
    table = sample(graph, SHAPES[name], 5, "test", [(0, most)] * len(SHAPES[name].edges))
    for row in range(len(table)):
        found = answer(graph.known(["train", "valid", "test"]), query_of_row(table, row, graph)).tolist()
        assert found == table.answers[row].tolist() != []


def test_a_sampled_set_is_a_query_set(science: Graph, tmp_path: Path) -> None:
    sample_queries(science, tmp_path / "drawn", [SHAPES["2p"], SHAPES["3i"]], "valid", QuerySettings(limit=7, qualifiers="0-2"), turn=True)
    tables = load_queries(tmp_path / "drawn", "valid")
    assert {name: (len(table), table.shape.text) for name, table in tables.items()} == {
        "2p.11": (7, "x>A ?>x"),
        "3i.111": (7, "?>A ?>B ?>C"),
    }
