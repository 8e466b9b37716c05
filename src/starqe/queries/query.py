"""The value `Query`: one query of any shape, independent of a graph."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from starqe.errors import QueryError, UnsupportedError
from starqe.queries import text
from starqe.queries.formula import And, Atom, Formula, Not, Same, Variable, atoms_of, in_order, variables_of


@dataclass(frozen=True)
class Query:
    """A formula with the variables whose values are the answers; every other variable is existential ("some entity").

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
        """Returns the query that asks for all of the atoms at once; answer variables are given by name.

        Raises:
            QueryError: It breaks a rule of queries.
        """
        return cls(And(tuple(atoms)), tuple(map(Variable, answers)))

    def __str__(self) -> str:
        return text.logic(self)

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
        """Returns the atoms of a conjunctive query over head and tail variables; ``who`` cannot do more.

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

    def plain_form(self) -> "Query":
        """Returns the same query without inverse relations: every atom from the head of its statement to its tail."""

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

        return Query(plain(self.formula), self.answers) if any(atom.inverted for atom in self.all_atoms) else self
