"""Compiles a shape to the SQL that finds its queries.

The result has one row for each distinct (query, answer): ``key`` packs the numbers of the edges' constants into one
integer, ``answer`` is the target, ``solutions`` counts the ways to get there in which an edge is new.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from starqe.kg import SPLITS, Graph
from starqe.queries.generate.database import QueryDatabase
from starqe.queries.generate.edges import anchored_ends
from starqe.queries.generate.engine import CONTEXT
from starqe.queries.generate.keys import pack
from starqe.queries.generate.settings import QuerySettings
from starqe.queries.generate.symmetry import Counts, symmetries
from starqe.queries.shape import TARGET, Shape


class SqlEngine:
    """Finds queries by joins of edge rows in DuckDB; the arguments are those of `QueryDatabase`."""

    def __init__(self, graph: Graph, spill: Path | None = None, threads: int | None = None, memory: str = "4GB") -> None:
        self._database = QueryDatabase(graph, spill, threads, memory)

    def solve(self, shape: Shape, split: str, settings: QuerySettings) -> Iterator[pa.Table]:
        """Yields the queries of a shape, with their answers, in the seeded order.

        Raises:
            UnsupportedError: The shape has too many edges, or too many equal ones, to number its queries.
        """
        work = self._database.work(shape, split, settings)
        sql = solutions_sql(work.shape, work.counts, work.edges, work.radix, work.split)
        self._database.connection.execute(f"CREATE TABLE solved AS {sql}")
        yield from self._database.queries(work, settings)

    def close(self) -> None:
        """Closes the database."""
        self._database.close()


def solutions_sql(shape: Shape, counts: Counts, table: str, radix: Sequence[int], split: str) -> str:
    """Compiles a shape to SQL over a table of edge rows.

    For validation and test the paper takes the union, as a bag, over each position j of "edge j is new, every other edge
    is from the context". A combination of edge rows occurs in that bag once per new row, so one join
    that counts them gives the same bag.

    Args:
        shape: The shape.
        counts: The range of qualifier counts of each edge.
        table: A table of edge rows that has the counts of all edges (and maybe more).
        radix: The number of distinct constants of each edge.
        split: The split whose queries are wanted.

    Raises:
        UnsupportedError: The shape has too many edges, or too many equal ones, to number its queries.
    """
    edges = range(len(shape.edges))
    key = pack([_number(shape, edge) for edge in edges], radix)
    new, context = 1 << SPLITS.index(split), sum(1 << SPLITS.index(part) for part in CONTEXT[split])
    is_new = [f"((e{i}.mask & {new}) > 0)::INT" for i in edges]
    conditions = [
        *(f"(e{i}.mask & {context}) > 0" for i in edges),
        f"(({' | '.join(f'e{i}.mask' for i in edges)}) & {new}) > 0",
        *(f"e{i}.size BETWEEN {fewest} AND {most}" for i, (fewest, most) in enumerate(counts)),
        *_joins(shape),
        *_no_hubs(shape),
        *_no_collapses(shape),
        *_canonical(shape, counts),
    ]
    solutions = "count(*)" if new == context else f"sum({' + '.join(is_new)})::BIGINT"
    return (
        f"SELECT {key} AS key, {_places(shape, TARGET)[0]} AS answer, {solutions} AS solutions "
        f"FROM {', '.join(f'{table} e{i}' for i in edges)} WHERE {' AND '.join(conditions)} GROUP BY ALL"
    )


def _places(shape: Shape, node: str) -> list[str]:
    """Returns every column that a node is bound by."""
    return [f"e{i}.{side}" for i, edge in enumerate(shape.edges) for side, end in zip("so", edge, strict=True) if end == node]


def _number(shape: Shape, edge: int) -> str:
    return f"e{edge}.k_{anchored_ends(shape, edge)}"


def _joins(shape: Shape) -> list[str]:
    return [f"{first} = {other}" for node in shape.nodes for first, *others in [_places(shape, node)] for other in others]


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
        if (applies := _image_exists(shape, counts, image)) is not None:
            condition = _not_above(shape, image)
            found.append(f"(NOT ({' AND '.join(applies)}) OR {condition})" if applies else condition)
    return found


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


def _not_above(shape: Shape, image: Sequence[int]) -> str:
    """Compares the numbers of a query with those of its image in the order of the edges; what must be equal by then is skipped."""
    equal = [{edge} for edge in range(len(image))]
    steps = []
    for edge, other in enumerate(image):
        group, other_group = (next(one for one in equal if member in one) for member in (edge, other))
        if group is not other_group:
            steps.append((edge, other))
            equal = [one for one in equal if one is not group and one is not other_group] + [group | other_group]
    condition = ""
    for edge, other in reversed(steps):
        one, two = _number(shape, edge), _number(shape, other)
        condition = f"({one} < {two} OR ({one} = {two} AND {condition}))" if condition else f"{one} <= {two}"
    return condition
