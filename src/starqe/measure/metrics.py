"""Metrics: from ranks to the numbers of a table, in one pass and with constant memory.

Every metric is a function of means of a few terms of a rank. An average says which mean:

- ``micro``: every ranked answer counts the same;
- ``macro``: every query counts the same, so each of its ranks has the weight 1 / number of its ranked answers.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from starqe.measure.ranks import TIES, Ranks
from starqe.ragged import BoolArray, FloatArray, IntArray, NumberArray
from starqe.seed import generator

AVERAGES = ("micro", "macro")
"""The means, in the order of the accumulator's sums."""

TERMS: Mapping[str, Callable[[NumberArray, IntArray], NumberArray | BoolArray]] = {
    "hits@1": lambda rank, _: rank <= 1,
    "hits@3": lambda rank, _: rank <= 3,
    "hits@10": lambda rank, _: rank <= 10,
    "reciprocal rank": lambda rank, _: 1 / rank,
    "rank": lambda rank, _: rank,
    "expected rank": lambda _, candidates: (candidates + 1) / 2,
}
"""What is averaged: functions of the rank and of the number of candidates. The expected rank is that of a random order."""

Means = Mapping[str, FloatArray]


@dataclass(frozen=True)
class Metric:
    """One column of numbers: how it follows from the means of the terms, and how it is printed."""

    of: Callable[[Means], FloatArray]
    percent: bool = True
    higher_is_better: bool = True


def amri(means: Means) -> FloatArray:
    """Returns the adjusted mean rank index: 1 is perfect, 0 is a random order, -1 the worst.

    ``AMRI = 1 - (MR - 1) / (E[MR] - 1)``, where MR is the mean rank and E[MR] the mean of the expected ranks
    ``(candidates + 1) / 2``, both with the same weights, and the candidates counted after filtering (Berrendorf et al.,
    2020). It is not a number if no ranked answer has a rival.
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(1 - (means["rank"] - 1) / (means["expected rank"] - 1))


METRICS: Mapping[str, Metric] = {
    "Hits@1": Metric(lambda means: means["hits@1"]),
    "Hits@3": Metric(lambda means: means["hits@3"]),
    "Hits@10": Metric(lambda means: means["hits@10"]),
    "MRR": Metric(lambda means: means["reciprocal rank"]),
    "MR": Metric(lambda means: means["rank"], percent=False, higher_is_better=False),
    "AMRI": Metric(amri),
}
"""The metrics: Hits@k, mean reciprocal rank, mean rank, and adjusted mean rank index."""


def terms_of(rank: NumberArray, candidates: IntArray) -> FloatArray:
    """Returns the terms of each rank, columns as TERMS: (n, terms) float64."""
    return np.stack([np.asarray(term(rank, candidates), np.float64) for term in TERMS.values()], axis=1)


@dataclass(frozen=True)
class Estimate:
    """One number with its confidence interval over queries; n is the number of things that count the same.

    The interval is not a number when it was not asked for, or there is nothing to average.
    """

    value: float
    low: float
    high: float
    n: int


class Accumulator:
    """Sums the terms of ranks for both averages, and for every replicate of a bootstrap over queries.

    The bootstrap is a Poisson bootstrap: in each replicate a query counts as often as a Poisson variable of mean 1 says.
    So it needs no second pass and no stored ranks: the size of an accumulator does not depend on how much it has seen.

    Args:
        replicates: How many bootstrap replicates to keep; 0 means no confidence intervals.
        seed: The seed of the bootstrap.
        stream: Distinguishes accumulators of the same seed, which must be independent.
    """

    def __init__(self, replicates: int = 200, seed: int = 0, stream: str = "") -> None:
        self._random = generator(seed, f"bootstrap {stream}" if stream else "bootstrap")
        # sums[0] is the data itself, the others are replicates; the last column is the total weight.
        self._sums = np.zeros((1 + replicates, len(AVERAGES), len(TERMS) + 1))
        self._n = np.zeros(len(AVERAGES), np.int64)

    def add(self, ranks: Ranks, counts: IntArray, ties: str = "realistic") -> None:
        """Adds ranks; counts says how many of them belong to each query, in their order."""
        self.add_terms(terms_of(TIES[ties](ranks), ranks.candidates), counts)

    def add_terms(self, terms: FloatArray, counts: IntArray) -> None:
        """Adds the terms of ranks, (n, terms); counts says how many of them belong to each query. Empty queries do not count."""
        assert terms.shape == (counts.sum(), len(TERMS)), (terms.shape, counts.sum())
        counts = counts[counts > 0]
        if not len(counts):
            return
        starts = np.cumsum(counts) - counts
        micro = np.column_stack([np.add.reduceat(terms, starts, axis=0), counts])  # (queries, terms + 1)
        sums = np.stack([micro, micro / counts[:, None]], axis=1)  # (queries, averages, terms + 1)
        self._sums[0] += sums.sum(0)
        self._n += (counts.sum(), len(counts))
        replicates = len(self._sums) - 1
        step = 64  # so small that the product stays in one thread: waking another takes longer than the product
        for start in range(0, len(counts) if replicates else 0, step):
            block = sums[start : start + step]
            weights = _poisson(self._random, (len(block), replicates))
            self._sums[1:] += (weights.T @ block.reshape(len(block), -1)).reshape(replicates, *block.shape[1:])

    def estimate(self, metric: str, average: str, confidence: float = 0.95) -> Estimate:
        """Returns a metric, as a fraction, with its interval."""
        values = self.values(metric, average)
        low, high = _interval(values[1:], confidence)
        return Estimate(float(values[0]), low, high, int(self._n[AVERAGES.index(average)]))

    def values(self, metric: str, average: str) -> FloatArray:
        """Returns a metric of the data and then of each replicate; not a number where there is nothing to average: (1 + replicates,)."""
        sums = self._sums[:, AVERAGES.index(average)]
        with np.errstate(invalid="ignore", divide="ignore"):
            means = sums[:, :-1] / sums[:, -1:]
        return METRICS[metric].of(dict(zip(TERMS, means.T, strict=True)))

    def __add__(self, other: "Accumulator") -> "Accumulator":
        """Returns the accumulator of the ranks of both."""
        assert self._sums.shape == other._sums.shape, "accumulators of the same number of replicates can be added"
        both = Accumulator(len(self._sums) - 1)
        both._sums[:] = self._sums + other._sums
        both._n[:] = self._n + other._n
        return both


def mean_estimate(parts: Iterable[Accumulator], metric: str, average: str, confidence: float = 0.95) -> Estimate:
    """Returns the mean of a metric over parts that count the same, such as shapes; the interval is of that mean."""
    parts = list(parts)
    values = np.mean([part.values(metric, average) for part in parts], axis=0)
    low, high = _interval(values[1:], confidence)
    return Estimate(float(values[0]), low, high, sum(part.estimate(metric, average).n for part in parts))


def _interval(replicates: FloatArray, confidence: float) -> tuple[float, float]:
    replicates = replicates[~np.isnan(replicates)]  # a replicate of few queries may contain none of them
    if not len(replicates):
        return math.nan, math.nan
    low, high = np.quantile(replicates, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


_CUMULATIVE = np.cumsum([math.exp(-1) / math.factorial(k) for k in range(12)])
_POISSON = np.searchsorted(_CUMULATIVE, (np.arange(1 << 16) + 0.5) / (1 << 16)).astype(np.float64)
"""The inverse distribution function of a Poisson variable of mean 1, at 16 bits: a look-up is far faster than a draw."""


def _poisson(random: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    return _POISSON.take(random.integers(0, 1 << 16, shape, np.uint16))
