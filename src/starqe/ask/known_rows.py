"""The known rows of a request, exactly as SPARQL defines them.

Conjunctive requests are solved by joins of statements, which counts rows before it lists them. Everything else is asked of a SPARQL
store that holds the graph, with the request's own text. The joins give what the store gives: a pattern without qualifiers is also met
by the node of a statement (its reifier), and where a row would occur more often in the store, the store is asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from starqe.ask.answers import Binding, Kind
from starqe.deadline import NEVER, Deadline
from starqe.errors import UnsupportedError
from starqe.kg import Graph, Known
from starqe.queries.exact.solutions import Solutions, solve
from starqe.queries.formula import Variable
from starqe.queries.query import Query
from starqe.queries.sparql.request import SparqlRequest
from starqe.queries.sparql.store import KnownStore, Rows
from starqe.queries.sparql.terms import predefined_prefixes
from starqe.ragged import IntArray

LISTED = 100_000
"""The largest number of known rows that a store lists, or that predictions are compared with."""
_CHECKED = 2_000  # the number of rows that a store is asked about at once

Bindings = Mapping[str, Binding | None]
"""One row: what each column holds."""


class KnownRows(Protocol):
    """The known rows of one request."""

    @property
    def count(self) -> int:
        """The number of rows."""

    @property
    def exact(self) -> bool:
        """Whether that number is exact; if not, there are at least this many."""

    def rows(self, limit: int | None, offset: int, deadline: Deadline = NEVER) -> list[Bindings]:
        """Lists rows from an offset on."""

    def values(self, place: int, deadline: Deadline = NEVER) -> IntArray:
        """Returns the known values of the answer variables of one alternative: (n, A)."""

    def among(self, rows: Sequence[Bindings], deadline: Deadline = NEVER) -> list[bool]:
        """Says which of some rows are known."""


class Binder:
    """Makes bindings of ids and of terms."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def of_id(self, kind: Kind, id_: int) -> Binding:
        """Returns the binding of an entity or a relation."""
        vocabulary = self.graph.relations if kind == "relation" else self.graph.entities
        return Binding(kind, vocabulary.identifier(id_), vocabulary.label(id_))

    def of_term(self, term: Mapping[str, Any], relation: bool) -> Binding:
        """Returns the binding of a term of SPARQL results: an entity or a relation of the graph, or the term as it is."""
        value = term["value"]
        if term["type"] in ("uri", "bnode"):
            iri = f"_:{value}" if term["type"] == "bnode" else value
            names, graph = self.graph.names, self.graph
            own = [("entity", graph.entities, names.entities), ("relation", graph.relations, names.relations)]
            for kind, vocabulary, space in own[::-1] if relation else own:
                if (identifier := space.identifier(iri)) in vocabulary and space.term(identifier).value == value:
                    return self.of_id(kind, vocabulary.id(identifier))  # type: ignore[arg-type]
            return Binding("other", iri, iri, term)
        if term["type"] == "triple":
            shown = " ".join(self.of_term(value[part], part == "predicate").label for part in ("subject", "predicate", "object"))
            return Binding("other", f"<<( {shown} )>>", f"<<( {shown} )>>", term)
        return Binding("literal", value, value, term)


def known_rows(request: SparqlRequest, known: Known, store: KnownStore, most: int, deadline: Deadline = NEVER) -> KnownRows:
    """Returns the known rows of a request.

    Args:
        request: The request.
        known: What counts as known.
        store: A SPARQL store of the same statements.
        most: The number of rows that a store should find at least, if there are that many.
        deadline: When to stop.

    Raises:
        UnsupportedError: The request needs too much memory, or cannot be written in SPARQL.
        DeadlineError: The time is up.
    """
    query = request.query
    if len(request.alternatives) == 1 and _joinable(request):
        hidden = [] if request.distinct else [variable for variable in query.variables if variable not in query.answers]
        if query.variables:
            solutions = solve(
                known, query, [*query.answers, *hidden] or list(query.variables[:1]), deadline=deadline, nodes=request.text is not None
            )
            if request.distinct or request.text is None or not solutions.repeated:
                return JoinedRows(request, solutions, known, Binder(known.graph))
    return StoreRows(request, known.graph, store, most, deadline)


def _joinable(request: SparqlRequest) -> bool:
    """Says whether joins of statements give the rows that a store gives."""
    query = request.query
    if not query.conjunctive or request.alternatives[0].labels or (request.branches and not request.distinct):
        return False
    atoms = [atom.plain for atom in query.all_atoms]
    return not any(
        isinstance(term, Variable) for atom in atoms for term in (atom.relation, *(term for pair in atom.qualifiers for term in pair))
    )


@dataclass(frozen=True, eq=False)
class JoinedRows:
    """The known rows of a conjunctive request, found by joins."""

    request: SparqlRequest
    solutions: Solutions
    known: Known
    binder: Binder

    @property
    def count(self) -> int:
        """The number of rows."""
        return min(self.solutions.count, 1) if not self.request.query.answers and self.request.distinct else self.solutions.count

    @property
    def exact(self) -> bool:
        """Whether that number is exact."""
        return self.solutions.exact

    def rows(self, limit: int | None, offset: int, deadline: Deadline = NEVER) -> list[Bindings]:
        """Lists rows from an offset on."""
        (alternative,) = self.request.alternatives
        answers = alternative.query.answers
        if not answers and self.request.distinct:
            limit = 1 if limit is None else min(limit, 1)
        found = self.solutions.rows(limit, offset, deadline)
        entities = self.binder.graph.entities
        columns: dict[str, list[Binding]] = {}
        length = len(next(iter(found.values())))
        for variable, entity in alternative.given:
            columns[variable.name] = [self.binder.of_id("entity", entities.id(entity))] * length
        for variable in answers:
            ids, place = np.unique(found[variable], return_inverse=True)
            made = [self._bound(id_) for id_ in ids.tolist()]
            columns[variable.name] = [made[number] for number in place.tolist()]
        shown = self.request.shown
        return (
            [dict(zip(shown, row, strict=True)) for row in zip(*(columns[name] for name in shown), strict=True)] if shown else [{}] * length
        )

    def _bound(self, id_: int) -> Binding:
        """Returns an entity, or the node of a statement, which has a higher id."""
        if id_ < (entities := len(self.binder.graph.entities)):
            return self.binder.of_id("entity", id_)
        row, graph = id_ - entities, self.binder.graph
        head, relation, tail = graph.entities.label(graph.head[row]), graph.relations.label(graph.relation[row]), graph.tail[row]
        said = f"statement: {head} - {relation} - {graph.entities.label(tail)}"
        return Binding("other", f"_:r{row}", said, {"type": "bnode", "value": f"r{row}"})

    def values(self, place: int, deadline: Deadline = NEVER) -> IntArray:
        """Returns the known values of the answer variables: (n, A)."""
        answers, entities = self.request.alternatives[place].query.answers, len(self.binder.graph.entities)
        if len(answers) == 1:
            return self.solutions.first[self.solutions.first < entities][:, None]
        if not answers:
            return np.empty((min(self.count, 1), 0), np.int64)
        found = self.solutions.rows(LISTED, 0, deadline)
        values = np.unique(np.stack([found[variable] for variable in answers], axis=1), axis=0)
        return np.asarray(values[(values < entities).all(axis=1)])

    def among(self, rows: Sequence[Bindings], deadline: Deadline = NEVER) -> list[bool]:
        """Says which of some rows are known."""
        if self.exact and self.count <= LISTED:
            return [False] * len(rows)  # all known values were left out already
        return [self._holds(row, deadline) for row in rows]

    def _holds(self, row: Bindings, deadline: Deadline) -> bool:
        (alternative,) = self.request.alternatives
        ids = self.binder.graph.entities.id
        given = {variable: ids(one.value) for variable in alternative.query.answers if (one := row[variable.name]) is not None}
        return solve(self.known, alternative.query, given=given, deadline=deadline).count > 0


class StoreRows:
    """The known rows of any request, found by a SPARQL store."""

    def __init__(self, request: SparqlRequest, graph: Graph, store: KnownStore, most: int, deadline: Deadline) -> None:
        self._request, self._binder, self._store = request, Binder(graph), store
        self._text = request.text if request.text is not None else _text_of(request, graph)
        most = 1 if request.form == "ASK" else most
        found = self._query(self._text, most, deadline)
        self._relations = request.relations
        self._rows, self.exact = self._bindings(found), found.complete or request.form == "ASK"
        self.count = len(self._rows)

    def rows(self, limit: int | None, offset: int, deadline: Deadline = NEVER) -> list[Bindings]:
        """Lists rows from an offset on."""
        deadline.check()
        return self._rows[offset : None if limit is None else offset + limit]

    def values(self, place: int, deadline: Deadline = NEVER) -> IntArray:
        """Returns the known values of the answer variables of one alternative: (n, A)."""
        deadline.check()
        alternative, shown = self._request.alternatives[place], {*self._request.shown}
        names = [variable.name for variable in alternative.query.answers]
        if not names and self._request.form == "ASK":
            return np.empty((len(self._rows), 0), np.int64)
        if not {*names} <= shown:
            return np.empty((0, len(names)), np.int64)
        found = set()
        for row in self._rows:
            if {name for name, one in row.items() if one is not None} == alternative.bound & shown:
                ids = tuple(self._id(row[name], name in self._relations) for name in names)
                if None not in ids:
                    found.add(ids)
        return np.array(sorted(found), np.int64).reshape(len(found), len(names))

    def among(self, rows: Sequence[Bindings], deadline: Deadline = NEVER) -> list[bool]:
        """Says which of some rows are known."""
        known = self._keys
        found = [row_key(row) in known for row in rows]
        if self.exact or self._request.form == "ASK":
            return found
        names = [f"?{name}" for name in self._request.shown]
        for start in range(0, len(rows), _CHECKED):
            part = rows[start : start + _CHECKED]
            lines = " ".join(f"({' '.join(self._term(row[name[1:]]) for name in names)})" for row in part)
            begin = self._request.body
            text = f"{self._text[:begin]} SELECT * {{ {{ {self._text[begin:]} }} VALUES ({' '.join(names)}) {{ {lines} }} }}"
            checked = {row_key(row) for row in self._bindings(self._query(text, LISTED, deadline))}
            found[start : start + _CHECKED] = [row_key(row) in checked for row in part]
        return found

    @cached_property
    def _keys(self) -> set[tuple[object, ...]]:
        return set(map(row_key, self._rows))

    def _query(self, text: str, most: int, deadline: Deadline) -> Rows:
        prefixes = predefined_prefixes(self._binder.graph)
        found = self._store.query(text, prefixes=prefixes, max_rows=most, deadline=deadline)
        assert isinstance(found, Rows), "a request is written as SELECT"
        return found

    def _bindings(self, found: Rows) -> list[Bindings]:
        cache: dict[tuple[str, str, bool], Binding] = {}

        def binding(name: str, term: Mapping[str, Any]) -> Binding:
            if term["type"] not in ("uri", "bnode"):
                return self._binder.of_term(term, False)
            key = term["type"], term["value"], name in self._relations
            if key not in cache:
                cache[key] = self._binder.of_term(term, key[2])
            return cache[key]

        self._relations = self._request.relations
        shown = self._request.shown
        return [{name: binding(name, row[name]) if name in row else None for name in shown} for row in found.rows]

    def _id(self, binding: Binding | None, relation: bool) -> int | None:
        if binding is None or binding.kind != ("relation" if relation else "entity"):
            return None
        graph = self._binder.graph
        return (graph.relations if relation else graph.entities).id(binding.value)

    def _term(self, binding: Binding | None) -> str:
        names = self._binder.graph.names
        if binding is None or binding.kind not in ("entity", "relation"):
            return "UNDEF"
        term = (names.relations if binding.kind == "relation" else names.entities).term(binding.value)
        return str(term) if str(term).startswith("<") else "UNDEF"


def row_key(row: Bindings) -> tuple[object, ...]:
    """Returns what tells a row apart from others."""
    return tuple(None if one is None else (one.kind, one.value, (one.term or {}).get("xml:lang")) for one in row.values())


def _text_of(request: SparqlRequest, graph: Graph) -> str:
    """Writes a request that is no text in SPARQL."""
    if len(request.alternatives) > 1:
        raise UnsupportedError("a request with several alternatives is asked as a text. Write it in SPARQL")
    query: Query = request.query
    return query.sparql(graph.names)
