"""What a SPARQL text asks for: the queries behind it, and how their answers are to be shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from starqe.errors import QueryError
from starqe.queries.formula import Term, Variable, relation_variables
from starqe.queries.query import Query
from starqe.queries.sparql.groups import LabelPattern

RESERVED = ("score", "known")
"""The variables that an answer brings with it: how plausible it is, and whether it is known. They stand in SELECT only."""

Form = Literal["SELECT", "ASK", "CONSTRUCT"]


@dataclass(frozen=True)
class Alternative:
    """One way in which a row can come about: a query, and the variables that are given a value instead of being found.

    The rows of one alternative all bind the same variables. A text has several where a part of it is optional, or where the
    branches of a UNION bind different variables.
    """

    query: Query
    """Its answer variables are those that a row of this alternative binds, and those whose labels it shows."""
    given: tuple[tuple[Variable, str], ...] = ()
    """Variables that can have only one value, with their entities; they are no variables of the query any more."""
    labels: tuple[LabelPattern, ...] = ()
    """Labels that a row shows."""

    @property
    def bound(self) -> frozenset[str]:
        """The names of the variables that a row of this alternative binds."""
        labels = (label.variable for label in self.labels if not label.absent)
        return frozenset(variable.name for variable in (*self.query.answers, *dict(self.given), *labels))


@dataclass(frozen=True)
class SparqlRequest:
    """What a text asks for: one or more alternatives, and how their answers are to be shown.

    Raises:
        QueryError: There is no alternative, a column is nothing that an answer has, or a count is negative.
    """

    alternatives: tuple[Alternative, ...]
    columns: tuple[str, ...]
    """The names in the order of SELECT: variables of the text, and the reserved ones."""
    distinct: bool = False
    """Whether equal rows are given once."""
    limit: int | None = None
    """The largest number of answers."""
    offset: int = 0
    """The number of answers to skip."""
    form: Form = "SELECT"
    text: str | None = None
    """The text as a SPARQL store takes it, without LIMIT and OFFSET: names are IRIs. None for a query that is no text."""
    body: int = 0
    """Where the query begins in the text, after its declarations."""
    template: tuple[tuple[Term, Term, Term], ...] = ()
    """Of CONSTRUCT: the triples that each row becomes; what is no variable is written as in N-Triples."""

    branches: bool = False
    """Whether the text has UNION, OPTIONAL or EXISTS: the query does not say how often a row occurs (equal branches became one, and
    what must exist became a pattern like others), so that only a store counts it."""

    def __post_init__(self) -> None:
        if not self.alternatives:
            raise QueryError("a request has a query, found none")
        bound = {*RESERVED}.union(*(alternative.bound for alternative in self.alternatives))
        if lost := [name for name in self.columns if name not in bound]:
            raise QueryError(f"a column is a variable of the query or one of {', '.join(RESERVED)}, found {lost[0]!r}")
        if self.offset < 0 or (self.limit or 0) < 0:
            raise QueryError(f"limit and offset are counts, found {self.limit} and {self.offset}")

    @classmethod
    def of(cls, query: Query, columns: tuple[str, ...] | None = None, given: Mapping[Variable, str] | None = None) -> "SparqlRequest":
        """Returns the request for the distinct answers of one query; without columns, a column for each answer variable."""
        alternative = Alternative(query, tuple((given or {}).items()))
        return cls((alternative,), tuple(v.name for v in query.answers) if columns is None else columns, distinct=True)

    @property
    def query(self) -> Query:
        """The query of the first alternative."""
        return self.alternatives[0].query

    @property
    def shown(self) -> tuple[str, ...]:
        """The columns without the reserved ones."""
        return tuple(name for name in self.columns if name not in RESERVED)

    @property
    def relations(self) -> frozenset[str]:
        """The names of the variables that stand for relations."""
        return frozenset(variable.name for one in self.alternatives for variable in relation_variables(one.query.formula))

    @property
    def score(self) -> bool:
        """Whether the score of each answer is asked for."""
        return "score" in self.columns

    @property
    def known(self) -> bool:
        """Whether it is asked for which answers are known."""
        return "known" in self.columns
