"""A transformer over the parts of a statement."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear, scaled_dot_product_attention

from starqe.model.embedding import InputEmbedding, MakeTable
from starqe.model.noise import drop
from starqe.model.space import Blocks
from starqe.model.weights import normal, weight, xavier
from starqe.queries.gaps import HEAD, MISSING, POSITIONS, RELATION, TAIL, VALUE, Gaps
from starqe.ragged import IntArray
from starqe.reason.predictor.config import PredictorConfig
from starqe.reason.predictor.predictor import Predictor
from starqe.seed import derive

ENDS = 3
"""The tokens before the pairs: head, relation and tail, as in `POSITIONS`."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The positions of the tokens: those of a statement are consecutive, and statements with the same number of pairs are adjacent.

    So statements with the same number of pairs make a rectangle, and attention needs neither padding nor a mask.
    """

    order: Tensor  # (N,) for each position, the index of its token among all heads, relations, tails, pairs, concatenated
    gap: Tensor  # (B,) the position of each statement's gap, statements in the order of the layout
    back: Tensor  # (B,) the index of each statement, in the given order, in the layout
    blocks: tuple[tuple[int, int], ...]  # number of statements and of tokens per statement, of each rectangle

    @classmethod
    def of(cls, gaps: Gaps, device: torch.device) -> "Layout":
        """Computes the layout of statements."""
        count, pairs = len(gaps), gaps.pairs.counts
        statements = np.argsort(pairs, kind="stable")
        first = np.empty(count, np.int64)  # the place of each statement's first token
        first[statements] = np.cumsum(ENDS + pairs[statements]) - (ENDS + pairs[statements])
        place = np.concatenate([first, first + 1, first + 2, first[gaps.pairs.owner] + ENDS + gaps.pairs.within])
        gap = first + gaps.position
        is_open = gaps.pair_value == MISSING
        gap[gaps.pairs.owner[is_open]] = place[ENDS * count :][is_open]
        sizes, counts = np.unique(pairs, return_counts=True)
        order, asking, back = (torch.from_numpy(column).to(device) for column in (_inverse(place), gap[statements], _inverse(statements)))
        blocks = tuple((int(many), ENDS + int(size)) for size, many in zip(sizes, counts, strict=True))
        return cls(order, asking, back, blocks)


def _inverse(permutation: IntArray) -> IntArray:
    inverse = np.empty_like(permutation)
    inverse[permutation] = np.arange(len(permutation))
    return inverse


class TransformerLayer(nn.Module):
    """Updates tokens by attention over their statement, then each by a feed-forward network (with the norm before each part).

    x ← x + W_o attention(norm(x))        x ← x + W_2 gelu(W_1 norm(x))        with dropout on what is added, and inside gelu
    """

    def __init__(self, config: PredictorConfig) -> None:
        super().__init__()
        width, inner = config.width, config.feed_forward
        self.heads, self.dropout = config.heads, config.dropout
        self.attention_norm, self.norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.out = weight(width, width), weight(width, width)
        self.key_value = weight(2 * width, width)
        self.widen, self.narrow = weight(inner, width), weight(width, inner)
        self.query_bias, self.out_bias, self.narrow_bias = weight(width), weight(width), weight(width)
        self.value_bias, self.widen_bias = weight(width), weight(inner)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialises the weights; a bias is 0."""
        for matrix in (self.query, *self.key_value.chunk(2), self.out, self.widen, self.narrow):
            xavier(matrix, generator)
        for bias in (self.query_bias, self.value_bias, self.out_bias, self.widen_bias, self.narrow_bias):
            nn.init.zeros_(bias)

    def forward(self, tokens: Tensor, layout: Layout, asking: Tensor | None, noise: torch.Generator | None) -> Tensor:
        """Computes the new tokens: all, or only those at the gaps, one per statement. (N, D) -> (N, D) or (B, D)."""
        normed = self.attention_norm(tokens)
        own, own_normed = (tokens, normed) if asking is None else (tokens.index_select(0, asking), normed.index_select(0, asking))
        query = linear(own_normed, self.query, self.query_bias)
        key, value = linear(normed, self.key_value).chunk(2, dim=1)  # a bias of the keys would change nothing: softmax ignores it
        attended = self._attend(query, key, value + self.value_bias, layout, asking is not None)
        own = own + drop(linear(attended, self.out, self.out_bias), self.dropout, noise)
        inner = drop(gelu(linear(self.norm(own), self.widen, self.widen_bias)), self.dropout, noise)
        return own + drop(linear(inner, self.narrow, self.narrow_bias), self.dropout, noise)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, layout: Layout, one_asks: bool) -> Tensor:
        """Computes softmax(q k / √d) v within each statement, head by head."""
        found, asked, seen = [], 0, 0
        for statements, size in layout.blocks:
            asking = 1 if one_asks else size
            q = self._split(query[asked : asked + statements * asking], statements, asking)
            k, v = (self._split(part[seen : seen + statements * size], statements, size) for part in (key, value))
            asked, seen = asked + statements * asking, seen + statements * size
            found.append(scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(statements * asking, -1))
        return torch.cat(found)

    def _split(self, tokens: Tensor, statements: int, size: int) -> Tensor:
        return tokens.view(statements, size, self.heads, -1).transpose(1, 2)  # (statements, heads, size, D / heads)


class Transformer(Predictor):
    """Reads head, relation, tail and one token for each qualifier pair; the vector is the output for the token with the gap.

        x_pair = W_p [R[relation] ; E[value]]            a set: pairs have no order
        x = norm(x + role)                               roles: head, relation, tail, pair
        vector = W norm(x at the gap)                    after the layers

    What is missing is a learned vector, one for entities and one for relations.
    """

    positions = POSITIONS

    def __init__(self, config: PredictorConfig, entities: int, relations: int, seed: int, table: MakeTable = weight) -> None:
        super().__init__(config, entities, relations)
        width = config.width
        self.embedding = InputEmbedding(entities + 1, width, table)  # the last row represents what is missing
        self.relation_embedding = InputEmbedding(relations + 1, width)
        self.pair = weight(width, 2 * width)
        self.role = weight(ENDS + 1, width)
        self.input_norm, self.output_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.layers = nn.ModuleList(TransformerLayer(config) for _ in range(config.layers))
        self.output = weight(width, width)
        self.reset_parameters(torch.Generator().manual_seed(derive(seed, "model parameters")))

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialises every parameter."""
        self.embedding.reset_parameters(generator, self.config.initial_length)
        self.relation_embedding.reset_parameters(generator)
        normal(self.role, self.config.width**-0.5, generator)
        xavier(self.pair, generator)
        xavier(self.output, generator)
        for layer in self.layers:
            layer.reset_parameters(generator)  # type: ignore[operator]  # a TransformerLayer

    def vectors(self, gaps: Gaps, noise: torch.Generator | None) -> Tensor:
        """Computes the vector of each gap. (B, D)."""
        layout = Layout.of(gaps, self.device)
        tokens = self._tokens(gaps, noise).index_select(0, layout.order)  # (N, D)
        for number, layer in enumerate(self.layers, 1):
            tokens = layer(tokens, layout, layout.gap if number == len(self.layers) else None, noise)
        return linear(self.output_norm(tokens), self.output).index_select(0, layout.back)

    def entity_matrix(self) -> Tensor:
        """Returns the embeddings of the entities. (V, D)."""
        return self.embedding.weight[: self.entities]

    @property
    def blocks(self) -> dict[str, Blocks]:
        """The parameters with a row for each entity or relation, by name."""
        return {"embedding.weight": ("entities", 1), "relation_embedding.weight": ("relations", 1)}

    def relation_matrix(self) -> Tensor:
        """Returns the embeddings of the relations. (relations, D)."""
        return self.relation_embedding.weight[: self.relations]

    def _tokens(self, gaps: Gaps, noise: torch.Generator | None) -> Tensor:
        """Returns the input vectors of all heads, relations, tails and pairs, concatenated. (3 B + Q, D)."""
        count = len(gaps)
        nodes = self._rows(self.embedding, np.concatenate([gaps.head, gaps.tail, gaps.pair_value]), self.entities)
        edges = self._rows(self.relation_embedding, np.concatenate([gaps.relation, gaps.pair_relation]), self.relations)
        (head, tail, value), (relation, key) = nodes.tensor_split([count, 2 * count]), edges.tensor_split([count])
        pair = linear(torch.cat([key, value], 1), self.pair)  # (Q, D)
        parts = {HEAD: head, RELATION: relation, TAIL: tail, VALUE: pair}
        tokens = torch.cat([parts[place] + self.role[place] for place in range(ENDS + 1)])
        return drop(self.input_norm(tokens), self.config.input_dropout, noise)

    def _rows(self, embedding: InputEmbedding, ids: IntArray, missing: int) -> Tensor:
        index = torch.from_numpy(np.where(ids == MISSING, missing, ids).astype(np.int64)).to(self.device)
        rows: Tensor = embedding(index, 0.0, None)
        return rows
