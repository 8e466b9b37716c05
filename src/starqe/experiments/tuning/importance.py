"""The importance of parameters in a search, and its level by chance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from starqe.experiments.tuning.search_space import Domain, Range, Space, Value
from starqe.experiments.tuning.study import Result
from starqe.ragged import FloatArray, IntArray
from starqe.seed import generator

FEWEST = 8
"""Minimum number of complete trials."""
SHUFFLES = 200


@dataclass(frozen=True)
class Importances:
    """The share of the variance of the objective that each parameter explains alone."""

    shares: Mapping[str, float] = field(default_factory=dict)
    """The largest first; empty after too few trials."""
    chance: float = 0.0
    """The largest share stays below this in 95% of the shuffles of the values: anything below is noise."""
    trials: int = 0
    """The number of complete trials."""


def importances(results: Sequence[Result], space: Space) -> Importances:
    """Measures the parameters of the complete trials.

    A share is the adjusted R² of a one-way analysis of variance: the choices of a parameter are its groups, and numbers fall into
    quarters. Of optuna's evaluators, fANOVA needs scikit-learn, and PED-ANOVA prefers numbers to choices: docs/tuning.md compares them.
    """
    complete = [result for result in results if result.state == "complete"]
    if len(complete) < FEWEST:
        return Importances(trials=len(complete))
    values = np.array([result.value for result in complete], dtype=np.float64)
    groups = {key: _groups([result.parameters[key] for result in complete], domain) for key, domain in space.items()}
    shares = {key: explained(values, of_key) for key, of_key in groups.items()}
    draw = generator(0, "importance")
    shuffled = [draw.permutation(values) for _ in range(SHUFFLES)]
    chance = float(np.quantile([max(explained(order, of_key) for of_key in groups.values()) for order in shuffled], 0.95))
    return Importances(dict(sorted(shares.items(), key=lambda item: -item[1])), chance, len(complete))


def explained(values: FloatArray, groups: IntArray) -> float:
    """Returns 1 - (SS within / (n - k)) / (SS total / (n - 1)) of n values in k groups, and 0 where it is below or not defined."""
    found, n = np.unique(groups), len(values)
    total = float(((values - values.mean()) ** 2).sum())
    if not 1 < len(found) < n or not total:
        return 0.0
    members = [values[groups == group] for group in found]
    within = sum(float(((part - part.mean()) ** 2).sum()) for part in members)
    return max(0.0, 1 - (within / (n - len(found))) / (total / (n - 1)))


def _groups(chosen: Sequence[Value], domain: Domain) -> IntArray:
    if not isinstance(domain, Range):
        return np.array([domain.index(value) for value in chosen])
    numbers = np.array(chosen, dtype=np.float64)
    return np.searchsorted(np.quantile(numbers, [0.25, 0.5, 0.75]), numbers)
