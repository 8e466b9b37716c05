"""What the JSON routes take and give."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from starqe.config import Section

EXAMPLE = "PREFIX : <https://starqe.example/science/>\nSELECT ?who WHERE { ?who <https://starqe.example/science/relation/bornIn> :Ulm }"

QueryText = Annotated[str, Field(description="The query, in SPARQL.", examples=[EXAMPLE])]


class _Given(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True, populate_by_name=True)


class AskBody(Section):
    """A query, and how many answers are wanted."""

    query: QueryText
    top: int | None = Field(default=None, ge=1, examples=[20])
    """How many answers are wanted, known and predicted together; without it, the threshold decides."""
    threshold: float = Field(default=0.5, ge=0, le=1)
    """How probable a predicted answer has to be where ``top`` and LIMIT are left out."""
    known_only: bool = False
    """Leave the predictions out."""


class CheckBody(Section):
    """A query that is to be read only."""

    query: QueryText


class ExplainBody(Section):
    """A query, and one entity that may answer it."""

    query: QueryText
    entity: str = Field(examples=["AlbertEinstein"])
    """The identifier of the entity."""


class Named(_Given):
    """An entity or a relation."""

    entity: str
    """Its identifier."""
    label: str
    """Its label, or else the identifier."""


class Pair(_Given):
    """A qualifier pair."""

    relation: Named
    value: Named


class WeighedPair(Pair):
    """A qualifier pair, and what it did."""

    difference: float | None = None
    """For a prediction: its probability with all pairs, less that without this one."""


class Node(_Given):
    """A variable, or one place where an entity is given."""

    id: str
    kind: str = Field(examples=["target"])
    """anchor, variable or target."""
    entity: str | None = None
    """The entity that is given, or that a variable stands for in an explanation."""
    label: str


class Edge(_Given):
    """A statement that is asked for."""

    from_: str = Field(alias="from")
    """The node of its head."""
    to: str
    """The node of its tail."""
    relation: Named
    qualifiers: list[Pair]
    fact: bool | None = None
    """In an explanation: whether the graph has the statement."""
    probability: float | None = None
    """In an explanation: how probable the statement is by itself."""


class Drawing(_Given):
    """A query as a graph."""

    nodes: list[Node]
    edges: list[Edge]


class OneAnswer(Named):
    """An entity that answers the query."""

    known: bool
    """Whether the graph entails it."""
    probability: float
    """1 for a known answer; else how probable it is that the complete graph entails it."""


class Row(OneAnswer):
    """An answer with all that was asked for."""

    iri: str
    """The entity in RDF: an IRI, or a blank node."""
    support: dict[str, Named]
    """What the further variables of SELECT stand for, in one way in which the answer holds."""


class AskAnswer(_Given):
    """The answers: known ones first, then predicted ones, the most probable first."""

    columns: list[str]
    """The variables that were asked for."""
    known_splits: list[str]
    """The splits of the graph that count as known."""
    notes: list[str]
    """What was left out, or is approximate."""
    answers: list[Row]
    drawing: Drawing
    milliseconds: float
    """How long it took, waiting included."""


class CheckAnswer(_Given):
    """The query as it was understood."""

    drawing: Drawing


class Why(_Given):
    """One statement that an answer rests on."""

    edge: int
    """Its place among the edges of the drawing."""
    head: Named
    relation: Named
    tail: Named
    qualifiers: list[WeighedPair]
    fact: bool
    """Whether the graph has it."""
    probability: float
    statements: list[str]
    """The statements of the graph that entail it, written with labels."""


class ExplainAnswer(_Given):
    """Why an entity answers a query."""

    answer: OneAnswer
    assignment: dict[str, Named]
    """What every variable stands for."""
    note: str
    """How far the explanation can be trusted."""
    drawing: Drawing
    reasons: list[Why]


class Entities(_Given):
    """Entities whose name begins as asked."""

    entities: list[Named]


class Example(_Given):
    """A query that this graph can be asked."""

    title: str
    query: str


class Examples(_Given):
    """Queries that this graph can be asked."""

    examples: list[Example]


class GraphAnswer(_Given):
    """The graph that is asked, in numbers."""

    name: str
    statements: int
    entities: int
    relations: int
    known_splits: list[str]
    version: str
    """The version of starqe."""


class Health(_Given):
    """The service is there."""

    status: str = "ok"


class ErrorPart(_Given):
    """What went wrong."""

    kind: str = Field(examples=["SparqlError"])
    message: str
    line: int | None = None
    """Where in the query: the line, from 1."""
    column: int | None = None
    """The column in the line, from 1."""
    offset: int | None = None
    """How many characters stand before the place."""
    length: int | None = None
    """How many characters the place has."""


class ErrorBody(_Given):
    """The body of every error."""

    error: ErrorPart
