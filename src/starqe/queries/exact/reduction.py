"""Reductions: which edges of an answer's best derivation are missing from train.

A derivation of an answer is an entity for every node of one alternative of its query such that statements of the context entail all
edges of the alternative, and none of what is negated. An answer with a derivation of three edges, two of which train has, is not
harder than a query of one edge: it is *reduced* to it. The best derivation is the one that lacks the fewest edges.

n derivations · E edges · m answers.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from starqe.kg import SPLITS, Graph
from starqe.queries.exact.answering import MAX_ROWS, solve_tree
from starqe.queries.formula import And, Not
from starqe.queries.shape import TARGET
from starqe.queries.table import QueryTable
from starqe.queries.tree import Branch, Tree, joined
from starqe.ragged import BoolArray, IntArray, Ragged

UNKNOWN = -1
"""Marks an answer without a derivation."""
BLOCK = 512
"""The number of queries whose derivations are held at once."""
FULL, NONE = "full inference", "no derivation"
"""The names of the class of answers all of whose derivations lack all edges, and of answers without any."""


@dataclass(frozen=True, eq=False)
class Reductions:
    """The reductions of some answers, in their order."""

    missing: IntArray  # (m,) bit e is set if edge e of the best derivation is missing; UNKNOWN without a derivation
    full: BoolArray  # (m,) no derivation has an edge that train has

    @property
    def count(self) -> IntArray:
        """How many edges the best derivation lacks; UNKNOWN without a derivation: (m,)."""
        bits = sum(((self.missing >> edge) & 1 for edge in range(31)), np.zeros(len(self.missing), np.int64))
        return np.where(self.missing == UNKNOWN, UNKNOWN, bits)

    @property
    def classes(self) -> list[str]:
        """The name of each answer's class: ``1 missing`` and so on, or that of full inference."""
        names = {UNKNOWN: NONE}
        return [FULL if full else names.get(count, f"{count} missing") for count, full in zip(self.count.tolist(), self.full, strict=True)]


def class_order(name: str) -> tuple[int, str]:
    """Sorts classes by the number of missing edges; full inference comes last."""
    return {FULL: 2, NONE: 3}.get(name, 1), name


def reductions(
    graph: Graph, table: QueryTable, rows: IntArray, answers: Ragged, max_rows: int = MAX_ROWS, splits: Collection[str] = SPLITS
) -> Reductions:
    """Finds the reduction of each answer of some queries of a table.

    Args:
        graph: The graph of the queries.
        table: The queries.
        rows: Which of them. (n,)
        answers: The answers of each.
        max_rows: Maximum number of partial solutions.
        splits: Derivations are over the statements of these splits.

    Raises:
        UnsupportedError: The table is reified, or one query has too many derivations.
    """
    parts = [
        _of_block(graph, table, rows[start : start + BLOCK], answers.slice(start, min(start + BLOCK, len(rows))), max_rows, splits)
        for start in range(0, len(rows), BLOCK)
    ]
    missing = np.concatenate([np.empty(0, np.int64), *(part.missing for part in parts)])
    return Reductions(missing, np.concatenate([np.empty(0, bool), *(part.full for part in parts)]))


def _of_block(graph: Graph, table: QueryTable, rows: IntArray, answers: Ragged, max_rows: int, splits: Collection[str]) -> Reductions:
    width, shape = len(graph.entities), table.shape
    wanted = answers.owner * width + answers.items  # ascending
    best = np.full(len(wanted), np.iinfo(np.int64).max)
    full = np.ones(len(wanted), bool)
    for branch in shape.branches:
        nodes = sorted(shape.nodes_of(branch.edges) - {*shape.anchors})
        query, found = solve_tree(graph.known(splits), table, rows, _tree(branch), nodes, {}, max_rows)
        code = query * width + found[TARGET]
        place = np.minimum(np.searchsorted(wanted, code), max(len(wanted) - 1, 0))
        listed = np.flatnonzero(wanted[place] == code) if len(wanted) else np.empty(0, np.int64)
        query, place = query[listed], place[listed]
        bound = {node: entities[listed] for node, entities in found.items()}
        known = known_edges(graph, table, rows[query], branch.edges, bound)  # (n, edges of the branch)
        mask = sum(((~known[:, i]).astype(np.int64) << edge for i, edge in enumerate(branch.edges)), np.zeros(len(query), np.int64))
        # The count above the mask: the smallest code lacks the fewest edges.
        np.minimum.at(best, place, (~known).sum(axis=1) << 32 | mask)
        full[place[known.any(axis=1)]] = False
    without = best == np.iinfo(np.int64).max
    return Reductions(np.where(without, UNKNOWN, best & 0xFFFFFFFF), full & ~without)


def _tree(branch: Branch) -> Tree:
    return joined([*branch.edges, *(Not(part) for part in branch.without)], And)


def known_edges(graph: Graph, table: QueryTable, rows: IntArray, edges: tuple[int, ...], bound: Mapping[str, IntArray]) -> BoolArray:
    """Returns which edges of derivations a train statement entails; nodes are bound to one entity per derivation: (n, edges) bool."""
    shape, train = table.shape, graph.known(["train"])
    anchors = {anchor: table.anchors[rows, column] for column, anchor in enumerate(shape.anchors)}
    known = np.zeros((len(rows), len(edges)), bool)
    for place, edge in enumerate(edges):
        given = {node: values for node, values in {**anchors, **bound}.items() if node in shape.nodes_of([edge])}
        codes, first, group = _distinct(graph, [rows, *given.values()])
        holds = np.zeros(len(codes), bool)
        holds[solve_tree(train, table, rows[first], edge, [], {node: values[first] for node, values in given.items()})[0]] = True
        known[:, place] = holds[group]
    return known


def _distinct(graph: Graph, columns: list[IntArray]) -> tuple[IntArray, IntArray, IntArray]:
    """Finds the distinct rows of columns: their codes, where each occurs first, and which of them each row is."""
    code = columns[0].astype(np.int64)
    for column in columns[1:]:
        code = np.unique(code, return_inverse=True)[1] * len(graph.entities) + column
    codes, first, group = np.unique(code, return_index=True, return_inverse=True)
    return codes, first, group
