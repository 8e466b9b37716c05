"""Drawings of queries, as parts of response bodies."""

from pydantic import BaseModel, ConfigDict, Field


class Body(BaseModel):
    """A response body, or a part of one."""

    model_config = ConfigDict(use_attribute_docstrings=True, populate_by_name=True)


class Named(Body):
    """An entity or a relation."""

    entity: str
    """Its identifier."""
    label: str
    """Its label, or else the identifier."""


class Pair(Body):
    """A qualifier pair."""

    relation: Named
    value: Named


class Node(Body):
    """A variable, or one place where an entity is given."""

    id: str
    kind: str = Field(examples=["target"])
    """anchor, variable or target."""
    entity: str | None = None
    """The given entity, or the value of a variable in an explanation."""
    label: str


class Placed(Named):
    """A relation or a qualifier value of a query."""

    kind: str = Field(default="anchor", examples=["target"])
    """anchor, variable or target."""
    variable: str | None = None
    """The variable, as it is written; in an explanation it has a value."""


class PlacedPair(Pair):
    """A qualifier pair of a query."""

    relation: Placed
    value: Placed


class Mark(Body):
    """The group that a condition belongs to: an option of a union, or a negation."""

    kind: str = Field(examples=["option"])
    """option or not."""
    text: str = Field(examples=["option A"])
    """The text beside the condition, the same for all conditions of one option or negation."""
    title: str


class Condition(Body):
    """A comparison of two entities."""

    text: str = Field(examples=["?x ≠ ?y"])
    marks: list[Mark] = []
    holds: bool | None = None
    """In an explanation: whether it is met."""


class Edge(Body):
    """A statement that is asked for."""

    from_: str = Field(alias="from")
    """The node of its head."""
    to: str
    """The node of its tail."""
    relation: Placed
    qualifiers: list[PlacedPair]
    marks: list[Mark] = []
    """The options and negations that it is part of, the outermost first."""
    used: bool = True
    """In an explanation: false for an option that does not explain the answer."""
    fact: bool | None = None
    """In an explanation: whether the graph has the statement."""
    probability: float | None = None
    """In an explanation: the probability of the statement alone."""


class Drawing(Body):
    """A query as a graph."""

    nodes: list[Node]
    edges: list[Edge]
    conditions: list[Condition] = []
