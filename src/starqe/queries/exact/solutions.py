"""All solutions of one conjunctive query, counted before they are listed, and listed only as far as needed.

Every atom becomes a table over its variables, loaded from the cheapest side. Variables are eliminated one after the other, those
that are not asked for first: the tables of a variable are joined, and what is left of them without it goes on as one table (for
a query without cycles this is Yannakakis' algorithm: a semi-join for each edge). So a variable that only has to exist is a
test, independent variables never multiply, and the number of solutions follows from sums and products. Listed backwards, every
choice for the first variables can be completed: the first rows are found without looking at any others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from starqe.deadline import NEVER, Deadline
from starqe.errors import QueryError, UnsupportedError
from starqe.kg.known import Known, Side
from starqe.queries.exact.join import MANY, Index, Table, TooManyRowsError, join
from starqe.queries.formula import Atom, Variable
from starqe.queries.query import Query
from starqe.ragged import BoolArray, IntArray

MAX_ROWS = 4_000_000
"""Maximum number of rows of an intermediate table."""
MAX_CELLS = 20_000_000
"""Maximum number of values in the listed rows: rows times columns."""
_ELIMINATED = 250_000  # a variable that is not asked for is kept if leaving it out makes more rows than this
_COMPARED = 200_000  # how many rows are listed to count the distinct ones among them


@dataclass(frozen=True, eq=False)
class _Level:
    """A variable, and the rows that bind it when all variables before it in the list are bound."""

    variable: str
    before: tuple[str, ...]
    table: Table
    index: Index


class Solutions:
    """The distinct rows of some variables that make a query true; made by `solve`.

    The first variable ascends; the rest of the order is fixed, and the same for every limit.
    """

    def __init__(
        self, variables: Sequence[Variable], levels: Sequence[_Level], ways: float, hidden: bool, deadline: Deadline, repeated: bool = False
    ) -> None:
        self.variables = tuple(variables)
        self.repeated = repeated
        """Whether some pattern with qualifiers is met by several statements with the same main triple."""
        self._levels, self._ways, self._hidden = levels, int(min(ways, MANY)), hidden
        self.count, self.exact = self._ways, self._ways < MANY
        """The number of rows, and whether it is exact or a lower bound."""
        if hidden:
            self.count, self.exact = len(self._list(_COMPARED, deadline)[0]), self._ways <= _COMPARED

    @property
    def first(self) -> IntArray:
        """The values of the first variable, ascending, each once."""
        return np.unique(self._levels[0].table.columns[self._levels[0].variable]) if self._ways else np.empty(0, np.int64)

    def rows(self, limit: int | None = None, offset: int = 0, deadline: Deadline = NEVER) -> dict[Variable, IntArray]:
        """Lists the rows from an offset on: a column for each variable.

        Raises:
            UnsupportedError: There are too many to list at once.
            DeadlineError: The time is up.
        """
        end = self._ways if limit is None else min(self._ways, offset + limit)
        if offset >= end:
            return {variable: np.empty(0, np.int64) for variable in self.variables}
        most = end
        while True:
            if most * len(self._levels) > MAX_CELLS:
                found = f"found {end:,}" if limit is None else f"found LIMIT {limit:,} with OFFSET {offset:,}"
                raise UnsupportedError(
                    f"at most {MAX_CELLS // len(self._levels):,} rows are listed for {len(self._levels)} variables, {found}. "
                    "Ask for fewer, or give more entities"
                )
            columns = self._list(most, deadline)
            if not self._hidden or len(columns[0]) >= end or most >= self._ways:
                return {variable: column[offset:end] for variable, column in zip(self.variables, columns, strict=True)}
            most = min(4 * most, self._ways)

    def _list(self, most: int, deadline: Deadline) -> list[IntArray]:
        """Lists the first rows, at most ``most`` before equal ones are merged."""
        bound: dict[str, IntArray] = {}
        count = min(1, self._ways)
        for level in self._levels:
            deadline.check()
            _, group = level.index.find([bound[variable] for variable in level.before], count)
            matches = level.index.groups
            ends = np.cumsum(matches.counts[group] if count else np.empty(0, np.int64))
            needed = min(count, int(np.searchsorted(ends, most)) + 1)  # each choice can be completed: more are never needed
            chosen = matches.take(group[:needed])
            owner, places = chosen.owner[:most], chosen.items[:most]
            bound = {variable: column[owner] for variable, column in bound.items()}
            bound[level.variable] = level.table.columns[level.variable][places]
            count = len(places)
        columns = [bound.get(str(variable), np.empty(0, np.int64)) for variable in self.variables]
        if not self._hidden or not count:
            return columns
        width = self._levels[0].table.width
        merged = Index(columns, count, width).groups
        first = np.sort(merged.items[merged.offsets[:-1]])
        return [column[first] for column in columns]


def solve(
    known: Known,
    query: Query,
    variables: Sequence[Variable] | None = None,
    given: Mapping[Variable, int] | None = None,
    max_rows: int = MAX_ROWS,
    deadline: Deadline = NEVER,
    nodes: bool = False,
) -> Solutions:
    """Finds the distinct rows of some variables (all, if left out) that make a conjunctive query true.

    Args:
        known: What counts as known.
        query: A conjunctive query.
        variables: The columns; the other variables are only required to exist.
        given: Entities that some variables are bound to: to explain one answer.
        max_rows: Maximum number of rows of an intermediate table.
        deadline: When to stop.
        nodes: Whether a head may also be the node of a statement, as in RDF: a pattern without qualifiers then also finds qualifiers.
            The id of such a node is the number of entities and the row of the statement.

    Raises:
        InputError: An identifier does not occur in the graph.
        QueryError: A variable does not occur in the query.
        UnsupportedError: The query is not conjunctive over head and tail variables, or needs tables that are too large.
        DeadlineError: The time is up.
    """
    wanted, given = list(query.variables if variables is None else variables), dict(given or {})
    for variable in (*wanted, *given):
        if variable not in query.variables:
            raise QueryError(f"an assignment is of variables of the query, found {variable}: {query}")
    tables, repeated = _load(known, query, given, deadline, nodes)
    names = [str(variable) for variable in wanted]
    try:
        levels, ways, hidden = _eliminate(tables, names, max_rows, deadline)
    except TooManyRowsError as error:
        met = f"the exact engine holds up to {max_rows:,} partial solutions, and this query has {error.rows:,} or more"
        raise UnsupportedError(f"{met}. Give more entities or qualifiers, or raise max_rows") from None
    return Solutions(wanted, levels, ways, hidden, deadline, repeated)


def _eliminate(tables: list[Table], wanted: list[str], max_rows: int, deadline: Deadline) -> tuple[list[_Level], float, bool]:
    """Eliminates all variables; returns those that are listed, in the order of listing, and the number of their rows."""
    listed, levels, ways = set(wanted), [], 1.0
    place = {variable: number for number, variable in enumerate(wanted)}
    left = sorted({variable for table in tables for variable in table.variables})
    while left:
        deadline.check()
        near = {v: frozenset().union(*(t.variables for t in tables if v in t.columns)) - {v} for v in left}
        # The first column is eliminated last, so that it comes first in the list; leaves come before what they hang on.
        variable = min(left, key=lambda v: (v == wanted[0], v in listed, len(near[v]), -place.get(v, 0), v))
        own = [table for table in tables if variable in table.columns]
        within = [table for table in tables if table.variables <= near[variable] and table not in own]
        kept = len(listed) > 1 and variable not in listed and len(near[variable]) > 1
        try:
            found = join([*own, *within], min(max_rows, _ELIMINATED) if kept else max_rows, deadline)
        except TooManyRowsError:
            if not kept:
                raise
            listed.add(variable)
            continue
        count = variable in listed
        if count:
            found = _with_ways(found, own)
            before = tuple(sorted(near[variable]))
            levels.append(_Level(variable, before, found, found.index(before, within=variable)))
        left.remove(variable)
        rest = found.without(variable, count)
        tables = [table for table in tables if table not in own]
        if near[variable]:
            tables.append(rest)
        else:
            ways = min(ways * (float(found.ways.sum()) if found.ways is not None else float(len(found) > 0)), MANY)
    return levels[::-1], ways, len(listed) > len(wanted)


def _with_ways(found: Table, parts: Sequence[Table]) -> Table:
    """Counts in how many ways each row of a join holds: the product over the tables that it was joined of."""
    ways = np.ones(len(found))
    for part in parts:
        if part.ways is not None:
            _, place = found.places_in(part)
            ways = np.minimum(ways * part.ways[place], MANY)
    return Table(found.columns, found.width, ways)


def _load(known: Known, query: Query, given: Mapping[Variable, int], deadline: Deadline, nodes: bool) -> tuple[list[Table], bool]:
    """Loads a table for every atom, the cheapest first, each restricted to what the others have left of its ends.

    Also returns whether one with qualifiers has a row for which there are several statements.
    """
    loader = _Loader(known, {str(variable): int(id_) for variable, id_ in given.items()}, nodes)
    left = [loader.edge(atom) for atom in query.plain_form().conjuncts("the exact engine")]
    tables: list[Table] = []
    last: dict[str, Table] = {}  # what has narrowed each variable last
    while left:
        deadline.check()
        _, way, edge = min(((*loader.cheapest(edge), edge) for edge in left), key=lambda found: found[0])
        left.remove(edge)
        table = loader.load(edge, way)
        last |= dict.fromkeys(table.columns, table)
        if len(table.columns) == 2:
            tables.append(table)
    # A variable with a single table, which came last, has no values but those of the table.
    single = {v for v, table in last.items() if [one for one in tables if v in one.columns] == [table]}
    return [*tables, *(Table({v: ids}, loader.width) for v, ids in loader.domains.items() if v not in single)], loader.repeated


_Way = Side | tuple[int, int] | None
"""Where statements are looked up: by a bound end, by a qualifier pair, or by their relation alone."""


@dataclass(frozen=True)
class _Edge:
    """An atom by ids: an end is an entity or the name of a variable."""

    head: int | str
    relation: int
    tail: int | str
    pairs: tuple[tuple[int, int], ...]


class _Loader:
    """Reads the statements of edges; remembers which entities each variable can still be.

    With nodes, an edge without pairs is also met by a qualifier: it leads from the node of its statement, whose id is the number of
    entities and the row of the statement, to the value.
    """

    def __init__(self, known: Known, given: Mapping[str, int], nodes: bool) -> None:
        self._known, self._nodes, self._entities = known, nodes, len(known.graph.entities)
        self.width = self._entities + (len(known.graph) if nodes else 0)
        self.domains = {variable: np.array([id_]) for variable, id_ in given.items()}
        self.repeated = False

    def edge(self, atom: Atom) -> _Edge:
        """Looks up the names of an atom."""
        entities, relations = self._known.graph.entities, self._known.graph.relations
        head, tail = (entities.id(term) if isinstance(term, str) else str(term) for term in (atom.head, atom.tail))
        pairs = tuple((relations.id(str(relation)), entities.id(str(value))) for relation, value in atom.qualifiers)
        return _Edge(head, relations.id(str(atom.relation)), tail, pairs)

    def cheapest(self, edge: _Edge) -> tuple[int, _Way]:
        """Finds where the fewest statements have to be read for an edge: their number, and the place."""
        known = self._known
        found: list[tuple[int, _Way]] = [(len(known.by_qualifier(*pair)), pair) for pair in edge.pairs]
        sides: tuple[tuple[Side, int | str], ...] = (("head", edge.head), ("tail", edge.tail))
        for side, end in sides:
            if (ids := self._ids(end)) is not None:
                found.append((known.count(side, ids[ids < self._entities], edge.relation), side))
        return min([(len(known.by_relation(edge.relation)), None), *found], key=lambda one: one[0])

    def load(self, edge: _Edge, way: _Way) -> Table:
        """Reads the distinct ends of the statements that an edge asks for, and narrows the domains of its variables."""
        known, graph = self._known, self._known.graph
        rows = self._statements(edge, way)
        rows = rows[known.with_pairs(rows, edge.pairs)]
        head, tail = graph.head[rows].astype(np.int64), graph.tail[rows].astype(np.int64)
        if self._nodes and isinstance(edge.head, str) and not edge.pairs:
            places = np.flatnonzero(graph.pair_relation == edge.relation)
            if len(places) and len(known.rows):
                owner = np.searchsorted(graph.pairs.offsets, places, "right") - 1
                position = np.minimum(np.searchsorted(known.rows, owner), len(known.rows) - 1)
                places, owner = places[known.rows[position] == owner], owner[known.rows[position] == owner]
                head = np.concatenate([head, self._entities + owner.astype(np.int64)])
                tail = np.concatenate([tail, graph.pair_value[places].astype(np.int64)])
        fits = self._fits(edge.head, head) & self._fits(edge.tail, tail)
        if edge.head == edge.tail:
            fits &= head == tail
        codes = np.unique(head[fits] * self.width + tail[fits])
        self.repeated |= bool(edge.pairs and len(codes) < np.count_nonzero(fits))
        columns = {end: ids for end, ids in ((edge.head, codes // self.width), (edge.tail, codes % self.width)) if isinstance(end, str)}
        for variable, ids in columns.items():
            self.domains[variable] = np.unique(ids)
        if not columns and not len(codes):
            self.domains["="] = np.empty(0, np.int64)  # an edge between entities that does not hold: nothing does
        return Table(columns, self.width)

    def _statements(self, edge: _Edge, way: _Way) -> IntArray:
        if way is None:
            return self._known.by_relation(edge.relation)
        if isinstance(way, tuple):
            rows = self._known.by_qualifier(*way)
            return np.asarray(rows[self._known.graph.relation[rows] == edge.relation])
        ids = self._ids(edge.head if way == "head" else edge.tail)
        assert ids is not None
        return self._known.expand(way, ids[ids < self._entities], edge.relation)[1]

    def _ids(self, end: int | str) -> IntArray | None:
        return np.array([end]) if isinstance(end, int) else self.domains.get(end)

    def _fits(self, end: int | str, ids: IntArray) -> BoolArray:
        domain = self._ids(end)
        return np.ones(len(ids), bool) if domain is None else np.isin(ids, domain)
