"""Derivations of listed answers from the statements of a graph: which edges are in train, and which are new.

A derivation of an answer is an entity for every node of a query such that statements of any split entail all its edges.

n derivations · E edges · m answers · V entities.
"""

from dataclasses import dataclass, fields

import numpy as np

from starqe.kg import SPLITS, Graph
from starqe.kg.known import Side
from starqe.queries import QueryTable, answer_rows
from starqe.queries.exact.answering import derivation_rows
from starqe.queries.shape import TARGET
from starqe.queries.table import one_hop_table
from starqe.ragged import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class Derivations:
    """All derivations of the listed answers of a table."""

    query: IntArray  # (n,) rows of the table
    answer: IntArray  # (n,)
    head: IntArray  # (n, E)
    tail: IntArray  # (n, E)
    known: BoolArray  # (n, E) bool: a train statement entails the edge


@dataclass(frozen=True, eq=False)
class MissingEdges:
    """Answers that lack one statement, with that statement: the edge of the query, and its ends."""

    query: IntArray  # (m,) rows of the table
    answer: IntArray  # (m,)
    edge: IntArray  # (m,)
    head: IntArray  # (m,)
    tail: IntArray  # (m,)

    def __len__(self) -> int:
        return len(self.query)

    def take(self, places: IntArray) -> "MissingEdges":
        """Returns the ones at these indices."""
        return MissingEdges(*(getattr(self, field.name)[places] for field in fields(self)))


def derivations(graph: Graph, table: QueryTable) -> Derivations:
    """Finds all derivations of the listed answers over the statements of all splits.

    Raises:
        UnsupportedError: The table is reified, or one query has too many derivations.
    """
    query, nodes = derivation_rows(graph.known(SPLITS), table)
    listed = np.isin(_codes(graph, query, nodes[TARGET]), _codes(graph, table.answers.owner, table.answers.items))
    query, nodes = query[listed], {node: entities[listed] for node, entities in nodes.items()}
    head, tail = (np.stack([nodes[edge[side]] for edge in table.shape.edges], axis=1) for side in (0, 1))  # (n, E)
    known = np.empty(head.shape, bool)
    for edge in range(len(table.shape.edges)):
        alone = asked_alone(table, query, np.full(len(query), edge), "head", head[:, edge])
        tails = answer_rows(graph.known(["train"]), alone)
        known[:, edge] = np.isin(_codes(graph, np.arange(len(query)), tail[:, edge]), _codes(graph, tails.owner, tails.items))
    return Derivations(query, nodes[TARGET], head, tail, known)


def all_new(found: Derivations, queries: int) -> BoolArray:
    """Returns which queries are all new: no derivation of any listed answer has an edge that a train statement entails. (queries,) bool."""
    new = np.ones(queries, bool)
    new[found.query[found.known.any(axis=1)]] = False
    return new


def one_missing(graph: Graph, found: Derivations) -> MissingEdges:
    """Finds the answers of which every derivation lacks exactly one edge in train, and all of them the same statement."""
    width = len(graph.entities)
    places = np.arange(len(found.query))
    edge = found.known.argmin(axis=1)  # the first that is not known
    head, tail = found.head[places, edge].astype(np.int64), found.tail[places, edge]
    statement = (edge * width + head) * width + tail
    codes, first, group = np.unique(_codes(graph, found.query, found.answer), return_index=True, return_inverse=True)
    single = np.ones(len(codes), bool)
    single[group[((~found.known).sum(axis=1) != 1) | (statement != statement[first[group]])]] = False
    kept = first[single]
    return MissingEdges(found.query[kept], found.answer[kept], edge[kept], head[kept], tail[kept])


def choices(graph: Graph, table: QueryTable, missing: MissingEdges) -> IntArray:
    """Counts the single statements that would make an answer follow from train: the possible guesses. (m,)."""
    counts, train = np.zeros(len(missing), np.int64), graph.known(["train"])
    for edge, ends in enumerate(table.shape.edges):
        others = [other for other in range(len(table.shape.edges)) if other != edge]
        place, nodes = derivation_rows(train, table, missing.query, others, {TARGET: missing.answer})
        code, free = place, 1
        for node in ends:
            if node in nodes:
                code = _codes(graph, np.unique(code, return_inverse=True)[1], nodes[node])
            else:
                free *= len(graph.entities)  # nothing else determines it
        _, first = np.unique(code, return_index=True)
        counts += free * np.bincount(place[first], minlength=len(missing))
    return counts


def asked_alone(table: QueryTable, rows: IntArray, edge: IntArray, side: Side, given: IntArray) -> QueryTable:
    """Makes queries of one edge, the one of each row, with the entity on one side given. They list no answers."""
    pairs = table.pairs.take(rows * len(table.shape.edges) + edge)
    return one_hop_table(side, given.astype(np.int32), table.relations[rows, edge], pairs, header=table.header)


def _codes(graph: Graph, query: IntArray, entity: IntArray) -> IntArray:
    return np.asarray(query.astype(np.int64) * len(graph.entities) + entity)
