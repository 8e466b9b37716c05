"""The learning rate over a training."""

import math
from collections.abc import Callable, Mapping

from starqe.learn.config import LoopConfig

SCHEDULES: Mapping[str, Callable[[float], float]] = {
    "constant": lambda _: 1.0,
    "cosine": lambda share: (1 + math.cos(math.pi * share)) / 2,
    "linear": lambda share: 1 - share,
}
"""The decay of the rate: share of the decay phase -> share of the maximum rate."""


def learning_rate(config: LoopConfig, progress: float) -> float:
    """Computes the rate at a share of the training: linear warm-up, then decay by the schedule."""
    if progress < config.warmup:
        return config.learning_rate * max(progress / config.warmup, 1e-3)
    share = min(1.0, (progress - config.warmup) / (1 - config.warmup))
    height = SCHEDULES[config.schedule](share)
    return config.learning_rate * (config.end_rate + (1 - config.end_rate) * height)
