"""Speed as a share of the dense products that bound it, on WD50K with random weights: it may not fall by more than a fifth."""

import os
from pathlib import Path

import pytest
import torch

from starqe.bench.evaluating import bench_evaluate
from starqe.bench.reasoning import bench_reason
from starqe.kg import Graph, import_graph
from starqe.learn import Run, preset
from starqe.queries import SHAPES, QueryTable, sample
from starqe.reason.executor.settings import ReasonSettings
from starqe.reason.logistic import Logistic
from starqe.reason.mixture import EVEN
from starqe.reason.predictor.config import PredictorRecipe
from starqe.reason.predictor.presets import PREDICTORS
from starqe.reason.predictor.run import PredictorRun
from starqe.reason.reasoner import Reasoner

WD50K = Path(os.environ.get("STARQE_DATA", "")) / "wd50k"
SHARES = {"evaluate": 0.5, "reason": 0.3}
"""The shares that were reached with one thread, rounded down."""
FALL = 0.8

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not (WD50K / "train.txt").exists(), reason="needs WD50K in STARQE_DATA")]


@pytest.fixture(scope="module")
def graph() -> Graph:
    return import_graph(WD50K)[0]


@pytest.fixture(scope="module")
def queries(graph: Graph) -> dict[str, QueryTable]:
    return {name: sample(graph, SHAPES[name], 1_024, "test", [(0, 1)] * len(SHAPES[name].edges)) for name in ("2i", "2p")}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def run(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Run:
    made = Run.create(tmp_path_factory.mktemp("shares") / "run", preset("starqe-fast"), graph)
    from starqe.model import Encoder

    made.save_weights(Encoder(made.recipe.model, made.space, 0).state_dict())
    return made


def test_evaluation_keeps_its_share(run: Run, queries: dict[str, QueryTable]) -> None:
    rows = bench_evaluate(run, queries)
    assert min(row["share_of_bound"] for row in rows) >= FALL * SHARES["evaluate"], rows


def test_reasoning_keeps_its_share(run: Run, graph: Graph, queries: dict[str, QueryTable], tmp_path: Path) -> None:
    made = PredictorRun.create(tmp_path / "predictor", PredictorRecipe.parse(PREDICTORS["one-hop"]), graph)
    made.save_weights(made.new_predictor().state_dict())
    reasoner = Reasoner(graph, run.scorer(), made.scorer(), Logistic((1.0, 0.3, -0.2, 0.2), 0.0), EVEN, ReasonSettings())
    rows = bench_reason(reasoner, {name: table.take(range(128)) for name, table in queries.items()}, [8])
    assert min(row["share_of_bound"] for row in rows) >= FALL * SHARES["reason"], rows
