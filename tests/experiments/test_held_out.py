from pathlib import Path

import numpy as np
import pytest
import torch

from starqe.experiments import held_out_table
from starqe.kg import Statement, embedded_graph, graph_of
from starqe.learn import QueryLesson, Run, Trainer, preset
from starqe.learn.training_queries import one_hop_tables
from starqe.measure.baseline import FrequencyScorer
from starqe.measure.evaluate import Measure, evaluate
from starqe.queries import QueryTable, generate, load_queries

COUNT = 200


def test_frequency_counts_tails_of_the_relation_in_train_only() -> None:
    graph = graph_of(train=[Statement("a", "r", "x"), Statement("b", "r", "x"), Statement("a", "s", "y")], test=[Statement("b", "r", "y")])
    table = held_out_table(graph, 1, seed=0)
    scores = FrequencyScorer(graph).scores(table, np.arange(1), torch.empty(1, len(graph.entities)))
    assert dict(zip(graph.entities, scores[0].tolist(), strict=True)) == {"a": 0, "b": 0, "x": 2, "y": 0}


def test_a_held_out_fact_is_asked_with_all_its_qualifiers() -> None:
    graph = graph_of(train=[Statement("a", "r", "x", (("q", "v"), ("q", "w")))], test=[Statement("x", "r", "a", (("q", "v"), ("q", "w")))])
    table = held_out_table(graph, 5, seed=0)
    assert len(table) == 1
    assert table.pairs_of(0, 0) == [(graph.relations.id("q"), graph.entities.id("v")), (graph.relations.id("q"), graph.entities.id("w"))]
    assert table.answers[0].tolist() == [graph.entities.id("a")]


SHORT = ("train.epochs=8", "train.queries_per_shape=600", "train.learning_rate=0.004")


@pytest.mark.parametrize(
    ("seeds", "settings", "gain"), [pytest.param(1, SHORT, 3, marks=pytest.mark.full), pytest.param(5, (), 5, marks=pytest.mark.slow)]
)
def test_held_out_facts_of_the_embedded_graph_are_predicted_better_than_by_frequency(
    tmp_path: Path, seeds: int, settings: tuple[str, ...], gain: float
) -> None:
    graph = embedded_graph()
    generate(graph, tmp_path / "queries", splits=("train", "valid"))
    queries, validation = load_queries(tmp_path / "queries", "train"), load_queries(tmp_path / "queries", "valid", limit=200)
    ours, frequency = [], []
    for seed in range(seeds):
        table = held_out_table(graph, COUNT, seed)
        run = Run.create(tmp_path / str(seed), preset("demo").with_settings([f"seed={seed}", *settings]), graph)
        lesson = QueryLesson(run, queries, validation)
        assert not _facts(lesson.queries.tables) & _facts([table])
        Trainer(run, lesson).train()
        for scorer, found in ((run.scorer(), ours), (FrequencyScorer(graph), frequency)):
            rows = evaluate(scorer, {"1p": table}, len(graph.entities), Measure(protocol="strict", replicates=0), graph=graph)
            found += [row.ours for row in rows if (row.metric, row.shape, row.average) == ("MRR", "1p", "macro")]
    print(f"MRR of {COUNT} held-out facts, {seeds} seeds: starqe {np.round(ours, 1)}, frequency {np.round(frequency, 1)}")
    assert np.mean(ours) > np.mean(frequency) + gain


def _facts(tables: list[QueryTable]) -> set[tuple[int, int, int]]:
    """Returns the facts that queries of one edge have as a whole: head, relation and tail."""
    found = set()
    for table in (table for table in tables if len(table.shape.edges) == 1):
        inverse = table.shape.edges[0][0] == "?"
        for row in range(len(table)):
            anchor, relation = int(table.anchors[row, 0]), int(table.relations[row, 0])
            found |= {(answer, relation, anchor) if inverse else (anchor, relation, answer) for answer in table.answers[row].tolist()}
    return found


def test_the_one_hop_queries_hold_no_held_out_fact_and_every_training_fact() -> None:
    graph = embedded_graph()
    rows = graph.known(["train"]).rows
    train = set(zip(graph.head[rows].tolist(), graph.relation[rows].tolist(), graph.tail[rows].tolist(), strict=True))
    learned = _facts(one_hop_tables(graph, qualified=True, seed=0))
    assert not learned & _facts([held_out_table(graph, 240, seed=0)])
    assert learned == train
