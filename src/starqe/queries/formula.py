"""Formulas: And, Or and Not over statements and equations, whose every position is a constant or a variable.

A constant is an identifier, so a formula belongs to no particular graph.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Generic, TypeAlias, TypeVar

from starqe.errors import QueryError
from starqe.kg.statement import identifier_problem

# The letters that SPARQL allows in the name of a variable, so that every name can be written there.
_LETTERS = (
    "A-Za-z0-9_\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_VARIABLE = re.compile(f"[{_LETTERS}]+")


@dataclass(frozen=True, order=True)
class Variable:
    """Something to be found, by name: ``Variable("x")`` is written ``?x``.

    Raises:
        QueryError: The name is not letters, digits and underscores.
    """

    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _VARIABLE.fullmatch(self.name):
            raise QueryError(f"a variable's name is letters, digits and underscores, found {self.name!r}")

    def __str__(self) -> str:
        return f"?{self.name}"


Term: TypeAlias = str | Variable
"""A constant (an identifier) or a variable."""


@dataclass(frozen=True)
class Atom:
    """One statement that is asked for: ``relation{qualifiers}(head, tail)``.

    It holds where one statement has this main triple and all of these pairs (and maybe more). The pairs are a set: they
    are kept sorted and each once. An inverted atom reads its relation backwards, ``relation⁻¹(head, tail)``: it holds
    where the statement goes from the tail to the head. An atom that has to be a fact is never predicted.

    Raises:
        QueryError: A position is neither an identifier nor a variable.
    """

    head: Term
    relation: Term
    tail: Term
    qualifiers: tuple[tuple[Term, Term], ...] = ()
    inverted: bool = False
    fact: bool = False

    def __post_init__(self) -> None:
        for term in (self.head, self.relation, self.tail, *(term for pair in self.qualifiers for term in pair)):
            if isinstance(term, Variable):
                continue
            if not isinstance(term, str):
                raise QueryError(f"a position of an atom is an identifier or a variable, found {term!r}")
            if problem := identifier_problem(term):
                raise QueryError(f"an identifier is one line of text without space around it, found {term!r}: {problem}")
        pairs: Iterable[tuple[Term, Term]] = self.qualifiers
        if len(self.qualifiers) > 1:
            pairs = sorted(set(pairs), key=lambda pair: (term_key(pair[0]), term_key(pair[1])))
        object.__setattr__(self, "qualifiers", tuple(pairs))

    @property
    def turned(self) -> "Atom":
        """The same statement, written from its other end by the inverse relation."""
        return replace(self, head=self.tail, tail=self.head, inverted=not self.inverted)

    @property
    def plain(self) -> "Atom":
        """The same statement, written from its head to its tail."""
        return self.turned if self.inverted else self

    @property
    def terms(self) -> tuple[Term, ...]:
        """Every position: head, relation, tail, then relation and value of each pair."""
        return (self.head, self.relation, self.tail, *(term for pair in self.qualifiers for term in pair))

    @property
    def entities(self) -> tuple[Term, ...]:
        """The positions of entities: head, tail and the values of the pairs."""
        return (self.head, self.tail, *(value for _, value in self.qualifiers))


@dataclass(frozen=True)
class Same:
    """Holds where two entities are the same: ``left = right``.

    Raises:
        QueryError: A side is neither an identifier nor a variable.
    """

    left: Term
    right: Term

    def __post_init__(self) -> None:
        for term in self.terms:
            if not isinstance(term, str | Variable):
                raise QueryError(f"a side of an equation is an identifier or a variable, found {term!r}")

    @property
    def terms(self) -> tuple[Term, Term]:
        """Both sides."""
        return self.left, self.right


Leaf = TypeVar("Leaf")


@dataclass(frozen=True)
class And(Generic[Leaf]):
    """Holds where all of its parts hold."""

    parts: tuple["Leaf | And[Leaf] | Or[Leaf] | Not[Leaf]", ...]


@dataclass(frozen=True)
class Or(Generic[Leaf]):
    """Holds where one of its parts holds, or several."""

    parts: tuple["Leaf | And[Leaf] | Or[Leaf] | Not[Leaf]", ...]


@dataclass(frozen=True)
class Not(Generic[Leaf]):
    """Holds where its part does not. A variable that occurs in no other part is bound inside: there is no value for it."""

    part: "Leaf | And[Leaf] | Or[Leaf] | Not[Leaf]"


Formula: TypeAlias = "Atom | Same | And[Atom | Same] | Or[Atom | Same] | Not[Atom | Same]"

Key: TypeAlias = tuple[object, ...]
"""What formulas are sorted by; keys compare with each other."""


def term_key(term: Term) -> tuple[int, str]:
    """Sorts constants before variables, each by their text (the order of ids in a graph)."""
    return (1, term.name) if isinstance(term, Variable) else (0, term)


def formula_key(formula: Formula) -> Key:
    """Sorts atoms by head, relation, tail and pairs; compositions come after atoms."""
    match formula:
        case Atom():
            return (0, tuple(term_key(term) for term in formula.terms), formula.inverted, formula.fact)
        case Same():
            return (1, tuple(term_key(term) for term in formula.terms))
        case Not():
            return (2, formula_key(formula.part))
        case And() | Or():
            return (3 if isinstance(formula, And) else 4, tuple(formula_key(part) for part in formula.parts))


def in_order(formula: Formula) -> Formula:
    """Returns the formula in canonical order: nested Ands and Ors are merged, parts are sorted, and duplicates removed.

    Raises:
        QueryError: An And or an Or has no part, or a part is not a formula.
    """
    match formula:
        case Atom():
            return formula
        case Same():
            left, right = sorted(formula.terms, key=term_key)
            return Same(left, right)
        case Not():
            part = in_order(formula.part)
            return part.part if isinstance(part, Not) else Not(part)
        case And() | Or():
            kind = type(formula)
            parts: dict[Formula, None] = {}
            for part in map(in_order, formula.parts):
                parts.update(dict.fromkeys(part.parts if isinstance(part, kind) else (part,)))
            if not parts:
                raise QueryError(f"a query asks for at least one statement, found an empty {kind.__name__}")
            ordered = tuple(sorted(parts, key=formula_key))
            return ordered[0] if len(ordered) == 1 else kind(ordered)
    raise QueryError(f"a formula is an Atom, Same, And, Or or Not, found {formula!r}")


def atoms_of(formula: Formula) -> Iterator[Atom]:
    """Yields every atom, from left to right."""
    match formula:
        case Atom():
            yield formula
        case Same():
            return
        case Not():
            yield from atoms_of(formula.part)
        case And() | Or():
            for part in formula.parts:
                yield from atoms_of(part)


def variables_of(formula: Formula) -> set[Variable]:
    """Returns every variable, wherever it occurs."""
    match formula:
        case Atom() | Same():
            return {term for term in formula.terms if isinstance(term, Variable)}
        case Not():
            return variables_of(formula.part)
        case And() | Or():
            return set().union(*map(variables_of, formula.parts))


def free_variables(formula: Formula) -> set[Variable]:
    """Returns the variables that occur outside of every negation; one that occurs inside only is bound there."""
    match formula:
        case Atom() | Same():
            return {term for term in formula.terms if isinstance(term, Variable)}
        case Not():
            return set()
        case And() | Or():
            return set().union(*map(free_variables, formula.parts))


def relation_variables(formula: Formula) -> set[Variable]:
    """Returns the variables that range over relations, of statements or of qualifiers."""
    return {
        term for atom in atoms_of(formula) for term in (atom.relation, *(key for key, _ in atom.qualifiers)) if isinstance(term, Variable)
    }


def disjuncts(formula: Formula, most: int = 16) -> list[tuple[Atom, ...]] | None:
    """Returns the disjunctive normal form of a positive formula: conjunctions of atoms, one of which holds.

    None where there is a negation or an equation, or where there are too many.
    """
    match formula:
        case Atom():
            return [(formula,)]
        case Same() | Not():
            return None
    parts = [disjuncts(part, most) for part in formula.parts]
    if any(part is None for part in parts):
        return None
    found: list[tuple[Atom, ...]] = [()]
    if isinstance(formula, Or):
        found = [one for part in parts for one in part or ()]
    else:
        for part in parts:
            found = [(*one, *other) for one in found for other in part or ()]
            if len(found) > most:
                return None
    return found if len(found) <= most else None


def substitute(formula: Formula, change: Callable[[Term], Term]) -> Formula:
    """Returns the formula with every position replaced by the function."""
    match formula:
        case Atom():
            pairs = tuple((change(relation), change(value)) for relation, value in formula.qualifiers)
            head, relation, tail = change(formula.head), change(formula.relation), change(formula.tail)
            return Atom(head, relation, tail, pairs, formula.inverted, formula.fact)
        case Same():
            return Same(change(formula.left), change(formula.right))
        case Not():
            return Not(substitute(formula.part, change))
        case And() | Or():
            return type(formula)(tuple(substitute(part, change) for part in formula.parts))
