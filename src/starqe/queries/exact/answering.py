"""Exact answers: joins in memory over what is known.

A single query is solved by `starqe.queries.exact.solutions`. Here many queries of one shape are joined at once: partial solutions are
columns, and edges are joined one by one, first those with both ends bound (they only filter), then the one with the fewest
matches. A variable that no later edge needs is dropped and equal rows are merged, so hubs on the way do not multiply.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from starqe.deadline import NEVER, Deadline
from starqe.errors import InputError, UnsupportedError
from starqe.kg.graph import Graph
from starqe.kg.known import Known
from starqe.queries.exact import solutions
from starqe.queries.exact.solutions import solve
from starqe.queries.formula import Variable
from starqe.queries.query import Query
from starqe.queries.shape import TARGET
from starqe.queries.table import QueryTable
from starqe.queries.tree import Tree, branches, leaves
from starqe.ragged import BoolArray, IntArray, Ragged

MAX_ROWS = 20_000_000
"""Maximum number of partial solutions of the queries of a table."""

CHUNK = 4_096
"""Number of queries that are joined together."""

EASY_AND_ALL: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "valid": (("train",), ("train", "valid")),
    "test": (("train", "valid"), ("train", "valid", "test")),
}
"""The strict protocol: the splits on which the easy answers of a split's queries hold, and all of its answers."""


@dataclass(frozen=True)
class _Join:
    """n conjunctions of the same form by ids; a node is bound by one constant per query, or to be found."""

    edges: tuple[tuple[str, str], ...]
    constants: Mapping[str, IntArray]  # node -> (n,)
    relations: IntArray  # (n, E)
    pair_offsets: IntArray  # (n * E + 1,)
    pair_relation: IntArray
    pair_value: IntArray
    values: tuple[tuple[tuple[str, IntArray], ...], ...]
    """For each edge the nodes that are values of its pairs, with the relations of these pairs: node, (n,)."""

    def nodes(self, edge: int) -> tuple[str, ...]:
        """All nodes of an edge."""
        return (*self.edges[edge], *(node for node, _ in self.values[edge]))


def answer(known: Known, query: Query, max_rows: int = solutions.MAX_ROWS, deadline: Deadline = NEVER) -> IntArray:
    """Finds the entities that answer a query, by ids, ascending.

    Raises:
        InputError: An identifier does not occur in the graph.
        UnsupportedError: The query is not conjunctive over head and tail variables, has several answer variables, or needs tables
            that are too large.
        DeadlineError: The time is up.
    """
    return solve(known, query, [query.target], max_rows=max_rows, deadline=deadline).first.astype(np.int32)


def assignments(
    known: Known,
    query: Query,
    limit: int | None = None,
    variables: Sequence[Variable] | None = None,
    given: Mapping[Variable, int] | None = None,
    max_rows: int = solutions.MAX_ROWS,
    deadline: Deadline = NEVER,
) -> dict[Variable, IntArray]:
    """Lists the distinct assignments of the variables (all, or these) that make a query true; see `starqe.queries.exact.solutions.solve`.

    The first variable ascends; the rest of the order is fixed, and the same for every limit.

    Raises:
        InputError: An identifier does not occur in the graph.
        QueryError: A variable does not occur in the query.
        UnsupportedError: The query is not conjunctive over head and tail variables, or has too many solutions to list.
        DeadlineError: The time is up.
    """
    return solve(known, query, variables, given, max_rows, deadline).rows(limit, deadline=deadline)


def answer_rows(known: Known, table: QueryTable, rows: IntArray | Sequence[int] | None = None, max_rows: int = MAX_ROWS) -> Ragged:
    """Finds the answers of many queries of a table (of all, if no rows are named), ascending in each.

    Raises:
        UnsupportedError: The table is reified, or one query has too many partial solutions.
    """
    _check_plain(table)
    rows = np.arange(len(table)) if rows is None else np.asarray(rows, np.int64)
    parts = [_answer_chunk(known, table, rows[start : start + CHUNK], max_rows) for start in range(0, len(rows), CHUNK)]
    return Ragged.stack([Ragged.empty(0), *parts])


def derivation_rows(
    known: Known,
    table: QueryTable,
    rows: IntArray | Sequence[int] | None = None,
    edges: Sequence[int] | None = None,
    given: Mapping[str, IntArray] | None = None,
    max_rows: int = MAX_ROWS,
) -> tuple[IntArray, dict[str, IntArray]]:
    """Returns all derivations of many queries of a table: an entity for every node of the shape that makes all edges true.

    Alternatives and negations of the shape are left aside: name the edges of one of its branches.

    Args:
        known: What counts as known.
        table: The queries.
        rows: Which of them; all, if left out.
        edges: The edges that are to be true; all, if left out.
        given: Entities that more nodes than the anchors are bound to, one for each of the rows.
        max_rows: Maximum number of partial solutions.

    Returns:
        The place in ``rows`` that each derivation belongs to, ascending, and the entities by node: those that an edge binds.

    Raises:
        UnsupportedError: The table is reified, or one query has too many partial solutions.
    """
    _check_plain(table)
    rows = np.arange(len(table)) if rows is None else np.asarray(rows, np.int64)
    edges = range(len(table.shape.edges)) if edges is None else edges
    return _solve_rows(known, table, rows, list(table.shape.nodes), edges, given or {}, max_rows)


def easy_and_hard(graph: Graph, table: QueryTable, rows: IntArray | Sequence[int] | None, split: str) -> tuple[Ragged, Ragged]:
    """Finds the easy and the hard answers by the strict protocol: what older facts entail, and what needs the new ones.

    Raises:
        InputError: The split is not valid or test.
        UnsupportedError: The table is reified, or one query has too many partial solutions.
    """
    if split not in EASY_AND_ALL:
        raise InputError(f"easy and hard answers exist for the splits {' and '.join(EASY_AND_ALL)}, found {split!r}")
    easy, both = (answer_rows(graph.known(splits), table, rows) for splits in EASY_AND_ALL[split])
    codes, easy_codes = (answers.owner * len(graph.entities) + answers.items for answers in (both, easy))
    if table.shape.negated:  # only there more facts can remove an answer: it is not one any more
        easy = easy.where(np.isin(easy_codes, codes))
    return easy, both.where(~np.isin(codes, easy_codes))


def _check_plain(table: QueryTable) -> None:
    if table.shape.of_kind("blank"):
        raise UnsupportedError(f"a reified table (shape '{table.shape.name}') has no answers in the graph. Undo the reification first")


def _answer_chunk(known: Known, table: QueryTable, rows: IntArray, max_rows: int) -> Ragged:
    query, found = solve_tree(known, table, rows, table.shape.formula, [TARGET], {}, max_rows)
    if table.shape.tree is not None:  # an answer may come from several branches, or with several values of other variables
        codes = np.unique(query * len(known.graph.entities) + found[TARGET])
        query, found = codes // len(known.graph.entities), {TARGET: codes % len(known.graph.entities)}
    return Ragged.of_owner(query, found[TARGET].astype(np.int32), len(rows))


def solve_tree(
    known: Known,
    table: QueryTable,
    rows: IntArray,
    tree: Tree,
    wanted: Sequence[str],
    given: Mapping[str, IntArray],
    max_rows: int = MAX_ROWS,
) -> tuple[IntArray, dict[str, IntArray]]:
    """Solves a tree of edges for some rows of a table: joins the edges of each branch, and removes what its negated parts exclude.

    Returns:
        The place in ``rows`` that each solution belongs to, and the wanted columns; branch after branch.

    Raises:
        UnsupportedError: One query has too many partial solutions.
    """
    shape, parts = table.shape, []
    for branch in branches(tree):
        inside = shape.nodes_of(branch.edges) - {*shape.anchors}
        excluding = [sorted(inside & shape.nodes_of(leaves(part))) for part in branch.without]
        needed = list(dict.fromkeys([*(node for node in wanted if node in inside), *(node for nodes in excluding for node in nodes)]))
        query, found = _solve_rows(known, table, rows, needed, branch.edges, given, max_rows)
        for part, shared in zip(branch.without, excluding, strict=True):
            bound = {node: ids[query] for node, ids in given.items()} | {node: found[node] for node in shared}
            kept = np.ones(len(query), bool)
            kept[solve_tree(known, table, rows[query], part, [], bound, max_rows)[0]] = False
            query, found = query[kept], {node: ids[kept] for node, ids in found.items()}
        parts.append((query, found))
    if len(parts) == 1:
        return parts[0]
    columns = {node: np.concatenate([found[node] for _, found in parts]) for node in wanted}
    return np.concatenate([query for query, _ in parts]), columns


def _solve_rows(
    known: Known,
    table: QueryTable,
    rows: IntArray,
    wanted: list[str],
    edges: Sequence[int],
    given: Mapping[str, IntArray],
    max_rows: int,
) -> tuple[IntArray, dict[str, IntArray]]:
    """Joins these edges of some rows, all at once or, where that is too much, in halves."""
    cells = rows[:, None] * len(table.shape.edges) + np.asarray(edges, np.int64)
    pairs = table.pairs.take(cells.ravel())
    constants = {anchor: table.anchors[rows, column] for column, anchor in enumerate(table.shape.anchors)} | dict(given)
    ends, relations = tuple(table.shape.edges[edge] for edge in edges), table.relations[rows][:, list(edges)]
    slots = [(edge, node, table.value_relations[rows, i]) for i, (edge, node) in enumerate(table.shape.slots)]
    values = tuple(tuple((node, relation) for of, node, relation in slots if of == edge) for edge in edges)
    join = _Join(ends, constants, relations, pairs.offsets, pairs.items[:, 0], pairs.items[:, 1], values)
    try:
        return _solve(known, join, wanted, max_rows)
    except UnsupportedError:
        if len(rows) == 1:
            raise
    half = len(rows) // 2
    parts = [
        _solve_rows(known, table, rows[part], wanted, edges, {node: ids[part] for node, ids in given.items()}, max_rows)
        for part in (slice(half), slice(half, None))
    ]
    columns = {node: np.concatenate([found[node] for _, found in parts]) for node in parts[0][1]}
    return np.concatenate([parts[0][0], parts[1][0] + half]), columns


class _Solution:
    """Partial solutions: the query that each row belongs to, and a column for each variable that is still needed."""

    def __init__(self, known: Known, join: _Join, max_rows: int) -> None:
        self.known, self.join, self.max_rows = known, join, max_rows
        self.query = np.arange(len(join.relations))
        self.columns: dict[str, IntArray] = {}

    def value(self, node: str) -> IntArray | None:
        """Returns the entity that each row binds a node to, or None where the node is not bound yet."""
        constant = self.join.constants.get(node)
        return self.columns.get(node) if constant is None else constant[self.query]

    def cost(self, edge: int) -> float:
        """Counts the rows after joining an edge, at most; an edge with both ends bound costs nothing."""
        head, tail = (self.value(node) for node in self.join.edges[edge])
        relation = self.join.relations[self.query, edge]
        if head is not None and tail is not None:
            return -1
        if head is not None:
            return self.known.count("head", head, relation)
        return np.inf if tail is None else self.known.count("tail", tail, relation)

    def join_edge(self, edge: int) -> None:
        """Keeps the rows, once for each match, for which one statement has the edge's triple and all of its pairs."""
        (head_node, tail_node), graph = self.join.edges[edge], self.known.graph
        head, tail = self.value(head_node), self.value(tail_node)
        relation = self.join.relations[self.query, edge]
        if head is not None and tail is not None:
            position, statement = self.known.find(head, relation, tail)
        elif head is not None:
            position, statement = self.known.expand("head", head, relation)
        elif tail is not None:
            position, statement = self.known.expand("tail", tail, relation)
        else:
            position, statement = self._scan(relation)
        if head_node == tail_node:
            loops = graph.head[statement] == graph.tail[statement]
            position, statement = position[loops], statement[loops]
        fits = self._with_pairs(self.query[position] * len(self.join.edges) + edge, statement)
        position, statement = position[fits], statement[fits]
        self._select(position)
        for node, bound, ends in ((head_node, head, graph.head), (tail_node, tail, graph.tail)):
            if bound is None:
                self.columns[node] = ends[statement]
        for node, relations in self.join.values[edge]:
            statement = self._join_value(node, relations[self.query], statement)

    def _join_value(self, node: str, relation: IntArray, statement: IntArray) -> IntArray:
        """Keeps the rows, once for each match, whose statement has a pair of this relation with the value that a node has, or gets."""
        value = self.value(node)
        if value is not None:
            position = np.flatnonzero(self.known.have_pair(statement, relation, value))
            self._select(position)
        else:
            pairs = self.known.graph.pairs.take(statement)
            fits = pairs.items[:, 0] == relation[pairs.owner]
            position = pairs.owner[fits]
            self._select(position)
            self.columns[node] = pairs.items[fits, 1]
        return statement[position]

    def _select(self, position: IntArray) -> None:
        """Keeps the rows at these positions."""
        self.query = self.query[position]
        self.columns = {node: column[position] for node, column in self.columns.items()}

    def _scan(self, relation: IntArray) -> tuple[IntArray, IntArray]:
        """Finds the statements with each row's relation, where no end of an edge is bound."""
        found = [self.known.by_relation(int(one)) for one in relation]
        counts = [len(rows) for rows in found]
        self.check(sum(counts))
        return np.repeat(np.arange(len(found)), counts), np.concatenate([np.empty(0, np.int64), *found])

    def _with_pairs(self, cell: IntArray, statement: IntArray) -> BoolArray:
        """Returns for each match whether its one statement has all the pairs of its cell (query and edge)."""
        join, offsets = self.join, self.join.pair_offsets
        return self.known.have_pairs(statement, offsets[cell], offsets[cell + 1], join.pair_relation, join.pair_value)

    def keep(self, nodes: Sequence[str]) -> None:
        """Drops the columns of all other nodes, and merges rows that are now equal; rows get sorted."""
        self.columns = {node: self.columns[node] for node in nodes if node in self.columns}
        code, top, width = self.query.astype(np.int64), len(self.join.relations), len(self.known.graph.entities)
        for column in self.columns.values():
            if top * width >= 2**62:
                ranks, code = np.unique(code, return_inverse=True)
                top = len(ranks)
            code, top = code * width + column, top * width
        _, rows = np.unique(code, return_index=True)
        self.query = self.query[rows]
        self.columns = {node: column[rows] for node, column in self.columns.items()}

    def check(self, count: float) -> None:
        """Checks the number of rows.

        Raises:
            UnsupportedError: There are more than allowed.
        """
        if count > self.max_rows:
            met = f"the exact engine holds up to {self.max_rows:,} partial solutions, and this query has {count:,.0f}"
            raise UnsupportedError(f"{met}. Give more entities or qualifiers, or raise max_rows")


def _solve(known: Known, join: _Join, wanted: list[str], max_rows: int) -> tuple[IntArray, dict[str, IntArray]]:
    """Joins all edges; returns the query of each solution, ascending, and the wanted columns, sorted and each row once."""
    solution = _Solution(known, join, max_rows)
    left = list(range(len(join.edges)))
    while left:
        costs = {edge: solution.cost(edge) for edge in left}
        edge = min(left, key=lambda edge: costs[edge])
        if costs[edge] < np.inf:
            solution.check(costs[edge])
        solution.join_edge(edge)
        left.remove(edge)
        later = {node for edge in left for node in join.nodes(edge)}
        solution.keep([*wanted, *sorted(later - set(wanted))])
    return solution.query, {node: column for node in wanted if (column := solution.value(node)) is not None}
