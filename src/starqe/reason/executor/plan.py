"""The order in which a pattern is evaluated, from its constants to its target.

Conditions on one open variable are rows of truths over all entities. A leaf (an inner variable with one edge left) is taken out by a
message along that edge. A disjunction or a negation that leaves one variable open is a plan of its own, whose result is a condition
on that variable. If none of this is possible, a variable is bound: it is tried candidate by candidate, and is a constant
from then on. So are the answer variables beside the target, the variables that range over relations, and the ends of an edge before
its qualifier values are asked for.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

from starqe.kg.known import Side
from starqe.queries.formula import And, Not, Or
from starqe.reason.executor.pattern import Equal, Pattern, Tree
from starqe.reason.executor.steps import Bind, Check, Close, Fix, Given, Nested, Pass, Plan, Step, Value


@lru_cache(maxsize=1024)
def plan_of(pattern: Pattern) -> Plan:
    """Returns the plan for a pattern; equal patterns have equal plans.

    The target is the last answer variable that ranges over entities; the others are bound.
    """
    entities = [node for node in pattern.answers if node not in pattern.relations]
    target = entities[-1] if entities else None
    kept = frozenset(pattern.answers) - {target}
    return _plan(pattern, pattern.tree, target, frozenset(pattern.constants), kept, frozenset(pattern.answers))


def nested_step(pattern: Pattern, tree: Or[Any] | Not[Any], constants: Iterable[str]) -> Nested:
    """Returns the step for a disjunction or a negation whose shared variables are all constants."""
    parts = (tree.part,) if isinstance(tree, Not) else tree.parts
    known = frozenset(constants)
    return Nested(tree, tuple(_plan(pattern, part, None, known, frozenset(), known) for part in parts), None)


def _plan(pattern: Pattern, tree: Tree, target: str | None, constants: Iterable[str], kept: frozenset[str], outer: frozenset[str]) -> Plan:
    parts = _conjuncts(tree)
    return Plan(target, tuple(_Planner(pattern, parts, target, set(constants), kept, outer).steps()))


def _conjuncts(tree: Tree) -> tuple[Tree, ...]:
    return tuple(part for inner in tree.parts for part in _conjuncts(inner)) if isinstance(tree, And) else (tree,)


class _Planner:
    """The state of planning one conjunction: its remaining parts, its inner variables, and which nodes are constants or have a condition.

    Args:
        pattern: The pattern.
        parts: The parts of the conjunction.
        target: The variable whose truths are wanted.
        constant: The nodes that are constants already.
        kept: Variables that must be bound, and not maximised.
        outer: The variables that occur outside of these parts.
    """

    def __init__(
        self, pattern: Pattern, parts: Sequence[Tree], target: str | None, constant: set[str], kept: frozenset[str], outer: frozenset[str]
    ) -> None:
        self.pattern, self.target, self.constant = pattern, target, constant
        self.left: list[Factor] = []
        for place, part in enumerate(parts):
            others = [other for number, other in enumerate(parts) if number != place]
            # A variable is shared with another part that binds it; and what this part binds, with another part that mentions it.
            bound = outer.union(*map(pattern.positive, others))
            shared = bound | (pattern.positive(part) & frozenset().union(*map(pattern.mentioned, others)))
            self.left += _factors(pattern, part, shared)
        free = {node for factor in self.left for node in factor.nodes} - constant
        self.open = sorted(node for node in free if node != target and node not in kept)
        self.kept = sorted(node for node in free if node in kept)
        self.conditioned: set[str] = set()

    def steps(self) -> Iterator[Step]:
        while True:
            yield from self._ready()
            leaves = [node for node in self.open if self._is_leaf(node)]
            if leaves:
                # A leaf with a condition first: where two leaves share an edge, it is the one whose candidates are informative.
                yield self._leaf(min(leaves, key=lambda node: node not in self.conditioned))
            elif self.left or self.kept:
                yield self._bind()
            else:
                return

    def _free(self, factor: "Factor") -> list[str]:
        return [node for node in factor.nodes if node not in self.constant]

    def _at(self, node: str) -> list["Factor"]:
        return [factor for factor in self.left if node in factor.nodes]

    def _ready(self) -> Iterator[Step]:
        """Takes every factor that leaves at most one node open."""
        for factor in list(self.left):
            free = self._free(factor)
            step = factor.step(self.pattern, free, frozenset(self.constant)) if len(free) <= 1 else None
            if step is not None:
                self.left.remove(factor)
                self.conditioned.update(free)
                yield step

    def _is_leaf(self, node: str) -> bool:
        """Whether a variable can be maximised now: it occurs in nothing else, or in one edge to another variable only."""
        left = self._at(node)
        if node in self.pattern.relations or len(left) > 1:
            return False
        return not left or (isinstance(left[0], EdgeFactor) and len(self._free(left[0])) == 2 and not self._unbound_relation(left[0]))

    def _unbound_relation(self, factor: "EdgeFactor") -> bool:
        return any(node not in self.constant for node in factor.needs(self.pattern))

    def _leaf(self, node: str) -> Step:
        self.open.remove(node)
        factors = self._at(node)
        if not factors:
            return Close(node)
        (factor,) = factors
        assert isinstance(factor, EdgeFactor)
        self.left.remove(factor)
        edge = self.pattern.edges[factor.edge]
        parent = edge.tail if node == edge.head else edge.head
        self.conditioned.add(parent)
        return Pass(factor.edge, "head" if node == edge.head else "tail", node, parent)

    def _bind(self) -> Step:
        """Binds a variable: first one that other parts need as a constant, then one with a condition, then one that breaks cycles."""
        needed = {node for factor in self.left for node in factor.needs(self.pattern)} - self.constant
        cycles = _cycles(self._joins())
        stuck = {node for factor in self.left for node in self._free(factor)} - {self.target}
        opening = [node for node in sorted(stuck) if _cycles(self._joins(without=node)) < cycles]

        def cost(node: str) -> tuple[bool, bool, int, str]:
            return node not in self.conditioned, node == self.target, _cycles(self._joins(without=node)), node

        node = min(needed or opening or stuck or self.kept, key=cost)
        for nodes in (self.open, self.kept):
            if node in nodes:
                nodes.remove(node)
        edges = [factor.edge for factor in self._at(node) if isinstance(factor, EdgeFactor | ValueFactor)]
        nested = [factor for factor in self._at(node) if isinstance(factor, NestedFactor)]
        hint = None
        if not edges and nested and node not in self.conditioned:
            hint = nested[0].relaxed(self.pattern, node, frozenset(self.constant))
        self.constant.add(node)
        return Bind(node, edges[0] if edges else None, hint)

    def _joins(self, without: str | None = None) -> Iterator[tuple[str, str]]:
        """Yields the connections between open variables: a factor with two of them is an edge, one with more is a cycle."""
        for factor in self.left:
            free = [node for node in self._free(factor) if node != without]
            if len(free) == 2 and isinstance(factor, EdgeFactor):
                yield free[0], free[1]
            else:
                for one, other in combinations(free, 2):
                    yield from ((one, other), (one, other))


@dataclass(frozen=True)
class EdgeFactor:
    """An edge, without its qualifier values that are variables."""

    edge: int
    nodes: tuple[str, ...]

    def needs(self, pattern: Pattern) -> list[str]:
        """The nodes that have to be constants before it can be taken: its relation, and both ends where they are one node."""
        edge = pattern.edges[self.edge]
        return [*([] if edge.relation is None else [edge.relation]), *([edge.head] if edge.head == edge.tail else [])]

    def step(self, pattern: Pattern, free: list[str], _constant: frozenset[str]) -> Step | None:
        """Returns the step that takes the factor with at most one free node, or None if it cannot be taken yet."""
        edge = pattern.edges[self.edge]
        if not free:
            return Check(self.edge, edge.head, edge.tail)
        if free[0] in self.needs(pattern):
            return None
        side: Side = "tail" if free[0] == edge.head else "head"
        return Given(self.edge, side, edge.head if side == "head" else edge.tail, free[0])


@dataclass(frozen=True)
class ValueFactor:
    """The value of one qualifier pair of an edge, given the rest of the edge and its earlier pairs."""

    edge: int
    place: int
    nodes: tuple[str, ...]

    def needs(self, pattern: Pattern) -> list[str]:
        """The nodes that have to be constants first: ends and relation of the edge, earlier pairs, and the relation of this pair."""
        edge = pattern.edges[self.edge]
        earlier = [node for pair in edge.values[: self.place] for node in pair]
        return [node for node in (edge.head, edge.tail, edge.relation, *earlier, edge.values[self.place][0]) if node is not None]

    def step(self, pattern: Pattern, free: list[str], _constant: frozenset[str]) -> Step | None:
        """Returns the step that takes the factor with at most one free node, or None if it cannot be taken yet."""
        if free and free[0] in self.needs(pattern):
            return None
        return Value(self.edge, self.place, pattern.edges[self.edge].values[self.place][1], free[0] if free else None)


@dataclass(frozen=True)
class EqualFactor:
    """An equation."""

    nodes: tuple[str, ...]

    def needs(self, pattern: Pattern) -> list[str]:
        """The nodes that have to be constants before it can be taken: relations, and a node that is equated with itself."""
        return [self.nodes[0]] if self.nodes[0] == self.nodes[-1] else [node for node in self.nodes if node in pattern.relations]

    def step(self, pattern: Pattern, free: list[str], _constant: frozenset[str]) -> Step | None:
        """Returns the step that takes the factor with at most one free node, or None if it cannot be taken yet."""
        left, right = self.nodes[0], self.nodes[-1]
        if not free:
            return Fix(left, right, None)
        if left == right or free[0] in pattern.relations:
            return None
        return Fix(left if free[0] == right else right, free[0], free[0])


@dataclass(frozen=True)
class NestedFactor:
    """A disjunction or a negation; its nodes are those that it shares with the rest."""

    tree: Or[Any] | Not[Any]
    nodes: tuple[str, ...]
    outer: frozenset[str]

    def needs(self, pattern: Pattern) -> list[str]:
        """The nodes that have to be constants before it can be taken: shared variables that range over relations."""
        return [node for node in self.nodes if node in pattern.relations]

    def relaxed(self, pattern: Pattern, node: str, constant: frozenset[str]) -> Nested | None:
        """Returns a condition on one of several shared variables that is never too strict: the others are maximised inside."""
        if isinstance(self.tree, Not) or node in pattern.relations:
            return None
        plans = (_plan(pattern, part, node, constant, frozenset(), frozenset({node})) for part in self.tree.parts)
        return Nested(self.tree, tuple(plans), node)

    def step(self, pattern: Pattern, free: list[str], constant: frozenset[str]) -> Step | None:
        """Returns the step that takes the factor with at most one free node, or None if it cannot be taken yet."""
        if free and free[0] in pattern.relations:
            return None
        into = free[0] if free else None
        parts = (self.tree.part,) if isinstance(self.tree, Not) else self.tree.parts
        plans = tuple(_plan(pattern, part, into, constant, frozenset(), self.outer) for part in parts)
        return Nested(self.tree, plans, into)


Factor = EdgeFactor | ValueFactor | EqualFactor | NestedFactor


def _factors(pattern: Pattern, part: Tree, shared: frozenset[str]) -> Iterator[Factor]:
    """Yields the factors of a part of a conjunction, and the variables that it may share with the rest."""
    match part:
        case int():
            edge = pattern.edges[part]
            yield EdgeFactor(part, tuple(dict.fromkeys(node for node in (edge.head, edge.tail, edge.relation) if node is not None)))
            for place, (_, value) in enumerate(edge.values):
                factor = ValueFactor(part, place, (value,))
                yield ValueFactor(part, place, tuple(dict.fromkeys([*factor.needs(pattern), value])))
        case Equal():
            yield EqualFactor((part.left, part.right))
        case Or() | Not():
            yield NestedFactor(part, tuple(sorted(pattern.mentioned(part) & shared)), shared)
        case And():
            raise AssertionError("nested conjunctions are merged")


def _cycles(edges: Iterable[tuple[str, str]]) -> int:
    """Counts the independent cycles, walked in either direction: the edges between nodes that are connected already."""
    group: dict[str, str] = {}

    def leader(node: str) -> str:
        while group.get(node, node) != node:
            node = group[node]
        return node

    found = 0
    for head, tail in edges:
        one, other = leader(head), leader(tail)
        found += one == other
        group[one] = other
    return found
