"""From the features of a candidate to its probability: a logistic function of few or many features, and a map that corrects it.

Which of them is chosen by log loss on held-out queries: log loss is a proper score, so it is best where the probabilities are true.

n cases (candidates of queries).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from starqe.errors import StorageError
from starqe.ragged import BoolArray, FloatArray, IntArray
from starqe.reason.logistic import MOST, Logistic, fit_logistic
from starqe.reason.mixture import CLASSES
from starqe.reason.probability import FEATURES
from starqe.seed import generator

FOLDS = 4
"""The number of parts of the queries, each of which is held out once."""
FEWEST_TRUE = 100
"""With fewer true cases, it is the logistic function of few features: there is nothing to choose by."""
SAMPLES = 20
"""The number of samples of the queries that isotonic regression is fitted to."""
_STEP = 0.02  # of the logit: candidates this close are one group
_LEAST = 1e-7  # probabilities this close to 0 or 1 count as this close

Map: TypeAlias = Callable[[FloatArray], FloatArray]
"""Corrects probabilities; it never changes their order. (n,) -> (n,)."""


@dataclass(frozen=True)
class Beta:
    """Beta calibration: logit = a · log p − b · log(1 − p) + c. With a = b = 1 and c = 0 nothing changes (Kull et al., 2017)."""

    a: float
    b: float
    c: float

    def __call__(self, probability: FloatArray) -> FloatArray:
        """Returns the corrected probabilities: (n,)."""
        return Logistic((self.a, self.b), self.c)(_logarithms(probability))


@dataclass(frozen=True)
class Isotonic:
    """Isotonic regression (the mean of several): linear between points that rise."""

    x: tuple[float, ...]
    y: tuple[float, ...]

    def __call__(self, probability: FloatArray) -> FloatArray:
        """Returns the corrected probabilities: (n,)."""
        return np.interp(probability, self.x, self.y)


@dataclass(frozen=True)
class Chance:
    """The probability of a candidate, from its features (`starqe.reason.probability.FEATURES`)."""

    logistic: Logistic
    detailed: bool = False
    """Whether the logistic function is of `detailed` features."""
    correction: Beta | Isotonic | None = None

    def __call__(self, features: FloatArray) -> FloatArray:
        """Computes the probabilities: (n, features) -> (n,)."""
        found = self.logistic(detailed(features) if self.detailed else features)
        return found if self.correction is None else self.correction(found)

    @property
    def name(self) -> str:
        """What it is, in words."""
        kind = {type(None): "logistic", Beta: "beta", Isotonic: "isotonic"}[type(self.correction)]
        return f"{kind}, {'detailed' if self.detailed else 'plain'} features"

    def written(self) -> dict[str, Any]:
        """Returns the numbers for JSON."""
        curve = self.correction
        if isinstance(curve, Beta):
            return {**self.logistic.written(), "detailed": self.detailed, "beta": [curve.a, curve.b, curve.c]}
        points = {} if curve is None else {"isotonic": [list(curve.x), list(curve.y)]}
        return {**self.logistic.written(), "detailed": self.detailed, **points}

    @classmethod
    def read(cls, content: Mapping[str, Any], where: Path) -> "Chance":
        """Reads the output of `written`; earlier versions have a logistic function of few features, and no map.

        Raises:
            StorageError: It has other keys, or numbers that are not valid.
        """
        many = content.get("detailed", False) is True
        logistic = Logistic.read(content, len(detailed(np.zeros((1, len(FEATURES))))[0]) if many else len(FEATURES), where)
        lists = content["isotonic"] if "isotonic" in content else [content["beta"]] if "beta" in content else []
        if not lists:
            return cls(logistic, many)
        valid = all(isinstance(part, list) and all(isinstance(one, int | float) and abs(one) < MOST for one in part) for part in lists)
        if valid and "beta" in content and len(lists[0]) == 3:
            return cls(logistic, many, Beta(*map(float, lists[0])))
        if valid and len(lists) == 2 and len(lists[0]) == len(lists[1]) > 0 and all((np.diff(part) >= 0).all() for part in lists):
            return cls(logistic, many, Isotonic(*(tuple(map(float, part)) for part in lists)))
        raise StorageError(f"{where}: points of a map that rises were expected, found {str(lists)[:80]}. Calibrate it again")


def detailed(features: FloatArray) -> FloatArray:
    """Adds features: bends and further forms of the share, each for itself and for every class: (n, features) -> (n, more)."""
    score, share, rank, known = features[:, :4].T
    classes = features[:, len(FEATURES) - len(CLASSES) :]
    first, rest = (rank == 0).astype(float), np.log(1.001 - np.exp(np.minimum(share, 0)))
    own = [np.maximum(share, -3), np.maximum(share, -1), first, rest, known * share, known * rank]
    of_class = [classes * values[:, None] for values in (score, share, first, rest)]
    return np.concatenate([features, np.stack(own, axis=1), *of_class], axis=1)


def fit_chance(
    features: FloatArray, truth: BoolArray, query: IntArray, counts: FloatArray, seed: int = 0
) -> tuple[Chance, dict[str, float]]:
    """Fits every kind of probability on a part of the queries, and chooses the one with the least log loss on the others.

    Args:
        features: The features of each case. (n, features)
        truth: Whether each case is true. (n,) bool
        query: The query of each case; all cases of one are held out together. (n,)
        counts: How often each case counts. (n,)
        seed: Decides which queries are held out together.

    Returns:
        The probability, fitted on all queries, and the log loss of every kind by its name; without enough cases, no losses.
    """
    counts = counts / counts.mean()
    if truth.sum() < FEWEST_TRUE or query.max() < FOLDS:
        return Chance(fit_logistic(features, truth, counts=counts)), {}
    fold = generator(seed, "held-out queries").integers(0, FOLDS, query.max() + 1)[query]
    kinds: list[tuple[float, Chance]] = []
    for many in (False, True):
        design = detailed(features) if many else features
        logistic, held_out = fit_logistic(design, truth, counts=counts), np.empty(len(truth))
        for part in range(FOLDS):
            own, rest = fold == part, fold != part
            held_out[own] = fit_logistic(design[rest], truth[rest], counts=counts[rest], start=logistic)(design[own])
        kinds.append((log_loss(held_out, truth, counts), Chance(logistic, many)))
        for fit in (fit_beta, fit_isotonic):
            corrected = np.empty(len(truth))
            for part in range(FOLDS):
                own, rest = fold == part, fold != part
                corrected[own] = fit(held_out[rest], truth[rest], counts[rest], query[rest])(held_out[own])
            kinds.append((log_loss(corrected, truth, counts), Chance(logistic, many, fit(held_out, truth, counts, query))))
    return min(kinds, key=lambda kind: kind[0])[1], {chance.name: loss for loss, chance in kinds}


def log_loss(probability: FloatArray, truth: BoolArray, counts: FloatArray) -> float:
    """Returns the mean of −log(probability of what came out). (n,)."""
    right = np.where(truth, probability, 1 - probability)
    return float(-np.average(np.log(np.clip(right, _LEAST, 1)), weights=counts))


def fit_beta(probability: FloatArray, truth: BoolArray, counts: FloatArray, _query: IntArray | None = None) -> Beta:
    """Fits beta calibration; it never falls, so a negative slope becomes 0. (n,)."""
    columns, slopes = _logarithms(probability), np.zeros(2)
    used = np.array([True, True])
    while used.any():
        found = fit_logistic(columns[:, used], truth, ridge=1e-3, counts=counts)
        slopes[:] = 0
        slopes[used] = found.weights
        if (slopes >= 0).all():
            return Beta(float(slopes[0]), float(slopes[1]), found.bias)
        used &= slopes > 0
    return Beta(0.0, 0.0, fit_logistic(columns[:, :0], truth, counts=counts).bias)


def fit_isotonic(
    probability: FloatArray, truth: BoolArray, counts: FloatArray, query: IntArray, samples: int = SAMPLES, seed: int = 0
) -> Isotonic:
    """Fits isotonic regression to samples of the queries, with replacement, and averages the curves: one alone has coarse steps. (n,).

    Cases with nearly the same probability count as one group.
    """
    logit = _logarithms(probability).sum(axis=1)
    _, group = np.unique(np.round(logit / _STEP), return_inverse=True)
    x = np.bincount(group, counts * probability) / np.bincount(group, counts)
    mean, total, draw = float(np.average(truth, weights=counts)), np.zeros(len(x)), generator(seed, "samples of queries")
    for _ in range(samples):
        often = counts * draw.poisson(1, query.max() + 1)[query] if samples > 1 else counts
        count, right = (np.bincount(group, part).astype(float) for part in (often, often * truth))
        total += _pooled(x, count, right, mean)
    return Isotonic(tuple(x.tolist()), tuple((total / samples).tolist()))


def _pooled(x: FloatArray, counts: FloatArray, true: FloatArray, mean: float) -> FloatArray:
    """Pools adjacent violators; one more case with the mean truth keeps each block off 0 and 1. (groups,) -> (groups,)."""
    blocks: list[tuple[float, float, float]] = []  # counts, counts · truth, counts · x
    for count, right, place in zip(counts.tolist(), true.tolist(), x.tolist(), strict=True):
        if not count:
            continue
        blocks.append((count, right, count * place))
        while len(blocks) > 1 and blocks[-2][1] * blocks[-1][0] >= blocks[-1][1] * blocks[-2][0]:
            last, before = blocks.pop(), blocks.pop()
            blocks.append((before[0] + last[0], before[1] + last[1], before[2] + last[2]))
    if not blocks:
        return np.full(len(x), mean)
    count, right, place = np.array(blocks).T
    return np.interp(x, place / count, np.maximum.accumulate((right + mean) / (count + 1)))


def _logarithms(probability: FloatArray) -> FloatArray:
    inside = np.clip(probability, _LEAST, 1 - _LEAST)
    return np.stack([np.log(inside), -np.log1p(-inside)], axis=1)
