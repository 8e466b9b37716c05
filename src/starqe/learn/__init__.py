"""Training: recipes, the loss, the loop, and the run folder."""

from starqe.learn.config import Recipe, TrainConfig
from starqe.learn.lesson import Lesson, QueryLesson
from starqe.learn.presets import PRESETS, as_run, preset
from starqe.learn.run import Run, RunFolder, kind_of
from starqe.learn.scorer import EncoderScorer
from starqe.learn.train import Trainer

__all__ = [
    "PRESETS",
    "EncoderScorer",
    "Lesson",
    "QueryLesson",
    "Recipe",
    "Run",
    "RunFolder",
    "TrainConfig",
    "Trainer",
    "as_run",
    "kind_of",
    "preset",
]
