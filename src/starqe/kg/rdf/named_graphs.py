"""Named graphs: as splits, or as qualifiers of the statements in them."""

import re

import numpy as np
from pyoxigraph import NamedNode

from starqe.kg.statement import SPLITS
from starqe.ragged import IntArray, Ragged

_SPLIT = re.compile(rf"(?:.*[/#:])?({'|'.join(SPLITS)})", re.DOTALL)


def split_of(graph: object) -> str | None:
    """Returns the split that the IRI of a named graph denotes, or None."""
    match = _SPLIT.fullmatch(graph.value) if isinstance(graph, NamedNode) else None
    return match[1] if match else None


def graph_pairs(
    quads: IntArray, triples: IntArray, reified: IntArray, reified_in: IntArray, relation: int, first: int
) -> tuple[IntArray, IntArray]:
    """Returns the reifications and qualifier pairs to add so that every statement has its named graphs as qualifiers.

    A triple without a reifier gets one for each of its graphs: two graphs make two statements. A reifier gets a pair for each graph with
    triples about it. All terms are numbers.

    Args:
        quads: (T, 5) subject, predicate, object, split and named graph of the triples that were read; -1 for no named graph.
        triples: (A, 4) the asserted triples: subject, predicate, object, split.
        reified: (R, 6) reifier, subject, predicate, object, split, and whether it needs no assertion.
        reified_in: (N, 2) reifier and named graph of the reifications that were read; -1 for no named graph.
        relation: The relation of the pairs.
        first: The first number that is free for new reifiers.

    Returns:
        Rows of reifications and rows of pairs (reifier, relation, value, split).
    """
    rows = np.unique(quads[quads[:, 4] >= 0], axis=0)
    whole = np.concatenate([rows[:, :4], triples, reified[:, 1:5]])
    _, number = np.unique(whole, axis=0, return_inverse=True)
    number = number.reshape(-1)
    of_row, asserted, has_reifier = np.split(number, [len(rows), len(rows) + len(triples)])
    bare = rows[np.isin(of_row, asserted) & ~np.isin(of_row, has_reifier)]
    nodes = first + np.arange(len(bare), dtype=np.int32)
    more = np.column_stack([nodes, bare[:, :4], np.zeros(len(bare), np.int32)])
    in_graph = np.unique(np.concatenate([rows[:, [0, 4]], reified_in[reified_in[:, 1] >= 0]]), axis=0)
    reifier, split = np.unique(reified[:, [0, 4]], axis=0).T
    begin, end = (np.searchsorted(in_graph[:, 0], reifier, side) for side in ("left", "right"))
    graphs, times = in_graph[Ragged.ranges(begin, end - begin).items, 1], end - begin
    owner, value = np.concatenate([nodes, np.repeat(reifier, times)]), np.concatenate([bare[:, 4], graphs])
    pairs = np.column_stack([owner, np.full(len(owner), relation), value, np.concatenate([bare[:, 3], np.repeat(split, times)])])
    return more.astype(np.int32), pairs.astype(np.int32)
