"""The value `Query`: one query of any shape, whatever graph it will be asked of."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, permutations, product
from math import factorial, prod
from typing import Literal

import numpy as np

from starqe.errors import QueryError, UnsupportedError
from starqe.kg.graph import Graph
from starqe.kg.iris import DEFAULT_NAMES, Names
from starqe.queries import layout, query_json, text
from starqe.queries.formula import And, Atom, Formula, Not, Same, Term, Variable, atoms_of, formula_key, in_order, substitute, variables_of
from starqe.queries.shape import SHAPES, Shape
from starqe.queries.sparql import write
from starqe.queries.strict import strict_atoms, strictness_problem
from starqe.queries.table import QueryTable

RENAMINGS = 5_040
"""How many ways to name the variables `Query.canonical` tries at most."""


@dataclass(frozen=True)
class Query:
    """A formula with the variables whose values are the answers; every other variable stands for "some entity".

    Without an answer variable it asks whether the formula holds. Atoms are kept in a canonical order, so queries that differ in the
    order of their parts only are equal.

    Raises:
        QueryError: An answer variable occurs twice, or not at all.
    """

    formula: Formula
    answers: tuple[Variable, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "formula", in_order(self.formula))
        if len(set(self.answers)) < len(self.answers):
            raise QueryError(f"the answer variables of a query are different ones, found {', '.join(map(str, self.answers))}")
        for variable in self.answers:
            if variable not in self.variables:
                raise QueryError(f"an answer variable occurs in the query, and {variable} does not: {self}")

    @classmethod
    def conjunction(cls, atoms: Iterable[Atom], *answers: str) -> "Query":
        """Gives the query that asks for all of the atoms at once, by the names of its answer variables.

        Raises:
            QueryError: It breaks a rule of queries.
        """
        return cls(And(tuple(atoms)), tuple(map(Variable, answers)))

    def __str__(self) -> str:
        return self.logic()

    @cached_property
    def all_atoms(self) -> tuple[Atom, ...]:
        """Every atom, wherever it stands in the formula."""
        return tuple(atoms_of(self.formula))

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        """Every variable: the answers first, then the others by name."""
        found = variables_of(self.formula)
        return (*(variable for variable in self.answers if variable in found), *sorted(found - set(self.answers)))

    @property
    def target(self) -> Variable:
        """The answer variable.

        Raises:
            UnsupportedError: The query has none, or several.
        """
        if len(self.answers) != 1:
            raise UnsupportedError(f"this needs a query with one answer variable, found {', '.join(map(str, self.answers)) or 'none'}")
        return self.answers[0]

    @property
    def conjunctive(self) -> bool:
        """Whether the formula is an atom, or an And of atoms."""
        return isinstance(self.formula, Atom) or (
            isinstance(self.formula, And) and all(isinstance(part, Atom) for part in self.formula.parts)
        )

    def conjuncts(self, who: str) -> tuple[Atom, ...]:
        """Gives the atoms of a conjunctive query over head and tail variables; ``who`` cannot do more.

        Raises:
            UnsupportedError: The query has a disjunction, a negation, or a variable as relation or in a qualifier.
        """
        if not self.conjunctive:
            negated = isinstance(self.formula, Not) or (
                isinstance(self.formula, And) and any(isinstance(p, Not) for p in self.formula.parts)
            )
            raise UnsupportedError(f"{who} does conjunctive queries only, found a {'negation' if negated else 'disjunction'}: {self}")
        for atom in self.all_atoms:
            for term in (atom.relation, *chain(*atom.qualifiers)):
                if isinstance(term, Variable):
                    place = "as the relation" if term == atom.relation else "in a qualifier"
                    raise UnsupportedError(f"{who} takes variables as head and tail only, found {term} {place}: {text.atom_text(atom)}")
        return self.all_atoms

    @cached_property
    def cyclic(self) -> bool:
        """Whether some variables lie on a cycle, walked in either direction.

        Two edges between the same two variables, or one from a variable to itself, are a cycle too. Given entities
        close none: each occurrence stands by itself.
        """
        edges = [(a.head, a.tail) for a in self.all_atoms if isinstance(a.head, Variable) and isinstance(a.tail, Variable)]
        group: dict[Term, Term] = {}

        def leader(term: Term) -> Term:
            while group.get(term, term) != term:
                term = group[term]
            return term

        for head, tail in edges:
            one, other = leader(head), leader(tail)
            if one == other:
                return True
            group[one] = other
        return False

    @property
    def diameter(self) -> int:
        """The longest of the shortest paths between two nodes, walked in either direction."""
        return layout.diameter(self.all_atoms)

    def strictness_problem(self) -> str | None:
        """Says which rule of the paper's strict definition the query breaks, or None if it meets all of them.

        Raises:
            UnsupportedError: The query is not conjunctive over head and tail variables, or has several answer variables.
        """
        return strictness_problem(self.conjuncts("the paper's definition"), self.target)

    @property
    def strict(self) -> bool:
        """Whether the query, as it is written, meets the paper's strict definition."""
        return self.strictness_problem() is None

    def strict_form(self) -> "Query":
        """Gives a strict query with the same answers, some atoms turned around; itself if it is strict already.

        Raises:
            QueryError: No choice of directions makes it strict.
            UnsupportedError: It is not conjunctive over head and tail variables, or has several answer variables.
        """
        return self if self.strict else Query(And(tuple(strict_atoms(self.conjuncts("the paper's definition"), self.target))), self.answers)

    def plain_form(self) -> "Query":
        """Gives the same query without inverse relations: every atom from the head of its statement to its tail."""

        def plain(formula: Formula) -> Formula:
            match formula:
                case Atom():
                    return formula.plain
                case Same():
                    return formula
                case Not():
                    return Not(plain(formula.part))
                case _:
                    return type(formula)(tuple(map(plain, formula.parts)))

        return Query(plain(self.formula), self.answers)

    def renamed(self, names: Mapping[str, str]) -> "Query":
        """Gives the same query with other names for some variables.

        Raises:
            QueryError: Two variables would have one name.
        """
        new = {variable: Variable(names.get(variable.name, variable.name)) for variable in self.variables}
        if len(set(new.values())) < len(new):
            raise QueryError(f"different variables keep different names, found {dict(names)!r}")
        formula = substitute(self.formula, lambda term: new[term] if isinstance(term, Variable) else term)
        return Query(formula, tuple(new[variable] for variable in self.answers))

    def canonical(self) -> "Query":
        """Gives the query that all queries share which differ from it in the names of their variables only.

        Raises:
            UnsupportedError: Too many of its variables look alike.
        """
        classes = self._look_alikes()
        if prod(factorial(len(alike)) for alike in classes) > RENAMINGS:
            raise UnsupportedError(
                f"a canonical form is for small queries, found {max(map(len, classes))} variables that look alike: {self}"
            )
        answers = {variable.name: f"answer{i or ''}" for i, variable in enumerate(self.answers)}
        choices = (chain(*choice) for choice in product(*map(permutations, classes)))
        renamings = ({variable.name: f"x{i}" for i, variable in enumerate(choice)} for choice in choices)
        return min((self.renamed(answers | inner) for inner in renamings), key=lambda query: formula_key(query.formula))

    def _look_alikes(self) -> list[list[Variable]]:
        """Groups the inner variables that cannot be told apart by their neighbourhoods, in an order free of names."""
        colour: dict[Term, int] = {
            variable: self.answers.index(variable) if variable in self.answers else -1 for variable in self.variables
        }

        def view(atom: Atom, of: Variable) -> tuple[object, ...]:
            parts = [
                (term == of, (1, colour[term]) if isinstance(term, Variable) else (0, term))
                for term in (atom.head, atom.relation, atom.tail)
            ]
            pairs = [
                (r == of, v == of, *((1, colour[t]) if isinstance(t, Variable) else (0, t) for t in (r, v))) for r, v in atom.qualifiers
            ]
            return (*parts, atom.inverted, tuple(sorted(pairs)))

        for _ in self.variables:
            seen = {v: (colour[v], tuple(sorted(view(a, v) for a in self.all_atoms if v in a.terms))) for v in self.variables}
            ranks = {key: rank for rank, key in enumerate(sorted(set(seen.values())))}
            colour = {variable: ranks[key] for variable, key in seen.items()}
        inner = [variable for variable in self.variables if variable not in self.answers]
        return [[v for v in inner if colour[v] == c] for c in sorted({colour[v] for v in inner})]

    @property
    def shape(self) -> Shape:
        """The pattern of the query as it is written; one of the seven of the paper, or a shape named "query".

        Raises:
            UnsupportedError: The query has no shape: it is not conjunctive over head and tail variables, has several
                answer variables, an edge from a node to itself, or no anchor.
        """
        return layout.lay_out(self.conjuncts("a shape"), self.target, SHAPES).shape

    @classmethod
    def from_row(cls, table: QueryTable, row: int, graph: Graph) -> "Query":
        """Gives one query of a table.

        Raises:
            UnsupportedError: The table is reified.
        """
        return cls.conjunction(layout.atoms_of_row(table, row, graph), layout.TARGET_NAME)

    def to_table(self, graph: Graph, answers: Iterable[int] = (), shapes: Mapping[str, Shape] = SHAPES) -> QueryTable:
        """Gives the query as a table of one row, in the direction of the statements (without inverse relations).

        Raises:
            InputError: An identifier does not occur in the graph.
            UnsupportedError: The query has no shape.
        """
        plan = layout.lay_out(self.plain_form().conjuncts("a query table"), self.target, shapes)
        return layout.table_of(plan, graph, np.unique(np.fromiter(answers, np.int32)))

    def logic(self, label: Callable[[str], str] = str) -> str:
        """Writes the query as a formula: ``?x : ∃y . educatedAt{degree: BSc}(Einstein, ?y) ∧ locatedIn(?y, ?x)``."""
        return text.logic(self, label)

    def picture(self, label: Callable[[str], str] = str) -> str:
        """Draws a conjunctive query as a small tree below its first answer variable.

        Raises:
            UnsupportedError: The query is not conjunctive.
        """
        return text.picture(self, label)

    def sparql(self, names: Names = DEFAULT_NAMES, form: Literal["SELECT", "ASK"] = "SELECT") -> str:
        """Writes the query in SPARQL 1.2, with the terms that the names give to identifiers.

        Raises:
            UnsupportedError: A relation or a qualifier relation is a variable, or an entity is a blank node.
        """
        return write.sparql(self, names, form)

    def to_json(self) -> str:
        """Writes the query as JSON that `from_json` reads back to an equal query."""
        return query_json.to_json(self)

    @classmethod
    def from_json(cls, content: str | bytes) -> "Query":
        """Reads a query from JSON.

        Raises:
            QueryError: It is no JSON, not a query, of a newer version, or a query that breaks a rule.
        """
        return cls(*query_json.from_json(content))
