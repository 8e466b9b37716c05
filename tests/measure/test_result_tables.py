"""Tables: ours beside the paper's."""

import csv
import io
from dataclasses import replace
from typing import Any

from starqe.measure.result_tables import cell, comma_separated, grid_latex, grid_markdown, grids
from starqe.measure.rows import Row


def row(ours: float | None, paper: float | None = None, **changes: Any) -> Row:
    about = Row(name="StarQE", shape="1p", metric="MRR", average="macro", protocol="paper", n=9, seed=0, ours=ours, paper=paper)
    return replace(about, **changes)


ROWS = [row(33.333, 30.98), row(50.0, 44.13, shape="2p"), row(1.5, name="a|b_c")]


def test_a_cell_shows_ours_the_papers_and_the_difference():
    assert cell(row(33.333, 30.98)) == "33.33 (30.98, +2.35)"
    assert cell(row(30.0, 30.98)) == "30.00 (30.98, -0.98)"
    assert cell(row(30.0)) == "30.00"
    assert cell(row(None, 30.98)) == "– (30.98)"
    assert cell(row(None)) == "–"
    assert cell(row(30.0, 30.98, deviation=0.5)) == "30.00 ± 0.50 (30.98, -0.98)"


def test_markdown_has_one_column_per_shape_and_one_line_per_row():
    (grid,) = grids(ROWS)
    assert grid_markdown(grid).splitlines() == [
        "**MRR, macro, protocol paper: ours (the paper's, difference)**",
        "",
        "|  | 1p | 2p |",
        "| --- | ---: | ---: |",
        "| StarQE | 33.33 (30.98, +2.35) | 50.00 (44.13, +5.87) |",
        "| a\\|b_c | 1.50 | – |",
    ]


def test_latex_escapes_what_it_must():
    (grid,) = grids(ROWS)
    text = grid_latex(grid)
    assert r"a|b\_c & 1.50 & -- \\" in text
    assert r"\begin{tabular}{lrr}" in text
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 1


def test_csv_has_one_unrounded_line_a_number():
    lines = list(csv.DictReader(io.StringIO(comma_separated(ROWS))))
    assert [line["ours"] for line in lines] == ["33.333", "50.0", "1.5"]
    assert float(lines[0]["difference"]) == 33.333 - 30.98
    assert (lines[2]["paper"], lines[2]["difference"]) == ("", "")


def test_metrics_averages_and_protocols_never_share_a_table():
    rows = [row(1.0), row(2.0, metric="Hits@1"), row(3.0, average="micro"), row(4.0, protocol="strict")]
    assert [grid.title.split(":")[0] for grid in grids(rows)] == [
        "MRR, macro, protocol paper", "Hits@1, macro, protocol paper", "MRR, micro, protocol paper", "MRR, macro, protocol strict",
    ]  # fmt: skip


def test_several_seeds_become_mean_and_deviation():
    (grid,) = grids([row(10.0, 30.98, seed=0), row(12.0, 30.98, seed=1)])
    assert grid.lines == (("StarQE", ("11.00 ± 1.41 (30.98, -19.98)",)),)


def test_no_rows_give_no_table():
    assert grids([]) == []


def test_stacked_the_papers_number_and_the_difference_have_lines_of_their_own():
    (grid,) = grids([row(45.0, 30.98), row(None, name="other", missing="not run")], stacked=True)
    assert grid.lines == (
        ("StarQE", ("45.00",)),
        ("StarQE, paper", ("30.98",)),
        ("StarQE, difference", ("+14.02",)),
        ("other", ("not run",)),
    )
    assert grid.title == "MRR, macro, protocol paper"
