"""Derivations: one way in which a query holds, statement by statement, in the structure of its formula."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from starqe.kg import Statement
from starqe.kg.known import Side
from starqe.queries.formula import Atom, Same


@dataclass(frozen=True)
class Contribution:
    """What one qualifier pair of a predicted statement adds to its probability."""

    relation: str
    value: str
    difference: float
    """The probability with all pairs, minus the probability without this one."""


@dataclass(frozen=True)
class RuleReason:
    """A rule that supports a predicted statement."""

    rule: str
    """The rule in words."""
    support: int
    """How often it was right."""
    body: int
    """How often it made a prediction."""
    confidence: float
    """The lower bound of its confidence."""
    statements: tuple[Statement, ...]
    """Known statements that its condition rests on; none if it has no condition, or one about a qualifier that is given."""


@dataclass(frozen=True)
class Reason:
    """One statement that a query asks for, with its variables filled in: a fact, or a prediction."""

    edge: int
    """The index of its atom in the query."""
    atom: Atom
    """The statement as the query asks for it, from head to tail."""
    probability: float
    """1 for a fact; else the probability of the statement alone."""
    statements: tuple[Statement, ...] = ()
    """The known statements that entail it; none if it is a prediction."""
    given: Side = "head"
    """The side that it is predicted from."""
    contributions: tuple[Contribution, ...] = ()
    """For a prediction: what each of its qualifiers contributed, where that was asked for."""
    rules: tuple[RuleReason, ...] = ()
    """For a prediction: the most confident rules that support it, where that was asked for."""

    @property
    def fact(self) -> bool:
        """Whether it is known, not predicted."""
        return bool(self.statements)

    @property
    def truth(self) -> float:
        """Its probability."""
        return self.probability


@dataclass(frozen=True)
class Equation:
    """Two entities that a query compares, with their values filled in."""

    same: Same

    @property
    def truth(self) -> float:
        """1 if they are the same, else 0."""
        return float(self.same.left == self.same.right)


@dataclass(frozen=True)
class Group:
    """A part of a formula that is composed of others."""

    kind: Literal["all", "any", "not"]
    """A conjunction, a disjunction, or a negation of its only part."""
    parts: tuple["Part", ...]
    truth: float
    chosen: int = 0
    """For a disjunction: the index of the part that explains it, the truest one; for a known answer, one that facts prove."""


Part: TypeAlias = Reason | Equation | Group
"""A part of a derivation; it mirrors the formula of the query."""


@dataclass(frozen=True)
class Derivation:
    """One way in which a query holds for one answer."""

    assignment: Mapping[str, str]
    """The values of the variables by name: entities, or relations. Those of unused branches and of negations are left out."""
    root: Part
    truth: float

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Every statement of the query, in the order of its atoms; of all branches and negations too."""
        return tuple(sorted(reasons_of(self.root), key=lambda reason: reason.edge))

    @property
    def used(self) -> tuple[Reason, ...]:
        """The statements that the answer rests on: of a disjunction those of its best branch; none of a negation."""
        return tuple(sorted(reasons_of(self.root, used=True), key=lambda reason: reason.edge))


def reasons_of(part: Part, used: bool = False) -> Iterator[Reason]:
    """Yields the statements of a part; with ``used`` only those that it rests on."""
    match part:
        case Reason():
            yield part
        case Group():
            if used and part.kind == "not":
                return
            for inner in (part.parts[part.chosen],) if used and part.kind == "any" else part.parts:
                yield from reasons_of(inner, used)


def groups_of(part: Part) -> Iterator[Group]:
    """Yields every composed part, the outer ones first."""
    if isinstance(part, Group):
        yield part
        for inner in part.parts:
            yield from groups_of(inner)


def replaced(part: Part, reasons: Mapping[int, Reason]) -> Part:
    """Returns the part with other reasons for some edges."""
    match part:
        case Reason():
            return reasons.get(part.edge, part)
        case Group():
            return replace(part, parts=tuple(replaced(inner, reasons) for inner in part.parts))
    return part
