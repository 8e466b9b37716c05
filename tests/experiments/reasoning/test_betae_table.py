from itertools import product
from pathlib import Path

import numpy as np
import pytest

from starqe.errors import InputError
from starqe.experiments import Settings, open_work, reproduce
from starqe.experiments.reasoning.betae_table import MEANS, NEGATIVE, PUBLISHED, TYPES, merged_ranks, type_grid, type_queries
from starqe.kg import Graph, embedded_graph, save_graph
from starqe.measure.rows import Row
from starqe.queries import ALL_SHAPES, easy_and_hard
from tests.tiny_run import tiny_run


@pytest.fixture(scope="module")
def graph() -> Graph:
    return embedded_graph().entity_part


@pytest.mark.parametrize("name", TYPES)
def test_every_query_of_a_type_is_plain_and_has_an_answer_that_needs_a_test_edge(graph: Graph, name: str) -> None:
    tables = type_queries(graph, name, 16)
    assert sum(map(len, tables)) <= 16
    assert len(tables) > 1  # in several directions
    for table in tables:
        assert len(table.pairs.items) == 0
        assert table.answers.counts.max() <= 100
        assert (easy_and_hard(graph, table, None, "test")[1].counts > 0).all()


def test_directions_get_equally_many_queries(graph: Graph) -> None:
    tables = type_queries(graph, "2i", 10)
    assert sorted((len(table) for table in tables), reverse=True) == [3, 3, 2, 2]
    assert {table.shape.edges for table in tables} == {
        tuple((end, "?") if not turn else ("?", end) for end, turn in zip("AB", turns, strict=True))
        for turns in product((False, True), repeat=2)
    }


def test_the_types_are_the_fourteen_of_the_literature() -> None:
    assert len(TYPES) == 14
    assert all(ALL_SHAPES[TYPES[name]].negated for name in NEGATIVE)
    assert ALL_SHAPES[TYPES["ip"]].text == "A>x B>x x>?"
    assert ALL_SHAPES[TYPES["pi"]].text == "A>x x>? B>?"


def test_the_published_mean_is_that_of_its_types() -> None:
    qto = PUBLISHED["QTO"]
    assert np.mean([qto[name] for name in MEANS["positive"]]) == pytest.approx(qto["positive"], abs=0.05)


def test_measurements_of_several_tables_are_joined() -> None:
    def part(queries: int, query: list[int], rank: list[float]) -> dict[str, object]:
        ranks = dict.fromkeys(("encoder", "executor", "mixture"), rank)
        one = {"query": query, "answer": query, "candidates": query, "reduction": ["" for _ in query], "rank": ranks, "dropped": 1}
        return {"queries": queries, "ranks": {"paper": one, "strict": one}}

    found = merged_ranks([part(3, [0, 2], [1.0, 2.0]), part(2, [1], [4.0])])
    assert found["queries"] == 5
    assert found["ranks"]["strict"]["query"] == [0, 2, 4]
    assert found["ranks"]["strict"]["rank"]["executor"] == [1.0, 2.0, 4.0]
    assert found["ranks"]["strict"]["dropped"] == 2


def test_a_mean_needs_all_of_its_types() -> None:
    about = {"metric": "MRR", "average": "macro", "protocol": "strict", "n": 1, "seed": 0}
    rows = [Row(name="encoder", shape=name, ours=10.0 + place, **about) for place, name in enumerate(NEGATIVE)]
    lines = dict(type_grid(rows).lines)
    assert lines["encoder"][-2:] == ("–", "12.0")
    assert lines["QTO, other queries"][-2:] == ("33.5", "–")


@pytest.mark.full
def test_a_graph_and_a_calibrated_run_are_enough(graph: Graph, tmp_path: Path) -> None:
    save_graph(graph, tmp_path / "graph")
    with pytest.raises(InputError, match="give a graph and its queries together"):
        open_work(tmp_path / "work", tmp_path / "graph", asks_own=True)
    run = tiny_run(tmp_path / "run", graph, ["1p", "2p"], epochs=1)
    report, _ = reproduce("betae", tmp_path / "work", tmp_path / "graph", settings=Settings(limit=2, run=run))
    lines = dict(report.grids[0].lines)
    assert all(0 < float(cell) <= 100 for cell in lines["executor"])
    assert any("full inference" in grid.title for grid in report.grids)
