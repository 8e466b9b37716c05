import pytest

from starqe.errors import InputError
from starqe.kg import SPLITS, Statement
from starqe.kg.statement import identifier_problem


def test_qualifiers_are_a_set():
    one = Statement("a", "r", "b", (("q", "w"), ("q", "v"), ("q", "w")))
    assert one.qualifiers == (("q", "v"), ("q", "w"))
    assert one == Statement("a", "r", "b", (("q", "v"), ("q", "w")))
    assert hash(one) == hash(Statement("a", "r", "b", (("q", "v"), ("q", "w"))))


def test_the_same_main_triple_with_other_qualifiers_is_another_statement():
    assert Statement("a", "r", "b") != Statement("a", "r", "b", (("q", "v"),))


def test_fields_are_the_main_triple_and_then_the_pairs():
    assert Statement("a", "r", "b", (("q", "w"), ("p", "v"))).fields() == ["a", "r", "b", "p", "v", "q", "w"]


def test_a_statement_entails_itself_with_any_subset_of_its_pairs():
    full = Statement("a", "r", "b", (("q", "v"), ("p", "v")))
    assert full.entails(full)
    assert full.entails(Statement("a", "r", "b", (("p", "v"),)))
    assert full.entails(Statement("a", "r", "b"))
    assert not Statement("a", "r", "b").entails(full)
    assert not full.entails(Statement("b", "r", "a"))
    assert not full.entails(Statement("a", "r", "b", (("q", "w"),)))


@pytest.mark.parametrize(
    ("identifier", "problem"),
    [
        ("", "it is empty"),
        ("a\nb", "it contains a control character or a line break"),
        ("a\tb", "it contains a control character or a line break"),
        ("a\x00", "it contains a control character or a line break"),
        ("a\x85b", "it contains a control character or a line break"),
        ("a\u2028b", "it contains a control character or a line break"),
        ("\ufeffa", "it contains a control character or a line break"),
        ("a\ud800", "it contains half a surrogate pair"),
        (" a", "it begins or ends with white space"),
        ("a\u00a0", "it begins or ends with white space"),
    ],
)
@pytest.mark.parametrize("place", range(5))
def test_an_unfit_identifier_is_refused_wherever_it_stands(identifier, problem, place):
    fields = ["a", "r", "b", "q", "v"]
    fields[place] = identifier
    with pytest.raises(InputError) as caught:
        Statement(*fields[:3], ((fields[3], fields[4]),))
    assert str(caught.value) == f"an identifier is one line of text without space around it, found {identifier!r}: {problem}"


@pytest.mark.parametrize("identifier", ["a", "a b", "a,b", "Zürich", "東京", "🦉", "e\u0301", '"', "\\", "http://example.org/a#b", "_:b0"])
def test_any_other_text_is_an_identifier(identifier):
    assert identifier_problem(identifier) is None


def test_the_splits_are_in_the_order_of_their_codes():
    assert SPLITS == ("train", "valid", "test")
