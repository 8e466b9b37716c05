"""Tables over the variables of a query, and how they are joined.

n rows · k columns. The rows of a table are distinct. Values are entity ids below a width, so a row is found by its values with
a few binary searches and never by a code that could overflow.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from starqe.deadline import Deadline
from starqe.kg.known import distinct, is_among
from starqe.ragged import BoolArray, FloatArray, IntArray, Ragged

CHUNK = 1 << 18
"""Maximum number of rows per step of a join, unless a single row has more matches."""
MANY = 10**15
"""Counts stop here: "at least this many"."""


class TooManyRowsError(Exception):
    """A join has more rows than allowed; never leaves this package."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.rows = rows


class Index:
    """The rows of a table, grouped by the values of some of its columns."""

    def __init__(self, columns: Sequence[IntArray], rows: int, width: int, within: IntArray | None = None) -> None:
        self._width = width
        self._levels: list[IntArray] = []
        group = np.zeros(rows, np.int64)
        for column in columns:
            codes, group = np.unique(group * width + column, return_inverse=True)
            self._levels.append(codes)
        if columns or within is None:
            order = np.argsort(group, kind="stable") if within is None else np.lexsort((within, group))
        else:
            order = np.argsort(within, kind="stable")
        self.group = group  # (n,)
        self.groups = Ragged.of_counts(np.bincount(group, minlength=1 if rows else 0), order)

    def find(self, columns: Sequence[IntArray], rows: int) -> tuple[BoolArray, IntArray]:
        """Returns whether each row of values has a group, and which: (rows,) each."""
        found, group = np.full(rows, len(self.groups) > 0), np.zeros(rows, np.int64)
        for codes, column in zip(self._levels, columns, strict=True):
            wanted = group * self._width + column
            group = np.minimum(np.searchsorted(codes, wanted), max(len(codes) - 1, 0))
            found &= codes[group] == wanted if len(codes) else False
        return found, group

    def counts(self, columns: Sequence[IntArray], rows: int) -> IntArray:
        """Returns how many rows of the table have each row of values: (rows,)."""
        found, group = self.find(columns, rows)
        return np.where(found, self.groups.counts[group], 0) if len(self.groups) else np.zeros(rows, np.int64)


@dataclass(frozen=True, eq=False)
class Table:
    """Distinct rows over some variables; each may hold in several ways."""

    columns: Mapping[str, IntArray]  # variable -> (n,)
    width: int
    ways: FloatArray | None = None  # (n,); one way each, if left out

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @property
    def variables(self) -> frozenset[str]:
        """The variables that it has columns for."""
        return frozenset(self.columns)

    def index(self, variables: Sequence[str], within: str | None = None) -> Index:
        """Groups the rows by some variables, each group in the order of another one."""
        inner = None if within is None else self.columns[within]
        return Index([self.columns[variable] for variable in variables], len(self), self.width, inner)

    def take(self, rows: IntArray | BoolArray) -> "Table":
        """Returns some of the rows."""
        ways = None if self.ways is None else self.ways[rows]
        return Table({variable: column[rows] for variable, column in self.columns.items()}, self.width, ways)

    def places_in(self, other: "Table") -> tuple[BoolArray, IntArray]:
        """Finds each row in a table over some of its variables: whether it occurs, and at which index."""
        variables = sorted(other.columns)
        index = other.index(variables)
        found, group = index.find([self.columns[variable] for variable in variables], len(self))
        place = index.groups.items[group] if len(index.groups) else group
        return found, place

    def within(self, other: "Table") -> "Table":
        """Returns the rows that a table over some of its variables also has."""
        if len(other.columns) == 1:
            ((variable, ids),) = other.columns.items()
            return self.take(is_among(self.columns[variable], np.sort(ids)))
        return self.take(self.places_in(other)[0])

    def without(self, variable: str, count: bool) -> "Table":
        """Drops a variable and merges equal rows; their ways are added up, or count as one."""
        rest = [other for other in self.columns if other != variable]
        if len(rest) == 1 and not count:
            return Table({rest[0]: distinct(self.columns[rest[0]])}, self.width)
        index = self.index(rest)
        first = index.groups.items[index.groups.offsets[:-1]]
        if not count:
            return Table({other: self.columns[other][first] for other in rest}, self.width)
        ways = np.bincount(index.group, self.ways, minlength=len(first))
        return Table({other: self.columns[other][first] for other in rest}, self.width, np.minimum(ways, MANY))


def join(tables: Sequence[Table], max_rows: int, deadline: Deadline) -> Table:
    """Joins connected tables: every row over all of their variables that each of them has.

    It begins with the smallest table. A variable that several tables bind next is taken, row by row, from the one with the
    fewest matches, and the others filter: so the rows on the way never outnumber the worst case of the result by much.

    Raises:
        TooManyRowsError: There are more rows than allowed on the way.
        DeadlineError: The time is up.
    """
    left = sorted(tables, key=lambda table: (len(table), sorted(table.columns))) if len(tables) > 1 else list(tables)
    found = Table(left[0].columns, left[0].width)
    left = left[1:]
    while left:
        deadline.check()
        for table in [table for table in left if table.variables <= found.variables]:
            found = found.within(table)
            left.remove(table)
        near = [table for table in left if table.variables & found.variables]
        if not near:
            break
        first = min(near, key=lambda table: (len(table.variables - found.variables), len(table), sorted(table.columns)))
        fresh = first.variables - found.variables
        chosen = [table for table in near if table.variables - found.variables == fresh]
        found = _extend(found, chosen, sorted(fresh), max_rows, deadline)
        left = [table for table in left if table not in chosen]
    assert not left, "tables without a common variable are not joined"
    return found


def _extend(rows: Table, tables: Sequence[Table], fresh: Sequence[str], max_rows: int, deadline: Deadline) -> Table:
    """Joins tables that bind the same further variables: matches come from the one with the fewest, row by row."""
    shared = [sorted(table.variables & rows.variables) for table in tables]
    indexes = [table.index(variables) for table, variables in zip(tables, shared, strict=True)]
    counts = np.stack([index.counts(_columns(rows, variables), len(rows)) for index, variables in zip(indexes, shared, strict=True)])
    choice, fewest = counts.argmin(axis=0), counts.min(axis=0)
    parts, total = [rows.take(np.empty(0, np.int64))], 0
    parts[0] = Table({**parts[0].columns, **{variable: np.empty(0, np.int64) for variable in fresh}}, rows.width)
    for number, (table, index) in enumerate(zip(tables, indexes, strict=True)):
        members = np.flatnonzero((choice == number) & (fewest > 0))
        for part in _chunks(members, fewest[members]):
            deadline.check()
            some = rows.take(part)
            _, group = index.find(_columns(some, shared[number]), len(some))
            matches = index.groups.take(group)
            columns = {variable: column[matches.owner] for variable, column in some.columns.items()}
            columns |= {variable: table.columns[variable][matches.items] for variable in fresh}
            found = Table(columns, rows.width)
            for other in tables:
                found = found if other is table else found.within(other)
            parts.append(found)
            total += len(found)
            if total > max_rows:
                raise TooManyRowsError(total)
    return Table({variable: np.concatenate([part.columns[variable] for part in parts]) for variable in parts[0].columns}, rows.width)


def _columns(table: Table, variables: Sequence[str]) -> list[IntArray]:
    return [table.columns[variable] for variable in variables]


def _chunks(rows: IntArray, counts: IntArray) -> Iterator[IntArray]:
    """Splits rows so that those of one part have about `CHUNK` matches together."""
    place = (np.cumsum(counts) - 1) // CHUNK
    ends = np.flatnonzero(np.diff(place)) + 1
    yield from (part for part in np.split(rows, ends) if len(part))
