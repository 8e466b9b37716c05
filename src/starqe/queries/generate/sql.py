"""Compiles a shape to the SQL that finds its queries.

The result has one row for each distinct (query, answer): ``key_0`` (and ``key_1`` …) packs the numbers of the edges' constants
into integers, ``answer`` is the target, ``solutions`` counts the ways to get there in which an edge is new.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from starqe.kg import SPLITS, Graph
from starqe.queries.generate.database import QueryDatabase
from starqe.queries.generate.edges import anchored_ends
from starqe.queries.generate.engine import CONTEXT
from starqe.queries.generate.keys import key_names, pack
from starqe.queries.generate.settings import QuerySettings
from starqe.queries.generate.sql_tables import DuckTables
from starqe.queries.generate.symmetry import Counts, Image, symmetries
from starqe.queries.shape import TARGET, Shape
from starqe.queries.tree import Branch, branches


class SqlEngine:
    """Finds queries by joins of edge rows in DuckDB; the arguments are those of `DuckTables`."""

    def __init__(self, graph: Graph, spill: Path | None = None, threads: int | None = None, memory: str = "4GB") -> None:
        self._database = QueryDatabase(graph, DuckTables(spill, threads, memory))

    def solve(self, shape: Shape, split: str, settings: QuerySettings) -> Iterator[pa.Table]:
        """Yields the queries of a shape, with their answers, in the seeded order.

        Raises:
            UnsupportedError: The shape has too many equal edges to compare their orders.
        """
        yield from solved_queries(self._database, shape, split, settings)

    def close(self) -> None:
        """Closes the database."""
        self._database.close()


def solved_queries(database: QueryDatabase, shape: Shape, split: str, settings: QuerySettings) -> Iterator[pa.Table]:
    """Yields the queries of a shape from tables of any engine that knows SQL.

    Raises:
        UnsupportedError: The shape has too many equal edges to compare their orders.
    """
    work = database.work(shape, split, settings)
    database.tables.make("solved", solutions_sql(work.shape, work.counts, work.edges, work.radix, work.split))
    yield from database.queries(work, settings)


def solutions_sql(shape: Shape, counts: Counts, tables: Sequence[str], radix: Sequence[int], split: str) -> str:
    """Compiles a shape to SQL over tables of edge rows.

    For validation and test the paper takes the union, as a bag, over each position j of "edge j is new, every other edge
    is from the context". A combination of edge rows occurs in that bag once per new row, so one join
    that counts them gives the same bag.

    With alternatives or negated parts, the queries are those for which all edges hold together in the context: there the
    alternatives meet, and the negation excludes something. Their answers are found for each alternative by itself, without what
    the negated parts exclude, and need a new edge.

    Args:
        shape: The shape.
        counts: The range of qualifier counts of each edge.
        tables: For each edge a table of edge rows that has the counts of all edges (and maybe more).
        radix: The number of distinct constants of each edge.
        split: The split whose queries are wanted.

    Raises:
        UnsupportedError: The shape has too many equal edges to compare their orders.
    """
    compiler = _Compiler(shape, tables, split)
    edges = range(len(shape.edges))
    matched = [
        *compiler.conditions(edges),
        *(f"e{i}.size BETWEEN {fewest} AND {most}" for i, (fewest, most) in enumerate(counts)),
        *_no_hubs(shape),
        *_no_collapses(shape),
        *_canonical(shape, counts),
    ]
    groups = f"{', '.join(key_names(radix))}, answer"
    if shape.tree is None:
        key = pack([_number(shape, edge) for edge in edges], radix)
        conditions = [*matched, compiler.some_new(edges)]
        return f"SELECT {key}, {compiler.answer(edges)} FROM {compiler.tables(edges)} WHERE {' AND '.join(conditions)} GROUP BY {groups}"
    numbers = ", ".join(f"{_number(shape, edge)} AS k{edge}" for edge in edges)
    key = pack([f"asked.k{edge}" for edge in edges], radix)
    found = " UNION ALL ".join(
        f"SELECT {key}, {compiler.answer(branch.edges)} FROM asked, {compiler.tables(branch.edges)} "
        f"WHERE {' AND '.join([*compiler.branch(branch), compiler.some_new(branch.edges)])} GROUP BY {groups}"
        for branch in shape.branches
    )
    return (
        f"WITH asked AS MATERIALIZED (SELECT DISTINCT {numbers} FROM {compiler.tables(edges)} WHERE {' AND '.join(matched)}) "
        f"SELECT {groups}, sum(solutions)::BIGINT AS solutions FROM ({found}) AS found GROUP BY {groups}"
    )


class _Compiler:
    """The parts of the SQL for one shape and split. The rows of edge i are called ``e{i}``, with a suffix where it is negated."""

    def __init__(self, shape: Shape, tables: Sequence[str], split: str) -> None:
        self._shape, self._tables = shape, tables
        self._new, self._context = 1 << SPLITS.index(split), sum(1 << SPLITS.index(part) for part in CONTEXT[split])

    def tables(self, edges: Iterable[int], suffix: str = "") -> str:
        """The tables of some edges."""
        return ", ".join(f"{self._tables[i]} e{i}{suffix}" for i in edges)

    def conditions(self, edges: Iterable[int], suffix: str = "") -> list[str]:
        """The conditions for edges to hold in the context, with one value for each node."""
        edges = list(edges)
        of_node = [_places(self._shape, node, edges, suffix) for node in sorted(self._shape.nodes_of(edges))]
        joins = [f"{first} = {other}" for first, *others in of_node for other in others]
        return [*(f"(e{i}{suffix}.mask & {self._context}) > 0" for i in edges), *joins]

    def some_new(self, edges: Iterable[int]) -> str:
        """The condition for one of some edges to be new."""
        return f"(({' | '.join(f'e{i}.mask' for i in edges)}) & {self._new}) > 0"

    def answer(self, edges: Sequence[int]) -> str:
        """The columns ``answer`` and ``solutions``."""
        is_new = [f"((e{i}.mask & {self._new}) > 0)::INT" for i in edges]
        solutions = "count(*)" if self._new == self._context else f"sum({' + '.join(is_new)})::BIGINT"
        return f"{_places(self._shape, TARGET, edges)[0]} AS answer, {solutions} AS solutions"

    def branch(self, branch: Branch, suffix: str = "", outer: Mapping[str, str] | None = None) -> list[str]:
        """The conditions for a branch to hold for a query that is asked; nodes of the outer part have their values there."""
        bound = dict(outer or {})
        shared = [
            f"{_places(self._shape, node, branch.edges, suffix)[0]} = {bound[node]}"
            for node in sorted(self._shape.nodes_of(branch.edges) & bound.keys())
        ]
        asked = [f"{_number(self._shape, i, suffix)} = asked.k{i}" for i in branch.edges]
        to_find = self._shape.nodes_of(branch.edges) - {*self._shape.anchors}
        bound |= {node: _places(self._shape, node, branch.edges, suffix)[0] for node in to_find}
        excluded = [
            f"NOT EXISTS (SELECT 1 FROM {self.tables(inner.edges, suffix + 'n')} "
            f"WHERE {' AND '.join(self.branch(inner, suffix + 'n', bound))})"
            for part in branch.without
            for inner in branches(part)
        ]
        return [*self.conditions(branch.edges, suffix), *asked, *shared, *excluded]


def _places(shape: Shape, node: str, edges: Iterable[int] | None = None, suffix: str = "") -> list[str]:
    """Returns every column that a node is bound by: of all edges, or of these."""
    sides = {
        i: [*zip("so", shape.edges[i], strict=True), *((f"v{j}", value) for j, value in enumerate(shape.values_of(i)))]
        for i in _of(shape, edges)
    }
    return [f"e{i}{suffix}.{side}" for i, ends in sides.items() for side, end in ends if end == node]


def _of(shape: Shape, edges: Iterable[int] | None) -> Iterable[int]:
    return range(len(shape.edges)) if edges is None else edges


def _number(shape: Shape, edge: int, suffix: str = "") -> str:
    return f"e{edge}{suffix}.k_{anchored_ends(shape, edge)}"


def _no_hubs(shape: Shape) -> list[str]:
    """Keeps hubs out of the joins, at each edge by its own column: excluding them before the join is what makes it fast."""
    return [f"NOT {place}_hub" for node in shape.joins for place in _places(shape, node)]


def _no_collapses(shape: Shape) -> list[str]:
    found = []
    for i, j in shape.collapses:
        side = "s" if shape.edges[i][1] == shape.edges[j][1] else "o"
        found.append(f"NOT (e{i}.{side} = e{j}.{side} AND e{i}.p = e{j}.p)")
    return found


def _canonical(shape: Shape, counts: Counts) -> list[str]:
    """Of the equal queries that the symmetries of the shape give, keeps the one with the smallest numbers."""
    symmetry = symmetries(shape, counts)
    found = [f"{_number(shape, one)} <= {_number(shape, other)}" for one, other in symmetry.ascending]
    for image in symmetry.images:
        if (applies := _image_exists(shape, counts, image.edges)) is not None:
            condition = _not_above(list(_compared(shape, image)))
            found.append(f"(NOT ({' AND '.join(applies)}) OR {condition})" if applies else condition)
    return found


def _compared(shape: Shape, image: Image) -> Iterator[tuple[str, str]]:
    """Yields the numbers of a query, in the order of the edges, each with the one at the same place in its image."""
    for edge, other in enumerate(image.edges):
        if not shape.values_of(edge):
            yield _number(shape, edge), _number(shape, other)
            continue
        ends = anchored_ends(shape, edge)  # without the relations of values, which may stand in another order
        yield f"e{edge}.b_{ends}", f"e{other}.b_{ends}"
        yield from ((f"e{edge}.r{place}", f"e{other}.r{its}") for place, its in enumerate(image.values[edge]))


def _image_exists(shape: Shape, counts: Counts, image: Sequence[int]) -> list[str] | None:
    """Returns the conditions for the image of a query to be a query of this shape; None if it never is."""
    found = []
    for edge, other in enumerate(image):
        if counts[edge] != counts[other]:
            if counts[edge][0] > counts[other][1] or counts[edge][1] < counts[other][0]:
                return None
            found.append(f"e{other}.size BETWEEN {counts[edge][0]} AND {counts[edge][1]}")
    for anchor in shape.anchors:
        places = [(image[i], side) for i, edge in enumerate(shape.edges) for side in (0, 1) if edge[side] == anchor]
        for edge, side in places[1:]:
            if shape.edges[edge][side] != shape.edges[places[0][0]][places[0][1]]:
                found.append(f"e{edge}.{'so'[side]} = e{places[0][0]}.{'so'[places[0][1]]}")
    return found


def _not_above(compared: Sequence[tuple[str, str]]) -> str:
    """Compares a query with its image, number by number; what must be equal by then is skipped."""
    equal = [{number} for number in dict.fromkeys(number for pair in compared for number in pair)]
    steps = []
    for one, other in compared:
        group, other_group = (next(members for members in equal if number in members) for number in (one, other))
        if group is not other_group:
            steps.append((one, other))
            equal = [members for members in equal if members is not group and members is not other_group] + [group | other_group]
    condition = ""
    for one, other in reversed(steps):
        condition = f"({one} < {other} OR ({one} = {other} AND {condition}))" if condition else f"{one} <= {other}"
    return condition or "true"
