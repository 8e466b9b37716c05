"""Held-out facts as one-hop queries."""

import numpy as np

from starqe.kg import Graph
from starqe.queries import QueryTable
from starqe.queries.table import one_hop_table
from starqe.ragged import Ragged
from starqe.seed import generator


def held_out_table(graph: Graph, count: int, seed: int) -> QueryTable:
    """Asks for the tails of test statements, sampled at random: head, relation and all qualifiers are given."""
    rows = np.sort(generator(seed, "held-out facts").permutation(graph.known(["test"]).rows)[:count])
    answers = Ragged(np.arange(len(rows) + 1), graph.tail[rows])
    header = {"split": "test", "fingerprint": graph.fingerprint}
    return one_hop_table("head", graph.head[rows], graph.relation[rows], graph.pairs.take(rows), answers, header)
