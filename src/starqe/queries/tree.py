"""Trees of edges: how the edges of a shape are combined by And, Or and Not, and how that is written.

Edges side by side all hold; ``|`` stands between alternatives and binds loosest; ``!`` stands before an edge or a group that must
not hold; parentheses group: ``(A>x | B>x) x>? !C>?``.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from starqe.errors import QueryError
from starqe.queries.formula import And, Not, Or

Tree: TypeAlias = int | And[int] | Or[int] | Not[int]
"""An edge by its number, or a composition of edges."""

_TOKEN = re.compile(r"[()|!]|[^\s()|!]+")


@dataclass(frozen=True)
class Branch:
    """One of the alternatives of a tree: edges that hold together, and parts that do not hold."""

    edges: tuple[int, ...]
    without: tuple[Tree, ...] = ()


def branches(tree: Tree) -> list[Branch]:
    """Returns the disjunctive normal form of a tree; the inside of a negation stays as it is."""
    match tree:
        case int():
            return [Branch((tree,))]
        case Not():
            return [Branch((), tree.part.parts if isinstance(tree.part, Or) else (tree.part,))]
        case Or():
            return [branch for part in tree.parts for branch in branches(part)]
        case And():
            return [
                Branch(tuple(edge for one in choice for edge in one.edges), tuple(part for one in choice for part in one.without))
                for choice in product(*map(branches, tree.parts))
            ]


def leaves(tree: Tree) -> Iterator[int]:
    """Yields the edges of a tree, from left to right."""
    match tree:
        case int():
            yield tree
        case Not():
            yield from leaves(tree.part)
        case And() | Or():
            for part in tree.parts:
                yield from leaves(part)


def renumbered(tree: Tree, number: Callable[[int], int]) -> Tree:
    """Returns a tree with other numbers for its edges; the parts of And and Or are in ascending order."""
    match tree:
        case int():
            return number(tree)
        case Not():
            return Not(renumbered(tree.part, number))
        case And() | Or():
            parts = sorted((renumbered(part, number) for part in tree.parts), key=lambda part: (min(leaves(part)), repr(part)))
            return type(tree)(tuple(parts))


def joined(parts: Sequence[Tree], kind: type[And[int]] | type[Or[int]]) -> Tree:
    """Combines parts by And or Or; parts of the same kind are merged, and a single part stays as it is."""
    merged = tuple(inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,)))
    return merged[0] if len(merged) == 1 else kind(merged)


def tree_text(tree: Tree, edge: Callable[[int], str]) -> str:
    """Writes a tree, given how its edges are written."""

    def inside(part: Tree) -> str:
        text = tree_text(part, edge)
        return f"({text})" if isinstance(part, And | Or) else text

    match tree:
        case int():
            return edge(tree)
        case Not():
            return "!" + inside(tree.part)
        case And():
            return " ".join(f"({tree_text(part, edge)})" if isinstance(part, Or) else tree_text(part, edge) for part in tree.parts)
        case Or():
            return " | ".join(tree_text(part, edge) for part in tree.parts)


def read_tree(name: str, text: str) -> tuple[Tree | None, list[str]]:
    """Reads a tree and the texts of its edges, which are numbered as they come; None where there are no edges.

    Raises:
        QueryError: A parenthesis is not closed, or a sign stands where an edge is expected.
    """
    tokens = [match.group() for match in _TOKEN.finditer(text)]
    edges: list[str] = []
    place = 0

    def problem(found: str) -> QueryError:
        return QueryError(
            f"shape '{name}': alternatives are edges with '|' between, in parentheses inside a shape; found {found} in '{text}'"
        )

    def peek() -> str:
        return tokens[place] if place < len(tokens) else ""

    def alternatives() -> Tree:
        nonlocal place
        found = [together()]
        while peek() == "|":
            place += 1
            found.append(together())
        return joined(found, Or)

    def together() -> Tree:
        found: list[Tree] = []
        while peek() not in ("", "|", ")"):
            found.append(part())
        if not found:
            raise problem(f"'{peek()}' without an edge before it" if peek() else "no edge at the end")
        return joined(found, And)

    def part() -> Tree:
        nonlocal place
        sign = peek()
        place += 1
        if sign == "!":
            if peek() in ("", "|", ")"):
                raise problem("'!' without an edge after it")
            negated = part()
            if isinstance(negated, Not):
                raise QueryError(f"shape '{name}': '!' stands once before an edge or a group, found it twice in '{text}'")
            return Not(negated)
        if sign == "(":
            inner = alternatives()
            if peek() != ")":
                raise problem("'(' without ')'")
            place += 1
            return inner
        edges.append(sign)
        return len(edges) - 1

    if not tokens:
        return None, []
    tree = alternatives()
    if peek():
        raise problem("')' without '('")
    return tree, edges
