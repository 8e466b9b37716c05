"""Plans what each step of message passing computes: integer work, done once per batch.

N nodes · E edges · Q pairs. A query that has done its steps keeps its nodes unchanged. What is not read later
is not computed: with target pooling, the last step updates the targets only.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from starqe.model.batch import Batch


@dataclass(frozen=True, eq=False)
class Direction:
    """The messages of one direction: from a source along an edge to a receiver."""

    edge: Tensor  # (M,) positions among the edges of the step
    source: Tensor  # (M,) nodes
    receiver: Tensor  # (M,) positions in `receivers`
    receivers: Tensor  # (T,) nodes that a message arrives at, each once
    place: Tensor  # (T,) the same, as positions in the nodes that the step updates
    symmetric: Tensor  # (M,) 1 / sqrt(messages that the source sends × messages that the receiver gets)
    degree_sum: Tensor  # (M,) 1 / sqrt(edges at the source + edges at the receiver), whichever way they point


@dataclass(frozen=True, eq=False)
class Step:
    """One step of message passing."""

    updated: Tensor  # (U,) nodes
    relation: Tensor  # (e,) positions of forward relations
    inverse: Tensor  # (e,) positions of inverse relations
    pair_edge: Tensor  # (q,) positions among the edges of the step
    pair_relation: Tensor  # (q,)
    pair_node: Tensor  # (q,) nodes
    forward: Direction
    backward: Direction


def plan(batch: Batch, count: Tensor, pooled: Tensor, whole: bool, relation: Tensor, inverse: Tensor, pair_relation: Tensor) -> list[Step]:
    """Plans the steps of a batch.

    Args:
        batch: The queries.
        count: The number of steps of each query. (B,)
        pooled: Whether the pooling reads a node. (N,) bool
        whole: Whether every node is computed even if it is not read, for statistics over all nodes.
        relation: The forward relation of each edge, as a position among the relations in use. (E,)
        inverse: The inverse relation of each edge, the same way. (E,)
        pair_relation: The relation of each pair, the same way. (Q,)
    """
    head, tail = batch.edge_head, batch.edge_tail
    sent, got = (torch.bincount(ends, minlength=len(batch.node))[ends] for ends in (head, tail))
    symmetric = (sent * got).to(torch.get_default_dtype()).rsqrt()
    degree = torch.bincount(torch.cat([head, tail]), minlength=len(batch.node))
    weights = symmetric, (degree[head] + degree[tail]).to(symmetric.dtype).rsqrt()
    steps_of_node = count.index_select(0, batch.query_of_node)
    needed = torch.ones_like(pooled) if whole else pooled.clone()
    steps: list[Step] = []
    for number in reversed(range(int(count.max()))):
        active = needed & (steps_of_node > number)
        to_tail, to_head = active[tail], active[head]
        edges = (to_tail | to_head).nonzero().squeeze(1)
        edge_place = _places(to_tail | to_head)
        node_place = _places(active)
        pairs = (to_tail | to_head)[batch.pair_edge].nonzero().squeeze(1)
        step = Step(
            active.nonzero().squeeze(1),
            relation[edges],
            inverse[edges],
            edge_place[batch.pair_edge[pairs]],
            pair_relation[pairs],
            batch.pair_node[pairs],
            _direction(to_tail, head, tail, edge_place, node_place, weights),
            _direction(to_head, tail, head, edge_place, node_place, weights),
        )
        for read in (step.forward.source, step.backward.source, step.pair_node):
            needed[read] = True
        steps.append(step)
    return steps[::-1]


def _direction(
    sends: Tensor, source: Tensor, receiver: Tensor, edge_place: Tensor, node_place: Tensor, weights: tuple[Tensor, Tensor]
) -> Direction:
    edges = sends.nonzero().squeeze(1)
    arrives = torch.zeros_like(node_place, dtype=torch.bool)
    arrives[receiver[edges]] = True
    receivers = arrives.nonzero().squeeze(1)
    symmetric, degree_sum = (weight[edges] for weight in weights)
    return Direction(
        edge_place[edges], source[edges], _places(arrives)[receiver[edges]], receivers, node_place[receivers], symmetric, degree_sum
    )


def _places(chosen: Tensor) -> Tensor:
    """Numbers the chosen positions from 0; the numbers of the others are meaningless."""
    return chosen.cumsum(0) - 1
