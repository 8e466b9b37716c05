"""Exact answers: joins in memory over what is known.

Partial solutions are columns, of one query or of many queries of one shape at once. Edges are joined one by one: first
those with both ends bound (they only filter), then the one with the fewest matches. A variable that no later edge needs
is dropped and equal rows are merged, so hubs on the way do not multiply.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from starqe.errors import InputError, QueryError, UnsupportedError
from starqe.kg.graph import Graph
from starqe.kg.known import Known
from starqe.queries.formula import Variable
from starqe.queries.query import Query
from starqe.queries.shape import TARGET
from starqe.queries.table import QueryTable, ragged_take

MAX_ROWS = 20_000_000
"""How many partial solutions a query may have at any time."""

CHUNK = 4_096
"""How many queries of a table are joined together."""

Answers = tuple[np.ndarray, np.ndarray]
"""Offsets (n+1,) and entity ids: the answers of query i, ascending, stand at ``offsets[i]`` up to ``offsets[i+1]``."""

EASY_AND_ALL: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "valid": (("train",), ("train", "valid")),
    "test": (("train", "valid"), ("train", "valid", "test")),
}
"""The strict protocol: the splits on which the easy answers of a split's queries hold, and all of its answers."""


@dataclass(frozen=True)
class _Join:
    """n conjunctions of the same form by ids; a node is bound by a constant a query, or to be found."""

    edges: tuple[tuple[str, str], ...]
    constants: Mapping[str, np.ndarray]  # node -> (n,)
    relations: np.ndarray  # (n, E)
    pair_offsets: np.ndarray  # (n * E + 1,)
    pair_relation: np.ndarray
    pair_value: np.ndarray


def answer(known: Known, query: Query, max_rows: int = MAX_ROWS) -> np.ndarray:
    """Gives the entities that answer a query, by ids, ascending.

    Raises:
        InputError: An identifier does not occur in the graph.
        UnsupportedError: The query is not conjunctive over head and tail variables, has several answer variables, or has
            too many partial solutions.
    """
    return assignments(known, query, variables=[query.target], max_rows=max_rows)[query.target].astype(np.int32)


def assignments(
    known: Known,
    query: Query,
    limit: int | None = None,
    variables: Sequence[Variable] | None = None,
    given: Mapping[Variable, int] | None = None,
    max_rows: int = MAX_ROWS,
) -> dict[Variable, np.ndarray]:
    """Gives the distinct assignments of the variables (all, or these) that make a query true, in ascending order.

    Args:
        known: What counts as known.
        query: A conjunctive query.
        limit: How many assignments to give at most.
        variables: The columns, in the order of sorting; the others are only required to exist.
        given: Entities that some variables are bound to: to explain one answer.
        max_rows: How many partial solutions there may be.

    Raises:
        InputError: An identifier does not occur in the graph.
        QueryError: A variable does not occur in the query.
        UnsupportedError: The query is not conjunctive over head and tail variables, or has too many partial solutions.
    """
    columns, given = list(query.variables if variables is None else variables), dict(given or {})
    for variable in (*columns, *given):
        if variable not in query.variables:
            raise QueryError(f"an assignment is of variables of the query, found {variable}: {query}")
    join = _join_of_query(query, known.graph, given)
    _, found = _solve(known, join, [str(variable) for variable in columns], max_rows)
    return {variable: found[str(variable)][:limit] for variable in columns}


def first_assignments(known: Known, query: Query, answers: np.ndarray, max_rows: int = MAX_ROWS) -> dict[Variable, np.ndarray]:
    """Gives, for each of these answers of a query, the first of the assignments that have it: (n,) each, by one join for all.

    Raises:
        InputError: An identifier does not occur in the graph.
        UnsupportedError: The query is not conjunctive over head and tail variables, or has too many partial solutions.
    """
    join = _join_of_query(query, known.graph, {query.target: 0})
    parts = [_first_of_chunk(known, join, query, answers[start : start + CHUNK], max_rows) for start in range(0, len(answers), CHUNK)]
    return {variable: np.concatenate([np.empty(0, np.int64), *(part[variable] for part in parts)]) for variable in query.variables}


def answer_rows(known: Known, table: QueryTable, rows: np.ndarray | Sequence[int] | None = None, max_rows: int = MAX_ROWS) -> Answers:
    """Gives the answers of many queries of a table (of all, if no rows are named).

    Raises:
        UnsupportedError: The table is reified, or one query has too many partial solutions.
    """
    _check_plain(table)
    rows = np.arange(len(table)) if rows is None else np.asarray(rows, np.int64)
    parts = [_answer_chunk(known, table, rows[start : start + CHUNK], max_rows) for start in range(0, len(rows), CHUNK)]
    counts = np.concatenate([np.empty(0, np.int64), *(np.diff(offsets) for offsets, _ in parts)])
    answers = np.concatenate([np.empty(0, np.int32), *(answers for _, answers in parts)])
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), answers.astype(np.int32)


def derivation_rows(
    known: Known,
    table: QueryTable,
    rows: np.ndarray | Sequence[int] | None = None,
    edges: Sequence[int] | None = None,
    given: Mapping[str, np.ndarray] | None = None,
    max_rows: int = MAX_ROWS,
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Gives all derivations of many queries of a table: an entity for every node of the shape that makes all edges true.

    Args:
        known: What counts as known.
        table: The queries.
        rows: Which of them; all, if left out.
        edges: The edges that are to be true; all, if left out.
        given: Entities that more nodes than the anchors are bound to, one for each of the rows.
        max_rows: How many partial solutions there may be.

    Returns:
        The place in ``rows`` that each derivation belongs to, ascending, and the entities by node: those that an edge binds.

    Raises:
        UnsupportedError: The table is reified, or one query has too many partial solutions.
    """
    _check_plain(table)
    rows = np.arange(len(table)) if rows is None else np.asarray(rows, np.int64)
    edges = range(len(table.shape.edges)) if edges is None else edges
    return _solve_rows(known, table, rows, list(table.shape.nodes), edges, given or {}, max_rows)


def easy_and_hard(graph: Graph, table: QueryTable, rows: np.ndarray | Sequence[int] | None, split: str) -> tuple[Answers, Answers]:
    """Gives the easy and the hard answers by the strict protocol: what older facts entail, and what needs the new ones.

    Raises:
        InputError: The split is not valid or test.
        UnsupportedError: The table is reified, or one query has too many partial solutions.
    """
    if split not in EASY_AND_ALL:
        raise InputError(f"easy and hard answers are told apart for {' and '.join(EASY_AND_ALL)}, found split {split!r}")
    (easy_offsets, easy), (offsets, answers) = (answer_rows(graph.known(splits), table, rows) for splits in EASY_AND_ALL[split])
    n, width = len(offsets) - 1, len(graph.entities)
    # More facts never take an answer away, so each easy answer is among all.
    is_hard = ~np.isin(_owners(offsets) * width + answers, _owners(easy_offsets) * width + easy)
    hard_offsets = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(_owners(offsets)[is_hard], minlength=n), out=hard_offsets[1:])
    return (easy_offsets, easy), (hard_offsets, answers[is_hard])


def _check_plain(table: QueryTable) -> None:
    if table.shape.of_kind("blank"):
        raise UnsupportedError(f"a reified table (shape '{table.shape.name}') has no answers in the graph. Undo the reification first")


def _owners(offsets: np.ndarray) -> np.ndarray:
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def _answer_chunk(known: Known, table: QueryTable, rows: np.ndarray, max_rows: int) -> Answers:
    query, found = _solve_rows(known, table, rows, [TARGET], range(len(table.shape.edges)), {}, max_rows)
    return np.searchsorted(query, np.arange(len(rows) + 1)), found[TARGET]


def _solve_rows(
    known: Known,
    table: QueryTable,
    rows: np.ndarray,
    wanted: list[str],
    edges: Sequence[int],
    given: Mapping[str, np.ndarray],
    max_rows: int,
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Joins these edges of some rows, all at once or, where that is too much, in halves."""
    cells = rows[:, None] * len(table.shape.edges) + np.asarray(edges, np.int64)
    offsets, pairs = ragged_take(table.pair_offsets, cells.ravel())
    constants = {anchor: table.anchors[rows, column] for column, anchor in enumerate(table.shape.anchors)} | dict(given)
    ends, relations = tuple(table.shape.edges[edge] for edge in edges), table.relations[rows][:, list(edges)]
    join = _Join(ends, constants, relations, offsets, table.pair_relation[pairs], table.pair_value[pairs])
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


def _first_of_chunk(known: Known, join: _Join, query: Query, answers: np.ndarray, max_rows: int) -> dict[Variable, np.ndarray]:
    """Gives the first assignment of each answer, of all at once or, where that is too much, in halves."""
    try:
        place, found = _solve(known, _repeated(join, {str(query.target): answers}), [str(one) for one in query.variables], max_rows)
    except UnsupportedError:
        if len(answers) == 1:
            raise
        halves = [_first_of_chunk(known, join, query, half, max_rows) for half in np.array_split(answers, 2)]
        return {variable: np.concatenate([half[variable] for half in halves]) for variable in query.variables}
    first = np.searchsorted(place, np.arange(len(answers)))
    return {variable: found[str(variable)][first] for variable in query.variables}


def _join_of_query(query: Query, graph: Graph, given: Mapping[Variable, int]) -> _Join:
    atoms = query.plain_form().conjuncts("the exact engine")
    constants = {str(variable): np.array([id_]) for variable, id_ in given.items()}
    edges = []
    for atom in atoms:
        for term in (atom.head, atom.tail):
            if isinstance(term, str):
                constants[f"={term}"] = np.array([graph.entities.id(term)])
        edges.append(
            (
                f"={atom.head}" if isinstance(atom.head, str) else str(atom.head),
                f"={atom.tail}" if isinstance(atom.tail, str) else str(atom.tail),
            )
        )
    pairs = [[(graph.relations.id(str(relation)), graph.entities.id(str(value))) for relation, value in atom.qualifiers] for atom in atoms]
    flat = np.array([pair for of_edge in pairs for pair in of_edge], np.int64).reshape(-1, 2)
    offsets = np.concatenate([[0], np.cumsum([len(of_edge) for of_edge in pairs])])
    return _Join(tuple(edges), constants, graph.relations.ids(str(atom.relation) for atom in atoms)[None], offsets, flat[:, 0], flat[:, 1])


def _repeated(join: _Join, given: Mapping[str, np.ndarray]) -> _Join:
    """Repeats one conjunction for each value of the given nodes."""
    count = len(next(iter(given.values())))
    shifts = len(join.pair_relation) * np.arange(count)[:, None]
    return replace(
        join,
        constants={node: np.repeat(constant, count) for node, constant in join.constants.items()} | dict(given),
        relations=np.repeat(join.relations, count, axis=0),
        pair_offsets=np.concatenate([[0], (join.pair_offsets[1:] + shifts).ravel()]),
        pair_relation=np.tile(join.pair_relation, count),
        pair_value=np.tile(join.pair_value, count),
    )


class _Solution:
    """Partial solutions: the query that each row belongs to, and a column for each variable that is still needed."""

    def __init__(self, known: Known, join: _Join, max_rows: int) -> None:
        self.known, self.join, self.max_rows = known, join, max_rows
        self.query = np.arange(len(join.relations))
        self.columns: dict[str, np.ndarray] = {}

    def value(self, node: str) -> np.ndarray | None:
        """Gives the entity that each row binds a node to, or None where the node is not bound yet."""
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
        self.query = self.query[position]
        self.columns = {node: column[position] for node, column in self.columns.items()}
        for node, bound, ends in ((head_node, head, graph.head), (tail_node, tail, graph.tail)):
            if bound is None:
                self.columns[node] = ends[statement]

    def _scan(self, relation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Finds the statements with each row's relation, where no end of an edge is bound."""
        found = [self.known.by_relation(int(one)) for one in relation]
        counts = [len(rows) for rows in found]
        self.check(sum(counts))
        return np.repeat(np.arange(len(found)), counts), np.concatenate([np.empty(0, np.int64), *found])

    def _with_pairs(self, cell: np.ndarray, statement: np.ndarray) -> np.ndarray:
        """Says for each match whether its one statement has all the pairs of its cell (query and edge)."""
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
        """Refuses to go on with too many rows.

        Raises:
            UnsupportedError: There are more than allowed.
        """
        if count > self.max_rows:
            met = f"the exact engine holds up to {self.max_rows:,} partial solutions, and this query has {count:,.0f}"
            raise UnsupportedError(f"{met}. Give more entities or qualifiers, or raise max_rows")


def _solve(known: Known, join: _Join, wanted: list[str], max_rows: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Joins all edges; gives the query of each solution, ascending, and the wanted columns, sorted and each row once."""
    solution = _Solution(known, join, max_rows)
    left = list(range(len(join.edges)))
    while left:
        costs = {edge: solution.cost(edge) for edge in left}
        edge = min(left, key=lambda edge: costs[edge])
        if costs[edge] < np.inf:
            solution.check(costs[edge])
        solution.join_edge(edge)
        left.remove(edge)
        later = {node for edge in left for node in join.edges[edge]}
        solution.keep([*wanted, *sorted(later - set(wanted))])
    return solution.query, {node: column for node in wanted if (column := solution.value(node)) is not None}
