"""The hyper-parameters of training, and the recipe of a run. Importing this module does not load torch."""

from typing import Literal, Self

import pydantic

from starqe.config import Section
from starqe.model.config import ModelConfig
from starqe.queries.shape import SHAPES
from starqe.queries.variants import Variant


class LoopConfig(Section):
    """The loop of every training: which loss, which steps, how long."""

    loss: Literal["softmax", "binary"] = "softmax"
    """Softmax cross-entropy with the mass spread over the answers, or the paper's binary cross-entropy."""
    candidates: int = pydantic.Field(default=0, ge=0)
    """The number of sampled negatives that the softmax loss compares with, beside the answers of a batch; 0 compares with all entities."""
    smoothing: float = pydantic.Field(default=0.1, ge=0, lt=1)
    """Label smoothing: this share of the mass is spread over all entities."""
    batch: int = pydantic.Field(default=512, ge=1)
    """Queries per step."""
    shards: int = pydantic.Field(default=1, ge=1)
    """The number of parts of a batch, each with its own negatives, dropout and batch norm; several processes share them out."""
    optimizer: Literal["dense", "rows"] = "dense"
    """How entity embeddings are trained: by Adam, or row by row, with sampled negatives, in float16, and two numbers of state per row."""
    mapped: bool = False
    """With "rows": whether the embeddings are in files that are mapped into memory, so that they may be larger than the memory."""
    products: Literal["float32", "bfloat16"] = "float32"
    """The precision of products in training on the CPU: with bfloat16 their inputs are rounded where the processor is faster then."""
    learning_rate: float = pydantic.Field(default=1e-3, gt=0)
    """The highest learning rate of Adam."""
    embedding_rate: float = pydantic.Field(default=1.0, gt=0)
    """The rate of the embeddings, as a multiple of the learning rate: most rows are updated rarely, other weights at every step."""
    schedule: Literal["constant", "cosine", "linear"] = "cosine"
    """How the rate decays to its end: not at all, as half a cosine, or linearly."""
    warmup: float = pydantic.Field(default=0.01, ge=0, lt=1)
    """The share of the training in which the rate rises to its maximum."""
    end_rate: float = pydantic.Field(default=0.02, ge=0, le=1)
    """The rate at the end, as a share of the highest."""
    weight_decay: float = pydantic.Field(default=0.0, ge=0)
    """Decoupled weight decay (AdamW); 0 is plain Adam."""
    clip: float = pydantic.Field(default=0.0, ge=0)
    """The maximum norm of the gradient; 0 does not clip it."""
    average: float = pydantic.Field(default=0.0, ge=0, lt=1)
    """The decay per step of the running average of the weights, which is the model; 0 uses the last weights."""
    epochs: int = pydantic.Field(default=12, ge=1)
    """The length of the training; a limit in minutes overrides it."""
    patience: int = pydantic.Field(default=0, ge=0)
    """Training stops after this number of epochs without a better validation; 0: never."""
    delta: float = pydantic.Field(default=0.0, ge=0)
    """A validation is better if it exceeds the best by this share."""
    keep: Literal["best", "gained"] = "best"
    """Which weights are kept: those of the best validation, or of the last one that exceeded the kept one by delta."""
    checkpoint_seconds: float = pydantic.Field(default=120, ge=0)
    """The interval at which the state to resume from is saved."""

    @pydantic.model_validator(mode="after")
    def _check_sampling(self) -> Self:
        if self.candidates and self.loss != "softmax":
            raise ValueError(f"negatives are sampled for the softmax loss only, found the loss '{self.loss}'. Set train.candidates=0")
        if self.optimizer == "rows" and not self.candidates:
            raise ValueError("training row by row needs sampled negatives, found train.candidates=0. Set it, such as to 4096")
        if self.optimizer == "rows" and self.weight_decay:
            raise ValueError(f"training row by row has no weight decay, found train.weight_decay={self.weight_decay}. Set it to 0")
        if self.mapped and self.optimizer != "rows":
            raise ValueError("only embeddings that are trained row by row are mapped. Set train.optimizer=rows")
        return self


class TrainConfig(LoopConfig):
    """The training of an encoder: its queries, in addition to the settings of every training."""

    shapes: tuple[str, ...] = tuple(SHAPES)
    """The shapes to train on; the query set must have them."""
    variant: Variant = "qualified"
    """The form of the queries: as they are, without their qualifiers, or in standard reification."""
    queries_per_shape: int = pydantic.Field(default=20_000, ge=1)
    """The maximum number of queries per shape and epoch; every epoch has a new sample."""
    pool_per_shape: int = pydantic.Field(default=400_000, ge=1)
    """The sample is taken from the first queries of a table, this many; they are a uniform sample of it."""
    one_hop: Literal["none", "plain", "varied"] = "plain"
    """Auxiliary queries of one edge, in both directions, from all training statements: none, without qualifiers, or also with some."""
    one_hop_per_direction: int = pydantic.Field(default=40_000, ge=1)
    """The maximum number of auxiliary queries per direction and epoch."""
    varied_per_shape: int = pydantic.Field(default=0, ge=0)
    """The number of further queries per shape, sampled from all training statements: edges in either direction, none to two qualifiers."""
    redraw: bool = False
    """Whether these are sampled anew for every epoch."""
    drop_last: bool = False
    """Whether the last batch of an epoch is left out if it is not full; an epoch has at least one batch."""
    validation_queries: int = pydantic.Field(default=500, ge=0)
    """The number of validation queries per shape that are ranked after each epoch; 0 keeps the last weights."""
    choose_by: Literal["MRR", "pooled Hits@10"] = "MRR"
    """What a validation is judged by: the macro MRR, mean over the shapes, or Hits@10 over all answers of all shapes (micro)."""


class AnyRecipe(Section):
    """The common part of the recipes of all kinds of models."""

    kind: str
    """The kind of model: recipes of different kinds have different keys."""
    seed: int = 0
    """Decides the initial weights, the order of the queries, dropout and negatives, each with its own random stream."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the model is trained and used: on CUDA (training with mixed precision) if there is one, else on the processor."""
    train: LoopConfig = LoopConfig()


class Recipe(AnyRecipe):
    """Everything that determines an encoder; with the graph, the queries and one thread, it is reproducible to the last bit."""

    kind: Literal["encoder"] = "encoder"
    """The kind of model that the recipe is for."""
    model: ModelConfig = ModelConfig()
    train: TrainConfig = TrainConfig()
