import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starqe.errors import InputError
from starqe.kg import Draft, Graph, Names, Statement, graph_of, with_split
from starqe.kg import graph as graph_module
from tests.kg.strategies import graphs, identifiers, rows


def built(lines: list[tuple[list[str], str]]) -> Graph:
    draft = Draft()
    for row, split in lines:
        draft.add([row], split)
    return draft.finish()


lines_of_a_graph = st.lists(st.tuples(rows(st.sampled_from("abcd")), st.sampled_from(["train", "valid", "test"])), min_size=1, max_size=12)


@given(lines_of_a_graph, st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(lines, random):
    shuffled = [(row[:3] + shuffled_pairs(row[3:], random), split) for row, split in lines]
    random.shuffle(shuffled)
    assert built(shuffled).fingerprint == built(lines).fingerprint


def shuffled_pairs(fields: list[str], random) -> list[str]:
    pairs = list(zip(fields[::2], fields[1::2], strict=True))
    random.shuffle(pairs)
    return [field for pair in pairs for field in pair]


@given(lines_of_a_graph)
def test_a_graph_holds_exactly_the_distinct_statements_of_each_split(lines):
    graph = built(lines)
    for split in ("train", "valid", "test"):
        pairs = {tuple(row): tuple(zip(row[3::2], row[4::2], strict=True)) for row, its_split in lines if its_split == split}
        expected = {Statement(*row[:3], pairs[row]) for row in pairs}
        found = list(graph.statements(split))
        assert len(found) == len(expected)
        assert set(found) == expected


@given(lines_of_a_graph)
def test_keys_too_long_for_one_number_are_sorted_too(lines):
    graph = built(lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph_module, "sort_order", lambda *columns: np.lexsort(columns[::-1]))
        assert built(lines).fingerprint == graph.fingerprint


def test_columns_sort_alike_whether_they_fit_one_number_or_not():
    random = np.random.default_rng(0)
    one, other = random.integers(0, 5, 200), random.integers(0, 5, 200)
    for scale in (1, 2**40):  # 2 * 43 bits do not fit
        order = graph_module.sort_order(one * scale, other * scale)
        ordered = list(zip(one[order].tolist(), other[order].tolist(), strict=True))
        assert ordered == sorted(ordered)


@given(st.lists(identifiers(), min_size=2, unique=True))
def test_ids_follow_the_bytes_of_the_identifiers(words):
    graph = graph_of([Statement(one, "r", other) for one, other in itertools.pairwise(words)])
    assert list(graph.entities) == sorted(words, key=str.encode)


def test_statements_merge_within_a_split_and_not_across_splits():
    draft = Draft()
    draft.add([["a", "r", "b"], ["a", "r", "b", "q", "v"], ["a", "r", "b", "q", "v", "q", "v"], ["a", "r", "b"]], "train")
    draft.add([["a", "r", "b"]], "test")
    graph = draft.finish()
    assert list(graph.statements("train")) == [Statement("a", "r", "b"), Statement("a", "r", "b", (("q", "v"),))]
    assert list(graph.statements("test")) == [Statement("a", "r", "b")]
    assert draft.duplicates == 2
    assert len(draft) == 5


def test_entities_and_relations_have_vocabularies_of_their_own():
    graph = graph_of([Statement("x", "x", "y", (("y", "z"),))])
    assert list(graph.entities) == ["x", "y", "z"]
    assert list(graph.relations) == ["x", "y"]


def test_labels_go_to_whatever_has_the_identifier_and_the_first_stays():
    draft = Draft()
    draft.add([["a", "r", "r"]], "train")
    draft.label("r", "first", "en")
    draft.label("r", "second", "en")
    draft.label("r", "zweites", "de")
    draft.label("nobody", "idle")
    graph = draft.finish()
    assert graph.entities.labels == {"en": {1: "first"}, "de": {1: "zweites"}}
    assert graph.relations.labels == {"en": {0: "first"}, "de": {0: "zweites"}}
    assert draft.idle_labels == 1


def test_a_graph_without_statements_is_refused():
    with pytest.raises(InputError, match="a graph has at least one statement, found none"):
        Draft().finish()
    with pytest.raises(InputError, match="a graph has at least one statement"):
        graph_of()


@given(graphs())
def test_another_split_column_keeps_vocabulary_labels_and_names(graph):
    again = with_split(graph, np.full(len(graph), 2))
    assert set(again.statements("test")) == set(graph.statements("train", "valid", "test"))
    assert again.vocabulary_fingerprint == graph.vocabulary_fingerprint
    assert again.entities.labels == graph.entities.labels
    assert with_split(graph, graph.split).fingerprint == graph.fingerprint


def test_names_stay_with_the_graph():
    draft, names = Draft(), Names("http://example.org/", "http://example.org/p/")
    draft.add([["a", "r", "b"]], "train")
    assert with_split(draft.finish(names), np.zeros(1)).names == names
