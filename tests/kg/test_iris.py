import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyoxigraph import BlankNode, NamedNode

from starqe.errors import InputError
from starqe.kg.iris import Names, Namespace, is_blank_label, is_iri
from tests.kg.strategies import identifiers

BASES = st.sampled_from(["urn:starqe:entity:", "urn:starqe:relation:", "http://www.wikidata.org/entity/", "a:", "http:"])


def text_of(term: NamedNode | BlankNode) -> str:
    return term.value if isinstance(term, NamedNode) else f"_:{term.value}"


@given(identifiers(), BASES, st.booleans())
@example("_:x", "urn:starqe:entity:", True)
@example("urn:starqe:entity:urn:starqe:entity:a", "urn:starqe:entity:", True)
def test_every_identifier_comes_back_from_its_term(identifier, base, blank_nodes):
    namespace = Namespace(base, blank_nodes)
    assert namespace.identifier(text_of(namespace.term(identifier))) == identifier


@given(identifiers(), identifiers(), BASES)
def test_an_iri_comes_back_from_its_identifier(code, other, base):
    namespace = Namespace(base, blank_nodes=True)
    for iri in (code, base + code, base + other + code):
        if is_iri(iri) and not iri.startswith("http://www.w3.org/1999/02/22-rdf-syntax-ns#"):
            assert text_of(namespace.term(namespace.identifier(iri))) == iri


@pytest.mark.parametrize(
    ("identifier", "term"),
    [
        ("Q42", NamedNode("http://www.wikidata.org/entity/Q42")),
        ("a b%", NamedNode("http://www.wikidata.org/entity/a%20b%25")),
        ("http://example.org/a", NamedNode("http://example.org/a")),
        ("_:node1", BlankNode("node1")),
        ("_:x y", NamedNode("http://www.wikidata.org/entity/_%3Ax%20y")),
        ("http://www.wikidata.org/entity/Q42", NamedNode("http://www.wikidata.org/entity/http%3A%2F%2Fwww.wikidata.org%2Fentity%2FQ42")),
        ("http://www.wikidata.org/entity/statement/Q42-1", NamedNode("http://www.wikidata.org/entity/statement/Q42-1")),
    ],
)
def test_an_entity_is_written_as_iri_blank_node_or_below_the_base(identifier, term):
    assert Names("http://www.wikidata.org/entity/").entities.term(identifier) == term


def test_a_relation_is_never_a_blank_node():
    assert Names().relations.term("_:a") == NamedNode("urn:starqe:relation:_%3Aa")


def test_a_relation_that_would_be_taken_for_reification_is_written_below_the_base():
    iri = "http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies"
    term = Names().relations.term(iri)
    assert text_of(term).startswith("urn:starqe:relation:")
    assert Names().relations.identifier(text_of(term)) == iri


def test_each_role_has_its_own_base():
    names = Names("http://example.org/e/", "http://example.org/p/")
    assert names.entities.identifier("http://example.org/p/a") == "http://example.org/p/a"
    assert names.relations.identifier("http://example.org/p/a") == "a"
    assert names.labelled("http://example.org/e/a") == names.labelled("http://example.org/p/a") == "a"


@pytest.mark.parametrize("names", [{"entity_base": "no base"}, {"relation_base": "example.org/"}])
def test_a_base_that_is_not_an_iri_is_refused(names):
    with pytest.raises(InputError, match=r"a base is an absolute IRI such as 'http://example.org/', found"):
        Names(**names)


def test_an_identifier_that_is_not_unicode_is_refused():
    with pytest.raises(InputError, match="half a surrogate pair"):
        Names().entities.term("\ud800")


@pytest.mark.parametrize(("text", "holds"), [("x", True), ("0", True), ("x.y", True), ("x.", False), ("a:b", False), ("", False)])
def test_blank_labels_are_those_that_every_format_reads(text, holds):
    assert is_blank_label(text) is holds
