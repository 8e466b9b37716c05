"""Request and response bodies of the JSON routes."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from starqe.ask import THRESHOLD
from starqe.config import Section
from starqe.serve.drawn import Body, Drawing, Named, Pair

EXAMPLE = "PREFIX : <https://starqe.example/science/>\nSELECT ?who WHERE { ?who <https://starqe.example/science/relation/bornIn> :Ulm }"

QueryText = Annotated[str, Field(description="The query, in SPARQL.", examples=[EXAMPLE])]


class AskBody(Section):
    """A query, and the number of answers wanted."""

    query: QueryText
    top: int | None = Field(default=None, ge=1, examples=[20])
    """At most this many known rows, and at most this many predicted ones; without it, the threshold decides."""
    threshold: float = Field(default=THRESHOLD, ge=0, le=1)
    """The minimum probability of a predicted answer, if neither ``top`` nor LIMIT is given."""
    known_only: bool = False
    """Leave the predictions out."""


class CheckBody(Section):
    """A query to parse without answering it."""

    query: QueryText


class ExplainBody(Section):
    """A query, and one row that may answer it: its entity, or its values by column."""

    query: QueryText
    entity: str | None = Field(default=None, examples=["AlbertEinstein"])
    """The value of the first column: its identifier, the last part of an IRI, or its label."""
    row: dict[str, str] | None = Field(default=None, examples=[{"who": "AlbertEinstein"}])
    """Values of columns, by the names of their variables; columns without a value may have any."""

    @model_validator(mode="after")
    def _one_of_both(self) -> "ExplainBody":
        if (self.entity is None) == (self.row is None):
            raise ValueError("either 'entity' or 'row' says what to explain")
        return self


class OneAnswer(Named):
    """An answer entity."""

    known: bool
    """Whether the graph entails it."""
    probability: float
    """1 for a known answer; else how probable it is that the complete graph entails it."""


class Bound(Named):
    """The value of one column of a row."""

    kind: str = Field(examples=["entity"])
    """entity, relation, literal or other."""
    iri: str
    """In RDF: an IRI, a blank node, or the text of a literal."""
    datatype: str | None = Field(None, examples=["http://www.w3.org/2001/XMLSchema#date"])
    """The IRI of the datatype of a literal that is not a plain text."""
    language: str | None = None
    """The language of a literal."""
    interval: tuple[str, str] | None = Field(None, examples=[("1875-02-01", "1883-09-30")])
    """Of a predicted number or date: bounds that it lies between with a probability of 0.9, if the row holds."""


class Row(OneAnswer):
    """An answer with all its columns. ``entity``, ``label`` and ``iri`` are those of the first column."""

    iri: str
    """The first column in RDF: an IRI, or a blank node."""
    support: dict[str, Named]
    """The values of the further columns that are bound."""
    bindings: dict[str, Bound | None]
    """The value of every column; null if the row does not bind it."""


class Counts(Body):
    """The number of rows, and of those that are shown."""

    known: int
    """Number of known rows in all."""
    known_exact: bool
    """Whether that number is exact; if not, there are at least this many."""
    known_shown: int
    predicted_shown: int


class AskAnswer(Body):
    """The answers: known rows first, then predicted ones, the most probable first.

    Known rows are those of SPARQL; predicted rows are distinct, and none of them is known.
    """

    columns: list[str]
    """The variables that were asked for."""
    known_splits: list[str]
    """The splits of the graph that count as known."""
    notes: list[str]
    """Notes on what was left out or is approximate."""
    calibrated: bool
    """Whether the probabilities were fitted on enough validation data to be taken as probabilities."""
    counts: Counts
    answers: list[Row]
    drawing: Drawing
    predictable: bool = True
    """Whether the query has a form that is predicted; if not, the rows are computed from known facts, and are not explained."""
    milliseconds: float
    """The response time, waiting included."""


class CheckAnswer(Body):
    """The query as it was understood."""

    drawing: Drawing
    predictable: bool = True
    """Whether the query has a form that is predicted; if not, nothing is drawn."""


class WeighedPair(Pair):
    """A qualifier pair, and its contribution."""

    difference: float | None = None
    """For a prediction: its probability with all pairs, minus that without this one."""


class Reason(Body):
    """One statement that an answer rests on."""

    edge: int
    """Its index among the edges of the drawing."""
    head: Named
    relation: Named
    tail: Named
    qualifiers: list[WeighedPair]
    fact: bool
    """Whether the graph has it."""
    probability: float
    statements: list[str]
    """The statements of the graph that entail it, written with labels."""
    used: bool = True
    """Whether the answer rests on it: not if it is in another option than the one that explains the answer, or in a negation."""


class Part(Body):
    """A part of the query with its truth for this answer, from 0 to 1."""

    kind: str = Field(examples=["any"])
    """statement, same (two entities are compared), all, any (options) or not."""
    truth: float
    reason: int | None = None
    """Of a statement: its index among the reasons."""
    left: Named | None = None
    right: Named | None = None
    chosen: int | None = None
    """Of options: the index of the one that explains the answer."""
    parts: list["Part"] = Field(default_factory=list)


class Views(Body):
    """The two scores that make up the probability of a predicted answer."""

    statements: float
    """The executor's score: the truth of the statements of the explanation together."""
    exact: bool
    """Whether this is the best derivation; if not, skipped candidates might give a better one."""
    model: float
    """The encoder's score for the whole question: the softmax probability of this entity."""
    weight: float
    """The weight of the executor's score, from 0 to 1; the encoder has the rest."""


class ExplainAnswer(Body):
    """Why a row answers a query."""

    answer: OneAnswer
    assignment: dict[str, Named]
    """The value of every variable."""
    note: str
    """A note on the reliability of the explanation."""
    calibrated: bool
    """Whether its probabilities were fitted on enough validation data to be taken as probabilities."""
    drawing: Drawing
    reasons: list[Reason]
    derivation: Part
    """The structure of the query with its reasons."""
    views: Views | None
    """For a prediction: the components of its probability."""


class FoundName(Named):
    """An entity or a relation that was looked up."""

    name: str
    """The text for it in a query, between quotes: its label if that is unique, else its identifier."""


class FoundRelation(FoundName):
    """A relation, and how often the graph uses it."""

    statements: int
    """The number of statements with this relation."""
    qualifiers: int
    """The number of qualifiers with this relation."""


class Entities(Body):
    """Entities that were looked up, the best match first."""

    entities: list[FoundName]


class Relations(Body):
    """Relations that were looked up: the best match first, or without a text the most frequent first."""

    relations: list[FoundRelation]


class Example(Body):
    """An example query for this graph."""

    title: str
    query: str


class Examples(Body):
    """Example queries for this graph."""

    examples: list[Example]


class GraphAnswer(Body):
    """The graph that is asked, in numbers."""

    name: str
    statements: int
    entities: int
    relations: int
    known_splits: list[str]
    version: str
    """The version of starqe."""


class Health(Body):
    """The service is running."""

    status: Literal["ok", "starting"] = "ok"
    run: str = ""
    """The beginning of the fingerprint of the run that answers; empty if it was not read from a folder."""
    preparing: list[str] | None = None
    """What is still being prepared while the service starts: questions that need it get a 503."""


class ErrorPart(Body):
    """What went wrong."""

    kind: str = Field(examples=["SparqlError"])
    message: str
    line: int | None = None
    """Where in the query: the line, from 1."""
    column: int | None = None
    """The column in the line, from 1."""
    offset: int | None = None
    """The number of characters before the error."""
    length: int | None = None
    """The number of characters of the error."""
    suggestions: list[str] | None = None
    """Possible replacements for the text at the error, the best first."""


class ErrorBody(Body):
    """The body of every error."""

    error: ErrorPart
