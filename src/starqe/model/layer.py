"""The StarE layer: one step of message passing."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm

from starqe.model.compose import COMPOSE, NEUTRAL
from starqe.model.config import ModelConfig
from starqe.model.message_steps import Direction, Step
from starqe.model.noise import drop
from starqe.model.qualify import QUALIFY
from starqe.model.segment import segment_sum
from starqe.model.weigh import WEIGH, Weigh
from starqe.model.weights import product, weight, xavier, xavier_normal

ACTIVATE: Mapping[str, Callable[[], nn.Module]] = {
    "leaky-relu": nn.LeakyReLU,
    "identity": nn.Identity,
    "prelu": nn.PReLU,
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
}
"""The activations σ at the end of a layer."""


class StarELayer(nn.Module):
    """Updates nodes and relations once (the paper's model description, "The Message-Passing Step").

        h_q   = γ_q(E[value], R[relation])                          for every qualifier pair
        m→    = W→ γ_r(E[head], φ_r(R[r], {h_q}))                   for every edge; m← is the same with r⁻¹, W← and the tail
        a→[t] = Σ weighted m→ into t                                then dropout; the same for a←
        a○[e] = W○ γ_r(E[e], r○)                                    without dropout
        E'[e] = σ(⅓ (a○[e] + a→[e] + a←[e]) + b)                    with batch norm before σ, if chosen
        R'[r] = W_r R[r]

    Vectors are rows here, so W x is written ``x @ weight``. A layer after which no relation is read has no W_r.
    """

    def __init__(self, config: ModelConfig, updates_relations: bool) -> None:
        super().__init__()
        width, heads = config.width, config.heads
        self.dropout = config.dropout
        self.edge_composition = config.edge_composition
        self.compose_pair, self.compose_edge = COMPOSE[config.pair_composition], COMPOSE[config.edge_composition]
        self.qualify = QUALIFY[config.qualification](width, heads)
        self.weigh_forward = WEIGH[config.weighting](width, heads)
        self.weigh_backward = None if config.weighting == "shared-attention" else WEIGH[config.weighting](width, heads)
        self.xavier_loop = config.initial == "xavier"
        self.forward_weight, self.backward_weight, self.loop_weight = (weight(width, width) for _ in range(3))
        self.loop_relation = weight(width)
        self.relation_weight = weight(width, width) if updates_relations else None
        self.bias = weight(width) if config.bias else None
        self.norm = nn.BatchNorm1d(width) if config.batch_norm else None
        self.activate = ACTIVATE[config.activation]()

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialises the weights: the bias is 0, the loop relation is neutral (see `NEUTRAL`) or follows Xavier's rule."""
        for matrix in (self.forward_weight, self.backward_weight, self.loop_weight, self.relation_weight):
            if matrix is not None:
                xavier(matrix, generator)
        for module in (self.qualify, self.weigh_forward, self.weigh_backward):
            if module is not None:
                module.reset_parameters(generator)
        if self.xavier_loop:
            xavier_normal(self.loop_relation[None], generator)
        else:
            with torch.no_grad():
                self.loop_relation.copy_(NEUTRAL[self.edge_composition](len(self.loop_relation)))
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, nodes: Tensor, relations: Tensor, step: Step, noise: torch.Generator | None) -> Tensor:
        """Returns the nodes with those of the step updated. (N, D), (relations in use, D) -> (N, D)."""
        pairs = self.compose_pair(nodes.index_select(0, step.pair_node), relations.index_select(0, step.pair_relation))  # (q, D)
        digest = self.qualify.digest(pairs, step.pair_edge, len(step.relation))
        everyone = len(step.updated) == len(nodes)
        own = nodes if everyone else nodes.index_select(0, step.updated)
        total = product(self.compose_edge(own, self.loop_relation), self.loop_weight)  # (U, D)
        for direction, relation, matrix, weigh in (
            (step.forward, step.relation, self.forward_weight, self.weigh_forward),
            (step.backward, step.inverse, self.backward_weight, self.weigh_backward or self.weigh_forward),
        ):
            qualified = self.qualify(relations.index_select(0, relation), digest, step.pair_edge)  # (e, D)
            received = self._receive(nodes, qualified, direction, matrix, weigh)  # (T, D)
            total.index_add_(0, direction.place, drop(received, self.dropout, noise).to(total.dtype))
        new = self._finish(total, noise)
        return new if everyone else nodes.index_copy(0, step.updated, new.to(nodes.dtype))

    def update_relations(self, relations: Tensor) -> Tensor:
        """Returns W_r R. (relations in use, D)."""
        assert self.relation_weight is not None, "nothing reads the relations after this layer"
        return product(relations, self.relation_weight)

    def _receive(self, nodes: Tensor, qualified: Tensor, direction: Direction, matrix: Tensor, weigh: Weigh) -> Tensor:
        source = nodes.index_select(0, direction.source)
        if len(direction.edge) < len(qualified):  # else all edges send, in order
            qualified = qualified.index_select(0, direction.edge)
        messages = product(self.compose_edge(source, qualified), matrix)  # (M, D)
        return segment_sum(weigh(messages, nodes, direction), direction.receiver, len(direction.receivers))

    def _finish(self, total: Tensor, noise: torch.Generator | None) -> Tensor:
        mean = total / 3 if self.bias is None else torch.add(self.bias, total, alpha=1 / 3)
        if self.norm is not None:
            norm = self.norm
            mean = batch_norm(
                mean, norm.running_mean, norm.running_var, norm.weight, norm.bias, noise is not None, norm.momentum or 0.1, norm.eps
            )
        activated: Tensor = self.activate(mean)
        return activated
