"""Queries and explanations as drawings for the page: nodes and edges with their labels, and the groups of edges."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from string import ascii_uppercase
from typing import Any

from starqe.ask import Answer, Explanation
from starqe.kg import Graph, Statement, Vocabulary
from starqe.kg.literal import Literal
from starqe.queries import And, Atom, Not, Or, Query, Variable
from starqe.queries.formula import Formula, Same, Term, relation_variables, substitute, variables_of
from starqe.queries.sparql.request import SparqlRequest
from starqe.reason import Equation, Group, Reason
from starqe.reason.executor.derivation import Part
from starqe.serve import bodies, drawn


def named(vocabulary: Vocabulary, term: Term) -> drawn.Named:
    """Returns an entity or a relation with its label; the label of a variable is its name."""
    if isinstance(term, Variable):
        return drawn.Named(entity=str(term), label=str(term))
    return drawn.Named(entity=term, label=vocabulary.label(vocabulary.id(term)))


def draw(query: Query, graph: Graph, explanation: Explanation | None = None) -> drawn.Drawing:
    """Draws a query; an explanation adds the values of its variables and marks edges that are facts.

    Edges are in the order of the atoms of the plain form. A variable is one node, or one for each branch or negation that it belongs
    to alone; an entity is one node for each occurrence, with an id that no variable can have.
    """
    return _Drawer(query, graph, explanation).drawing()


def draw_request(request: SparqlRequest, graph: Graph) -> drawn.Drawing:
    """Draws a request: the part that all its alternatives share, and the parts that are optional or one of several options."""
    plain = [alternative.query.plain_form() for alternative in request.alternatives]
    answers = dict.fromkeys(variable for query in plain for variable in query.answers)
    if len(plain) == 1:
        return draw(plain[0], graph)
    parts = [dict.fromkeys(query.formula.parts if isinstance(query.formula, And) else (query.formula,)) for query in plain]
    shared = [part for part in parts[0] if all(part in other for other in parts)]
    rests = list(dict.fromkeys(tuple(part for part in own if part not in shared) for own in parts))
    branches: list[Formula] = [And(rest) if len(rest) > 1 else rest[0] for rest in rests if rest]
    outer: set[Variable] = set().union(*map(variables_of, shared))

    def form(branch: Formula) -> Formula:
        return substitute(branch, lambda term: Variable("any") if isinstance(term, Variable) and term not in outer else term)

    # OPTIONAL { A } is the alternative with A, and the one without, in which A must not match.
    present = {form(branch) for branch in branches if not isinstance(branch, Not)}
    wanted = [branch for branch in branches if not (isinstance(branch, Not) and form(branch.part) in present)]
    optional = len(wanted) < len(rests)
    either: tuple[Formula, ...] = (Or(tuple(wanted)),) if wanted else ()
    found = Query(And((*shared, *either)), tuple(answers))
    return _Drawer(found, graph, None, frozenset(a for one in wanted for a in _atoms(one)) if optional else frozenset()).drawing()


@dataclass(frozen=True)
class _Scope:
    """The context of a part of the formula."""

    outer: frozenset[Variable]
    """The variables that occur in other parts, and the answers."""
    nodes: Mapping[Variable, str]
    """The ids of the nodes of variables that occur in this part alone."""
    marks: tuple[drawn.Mark, ...] = ()
    used: bool = True
    """Whether the answer rests on it: not for the branches of a union that do not explain it."""


class _Drawer:
    """Collects nodes, edges and conditions of one query."""

    def __init__(self, query: Query, graph: Graph, explanation: Explanation | None, optional: frozenset[Atom] = frozenset()) -> None:
        self._query, self._graph = query.plain_form(), graph
        self._relations = relation_variables(query.formula)
        self._root = explanation.derivation.root if explanation else None
        self._optional = optional
        self._groups: dict[type, int] = {kind: len(list(_groups(self._query.formula, kind))) for kind in (Or, Not)}
        self._counted: dict[type, int] = {Or: 0, Not: 0}
        self._entered = 0
        self.nodes: dict[str, drawn.Node] = {}
        self.edges: list[drawn.Edge] = []
        self.conditions: list[drawn.Condition] = []

    def drawing(self) -> drawn.Drawing:
        self._add(self._query.formula, self._root, _Scope(frozenset(self._query.answers), {}))
        return drawn.Drawing(nodes=list(self.nodes.values()), edges=self.edges, conditions=self.conditions)

    def _add(self, formula: Formula, part: Part | None, scope: _Scope) -> None:
        inner = part.parts if isinstance(part, Group) else (None,) * len(getattr(formula, "parts", "1"))
        match formula:
            case Atom():
                self._edge(formula, part if isinstance(part, Reason) else None, scope)
            case Same():
                self._condition(formula, part if isinstance(part, Equation) else None, scope)
            case Not():
                self._add(formula.part, inner[0], self._inside(formula.part, self._negation(formula), scope))
            case And():
                for place, (one, of_part) in enumerate(zip(formula.parts, inner, strict=True)):
                    others = (variables_of(other) for number, other in enumerate(formula.parts) if number != place)
                    self._add(one, of_part, replace(scope, outer=scope.outer.union(*others)))
            case Or():
                number, title = self._number(Or), f"One of {len(formula.parts)} options: at least one of them holds"
                for place, (one, of_part) in enumerate(zip(formula.parts, inner, strict=True)):
                    mark = drawn.Mark(kind="option", text=f"option {number}{ascii_uppercase[place % 26]}", title=title)
                    used = scope.used and (not isinstance(part, Group) or place == part.chosen)
                    self._add(one, of_part, replace(self._inside(one, mark, scope), used=used))

    def _inside(self, formula: Formula, mark: drawn.Mark, scope: _Scope) -> _Scope:
        """Enters a branch or a negation: variables that occur only there get new nodes."""
        self._entered += 1
        own = {variable: f"{variable.name}@{self._entered}" for variable in variables_of(formula) - scope.outer}
        return replace(scope, nodes={**own, **scope.nodes}, marks=(*scope.marks, mark))

    def _number(self, kind: type[Or[Any]] | type[Not[Any]]) -> str:
        """Returns a number that distinguishes several unions, or several negations; empty if there is only one."""
        self._counted[kind] += 1
        return str(self._counted[kind]) if self._groups[kind] > 1 else ""

    def _negation(self, formula: Not[Atom | Same]) -> drawn.Mark:
        if isinstance(formula.part, Atom | Same):
            text, title = "not", "This must not hold"
        else:
            text, title = f"not together {self._number(Not)}".strip(), "These must not hold together"
        return drawn.Mark(kind="not", text=text, title=title)

    def _edge(self, atom: Atom, reason: Reason | None, scope: _Scope) -> None:
        number, filled = len(self.edges), reason.atom if reason else atom
        marks = [drawn.Mark(kind="option", text="optional", title="Shown where there is one")] if atom in self._optional else []
        pairs = [
            drawn.PlacedPair(relation=self._placed(key, key_filled), value=self._placed(value, value_filled, entity=True))
            for (key, value), (key_filled, value_filled) in zip(atom.qualifiers, _aligned(atom, filled), strict=True)
        ]
        ends = (
            self._node(term, f"{number}.{side}", scope, str(value) if reason else None)
            for side, term, value in (("head", atom.head, filled.head), ("tail", atom.tail, filled.tail))
        )
        head, tail = ends
        self.edges.append(
            drawn.Edge(
                from_=head,
                to=tail,
                relation=self._placed(atom.relation, filled.relation),
                qualifiers=pairs,
                marks=[*marks, *scope.marks],
                used=scope.used,
                fact=reason.fact if reason else None,
                probability=reason.probability if reason else None,
            )
        )

    def _condition(self, same: Same, equation: Equation | None, scope: _Scope) -> None:
        negated = bool(scope.marks) and scope.marks[-1].kind == "not"
        of_relations = any(term in self._relations for term in same.terms)
        vocabulary = self._graph.relations if of_relations else self._graph.entities
        terms = sorted(same.terms, key=lambda term: isinstance(term, str))
        left, right = (named(vocabulary, term).label for term in terms)
        holds = None if equation is None else bool(equation.truth) != negated
        marks = list(scope.marks[:-1] if negated else scope.marks)
        self.conditions.append(drawn.Condition(text=f"{left} {'≠' if negated else '='} {right}", marks=marks, holds=holds))

    def _node(self, term: Term, place: str, scope: _Scope, filled: str | None) -> str:
        graph = self._graph
        if isinstance(term, Variable):
            id_, kind = scope.nodes.get(term, term.name), "target" if term in self._query.answers else "variable"
            label = named(graph.entities, filled).label if filled is not None else str(term)
            node = drawn.Node(id=id_, kind=kind, entity=filled, label=label)
        else:
            node = drawn.Node(id=place, kind="anchor", entity=term, label=named(graph.entities, term).label)
        return self.nodes.setdefault(node.id, node).id

    def _placed(self, term: Term, filled: Term, entity: bool = False) -> drawn.Placed:
        """Draws a relation or a qualifier value: given, or a variable."""
        one = named(self._graph.entities if entity else self._graph.relations, filled)
        if not isinstance(term, Variable):
            return drawn.Placed(entity=one.entity, label=one.label)
        kind = "target" if term in self._query.answers else "variable"
        return drawn.Placed(entity=one.entity, label=one.label, kind=kind, variable=str(term))


def _aligned(atom: Atom, filled: Atom) -> list[tuple[Term, Term]]:
    """Returns the pairs of a filled atom in the order of those that were asked for."""
    left, found = list(filled.qualifiers), []
    for pair in sorted(atom.qualifiers, key=lambda pair: sum(isinstance(term, Variable) for term in pair)):
        fitting = (one for one in left if all(isinstance(a, Variable) or a == b for a, b in zip(pair, one, strict=True)))
        # Two pairs with variables may match the same pair of the statement.
        chosen = next(fitting, None) or next(
            one for one in filled.qualifiers if all(isinstance(a, Variable) or a == b for a, b in zip(pair, one, strict=True))
        )
        left = [one for one in left if one != chosen]
        found.append((pair, chosen))
    by_pair = dict(found)
    return [by_pair[pair] for pair in atom.qualifiers]


def _atoms(formula: Formula) -> Iterator[Atom]:
    match formula:
        case Atom():
            yield formula
        case And() | Or():
            for part in formula.parts:
                yield from _atoms(part)


def _groups(formula: Formula, kind: type) -> Iterator[Formula]:
    """Yields the unions of a formula, or its negations of several conditions."""
    match formula:
        case Not():
            if kind is Not and not isinstance(formula.part, Atom | Same):
                yield formula
            yield from _groups(formula.part, kind)
        case And() | Or():
            if kind is Or and isinstance(formula, Or):
                yield formula
            for part in formula.parts:
                yield from _groups(part, kind)


def explained(explanation: Explanation, graph: Graph) -> bodies.ExplainAnswer:
    """Returns an explanation with its labels and its drawing."""
    used = {reason.edge for reason in explanation.derivation.used}
    relations = relation_variables(explanation.query.formula)
    return bodies.ExplainAnswer(
        answer=one_answer(explanation.answer),
        assignment={
            name: named(graph.relations if Variable(name) in relations else graph.entities, value)
            for name, value in explanation.assignment.items()
        },
        note=explanation.note,
        calibrated=explanation.calibrated,
        drawing=draw(explanation.query, graph, explanation),
        reasons=[_reason(reason, reason.edge in used, graph) for reason in explanation.reasons],
        derivation=_part(explanation.derivation.root, graph),
        views=bodies.Views(**asdict(explanation.views)) if explanation.views else None,
    )


def _reason(reason: Reason, used: bool, graph: Graph) -> bodies.Reason:
    atom = reason.atom
    differences = {(c.relation, c.value): c.difference for c in reason.contributions}
    pairs = [
        bodies.WeighedPair(relation=named(graph.relations, r), value=named(graph.entities, v), difference=differences.get((str(r), str(v))))
        for r, v in atom.qualifiers
    ]
    return bodies.Reason(
        edge=reason.edge,
        head=named(graph.entities, atom.head),
        relation=named(graph.relations, atom.relation),
        tail=named(graph.entities, atom.tail),
        qualifiers=pairs,
        fact=reason.fact,
        probability=reason.probability,
        statements=[statement_text(statement, graph) for statement in reason.statements],
        used=used,
    )


def _part(part: Part, graph: Graph) -> bodies.Part:
    """Returns the structure of a derivation; a statement is the index of its reason."""
    match part:
        case Reason():
            return bodies.Part(kind="statement", truth=part.truth, reason=part.edge)
        case Equation():
            of_entities = all(str(term) in graph.entities for term in part.same.terms)
            left, right = (named(graph.entities if of_entities else graph.relations, term) for term in part.same.terms)
            return bodies.Part(kind="same", truth=part.truth, left=left, right=right)
    chosen = part.chosen if part.kind == "any" else None
    return bodies.Part(kind=part.kind, truth=part.truth, chosen=chosen, parts=[_part(inner, graph) for inner in part.parts])


def one_answer(answer: Answer) -> bodies.OneAnswer:
    """Returns an answer by its first column."""
    return bodies.OneAnswer(entity=answer.entity, label=answer.label, known=answer.known, probability=answer.probability)


def statement_text(statement: Statement, graph: Graph) -> str:
    """Writes a statement with labels: ``head · relation · tail (relation: value, …)``."""

    def value(one: str | Literal) -> str:
        return one.label if isinstance(one, Literal) else named(graph.entities, one).label

    main = named(graph.entities, statement.head).label, named(graph.relations, statement.relation).label, value(statement.tail)
    pairs = ", ".join(f"{named(graph.relations, r).label}: {value(v)}" for r, v in statement.qualifiers)
    return " · ".join(main) + (f" ({pairs})" if pairs else "")
