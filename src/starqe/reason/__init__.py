"""Reasoning: combines one-hop predictions and known facts into the truth of a whole query, by fuzzy logic."""

from starqe.reason.executor.derivation import Contribution, Derivation, Equation, Group, Reason, RuleReason
from starqe.reason.executor.executor import Executor
from starqe.reason.executor.norms import DUALS, NORMS
from starqe.reason.executor.settings import ReasonSettings
from starqe.reason.executor.truth import OneHop
from starqe.reason.executor.tuples import Tuples
from starqe.reason.listed import Result
from starqe.reason.predictor.architectures import ARCHITECTURES
from starqe.reason.predictor.config import PredictorRecipe
from starqe.reason.predictor.lesson import PredictLesson
from starqe.reason.predictor.presets import PREDICTORS, recipe_of
from starqe.reason.predictor.run import PredictorRun, open_run
from starqe.reason.predictor.scorer import PredictorScorer

__all__ = [
    "ARCHITECTURES",
    "DUALS",
    "NORMS",
    "PREDICTORS",
    "Contribution",
    "Derivation",
    "Equation",
    "Executor",
    "Group",
    "OneHop",
    "PredictLesson",
    "PredictorRecipe",
    "PredictorRun",
    "PredictorScorer",
    "Reason",
    "ReasonSettings",
    "Result",
    "RuleReason",
    "Tuples",
    "open_run",
    "recipe_of",
]
