"""Findings of the paper, judged by its own numbers and by others."""

import itertools
from dataclasses import replace

import pytest

from starqe.experiments import ROWS
from starqe.experiments.findings import FINDINGS, deviations, verdicts
from starqe.measure.metrics import AVERAGES
from starqe.measure.paper import PAPER, published
from starqe.measure.rows import AVERAGE, Row
from starqe.queries import SHAPES

MRR = Row(name="", shape=AVERAGE, metric="MRR", average="macro", protocol="paper", n=9, seed=0, ours=None)


def published_rows(table: str) -> list[Row]:
    """The paper's own numbers as rows of ours, by both averages."""
    found = []
    for metric, lines in PAPER[table].items():
        for name, shape, average in itertools.product(lines, (*SHAPES, AVERAGE), AVERAGES):
            if figure := published(table, name, shape, metric):
                found.append(replace(MRR, name=name, shape=shape, metric=metric, average=average, ours=figure.value))
    return found


BROKEN_BY_THE_PAPER = "StarQE is the best by Hits@k, except on 1p and 3i"


@pytest.mark.parametrize("table", ["results", "generalisation", "faithfulness"])
def test_the_rows_have_the_papers_names_and_the_papers_numbers_confirm_its_findings(table: str) -> None:
    assert [name for name in PAPER[table]["MRR"] if not name.startswith("Oracle")] == list(ROWS[table])
    rows = published_rows(table)
    judged = verdicts(table, rows)
    assert [verdict.claim for verdict in judged if verdict.word != "confirmed"] == [
        finding.claim for finding in FINDINGS[table] if finding.claim.startswith(BROKEN_BY_THE_PAPER)
    ]
    assert [verdict.word for verdict in verdicts(table, rows[:1])] == ["not measured"] * len(FINDINGS[table])


@pytest.mark.parametrize("table", ["results", "generalisation", "faithfulness", "oracle"])
def test_every_finding_breaks_when_the_numbers_are_turned_around(table: str) -> None:
    source = "results" if table == "oracle" else table
    turned = [replace(row, ours=100 - row.number) for row in published_rows(source)]
    kept = [verdict.claim for verdict in verdicts(table, turned) if verdict.word == "confirmed"]
    about_nearness = {"results": ["reification is level with StarQE"], "generalisation": ["it is not necessary to train on all shapes"]}
    assert [claim.partition(":")[0] for claim in kept] == about_nearness.get(table, [])


def test_a_finding_is_judged_by_the_published_average_and_the_other_is_shown_beside_it() -> None:
    rows = [row for row in published_rows("results") if row.metric == "MRR"]
    by_macro_behind = [replace(row, ours=0.0) if (row.name, row.average) == ("StarQE", "macro") else row for row in rows]
    verdict = verdicts("results", by_macro_behind)[0]
    assert verdict.word == "confirmed by micro, not confirmed by macro"
    assert verdict.all_numbers.startswith("micro: MRR of StarQE / Triple-Only; 2p: 44.1 / 6.7")
    assert "| macro: MRR of StarQE / Triple-Only; 2p: 0.0 / 6.7" in verdict.all_numbers


def test_a_verdict_quotes_its_numbers() -> None:
    means = {"StarQE": 50.0, "Diameter": 49.0, "Diameter + 1": 51.0}
    (verdict,) = verdicts("diameter", [replace(MRR, name=name, average="micro", ours=ours) for name, ours in means.items()])
    assert str(verdict).startswith("**not confirmed by micro, not measured by macro**: as many steps as the diameter")
    assert verdict.numbers == "MRR of StarQE / Diameter / Diameter + 1; average: 50.0 / 49.0 / 51.0"


@pytest.mark.parametrize(("with_relations", "word"), [(33.0, "confirmed"), (25.0, "not confirmed"), (None, "not measured")])
def test_relations_in_the_pooling_are_compared_with_zero_layers(with_relations: float | None, word: str) -> None:
    means = {"Zero Layers": 36.0, "Zero Layers + Relations": with_relations}
    rows = [replace(MRR, name=name, average=average, ours=ours) for name, ours in means.items() for average in AVERAGES]
    assert [verdict.word for verdict in verdicts("pooling", rows)] == [word]


@pytest.mark.parametrize("table", ["results", "generalisation", "faithfulness"])
@pytest.mark.parametrize(("factor", "word"), [(1, "confirmed"), (3, "not confirmed")])
def test_the_papers_own_deviations_are_about_one_point_and_three_times_as_large_ones_are_not(table: str, factor: int, word: str) -> None:
    seeds = []
    for metric, lines in PAPER[table].items():
        for name, shape, average in itertools.product(lines, SHAPES, AVERAGES):
            figure = published(table, name, shape, metric)
            if figure and figure.deviation is not None:
                row, apart = replace(MRR, name=name, shape=shape, metric=metric, average=average), factor * figure.deviation / 2**0.5
                seeds += [replace(row, seed=0, ours=figure.value - apart), replace(row, seed=1, ours=figure.value + apart)]
    (verdict,) = deviations(seeds, ROWS[table])
    assert verdict.word == word
    assert "the largest: " in verdict.numbers


def test_deviations_need_several_seeds_and_quote_the_largest() -> None:
    one = [replace(MRR, name="StarQE", shape="2p", average=average, seed=0, ours=40.0) for average in AVERAGES]
    assert deviations(one, ["StarQE"]) == []
    (verdict,) = deviations([*one, *(replace(row, seed=1, ours=41.0) for row in one)], ["StarQE"])
    assert verdict.numbers == "medians: StarQE 0.71, all 0.71; the largest: StarQE 2p by MRR 0.71"
