import pytest

from starqe.kg import Draft, graph_stats, import_graph
from tests.places import WD50K


def test_every_count_of_a_small_graph():
    draft = Draft()
    draft.add([["a", "r", "b", "q", "v", "q", "a"], ["a", "r", "b", "p", "w", "q", "v", "q", "w"], ["b", "q", "c"]], "train")
    draft.add([["b", "r", "a"]], "test")
    draft.label("a", "A", "en")
    draft.label("a", "Das A", "de")
    draft.label("r", "R")
    graph = draft.finish()
    assert graph_stats(graph) == {
        "fingerprint": graph.fingerprint,
        "statements": 4,
        "train": 3,
        "valid": 0,
        "test": 1,
        "with_qualifiers": 2,
        "qualifier_pairs": 5,
        "most_pairs_on_a_statement": 3,
        "entities": 5,
        "relations": 3,
        "entities_only_in_qualifiers": 2,  # v w
        "relations_only_in_qualifiers": 1,  # p
        "literals": 0,
        "literal_tails": {},
        "literal_qualifier_values": {},
        "labelled_entities": 1,
        "labelled_relations": 1,
        "languages": ["", "de", "en"],
        "split_findings": {
            "entities_of_valid_not_in_train": 0,
            "entities_of_test_not_in_train": 0,
            "relations_of_valid_not_in_train": 0,
            "relations_of_test_not_in_train": 0,
            "triples_in_train_and_valid": 0,
            "triples_in_train_and_test": 0,
            "triples_in_valid_and_test": 0,
            "statements_in_several_splits": 0,
            "distinct_statements": 4,
        },
    }


def test_a_graph_without_qualifiers_has_none():
    draft = Draft()
    draft.add([["a", "r", "b"]], "train")
    stats = graph_stats(draft.finish())
    assert (stats["with_qualifiers"], stats["qualifier_pairs"], stats["most_pairs_on_a_statement"]) == (0, 0, 0)


@pytest.mark.full
@pytest.mark.skipif(not WD50K.is_dir(), reason="WD50K is not here")
def test_the_numbers_of_wd50k():
    stats = graph_stats(import_graph(WD50K)[0])
    expected = {
        "statements": 236_507,
        "train": 166_435,
        "valid": 23_913,
        "test": 46_159,
        "with_qualifiers": 32_167,
        "entities": 47_155,
        "relations": 531,
        "entities_only_in_qualifiers": 5459,
        "relations_only_in_qualifiers": 44,
    }
    assert {name: stats[name] for name in expected} == expected
