"""Resolves the names in a SPARQL text: IRIs, prefixed names and labels become identifiers of a graph.

Strings that name entities or relations are kept with their positions, so that the text can be rewritten with IRIs for a SPARQL store.
"""

import re
from collections.abc import Iterable

from pyoxigraph import BlankNode, NamedNode, RdfFormat, parse

from starqe.errors import SparqlError, UnknownNameError
from starqe.kg.graph import Graph
from starqe.kg.iris import RDF, TYPE, Namespace, is_iri
from starqe.kg.literal import STRING, XSD
from starqe.kg.rdf.read import LABEL
from starqe.kg.vocabulary import Vocabulary
from starqe.queries.sparql.syntax import Node, error_at, known_only, shortened
from starqe.queries.sparql.write import quoted

SHOWN = 10
"""The largest number of candidates in an error."""

_VERSIONS = ("1.0", "1.1", "1.2", "1.2-basic")
_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([\s\S]))")
_NOT_IN_IRI = re.compile(r'[\x00-\x20<>"{}|^`\\]')


def predefined_prefixes(graph: Graph) -> dict[str, str]:
    """Returns the prefixes that a text need not declare.

    They are ``e`` and ``r`` for the graph's bases, as exports write them, ``rdf``, ``rdfs`` and ``xsd``; and those of Wikidata where the
    graph's IRIs are Wikidata's.
    """
    prefixes = {"e": graph.names.entity_base, "r": graph.names.relation_base, "rdf": RDF, "rdfs": LABEL.removesuffix("label"), "xsd": XSD}
    if (site := wikidata_site(graph)) is not None:
        prefixes |= {"wd": graph.names.entity_base, "wdt": graph.names.relation_base}
        prefixes |= {prefix: f"{site}prop/{path}" for prefix, path in (("p", ""), ("ps", "statement/"), ("pq", "qualifier/"))}
    return prefixes


def wikidata_site(graph: Graph) -> str | None:
    """Returns the address that the IRIs of Wikidata (or another Wikibase) begin with; None for any other graph."""
    site = graph.names.relation_base.removesuffix("prop/direct/")
    return site if site != graph.names.relation_base and graph.names.entity_base == f"{site}entity/" else None


class SparqlTerms:
    """Reads the names of one text, by its declarations and by what the graph has.

    Raises:
        SparqlError: A declaration is wrong.
    """

    def __init__(self, graph: Graph, declarations: Iterable[Node]) -> None:
        self._graph = graph
        self._prefixes = predefined_prefixes(graph)
        self.wikidata = wikidata_site(graph)
        self.only_literals = graph.only_literals
        self.written: dict[int, tuple[int, str | None]] = {}
        """Positions of the strings that name something: begin -> end, and the IRI for it (None: a blank node, which has none)."""
        self._base: str | None = None
        self._iris: dict[str, str] = {}
        for declaration in declarations:
            *names, value = declaration.children
            match declaration.data, names:
                case "base", _:
                    self._base = self.iri(value)
                case "prefix", [prefix] if prefix.endswith(":") and prefix.count(":") == 1:
                    self._prefixes[prefix[:-1]] = self.iri(value)
                case "prefix", _:
                    raise error_at(
                        names[0], f"a prefix ends in its colon, found {shortened(names[0])!r}", "Write PREFIX ex: <http://example.org/>"
                    )
                case _:
                    if _text(value) not in _VERSIONS:
                        raise error_at(
                            value, f"a version is one of {', '.join(_VERSIONS)}, found {shortened(value)}", 'Write VERSION "1.2"'
                        )
            self._iris.clear()  # a declaration changes what names mean

    def iri(self, name: Node) -> str:
        """Returns the absolute IRI that a name denotes.

        Raises:
            SparqlError: Its prefix is not declared, it is relative without a base, or it is not an IRI.
        """
        if (known := self._iris.get(name)) is None:
            known = self._iris[str(name)] = self._absolute(name)
        return known

    def _absolute(self, name: Node) -> str:
        if name.type == "A":
            return TYPE
        if name.type == "PNAME":
            prefix, _, local = name.partition(":")
            if prefix not in self._prefixes:
                way_out = f"Declare it: PREFIX {prefix}: <…>. Without a declaration there are {', '.join(f'{p}:' for p in self._prefixes)}"
                raise error_at(name, f"the prefix {prefix + ':'!r} is not declared", way_out)
            return self._prefixes[prefix] + re.sub(r"\\(.)", r"\1", local)
        written = _unescaped(name, name[1:-1])
        if _NOT_IN_IRI.search(written):
            raise error_at(name, f"an IRI has no space, quote or bracket in it, found {shortened(name)}", "Encode it, as in %20")
        if is_iri(written):
            return written
        if self._base is None:
            raise error_at(
                name,
                f"an IRI begins with a scheme such as http: unless there is a BASE, found {shortened(name)}",
                "Declare BASE <…>, or use a prefix",
                kind=UnknownNameError,
            )
        try:
            resolved = next(iter(parse(f"<a:a> <{written}> <a:a> .", format=RdfFormat.TURTLE, base_iri=self._base))).predicate
        except SyntaxError:
            raise error_at(
                name, f"an IRI follows RFC 3987, found {shortened(name)}", "Is there a '%' without two digits after it?"
            ) from None
        return str(resolved.value)

    def entity(self, node: Node) -> str:
        """Returns the entity that an IRI, a prefixed name or a label denotes.

        Raises:
            SparqlError: The graph has none or several, or another kind of node is required there.
        """
        return self._identifier(node, "entity", self._graph.entities, self._graph.names.entities)

    def relation(self, node: Node) -> str:
        """Returns the relation that an IRI, a prefixed name or a label denotes.

        Raises:
            SparqlError: The graph has none or several, or another kind of node is required there.
        """
        return self._identifier(node, "relation", self._graph.relations, self._graph.names.relations)

    def known_entity(self, node: Node, of_relations: bool = False) -> str | None:
        """Returns the entity (or relation) that a node of a condition denotes; None if nothing of the graph can equal it.

        Raises:
            SparqlError: A string names nothing, or several.
        """
        if hasattr(node, "children") and (
            node.data in ("string", "tagged") or (node.data == "typed" and self.iri(node.children[1]) == STRING)
        ):
            return self.relation(node) if of_relations else self.entity(node)
        if hasattr(node, "children") or node.type not in ("IRI", "PNAME"):
            return None
        vocabulary, names = (
            (self._graph.relations, self._graph.names.relations) if of_relations else (self._graph.entities, self._graph.names.entities)
        )
        return self._by_iri(self.iri(node), vocabulary, names)

    def literal(self, node: Node) -> tuple[str, str] | None:
        """Returns the text of a string and its language, which may be empty; None for any other node."""
        if not hasattr(node, "children") or node.data not in ("string", "tagged"):
            return None
        return _text(node.children[0]), node.children[1][1:].lower() if node.data == "tagged" else ""

    def labelled(self, text: str, language: str) -> list[str]:
        """Returns the entities that have this label, in exactly this language."""
        entities = self._graph.entities
        labels = (by_id for tag, by_id in entities.labels.items() if tag.lower() == language)
        return [entities.identifier(id_) for by_id in labels for id_, label in by_id.items() if label == text]

    def has_literals(self, node: Node) -> bool:
        """Returns whether a node is a relation whose values are literals."""
        if not self.only_literals:
            return False
        names, relations = self._graph.names.relations, self._graph.relations
        if getattr(node, "type", None) in ("IRI", "PNAME", "A"):
            return self._by_iri(self.iri(node), relations, names) in self.only_literals
        return getattr(node, "data", None) == "string" and any(
            relations.identifier(id_) in self.only_literals for id_ in relations.named(_text(node.children[0]))
        )

    def is_label(self, node: Node) -> bool:
        """Returns whether a relation is ``rdfs:label``, as a property that is not one of the graph's own relations."""
        return getattr(node, "type", None) in ("IRI", "PNAME") and self.iri(node) == LABEL and LABEL not in self._graph.relations

    def statement_role(self, node: Node) -> tuple[str, str]:
        """Returns the role of a relation at a statement node of Wikidata (statement, value, qualifier or none), and its property."""
        if self.wikidata is None or getattr(node, "type", None) not in ("IRI", "PNAME"):
            return "", ""
        iri = self.iri(node)
        for role, path in (("value", "prop/statement/"), ("qualifier", "prop/qualifier/"), ("statement", "prop/")):
            if re.fullmatch(re.escape(self.wikidata + path) + "P[0-9]+", iri):
                return role, iri[len(self.wikidata + path) :]
        return "", ""

    def direct(self, node: Node, name: str) -> Node:
        """Returns the relation of the graph that a property of a statement node denotes, at the place of the node."""
        from lark import Token

        return Token.new_borrow_pos("IRI", f"<{self._graph.names.relation_base}{name}>", node)

    def _identifier(self, node: Node, kind: str, vocabulary: Vocabulary, names: Namespace) -> str:
        if hasattr(node, "children"):
            found = self._by_string(node, kind, vocabulary)
            term = names.term(found)
            self.written[node.start_pos] = node.end_pos, None if isinstance(term, BlankNode) else str(term)
            return found
        if node.type not in ("IRI", "PNAME", "A"):
            raise known_only(node, "literal")
        iri = self.iri(node)
        if (identifier := self._by_iri(iri, vocabulary, names)) is not None:
            return identifier
        identifier = names.identifier(iri)
        rule = f"there is no {kind} {shortened(identifier)!r} in this graph"
        raise _unknown(node, rule, identifier, vocabulary, kind=UnknownNameError)

    def _by_iri(self, iri: str, vocabulary: Vocabulary, names: Namespace) -> str | None:
        identifier = names.identifier(iri)
        if identifier not in vocabulary:
            return None
        # Reading undoes what writing does: an IRI of the reification vocabulary is not a name, even if an entity has it.
        return identifier if identifier != iri or (is_iri(iri) and names.term(identifier) == NamedNode(iri)) else None

    def _by_string(self, node: Node, kind: str, vocabulary: Vocabulary) -> str:
        """Returns what a string names: by identifier, by label, or by the last part of an IRI; with a language, by label only."""
        string, *rest = node.children
        text, language = _text(string), None
        if node.data == "typed" and self.iri(rest[0]) != STRING:
            raise known_only(node, "literal")
        if node.data == "tagged":
            language = rest[0][1:]
            if "--" in language:
                raise known_only(node, "literal")
        found = vocabulary.named(text, language)
        if len(found) > 1:
            more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
            rule = f"{shortened(text)!r} names {len(found)} {'entities' if kind == 'entity' else 'relations'}"
            shown = [vocabulary.identifier(id_) for id_ in found[:SHOWN]]
            raise _error(node, rule, f"Write the identifier of one: {_listed(found[:SHOWN], shown, vocabulary)}{more}", shown)
        if not found:
            shown_label = f" in the language {language!r}" if language else ""
            rule = f"no {kind} of this graph is called {shortened(text)!r}{shown_label}"
            # In SPARQL this is a literal, which no known fact has; a string as a relation is not SPARQL.
            raise _unknown(node, rule, text, vocabulary, kind=UnknownNameError if kind == "entity" else SparqlError)
        return vocabulary.identifier(found[0])


def _unknown(node: Node, rule: str, text: str, vocabulary: Vocabulary, kind: type[SparqlError] = SparqlError) -> SparqlError:
    found = vocabulary.near(text)
    names = [vocabulary.name(id_) for id_ in found]
    way_out = f"Did you mean {_listed(found, names, vocabulary)}?" if found else "No similar name found"
    return error_at(node, rule, way_out, [quoted(name) for name in names], kind=kind)


def _error(node: Node, rule: str, way_out: str, names: Iterable[str]) -> SparqlError:
    return error_at(node, rule, way_out, [quoted(name) for name in names])


def _listed(ids: Iterable[int], names: Iterable[str], vocabulary: Vocabulary) -> str:
    """Writes names as strings of SPARQL, each followed by its label if that differs."""
    labels = [vocabulary.label(id_) for id_ in ids]
    return ", ".join(quoted(name) + (f" ({label})" if label != name else "") for name, label in zip(names, labels, strict=True))


def _text(token: Node) -> str:
    """Returns the content of a quoted string."""
    quotes = 3 if token.startswith(('"""', "'''")) else 1
    return _unescaped(token, token[quotes:-quotes])


def _unescaped(token: Node, text: str) -> str:
    def character(match: re.Match[str]) -> str:
        short, long, letter = match.groups()
        if letter is not None:
            if letter not in _ESCAPES:
                raise error_at(
                    token,
                    f"an escape is one of \\t \\b \\n \\r \\f \\\" \\' \\\\ \\uXXXX \\UXXXXXXXX, found {match[0]!r}",
                    "Double the backslash",
                )
            return _ESCAPES[letter]
        code = int(short or long, 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise error_at(
                token, f"a character has a code below 110000 outside of D800…DFFF, found {match[0]!r}", "Write the character itself"
            )
        return chr(code)

    return _ESCAPE.sub(character, text)
