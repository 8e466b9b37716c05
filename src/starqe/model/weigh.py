"""The weights of messages inside the sum φ_m.

M messages of one direction · T receivers · D width · H heads.
"""

from abc import abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from starqe.model.message_steps import Direction
from starqe.model.segment import segment_softmax
from starqe.model.weights import Weighted, weight, xavier


class Weigh(Weighted):
    """One way to weight messages."""

    @abstractmethod
    def forward(self, messages: Tensor, nodes: Tensor, direction: Direction) -> Tensor:
        """Returns the weighted messages. (M, D) -> (M, D)."""


class SymmetricWeigh(Weigh):
    """Weights a message by 1 / sqrt(d_source × d_receiver).

    The degrees count the messages of this direction: those that the source sends and those that the receiver gets. They are
    multiplied, as the paper's sources define the normalisation; for what the authors' code does, see `DegreeSumWeigh`.
    """

    def __init__(self, width: int, heads: int) -> None:  # noqa: ARG002  one signature for the whole table
        super().__init__()

    def forward(self, messages: Tensor, nodes: Tensor, direction: Direction) -> Tensor:  # noqa: ARG002
        """Returns the weighted messages. (M, D) -> (M, D)."""
        return messages * direction.symmetric[:, None].to(messages.dtype)


class DegreeSumWeigh(Weigh):
    """Weights a message by 1 / sqrt(d_source + d_receiver), as the authors' code does.

    The degrees count the edges at a node, whichever way they point, so a message has the same weight in both directions.
    """

    def __init__(self, width: int, heads: int) -> None:  # noqa: ARG002
        super().__init__()

    def forward(self, messages: Tensor, nodes: Tensor, direction: Direction) -> Tensor:  # noqa: ARG002
        """Returns the weighted messages. (M, D) -> (M, D)."""
        return messages * direction.degree_sum[:, None].to(messages.dtype)


class AttentionWeigh(Weigh):
    """Weights each head of a message by the softmax of LeakyReLU(a · [message ; receiver]) over the messages into the receiver."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.message_vector = weight(heads, width // heads)
        self.receiver_vector = weight(heads, width // heads)

    def forward(self, messages: Tensor, nodes: Tensor, direction: Direction) -> Tensor:
        """Returns the weighted messages. (M, D) -> (M, D)."""
        shape = (-1, *self.message_vector.shape)
        split = messages.view(shape)  # (M, H, D/H)
        receiving = (nodes.index_select(0, direction.receivers).view(shape) * self.receiver_vector).sum(2)  # (T, H)
        scores = leaky_relu((split * self.message_vector).sum(2) + receiving.index_select(0, direction.receiver))  # (M, H)
        shares = segment_softmax(scores, direction.receiver, len(direction.receivers))
        return (split * shares[:, :, None]).view_as(messages)


class SharedAttentionWeigh(AttentionWeigh):
    """Weights messages by attention with one vector for both directions, as the authors' code does."""

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialises both halves of the vector as the one matrix that they are."""
        heads, width = self.message_vector.shape
        joint = self.message_vector.new_empty(heads, 2 * width)
        xavier(joint, generator)
        with torch.no_grad():
            self.message_vector.copy_(joint[:, :width])
            self.receiver_vector.copy_(joint[:, width:])


WEIGH: Mapping[str, type[Weigh]] = {
    "symmetric": SymmetricWeigh,
    "attention": AttentionWeigh,
    "degree-sum": DegreeSumWeigh,
    "shared-attention": SharedAttentionWeigh,
}
"""The weightings, each called with the width and the number of heads."""
