"""The impact of qualifier relations, with ranks worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from starqe.experiments.impact import impacts, without
from starqe.experiments.qualifiers import ImpactRow, _confusing, _gains, _helpful, ends
from starqe.measure.paper import IMPACT, published_impacts
from starqe.queries import SHAPES, QueryTable
from tests.columns import query_table

HELPS, CONFUSES = 7, 8


class ByPairs:
    """Scores the entities 0, 1, 2, 3 as 3, 2, 1, 0; one relation lifts entity 1 above all, another lifts 3 above 0."""

    def __init__(self) -> None:
        self.scored = 0

    def scores(self, table: QueryTable, rows: np.ndarray, out: torch.Tensor) -> torch.Tensor:
        self.scored += len(rows)
        for place, row in enumerate(rows):
            relations = {relation for relation, _ in table.pairs_of(int(row), 0)}
            out[place] = torch.tensor([3.0, 10.0 if HELPS in relations else 2.0, 1.0, 5.0 if CONFUSES in relations else 0.0])
        return out


def one_hop(queries: list[tuple[list[tuple[int, int]], list[int]]]) -> QueryTable:
    """Makes 1p queries of their pairs and answers."""
    pairs = [pair for given, _ in queries for pair in given]
    counts, sizes = ([len(part) for part in column] for column in zip(*queries, strict=True))
    return query_table(
        SHAPES["1p"],
        np.zeros((len(queries), 1), np.int32),
        np.zeros((len(queries), 1), np.int32),
        np.cumsum([0, *counts]),
        np.array([relation for relation, _ in pairs], np.int32),
        np.array([value for _, value in pairs], np.int32),
        np.cumsum([0, *sizes]),
        np.array([answer for _, answers in queries for answer in answers], np.int32),
    )


TABLE = one_hop(
    [
        ([(HELPS, 0)], [1]),  # rank 1, without it 2
        ([(HELPS, 0), (CONFUSES, 0)], [1]),  # rank 1, without the first 3, without the second 1
        ([(CONFUSES, 2)], [2]),  # rank 4, without it 3
        ([(HELPS, 0), (HELPS, 3)], [1, 2]),  # ranks 1 and 2, without both pairs 2 and 2
        ([], [0]),  # contains nothing, and counts for nothing
    ]
)


@pytest.mark.parametrize("batch", [1, 2, 512])
def test_only_queries_with_the_relation_count_and_the_value_is_full_minus_restricted(batch: int) -> None:
    found = {(impact.relation, impact.metric, impact.average): impact for impact in impacts(ByPairs(), TABLE, 4, batch=batch)}
    helps = found[HELPS, "MRR", "macro"]
    assert helps.n == 3
    assert helps.full == pytest.approx(100 * (1 + 1 + (1 + 1 / 2) / 2) / 3)
    assert helps.restricted == pytest.approx(100 * (1 / 2 + 1 / 3 + 1 / 2) / 3)
    assert found[HELPS, "MRR", "micro"].points == pytest.approx(100 * ((1 + 1 + 1 + 1 / 2) - (1 / 2 + 1 / 3 + 1 / 2 + 1 / 2)) / 4)
    confuses = found[CONFUSES, "MRR", "macro"]
    assert (confuses.n, confuses.points) == (2, pytest.approx(100 * ((1 + 1 / 4) - (1 + 1 / 3)) / 2))
    # Mean ranks 2.5 and 2, where a random order of four would have 2.5.
    assert found[CONFUSES, "AMRI", "macro"].points == pytest.approx(0 - 100 / 3)
    assert found[CONFUSES, "Hits@10", "macro"].points == 0


def test_a_whole_query_is_scored_once_and_each_restricted_one_once() -> None:
    scorer = ByPairs()
    impacts(scorer, TABLE, 4)
    assert scorer.scored == len(TABLE) + 3 + 2


def test_rare_relations_are_left_out() -> None:
    assert {impact.relation for impact in impacts(ByPairs(), TABLE, 4, minimum=3)} == {HELPS}
    assert impacts(ByPairs(), TABLE, 4, minimum=4) == []


def test_pairs_are_taken_away_edge_by_edge_and_nothing_else_changes() -> None:
    both = query_table(
        SHAPES["2p"],
        np.zeros((2, 1), np.int32),
        np.array([[0, 1], [2, 3]], np.int32),
        np.array([0, 1, 3, 4, 4]),
        np.array([7, 8, 7, 8], np.int32),
        np.array([1, 2, 3, 4], np.int32),
        np.array([0, 1, 2]),
        np.array([5, 6], np.int32),
    )
    less = without(both, np.array([7, 8]))
    assert [less.pairs_of(row, edge) for row in (0, 1) for edge in (0, 1)] == [[], [(8, 2)], [], []]
    assert less.answers.items.tolist() == [5, 6]
    assert less.relations.tolist() == both.relations.tolist()


def test_the_worst_and_the_best_are_shown() -> None:
    about = ImpactRow(name="P0", shape="1p", metric="MRR", average="macro", protocol="paper", n=9, seed=0, ours=None)
    rows = [replace(about, name=f"P{i}", ours=float(points)) for i, points in enumerate([4, -1, 0, 9, 2, 7, 3])]
    assert [row.ours for row in ends(rows, "1p", "MRR")] == [-1, 0, 2, 4, 7, 9]
    assert len(ends(rows[:4], "1p", "MRR")) == 4
    assert ends(rows, "2p", "MRR") == []


def published_impact_rows() -> list[ImpactRow]:
    about = ImpactRow(name="", shape="", metric="", average="micro", protocol="paper", n=9, seed=0, ours=None)
    return [
        replace(about, name=relation, shape=shape, metric=metric, ours=figure.value)
        for metric, shapes in IMPACT.items()
        for shape in shapes
        for relation, figure in published_impacts(shape, metric).items()
    ]


def test_the_papers_impacts_confirm_its_findings() -> None:
    rows = published_impact_rows()
    assert [verdict.word for verdict in (_gains(rows), _helpful(rows, "P805"), _helpful(rows, "P1686"), _confusing(rows))] == [
        "confirmed"
    ] * 4
    assert _confusing(rows).numbers == "AMRI -64.91, Hits@10 -5.15, MRR -2.05"


def test_findings_on_relations_break_with_other_numbers_and_need_them() -> None:
    rows = published_impact_rows()
    turned = [replace(row, ours=-row.number) for row in rows]
    assert [verdict.word for verdict in (_gains(turned), _helpful(turned, "P805"), _confusing(turned))] == ["not confirmed"] * 3
    better_by_one = [replace(row, ours=1.0) if (row.name, row.shape, row.metric) == ("P453", "2p", "MRR") else row for row in rows]
    assert _confusing(better_by_one).word == "not confirmed"
    one_metric = [row for row in rows if row.metric != "AMRI"]
    assert [verdict.word for verdict in (_confusing(one_metric), _helpful([], "P805"), _gains([]))] == ["not measured"] * 3
