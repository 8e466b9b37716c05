"""All solutions of one conjunctive query, counted before they are listed, and listed only as far as needed.

Every atom becomes a table over its variables, loaded from the cheapest side. Variables are eliminated one after the other, those
that are not asked for first: the tables of a variable are joined, and what is left of them without it goes on as one table (for
a query without cycles this is Yannakakis' algorithm: a semi-join for each edge). So a variable that only has to exist costs one
test, independent variables never multiply, and the number of solutions follows from sums and products. Listed backwards, every
choice for the first variables can be completed: the first rows are found without looking at any others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from starqe.deadline import NEVER, Deadline
from starqe.errors import QueryError, UnsupportedError
from starqe.kg.known import Known, distinct
from starqe.queries.exact.atom_tables import load_tables
from starqe.queries.exact.join import MANY, Index, Table, TooManyRowsError, join
from starqe.queries.formula import Variable
from starqe.queries.query import Query
from starqe.ragged import IntArray

MAX_ROWS = 4_000_000
"""Maximum number of rows of an intermediate table."""
MAX_CELLS = 20_000_000
"""Maximum number of values in the listed rows: rows times columns."""
_ELIMINATED = 250_000  # a variable that is not asked for is kept if eliminating it gives more rows than this
_COMPARED = 200_000  # maximum number of rows that are listed to count the distinct ones


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
        if len(self._levels) == 1 and not self._hidden:
            (level,) = self._levels
            return [level.table.columns[level.variable][level.index.groups.items[:most]]]
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
    among: IntArray | None = None,
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
            The id of such a node is the number of values of the graph (entities and literals) plus the row of the statement.
        among: The only rows that count, with one column per variable: to test many rows at once.

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
    names, domains = [str(variable) for variable in wanted], {str(variable): np.array([id_]) for variable, id_ in given.items()}
    if among is not None:
        domains |= {name: np.unique(column) for name, column in zip(names, among.T, strict=True)}
    tables, repeated = load_tables(known, query, domains, deadline, nodes)
    if among is not None:
        tables.append(Table(dict(zip(names, np.unique(among, axis=0).T, strict=True)), tables[0].width))
    try:
        levels, ways, hidden = _eliminate(tables, names, max_rows, deadline)
    except TooManyRowsError as error:
        met = f"the exact engine holds up to {max_rows:,} partial solutions, and this query has {error.rows:,} or more"
        raise UnsupportedError(f"{met}. Give more entities or qualifiers, or raise max_rows") from None
    return Solutions(wanted, levels, ways, hidden, deadline, repeated)


def united(parts: Sequence[Solutions]) -> Solutions:
    """Returns the distinct values that one of several solutions of the same single variable has."""
    (variable,) = parts[0].variables
    ids = np.concatenate([part.first for part in parts])
    level = _only_level(str(variable), ids, int(ids.max(initial=0)) + 1)
    return Solutions([variable], [level], float(len(level.table)), hidden=False, deadline=NEVER)


def _only_level(variable: str, ids: IntArray, width: int) -> _Level:
    """Returns the level of a variable that is listed alone."""
    table = Table({variable: distinct(ids)}, width)
    return _Level(variable, (), table, table.index((), within=variable))


def _eliminate(tables: list[Table], wanted: list[str], max_rows: int, deadline: Deadline) -> tuple[list[_Level], float, bool]:
    """Eliminates all variables; returns those that are listed, in the order of listing, and the number of their rows."""
    if len(tables) == len(wanted) == 1:
        level = _only_level(wanted[0], tables[0].columns[wanted[0]], tables[0].width)
        return [level], float(len(level.table)), False
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
        tables = [table for table in tables if table not in own]
        if near[variable]:
            tables.append(found.without(variable, count))
        else:
            ways = min(ways * (float(found.ways.sum()) if found.ways is not None else float(len(found) > 0)), MANY)
    return levels[::-1], ways, len(listed) > len(wanted)


def _with_ways(found: Table, parts: Sequence[Table]) -> Table:
    """Counts in how many ways each row of a join holds: the product over the joined tables."""
    ways = np.ones(len(found))
    for part in parts:
        if part.ways is not None:
            _, place = found.places_in(part)
            ways = np.minimum(ways * part.ways[place], MANY)
    return Table(found.columns, found.width, ways)
