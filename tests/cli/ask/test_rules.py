import json
from pathlib import Path

import pytest

from starqe.errors import InputError
from tests.cli.test_predictor import SMALL, call, place, refused

__all__ = ["place"]


def test_rules_are_shown_in_words_with_how_often_they_were_right(place: Path) -> None:
    printed = call("rules", place / "run", "--relation", "award received", "--top", 3)
    assert "3 of " in printed
    assert "award received" in printed
    found = json.loads(call("rules", place / "run", "--top", 5, "--json"))
    assert found["rules"] > 5
    assert [row["support"] <= row["body"] for row in found["shown"]] == [True] * 5
    assert all(0 < row["confidence"] < 1 for row in found["shown"])
    worth = [row["support"] * row["confidence"] for row in found["shown"]]
    assert worth == sorted(worth, reverse=True)


def test_a_run_without_rules_says_how_to_get_some(place: Path) -> None:
    settings = (f"--set={setting}" for setting in (*SMALL, "train.rules=false"))
    call("train", place / "graph", "--preset", "one-hop", "--out", place / "unruled", *settings)
    with pytest.raises(InputError, match=r"has no rules.*train\.rules=true"):
        call("rules", place / "unruled")


def test_rules_alone_rank_the_ends_of_statements(place: Path) -> None:
    rows = json.loads(call("evaluate", place / "run", "--links", "ours", "--by", "rules", "--limit", 30, "--json"))
    (both,) = (row["ours"] for row in rows if (row["shape"], row["metric"]) == ("all", "MRR"))
    assert 5 < both < 95
    assert "rules rank the ends of statements" in refused("evaluate", place / "run", place / "queries", "--by", "rules")
