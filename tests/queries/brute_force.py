"""The generation of queries once more, in plain Python: every combination of facts, no index, no numbering."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from pathlib import Path

from hypothesis import strategies as st

from starqe.kg import SPLITS, Graph
from starqe.queries.query_set import table_path
from starqe.queries.shape import TARGET, Shape, node_kind
from starqe.queries.table import QueryTable, load_table

Pairs = tuple[tuple[int, int], ...]
Edge = tuple[int, int, int, Pairs]
"""An edge row: head, relation, tail, pairs."""
Query = tuple[tuple[object, int, object, Pairs], ...]
"""The atoms of a query in a form that does not depend on the names of variables."""


@dataclass(frozen=True)
class Solution:
    """One way to match a shape: its edge rows, and how many of them are new."""

    edges: tuple[Edge, ...]
    new: int
    answer: int


def edge_rows(graph: Graph, splits: Sequence[str], fewest: int, most: int) -> list[Edge]:
    """Gives the distinct main triples with each set of so many pairs that one statement has."""
    found = set()
    for row in range(len(graph)):
        if SPLITS[graph.split[row]] in splits:
            main = int(graph.head[row]), int(graph.relation[row]), int(graph.tail[row])
            for size in range(fewest, most + 1):
                found |= {(*main, pairs) for pairs in combinations(sorted(graph.pairs_of(row)), size)}
    return sorted(found)


def degree(graph: Graph, entity: int) -> int:
    """Counts the distinct triples that end in an entity, and the distinct annotations that have it as value."""
    ends, values = set(), set()
    for row in range(len(graph)):
        main = int(graph.head[row]), int(graph.relation[row]), int(graph.tail[row])
        ends |= {main} if main[2] == entity else set()
        values |= {(*main, relation) for relation, value in graph.pairs_of(row) if value == entity}
    return len(ends) + len(values)


def solutions(graph: Graph, shape: Shape, counts: Sequence[tuple[int, int]], split: str, hub_threshold: int | None) -> Iterator[Solution]:
    """Gives every combination of edge rows that matches, with an edge of the new split."""
    context = SPLITS[: SPLITS.index(split) + 1]
    choices = [edge_rows(graph, context, *count) for count in counts]
    new = [set(edge_rows(graph, [split], *count)) for count in counts]
    hubs = {e for e in range(len(graph.entities)) if hub_threshold is not None and degree(graph, e) >= hub_threshold}

    def extend(chosen: tuple[Edge, ...], bound: dict[str, int]) -> Iterator[tuple[tuple[Edge, ...], dict[str, int]]]:
        if len(chosen) == len(shape.edges):
            yield chosen, bound
            return
        head, tail = shape.edges[len(chosen)]
        for edge in choices[len(chosen)]:
            if bound.get(head, edge[0]) == edge[0] and bound.get(tail, edge[2]) == edge[2]:
                yield from extend((*chosen, edge), {**bound, head: edge[0], tail: edge[2]})

    for chosen, bound in extend((), {}):
        into = [tail for _, tail in shape.edges]
        joins = {node for node in shape.nodes if node_kind(node) != "anchor" and into.count(node) > 1}
        count = sum(edge in rows for edge, rows in zip(chosen, new, strict=True))
        if count and not any(bound[node] in hubs for node in joins) and not collapses(shape, chosen):
            yield Solution(chosen, count, bound[TARGET])


def collapses(shape: Shape, chosen: Sequence[Edge]) -> bool:
    """Says whether two edges that meet at one side of the arrow have the same other end and relation."""
    for (i, one), (j, two) in combinations(enumerate(chosen), 2):
        meet_at_tail, meet_at_head = shape.edges[i][1] == shape.edges[j][1], shape.edges[i][0] == shape.edges[j][0]
        if one[1] == two[1] and (one[0], one[2]) == (two[0], two[2]) and (meet_at_tail or meet_at_head):
            return True
    return False


def nameless(shape: Shape, edges: Sequence[tuple[int | None, int, int | None, Pairs]]) -> Query:
    """Gives the same for two queries exactly if renaming their variables makes one of the other."""
    variables = [node for node in shape.nodes if node_kind(node) in ("variable", "blank")]

    def named(order: Sequence[str]) -> Query:
        names = {TARGET: TARGET, **dict(zip(variables, order, strict=True))}
        found = []
        for (head, tail), (start, relation, end, pairs) in zip(shape.edges, edges, strict=True):
            found.append((names.get(head, start), relation, names.get(tail, end), pairs))
        return tuple(sorted(found, key=repr))

    return min((named(order) for order in permutations([f"?{i}" for i in range(len(variables))])), key=repr)


def generated(graph: Graph, shape: Shape, counts: Sequence[tuple[int, int]], split: str, hub_threshold: int | None, cap: int | None = None):
    """Gives every query of a shape, in the nameless form, with its answers."""
    answers: dict[Query, set[int]] = {}
    bag: dict[Query, dict[tuple, int]] = {}
    for solution in solutions(graph, shape, counts, split, hub_threshold):
        query = nameless(shape, solution.edges)
        answers.setdefault(query, set()).add(solution.answer)
        # The same query is found once for each of its orders; one of them counts.
        order = tuple(
            (*(edge[side] for side, node in zip((0, 2), ends, strict=True) if node_kind(node) == "anchor"), edge[1], edge[3])
            for ends, edge in zip(shape.edges, solution.edges, strict=True)
        )
        bag.setdefault(query, {}).setdefault(order, 0)
        bag[query][order] += solution.new
    capped = cap is not None and split != "train"
    return {query: sorted(found) for query, found in answers.items() if not capped or max(bag[query].values()) < cap}


def read(folder: Path, split: str, shape: Shape) -> list[tuple[Query, list[int]]]:
    """Gives the queries of a table in the nameless form, with their answers, in the order of the table."""
    table = load_table(table_path(folder, split, shape.name))
    return [(nameless(shape, atoms(table, row)), table.answers[row].tolist()) for row in range(len(table))]


def atoms(table: QueryTable, row: int) -> list[tuple[int | None, int, int | None, Pairs]]:
    """Gives the edges of one query of a table; ends that are to be found are None."""
    anchors = dict(zip(table.shape.anchors, table.anchors[row].tolist(), strict=True))
    return [
        (anchors.get(head), int(table.relations[row, edge]), anchors.get(tail), tuple(table.pairs_of(row, edge)))
        for edge, (head, tail) in enumerate(table.shape.edges)
    ]


@st.composite
def shapes(draw: st.DrawFn, max_edges: int = 4) -> Shape:
    """Gives connected shapes: triangles, edges against the direction, parallel edges, edges between anchors."""
    nodes, edges = [TARGET], []
    for _ in range(draw(st.integers(1, max_edges))):
        old = draw(st.sampled_from(nodes))
        new = draw(st.sampled_from([node for node in ("A", "B", "x", "y", TARGET) if node != old]))
        edges.append((old, new) if draw(st.booleans()) else (new, old))
        nodes.append(new)
    if not {"A", "B"} & set(nodes):
        edges[-1] = ("A", edges[-1][0] if edges[-1][0] in nodes[:-1] else edges[-1][1])
    if TARGET not in {node for edge in edges for node in edge}:
        edges[0] = ("A", TARGET)
    return Shape("random", tuple(edges))
