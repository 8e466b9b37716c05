"""The hyper-parameters of a one-hop predictor and its training."""

from typing import Literal, Self

import pydantic

from starqe.config import Section
from starqe.learn.config import AnyRecipe, LoopConfig

ASKS_VALUES_AND_RELATIONS = frozenset({"transformer", "complex"})
"""The architectures that can be asked for a qualifier value or a relation; all can be asked for heads and tails."""


class PredictorConfig(Section):
    """The predictor: how a statement with a gap is embedded, to be compared with the entities."""

    architecture: Literal["transformer", "stare", "complex"] = "transformer"
    """A transformer over the parts of the statement, the encoder of whole queries asked for one edge, or a product of complex numbers."""
    knots: int = pydantic.Field(default=0, ge=0)
    """The maximum number of knots on the scale of a relation whose values are numbers or dates (complex); 0 leaves literals out."""
    width: int = pydantic.Field(default=192, ge=1)
    """The width of every embedding."""
    members: int = pydantic.Field(default=1, ge=1)
    """The number of models that share the width, are trained each for itself, and whose scores are averaged (complex)."""
    layers: int = pydantic.Field(default=2, ge=1)
    """The number of layers (transformer, stare)."""
    heads: int = pydantic.Field(default=4, ge=1)
    """The number of attention heads (transformer); it divides the width."""
    feed_forward: int = pydantic.Field(default=512, ge=1)
    """The width inside the feed-forward part of a layer (transformer)."""
    initial_length: float = pydantic.Field(default=1.0, gt=0)
    """The initial length of the entity embeddings."""
    dropout: float = pydantic.Field(default=0.2, ge=0, lt=1)
    """The share of dropped features inside the model: of attention and feed-forward outputs, sums of messages, or the product."""
    input_dropout: float = pydantic.Field(default=0.2, ge=0, lt=1)
    """The share of dropped features of the input embeddings."""

    @pydantic.model_validator(mode="after")
    def _fits(self) -> Self:
        if self.architecture != "complex" and self.knots:
            raise ValueError(f"only the architecture 'complex' has scales of numbers, found '{self.architecture}' with {self.knots} knots")
        if self.architecture != "complex" and self.members > 1:
            raise ValueError(f"only the architecture 'complex' has members, found '{self.architecture}' with {self.members}")
        if self.architecture == "complex" and self.width % (2 * self.members):
            each = "complex numbers need an even width" if self.members == 1 else f"each of {self.members} members needs an even width"
            raise ValueError(f"{each}, found model.width={self.width}")
        if self.architecture == "transformer" and self.width % self.heads:
            raise ValueError(f"attention needs heads that divide the width, found {self.heads} heads and width {self.width}")
        return self


class PredictorTrainConfig(LoopConfig):
    """The training of a predictor: its questions, in addition to the settings of every training."""

    epochs: int = pydantic.Field(default=30, ge=1)
    """The length of the training; a limit in minutes overrides it."""
    average: float = pydantic.Field(default=0.999, ge=0, lt=1)
    """The decay per step of the running average of the weights, which is the model; 0 uses the last weights."""
    splits: tuple[Literal["train", "valid", "test"], ...] = pydantic.Field(default=("train",), min_length=1)
    """The splits to train on. With valid among them there is no validation, and the last weights are kept."""
    weigh: Literal["questions", "statements"] = "questions"
    """Whether a question without pairs is asked once per epoch, or as often as there are statements that answer it."""
    merge: int = pydantic.Field(default=1, ge=1)
    """With "statements": the maximum number of statements without pairs that are merged into one weighted question."""
    penalty: float = pydantic.Field(default=0.0, ge=0)
    """The weight of the N3 penalty on the entities and relations of a statement (complex)."""
    no_pairs: float = pydantic.Field(default=0.25, ge=0, le=1)
    """The probability that a statement is asked without its pairs."""
    some_pairs: float = pydantic.Field(default=0.25, ge=0, le=1)
    """The probability that it is asked with a random subset of its pairs. Otherwise it is asked with all of them."""
    value_share: float = pydantic.Field(default=0.1, ge=0, le=1)
    """Questions for the value of a pair per epoch, as a share of the statements; at most one per statement with pairs."""
    relation_share: float = pydantic.Field(default=0.05, ge=0, le=1)
    """Questions for the main relation per epoch, as a share of the statements."""
    questions_per_epoch: int = pydantic.Field(default=0, ge=0)
    """The maximum number of questions per epoch, a new sample for each; 0 asks all."""
    rules: bool = False
    """Whether rules are mined from the splits after training, and added to the scores with a weight that is fitted on validation."""
    validation_questions: int = pydantic.Field(default=1_000, ge=0)
    """The number of validation statements whose tail and head are asked for after each epoch, all pairs given; 0 keeps the last weights."""

    @pydantic.model_validator(mode="after")
    def _adds_up(self) -> Self:
        if self.no_pairs + self.some_pairs > 1:
            raise ValueError(f"no_pairs and some_pairs are at most 1 together, found {self.no_pairs} and {self.some_pairs}")
        return self


class PredictorRecipe(AnyRecipe):
    """Everything that determines a predictor; with the graph and one thread, it is reproducible to the last bit."""

    kind: Literal["predictor"] = "predictor"
    """The kind of model that the recipe is for; a file without it is read as a recipe of an encoder."""
    model: PredictorConfig = PredictorConfig()
    train: PredictorTrainConfig = PredictorTrainConfig()

    @pydantic.model_validator(mode="after")
    def _can_be_asked(self) -> Self:
        asked = self.train.value_share or self.train.relation_share
        if asked and self.model.architecture not in ASKS_VALUES_AND_RELATIONS:
            raise ValueError(
                f"the architecture '{self.model.architecture}' is asked for heads and tails only, found "
                f"value_share {self.train.value_share} and relation_share {self.train.relation_share}. Set both to 0"
            )
        if self.train.penalty and self.model.architecture != "complex":
            raise ValueError(f"only the architecture 'complex' has a penalty, found '{self.model.architecture}' with {self.train.penalty}")
        return self
