"""Logistic regression, for calibration: few features, fitted by Newton's method."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from starqe.errors import StorageError
from starqe.ragged import BoolArray, FloatArray

STEPS = 50
MOST = 1e6
"""Upper limit on stored weights: larger numbers do not come from a fit."""


@dataclass(frozen=True)
class Logistic:
    """Turns features into a probability: σ(bias + weights · features)."""

    weights: tuple[float, ...]
    bias: float

    @classmethod
    def read(cls, content: Mapping[str, Any], features: int, where: Path) -> "Logistic":
        """Reads the output of `written`, for this number of features.

        Raises:
            StorageError: It has other keys, or numbers that are not valid.
        """
        weights, bias = content.get("weights"), content.get("bias")
        numbers = [*weights, bias] if isinstance(weights, list) else []
        if len(numbers) != features + 1 or not all(isinstance(number, int | float) and abs(number) < MOST for number in numbers):
            raise StorageError(f"{where}: {features} weights and a bias were expected, found {str(content)[:80]}. Calibrate it again")
        return cls(tuple(weights), float(bias))  # type: ignore[arg-type]

    def written(self) -> dict[str, Any]:
        """Returns the numbers for JSON."""
        return {"weights": list(self.weights), "bias": self.bias}

    def logits(self, features: FloatArray) -> FloatArray:
        """Computes bias + weights · features: (n, k) -> (n,)."""
        return np.asarray(features @ np.asarray(self.weights) + self.bias)

    def __call__(self, features: FloatArray) -> FloatArray:
        """Computes the probabilities: (n, k) -> (n,)."""
        return np.asarray(1 / (1 + np.exp(-self.logits(features))))


def fit_logistic(
    features: FloatArray, truth: BoolArray, ridge: float = 1.0, counts: FloatArray | None = None, start: Logistic | None = None
) -> Logistic:
    """Fits the weights that make the truth most likely, with a small penalty on their squares, so that they stay finite.

    Args:
        features: The features of each case. (n, k)
        truth: Whether each case is true. (n,) bool
        ridge: The penalty; that of the bias is tiny, and keeps it finite if all cases are equal.
        counts: How often each case counts; once if left out. (n,)
        start: A fit to similar cases, from which fewer steps are needed.
    """
    design = np.concatenate([features, np.ones((len(features), 1))], axis=1).astype(float)  # (n, k+1)
    penalty = np.full(design.shape[1], ridge)
    penalty[-1] = 1e-2
    weights = np.zeros(design.shape[1]) if start is None else np.array([*start.weights, start.bias])
    target, often = truth.astype(float), np.ones(len(truth)) if counts is None else counts
    best = _objective(design, target, often, weights, penalty)
    for _ in range(STEPS):
        share = 1 / (1 + np.exp(-design @ weights))
        slope = design.T @ (often * (share - target)) + penalty * weights
        curve = (design * (often * share * (1 - share))[:, None]).T @ design + np.diag(penalty)
        step = np.linalg.solve(curve, slope)
        # Far from the optimum a full step can overshoot: halve it until it improves the objective.
        while (value := _objective(design, target, often, weights - step, penalty)) > best + 1e-12 and np.abs(step).max() > 1e-9:
            step = step / 2
        weights = weights - step
        if best - value < 1e-9 * max(1.0, abs(best)):
            break
        best = value
    return Logistic(tuple(map(float, weights[:-1])), float(weights[-1]))


def _objective(design: FloatArray, target: FloatArray, often: FloatArray, weights: FloatArray, penalty: FloatArray) -> float:
    logits = design @ weights
    return float(np.sum(often * (np.logaddexp(0, logits) - target * logits)) + 0.5 * np.sum(penalty * weights**2))
