"""The comparison of a warm start with training anew."""

import itertools

import pytest

from starqe.bench.growing import Shortened, bench_update, split_off
from starqe.kg import embedded_graph
from tests.kg.contents import contents


def test_one_percent_of_train_is_split_off_and_nothing_else():
    graph = embedded_graph()
    old, new = split_off(graph)
    assert len(new) == round(0.01 * len(list(graph.statements("train"))))
    assert contents(old) | contents(new) == contents(graph)
    assert not contents(old) & contents(new)
    assert split_off(graph, seed=1)[1].fingerprint != new.fingerprint == split_off(graph)[1].fingerprint


def test_a_shortened_lesson_has_the_first_batches_of_an_epoch():
    class Numbers:
        per_epoch, steps_per_epoch = 100, 10

        def batches(self, _epoch, start=0):
            return itertools.islice(range(10), start, None)

    lesson = Shortened(Numbers(), 4)  # type: ignore[arg-type]
    assert list(lesson.batches(0)) == [0, 1, 2, 3]
    assert list(lesson.batches(0, 3)) == [3]
    assert lesson.per_epoch == 40


@pytest.mark.full
def test_a_warm_start_takes_a_tenth_of_the_steps_and_finished_models_are_used_again(tmp_path):
    rows = bench_update(embedded_graph(), tmp_path, epochs=2, limit=20)
    assert [row["model"] for row in rows] == ["training anew", "warm start, not trained", "warm start"]
    assert rows[2]["steps"] == pytest.approx(rows[0]["steps"] / 10, abs=1)
    assert rows[1]["steps"] == 0
    assert all(0 < row["mrr"] <= 100 for row in rows)
    again = bench_update(embedded_graph(), tmp_path, epochs=2, limit=20)
    assert [row["mrr"] for row in again] == [row["mrr"] for row in rows]
    assert again[0]["cpu_seconds"] == rows[0]["cpu_seconds"]
