"""Hubs: nodes with very many incoming facts, where joins would dominate the query set."""

from math import comb
from typing import Any

import numpy as np

from starqe.kg import Graph
from starqe.ragged import IntArray

THRESHOLD = 50


def in_degree(graph: Graph) -> IntArray:
    """Counts for each entity the distinct main triples that end in it and the distinct annotations it is the value of.

    An annotation is ``(head, relation, tail, qualifier relation)``; all splits count, each fact once. (V,) int64
    """
    triples = np.unique(np.stack([graph.head, graph.relation, graph.tail], axis=1), axis=0)
    owner = graph.pairs.owner
    annotations = np.unique(
        np.stack([graph.head[owner], graph.relation[owner], graph.tail[owner], graph.pair_relation, graph.pair_value], axis=1), axis=0
    )
    return np.bincount(np.concatenate([triples[:, 2], annotations[:, 4]]), minlength=len(graph.entities))


def hubs(graph: Graph, threshold: int = THRESHOLD) -> IntArray:
    """Returns the entities with an in-degree of at least the threshold, ascending."""
    return np.flatnonzero(in_degree(graph) >= threshold)


def hub_stats(graph: Graph, threshold: int = THRESHOLD) -> dict[str, Any]:
    """Computes the effect of hubs on intersections of three edges, as in the paper's appendix on hubs.

    A node of in-degree d is the answer of C(d, 3) such queries. ``hits_at_10_of_constant_answer`` is the share of
    queries that one fixed list, the ten most frequent answers, would answer; in percent, with and without hubs.
    """
    degree = in_degree(graph)
    queries = sorted((comb(int(d), 3) for d in degree), reverse=True)
    without = sorted((comb(int(d), 3) for d in degree if d < threshold), reverse=True)
    return {
        "threshold": threshold,
        "hubs": int((degree >= threshold).sum()),
        "largest_in_degree": int(degree.max()),
        "3i_queries_with_hubs": sum(queries),
        "3i_queries_at_the_largest": queries[0],
        "share_of_the_largest": _percent(queries[0], sum(queries)),
        "share_of_hubs": _percent(sum(queries) - sum(without), sum(queries)),
        "hits_at_10_of_constant_answer": _percent(sum(queries[:10]), sum(queries)),
        "hits_at_10_of_constant_answer_without_hubs": _percent(sum(without[:10]), sum(without)),
    }


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 2) if whole else 0.0
