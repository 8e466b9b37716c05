"""The whole model: embeddings, steps of message passing, pooling."""

import torch
from torch import Tensor, nn

from starqe.model.batch import Batch
from starqe.model.config import ModelConfig
from starqe.model.embedding import InputEmbedding, MakeTable
from starqe.model.layer import StarELayer
from starqe.model.message_steps import plan
from starqe.model.pool import POOL
from starqe.model.space import Blocks, Space
from starqe.model.weights import normal, weight, xavier_normal
from starqe.seed import derive


class Encoder(nn.Module):
    """Embeds queries as vectors, to be compared with the input embeddings of the entities.

    B queries · N nodes · E edges · Q pairs · V entities · D width. The same seed gives the same parameters.
    """

    def __init__(self, config: ModelConfig, space: Space, seed: int, table: MakeTable = weight) -> None:
        super().__init__()
        self.config, self.space = config, space
        self.pool = POOL[config.pooling]
        self.embedding = InputEmbedding(space.input_rows, config.width, table)
        uses_relations = config.layers > 0 or self.pool.relations
        self.relation_embedding = weight(space.relation_rows, config.width) if uses_relations else None
        own = 1 if config.shared else config.layers
        repeats = config.shared and (config.layers > 1 or config.steps != "layers")
        self.layers = nn.ModuleList(StarELayer(config, self.pool.relations or repeats or layer < own - 1) for layer in range(own))
        self.reset_parameters(torch.Generator().manual_seed(derive(seed, "model parameters")))

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialises every parameter."""
        if self.config.initial == "xavier":
            for matrix in (self.embedding.weight, self.relation_embedding):
                if matrix is not None:
                    xavier_normal(matrix, generator)
        else:
            self._reset_by_length(generator)
        for layer in self.layers:
            layer.reset_parameters(generator)  # type: ignore[operator]  # a StarELayer

    def _reset_by_length(self, generator: torch.Generator) -> None:
        self.embedding.reset_parameters(generator, self.config.initial_length)
        if self.relation_embedding is not None:
            # Most compositions multiply: relations of unit size keep the scale of the nodes.
            normal(self.relation_embedding, 1.0, generator)

    def forward(self, batch: Batch, noise: torch.Generator | None = None) -> Tensor:
        """Returns the query vectors: with noise in training (dropout, batch statistics), without in evaluation. (B, D)."""
        nodes = self.embedding(batch.node, self.config.input_dropout, noise)  # (N, D)
        if self.relation_embedding is None:
            return self.pool(batch, nodes, None, None)
        used, forward, inverse, pair = self._relations_in_use(batch)
        relations = self.relation_embedding.index_select(0, used)
        count = self._steps_of(batch)
        whole = self.config.batch_norm and noise is not None  # statistics are of all nodes
        steps = plan(batch, count, self.pool.reads(batch), whole, forward, inverse, pair)
        edge_end, pair_end = None, None
        if self.pool.relations:
            edge_end, pair_end = relations.index_select(0, forward), relations.index_select(0, pair)
        for number, step in enumerate(steps):
            layer = self.layers[0 if self.config.shared else number]
            nodes = layer(nodes, relations, step, noise)
            if number + 1 < len(steps) or self.pool.relations:
                relations = layer.update_relations(relations)  # type: ignore[operator]
            if edge_end is not None and pair_end is not None:
                # A query that has done its steps keeps its relations as well.
                going = (count > number)[batch.query_of_node[batch.edge_head]][:, None]  # (E, 1)
                edge_end = torch.where(going, relations.index_select(0, forward), edge_end)
                pair_end = torch.where(going[batch.pair_edge], relations.index_select(0, pair), pair_end)
        return self.pool(batch, nodes, edge_end, pair_end)

    def entity_matrix(self) -> Tensor:
        """Returns the rows of the real entities, a view of the input embedding: the candidates of every query. (V, D)."""
        return self.embedding.weight[: self.space.entities]

    @property
    def blocks(self) -> dict[str, Blocks]:
        """The parameters with a row for each entity or relation, by name."""
        found = {"embedding.weight": self.space.input_blocks}
        return found if self.relation_embedding is None else {**found, "relation_embedding": self.space.relation_blocks}

    def _steps_of(self, batch: Batch) -> Tensor:
        """Returns the number of steps of each query. (B,)."""
        if self.config.steps == "layers":
            return torch.full_like(batch.diameter, self.config.layers)
        wanted = batch.diameter + (1 if self.config.steps == "diameter+1" else 0)
        return wanted if self.config.shared else wanted.clamp_max(self.config.layers)

    def _relations_in_use(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns the relation rows that the batch needs, and the positions of its forward, inverse and pair relations among them."""
        inverse = batch.edge_relation + self.space.directed
        used = torch.zeros(self.space.relation_rows, dtype=torch.bool, device=batch.node.device)
        for rows in (batch.edge_relation, inverse, batch.pair_relation):
            used[rows] = True
        place = used.cumsum(0) - 1
        return used.nonzero().squeeze(1), place[batch.edge_relation], place[inverse], place[batch.pair_relation]
