"""From a shape to the SQL that finds its queries.

The result has one row for each distinct (query, answer): ``key`` packs the numbers of the edges' constants into one
integer, ``answer`` is the target, ``solutions`` counts the ways to get there in which an edge is new.
"""

from collections.abc import Sequence

import duckdb

from starqe.errors import UnsupportedError
from starqe.kg import SPLITS
from starqe.queries.edges import anchored_ends
from starqe.queries.engine import CONTEXT, Work
from starqe.queries.shape import TARGET, Shape

Counts = Sequence[tuple[int, int]]
"""The fewest and the most qualifier pairs of each edge."""


class SqlEngine:
    """Finds solutions by joins of edge rows in DuckDB."""

    def fill(self, database: duckdb.DuckDBPyConnection, work: Work) -> None:
        """Makes the table ``solved(key, answer, solutions)``."""
        database.execute(f"CREATE TABLE solved AS {solutions_sql(work.shape, work.counts, work.edges, work.radix, work.split)}")


def solutions_sql(shape: Shape, counts: Counts, table: str, radix: Sequence[int], split: str) -> str:
    """Compiles a shape to SQL over a table of edge rows.

    For validation and test the paper takes the union, as a bag, over each position j of "edge j is new, every other edge
    is from the context". A combination of edge rows stands in that bag once for each of its rows that is new, so one
    join that counts them gives the same bag.

    Args:
        shape: The shape.
        counts: The range of qualifier counts of each edge.
        table: A table of edge rows that has the counts of all edges (and maybe more).
        radix: How many numbers the constants of each edge have.
        split: The split whose queries are wanted.

    Raises:
        UnsupportedError: The shape has so many edges that no integer holds a key.
    """
    edges = range(len(shape.edges))
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
    key = pack([_number(shape, edge) for edge in edges], radix)
    return (
        f"SELECT {key} AS key, {_places(shape, TARGET)[0]} AS answer, {solutions} AS solutions "
        f"FROM {', '.join(f'{table} e{i}' for i in edges)} WHERE {' AND '.join(conditions)} GROUP BY ALL"
    )


def pack(numbers: Sequence[str], radix: Sequence[int]) -> str:
    """Gives the expression that packs the constants' numbers of all edges into one integer, the first edge lowest.

    Raises:
        UnsupportedError: 127 bits do not hold them.
    """
    kind, factor, terms = _key_type(radix), 1, []
    for number, size in zip(numbers, radix, strict=True):
        terms.append(f"{number}::{kind} * {factor}::{kind}")
        factor *= max(size, 1)
    return " + ".join(terms)


def unpack(radix: Sequence[int]) -> list[str]:
    """Gives the expressions that take the edges' numbers out of a key again."""
    kind, factor, terms = _key_type(radix), 1, []
    for size in radix:
        terms.append(f"(key // {factor}::{kind} % {max(size, 1)})::INT")
        factor *= max(size, 1)
    return terms


def _key_type(radix: Sequence[int]) -> str:
    """Names the integer type that holds a key."""
    whole = 1
    for size in radix:
        whole *= max(size, 1)
    if whole < 2**62:
        return "BIGINT"
    if whole < 2**126:
        return "HUGEINT"
    raise UnsupportedError(
        f"a shape has at most 2^126 possible queries, and one with {len(radix)} edges has more on this graph. "
        "Take fewer edges or fewer qualifiers"
    )


def _places(shape: Shape, node: str) -> list[str]:
    """Gives every column that a node is bound by."""
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
    found = []
    for image in shape.automorphisms:
        if (applies := _image_exists(shape, counts, image)) is not None:
            condition = _not_above(shape, image)
            found.append(f"(NOT ({' AND '.join(applies)}) OR {condition})" if applies else condition)
    return found


def _image_exists(shape: Shape, counts: Counts, image: Sequence[int]) -> list[str] | None:
    """Says when the image of a query is a query of this shape, as conditions; None if it never is."""
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
        mine, its = (next(group for group in equal if member in group) for member in (edge, other))
        if mine is not its:
            steps.append((edge, other))
            equal = [group for group in equal if group is not mine and group is not its] + [mine | its]
    condition = ""
    for edge, other in reversed(steps):
        one, two = _number(shape, edge), _number(shape, other)
        condition = f"({one} < {two} OR ({one} = {two} AND {condition}))" if condition else f"{one} <= {two}"
    return condition
