"""The order in which the edges of a shape are reasoned, from the anchors to the target.

A leaf (an inner variable with one edge left) is taken out by a message along that edge. Where only cycles are left, one
variable of a cycle is bound: it is tried out candidate by candidate, and is a constant from then on. A disjunction would
be one more kind of step, which joins the results of two plans; a negation a sign on an edge; a variable as relation or as
qualifier value one more end of an edge, to be bound like the variable of a cycle.
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from starqe.errors import UnsupportedError
from starqe.kg.known import Side
from starqe.queries.shape import Shape, node_kind


@dataclass(frozen=True)
class Given:
    """An edge with one constant end: its truths over all entities are a condition on the node at the other end."""

    edge: int
    given: Side
    constant: str
    into: str


@dataclass(frozen=True)
class Check:
    """An edge between two constants: one truth for the whole query."""

    edge: int
    head: str
    tail: str


@dataclass(frozen=True)
class Pass:
    """An edge from a finished inner variable: its best candidates tell the parent what they make true."""

    edge: int
    given: Side
    child: str
    parent: str


@dataclass(frozen=True)
class Close:
    """A finished inner variable with no way to the target: its best candidate counts for the whole query."""

    node: str


@dataclass(frozen=True)
class Bind:
    """A variable on a cycle: each of its best candidates is tried as a constant."""

    node: str
    edge: int
    """Where candidates are looked for if nothing else says which are good."""


Step = Given | Check | Pass | Close | Bind


@dataclass(frozen=True)
class Plan:
    """The steps for one shape. Every edge stands in one step, and is predicted from one side only: its given side."""

    shape: Shape
    steps: tuple[Step, ...]

    @cached_property
    def given(self) -> tuple[Side, ...]:
        """The side that each edge is predicted from: so its truth is a function of the edge, its head and its tail."""
        sides: dict[int, Side] = {}
        for step in self.steps:
            if isinstance(step, Given | Pass):
                sides[step.edge] = step.given
            elif isinstance(step, Check):
                sides[step.edge] = "head"
        return tuple(sides[edge] for edge in range(len(self.shape.edges)))

    @property
    def cyclic(self) -> bool:
        """Whether variables are bound: some of them lie on a cycle."""
        return any(isinstance(step, Bind) for step in self.steps)

    def questions(self, width: int) -> int:
        """Counts the one-hop predictions that a query needs at most, with so many candidates of each inner variable."""
        branches, total = 1, 0
        for step in self.steps:
            match step:
                case Bind():
                    branches *= width
                case Pass():
                    total += branches * width
                case Given() | Check():
                    total += branches
        return total

    def width(self, beam: int, questions: int) -> int:
        """Gives the widest beam, up to the one wanted, with which the questions suffice; at least 1."""
        return max(1, bisect_right(range(1, beam + 1), questions, key=self.questions))


@lru_cache(maxsize=1024)
def plan_of(shape: Shape) -> Plan:
    """Gives the plan for a shape; equal shapes have equal plans.

    Raises:
        UnsupportedError: The shape is reified.
    """
    if shape.of_kind("blank"):
        raise UnsupportedError(f"reasoning takes statements with qualifiers, found a reified shape: '{shape.text}'. Undo the reification")
    return Plan(shape, tuple(_Planner(shape).steps()))


class _Planner:
    """What is still to do: the edges left, the inner variables left, and which nodes are constants or have a condition."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.left = list(range(len(shape.edges)))
        self.open = [node for node in shape.nodes if node_kind(node) == "variable"]
        self.constant = set(shape.anchors)
        self.conditioned: set[str] = set()

    def steps(self) -> Iterable[Step]:
        while self.left or self.open:
            yield from self._constants()
            leaves = [node for node in self.open if len(self._edges_at(node)) <= 1]
            if leaves:
                # A leaf with a condition first: where two leaves share an edge, it is the one whose candidates mean something.
                yield self._leaf(min(leaves, key=lambda node: node not in self.conditioned))
            elif self.left:
                yield self._bind()

    def _edges_at(self, node: str) -> list[int]:
        return [edge for edge in self.left if node in self.shape.edges[edge]]

    def _constants(self) -> Iterable[Step]:
        for edge in list(self.left):
            head, tail = self.shape.edges[edge]
            if head in self.constant and tail in self.constant:
                yield Check(edge, head, tail)
            elif head in self.constant:
                yield Given(edge, "head", head, tail)
                self.conditioned.add(tail)
            elif tail in self.constant:
                yield Given(edge, "tail", tail, head)
                self.conditioned.add(head)
            else:
                continue
            self.left.remove(edge)

    def _leaf(self, node: str) -> Step:
        self.open.remove(node)
        edges = self._edges_at(node)
        if not edges:
            return Close(node)
        self.left.remove(edges[0])
        head, tail = self.shape.edges[edges[0]]
        parent = tail if node == head else head
        self.conditioned.add(parent)
        return Pass(edges[0], "head" if node == head else "tail", node, parent)

    def _bind(self) -> Step:
        """Binds the variable that has a condition, then the one that opens the most cycles, then the first."""

        def cost(node: str) -> tuple[bool, int]:
            return node not in self.conditioned, _cycles(self.shape.edges[edge] for edge in self.left if node not in self.shape.edges[edge])

        cycles = _cycles(self.shape.edges[edge] for edge in self.left)
        node = min((node for node in self.open if cost(node)[1] < cycles), key=cost)
        self.open.remove(node)
        self.constant.add(node)
        return Bind(node, self._edges_at(node)[0])


def _cycles(edges: Iterable[tuple[str, str]]) -> int:
    """Counts the independent cycles, walked in either direction: the edges that join what hangs together already."""
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
