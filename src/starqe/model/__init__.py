"""How queries are embedded: query tables become tensors, tensors become query vectors, query vectors become scores."""

from starqe.model.batch import Batch, collate
from starqe.model.config import ModelConfig
from starqe.model.encoder import Encoder
from starqe.model.similarity import SIMILARITY, Similarity
from starqe.model.space import Space

__all__ = ["SIMILARITY", "Batch", "Encoder", "ModelConfig", "Similarity", "Space", "collate"]
