"""Maps identifiers to RDF terms and back."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote, unquote

from pyoxigraph import BlankNode, NamedNode

from starqe.errors import InputError
from starqe.kg.statement import identifier_problem

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
REIFIES, SUBJECT, PREDICATE, OBJECT = (RDF + name for name in ("reifies", "subject", "predicate", "object"))
TYPE, STATEMENT = RDF + "type", RDF + "Statement"

ENTITY_BASE = "urn:starqe:entity:"
RELATION_BASE = "urn:starqe:relation:"

_RESERVED = frozenset((REIFIES, SUBJECT, PREDICATE, OBJECT, STATEMENT))
"""IRIs that express reification: an identifier equal to one of them is written under the base."""
_is_simple = re.compile("[A-Za-z0-9_.~-]+").fullmatch
"""Matches an identifier that is its own percent-encoding, and neither an IRI nor a blank node, since both have a colon."""


@dataclass(frozen=True)
class Namespace:
    """A one-to-one map between identifiers and RDF terms, for one role: entities or relations.

    An identifier that is an absolute IRI is written as it is; ``_:label`` is a blank node where the role allows it;
    anything else is the base plus the percent-encoded identifier. Reading is the exact inverse of writing: an IRI
    under the base that writing would not produce (for example with a plain ``/``) remains an IRI, and is written as one.

    Raises:
        InputError: The base is not an absolute IRI.
    """

    base: str
    blank_nodes: bool = False

    def __post_init__(self) -> None:
        if not is_iri(self.base):
            raise InputError(f"a base is an absolute IRI such as 'http://example.org/', found {self.base!r}")

    def term(self, identifier: str) -> NamedNode | BlankNode:
        """Returns the term of an identifier.

        Raises:
            InputError: The identifier is not valid Unicode.
        """
        try:
            if self._is_blank(identifier):
                return BlankNode(identifier[2:])
            if self._is_plain(identifier) and identifier not in _RESERVED:
                return NamedNode(identifier)
            return NamedNode(self.base + quote(identifier, safe=""))
        except UnicodeEncodeError:
            raise InputError(f"an identifier is Unicode text, found {identifier!r} with half a surrogate pair") from None

    def identifier(self, iri: str) -> str:
        """Returns the identifier of an IRI (a blank node is its own: ``_:label``)."""
        if not iri.startswith(self.base):
            return iri
        code = iri[len(self.base) :]
        if _is_simple(code):
            return code
        decoded = unquote(code)
        canonical = quote(decoded, safe="") == code and not identifier_problem(decoded)
        if not canonical or self._is_blank(decoded) or (self._is_plain(decoded) and decoded not in _RESERVED):
            return iri
        return decoded

    def identifiers(self, iris: Iterable[str]) -> list[str]:
        """Returns the identifiers of many IRIs."""
        base, end = self.base, len(self.base)
        return [iri[end:] if iri.startswith(base) and _is_simple(iri, end) else self.identifier(iri) for iri in iris]

    def _is_blank(self, identifier: str) -> bool:
        return self.blank_nodes and identifier.startswith("_:") and is_blank_label(identifier[2:])

    def _is_plain(self, identifier: str) -> bool:
        """Returns whether an identifier is an IRI that reading leaves unchanged."""
        return is_iri(identifier) and self.identifier(identifier) == identifier


@dataclass(frozen=True)
class Names:
    """The two maps between identifiers and RDF terms: one for entities, one for relations.

    Raises:
        InputError: A base is not an absolute IRI.
    """

    entity_base: str = ENTITY_BASE
    relation_base: str = RELATION_BASE

    def __post_init__(self) -> None:
        _ = self.entities, self.relations

    @cached_property
    def entities(self) -> Namespace:
        """The map of entities; blank nodes are entities."""
        return Namespace(self.entity_base, blank_nodes=True)

    @cached_property
    def relations(self) -> Namespace:
        """The map of relations."""
        return Namespace(self.relation_base)

    def labelled(self, iri: str) -> str:
        """Returns the identifier that a label belongs to; RDF does not say whether it is an entity or a relation."""
        entity = self.entities.identifier(iri)
        return entity if entity != iri else self.relations.identifier(iri)


def is_iri(text: str) -> bool:
    """Returns whether a text is an absolute IRI."""
    try:
        NamedNode(text)
    except ValueError:
        return False
    return True


def is_blank_label(text: str) -> bool:
    """Returns whether a text is a valid blank node label in every RDF format; a colon is valid in none of them."""
    try:
        BlankNode(text)
    except ValueError:
        return False
    return ":" not in text


DEFAULT_NAMES = Names()
