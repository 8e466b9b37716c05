"""The triple patterns of a group with every shorthand undone: plain triples, and triples that have a reifier."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from starqe.kg.iris import REIFIES
from starqe.queries.sparql.syntax import Node, known_only
from starqe.queries.sparql.terms import SparqlTerms

Key: TypeAlias = tuple[str, object]
"""What tells nodes apart: two nodes of a text are the same exactly if their keys are equal."""


@dataclass(frozen=True)
class Triple:
    """A triple pattern; its relation is a variable, a name or a path."""

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
        KnownOnlyError: A node stands where a graph of entities has none.
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
                self._triple(subject, simple(relation), node, annotations)

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
        elif is_tree(relation, "path"):
            raise known_only(annotations[0], "qualified path")
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
    """The nodes that stand for statements in Wikidata's way."""


def block_text(patterns: Patterns, text: str, written: Mapping[int, tuple[int, str | None]]) -> str:
    """Writes patterns again without any shorthand, as a store takes them.

    Args:
        patterns: The patterns.
        text: The text that they come from.
        written: Where strings stand that name something, and the IRI for each.
    """

    def node(one: Node) -> str:
        if getattr(one, "type", None) == "ANON":
            return f"_:anonymous{one.start_pos}"
        if not hasattr(one, "children"):
            return str(one)
        start, end = one.meta.start_pos, one.meta.end_pos
        return written.get(start, (end, None))[1] or text[start:end]

    def triple(one: Triple) -> str:
        return f"{node(one.subject)} {node(one.relation)} {node(one.object)}"

    lines = [f"{node(one.reifier)} <{REIFIES}> <<( {triple(one.triple)} )>> . {triple(one.triple)}" for one in patterns.reified]
    return " . ".join([*lines, *map(triple, patterns.plain)])


def simple(relation: Node) -> Node:
    """Returns the name that a path of one step is, and any other path as it is."""
    while is_tree(relation, "path") and len(relation.children) == 1 and len(relation.children[0].children) == 1:
        (step,) = relation.children[0].children
        if len(step.children) > 1 or is_tree(step.children[0], "negated"):
            break
        relation = step.children[0]
    return relation


def _quoted(subject: Node, relation: Node, object_: Node) -> Triple:
    for node in (subject, object_):
        if is_tree(node, "reified", "triple_term"):
            raise known_only(node, "statement as node")
    return Triple(subject, relation, object_)


def is_tree(node: Node, *kinds: str) -> bool:
    """Says whether a node is composed, by one of these rules of the grammar."""
    return getattr(node, "data", None) in kinds


def variables_of(tree: Node) -> list[Node]:
    """Returns every variable below a tree (or token), once for each time it occurs."""
    if not hasattr(tree, "scan_values"):
        return [tree] if getattr(tree, "type", None) == "VAR" else []
    return list(tree.scan_values(lambda value: getattr(value, "type", None) == "VAR"))


def _named(reifier: Node) -> Node:
    """Returns the node after ``~``, or a new one."""
    return reifier.children[0] or _anonymous(reifier)


def _anonymous(tree: Node) -> Node:
    """Returns a blank node of its own for a tree, at its place."""
    from lark import Token

    meta = tree.meta
    return Token("ANON", "[]", meta.start_pos, meta.line, meta.column, meta.end_line, meta.end_column, meta.end_pos)
