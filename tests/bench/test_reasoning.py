"""The measure of reasoning: a row for every shape and beam, and a picture of them."""

from pathlib import Path

import pytest

from starqe.bench.measured import machine
from starqe.bench.reasoning import bench_reason, plot_beams
from starqe.kg import embedded_graph
from starqe.learn import Run
from starqe.measure.evaluate import Measure, evaluate
from starqe.queries import SHAPES, QueryTable, sample
from starqe.reason.executor import messages
from starqe.reason.reasoner import Reasoner


@pytest.fixture(scope="module")
def reasoner(askable_run: Path) -> Reasoner:
    return Reasoner.open(Run.open(askable_run))


@pytest.fixture(scope="module")
def queries() -> dict[str, QueryTable]:
    graph = embedded_graph()
    return {name: sample(graph, SHAPES[name], 12, "test", [(0, 1)] * len(SHAPES[name].edges)) for name in ("2p", "2i")}


def test_every_beam_is_measured_where_there_are_inner_variables(reasoner: Reasoner, queries: dict[str, QueryTable]) -> None:
    rows = bench_reason(reasoner, queries, [1, 8], batch=5)
    assert [(row["shape"], row["beam"], row["queries"]) for row in rows] == [("2p", 1, 12), ("2p", 8, 12), ("2i", 1, 12)]
    assert all(row["queries_per_second"] > 0 and row["peak_mb"] >= row["growth_mb"] >= 0 for row in rows)
    assert all(machine().items() <= row.items() for row in rows)


def test_stopping_makes_fewer_predictions_and_is_compared_with_every_candidate(
    reasoner: Reasoner, queries: dict[str, QueryTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "GROUP", 4 * len(reasoner.graph.entities))  # four candidates first, as on a large graph
    every, stopping = bench_reason(reasoner, {"2p": queries["2p"]}, [16], every=True)
    assert (every["every"], stopping["every"]) == (True, False)
    assert 1 <= stopping["predictions"] < every["predictions"] <= 17
    assert 0 <= stopping["exact_share"] <= 1
    assert 0 <= stopping["mixture_exact_share"] <= every["mixture_exact_share"] <= 1
    assert stopping["cpu_share"] > 0
    assert all(row["share_of_bound"] >= 0 and row["product_gflops"] > 0 for row in (every, stopping))


def test_the_quality_is_that_of_the_executor_which_knows_train_only(reasoner: Reasoner, queries: dict[str, QueryTable]) -> None:
    (row,) = bench_reason(reasoner, {"2p": queries["2p"]}, [reasoner.settings.beam])
    settings = Measure(protocol="strict", replicates=0)
    found = evaluate(reasoner.executor(["train"]), {"2p": queries["2p"]}, len(reasoner.graph.entities), settings, graph=reasoner.graph)
    (mrr,) = (one.ours for one in found if (one.shape, one.metric, one.average) == ("2p", "MRR", "macro"))
    assert round(mrr, 2) == row["mrr"]


def test_the_plot_is_a_picture(tmp_path: Path) -> None:
    rows = [{"shape": "2p", "beam": beam, "queries_per_second": 100 / beam, "mrr": 20 + beam} for beam in (1, 2, 4)]
    plot_beams([*rows, {"shape": "2i", "beam": 1, "queries_per_second": 90, "mrr": 50}], tmp_path / "beams.png")
    assert (tmp_path / "beams.png").read_bytes().startswith(b"\x89PNG")
