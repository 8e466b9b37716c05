import json
from pathlib import Path

import numpy as np
import pytest

from starqe.errors import InputError
from starqe.experiments import Settings, open_work, reproduce
from starqe.experiments.reasoning.betae_table import MEANS, NEGATIVE, PUBLISHED, merged_ranks, type_grid
from starqe.kg import Graph, embedded_graph, save_graph
from starqe.measure.rows import Row
from starqe.queries import ALL_SHAPES, TYPES
from tests.tiny_run import tiny_run


@pytest.fixture(scope="module")
def graph() -> Graph:
    return embedded_graph().entity_part


def test_the_types_are_the_fourteen_of_the_literature() -> None:
    assert len(TYPES) == 14
    assert all(ALL_SHAPES[TYPES[name]].negated for name in NEGATIVE)
    assert ALL_SHAPES[TYPES["ip"]].text == "A>x B>x x>?"
    assert ALL_SHAPES[TYPES["pi"]].text == "A>x x>? B>?"


def test_published_means_are_those_of_the_types() -> None:
    """The means that the papers print, worked out from their columns."""
    printed = {"QTO": (33.5, 15.5), "GNN-QE": (26.8, 10.2), "BetaE": (20.9, 5.5)}
    found = {name: tuple(np.mean([mrr[of] for of in MEANS[mean]]) for mean in MEANS) for name, mrr in PUBLISHED.items()}
    assert found == {name: pytest.approx(means, abs=0.051) for name, means in printed.items()}


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
    assert lines["QTO, published (not the same files)"][-2:] == ("33.5", "15.5")


@pytest.mark.full
def test_a_graph_and_a_calibrated_run_are_enough(graph: Graph, tmp_path: Path) -> None:
    save_graph(graph, tmp_path / "graph")
    with pytest.raises(InputError, match="give a graph and its queries together"):
        open_work(tmp_path / "work", tmp_path / "graph", asks_own=True)
    run = tiny_run(tmp_path / "run", graph, ["1p", "2p"], epochs=1)
    told: list[str] = []
    settings = Settings(limit=3, run=run)
    report, _ = reproduce("betae", tmp_path / "work", tmp_path / "graph", settings=settings, tell=told.append)
    lines = dict(report.grids[0].lines)
    assert all(0 < float(cell) <= 100 for cell in lines["executor"])
    assert any("full inference" in grid.title for grid in report.grids)
    assert sorted(told) == sorted(f"betae, seed 0: 3 queries of {name}" for name in TYPES)
    # Of each query the mean over its hard answers, then the mean over queries.
    measured = json.loads(next((tmp_path / "work" / "betae" / "measured").glob("*-3-2p.json")).read_text())["ranks"]["strict"]
    reciprocal, query = 1 / np.array(measured["rank"]["executor"]), np.array(measured["query"])
    by_hand = np.mean([reciprocal[query == one].mean() for one in set(query)])
    assert float(lines["executor"][1]) == pytest.approx(100 * by_hand, abs=0.051)
    positive = slice(0, len(MEANS["positive"]))
    assert lines["mixture, known last"][positive] == lines["mixture"][positive]  # there all known answers are filtered
    for name in NEGATIVE:
        (file,) = (tmp_path / "work" / "betae" / "measured").glob(f"*-3-{name}.json")
        rank = json.loads(file.read_text())["ranks"]["strict"]["rank"]
        assert (np.array(rank["mixture, known last"]) <= np.array(rank["mixture"])).all()
    again, _ = reproduce("betae", tmp_path / "work", tmp_path / "graph", settings=settings, tell=told.append)
    assert (again.rows, len(told)) == (report.rows, len(TYPES))
