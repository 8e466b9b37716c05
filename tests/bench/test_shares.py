"""The share of the dense products in the time of training, evaluating and reasoning: other work must not grow beside them.

Shares are ratios of CPU time within one run, and the best of some repeats counts, so that a busy machine changes them little.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from starqe.bench.evaluating import bench_evaluate
from starqe.bench.reasoning import bench_reason
from starqe.bench.training import bench_steps
from starqe.kg import Graph, Statement, graph_of
from starqe.learn import Run, preset
from starqe.model import Encoder
from starqe.queries import SHAPES, QueryTable, sample
from starqe.reason import ReasonSettings, recipe_of
from starqe.reason.logistic import Logistic
from starqe.reason.mixture import EVEN
from starqe.reason.predictor.run import PredictorRun
from starqe.reason.reasoner import Reasoner

ENTITIES, STATEMENTS, TEST, RELATIONS, QUERIES = 20_000, 60_000, 5_000, 20, 256
REPEATS = 3
FALL = 0.8
"""The part of a share that has to remain."""
EVALUATE = {"1p": 0.39, "2p": 0.39}
REASON = {"1p": 0.38, "2p": 0.35}
TRAIN = {"softmax": 0.6, "binary": 0.57}
"""The shares of this test when it was last adjusted, one thread."""


def best_share(measure: Callable[[], dict[str, float]]) -> dict[str, float]:
    """Returns the largest share of each shape in some repeats."""
    found = [measure() for _ in range(REPEATS)]
    return {shape: max(shares[shape] for shares in found) for shape in found[0]}


@pytest.fixture(scope="module")
def graph() -> Graph:
    draw = np.random.default_rng(0)
    ends, relations = draw.integers(0, ENTITIES, (STATEMENTS, 2)), draw.integers(0, RELATIONS, STATEMENTS)
    statements = [Statement(f"e{head}", f"r{relation}", f"e{tail}") for (head, tail), relation in zip(ends, relations, strict=True)]
    return graph_of(train=statements[TEST:], test=statements[:TEST])


@pytest.fixture(scope="module")
def queries(graph: Graph) -> dict[str, QueryTable]:
    return {name: sample(graph, SHAPES[name], QUERIES, "test", [(0, 0)] * len(SHAPES[name].edges)) for name in EVALUATE}


@pytest.fixture(scope="module")
def reasoner(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Reasoner]:
    folder: Path = tmp_path_factory.mktemp("shares")
    run = Run.create(folder / "encoder", preset("demo").with_settings(["model.width=192"]), graph)
    run.save_weights(Encoder(run.recipe.model, run.space, 0).state_dict())
    predictor = PredictorRun.create(folder / "predictor", recipe_of("one-hop").with_settings(["model.width=192"]), graph)
    predictor.save_weights(predictor.new_predictor().state_dict())
    calibration = Logistic((0.95, 0.33, -0.22, 0.19), -0.08)
    return run, Reasoner(graph, run.scorer(), predictor.scorer(), calibration, EVEN, ReasonSettings())


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.slow
def test_training_is_not_slower_beside_its_products(graph: Graph) -> None:
    tables = {name: sample(graph, SHAPES[name], 5_000, "train", [(0, 0)] * len(SHAPES[name].edges)) for name in EVALUATE}
    found = best_share(lambda: {loss: bench_steps(graph, tables, "dot", loss, 8)["cpu_share"] for loss in TRAIN})
    assert all(found[loss] >= FALL * share for loss, share in TRAIN.items()), found


@pytest.mark.slow
def test_evaluation_is_not_slower_beside_its_products(reasoner: tuple[Run, Reasoner], queries: dict[str, QueryTable]) -> None:
    found = best_share(lambda: {row["shape"]: row["cpu_share"] for row in bench_evaluate(reasoner[0], queries)})
    assert all(found[shape] >= FALL * share for shape, share in EVALUATE.items()), found


@pytest.mark.slow
def test_reasoning_is_not_slower_beside_its_products(reasoner: tuple[Run, Reasoner], queries: dict[str, QueryTable]) -> None:
    tables = {shape: queries[shape] for shape in REASON}
    found = best_share(lambda: {row["shape"]: row["cpu_share"] for row in bench_reason(reasoner[1], tables, [8])})
    assert all(found[shape] >= FALL * share for shape, share in REASON.items()), found
