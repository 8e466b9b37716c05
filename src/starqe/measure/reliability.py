"""Reliability of probabilities: of the predictions with probability 0.7, do 70 % come true?"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from starqe.ragged import BoolArray, FloatArray

BINS = 15


@dataclass(frozen=True)
class Bin:
    """The cases whose probability lies in one interval of equal width."""

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
    """Expected calibration error: the mean distance between probability and frequency over the bins, weighted by their counts."""
    brier: float
    """The mean squared distance between probability and truth; 0 is perfect."""
    base: float
    """The share of all cases that came true: always predicting it has an ECE of 0, and a Brier score of base × (1 - base)."""
    bins: tuple[Bin, ...]
    """The bins with cases, from low to high."""


def reliability(probability: FloatArray, truth: BoolArray, bins: int = BINS) -> Reliability:
    """Compares probabilities (n,) with outcomes (n,) bool; 1 belongs to the last bin."""
    assert len(probability) == len(truth) > 0, (len(probability), len(truth))
    assert ((probability >= 0) & (probability <= 1)).all()
    place = np.minimum((probability * bins).astype(int), bins - 1)
    counts = np.bincount(place, minlength=bins)
    means = np.bincount(place, probability, minlength=bins) / np.maximum(counts, 1)
    shares = np.bincount(place, truth, minlength=bins) / np.maximum(counts, 1)
    found = tuple(Bin(int(counts[i]), float(means[i]), float(shares[i])) for i in range(bins) if counts[i])
    ece = float((counts * np.abs(means - shares)).sum() / len(truth))
    return Reliability(len(truth), ece, float(np.mean((probability - truth) ** 2)), float(np.mean(truth)), found)


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
