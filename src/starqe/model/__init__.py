"""Embeds queries: from query tables to tensors, to query vectors, to scores."""

from starqe.model.batch import Batch, collate
from starqe.model.config import ModelConfig
from starqe.model.encoder import Encoder
from starqe.model.similarity import SIMILARITY, Similarity
from starqe.model.space import Space

__all__ = ["SIMILARITY", "Batch", "Encoder", "ModelConfig", "Similarity", "Space", "collate"]
