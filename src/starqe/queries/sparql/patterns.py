"""The triple patterns of a group without shorthands: plain triples, and triples that have a reifier."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from starqe.kg.iris import REIFIES
from starqe.queries.sparql.syntax import Node, first_token, known_only, parts_of
from starqe.queries.sparql.terms import SparqlTerms

Written: TypeAlias = Mapping[int, tuple[int, str | None]]
"""The positions of strings that name something: begin -> end, and the IRI (None for a blank node, which has none)."""
Key: TypeAlias = tuple[str, object]
"""The key of a node: two nodes of a text are the same exactly if their keys are equal."""


@dataclass(frozen=True)
class Triple:
    """A triple pattern; its relation is a variable, a name or a path."""

    subject: Node
    relation: Node
    object: Node


@dataclass(frozen=True)
class Reified:
    """A triple pattern and its reifier; an annotated triple also asserts itself, a quoted one does not."""

    reifier: Node
    triple: Triple
    annotated: bool


class Patterns:
    """Collects the patterns of a group, in the form of RDF 1.2.

    ``<< s p o >> q v`` and ``s p o {| q v |}`` become a reifier of the triple and a plain triple from the reifier to the value.

    Raises:
        KnownOnlyError: A node is at a place where a graph of entities has none.
    """

    def __init__(self, triples: Iterable[Node], terms: SparqlTerms) -> None:
        self.plain: list[Triple] = []
        self.reified: list[Reified] = []
        self._terms = terms
        for tree in triples:
            subject, *properties = tree.children
            if is_tree(subject, "triple_term"):
                raise known_only(subject, "triple term")
            node = self._reify(subject) if is_tree(subject, "reified") else self._node(subject)
            for part in properties:
                self._properties(node, part)
        if terms.wikidata is not None:
            self._read_statement_nodes()

    def key(self, node: Node) -> Key:
        """Returns the key of a node."""
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

    @property
    def variables(self) -> set[str]:
        """The names of the variables in the patterns."""
        triples = [*self.plain, *(one.triple for one in self.reified)]
        nodes = [*(node for one in triples for node in (one.subject, one.relation, one.object)), *(one.reifier for one in self.reified)]
        return {node[1:] for node in nodes if getattr(node, "type", None) == "VAR"}

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
                raise known_only(node, "triple term")
            if annotations:
                raise known_only(annotations[0], "qualified qualifier")
            self.reified.append(Reified(subject, _quoted(*node.children), annotated=False))
            return
        if reifies:
            raise known_only(relation, "reifies")
        triple = Triple(subject, relation, self._node(node))
        if not annotations:
            self.plain.append(triple)
        elif is_path(relation):
            raise known_only(annotations[0], "qualified path")
        reifier: Node | None = None
        for annotation in annotations:
            if annotation.data == "reifier":
                reifier = _named(annotation)
                self.reified.append(Reified(reifier, triple, annotated=True))
            else:
                # A block is about the reifier right before it, or else about a new one: a second block is a second statement.
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
            raise known_only(node, "statement as node")
        if is_tree(node, "collection"):
            raise known_only(node, "collection")
        return node

    def _reify(self, tree: Node) -> Node:
        """Returns the reifier of ``<< s p o >>``."""
        *parts, name = tree.children
        reifier = _anonymous(tree) if name is None else _named(name)
        self.reified.append(Reified(reifier, _quoted(*parts), annotated=False))
        return reifier

    def _read_statement_nodes(self) -> None:
        """Reads Wikidata's statement nodes as reifiers: ``s p:P ?n . ?n ps:P o ; pq:Q v``, where a qualifier follows, else as a triple."""
        roles = [(triple, *self._terms.statement_role(triple.relation)) for triple in self.plain]
        heads = {self.key(triple.object): (triple, name) for triple, role, name in roles if role == "statement"}
        qualified = {self.key(triple.subject) for triple, role, _ in roles if role == "qualifier"}
        kept: list[Triple] = []
        for triple, role, name in roles:
            node = self.key(triple.subject)
            if role == "" or (role == "statement" and node not in heads):
                if role == "":
                    kept.append(triple)
                continue
            if node not in heads or (role == "value" and heads[node][1] != name):
                raise known_only(triple.relation, "statement as node")
            relation = self._terms.direct(triple.relation, name)
            if role == "qualifier":
                kept.append(Triple(triple.subject, relation, triple.object))
                continue
            main = Triple(heads[node][0].subject, relation, triple.object)
            if node in qualified:
                self.reified.append(Reified(triple.subject, main, annotated=False))
            else:
                kept.append(main)
        valued = {self.key(triple.subject) for triple, role, _ in roles if role == "value"}
        for node, (triple, _) in heads.items():
            if node not in valued or node[0] not in ("variable", "blank", "anonymous"):
                raise known_only(triple.relation, "statement as node")
        self.plain = kept
        self.statement_nodes = frozenset(heads)

    statement_nodes: frozenset[Key] = frozenset()
    """The statement nodes of Wikidata's model."""


def block_text(patterns: Patterns, text: str, written: Written) -> str:
    """Writes patterns for a store, without any shorthand.

    Args:
        patterns: The patterns.
        text: The text that they come from.
        written: The strings in it that name something.
    """
    lines = []
    for one in patterns.reified:
        triple = triple_text(one.triple, text, written)
        lines.append(f"{_node_text(one.reifier, text, written)} <{REIFIES}> <<( {triple} )>> . {triple}")
    return " . ".join([*lines, *(triple_text(one, text, written) for one in patterns.plain)])


def triple_text(triple: Triple, text: str, written: Written) -> str:
    """Writes one triple pattern for a store."""
    return " ".join(_node_text(node, text, written) for node in (triple.subject, triple.relation, triple.object))


def _node_text(node: Node, text: str, written: Written) -> str:
    if getattr(node, "type", None) == "ANON":
        return f"_:anonymous{node.start_pos}"
    if not hasattr(node, "children"):
        return str(node)
    return written.get(node.start_pos, (node.end_pos, None))[1] or text[node.start_pos : node.end_pos]


def is_path(relation: Node) -> bool:
    """Returns whether a relation is a path, and not one name or variable."""
    return is_tree(relation, "path", "sequence", "step", "negated")


def _quoted(subject: Node, relation: Node, object_: Node) -> Triple:
    for node in (subject, object_):
        if is_tree(node, "reified", "triple_term"):
            raise known_only(node, "statement as node")
    return Triple(subject, relation, object_)


def is_tree(node: Node, *kinds: str) -> bool:
    """Returns whether a node is composed, by one of these rules of the grammar."""
    return getattr(node, "data", None) in kinds


def variables_of(tree: Node) -> Sequence[Node]:
    """Returns every occurrence of a variable below a tree (or token)."""
    if not hasattr(tree, "parts"):
        return [tree] if getattr(tree, "type", None) == "VAR" else []
    return parts_of(tree, "VAR")


def _named(reifier: Node) -> Node:
    """Returns the node after ``~``, or a new one."""
    return reifier.children[0] or _anonymous(reifier)


def _anonymous(tree: Node) -> Node:
    """Returns a new blank node for a tree, at its position."""
    from lark import Token

    first = first_token(tree)
    return Token("ANON", "[]", first.start_pos, first.line, first.column, end_pos=tree.end_pos)
