import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starqe.errors import InputError
from starqe.kg import Vocabulary
from starqe.kg.vocabulary import LabelColumn, Texts
from tests.kg.strategies import identifiers

CITIES = Vocabulary(
    ["Q1", "Q2", "Q3", "Q4", "Q5"],
    {"de": {0: "Wien", 1: "Rom"}, "en": {0: "Vienna", 4: "Cologne"}, "": {1: "Roma", 4: "Köln"}, "fi": {2: "Oulu"}},
)


@given(st.lists(identifiers(), unique=True))
def test_identifier_and_id_undo_each_other(words):
    vocabulary = Vocabulary(words)
    assert [vocabulary.id(word) for word in words] == list(range(len(words)))
    assert [vocabulary.identifier(id_) for id_ in range(len(words))] == words == list(vocabulary)


def test_many_ids_come_as_int32():
    ids = CITIES.ids(["Q3", "Q1"])
    assert ids.tolist() == [2, 0]
    assert ids.dtype == np.int32


def test_an_unknown_identifier_is_refused_by_name():
    assert "Q9" not in CITIES
    assert "Q1" in CITIES
    with pytest.raises(InputError, match="'Q9' does not occur in this graph"):
        CITIES.id("Q9")


@pytest.mark.parametrize(
    ("id_", "language", "label"),
    [
        (0, "de", "Wien"),
        (0, "en", "Vienna"),
        (0, "fr", "Vienna"),  # nothing without a language: English
        (4, "fr", "Köln"),  # one without a language comes before English
        (4, "en", "Cologne"),
        (1, "de", "Rom"),
        (1, "en", "Roma"),  # not in English: the one without a language
        (2, "en", "Oulu"),  # in no language that was asked for: any
        (3, "en", "Q4"),  # none at all: the identifier
    ],
)
def test_a_label_falls_back_from_the_language_to_none_to_english_to_any(id_, language, label):
    assert CITIES.label(id_, language) == label
    assert CITIES.label(np.int32(id_), language) == label


def test_english_is_the_language_unless_another_is_named():
    assert CITIES.label(0) == "Vienna"


def test_labels_find_all_ids_that_have_them_in_any_language():
    twins = Vocabulary(["a", "b", "c"], {"en": {0: "Paris", 2: "Paris"}, "fr": {0: "Paris", 1: "Lutèce"}})
    assert twins.find_label("Paris") == [0, 2]
    assert twins.find_label("Lutèce") == [1]
    assert twins.find_label("Lutece") == []  # accents are part of a label, though the search looks past them


def test_a_label_is_found_in_another_case_if_nothing_has_it_as_it_is_written():
    towns = Vocabulary(["a", "b", "c", "d"], {"en": {0: "Paris", 1: "PARIS", 3: "Straße"}, "FR": {1: "paris", 2: "PARIS"}})
    assert towns.find_label("Paris") == [0]
    assert towns.find_label("PARIS") == [1, 2]
    assert towns.find_label("pARIS") == [0, 1, 2]
    assert towns.find_label("Paris", "fr") == [1, 2]
    assert towns.find_label("paris", "fr") == [1]
    assert towns.find_label("STRASSE") == [3]
    assert towns.find_label("Paris", "de") == towns.find_label("Lyon") == []


PLACES = Vocabulary(
    ["Ulm", "http://a.example/Paris", "http://a.example/ulm", "http://b.example/Paris", "http://b.example/Rome", "http://b.example/ROME"],
    {"en": {1: "City of Light", 2: "Ulm town", 4: "Rom", 5: "Rom"}},
)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("http://a.example/ulm", [2]),
        ("Ulm", [0]),  # an identifier before the last part of an IRI
        ("ULM", [0, 2]),
        ("city of light", [1]),
        ("Paris", [1, 3]),
        ("Rome", [4]),  # as it is written before any other case
        ("rome", [4, 5]),
        ("Rom", [4, 5]),
        ("Rott", []),
    ],
)
def test_a_text_names_by_identifier_by_label_and_by_the_last_part_of_an_iri(text, ids):
    assert PLACES.named(text) == ids


def test_one_id_is_resolved_and_anything_else_is_an_error_with_candidates():
    assert PLACES.resolve("City of Light") == 1
    with pytest.raises(
        InputError, match=r"'Paris' is ambiguous \(2 in this graph\). Write one of 'http://a.example/Paris', 'http://b.example/Paris'"
    ):
        PLACES.resolve("Paris")
    with pytest.raises(InputError, match=r"'City of Lihgt' does not occur in this graph. Did you mean 'http://a.example/Paris'\?"):
        PLACES.resolve("City of Lihgt")
    with pytest.raises(InputError, match="No similar name found"):
        PLACES.resolve("zzzz")


def test_a_name_is_the_most_readable_text_that_names_one_id():
    assert [PLACES.name(id_) for id_ in range(6)] == [
        "Ulm",
        "City of Light",
        "Ulm town",
        "http://b.example/Paris",
        "Rome",
        "ROME",
    ]
    assert all(PLACES.named(PLACES.name(id_)) == [id_] for id_ in range(6))


def test_the_fingerprint_depends_on_the_identifiers_alone():
    assert Vocabulary(["a", "b"]).fingerprint == Vocabulary(["a", "b"], {"en": {0: "A"}}).fingerprint
    different = [["a", "b"], ["b", "a"], ["a"], ["ab"], ["a", "b", "c"], []]
    assert len({Vocabulary(words).fingerprint for words in different}) == len(different)


words = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), unique=True, max_size=12)


@given(words, st.booleans(), st.integers(0, 3))
def test_each_text_is_read_and_found_in_any_order_and_in_a_part_of_a_column(texts, is_sorted, start):
    texts = sorted(texts, key=str.encode) if is_sorted else texts
    column = Texts(pa.array(texts, pa.string())[start:])
    assert [column[place] for place in range(len(column))] == texts[start:]
    assert [column.find(text) for text in texts[start:]] == list(range(len(column)))
    assert [column.find(text) for text in texts[:start]] == [None] * len(texts[:start])
    assert column.find("not a text of it") is None
    assert column.find("\ud800") is None, "half a surrogate pair is in no column"


def test_labels_are_a_mapping_and_the_last_one_of_an_id_counts():
    labels = LabelColumn(np.array([7, 2, 7, 5]), pa.array(["seven", "two", "sieben", "fünf"]))
    assert labels == {2: "two", 5: "fünf", 7: "sieben"}
    assert (list(labels), len(labels), labels[5], labels.get(6)) == ([2, 5, 7], 3, "fünf", None)
    assert 7 in labels
    assert np.int32(7) in labels
    assert 3 not in labels
    assert "7" not in labels
    assert LabelColumn.of(labels) is labels
    assert LabelColumn.of({3: "c", 1: "a"}) == {1: "a", 3: "c"}
