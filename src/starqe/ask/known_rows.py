"""The known rows of a request, exactly as SPARQL defines them.

Conjunctive requests, and disjunctions of them whose rows are distinct, are solved by joins of statements, which counts rows before it
lists them. Everything else goes to a SPARQL store that holds the graph, as the request's own text. The joins return the same rows as the
store: the node of a statement (its reifier) also matches a pattern without qualifiers, and if a row would occur more often in the
store, the store is asked.
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
from starqe.kg.literal import STRING
from starqe.kg.literal import Literal as RdfLiteral
from starqe.queries.exact.solutions import Solutions, solve, united
from starqe.queries.formula import And, Variable, disjuncts
from starqe.queries.query import Query
from starqe.queries.sparql.request import Alternative, SparqlRequest
from starqe.queries.sparql.terms import predefined_prefixes
from starqe.queries.sparql.write import write_sparql
from starqe.queries.store.known_store import KnownStore, Rows
from starqe.ragged import IntArray

LISTED = 100_000
"""The largest number of known rows that a store lists, or that predictions are compared with."""
_CHECKED = 2_000  # the number of rows that a store is asked about at once

Bindings = Mapping[str, Binding | None]
"""One row: the binding of each column."""


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
        """Returns which of these rows are known."""


class Binder:
    """Builds bindings from ids and from terms."""

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
        literals = self.graph.literals
        found = literals.with_term(RdfLiteral(value, term.get("datatype", STRING), term.get("xml:lang", ""))) if len(literals) else []
        return Binding("literal", value, literals[found[0]].label if len(found) == 1 else value, term)


def known_rows(request: SparqlRequest, known: Known, store: KnownStore, most: int, deadline: Deadline = NEVER) -> KnownRows:
    """Returns the known rows of a request.

    Args:
        request: The request.
        known: What counts as known.
        store: A SPARQL store of the same statements.
        most: The number of rows that the store lists, if there are that many.
        deadline: When to stop.

    Raises:
        UnsupportedError: The request needs too much memory, or cannot be written in SPARQL.
        DeadlineError: The time is up.
    """
    if parts := _joinable(request, known.graph):
        nodes, solutions = request.text is not None, list[Solutions]()
        for query in parts:
            hidden = [] if request.distinct else [variable for variable in query.variables if variable not in query.answers]
            wanted = [*query.answers, *hidden] or list(query.variables[:1])
            solutions.append(solve(known, query, wanted, deadline=deadline, nodes=nodes))
        if request.distinct or not nodes or not solutions[0].repeated:
            return JoinedRows(request, parts, solutions[0] if len(parts) == 1 else united(solutions), known, Binder(known.graph))
    return StoreRows(request, known.graph, store, most, deadline)


def _joinable(request: SparqlRequest, graph: Graph) -> list[Query]:
    """Returns the conjunctions whose joins find the same rows as a store; none if only a store finds them.

    Literals are compared by their values only in a store, and only a store counts how often the rows of a disjunction occur.
    """
    alternative, query = request.alternatives[0], request.query
    if len(request.alternatives) > 1 or alternative.labels or alternative.facts or (request.branches and not request.distinct):
        return []
    for atom in query.all_atoms:
        if atom.relation in graph.literal_relations or isinstance(atom.relation, Variable):
            return []
        if any(isinstance(term, Variable) for pair in atom.qualifiers for term in pair):
            return []
    if query.conjunctive:
        return [query] if query.variables else []
    if len(query.answers) != 1 or not request.distinct or (parts := disjuncts(query.formula)) is None:
        return []
    if any(all(query.answers[0] not in atom.entities for atom in part) for part in parts):  # any entity would match there
        return []
    return [Query(And(part), query.answers) for part in parts]


@dataclass(frozen=True, eq=False)
class JoinedRows:
    """The known rows of a conjunctive request, or of a disjunction with one answer variable, found by joins."""

    request: SparqlRequest
    parts: Sequence[Query]
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
            ids = found[variable].tolist()
            made = {id_: self._bound(id_) for id_ in set(ids)}
            columns[variable.name] = [made[id_] for id_ in ids]
        shown = self.request.shown
        return (
            [dict(zip(shown, row, strict=True)) for row in zip(*(columns[name] for name in shown), strict=True)] if shown else [{}] * length
        )

    def _bound(self, id_: int) -> Binding:
        """Returns an entity, or the node of a statement, which has a higher id."""
        row, graph = id_ - self.binder.graph.value_count, self.binder.graph
        if row < 0:
            return self.binder.of_id("entity", id_)
        head, relation, tail = graph.entities.label(graph.head[row]), graph.relations.label(graph.relation[row]), graph.tail[row]
        label = f"statement: {head} - {relation} - {graph.value_label(tail)}"
        return Binding("other", f"_:r{row}", label, {"type": "bnode", "value": f"r{row}"})

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
        """Returns which of these rows are known."""
        if self.exact and self.count <= LISTED:
            return [False] * len(rows)  # all known values were left out already
        (alternative,) = self.request.alternatives
        answers, ids = alternative.query.answers, self.binder.graph.entities.id
        if not answers or not rows:
            return [self.count > 0] * len(rows)
        # The value of a variable that the request gives is the same in all rows.
        values = [tuple(ids(one.value) for v in answers if (one := row[v.name]) is not None) for row in rows]
        known = set[tuple[int, ...]]()
        for query in self.parts:
            found = solve(self.known, query, answers, deadline=deadline, among=np.array(values)).rows(deadline=deadline)
            known.update(zip(*(found[variable].tolist() for variable in answers), strict=True))
        return [row in known for row in values]


class StoreRows:
    """The known rows of any request, found by a SPARQL store."""

    def __init__(self, request: SparqlRequest, graph: Graph, store: KnownStore, most: int, deadline: Deadline) -> None:
        self._request, self._binder, self._store = request, Binder(graph), store
        self._text = request.text if request.text is not None else _text_of(request, graph)
        one = request.form == "ASK" or (request.form == "CONSTRUCT" and request.distinct and not request.shown)
        found = self._query(self._text, 1 if one else most, deadline)
        self._relations = request.relations
        self._rows, self.exact = self._bindings(found, request.shown), found.complete or one
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

    def with_facts(self, alternative: Alternative, rows: Sequence[Bindings], deadline: Deadline = NEVER) -> list[list[Bindings]]:
        """Returns, for each row, the known literals that the literal patterns of an alternative bind."""
        holders = list(dict.fromkeys(fact.subject.name for fact in alternative.facts if isinstance(fact.subject, Variable)))
        literals = list(dict.fromkeys(fact.value.name for fact in alternative.facts if fact.value is not None))
        keys = [tuple(self._term(row[name]) for name in holders) for row in rows]
        asked = list(dict.fromkeys(key for key in keys if "UNDEF" not in key))
        variables, patterns = " ".join(f"?{name}" for name in holders), " ".join(fact.text for fact in alternative.facts)
        found: dict[tuple[str, ...], list[Bindings]] = {}
        for start in range(0, len(asked), _CHECKED):
            lines = " ".join(f"({' '.join(key)})" for key in asked[start : start + _CHECKED])
            found_rows = self.select("*", f"VALUES ({variables}) {{ {lines} }} {patterns}", deadline=deadline)
            for row in self._bindings(found_rows, (*holders, *literals)):
                found.setdefault(tuple(self._term(row[name]) for name in holders), []).append({name: row[name] for name in literals})
        return [found.get(key, []) for key in keys]

    def entities(self, alternative: Alternative, most: int, deadline: Deadline = NEVER) -> dict[tuple[int, ...], None]:
        """Returns the rows of an alternative's query without its literal patterns, as ids: at most this many."""
        answers = alternative.query.answers
        found: dict[tuple[int, ...], None] = {}
        for row in self._query(write_sparql(alternative.query, self._binder.graph.names), most, deadline).rows:
            bound = [self._binder.of_term(row[one.name], one.name in self._relations) for one in answers]
            ids = [self._id(one, variable.name in self._relations) for one, variable in zip(bound, answers, strict=True)]
            found |= {tuple(id_ for id_ in ids if id_ is not None): None} if None not in ids else {}
        return found

    def select(self, columns: str, block: str, most: int = LISTED, deadline: Deadline = NEVER) -> Rows:
        """Asks the store for another block, with the declarations of the request."""
        return self._query(f"{self._text[: self._request.body]} SELECT {columns} {{ {block} }}", most, deadline)

    def among(self, rows: Sequence[Bindings], deadline: Deadline = NEVER) -> list[bool]:
        """Returns which of these rows are known."""
        keys = [row_key(row) for row in rows]
        found = [key in self._keys for key in keys]
        if self.exact or self._request.form == "ASK":
            return found
        names = [f"?{name}" for name in self._request.shown]
        for start in range(0, len(rows), _CHECKED):
            part = rows[start : start + _CHECKED]
            lines = " ".join(f"({' '.join(self._term(row[name[1:]]) for name in names)})" for row in part)
            begin = self._request.body
            text = f"{self._text[:begin]} SELECT * {{ {{ {self._text[begin:]} }} VALUES ({' '.join(names)}) {{ {lines} }} }}"
            checked = set(map(row_key, self._bindings(self._query(text, LISTED, deadline), self._request.shown)))
            found[start : start + _CHECKED] = [key in checked for key in keys[start : start + _CHECKED]]
        return found

    @cached_property
    def _keys(self) -> set[tuple[object, ...]]:
        return set(map(row_key, self._rows))

    def _query(self, text: str, most: int, deadline: Deadline) -> Rows:
        prefixes = predefined_prefixes(self._binder.graph)
        found = self._store.query(text, prefixes=prefixes, max_rows=most, deadline=deadline, urgent=True)
        assert isinstance(found, Rows), "a request is written as SELECT"
        return found

    def _bindings(self, found: Rows, names: Sequence[str]) -> list[Bindings]:
        cache: dict[tuple[str, str, bool], Binding] = {}

        def binding(name: str, term: Mapping[str, Any]) -> Binding:
            if term["type"] not in ("uri", "bnode"):
                return self._binder.of_term(term, False)
            key = term["type"], term["value"], name in self._relations
            if key not in cache:
                cache[key] = self._binder.of_term(term, key[2])
            return cache[key]

        return [{name: binding(name, row[name]) if name in row else None for name in names} for row in found.rows]

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
    """Returns a key that is equal for equal rows only."""
    return tuple(None if one is None else (one.kind, one.value, (one.term or {}).get("xml:lang")) for one in row.values())


def _text_of(request: SparqlRequest, graph: Graph) -> str:
    """Writes a request that does not come from a text in SPARQL."""
    if len(request.alternatives) > 1:
        raise UnsupportedError("a request with several alternatives is asked as a text. Write it in SPARQL")
    query: Query = request.query
    return write_sparql(query, graph.names)
