"""Conditions of SPARQL as formulas: when an expression is true, and when it is false. An error is neither."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from starqe.queries.formula import And, Atom, Formula, Not, Or, Same, Term, Variable
from starqe.queries.sparql.patterns import is_tree, variables_of
from starqe.queries.sparql.syntax import Node, known_only
from starqe.queries.sparql.terms import SparqlTerms

Truth: TypeAlias = "Formula | bool"
"""A formula; or True or False, if it always or never holds."""
LabelTest: TypeAlias = Callable[[str, str], bool]
"""Returns whether a label, by its text and its language, meets a condition."""


def all_of(parts: Iterable[Truth]) -> Truth:
    """Returns the conjunction of some parts."""
    return _joined(parts, And, neutral=True)


def any_of(parts: Iterable[Truth]) -> Truth:
    """Returns the disjunction of some parts."""
    return _joined(parts, Or, neutral=False)


def _joined(parts: Iterable[Truth], kind: type[And[Atom | Same]] | type[Or[Atom | Same]], *, neutral: bool) -> Truth:
    """Joins parts: the neutral truth value is dropped, the other one decides the result."""
    left = [part for part in parts if part is not neutral]
    if any(isinstance(part, bool) for part in left):
        return not neutral
    formulas = tuple(part for part in left if not isinstance(part, bool))
    return neutral if not formulas else formulas[0] if len(formulas) == 1 else kind(formulas)


def none_of(part: Truth) -> Truth:
    """Returns the negation of a part."""
    return not part if isinstance(part, bool) else Not(part)


@dataclass(frozen=True)
class Scope:
    """The variables and names that a condition can use."""

    terms: SparqlTerms
    bound: frozenset[Variable]
    """The variables that have a value."""
    relations: Collection[str]
    """The names of the variables that range over relations."""
    others: Collection[str]
    """The names of the variables that range over neither entities nor relations: labels and statements."""
    exists: Callable[[Node], Truth]
    """Returns when a group has a solution."""


def condition(node: Node, scope: Scope) -> tuple[Truth, Truth]:
    """Returns when an expression is true, and when it is false.

    Raises:
        KnownOnlyError: It contains a computation.
    """
    match getattr(node, "data", None):
        case "or_":
            parts = [condition(part, scope) for part in node.children]
            return any_of(true for true, _ in parts), all_of(false for _, false in parts)
        case "and_":
            parts = [condition(part, scope) for part in node.children]
            return all_of(true for true, _ in parts), any_of(false for _, false in parts)
        case "not_":
            return condition(node.children[0], scope)[::-1]
        case "equal":
            return _same(node.children[0], node.children[1], scope)
        case "different":
            return _same(node.children[0], node.children[1], scope)[::-1]
        case "in_" | "not_in" as kind:
            parts = [_same(node.children[0], choice, scope) for choice in node.children[-1].children]
            found = any_of(true for true, _ in parts), all_of(false for _, false in parts)
            return found if kind == "in_" else found[::-1]
        case "exists":
            holds = scope.exists(node.children[-1])
            return (none_of(holds), holds) if len(node.children) > 1 else (holds, none_of(holds))
        case "call":
            return _call(node, scope)
    if getattr(node, "type", None) in ("TRUE", "FALSE"):
        return node.type == "TRUE", node.type == "FALSE"
    if getattr(node, "type", None) == "VAR":
        return False, False  # an entity is neither true nor false
    raise known_only(node, "function")


def _call(node: Node, scope: Scope) -> tuple[Truth, Truth]:
    name, *arguments = node.children
    match name.upper(), arguments:
        case "BOUND", [variable] if getattr(variable, "type", None) == "VAR":
            bound = Variable(variable[1:]) in scope.bound
            return bound, not bound
        case "SAMETERM", [left, right]:
            return _same(left, right, scope)
    raise known_only(node, "function")


def _same(left: Node, right: Node, scope: Scope) -> tuple[Truth, Truth]:
    """Returns when two operands are equal, and when they are not."""
    names = [token[1:] for side in (left, right) for token in variables_of(side)]
    for side in (left, right):
        if hasattr(side, "children") and not is_tree(side, "string", "tagged", "typed"):
            raise known_only(side, "function")
    if {*names} & {*scope.others}:
        raise known_only(left, "label")
    of_relations = {name in scope.relations for name in names}
    if len(of_relations) > 1:
        raise known_only(right, "two kinds")
    sides: list[Term | None] = []
    for side in (left, right):
        if getattr(side, "type", None) == "VAR":
            if Variable(side[1:]) not in scope.bound:
                return False, False  # an unbound variable is an error
            sides.append(Variable(side[1:]))
        elif names:
            sides.append(scope.terms.known_entity(side, of_relations={True} == of_relations))
        else:
            raise known_only(side, "function")
    one, other = sides
    if one is None or other is None:
        return False, True
    if one == other:
        return True, False
    return Same(one, other), Not(Same(one, other))


def label_test(node: Node, terms: SparqlTerms) -> LabelTest:
    """Returns a condition on one label as a test of its text and language.

    Raises:
        KnownOnlyError: It tests something other than the label and its language.
    """
    match getattr(node, "data", None):
        case "or_" | "and_" as kind:
            tests = [label_test(part, terms) for part in node.children]
            whole = any if kind == "or_" else all
            return lambda text, language: whole(test(text, language) for test in tests)
        case "not_":
            test = label_test(node.children[0], terms)
            if not _about_language(node.children[0]):
                raise known_only(node, "label")
            return lambda text, language: not test(text, language)
        case "equal" | "different" | "in_" | "not_in" as kind:
            return _compared(node, kind, terms)
        case "call" if node.children[0].upper() == "LANGMATCHES" and len(node.children) == 3 and _is_language(node.children[1]):
            wanted = terms.literal(node.children[2])
            if wanted is None:
                raise known_only(node, "label")
            return lambda _text, language: _matches(language, wanted[0].lower())
    raise known_only(node, "label")


def _compared(node: Node, kind: str, terms: SparqlTerms) -> LabelTest:
    left, right = node.children[0], node.children[-1]
    choices = right.children if is_tree(right, "arguments") else [right]
    if kind == "equal" and getattr(right, "type", None) == "VAR":
        left, choices = right, [left]
    wanted = [terms.literal(choice) for choice in choices]
    if None in wanted or not wanted:
        raise known_only(node, "label")
    if _is_language(left):
        languages = {one[0] for one in wanted if one is not None and not one[1]}
        return lambda _text, language: (language in languages) == (kind in ("equal", "in_"))
    if getattr(left, "type", None) == "VAR" and kind in ("equal", "in_"):
        return lambda text, language: (text, language) in wanted
    raise known_only(node, "label")


def _is_language(node: Node) -> bool:
    return is_tree(node, "call") and node.children[0].upper() == "LANG" and len(node.children) == 2


def _about_language(node: Node) -> bool:
    """Whether every variable below a node stands in LANG( )."""
    if _is_language(node):
        return True
    return getattr(node, "type", None) != "VAR" and all(map(_about_language, getattr(node, "children", ())))


def _matches(language: str, wanted: str) -> bool:
    return bool(language) if wanted == "*" else language == wanted or language.startswith(f"{wanted}-")


def conjuncts(node: Node) -> list[Node]:
    """Returns the parts of a condition that all have to hold."""
    return [part for child in node.children for part in conjuncts(child)] if is_tree(node, "and_") else [node]
