"""The patterns of a SPARQL text with every shorthand undone: plain triples, and triples that have a reifier."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from starqe.kg.iris import REIFIES
from starqe.queries.sparql.syntax import Node, refused
from starqe.queries.sparql.terms import SparqlTerms

Key: TypeAlias = tuple[str, object]
"""What tells nodes apart: two nodes of a text are the same exactly if their keys are equal."""


@dataclass(frozen=True)
class Triple:
    """A triple pattern."""

    subject: Node
    relation: Node
    object: Node


@dataclass(frozen=True)
class Reified:
    """A triple pattern and the reifier that stands for it; an annotated triple also asserts itself, a quoted one does not."""

    reifier: Node
    triple: Triple
    annotated: bool


class Patterns:
    """Collects the patterns of a group as RDF 1.2 has them.

    ``<< s p o >> q v`` and ``s p o {| q v |}`` become a reifier of the triple and a plain triple from the reifier to the value.

    Raises:
        SparqlError: A node stands where the language has none.
    """

    def __init__(self, triples: Iterable[Node], terms: SparqlTerms) -> None:
        self.plain: list[Triple] = []
        self.reified: list[Reified] = []
        self._terms = terms
        for tree in triples:
            subject, *properties = tree.children
            if is_tree(subject, "triple_term"):
                raise refused(subject, "triple term")
            node = self._reify(subject) if is_tree(subject, "reified") else self._node(subject)
            for part in properties:
                self._properties(node, part)

    def key(self, node: Node) -> Key:
        """Returns what tells a node apart from others."""
        match getattr(node, "type", None):
            case "VAR":
                return "variable", str(node)[1:]
            case "BLANK":
                return "blank", str(node)
            case "ANON":
                return "anonymous", node.start_pos
            case "IRI" | "PNAME":
                return "iri", self._terms.iri(node)
        return "literal", id(node)

    def _properties(self, subject: Node, properties: Node) -> None:
        for pair in properties.children:
            relation, *objects = pair.children
            for object_ in objects:
                node, *annotations = object_.children
                self._triple(subject, relation, node, annotations)

    def _triple(self, subject: Node, relation: Node, node: Node, annotations: list[Node]) -> None:
        reifies = getattr(relation, "type", None) in ("IRI", "PNAME") and self._terms.iri(relation) == REIFIES
        if is_tree(node, "triple_term"):
            if not reifies:
                raise refused(node, "triple term")
            if annotations:
                raise refused(annotations[0], "qualified qualifier")
            self.reified.append(Reified(subject, _quoted(*node.children), annotated=False))
            return
        if reifies:
            raise refused(relation, "reifies")
        triple = Triple(subject, relation, self._node(node))
        if not annotations:
            self.plain.append(triple)
        reifier: Node | None = None
        for annotation in annotations:
            if annotation.data == "reifier":
                reifier = _named(annotation)
                self.reified.append(Reified(reifier, triple, annotated=True))
            else:
                # A block speaks of the reifier right before it, else of a new one: a second block is a second statement.
                if reifier is None:
                    reifier = _anonymous(annotation)
                    self.reified.append(Reified(reifier, triple, annotated=True))
                self._properties(reifier, annotation.children[0])
                reifier = None

    def _node(self, node: Node) -> Node:
        """Returns a node as it is; ``[ p o ]`` becomes a blank node with its triples."""
        if is_tree(node, "blank_list"):
            blank = _anonymous(node)
            self._properties(blank, node.children[0])
            return blank
        if is_tree(node, "reified"):
            raise refused(node, "statement as node")
        return node

    def _reify(self, tree: Node) -> Node:
        """Returns the reifier of ``<< s p o >>``."""
        *parts, name = tree.children
        reifier = _anonymous(tree) if name is None else _named(name)
        self.reified.append(Reified(reifier, _quoted(*parts), annotated=False))
        return reifier


def _quoted(subject: Node, relation: Node, object_: Node) -> Triple:
    for node in (subject, object_):
        if is_tree(node, "reified", "triple_term"):
            raise refused(node, "statement as node")
    return Triple(subject, relation, object_)


def is_tree(node: Node, *kinds: str) -> bool:
    """Says whether a node is composed, by one of these rules of the grammar."""
    return getattr(node, "data", None) in kinds


def variables_of(tree: Node) -> list[Node]:
    """Returns every variable below a tree, once for each time it occurs."""
    return list(tree.scan_values(lambda value: getattr(value, "type", None) == "VAR"))


def _named(reifier: Node) -> Node:
    """Returns the node after ``~``, or a new one."""
    return reifier.children[0] or _anonymous(reifier)


def _anonymous(tree: Node) -> Node:
    """Returns a blank node of its own for a tree, at its place."""
    from lark import Token

    meta = tree.meta
    return Token("ANON", "[]", meta.start_pos, meta.line, meta.column, meta.end_line, meta.end_column, meta.end_pos)
