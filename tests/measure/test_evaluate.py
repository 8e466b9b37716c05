"""Evaluation: from a scorer to rows, and to a file of ranks."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from tests.columns import query_table

from starqe.errors import ConfigError, InputError, MeasureError, StorageError, UnsupportedError
from starqe.kg import Statement, graph_of
from starqe.measure.evaluate import Measure, evaluate, workers_for
from starqe.measure.metrics import AVERAGES, METRICS
from starqe.measure.ranking_protocols import PROTOCOLS
from starqe.measure.ranks import TIES
from starqe.measure.rows import Row
from starqe.measure.sink import rank_sink
from starqe.queries import Atom, Query, Variable
from starqe.queries.layout import table_of_query
from starqe.queries.shape import SHAPES
from starqe.queries.table import QueryTable

ENTITIES = 5


def table(anchors: list[int], answers: list[list[int]], split: str = "test") -> QueryTable:
    """Queries of shape 1p without qualifiers."""
    n = len(anchors)
    return query_table(
        SHAPES["1p"],
        np.array(anchors, np.int32).reshape(n, 1),
        np.zeros((n, 1), np.int32),
        np.zeros(n + 1, np.int64),
        np.empty(0, np.int32),
        np.empty(0, np.int32),
        np.cumsum([0, *map(len, answers)]),
        np.array([answer for part in answers for answer in part], np.int32),
        {"split": split},
    )


class Near:
    """Scores an entity by how near its number is to the anchor's."""

    def scores(self, table: QueryTable, rows: np.ndarray, out: torch.Tensor) -> torch.Tensor:
        anchors = torch.from_numpy(table.anchors[rows, 0])
        return out.copy_(-(torch.arange(ENTITIES) - anchors[:, None]).abs())


def pick(rows: list[Row], **wanted: object) -> Row:
    (found,) = [row for row in rows if all(getattr(row, key) == value for key, value in wanted.items())]
    return found


@pytest.fixture
def tables() -> dict[str, QueryTable]:
    """Anchor 0 ranks 0, 1, 2, 3, 4; so answer 1 of it is second, and 3 is third once 1 is filtered. Anchor 4 ranks 4 first."""
    return {"1p": table([0, 4], [[1, 3], [4]]), "mine": table([0], [[0]])}


def test_rows_carry_the_metrics_in_percent(tables: dict[str, QueryTable]):
    rows = evaluate(Near(), tables, ENTITIES, row="near", seed=7)
    macro = pick(rows, shape="1p", metric="MRR", average="macro")
    assert macro.ours == pytest.approx(100 * ((1 / 2 + 1 / 3) / 2 + 1) / 2)
    assert macro.low <= macro.ours <= macro.high
    assert {key: macro.to_json()[key] for key in ("row", "protocol", "n", "seed", "paper", "dropped", "ties")} == {
        "row": "near", "protocol": "paper", "n": 2, "seed": 7, "paper": None, "dropped": 0, "ties": "realistic",
    }  # fmt: skip
    micro = pick(rows, shape="1p", metric="Hits@1", average="micro")
    assert (micro.ours, micro.n) == (pytest.approx(100 / 3), 3)


def test_the_mean_rank_is_not_a_percentage(tables: dict[str, QueryTable]):
    rows = evaluate(Near(), tables, ENTITIES)
    assert pick(rows, shape="1p", metric="MR", average="micro").ours == pytest.approx(2)


def test_average_is_the_mean_over_shapes_and_all_pools_the_queries(tables: dict[str, QueryTable]):
    rows = evaluate(Near(), tables, ENTITIES)
    assert pick(rows, shape="average", metric="Hits@1", average="macro").ours == pytest.approx(100 * (1 / 2 + 1) / 2)
    assert pick(rows, shape="all", metric="Hits@1", average="macro").ours == pytest.approx(100 * 2 / 3)
    assert len(rows) == 4 * len(METRICS) * len(AVERAGES)


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_the_batch_size_changes_nothing(batch: int):
    random = np.random.default_rng(0)
    queries = {"1p": table(random.integers(0, 5, 40).tolist(), [[int(a)] for a in random.integers(0, 5, 40)])}
    rows = evaluate(Near(), queries, ENTITIES, Measure(batch=batch))
    for one, other in zip(rows, evaluate(Near(), queries, ENTITIES), strict=True):
        assert one.ours == pytest.approx(other.ours)
        assert (one.low, one.high) == pytest.approx((other.low, other.high))


@pytest.mark.parametrize(
    ("threads", "workers"), [(1, 1), (2, 2), (4, 4), (6, 6), (7, 7), (8, 8), (9, 8), (11, 5), (12, 6), (16, 8), (64, 8)]
)
def test_as_few_threads_as_possible_are_idle(threads, workers):
    assert workers_for(threads) == workers
    assert threads - workers * (threads // workers) <= 1


@pytest.fixture
def three_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("three_threads")
def test_workers_share_the_threads_and_the_caller_keeps_its_own():
    """Every thread waits at the barrier within its scoring: so three batches are scored at once, or the test fails."""
    barrier = threading.Barrier(3)
    in_workers, in_caller, later = set(), set(), []

    class AtOnce(Near):
        def scores(self, table: QueryTable, rows: np.ndarray, out: torch.Tensor) -> torch.Tensor:
            barrier.wait(timeout=10)
            in_workers.add(torch.get_num_threads())
            return super().scores(table, rows, out)

    many = {"1p": table(list(range(5)) * 6, [[i % 5] if i % 3 else [0, 4] for i in range(30)])}
    together = evaluate(AtOnce(), many, ENTITIES, Measure(batch=5), progress=lambda *_: in_caller.add(torch.get_num_threads()))
    assert (in_workers, in_caller, torch.get_num_threads()) == ({1}, {3}, 3)
    thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert later == [3]
    torch.set_num_threads(1)
    assert together == evaluate(Near(), many, ENTITIES, Measure(batch=5))


def test_without_queries_there_are_no_numbers():
    rows = evaluate(Near(), {"1p": table([], [])}, ENTITIES)
    assert {row.ours for row in rows} == {row.low for row in rows} == {None}
    assert {row.n for row in rows} == {0}


def test_strict_filters_easy_answers_and_counts_what_it_drops():
    """Entities in the order of their names: a=0, b=1, c=2, d=3, e=4. Anchor a ranks a, b, c, d, e."""
    graph = graph_of(
        train=[Statement("a", "r", "b"), Statement("e", "r", "e"), Statement("a", "r", "a")],
        valid=[Statement("a", "s", "c")],
        test=[Statement("a", "r", "d"), Statement("e", "r", "e")],
    )
    queries = {"1p": table([0, 4], [[3], [4]])}
    rows = evaluate(Near(), queries, len(graph.entities), Measure(protocol="strict"), graph=graph)
    found = pick(rows, shape="1p", metric="MR", average="macro")
    assert (found.ours, found.n, found.dropped, found.protocol) == (2, 1, 1, "strict")  # only c is before d
    assert pick(evaluate(Near(), queries, 5), shape="1p", metric="MR", average="micro").ours == (4 + 1) / 2


def test_a_score_that_is_not_a_number_ends_the_evaluation(tables: dict[str, QueryTable]):
    class Broken:
        def scores(self, table: QueryTable, rows: np.ndarray, out: torch.Tensor) -> torch.Tensor:
            return out.fill_(float("nan"))

    with pytest.raises(MeasureError, match="NaN"):
        evaluate(Broken(), tables, ENTITIES)


def test_progress_is_reported_up_to_the_total(tables: dict[str, QueryTable]):
    steps: list[tuple[str, int, int]] = []
    evaluate(Near(), tables, ENTITIES, Measure(batch=1), progress=lambda *step: steps.append(step))
    assert steps == [("1p", 1, 2), ("1p", 2, 2), ("mine", 1, 1)]


def test_every_rank_goes_to_the_sink(tables: dict[str, QueryTable], tmp_path):
    path = tmp_path / "ranks.parquet"
    with rank_sink(path) as sink:
        evaluate(Near(), tables, ENTITIES, Measure(batch=1), sink=sink)
    assert pq.read_table(path).to_pylist() == [
        {"shape": "1p", "query": 0, "answer": 1, "rank": 2.0, "better": 1, "equal": 1, "candidates": 4},
        {"shape": "1p", "query": 0, "answer": 3, "rank": 3.0, "better": 2, "equal": 1, "candidates": 4},
        {"shape": "1p", "query": 1, "answer": 4, "rank": 1.0, "better": 0, "equal": 1, "candidates": 5},
        {"shape": "mine", "query": 0, "answer": 0, "rank": 1.0, "better": 0, "equal": 1, "candidates": 5},
    ]


def test_an_error_leaves_no_half_written_ranks(tmp_path):
    with pytest.raises(MeasureError), rank_sink(tmp_path / "ranks.parquet"):
        raise MeasureError("on the way")
    assert list(tmp_path.iterdir()) == []


def test_ranks_are_not_overwritten_unasked(tmp_path):
    (tmp_path / "ranks.parquet").write_text("mine")
    with pytest.raises(StorageError, match="exists already"), rank_sink(tmp_path / "ranks.parquet"):
        pass
    assert (tmp_path / "ranks.parquet").read_text() == "mine"


def test_a_shape_called_all_is_refused_before_anything_is_scored(tables: dict[str, QueryTable]):
    with pytest.raises(InputError, match="found a shape 'all'"):
        evaluate(Near(), {**tables, "all": tables["1p"]}, ENTITIES, progress=lambda *_: pytest.fail("scored"))


def test_the_settings_offer_exactly_the_tables():
    assert set(get_args(Measure.model_fields["protocol"].annotation)) == set(PROTOCOLS)
    assert set(get_args(Measure.model_fields["ties"].annotation)) == set(TIES)
    with pytest.raises(ConfigError, match="Did you mean 'replicates'"):
        Measure.parse({"replicate": 1})


def test_results_by_reduction_class_add_up_to_all():
    # Two steps from a: by m (known) to t (new), and by n (new) to u (new). Everything else scores lower than t and u, but for one.
    graph = graph_of(
        train=[Statement("a", "r", "m"), Statement("n", "s", "v"), Statement("m", "s", "v")],
        test=[Statement("m", "s", "t"), Statement("a", "r", "n"), Statement("n", "s", "u")],
    )
    query = Query.conjunction([Atom("a", "r", Variable("x")), Atom(Variable("x"), "s", Variable("y"))], "y")
    answers = [graph.entities.id(name) for name in ("t", "u")]
    table = replace(table_of_query(query, graph, answers), header={"split": "test", "fingerprint": graph.fingerprint})
    order = ["m", "t", "u", "v", "n", "a"]  # ranks of t and u: 2 and 2, since the other is filtered

    class Fixed:
        def scores(self, table, rows, out):
            for place, name in enumerate(order):
                out[:, graph.entities.id(name)] = -place
            return out

    rows = evaluate(Fixed(), {"2p": table}, len(graph.entities), Measure(protocol="strict", by_reduction=True, replicates=0), graph=graph)
    found = {(row.reduction, row.average): (row.n, row.ours) for row in rows if (row.shape, row.metric) == ("2p", "MR")}
    assert found == {
        ("", "micro"): (2, 2.0),
        ("", "macro"): (1, 2.0),
        ("1 missing", "micro"): (1, 2.0),
        ("1 missing", "macro"): (1, 2.0),
        ("full inference", "micro"): (1, 2.0),
        ("full inference", "macro"): (1, 2.0),
    }
    assert [row.to_json()["reduction"] for row in rows if row.reduction][:1] == ["1 missing"]
    assert all("reduction" not in row.to_json() for row in rows if not row.reduction)
    with pytest.raises(UnsupportedError, match="reductions need the graph"):
        evaluate(Fixed(), {"2p": table}, len(graph.entities), Measure(by_reduction=True))
