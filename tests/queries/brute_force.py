"""An independent generation of queries in plain Python: every combination of facts, no index, no numbering."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, product
from pathlib import Path

from hypothesis import strategies as st

from starqe.kg import SPLITS, Graph
from starqe.queries.formula import And, Not, Or
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
    """Returns the distinct main triples with each set of this number of pairs that one statement has."""
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
    """Yields every combination of edge rows that matches, with an edge of the new split."""
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
    """Returns equal values for two queries exactly if renaming their variables makes one of the other."""
    variables = [node for node in shape.nodes if node_kind(node) in ("variable", "blank")]

    def named(order: Sequence[str]) -> Query:
        names = {TARGET: TARGET, **dict(zip(variables, order, strict=True))}
        found = []
        for (head, tail), (start, relation, end, pairs) in zip(shape.edges, edges, strict=True):
            found.append((names.get(head, start), relation, names.get(tail, end), pairs))
        return tuple(sorted(found, key=repr))

    return min((named(order) for order in permutations([f"?{i}" for i in range(len(variables))])), key=repr)


def generated(graph: Graph, shape: Shape, counts: Sequence[tuple[int, int]], split: str, hub_threshold: int | None, cap: int | None = None):
    """Returns every query of a shape, in the nameless form, with its answers."""
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
    """Returns the queries of a table in the nameless form, with their answers, in the order of the table."""
    table = load_table(table_path(folder, split, shape.name))
    return [(nameless(shape, atoms(table, row)), table.answers[row].tolist()) for row in range(len(table))]


def atoms(table: QueryTable, row: int) -> list[tuple[int | None, int, int | None, Pairs]]:
    """Returns the edges of one query of a table; ends that are to be found are None."""
    anchors = dict(zip(table.shape.anchors, table.anchors[row].tolist(), strict=True))
    return [
        (anchors.get(head), int(table.relations[row, edge]), anchors.get(tail), tuple(table.pairs_of(row, edge)))
        for edge, (head, tail) in enumerate(table.shape.edges)
    ]


@st.composite
def shapes(draw: st.DrawFn, max_edges: int = 4) -> Shape:
    """Draws connected shapes: triangles, edges against the direction, parallel edges, edges between anchors."""
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


# Shapes with alternatives, negated parts and qualifier values that are variables.

OpenEdge = tuple[int, int, int, Pairs, Pairs]
"""An edge row: head, relation, tail, given pairs, and the pairs whose values are nodes."""


def open_edge_rows(graph: Graph, splits: Sequence[str], fewest: int, most: int, values: int) -> list[OpenEdge]:
    """Returns the distinct main triples with some pairs in a certain order, and each set of this number of other pairs."""
    found = set()
    for row in range(len(graph)):
        if SPLITS[graph.split[row]] in splits:
            main = int(graph.head[row]), int(graph.relation[row]), int(graph.tail[row])
            own = sorted({(int(r), int(v)) for r, v in graph.pairs_of(row)})
            for opened in permutations(own, values):
                left = [pair for pair in own if pair not in opened]
                for size in range(max(fewest - values, 0), max(most - values, 0) + 1):
                    found |= {(*main, pairs, opened) for pairs in combinations(left, size)}
    return sorted(found)


def asked(shape: Shape, chosen: Sequence[OpenEdge]) -> tuple:
    """Returns the constants of a match: for each edge the anchors at its ends, the relation, the pairs, and the relations of open pairs."""
    return tuple(
        (
            edge[0] if node_kind(head) == "anchor" else None,
            edge[1],
            edge[2] if node_kind(tail) == "anchor" else None,
            edge[3],
            tuple(relation for relation, _ in edge[4]),
        )
        for (head, tail), edge in zip(shape.edges, chosen, strict=True)
    )


def matches(graph: Graph, shape: Shape, counts: Sequence[tuple[int, int]], split: str, hub_threshold: int | None):
    """Yields every way in which all edges of a shape hold in the context: the constants, the target, and whether an edge is new."""
    context = SPLITS[: SPLITS.index(split) + 1]
    values = [len(shape.values_of(edge)) for edge in range(len(shape.edges))]
    choices = [open_edge_rows(graph, context, *count, value) for count, value in zip(counts, values, strict=True)]
    new = [{*open_edge_rows(graph, [split], *count, value)} for count, value in zip(counts, values, strict=True)]
    hubs = {e for e in range(len(graph.entities)) if hub_threshold is not None and degree(graph, e) >= hub_threshold}
    into = [*(tail for _, tail in shape.edges), *(node for _, node in shape.slots)]
    joins = {node for node in shape.nodes if node_kind(node) != "anchor" and into.count(node) > 1}

    def extend(chosen: tuple[OpenEdge, ...], bound: dict[str, int]):
        if len(chosen) == len(shape.edges):
            if not any(bound[node] in hubs for node in joins) and not collapses(shape, chosen):
                yield asked(shape, chosen), bound[TARGET], any(edge in rows for edge, rows in zip(chosen, new, strict=True))
            return
        place = len(chosen)
        nodes = (*shape.edges[place], *shape.values_of(place))
        for edge in choices[place]:
            ends = dict(zip(nodes, (edge[0], edge[2], *(value for _, value in edge[4])), strict=True))
            if all(bound.get(node, end) == end for node, end in ends.items()):
                yield from extend((*chosen, edge), {**bound, **ends})

    yield from extend((), {})


def ways(graph: Graph, shape: Shape, constants: tuple, tree, splits: Sequence[str], bound: dict[str, int]):
    """Yields every way to make a tree true, by trying all statements: the nodes, and the edges that hold."""
    match tree:
        case Or():
            for part in tree.parts:
                yield from ways(graph, shape, constants, part, splits, bound)
        case Not():
            if next(ways(graph, shape, constants, tree.part, splits, bound), None) is None:
                yield bound, ()
        case And():
            first, *rest = sorted(tree.parts, key=lambda part: isinstance(part, Not))
            for nodes, edges in ways(graph, shape, constants, first, splits, bound):
                for more, others in ways(graph, shape, constants, And(tuple(rest)), splits, nodes) if rest else [(nodes, ())]:
                    yield more, (*edges, *others)
        case int():
            (head, tail), (_, relation, _, pairs, opened) = shape.edges[tree], constants[tree]
            values = shape.values_of(tree)
            given = {node: end for node, end in zip((head, tail), constants[tree][0:3:2], strict=True) if end is not None}
            for row in range(len(graph)):
                own = {(int(r), int(v)) for r, v in graph.pairs_of(row)}
                if SPLITS[graph.split[row]] not in splits or graph.relation[row] != relation or not {*pairs} <= own:
                    continue
                for found in product(*([v for r, v in sorted(own) if r == relation_] for relation_ in opened)):
                    ends = {head: int(graph.head[row]), tail: int(graph.tail[row]), **dict(zip(values, found, strict=True))}
                    if all({**given, **bound}.get(node, end) == end for node, end in ends.items()):
                        yield {**bound, **ends}, (tree,)


def holds(graph: Graph, shape: Shape, constants: tuple, edge: int, splits: Sequence[str], bound: dict[str, int]) -> bool:
    """Says whether one edge holds on some splits, with all its nodes bound."""
    return next(ways(graph, shape, constants, edge, splits, bound), None) is not None


def answers_of(graph: Graph, shape: Shape, constants: tuple, splits: Sequence[str], new: str | None = None) -> list[int]:
    """Returns the answers of a query on some splits; only those with a new edge, if a split is named."""
    return sorted(
        {
            bound[TARGET]
            for bound, edges in ways(graph, shape, constants, shape.formula, splits, {})
            if new is None or any(holds(graph, shape, constants, edge, [new], bound) for edge in edges)
        }
    )


def reduction_of(graph: Graph, shape: Shape, constants: tuple, answer: int) -> tuple[int, bool]:
    """Returns the least number of edges of a derivation that train lacks, and whether every derivation lacks all of them."""
    found = []
    for bound, edges in ways(graph, shape, constants, shape.formula, SPLITS, {}):
        if bound[TARGET] == answer:
            lacking = sum(not holds(graph, shape, constants, edge, ["train"], bound) for edge in edges)
            found.append((lacking, lacking == len(edges)))
    return (min(found)[0], all(full for _, full in found)) if found else (-1, False)


def formula_of(shape: Shape, constants: tuple) -> str:
    """Returns equal values for two queries exactly if they differ in the names of variables and the order of parts only."""
    variables = [node for node in shape.nodes if node_kind(node) == "variable"]

    def written(tree, names: dict[str, str]) -> str:
        match tree:
            case Not():
                return f"not {written(tree.part, names)}"
            case And() | Or():
                return f"{type(tree).__name__}({', '.join(sorted(written(part, names) for part in tree.parts))})"
        (head, tail), (start, relation, end, pairs, opened) = shape.edges[tree], constants[tree]
        open_pairs = [(r, names[node]) for r, node in zip(opened, shape.values_of(tree), strict=True)]
        return repr((names.get(head, start), relation, names.get(tail, end), pairs, sorted(open_pairs)))

    orders = permutations([f"?{i}" for i in range(len(variables))])
    return min(written(shape.formula, {TARGET: TARGET, **dict(zip(variables, order, strict=True))}) for order in orders)


def composed(graph: Graph, shape: Shape, counts: Sequence[tuple[int, int]], split: str, hub_threshold: int | None) -> dict[str, list[int]]:
    """Returns every query of any shape with its listed answers."""
    context = SPLITS[: SPLITS.index(split) + 1]
    found: dict[str, set[int]] = {}
    for constants, target, new in matches(graph, shape, counts, split, hub_threshold):
        if shape.tree is not None:
            key = formula_of(shape, constants)
            if key not in found:
                found[key] = {*answers_of(graph, shape, constants, context, split)}
        elif new:
            found.setdefault(formula_of(shape, constants), set()).add(target)
    return {key: sorted(answers) for key, answers in found.items() if answers}


def constants_of(table: QueryTable, row: int) -> tuple:
    """Returns the constants of one query of a table, as `asked` does."""
    return tuple(
        (*edge[:3], edge[3], tuple(relation for relation, _ in table.open_pairs_of(row, number)))
        for number, edge in enumerate(atoms(table, row))
    )
