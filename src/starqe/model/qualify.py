"""The aggregation φ_r: a relation and the qualifier pairs of its edge become one vector.

E edges · Q pairs · D width · H heads. The pairs are digested once, and the digest is used for both directions of the edges.
Each entry documents its result for an edge without pairs; it always depends on r.
"""

from abc import abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from starqe.model.segment import segment_softmax, segment_sum
from starqe.model.weights import Weighted, product, weight


class Qualify(Weighted):
    """One choice of φ_r: `digest` sees the pairs alone, `forward` joins the digest with the relations."""

    @abstractmethod
    def digest(self, pairs: Tensor, pair_edge: Tensor, edges: int) -> Tensor:
        """Returns what the pairs contribute in either direction. (Q, D) -> (E, D), or (Q, D) if the pairs are kept separate."""

    @abstractmethod
    def forward(self, relation: Tensor, digest: Tensor, pair_edge: Tensor) -> Tensor:
        """Returns the qualified relation of every edge. (E, D)."""


class SumQualify(Qualify):
    """Adds: h = ½ r + ½ W_q Σ_i h_qi. Without pairs: ½ r."""

    def __init__(self, width: int, heads: int) -> None:  # noqa: ARG002  one signature for the whole table
        super().__init__()
        self.pair_weight = weight(width, width)

    def digest(self, pairs: Tensor, pair_edge: Tensor, edges: int) -> Tensor:
        """Returns ½ W_q Σ_i h_qi. (E, D)."""
        return product(0.5 * segment_sum(pairs, pair_edge, edges), self.pair_weight)

    def forward(self, relation: Tensor, digest: Tensor, pair_edge: Tensor) -> Tensor:  # noqa: ARG002
        """Returns the qualified relation of every edge. (E, D)."""
        return torch.add(digest, relation, alpha=0.5)


class ConcatenateQualify(Qualify):
    """Joins: h = W [r ; Σ_i h_qi]. Without pairs: W [r ; 0]."""

    def __init__(self, width: int, heads: int) -> None:  # noqa: ARG002
        super().__init__()
        self.joint_weight = weight(2 * width, width)

    def digest(self, pairs: Tensor, pair_edge: Tensor, edges: int) -> Tensor:
        """Returns W [0 ; Σ_i h_qi]. (E, D)."""
        return product(segment_sum(pairs, pair_edge, edges), self.joint_weight[pairs.shape[1] :])

    def forward(self, relation: Tensor, digest: Tensor, pair_edge: Tensor) -> Tensor:  # noqa: ARG002
        """Returns the qualified relation of every edge. (E, D)."""
        return torch.addmm(digest, relation, self.joint_weight[: relation.shape[1]])


class MultiplyQualify(Qualify):
    """Multiplies: h = r * W_q Σ_i h_qi. Without pairs: r, since a product of nothing is 1."""

    def __init__(self, width: int, heads: int) -> None:  # noqa: ARG002
        super().__init__()
        self.pair_weight = weight(width, width)

    def digest(self, pairs: Tensor, pair_edge: Tensor, edges: int) -> Tensor:
        """Returns W_q Σ_i h_qi, and 1 for an edge without pairs. (E, D)."""
        bare = pairs.new_ones(edges, 1).index_fill(0, pair_edge, 0)
        return product(segment_sum(pairs, pair_edge, edges), self.pair_weight) + bare

    def forward(self, relation: Tensor, digest: Tensor, pair_edge: Tensor) -> Tensor:  # noqa: ARG002
        """Returns the qualified relation of every edge. (E, D)."""
        return relation * digest


class AttendQualify(Qualify):
    """Attends, head by head: h = Σ_u α_u u over u in {r, W_q h_q1, W_q h_q2, …}.

    α is the softmax over u of LeakyReLU(a · [r ; u]). The relation itself is among the items, so that an edge without
    pairs has the result r; attention over the pairs alone would result in zero and silence the edge.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.pair_weight = weight(width, width)
        self.relation_vector = weight(heads, width // heads)
        self.item_vector = weight(heads, width // heads)

    def digest(self, pairs: Tensor, pair_edge: Tensor, edges: int) -> Tensor:  # noqa: ARG002
        """Returns W_q h_qi. (Q, D)."""
        return product(pairs, self.pair_weight)

    def forward(self, relation: Tensor, digest: Tensor, pair_edge: Tensor) -> Tensor:
        """Returns the qualified relation of every edge. (E, D)."""
        edges, heads = len(relation), len(self.item_vector)
        owner = torch.cat([torch.arange(edges, device=pair_edge.device), pair_edge])  # (E+Q,)
        items = torch.cat([relation, digest]).view(len(owner), heads, -1)  # (E+Q, H, D/H)
        asking = (relation.view(edges, heads, -1) * self.relation_vector).sum(2)  # (E, H)
        scores = leaky_relu(asking.index_select(0, owner) + (items * self.item_vector).sum(2))  # (E+Q, H)
        shares = segment_softmax(scores, owner, edges)
        return segment_sum((items * shares[:, :, None]).flatten(1), owner, edges)


QUALIFY: Mapping[str, type[Qualify]] = {
    "sum": SumQualify,
    "concatenate": ConcatenateQualify,
    "multiply": MultiplyQualify,
    "attention": AttendQualify,
}
"""The choices of φ_r, each called with the width and the number of heads."""
