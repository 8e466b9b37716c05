"""The published numbers: complete, and attached only where they can be compared."""

import hashlib
import json
from dataclasses import replace

import pytest

from starqe.measure.metrics import METRICS
from starqe.measure.paper import COUNTS, HUBS, IMPACT, PAPER, WD50K, beside_paper, published, published_count, published_impacts
from starqe.measure.rows import Row
from starqe.queries.shape import SHAPES

STARQE = Row(name="StarQE", shape="1p", metric="MRR", average="macro", protocol="paper", n=9, seed=0, ours=1.0)


@pytest.mark.parametrize(
    ("table", "row", "shape", "metric", "value", "deviation"),
    [
        ("results", "StarQE", "1p", "Hits@10", 51.72, 0.66),
        ("results", "Reification", "1p-2i", "MRR", 64.21, 0.86),
        ("results", "Zero Layers", "2p", "AMRI", 90.56, 0.47),
        ("results", "Oracle (all splits)", "1p", "MRR", 52.64, None),
        ("results", "Oracle (test)", "1p", "MRR", 79.16, None),
        ("generalisation", "EmQL-like", "2i-1p", "AMRI", 37.80, 22.89),
        ("faithfulness", "MPQE-like", "2p", "Hits@1", 8.00, 0.85),
    ],
)
def test_numbers_are_found_by_row_shape_and_metric(table: str, row: str, shape: str, metric: str, value: float, deviation: float | None):
    figure = published(table, row, shape, metric)
    assert figure is not None
    assert (figure.value, figure.deviation) == (value, deviation)


def test_the_average_is_the_mean_over_the_shapes():
    figure = published("results", "StarQE", "average", "MRR")
    assert figure is not None
    assert figure.value == pytest.approx(57.387, abs=0.001)


def test_what_the_paper_does_not_have_is_none():
    assert published("results", "StarQE", "4i", "MRR") is None
    assert published("results", "StarQE", "1p", "MR") is None
    assert published("results", "Oracle (test)", "1p", "Hits@10") is None


def test_every_line_has_a_number_in_range_for_every_shape():
    for table in PAPER:
        for metric, lines in PAPER[table].items():
            assert metric in METRICS
            for row in lines:
                figures = [published(table, row, shape, metric) for shape in SHAPES]
                assert all(figure and 0 < figure.value <= 100 for figure in figures), (table, metric, row)
                assert len(lines[row].split()) == len(SHAPES)


@pytest.mark.parametrize("table", PAPER)
def test_hits_grow_with_k(table: str):
    for row in PAPER[table]["Hits@1"]:
        for shape in SHAPES:
            hits = [figure.value for k in (1, 3, 10) if (figure := published(table, row, shape, f"Hits@{k}"))]
            assert len(hits) == 3
            assert hits == sorted(hits)


@pytest.mark.parametrize(
    ("changes", "paper"),
    [
        ({}, 30.98),
        ({"average": "micro"}, 30.98),
        ({"protocol": "strict"}, None),
        ({"name": "Oracle (test)"}, None),
        ({"name": "Oracle (test)", "average": "micro"}, 79.16),
        ({"name": "my model"}, None),
        ({"shape": "all"}, None),
    ],
)
def test_only_comparable_numbers_are_side_by_side(changes: dict[str, str], paper: float | None):
    row = replace(STARQE, **changes)
    assert beside_paper([row], "results", WD50K) == [replace(row, paper=paper)]


def test_nothing_of_another_graph_is_compared_and_no_average_over_other_shapes():
    assert beside_paper([STARQE], "results", "another")[0].paper is None
    average = replace(STARQE, shape="average")
    assert beside_paper([STARQE, average], "results", WD50K)[1].paper is None
    whole = [replace(STARQE, shape=shape) for shape in SHAPES]
    assert beside_paper([*whole, average], "results", WD50K)[-1].paper == pytest.approx(57.387, abs=0.001)


def test_counts_are_found_by_split_and_shape():
    assert published_count("train", "1p") == 24_819
    assert published_count("valid", "3i") == 169_195
    assert published_count("test", "1p-2i") == 1_267_452
    assert published_count("test", "4i") is None


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("metric", ["AMRI", "Hits@10", "MRR"])
def test_six_impacts_ascend_for_every_shape_and_metric(shape: str, metric: str):
    points = [figure.value for figure in published_impacts(shape, metric).values()]
    assert len(points) == 6
    assert points == sorted(points)


def test_an_impact_is_found_by_relation():
    figure = published_impacts("1p-2i", "Hits@10")["P1686"]
    assert (figure.value, figure.deviation) == (61.66, 2.20)
    assert published_impacts("4i", "MRR") == {}


PINNED = {
    "results": "e4659183d9d079de",
    "generalisation": "6a1c07d1f0a2fe35",
    "faithfulness": "85c175bc60742379",
    "counts": "5027d2eb3e44738b",
    "impact": "40106a3e2bfeb3a3",
    "hubs": "3499a99f3aac3844",
}
"""Digests of the published tables, taken when every number had been compared with the paper's source by a program."""


@pytest.mark.parametrize("table", PINNED)
def test_no_digit_of_a_published_table_changes(table: str):
    content = {**PAPER, "counts": COUNTS, "impact": IMPACT, "hubs": HUBS}[table]
    text = json.dumps(content, ensure_ascii=False, sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == PINNED[table]
