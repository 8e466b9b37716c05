"""Groups of SPARQL as cases: formulas, each with the variables that it binds.

A group falls into several cases where its rows may bind different variables. In one case every variable either has a value or has
none, so that filters, MINUS and OPTIONAL have the meaning that SPARQL gives them: OPTIONAL is the case in which its group holds, and
the case in which it does not.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from starqe.kg.graph import Graph
from starqe.queries.formula import And, Atom, Formula, Same, Term, Variable, atoms_of, substitute
from starqe.queries.sparql.expressions import LabelTest, Scope, Truth, all_of, any_of, condition, conjuncts, label_test, none_of
from starqe.queries.sparql.literal_facts import LiteralFact, literal_condition, literal_fact
from starqe.queries.sparql.patterns import Patterns, Triple, block_text, is_tree, variables_of
from starqe.queries.sparql.syntax import Node, error_at, known_only, parts_of, refused
from starqe.queries.sparql.terms import SparqlTerms
from starqe.queries.sparql.triples import NodeReader, Statements

KNOWN_SERVICE = "urn:starqe:known"
"""The IRI of the service whose patterns have to be facts."""
MAX_CASES = 16
"""The largest number of cases that a query may fall into."""


@dataclass(frozen=True)
class LabelPattern:
    """A label column of a row: a label of an entity, or the condition that it has none."""

    subject: Term
    variable: Variable
    tests: tuple[LabelTest, ...] = ()
    absent: bool = False


@dataclass(frozen=True)
class Case:
    """One case of a group: conditions that hold together, and the variables that they bind."""

    conditions: tuple[Formula, ...] = ()
    bound: frozenset[Variable] = frozenset()
    labels: tuple[LabelPattern, ...] = ()
    facts: tuple[LiteralFact, ...] = ()
    """Patterns with literal values, and conditions on these."""

    def __and__(self, other: "Case") -> "Case":
        return Case(self.conditions + other.conditions, self.bound | other.bound, self.labels + other.labels, self.facts + other.facts)

    def holding(self, truth: Truth) -> Iterator["Case"]:
        """Yields the case with one more condition, unless that never holds."""
        if truth is True:
            yield self
        elif truth is not False:
            yield replace(self, conditions=(*self.conditions, *(truth.parts if isinstance(truth, And) else (truth,))))


@lru_cache(maxsize=8)
def qualifier_relations(graph: Graph) -> frozenset[str]:
    """Returns the relations that qualifiers of the graph have: in RDF, their triples begin at statements."""
    return frozenset(graph.relations.identifier(id_) for id_ in np.unique(graph.pair_relation).tolist())


class GroupReader:
    """Reads the groups of one text; its methods raise a SparqlError at the place that breaks a rule.

    Args:
        tree: The tree of the whole text.
        terms: Reads names.
        graph: The graph.
        text: The whole text.
    """

    def __init__(self, tree: Node, terms: SparqlTerms, graph: Graph, text: str) -> None:
        self._terms, self._graph, self._text = terms, graph, text
        self.rewritten: list[tuple[int, int, str]] = []
        """Parts of the text that are rewritten for a store: begin, end, replacement."""
        self._occurring = Counter(token[1:] for token in variables_of(tree))
        self.all_visible = any(getattr(part.children[0], "type", None) == "STAR" for part in parts_of(tree, "projection"))
        self.nodes = NodeReader(tree, terms, self._occurring)
        self.reifiers: dict[str, Node] = {}
        self._blanks, self._blank_places = bool(parts_of(tree, "BLANK")), dict[str, Node]()
        self.atoms = 0
        self._qualifier_relations = qualifier_relations(graph)

    def cases(self, group: Node, outer: frozenset[Variable] = frozenset(), facts: bool = False) -> list[Case]:
        """Returns the cases of a group.

        Args:
            group: The tree of the group.
            outer: Variables that are bound outside: those of the row for which EXISTS is tested.
            facts: Whether its patterns have to be facts.
        """
        found, filters = self._unfiltered(group, outer, facts)
        return self._filtered(found, filters, outer, facts)

    def _unfiltered(self, group: Node, outer: frozenset[Variable], facts: bool) -> tuple[list[Case], list[Node]]:
        """Returns the cases of a group without its own filters, and these."""
        found, filters, run = [Case()], [], list[Node]()
        for part in group.children:
            kind = part.data
            if kind in ("triples", "values"):
                run.append(part)
                continue
            if kind == "filter":
                filters.append(part.children[0])
                continue
            found, run = self._with_run(found, run, facts), []
            match kind:
                case "union":
                    found = self._joined(found, self._union(part, outer, facts))
                case "optional":
                    found = self._optional(found, part.children[0], outer, facts)
                case "minus":
                    removed = self.cases(part.children[0], frozenset(), facts)
                    found = [kept for case in found for kept in self._minus(case, removed, part)]
                case "service":
                    found = self._joined(found, self._service(part, outer))
                case "graph":
                    raise refused(part, "graph")
                case "bind" | "sub_select":
                    raise known_only(part, kind.replace("_", "-"))
        return self._with_run(found, run, facts), filters

    def _with_run(self, found: list[Case], run: list[Node], facts: bool) -> list[Case]:
        """Joins a sequence of triple patterns and VALUES."""
        found = self._joined(found, self._triples([part for part in run if part.data == "triples"], facts))
        for values in (part for part in run if part.data == "values"):
            found = self._joined(found, self.values(values))
        return found

    def _joined(self, found: list[Case], more: list[Case]) -> list[Case]:
        joined = [one & other for one in found for other in more]
        if len(joined) > MAX_CASES:
            raise known_only(self._place, "many alternatives")
        if any(len({label.variable for label in one.labels}) < len(one.labels) for one in joined):  # one column, labels of two entities
            raise known_only(self._place, "label")
        return joined

    _place: Node = None

    def _filtered(self, found: list[Case], filters: list[Node], outer: frozenset[Variable], facts: bool) -> list[Case]:
        for node in (part for one in filters for part in conjuncts(one)):
            found = [kept for case in found for kept in self._with_filter(case, node, outer, facts)]
        return found

    def _with_filter(self, case: Case, node: Node, outer: frozenset[Variable], facts: bool) -> Iterator[Case]:
        names = _compared(node)
        if of_labels := names & self.nodes.labels:
            if len(names) > 1:
                raise known_only(node, "label")
            own = [label for label in case.labels if label.variable.name in of_labels and not label.absent]
            test = label_test(node, self._terms)
            if own:  # else it compares a label that is not bound, which is an error
                yield replace(case, labels=tuple(replace(one, tests=(*one.tests, test)) if one in own else one for one in case.labels))
            return
        if of_literals := names & self.nodes.literals:
            if of_literals != names or (parts_of(node, "exists") if hasattr(node, "children") else False):
                raise known_only(node, "function")
            yield replace(case, facts=(*case.facts, literal_condition(node, self._text)))
            return
        bound = case.bound | outer
        others = {*self.nodes.labels, *self.reifiers}
        scope = Scope(self._terms, bound, self.nodes.relations, others, lambda group: self._exists(group, bound, facts))
        yield from case.holding(condition(node, scope)[0])

    def _exists(self, group: Node, bound: frozenset[Variable], facts: bool) -> Truth:
        """Returns when a group has a solution, given the variables of a row."""
        return any_of(self._inner(case.conditions, bound, case, group) for case in self.cases(group, bound, facts))

    def _inner(self, conditions: Iterable[Formula], shared: frozenset[Variable], case: Case, place: Node) -> Truth:
        """Returns conditions as a part of a negation or of EXISTS: variables that are not shared are renamed."""
        if case.labels or case.facts:
            raise known_only(place, "label" if case.labels else "literal")
        own: dict[Variable, Variable] = {}

        def renamed(term: Term) -> Term:
            if not isinstance(term, Variable) or term in shared:
                return term
            if term not in own:
                own[term] = self.nodes.fresh(term.name in self.nodes.relations)
            return own[term]

        found = [substitute(part, renamed) for part in conditions]
        if self._is_open(found, shared):
            raise known_only(place, "open negation")
        return all_of(found)

    def _minus(self, case: Case, removed: list[Case], place: Node) -> Iterator[Case]:
        truths = []
        for other in removed:
            if shared := case.bound & other.bound:
                self._refuse_texts({variable.name for variable in shared}, place)
                truths.append(none_of(self._inner(other.conditions, shared, other, place)))
        yield from case.holding(all_of(truths))

    def _refuse_texts(self, names: set[str], place: Node) -> None:
        """Refuses variables of labels or other literals where entities are compared."""
        for kind, texts in (("label", self.nodes.labels), ("literal", self.nodes.literals)):
            if names & texts:
                raise known_only(place, kind)

    def _optional(self, found: list[Case], group: Node, outer: frozenset[Variable], facts: bool) -> list[Case]:
        more, filters = self._unfiltered(group, outer, facts)
        both: list[Case] = []
        for case in found:
            joined = self._filtered(self._joined([case], more), filters, outer, facts)
            both += joined
            if any(one.facts != case.facts for one in joined):
                raise known_only(group, "literal")
            if len(joined) == 1 and joined[0].conditions == case.conditions and len(joined[0].labels) == len(case.labels) + 1:
                if isinstance(of := joined[0].labels[-1].subject, Variable) and of not in case.bound | outer:  # any entity has it here
                    raise known_only(group, "label")
                both.append(replace(case, labels=(*case.labels, replace(joined[0].labels[-1], absent=True))))
                continue
            # If a negation could match more in a store than it says here, only the case in which the group holds is predicted.
            rest = [one.conditions[len(case.conditions) :] for one in joined]
            if any(one.labels != case.labels for one in joined):
                raise known_only(group, "label")
            if not any(self._is_open(conditions, case.bound | outer) for conditions in rest):
                inner = [self._inner(conditions, case.bound | outer, Case(), group) for conditions in rest]
                both += case.holding(none_of(any_of(inner)))
        if len(both) > MAX_CASES:
            raise known_only(group, "many alternatives")
        return both

    def _is_open(self, conditions: Sequence[Formula], shared: frozenset[Variable]) -> bool:
        """Returns whether a store could match conditions by more than statements: by labels, or by the nodes of statements.

        A relation that is a variable may be rdfs:label or rdf:reifies. A head that is a variable may be the node of a statement, if the
        relation is one of qualifiers too, unless another condition says that it is an entity.
        """
        sure = set(shared)
        for atom in (part.plain for part in conditions if isinstance(part, Atom)):
            heads = [atom.head] if atom.qualifiers or atom.relation not in self._qualifier_relations else []
            sure |= {term for term in (atom.tail, *heads, *(value for _, value in atom.qualifiers)) if isinstance(term, Variable)}
        for atom in (atom.plain for part in conditions for atom in atoms_of(part)):
            if any(isinstance(term, Variable) for term in (atom.relation, *(key for key, _ in atom.qualifiers))):
                return True
            if (
                isinstance(atom.head, Variable)
                and atom.head not in sure
                and not atom.qualifiers
                and atom.relation in self._qualifier_relations
            ):
                return True
        return False

    def _union(self, union: Node, outer: frozenset[Variable], facts: bool) -> list[Case]:
        """Returns the cases of a UNION; cases that bind the same outer variables become one disjunction."""
        found = [case for group in union.children for case in self.cases(group, outer, facts)]
        if len(union.children) == 1:
            return found
        inside = Counter(token[1:] for token in variables_of(union))
        seen = {name for name in inside if self.all_visible or self._occurring[name] > inside[name]}
        return merged(found, {Variable(name) for name in seen})

    def _service(self, service: Node, outer: frozenset[Variable]) -> list[Case]:
        name = service.children[-2]
        if getattr(name, "type", None) == "VAR" or self._terms.iri(name) != KNOWN_SERVICE:
            raise refused(service, "service")
        return self.cases(service.children[-1], outer, facts=True)

    def values(self, values: Node) -> list[Case]:
        """Returns a case for each set of variables that rows of VALUES bind."""
        names = [child[1:] for child in values.children if not is_tree(child, "single", "row")]
        rows: dict[frozenset[Variable], list[Truth]] = {}
        for row in (child for child in values.children if is_tree(child, "single", "row")):
            if len(row.children) != len(names):
                found = f"found {len(names)} and {len(row.children)}"
                raise error_at(row, f"VALUES has a value for each variable, {found}", "Write VALUES (?x ?y) { (:a :b) }")
            given = [(name, node) for name, node in zip(names, row.children, strict=True) if getattr(node, "type", None) != "UNDEF"]
            self._refuse_texts({name for name, _ in given}, row)
            same: list[Truth] = []
            for name, node in given:
                entity = self._terms.known_entity(node, of_relations=name in self.nodes.relations)
                same.append(False if entity is None else Same(Variable(name), entity))
            rows.setdefault(frozenset(Variable(name) for name, _ in given), []).append(all_of(same))
        return [kept for bound, truths in rows.items() for kept in Case(bound=bound).holding(any_of(truths))]

    def _triples(self, triples: list[Node], facts: bool) -> list[Case]:
        """Returns the case of some triple patterns that all have to hold."""
        if not triples:
            return [Case()]
        self._place = self._place or triples[0]
        patterns = Patterns(triples, self._terms)
        for part in triples if self._blanks else ():
            for token in parts_of(part, "BLANK"):
                if self._blank_places.setdefault(str(token), triples[0]) is not triples[0]:
                    raise error_at(token, f"a blank node belongs to one group, found {token} in a second one", "Use a variable")
        reader = Statements(self.nodes, patterns, facts)
        conditions: list[Truth] = [*reader.reified()]
        labels: list[LabelPattern] = []
        literals: list[LiteralFact] = []
        for triple in patterns.plain:
            if patterns.key(triple.subject) in reader.mains:
                continue
            if self._terms.is_label(triple.relation):
                conditions.append(self._label(triple, patterns, labels))
            elif self._terms.has_literals(triple.relation):
                literals.append(literal_fact(triple, patterns, self.nodes, self._text, self._terms.written))
            elif (own := reader.plain(triple)) is not None:
                conditions.append(own)
        self.atoms += len(literals) + sum(1 for part in conditions if not isinstance(part, bool) for _ in atoms_of(part))
        if patterns.statement_nodes:
            block = block_text(patterns, self._text, self._terms.written)
            self.rewritten += [(part.start_pos, part.end_pos, block) for part in triples]
        named = patterns.variables
        statements = {str(key[1]) for key in (*reader.mains, *patterns.statement_nodes) if key[0] == "variable"}
        self.reifiers |= dict.fromkeys(statements, triples[0])
        bound = frozenset(Variable(name) for name in named - statements)
        return list(Case((), bound, tuple(labels), tuple(literals)).holding(all_of(conditions)))

    def _label(self, triple: Triple, patterns: Patterns, labels: list[LabelPattern]) -> Truth:
        """Reads a pattern with rdfs:label: a label to be shown, or one that identifies its entity."""
        relational = getattr(triple.subject, "type", None) == "VAR" and triple.subject[1:] in self.nodes.relations
        subject = Variable(triple.subject[1:]) if relational else self.nodes.entity(triple.subject, patterns)
        if getattr(triple.object, "type", None) == "VAR":
            labels.append(LabelPattern(subject, Variable(triple.object[1:])))
            return True
        if (literal := self._terms.literal(triple.object)) is None or relational:
            raise known_only(triple.object, "label")
        found = self._terms.labelled(*literal)
        return any_of((subject == entity) if isinstance(subject, str) else Same(subject, entity) for entity in found)


def merged(cases: list[Case], seen: set[Variable]) -> list[Case]:
    """Merges cases that bind the same visible variables into one disjunction."""
    groups: dict[frozenset[Variable], list[Case]] = {}
    for case in cases:
        groups.setdefault(case.bound & seen, []).append(case)
    found: list[Case] = []
    for bound, members in groups.items():
        if len(members) == 1 or any(member.labels or member.facts for member in members):
            found += members
            continue
        common = [part for part in members[0].conditions if all(part in member.conditions for member in members)]
        rest = any_of(all_of(part for part in member.conditions if part not in common) for member in members)
        found += Case(tuple(common), bound).holding(rest)
    return found


def _compared(node: Node) -> set[str]:
    """Returns the names of the variables whose values a condition uses directly: outside EXISTS and BOUND."""
    if is_tree(node, "exists") or (is_tree(node, "call") and node.children[0].upper() == "BOUND"):
        return set()
    return {token[1:] for token in variables_of(node)} if not hasattr(node, "children") else set().union(*map(_compared, node.children))
