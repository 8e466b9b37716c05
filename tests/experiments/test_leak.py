"""What may be known: train only. Shuffled tails of valid and test statements change no score of any evaluated query."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from starqe.experiments import FrequencyScorer
from starqe.kg import Graph, embedded_graph
from starqe.kg.draft import canonical
from starqe.learn import QueryLesson, Run, Trainer, preset
from starqe.measure.evaluate import Scorer
from starqe.queries import SHAPES, QueryTable, generate, load_queries
from starqe.seed import generator

TINY = ["model.width=16", "model.heads=2", "train.queries_per_shape=100", "train.one_hop_per_direction=100", "train.epochs=1"]


def shuffled(graph: Graph) -> Graph:
    """Gives the graph with the tails of its valid and test statements in another order."""
    tail = graph.tail.copy()
    held_out = np.flatnonzero(graph.split > 0)
    tail[held_out] = tail[generator(0, "shuffle").permutation(held_out)]
    columns = graph.head, graph.relation, tail, graph.split, graph.offsets, graph.pair_relation, graph.pair_value
    made, _ = canonical(graph.entities, graph.relations, *columns)
    assert made.fingerprint != graph.fingerprint
    assert made.vocabulary_fingerprint == graph.vocabulary_fingerprint
    return made


@pytest.fixture(scope="module")
def graphs() -> tuple[Graph, Graph]:
    graph = embedded_graph()
    return graph, shuffled(graph)


@pytest.fixture(scope="module")
def asked(graphs: tuple[Graph, Graph], tmp_path_factory: pytest.TempPathFactory) -> dict[str, QueryTable]:
    folder = tmp_path_factory.mktemp("test") / "queries"
    generate(graphs[0], folder, splits=["test"])
    return load_queries(folder, "test", limit=40)


def trained(graph: Graph, folder: Path) -> Scorer:
    generate(graph, folder / "queries", splits=["train"])
    run = Run.create(folder / "run", preset("starqe-ask").with_settings([*TINY, "train.varied_per_shape=200"]), graph)
    Trainer(run, QueryLesson(run, load_queries(folder / "queries", "train"))).train()
    return run.scorer()


def scores(scorer: Scorer, tables: dict[str, QueryTable], entities: int) -> dict[str, torch.Tensor]:
    return {name: scorer.scores(table, np.arange(len(table)), torch.empty(len(table), entities)).clone() for name, table in tables.items()}


SCORERS: dict[str, Callable[[Graph, Path], Scorer]] = {
    "encoder, trained from the start": trained,
    "frequency": lambda graph, _: FrequencyScorer(graph),
}


@pytest.mark.parametrize("name", SCORERS)
def test_facts_of_valid_and_test_change_no_score(
    name: str, graphs: tuple[Graph, Graph], asked: dict[str, QueryTable], tmp_path: Path
) -> None:
    assert asked.keys() == SHAPES.keys()
    own, other = (scores(SCORERS[name](graph, tmp_path / str(number)), asked, len(graph.entities)) for number, graph in enumerate(graphs))
    for shape in SHAPES:
        assert torch.equal(own[shape], other[shape]), shape


def test_a_scorer_that_looks_at_test_is_caught(graphs: tuple[Graph, Graph], asked: dict[str, QueryTable]) -> None:
    own, other = (scores(FrequencyScorer(graph, ("train", "test")), asked, len(graph.entities)) for graph in graphs)
    assert any(not torch.equal(own[shape], other[shape]) for shape in SHAPES)
