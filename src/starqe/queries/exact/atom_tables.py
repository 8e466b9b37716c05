"""The tables of the atoms of a conjunctive query: each is read from the side with the fewest statements."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from starqe.deadline import Deadline
from starqe.kg.known import Known, Side, distinct, is_among
from starqe.queries.exact.join import Table
from starqe.queries.formula import Atom, Variable
from starqe.queries.query import Query
from starqe.ragged import BoolArray, IntArray


def load_tables(known: Known, query: Query, domains: dict[str, IntArray], deadline: Deadline, nodes: bool) -> tuple[list[Table], bool]:
    """Loads a table for every atom, the cheapest first; each is restricted to the values that earlier tables leave for its variables.

    Also returns whether an atom with qualifiers has a row that several statements give.
    """
    loader = _Loader(known, domains, nodes)
    left = [loader.edge(atom) for atom in query.plain_form().conjuncts("the exact engine")]
    ways = {edge: loader.cheapest(edge) for edge in left}
    tables: list[Table] = []
    last: dict[str, Table] = {}  # the table that narrowed each variable last
    while left:
        deadline.check()
        edge = min(left, key=lambda edge: ways[edge].cost)
        left.remove(edge)
        table = loader.load(edge, ways[edge])
        last |= dict.fromkeys(table.columns, table)
        if len(table.columns) == 2:
            tables.append(table)
        ways |= {other: loader.cheapest(other) for other in left if other.head in table.columns or other.tail in table.columns}
    # A variable with a single table, which came last, has no values but those of the table.
    single = {v for v, table in last.items() if [one for one in tables if v in one.columns] == [table]}
    return [*tables, *(Table({v: ids}, loader.width) for v, ids in loader.domains.items() if v not in single)], loader.repeated


@dataclass(frozen=True, eq=False)
class _Edge:
    """An atom by ids: an end is an entity or the name of a variable."""

    head: int | str
    relation: int
    tail: int | str
    pairs: tuple[tuple[int, int], ...]


class _Way(NamedTuple):
    """Where statements of an edge are looked up, and how many there are."""

    cost: int
    by: Side | tuple[int, int] | None
    """A bound end, a qualifier pair, or their relation alone."""
    rows: IntArray | None = None
    """The statements, if they have been looked up."""


class _Loader:
    """Reads the statements of edges; keeps the entities that each variable can still be.

    With nodes, a qualifier also matches an edge without pairs: it leads from the node of its statement, whose id is the number of
    values of the graph plus the row of the statement, to the value.
    """

    def __init__(self, known: Known, domains: dict[str, IntArray], nodes: bool) -> None:
        self._known, self._nodes, self._values = known, nodes, known.graph.value_count
        self.width = self._values + (len(known.graph) if nodes else 0)
        self.domains = domains
        self.repeated = False

    def edge(self, atom: Atom) -> _Edge:
        """Looks up the names of an atom."""
        graph, relations = self._known.graph, self._known.graph.relations
        head, tail = (str(term) if isinstance(term, Variable) else graph.value_id(term) for term in (atom.head, atom.tail))
        pairs = tuple((relations.id(str(relation)), graph.value_id(value)) for relation, value in atom.qualifiers)  # type: ignore[arg-type]
        return _Edge(head, relations.id(str(atom.relation)), tail, pairs)

    def cheapest(self, edge: _Edge) -> _Way:
        """Finds where the fewest statements have to be read for an edge."""
        known = self._known
        found = [_Way(len(known.by_qualifier(*pair)), pair) for pair in edge.pairs]
        by_end = False
        sides: tuple[tuple[Side, int | str], ...] = (("head", edge.head), ("tail", edge.tail))
        for side, end in sides:
            if isinstance(end, int):
                rows = known.at(side, end, edge.relation)
                found.append(_Way(len(rows), side, rows))
                by_end = True
            elif end in self.domains:
                found.append(_Way(known.count(side, self._values_of(end), edge.relation), side))
                by_end = True
        if not by_end:  # an end that is bound has no more statements than the relation
            rows = known.by_relation(edge.relation)
            found.append(_Way(len(rows), None, rows))
        return min(found, key=lambda way: way.cost) if len(found) > 1 else found[0]

    def load(self, edge: _Edge, way: _Way) -> Table:
        """Reads the distinct ends of the statements that an edge asks for, and narrows the domains of its variables."""
        rows = self._statements(edge, way)
        if edge.pairs:
            rows = rows[self._known.with_pairs(rows, edge.pairs)]
        if isinstance(edge.head, str) and isinstance(edge.tail, str):
            return self._between_variables(edge, edge.head, edge.tail, rows)
        graph = self._known.graph
        if isinstance(edge.head, int) and way.by != "head":
            rows = rows[graph.head[rows] == edge.head]
        if isinstance(edge.tail, int) and way.by != "tail":
            rows = rows[graph.tail[rows] == edge.tail]
        if isinstance(edge.head, str):
            ids = graph.head[rows].astype(np.int64)
            if self._nodes and not edge.pairs:
                assert isinstance(edge.tail, int)
                if len(owner := self._known.by_qualifier(edge.relation, edge.tail)):
                    ids = np.concatenate([ids, self._values + owner])
            return self._of_variable(edge, edge.head, ids)
        if isinstance(edge.tail, str):
            return self._of_variable(edge, edge.tail, graph.tail[rows].astype(np.int64))
        self.repeated |= bool(edge.pairs and len(rows) > 1)
        if not len(rows):
            self.domains["="] = np.empty(0, np.int64)  # an edge between entities that does not hold: nothing does
        return Table({}, self.width)

    def _of_variable(self, edge: _Edge, variable: str, ids: IntArray) -> Table:
        if variable in self.domains:
            ids = ids[is_among(ids, self.domains[variable])]
        found = distinct(ids)
        self.repeated |= bool(edge.pairs and len(found) < len(ids))
        self.domains[variable] = found
        return Table({variable: found}, self.width)

    def _between_variables(self, edge: _Edge, first: str, second: str, rows: IntArray) -> Table:
        graph = self._known.graph
        head, tail = graph.head[rows].astype(np.int64), graph.tail[rows].astype(np.int64)
        if self._nodes and not edge.pairs:
            owner, value = self._known.pairs_of(edge.relation)
            if len(owner):
                head, tail = np.concatenate([head, self._values + owner]), np.concatenate([tail, value])
        fits = self._fits(first, head) & self._fits(second, tail)
        if first == second:
            fits &= head == tail
        all_codes = head[fits] * self.width + tail[fits]
        codes = distinct(all_codes)
        self.repeated |= bool(edge.pairs and len(codes) < len(all_codes))
        columns = {first: codes // self.width, second: codes % self.width}
        self.domains |= {variable: distinct(ids) for variable, ids in columns.items()}
        return Table(columns, self.width)

    def _statements(self, edge: _Edge, way: _Way) -> IntArray:
        if way.rows is not None:
            return way.rows
        if isinstance(way.by, tuple):
            rows = self._known.by_qualifier(*way.by)
            return np.asarray(rows[self._known.graph.relation[rows] == edge.relation])
        end = edge.head if way.by == "head" else edge.tail
        assert isinstance(end, str), "the statements of an entity have been looked up"
        assert way.by is not None, "so have those of a relation"
        return self._known.expand(way.by, self._values_of(end), edge.relation)[1]

    def _values_of(self, variable: str) -> IntArray:
        """Returns what a variable can be, without the nodes of statements, which have the highest ids."""
        ids = self.domains[variable]
        return ids if not len(ids) or ids[-1] < self._values else ids[: ids.searchsorted(self._values)]

    def _fits(self, variable: str, ids: IntArray) -> BoolArray:
        domain = self.domains.get(variable)
        return np.ones(len(ids), bool) if domain is None else is_among(ids, domain)
