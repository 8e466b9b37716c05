"""A SPARQL request: its queries, and how their answers are shown."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from starqe.errors import QueryError
from starqe.queries.formula import And, Atom, Formula, Same, Term, Variable, free_variables, relation_variables, substitute
from starqe.queries.query import Query
from starqe.queries.sparql.groups import Case, LabelPattern
from starqe.queries.sparql.literal_facts import LiteralFact
from starqe.queries.sparql.syntax import Node, known_only

RESERVED = ("score", "known")
"""The variables that every answer has: its probability, and whether it is known. They may occur in SELECT only."""

Form = Literal["SELECT", "ASK", "CONSTRUCT"]


@dataclass(frozen=True)
class Alternative:
    """One of the queries that yield rows, and the variables that the text itself gives a value.

    The rows of one alternative all bind the same variables. A text has several where a part of it is optional, or where the
    branches of a UNION bind different variables.
    """

    query: Query
    """Its answer variables are those that a row of this alternative binds, and those whose labels or literals it shows."""
    given: tuple[tuple[Variable, str], ...] = ()
    """Variables that can have only one value, with their entities; they are no longer variables of the query."""
    labels: tuple[LabelPattern, ...] = ()
    """Labels that a row shows."""
    facts: tuple[LiteralFact, ...] = ()
    """Patterns with literal values and conditions on these: known facts, beside what the query predicts."""
    predicted: bool = True
    """Whether the query can be predicted; if not, it has an atom for each pattern with literals too, all of them known facts."""

    @property
    def bound(self) -> frozenset[str]:
        """The names of the variables that a row of this alternative binds."""
        labels = (label.variable for label in self.labels if not label.absent)
        literals = (fact.value for fact in self.facts if fact.value is not None)
        return frozenset(variable.name for variable in (*self.query.answers, *dict(self.given), *labels, *literals))


@dataclass(frozen=True)
class SparqlRequest:
    """A SPARQL request: one or more alternatives, and how their answers are shown.

    Raises:
        QueryError: There is no alternative, a column is not part of an answer, or a count is negative.
    """

    alternatives: tuple[Alternative, ...]
    columns: tuple[str, ...]
    """The names in the order of SELECT: variables of the text, and the reserved ones."""
    distinct: bool = False
    """Whether equal rows are merged."""
    limit: int | None = None
    """The largest number of answers."""
    offset: int = 0
    """The number of answers to skip."""
    form: Form = "SELECT"
    text: str | None = None
    """The text rewritten for a SPARQL store, without LIMIT and OFFSET: names are IRIs. None for a query that does not come from a text."""
    body: int = 0
    """Where the query begins in the text, after its declarations."""
    template: tuple[tuple[Term, Term, Term], ...] = ()
    """Of CONSTRUCT: the triples of each row; terms other than variables are written as in N-Triples."""

    branches: bool = False
    """Whether the text has UNION, OPTIONAL, EXISTS or several rows of VALUES: the query does not say how often a row occurs (equal
    branches became one, and what must exist became a pattern like others), so that only a store counts it."""

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
    def predicted(self) -> tuple[tuple[int, Alternative], ...]:
        """The alternatives that can be predicted, with their places."""
        return tuple((place, one) for place, one in enumerate(self.alternatives) if one.predicted)

    @property
    def about_given(self) -> tuple[Alternative, ...]:
        """The alternatives that ask for nothing but literals of given entities."""
        return tuple(one for one in self.alternatives if not one.predicted and one.facts and _is_about_given(one))

    @property
    def shown(self) -> tuple[str, ...]:
        """The columns without the reserved ones."""
        return tuple(name for name in self.columns if name not in RESERVED)

    @property
    def relations(self) -> frozenset[str]:
        """The names of the variables that range over relations."""
        return frozenset(variable.name for one in self.alternatives for variable in relation_variables(one.query.formula))

    @property
    def score(self) -> bool:
        """Whether the score of each answer is asked for."""
        return "score" in self.columns

    @property
    def known(self) -> bool:
        """Whether it is asked for which answers are known."""
        return "known" in self.columns


@dataclass(frozen=True)
class _Given:
    """The values of variables that are equated with constants."""

    values: dict[Variable, str]

    def __call__(self, term: Term) -> Term:
        return self.values.get(term, term) if isinstance(term, Variable) else term


def alternative_of(case: Case, shown: list[str], place: Node) -> Alternative:
    """Builds the query of a case: a variable that is equated with a constant is replaced by it.

    Raises:
        KnownOnlyError: A wanted variable, or an entity whose literals are wanted, occurs in no statement.
    """
    relations = {variable for part in case.conditions for variable in relation_variables(part)}
    values: dict[Variable, str] = {}
    conditions: list[Formula] = []
    for part in case.conditions:
        variable, constant = _equation(part)
        if variable is not None and variable not in relations and values.setdefault(variable, constant) == constant:
            continue
        conditions.append(part)
    given = _Given(values)
    formula: Formula = And(tuple(conditions))
    if values:
        formula = substitute(formula, given)
    labels = tuple(replace(label, subject=given(label.subject)) for label in case.labels)
    wanted = [Variable(name) for name in shown if Variable(name) in case.bound]
    labelled = [label.subject for label in labels if isinstance(label.subject, Variable)]
    named = {label.variable for label in labels} | {fact.value for fact in case.facts}
    holders = [fact.subject for fact in case.facts if isinstance(fact.subject, Variable)]
    answers = tuple(v for v in dict.fromkeys([*wanted, *labelled, *holders]) if v not in values and v not in named)
    lost = set(answers) - (free_variables(formula) if conditions else set())
    if case.facts and (lost or not conditions):
        return _known_alternative(case, wanted, place)
    if lost or {*holders} & {*values}:
        raise known_only(place, "literal" if not lost else "label" if lost & set(labelled) else "no pattern")
    return Alternative(Query(formula, answers), tuple((v, values[v]) for v in wanted if v in values), labels, case.facts)


def _known_alternative(case: Case, wanted: list[Variable], place: Node) -> Alternative:
    """Builds an alternative without predictions: an entity is known only by its literals.

    Raises:
        KnownOnlyError: It shows labels, or what it shows is in no pattern.
    """
    atoms = [
        Atom(fact.subject, fact.relation, fact.value or Variable(f"literal_{number}"), fact=True)
        for number, fact in enumerate(case.facts)
        if fact.subject is not None
    ]
    formula: Formula = And((*atoms, *case.conditions))
    if case.labels or not {*wanted} <= free_variables(formula):
        raise known_only(place, "label" if case.labels else "no pattern")
    return Alternative(Query(formula, tuple(wanted)), facts=case.facts, predicted=False)


def _is_about_given(alternative: Alternative) -> bool:
    """Says whether an alternative has only literals as answers, and given entities as their subjects."""
    values = {fact.value for fact in alternative.facts}
    return {*alternative.query.answers} <= values and not any(isinstance(fact.subject, Variable) for fact in alternative.facts)


def _equation(formula: Formula) -> tuple[Variable | None, str]:
    if isinstance(formula, Same):
        for one, other in (formula.terms, formula.terms[::-1]):
            if isinstance(one, Variable) and isinstance(other, str):
                return one, other
    return None, ""
