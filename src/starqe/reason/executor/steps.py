"""The steps of a plan: the operation on an edge, and the node that it constrains."""

from bisect import bisect_right
from dataclasses import dataclass

from starqe.kg.known import Side
from starqe.queries.formula import Not, Or
from starqe.reason.executor.pattern import Equal, Tree


@dataclass(frozen=True)
class EdgeStep:
    """A step that uses one edge."""

    edge: int


@dataclass(frozen=True)
class Given(EdgeStep):
    """An edge with one constant end: its truths over all entities are a condition on the node at the other end."""

    given: Side
    constant: str
    into: str


@dataclass(frozen=True)
class Check(EdgeStep):
    """An edge between two constants: one truth for the whole question."""

    head: str
    tail: str


@dataclass(frozen=True)
class Pass(EdgeStep):
    """An edge from a finished inner variable: its best candidates pass their truths on to the parent."""

    given: Side
    child: str
    parent: str


@dataclass(frozen=True)
class Close:
    """A finished inner variable with no way to the target: its best candidate counts for the whole question."""

    node: str


@dataclass(frozen=True)
class Value(EdgeStep):
    """A qualifier value of an edge whose ends are constants: a condition on its node, or one truth where that is a constant too."""

    place: int
    node: str
    into: str | None


@dataclass(frozen=True)
class Fix:
    """An equation with a constant: a condition on the other node that one entity meets, or one truth for the whole question."""

    constant: str
    node: str
    into: str | None


@dataclass(frozen=True)
class Nested:
    """A disjunction (several plans) or a negation (one): a condition on the node that it leaves open, or one truth."""

    tree: "Or[int | Equal] | Not[int | Equal]"
    """The part of the pattern that it belongs to."""
    plans: tuple["Plan", ...]
    """The plan of each of its parts."""
    into: str | None

    @property
    def negated(self) -> bool:
        """Whether it is a negation."""
        return isinstance(self.tree, Not)

    @property
    def parts(self) -> tuple[Tree, ...]:
        """The parts of the tree, in the order of the plans."""
        return (self.tree.part,) if isinstance(self.tree, Not) else self.tree.parts


@dataclass(frozen=True)
class Bind:
    """A variable that is tried as a constant: each of its best candidates."""

    node: str
    edge: int | None
    """The edge whose statements suggest candidates if there is no condition."""
    hint: Nested | None = None
    """A condition for finding candidates, if there is neither another condition nor an edge; its truth is not counted."""


Step = Given | Check | Pass | Close | Value | Fix | Nested | Bind


@dataclass(frozen=True)
class Plan:
    """The steps for one pattern, or for one part of it.

    Every edge is in one step and is predicted from one side only, so its truth is a function of the edge, its head and its tail.
    """

    target: str | None
    """The variable whose truths are the result; None where the result is one truth."""
    steps: tuple[Step, ...]

    def sides(self) -> dict[int, Side]:
        """The side that each edge is predicted from."""
        found: dict[int, Side] = {}
        for step in self.steps:
            match step:
                case Given() | Pass():
                    found[step.edge] = step.given
                case Check():
                    found[step.edge] = "head"
                case Nested():
                    for plan in step.plans:
                        found |= plan.sides()
        return found

    @property
    def binds(self) -> bool:
        """Whether variables are bound, here or in a part."""
        return any(isinstance(step, Bind) or (isinstance(step, Nested) and any(plan.binds for plan in step.plans)) for step in self.steps)

    @property
    def repeats(self) -> bool:
        """Whether candidates are tried before the last step, so that trying few of them first can save predictions."""
        return self.binds or any(isinstance(step, Pass | Nested) for step in self.steps[:-1])

    def questions(self, width: int) -> int:
        """Returns the maximum number of one-hop predictions with this number of candidates for each inner variable."""
        branches, total = 1, 0
        for step in self.steps:
            match step:
                case Bind():
                    branches *= width
                case Pass():
                    total += branches * width
                case Given() | Check() | Value():
                    total += branches
                case Nested():
                    total += branches * sum(plan.questions(width) for plan in step.plans)
        return total

    def width(self, beam: int, questions: int) -> int:
        """Returns the widest beam, up to the one wanted, that needs no more than this number of questions; at least 1."""
        return max(1, bisect_right(range(1, beam + 1), questions, key=self.questions))
