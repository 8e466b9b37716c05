import numpy as np
import pytest

from starqe.kg import Statement, graph_of
from starqe.learn import TrainConfig
from starqe.learn.training_queries import TrainingQueries, one_hop_tables, varied_tables
from starqe.queries import SHAPES
from starqe.queries.layout import query_of_row
from starqe.queries.shape import INVERSE


@pytest.fixture
def tiny():
    return graph_of(
        train=[Statement("a", "r", "x"), Statement("a", "r", "y", (("q", "v"),)), Statement("b", "r", "y", (("q", "v"), ("q", "w")))],
        test=[Statement("a", "r", "b")],
    )


def listed(table, graph) -> dict[str, list[str]]:
    return {
        str(query_of_row(table, row, graph)): [graph.entities.identifier(answer) for answer in table.answers[row]]
        for row in range(len(table))
    }


def test_plain_one_hop_queries_are_all_of_train_in_both_directions(tiny) -> None:
    forward, inverse = one_hop_tables(tiny, qualified=False, seed=0)
    assert forward.shape == SHAPES["1p"]
    assert listed(forward, tiny) == {"?target : r(a, ?target)": ["x", "y"], "?target : r(b, ?target)": ["y"]}
    assert inverse.shape == INVERSE
    assert listed(inverse, tiny) == {"?target : r(?target, x)": ["a"], "?target : r(?target, y)": ["a", "b"]}


def test_qualified_one_hop_queries_have_every_answer_that_has_their_pairs(tiny) -> None:
    _, forward, _, inverse = one_hop_tables(tiny, qualified=True, seed=0)
    assert len(forward) == len(inverse) == 2
    for row in range(2):
        pairs = {tiny.entities.identifier(value) for _, value in inverse.pairs_of(row, 0)}
        heads = [tiny.entities.identifier(answer) for answer in inverse.answers[row]]
        assert heads == (["a", "b"] if pairs == {"v"} else ["b"])


def test_an_epoch_has_each_query_once_and_at_most_the_wanted_number(graph, queries) -> None:
    config = TrainConfig(queries_per_shape=50, batch=16, one_hop="none")
    examples = TrainingQueries(graph, queries, config, seed=3)
    drawn = [(id(table), int(row)) for parts in examples.batches(0) for table, rows in parts for row in rows]
    assert len(drawn) == len(set(drawn)) == examples.per_epoch == sum(min(50, len(table)) for table in queries.values())
    assert len(list(examples.batches(0))) == examples.steps_per_epoch


@pytest.mark.parametrize(("batch", "sizes"), [(16, [16, 16]), (20, [20, 20]), (100, [40])])
def test_a_last_batch_that_is_not_full_can_be_left_out(graph, queries, batch: int, sizes: list[int]) -> None:
    config = TrainConfig(queries_per_shape=40, batch=batch, one_hop="none", drop_last=True)
    examples = TrainingQueries(graph, {"1p": queries["1p"]}, config, seed=3)
    assert [sum(len(rows) for _, rows in parts) for parts in examples.batches(0)] == sizes  # a batch that is all of an epoch stays
    assert (examples.steps_per_epoch, examples.per_epoch) == (len(sizes), sum(sizes))


def test_epochs_differ_and_each_can_be_entered_in_the_middle(graph, queries) -> None:
    examples = TrainingQueries(graph, queries, TrainConfig(queries_per_shape=50, batch=16), seed=3)

    def rows(batches) -> list[list[int]]:
        return [[int(row) for _, part in parts for row in part] for parts in batches]

    whole = rows(examples.batches(1))
    assert rows(examples.batches(1, start=4)) == whole[4:]
    assert rows(examples.batches(2)) != whole


def test_varied_queries_come_in_every_direction_with_none_to_two_pairs(graph) -> None:
    tables = varied_tables(graph, SHAPES["2p"], 80, seed=0)
    assert {table.shape.text for table in tables} == {"A>x x>?", "x>A x>?", "A>x ?>x", "x>A ?>x"}
    numbers = np.concatenate([table.pairs.counts for table in tables])
    assert set(numbers.tolist()) <= {0, 1, 2}
    assert {0, 1} <= set(numbers.tolist())


def test_answers_that_are_found_lazily_are_the_same(graph, queries) -> None:
    """With ``redraw`` no table keeps answers, and every batch has them; without varied queries, the epochs are the same."""
    at_once, lazily = (
        TrainingQueries(graph, queries, TrainConfig(one_hop="varied", one_hop_per_direction=60, queries_per_shape=20, redraw=redraw), 0)
        for redraw in (False, True)
    )
    auxiliary = [table for table in lazily.tables if len(table.shape.edges) == 1 and table not in queries.values()]
    assert sum(len(table) for table in auxiliary) > 60
    assert not any(len(table.answers.items) for table in auxiliary)
    for one, other in zip(at_once.batches(1), lazily.batches(1), strict=True):
        assert [answers_of(part) for part in one] == [answers_of(part) for part in other]


def answers_of(part) -> list[tuple[list[int], list[int], list[int]]]:
    table, rows = part
    assert table.answers.counts[rows].all()
    return [(table.anchors[row].tolist(), table.relations[row].tolist(), table.answers[row].tolist()) for row in rows]
