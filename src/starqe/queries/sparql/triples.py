"""Triple patterns as formulas: nodes, paths, and statements with their qualifiers."""

from collections.abc import Collection, Iterator

from starqe.queries.formula import Atom, Same, Term, Variable
from starqe.queries.sparql.expressions import Truth, all_of, any_of
from starqe.queries.sparql.patterns import Key, Patterns, Triple, is_path
from starqe.queries.sparql.syntax import Node, known_only, parts_of
from starqe.queries.sparql.terms import SparqlTerms


class NodeReader:
    """Reads the nodes and paths of one text, and collects what its variables range over.

    Args:
        tree: The tree of the whole text.
        terms: Reads names.
        taken: The names of the variables in the text.
    """

    def __init__(self, tree: Node, terms: SparqlTerms, taken: Collection[str]) -> None:
        self._terms, self._taken = terms, taken
        self.relations, self.labels, self.literals = _kinds(tree, terms)
        """The names of the variables that range over relations, over labels, and over other literals."""
        self.entities: dict[str, Node] = {}
        """The variables that range over entities, with a place of each."""
        self._blanks: dict[Key, Variable] = {}
        self._fresh_count = 0

    def entity(self, node: Node, patterns: Patterns) -> Term:
        """Reads a head, tail or value."""
        key = patterns.key(node)
        if key[0] in ("iri", "literal"):
            return self._terms.entity(node)
        if key[0] == "variable":
            name = str(key[1])
            if name in self.labels:
                raise known_only(node, "label")
            if name in self.literals:
                raise known_only(node, "literal")
            self.entities.setdefault(name, node)
            return Variable(name)
        if key not in self._blanks:
            self._blanks[key] = self.fresh()
        return self._blanks[key]

    def relation(self, node: Node) -> Term:
        """Reads a relation.

        Raises:
            KnownOnlyError: Its values are literals.
        """
        if getattr(node, "type", None) == "VAR":
            return Variable(node[1:])
        relation = self._terms.relation(node)
        if relation in self._terms.only_literals:
            raise known_only(node, "literal")
        return relation

    def literal_relation(self, node: Node) -> str:
        """Reads a relation whose values are literals."""
        return self._terms.relation(node)

    def fresh(self, of_relations: bool = False) -> Variable:
        """Returns a variable with a name that the text does not have."""
        while True:
            self._fresh_count += 1
            name = f"blank{self._fresh_count}"
            if name not in self._taken:
                if of_relations:
                    self.relations = self.relations | {name}
                return Variable(name)

    def path(self, head: Term, path: Node, tail: Term, facts: bool) -> Truth:
        """Reads a path, or a single relation, from one end to the other."""
        match getattr(path, "data", None):
            case "path":
                return any_of(self.path(head, part, tail, facts) for part in path.children)
            case "sequence":
                return self._sequence(head, path.children, tail, facts)
            case "step":
                return self._step(head, path, tail, facts)
            case "negated":
                raise known_only(path, "negated path")
        if self._terms.is_label(path):
            raise known_only(path, "label")
        return Atom(head, self.relation(path), tail, fact=facts)

    def _sequence(self, head: Term, steps: list[Node], tail: Term, facts: bool) -> Truth:
        found = []
        for number, step in enumerate(steps):
            end = tail if number == len(steps) - 1 else self.fresh()
            found.append(self.path(head, step, end, facts))
            head = end
        return all_of(found)

    def _step(self, head: Term, step: Node, tail: Term, facts: bool) -> Truth:
        signs = {getattr(child, "type", None) for child in step.children}
        if signs & {"STAR", "MORE"}:
            raise known_only(step, "recursion")
        inner = next(child for child in step.children if getattr(child, "type", None) not in ("INVERSE", "MAYBE"))
        start, end = (tail, head) if "INVERSE" in signs else (head, tail)
        found = self.path(start, inner, end, facts)
        return found if "MAYBE" not in signs else any_of([head == tail or Same(head, tail), found])


class Statements:
    """The statements of some triple patterns: those with a reifier, and plain ones."""

    def __init__(self, reader: NodeReader, patterns: Patterns, facts: bool) -> None:
        self._reader, self._patterns, self._facts = reader, patterns, facts
        self.mains: dict[Key, tuple[Term, Term, Term]] = {}
        """The main triple of each reifier."""
        self._quoted: set[tuple[Term, Term, Term]] = set()
        self._places: dict[Key, Node] = {}
        keys = {patterns.key(reified.reifier) for reified in patterns.reified}
        for reified in patterns.reified:
            key = patterns.key(reified.reifier)
            if key[0] in ("literal", "iri"):
                raise known_only(reified.reifier, "named statement")
            if {patterns.key(reified.triple.subject), patterns.key(reified.triple.object)} & keys:
                raise known_only(reified.triple.subject, "qualified qualifier")
            main = self._main(reified.triple)
            if self.mains.setdefault(key, main) != main:
                raise known_only(reified.reifier, "two statements")
            self._places[key] = reified.reifier
            if not reified.annotated:
                self._quoted.add(main)

    def reified(self) -> Iterator[Atom]:
        """Yields an atom for each statement with a reifier."""
        pairs: dict[Key, list[tuple[Term, Term]]] = {key: [] for key in self.mains}
        for triple in self._patterns.plain:
            if (key := self._patterns.key(triple.subject)) in pairs:
                if is_path(triple.relation):
                    raise known_only(triple.relation, "qualified path")
                pairs[key].append((self._reader.relation(triple.relation), self._object(triple.object)))
        for key, found in pairs.items():
            if not found:
                raise known_only(self._places[key], "no qualifier")
            yield Atom(*self.mains[key], tuple(found), fact=self._facts)

    def plain(self, triple: Triple) -> "Truth | None":
        """Returns a triple that is not a qualifier; None if the same triple is quoted, which means the same."""
        if is_path(triple.relation):
            head, tail = self._reader.entity(triple.subject, self._patterns), self._object(triple.object)
            return self._reader.path(head, triple.relation, tail, self._facts)
        main = self._main(triple)
        return None if main in self._quoted else Atom(*main, fact=self._facts)

    def _main(self, triple: Triple) -> tuple[Term, Term, Term]:
        head = self._reader.entity(triple.subject, self._patterns)
        return head, self._reader.relation(triple.relation), self._object(triple.object)

    def _object(self, node: Node) -> Term:
        if self._patterns.key(node) in self.mains:
            raise known_only(node, "statement as node")
        return self._reader.entity(node, self._patterns)


def _kinds(tree: Node, terms: SparqlTerms) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Returns the names of the variables that range over relations, over labels, and over other literals."""
    relations, labels, literals = set[str](), set[str](), set[str]()
    for pair in parts_of(tree, "pair"):
        relation = pair.children[0]
        if getattr(relation, "type", None) == "VAR":
            relations.add(relation[1:])
        elif terms.is_label(relation) or terms.has_literals(relation):
            found = {object_.children[0][1:] for object_ in pair.children[1:] if getattr(object_.children[0], "type", None) == "VAR"}
            (labels if terms.is_label(relation) else literals).update(found)
    for kind in ("reified", "triple_term"):
        relations |= {part.children[1][1:] for part in parts_of(tree, kind) if getattr(part.children[1], "type", None) == "VAR"}
    return frozenset(relations), frozenset(labels), frozenset(literals)
