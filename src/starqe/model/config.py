"""The hyper-parameters of the model. Importing this module does not load torch."""

from typing import Literal, Self

import pydantic

from starqe.config import Section

Composition = Literal["multiply", "complex", "rotate", "correlate", "convolve", "subtract"]
Qualification = Literal["sum", "concatenate", "multiply", "attention"]
Weighting = Literal["symmetric", "attention", "degree-sum", "shared-attention"]
Activation = Literal["leaky-relu", "identity", "prelu", "relu", "tanh", "gelu"]
Pooling = Literal["target", "sum", "sum-with-values", "sum-with-relations"]
SimilarityName = Literal["dot", "cosine", "distance", "power-norm"]
Initial = Literal["length", "xavier"]
Steps = Literal["layers", "diameter", "diameter+1"]


class ModelConfig(Section):
    """The model: how a query is embedded, and how its vector is compared with the entities.

    The defaults are those of the paper's best row, with the dropout that worked best in our experiments.
    """

    width: int = pydantic.Field(default=192, ge=1)
    """The width of every embedding."""
    layers: int = pydantic.Field(default=3, ge=0)
    """The number of layers; 0 pools the input embeddings directly. With steps by diameter and separate layers, the maximum of steps."""
    steps: Steps = "layers"
    """The number of message passing steps: one per layer, the query's diameter, or one more than that."""
    shared: bool = False
    """Whether all steps share one layer (true) or each step has its own (false)."""
    pair_composition: Composition = "multiply"
    """How the value and the relation of a qualifier pair become one vector."""
    edge_composition: Composition = "multiply"
    """How a node and a qualified relation become a message."""
    qualification: Qualification = "sum"
    """How the pairs of an edge enter the representation of its relation."""
    weighting: Weighting = "attention"
    """How the messages into a node are weighted: by the product or the sum of degrees, by attention, or by one for both directions."""
    heads: int = pydantic.Field(default=8, ge=1)
    """The number of attention heads, wherever attention is chosen; it divides the width."""
    activation: Activation = "leaky-relu"
    """The activation function of every layer."""
    bias: bool = True
    """Whether a layer adds a bias."""
    batch_norm: bool = False
    """Whether a layer normalises each feature over the nodes of the batch."""
    dropout: float = pydantic.Field(default=0.3, ge=0, lt=1)
    """The share of features that are dropped from the sums of the messages; the self loop is not dropped."""
    input_dropout: float = pydantic.Field(default=0.1, ge=0, lt=1)
    """The share of features that are dropped from the input embeddings of the nodes."""
    initial: Initial = "length"
    """How embeddings begin: entities with `initial_length` and relations of unit size, or all by Xavier's rule for the whole matrix."""
    initial_length: float = pydantic.Field(default=1.0, gt=0)
    """The initial length of the input embeddings. Short ones add less noise for rare entities, and need batch norm."""
    pooling: Pooling = "target"
    """Which final representations make the query vector: the target's, or a sum over nodes on edges, all nodes, all nodes and relations."""
    similarity: SimilarityName = "dot"
    """How a query vector is compared with the entities."""

    @property
    def attends(self) -> bool:
        """Whether anything in the model is weighted by attention."""
        return self.weighting in ("attention", "shared-attention") or self.qualification == "attention"

    @pydantic.model_validator(mode="after")
    def _fits(self) -> Self:
        pairs_of_numbers = {"complex", "rotate"} & {self.pair_composition, self.edge_composition}
        if pairs_of_numbers and self.width % 2:
            raise ValueError(f"composition '{min(pairs_of_numbers)}' needs an even width, found {self.width}")
        if self.attends and self.width % self.heads:
            raise ValueError(f"attention needs heads that divide the width, found {self.heads} heads and width {self.width}")
        if self.layers == 0 and (self.steps != "layers" or self.shared):
            raise ValueError(f"steps '{self.steps}' and shared layers need at least one layer, found layers 0. Set layers to 1 or more")
        if self.layers == 0 and self.pooling == "target":
            raise ValueError("pooling 'target' without layers sees nothing of the query. Set pooling to 'sum-with-values', or add layers")
        if self.shared and self.batch_norm:
            raise ValueError(
                "a shared layer has one batch norm, and its steps have different statistics. Set batch_norm or shared to false"
            )
        return self
