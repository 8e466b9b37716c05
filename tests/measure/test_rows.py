"""Rows: means over seeds."""

import json
from dataclasses import replace

import pytest

from starqe.errors import InputError
from starqe.measure.rows import Row, over_seeds


def row(seed: int, ours: float | None, shape: str = "1p") -> Row:
    about = Row(name="StarQE", shape=shape, metric="MRR", average="macro", protocol="paper", n=9, seed=seed, ours=ours)
    return replace(about, paper=30.98, low=1.0, high=2.0)


def test_seeds_are_merged_into_mean_and_sample_deviation():
    (merged,) = over_seeds([row(0, 30.0), row(1, 32.0), row(2, 37.0)])
    assert merged.ours == pytest.approx(33)
    assert merged.deviation == pytest.approx(13**0.5)  # (9 + 1 + 16) / 2
    assert (merged.seed, merged.n, merged.paper) == ((0, 1, 2), 9, 30.98)
    assert merged.low is None


def test_what_differs_in_more_than_the_seed_stays_apart():
    merged = over_seeds([row(0, 30.0), row(0, 40.0, "2p"), row(1, 32.0)])
    assert [(one.shape, one.ours) for one in merged] == [("1p", 31.0), ("2p", 40.0)]


def test_one_seed_has_no_deviation_and_missing_numbers_stay_missing():
    one, none = over_seeds([row(0, 30.0), row(0, None, "2p")])
    assert (one.ours, one.deviation) == (30.0, None)
    assert (none.ours, none.deviation) == (None, None)


def test_json_keeps_every_cell_and_reads_back_the_same_row():
    one = row(3, 1.25)
    assert list(one.to_json().items()) == [
        ("row", "StarQE"), ("shape", "1p"), ("metric", "MRR"), ("average", "macro"), ("protocol", "paper"), ("n", 9), ("seed", 3),
        ("ours", 1.25), ("paper", 30.98), ("low", 1.0), ("high", 2.0), ("ties", None), ("dropped", None),
    ]  # fmt: skip
    merged = replace(one, seed=(0, 1), deviation=0.5, missing="why")
    for written in (one, merged, row(0, None)):
        assert Row.from_json(json.loads(json.dumps(written.to_json()))) == written


def test_rows_of_earlier_versions_are_read():
    short = {"row": "train", "shape": "1p", "metric": "queries", "average": "", "protocol": "", "n": 7, "seed": None, "ours": 7, "paper": 7}
    assert Row.from_json({**short, "difference": 0}) == Row(
        name="train", shape="1p", metric="queries", average="", protocol="", n=7, seed=None, ours=7, paper=7
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"n": "nine"}, "the cell 'n'"),
        ({"extra": 1}, "found 'extra'"),
        ({"ours": "1"}, "the cell 'ours'"),
        ({"seed": "0"}, "the cell 'seed'"),
    ],
)
def test_cells_of_a_wrong_type_or_name_are_refused(change: dict[str, object], said: str):
    with pytest.raises(InputError, match=said):
        Row.from_json(row(0, 1.0).to_json() | change)


def test_a_missing_cell_is_refused():
    cells = row(0, 1.0).to_json()
    del cells["metric"]
    with pytest.raises(InputError, match=r"lacks a cell.*'metric'"):
        Row.from_json(cells)
