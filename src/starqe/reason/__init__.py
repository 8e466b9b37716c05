"""Reasoning: combines one-hop predictions and known facts into the truth of a whole query, by fuzzy logic."""

from starqe.reason.executor.executor import Executor, Result, Tuples
from starqe.reason.executor.explain import Support, Way
from starqe.reason.executor.norms import DUALS, NORMS
from starqe.reason.executor.settings import ReasonSettings
from starqe.reason.executor.truth import OneHop
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
    "Executor",
    "OneHop",
    "PredictLesson",
    "PredictorRecipe",
    "PredictorRun",
    "PredictorScorer",
    "ReasonSettings",
    "Result",
    "Support",
    "Tuples",
    "Way",
    "open_run",
    "recipe_of",
]
