"""The pooling φ_q: the final representations of a query become its vector."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from starqe.model.batch import Batch
from starqe.model.segment import segment_sum


@dataclass(frozen=True)
class Pool:
    """One pooling: the nodes that it sums, and whether it sums the relations too."""

    reads: Callable[[Batch], Tensor]
    """Selects the nodes that it sums. (N,) bool"""
    relations: bool = False
    """Whether it adds every relation that the query mentions, on an edge or in a pair, as often as it is mentioned."""

    def __call__(self, batch: Batch, nodes: Tensor, edge_relations: Tensor | None, pair_relations: Tensor | None) -> Tensor:
        """Returns the query vectors. (N, D), (E, D), (Q, D) -> (B, D)."""
        read = self.reads(batch).nonzero().squeeze(1)
        vectors = segment_sum(nodes.index_select(0, read), batch.query_of_node[read], len(batch))
        if edge_relations is not None and pair_relations is not None:
            query_of_edge = batch.query_of_node[batch.edge_head]
            vectors = vectors.index_add(0, query_of_edge, edge_relations)
            vectors = vectors.index_add(0, query_of_edge[batch.pair_edge], pair_relations)
        return vectors


def _targets(batch: Batch) -> Tensor:
    return torch.zeros_like(batch.on_edge).index_fill(0, batch.target, True)


def _all_nodes(batch: Batch) -> Tensor:
    return torch.ones_like(batch.on_edge)


POOL: Mapping[str, Pool] = {
    "target": Pool(_targets),
    "sum": Pool(lambda batch: batch.on_edge),
    "sum-with-values": Pool(_all_nodes),
    "sum-with-relations": Pool(_all_nodes, relations=True),
}
"""The poolings: the target alone; the sum of the paper's equation, over the nodes on edges; the sum of the authors' code, which
adds the qualifier values, so that a model without layers sees them; and the same with the relations."""
