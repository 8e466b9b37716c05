"""Reliability of probabilities: of the predictions with probability 0.7, do 70 % come true?"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from starqe.ragged import BoolArray, FloatArray, IntArray

TENTHS = 10
"""The number of bins of equal width."""
MASS_BINS = 15
"""The number of bins of equal mass."""
_LEAST = 1e-12  # a probability of 0 has no logarithm


@dataclass(frozen=True)
class Bin:
    """The cases whose probability lies in one interval."""

    count: int
    probability: float
    """Their mean probability."""
    frequency: float
    """The share of them that came true."""


@dataclass(frozen=True)
class Reliability:
    """Predicted probabilities compared with observed frequencies."""

    count: int
    ece: float
    """Expected calibration error: the mean distance between probability and frequency over bins of equal mass, weighted by their counts."""
    brier: float
    """The mean squared distance between probability and truth; 0 is perfect."""
    log_loss: float
    """The mean of -log(probability of what came out); 0 is perfect."""
    base: float
    """The share of all cases that came true: always predicting it has an ECE of 0, and a Brier score of base × (1 - base)."""
    mass: tuple[Bin, ...]
    """Bins with about the same number of cases each, from low to high; equal probabilities share a bin."""
    bins: tuple[Bin, ...]
    """The bins of width 0.1 that have cases, from low to high."""

    def worst(self, least: int) -> float:
        """Returns the largest distance between probability and frequency of a bin of width 0.1 with at least this many cases; 0 without."""
        return max((abs(part.probability - part.frequency) for part in self.bins if part.count >= least), default=0.0)


def reliability(probability: FloatArray, truth: BoolArray, bins: int = TENTHS, mass_bins: int = MASS_BINS) -> Reliability:
    """Compares probabilities (n,) with outcomes (n,) bool."""
    assert len(probability) == len(truth) > 0, (len(probability), len(truth))
    assert ((probability >= 0) & (probability <= 1)).all()
    bounds = np.unique(np.sort(probability)[np.arange(1, mass_bins) * len(probability) // mass_bins])
    mass = _bins(np.searchsorted(bounds, probability, "right"), probability, truth)
    wide = _bins(np.minimum((probability * bins).astype(int), bins - 1), probability, truth)
    ece = sum(part.count * abs(part.probability - part.frequency) for part in mass) / len(truth)
    brier = float(np.mean((probability - truth) ** 2))
    right = np.clip(np.where(truth, probability, 1 - probability), _LEAST, 1)
    return Reliability(len(truth), ece, brier, float(-np.log(right).mean()), float(np.mean(truth)), mass, wide)


def _bins(place: IntArray, probability: FloatArray, truth: BoolArray) -> tuple[Bin, ...]:
    """Returns the bins that have cases; ``place`` is the bin of each case. (n,)."""
    counts = np.bincount(place)
    means, shares = (np.bincount(place, values) / np.maximum(counts, 1) for values in (probability, truth))
    return tuple(Bin(int(counts[i]), float(means[i]), float(shares[i])) for i in np.flatnonzero(counts))


def plot_reliability(found: Reliability, path: Path) -> None:
    """Plots observed frequencies over predicted probabilities; the size of a point is its number of cases."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(4.4, 4.4), layout="constrained")
    axes.plot([0, 1], [0, 1], color="grey", linewidth=1, label="perfectly calibrated")
    probabilities, frequencies = [part.probability for part in found.bins], [part.frequency for part in found.bins]
    sizes = [12 + 160 * (part.count / found.count) ** 0.5 for part in found.bins]
    axes.plot(probabilities, frequencies, color="tab:blue", linewidth=1)
    axes.scatter(probabilities, frequencies, s=sizes, color="tab:blue", zorder=3, label=f"{found.count:,} candidates")
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="predicted probability", ylabel="observed frequency", aspect="equal")
    axes.set_title(f"ECE {found.ece:.3f}, Brier {found.brier:.3f}", fontsize=10)
    axes.legend(frameon=False, loc="upper left")
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
