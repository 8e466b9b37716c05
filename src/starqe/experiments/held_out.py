"""Held-out facts as one-hop queries, and the simplest thing that could predict them."""

from collections.abc import Collection

import numpy as np
import torch

from starqe.kg import Graph
from starqe.queries import SHAPES, QueryTable
from starqe.queries.table import ragged_take
from starqe.seed import generator


def held_out_table(graph: Graph, count: int, seed: int) -> QueryTable:
    """Asks for the tails of test statements, drawn at random: head, relation and all qualifiers are given."""
    rows = np.sort(generator(seed, "held-out facts").permutation(graph.known(["test"]).rows)[:count])
    offsets, pairs = ragged_take(graph.offsets, rows)
    return QueryTable(
        SHAPES["1p"],
        graph.head[rows][:, None],
        graph.relation[rows][:, None],
        offsets,
        graph.pair_relation[pairs],
        graph.pair_value[pairs],
        np.arange(len(rows) + 1),
        graph.tail[rows],
        {"split": "test", "fingerprint": graph.fingerprint},
    )


class FrequencyScorer:
    """Scores an entity by how often it is a tail of the query's last relation in the known splits, whatever else the query says."""

    def __init__(self, graph: Graph, known: Collection[str] = ("train",)) -> None:
        rows = graph.known(known).rows
        self._counts = np.zeros((len(graph.relations), len(graph.entities)), np.float32)
        np.add.at(self._counts, (graph.relation[rows], graph.tail[rows]), 1)

    def scores(self, table: QueryTable, rows: np.ndarray, out: torch.Tensor) -> torch.Tensor:
        """Gives the scores of all entities for these rows of a table: (B, V)."""
        return out.copy_(torch.from_numpy(self._counts[table.relations[rows, -1]]))
