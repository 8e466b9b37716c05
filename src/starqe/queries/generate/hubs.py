"""Hubs: nodes with so many incoming facts that joins at them would dominate the query set."""

from math import comb
from typing import Any

import numpy as np

from starqe.kg import Graph
from starqe.kg.graph import first_of_equal, sort_order
from starqe.ragged import IntArray

THRESHOLD = 50


def degrees_sql(entities: int) -> str:
    """Selects ``node, degree`` from ``statement`` and ``pair`` (see `starqe.queries.generate.edges.fill_graph`).

    The degree counts the distinct main triples that end in a node and the distinct annotations it is the value of. An annotation is
    ``(head, relation, tail, qualifier relation)``; all splits count, each fact once.
    """
    return (
        "SELECT node, count(*) AS degree FROM ("
        "SELECT o AS node FROM (SELECT DISTINCT s, p, o FROM statement) AS triples UNION ALL "
        f"SELECT (code % {entities})::INT AS node FROM "
        "(SELECT DISTINCT s, p, o, code FROM statement JOIN pair USING (row)) AS annotations) AS facts GROUP BY node"
    )


def hubs_sql(threshold: int | None, entities: int) -> str:
    """Selects the nodes with a degree of at least the threshold; none without a threshold."""
    return f"SELECT node FROM ({degrees_sql(entities)}) AS degrees WHERE {'false' if threshold is None else f'degree >= {int(threshold)}'}"


def in_degree(graph: Graph) -> IntArray:
    """Counts for each entity the distinct main triples that end in it and the distinct annotations it is the value of.

    An annotation is ``(head, relation, tail, qualifier relation)``; all splits count, each fact once. (V,) int64
    """
    columns = graph.head, graph.relation, graph.tail
    order = sort_order(*columns)
    first = first_of_equal([column[order] for column in columns])
    triples, number = order[first], np.empty(len(graph), np.int64)
    number[order] = np.cumsum(first)
    of_pair = number[graph.pairs.owner], graph.pair_relation, graph.pair_value
    order = sort_order(*of_pair)
    annotations = order[first_of_equal([column[order] for column in of_pair])]
    return np.bincount(np.concatenate([graph.tail[triples], graph.pair_value[annotations]]), minlength=len(graph.entities))


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
