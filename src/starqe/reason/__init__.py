"""How it is reasoned: one-hop predictions and known facts become the truth of a whole query, by fuzzy logic."""

from starqe.reason.architectures import ARCHITECTURES
from starqe.reason.config import PredictorRecipe
from starqe.reason.executor import Executor, Result
from starqe.reason.explain import Explanation, Support
from starqe.reason.gaps import Gaps
from starqe.reason.lesson import PredictLesson
from starqe.reason.links import LINKS, link_rows
from starqe.reason.norms import NORMS
from starqe.reason.presets import PREDICTORS, recipe_of
from starqe.reason.run import PredictorRun, open_run
from starqe.reason.scorer import PredictorScorer
from starqe.reason.settings import ReasonSettings
from starqe.reason.truth import OneHop

__all__ = [
    "ARCHITECTURES",
    "LINKS",
    "NORMS",
    "PREDICTORS",
    "Executor",
    "Explanation",
    "Gaps",
    "OneHop",
    "PredictLesson",
    "PredictorRecipe",
    "PredictorRun",
    "PredictorScorer",
    "ReasonSettings",
    "Result",
    "Support",
    "link_rows",
    "open_run",
    "recipe_of",
]
