"""Search of names: by beginning, by word, by middle, by similar spelling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from starqe.kg import Vocabulary
from starqe.kg.search import NameSearch, short_form
from tests.kg.strategies import identifiers

PEOPLE = ["Albert Einstein", "Albert Einstein Award", "Kurt Gödel", "Niels Bohr", "Aage Niels Bohr", "Émilie du Châtelet", "C++", "(x)"]
SEARCH = NameSearch([*PEOPLE, "", "GÖDEL", "one\ntwo"], [*range(len(PEOPLE)), 90, 91, 92])


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("alb", [0, 1]),  # a beginning; short names first
        ("  ALBERT ein", [0, 1]),
        ("Einst", [0, 1]),  # from the middle of a label
        ("niels", [3, 4]),  # names that begin so come before names with a word that does
        ("bohr niels", [3, 4]),  # every word, in any order
        ("godel", [91, 2]),
        ("gödel", [91, 2]),
        ("emilie du", [5]),
        ("chatelet", [5]),
        ("instei", [0, 1]),  # inside a word, where nothing begins so
        ("c+", [6]),
        ("(", [7]),
        ("x", [7]),
        ("one two", [92]),
        ("one\ntwo", [92]),
        ("zz", []),
        ("", []),
        ("Albert Einstein Award of the year", []),
    ],
)
def test_names_are_found_by_beginning_word_and_middle(text, ids):
    assert SEARCH.find(text) == ids


def test_no_more_are_found_than_are_wanted():
    many = NameSearch([f"name {number:05}" for number in range(5_000)], range(5_000))
    assert many.find("name", 3) == [0, 1, 2]
    assert many.find("0499", 2) == [4990, 4991]
    assert many.near("name 01234", 1) == [1234]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Einstien", [0, 1]),
        ("Albert Einstien", [0, 1]),
        ("Kurt Goedel", [2]),
        ("Nils Bor", [3, 4]),
        ("chatelett", [5]),
        ("zzzz", []),
        ("", []),
        ("++++", []),
    ],
)
def test_similar_spellings_are_found(text, ids):
    assert SEARCH.near(text) == ids


def test_a_long_text_is_compared_in_full():
    long = "the history of the natural sciences in the nineteenth century, volume "
    volumes = NameSearch([f"{long}{number}" for number in range(30)], range(30))
    assert volumes.find(f"{long}2") == [2, *range(20, 29)]
    assert volumes.exact(f"{long}2") == [2]
    assert volumes.find(long, 2) == [0, 1]


def test_an_empty_vocabulary_finds_nothing():
    empty = NameSearch([], [])
    assert empty.find("a") == empty.near("abc") == empty.exact("a") == []


@given(st.lists(identifiers(), min_size=1, max_size=20))
def test_every_name_is_found_by_itself_and_by_its_beginning(names):
    search = NameSearch(names, range(len(names)))
    for id_, name in enumerate(names):
        assert id_ in search.exact(name)
        assert id_ in search.find(name[:200], len(names) + 1)


@pytest.mark.parametrize(
    ("identifier", "short"),
    [
        ("http://example.org/people/Curie", "Curie"),
        ("https://example.org/people#Curie", "Curie"),
        ("urn:isbn:0451450523", "0451450523"),
        ("http://example.org/", "http://example.org/"),
        ("Curie", "Curie"),
        ("a/b", "a/b"),
        ("_:b1", "_:b1"),
    ],
)
def test_the_short_form_is_the_last_part_of_an_iri(identifier, short):
    assert short_form(identifier) == short


def test_whole_iris_are_completed():
    vocabulary = Vocabulary(sorted(f"http://example.org/{name}" for name in ("Curie", "Curium", "Ulm")))
    assert vocabulary.find("http://example.org/Cu") == [0, 1]
    assert vocabulary.find("http://example.org/", 2) == [0, 1]
    assert vocabulary.find("http://example.com/") == []


@given(st.lists(st.text(st.sampled_from("ab é\nÉ_"), max_size=40), max_size=20))
def test_words_are_sorted_by_their_first_bytes_as_the_text_has_them(names):
    search = NameSearch(names, range(len(names)))
    words = [search._text[start : start + 32] for start in search._start.tolist()]
    assert search._by_text.tolist() == sorted(range(len(words)), key=lambda word: words[word])
