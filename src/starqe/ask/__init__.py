"""Answers one question: known and predicted answers, with explanations."""

from starqe.ask.answerer import Answerer
from starqe.ask.answers import Answer, Answers, Binding, Counts, constructed
from starqe.ask.explainer import Row
from starqe.ask.explanation import Explanation, Views
from starqe.ask.prepare import calibrate, drawn_queries, fit, with_validation
from starqe.ask.window import THRESHOLD

__all__ = [
    "THRESHOLD",
    "Answer",
    "Answerer",
    "Answers",
    "Binding",
    "Counts",
    "Explanation",
    "Row",
    "Views",
    "calibrate",
    "constructed",
    "drawn_queries",
    "fit",
    "with_validation",
]
