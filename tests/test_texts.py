"""Columns of text of any size. `MOST_BYTES` is lowered, so that a few texts are as many bytes as 2 GB are otherwise."""

from pathlib import Path

import pyarrow as pa
import pytest

from starqe import texts
from starqe.kg import Graph, load_graph, save_graph
from starqe.kg.draft import Draft
from starqe.kg.literal import Literal
from starqe.kg.update import Changes, update_graph
from starqe.texts import Texts, alike, combined, joined_bytes, parts, text_array


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns with offsets of 32 bits have at most 20 bytes, and are worked on two texts at a time."""
    monkeypatch.setattr(texts, "MOST_BYTES", 20)
    monkeypatch.setattr(texts, "_SLICED", 2)


def _graph() -> Graph:
    draft = Draft()
    rows = [
        [
            "http://x.org/Berlin",
            "capital of",
            "http://x.org/Germany",
            "since",
            Literal("1990", "http://www.w3.org/2001/XMLSchema#gYear").key,
        ],
        ["http://x.org/Paris", "capital of", "http://x.org/France"],
        ["Zürich", "in", "http://x.org/Switzerland"],
    ]
    for row in rows:  # one part each, which are merged
        draft.add([row], "train")
    draft.label("http://x.org/Berlin", "Berlin an der Spree", "de")
    draft.label("http://x.org/Paris", "Paname", "fr")
    return draft.finish()


def test_texts_that_are_too_many_for_short_offsets_have_long_ones(narrow: None) -> None:
    short, long = pa.array(["a" * 10, "b"]), pa.array(["c" * 10, ""])
    assert [column.type for column in alike([short])] == [pa.string()]
    assert [column.type for column in alike([short, long])] == [pa.large_string()] * 2
    together = combined(pa.chunked_array([short, long]))
    assert together.type == pa.large_string()
    assert together.to_pylist() == ["a" * 10, "b", "c" * 10, ""]


def test_texts_that_fit_stay_as_they_are() -> None:
    column = pa.array(["a", "b"])
    assert alike([column]) == [column]
    assert text_array(column) is column
    assert combined(pa.chunked_array([column, column])).type == pa.string()
    assert combined(pa.chunked_array([], pa.string())).to_pylist() == []


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string()])
def test_single_texts_are_read_and_found_in_columns_of_either_width(type_: pa.DataType) -> None:
    column = pa.array(["left out", "b", "é", "", "a"], type_).slice(1)
    found = Texts(column)
    assert [found[place] for place in range(4)] == ["b", "é", "", "a"]
    assert [found.find(text) for text in ("b", "é", "", "a", "left out")] == [0, 1, 2, 3, None]
    assert bytes(joined_bytes(column)) == "béa".encode()


def test_parts_have_short_offsets_and_all_texts(narrow: None) -> None:
    found = list(parts(pa.array(["a", "b", "c"], pa.large_string())))
    assert [part.to_pylist() for part in found] == [["a", "b"], ["c"]]
    assert {part.type for part in found} == {pa.string()}
    assert [part.to_pylist() for part in parts(pa.array([], pa.string()))] == [[]]


def test_a_graph_with_more_text_than_short_offsets_reach_is_the_same_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    usual = _graph()
    save_graph(usual, tmp_path / "usual")
    request.getfixturevalue("narrow")
    wide = _graph()
    assert usual.entities.identifiers.type == pa.string()
    assert wide.entities.identifiers.type == pa.large_string()
    assert wide.fingerprint == usual.fingerprint
    assert wide.entities.labels == usual.entities.labels
    save_graph(wide, tmp_path / "wide")
    for folder in ("usual", "wide"):
        loaded = load_graph(tmp_path / folder)
        assert loaded.entities.identifiers.type == pa.large_string()
        assert loaded.fingerprint == usual.fingerprint
        assert list(loaded.literals) == list(usual.literals)
        assert loaded.entities.find("spree") == usual.entities.find("spree") == [loaded.entities.id("http://x.org/Berlin")]
        assert loaded.entities.resolve("France") == loaded.entities.id("http://x.org/France")


def test_a_graph_of_long_offsets_is_updated(narrow: None) -> None:
    draft = Draft()
    draft.add([["Rome", "capital of", "Italy"]], "train")
    graph, _ = update_graph(_graph(), Changes.of([draft]))
    assert graph.entities.identifiers.to_pylist()[-2:] == ["Italy", "Rome"]
    assert graph.entities.label(graph.entities.id("http://x.org/Paris"), "fr") == "Paname"
