"""Numbers and dates of entities, predicted as distributions that are calibrated on validation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from starqe.errors import InputError
from starqe.kg import Graph
from starqe.kg.literal import DATE, DATE_TIME, DECIMAL, NUMBERS, YEAR, Literal, date_of, short_datatype
from starqe.measure.reliability import Reliability, reliability
from starqe.queries.gaps import MISSING, TAIL, Gaps, with_gap
from starqe.ragged import FloatArray, Ragged
from starqe.reason.has_value import HasValue
from starqe.reason.predictor.scales import Distributions, Levels, Scales
from starqe.reason.predictor.scorer import PredictorScorer

SHARES = (0.5, 0.8, 0.95)
"""The probabilities of the intervals that are checked."""
_LOOKED_AT = 200  # the number of values by which the usual datatype and unit of a relation are determined
LEAST_NUMBERS = 100
"""Relations with fewer values in validation are calibrated together; and with fewer in all, nothing is calibrated."""
UNCHANGED = Levels((0.0, 1.0))
"""The levels of predictions that are not calibrated."""


@dataclass(frozen=True, eq=False)
class NumberPredictor:
    """Predicts the numbers and dates of entities."""

    scorer: PredictorScorer
    scales: Scales
    levels: Mapping[str, Levels] = field(default_factory=dict)
    """The calibration of each relation."""
    has_value: HasValue | None = None
    """How probable it is that an entity has a value."""

    @classmethod
    def of(cls, scorer: object, levels: Mapping[str, Levels] | None = None) -> "NumberPredictor | None":
        """Returns the predictor of a scorer that has scales; None for any other scorer."""
        scales = scorer.predictor.scales if isinstance(scorer, PredictorScorer) else None
        return cls(scorer, scales, levels or {}) if isinstance(scorer, PredictorScorer) and scales is not None else None

    def predicts(self, relation: str) -> bool:
        """Returns whether the values of a relation are predicted."""
        relations = self.scales.graph.relations
        return relation in relations and bool(self.scales.relation[relations.id(relation)] >= 0)

    def tails(self, heads: Sequence[int], relation: str) -> Distributions:
        """Predicts the values that entities have for a relation."""
        count = len(heads)
        ids = np.full(count, self.scales.graph.relations.id(relation), np.int32)
        missing = np.full(count, MISSING, np.int32)
        gaps = Gaps(np.asarray(heads, np.int32), ids, missing, Ragged.empty(count, 2), Ragged.empty(count))
        return self.of_gaps(gaps)

    def existence(self, heads: Sequence[int], relation: str) -> FloatArray:
        """Returns the probability that each entity without a known value has one: (n,)."""
        if self.has_value is None:
            return np.ones(len(heads))
        scale = int(self.scales.relation[self.scales.graph.relations.id(relation)])
        return self.has_value.probability(scale, np.asarray(heads, np.int64))

    def of_gaps(self, gaps: Gaps) -> Distributions:
        """Predicts missing tails and values that are numbers or dates."""
        return replace(self.scorer.numbers(gaps), levels=tuple(self.levels.get(name, UNCHANGED) for name in self.scales.names))

    def literal(self, relation: str, number: float) -> Literal:
        """Writes a number as the values of a relation are written: with their usual datatype and unit."""
        datatype, unit = self._written[int(self.scales.relation[self.scales.graph.relations.id(relation)])]
        if datatype in (DATE, DATE_TIME, YEAR):
            day = date_of(number)
            return Literal({DATE: day, DATE_TIME: f"{day}T00:00:00Z", YEAR: day[: day.index("-", 1)]}[datatype], datatype)
        if datatype in NUMBERS and short_datatype(datatype) not in ("xsd:decimal", "xsd:double", "xsd:float"):
            return Literal(str(round(number)), datatype, unit=unit)
        return Literal(f"{float(f'{number:.6g}'):f}".rstrip("0").rstrip("."), datatype, unit=unit)

    @cached_property
    def _written(self) -> list[tuple[str, str]]:
        """The most frequent datatype of the values of each scale, and its unit."""
        graph, found = self.scales.graph, []
        for relation, axis in zip(self.scales.relations.tolist(), self.scales.axes, strict=True):
            values = np.concatenate([graph.tail[graph.relation == relation], graph.pair_value[graph.pair_relation == relation]])
            places = np.unique(values[values >= len(graph.entities)] - len(graph.entities))[:_LOOKED_AT]
            datatypes = [one.datatype for one in map(graph.literals.__getitem__, places.tolist()) if one.axis == axis]
            found.append((max(datatypes, key=datatypes.count, default=DATE if axis == "time" else DECIMAL), axis.partition(" ")[2]))
        return found


def number_statements(graph: Graph, split: str, limit: int | None = None) -> tuple[Gaps, FloatArray]:
    """Returns the statements of a split whose tail is a literal, each with a gap there, and the numbers that fill it."""
    rows = graph.known([split]).rows
    rows = rows[graph.tail[rows] >= len(graph.entities)]
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, limit).astype(np.int64))] if limit and limit < len(rows) else rows
    return with_gap(graph, rows, TAIL), graph.literals.numbers[graph.tail[rows] - len(graph.entities)]


def fit_levels(scorer: object, limit: int = 20_000) -> dict[str, Levels]:
    """Calibrates predicted numbers and dates by the quantiles at which the validation values lie.

    Relations with few values in validation are calibrated together.
    """
    numbers = NumberPredictor.of(scorer)
    if numbers is None:
        return {}
    gaps, values = number_statements(numbers.scales.part, "valid", limit)
    if len(gaps) < LEAST_NUMBERS:
        return {}
    found = numbers.of_gaps(gaps)
    below = found.below(values)
    few = np.bincount(found.scale, minlength=len(numbers.scales)) < LEAST_NUMBERS
    together = below[few[found.scale]] if few[found.scale].sum() >= LEAST_NUMBERS else below
    return {name: Levels.fitted(together if few[scale] else below[found.scale == scale]) for scale, name in enumerate(numbers.scales.names)}


class Errors(NamedTuple):
    """Errors in percent of the range of the values of a relation in train."""

    mae: float
    """The mean absolute error."""
    rmse: float
    """The square root of the mean squared error."""

    @classmethod
    def of(cls, error: FloatArray) -> "Errors":
        """Summarises single errors."""
        return cls(float(np.abs(error).mean()), float(np.sqrt(np.square(error).mean())))


@dataclass(frozen=True)
class NumberRow:
    """How well the values of a relation are predicted."""

    relation: str
    count: int
    """The number of statements that are predicted."""
    predicted: Errors
    """The errors of the medians of the predictions."""
    baseline: Errors
    """The errors of always predicting the median of the relation in train."""
    within: tuple[float, ...]
    """The share of the values, in percent, that lie in the interval of each of `SHARES`."""

    def to_json(self) -> dict[str, Any]:
        """Returns plain values."""
        errors = {
            "mae": self.predicted.mae,
            "rmse": self.predicted.rmse,
            "median_mae": self.baseline.mae,
            "median_rmse": self.baseline.rmse,
        }
        within = {f"within_{100 * share:.0f}": found for share, found in zip(SHARES, self.within, strict=True)}
        return {"relation": self.relation, "count": self.count, **errors, **within}


ALL_RELATIONS = "all"


def number_rows(numbers: NumberPredictor, split: str = "test", limit: int | None = None) -> list[NumberRow]:
    """Predicts the numbers and dates of a split, all qualifiers given, and compares with the median of each relation in train.

    Args:
        numbers: The predictor.
        split: Whose statements are predicted.
        limit: The number of statements, evenly spaced; all if left out.

    Returns:
        A row for each relation, the most frequent first, and one for all statements together.

    Raises:
        InputError: The split has no numbers or dates on a scale.
    """
    graph = numbers.scales.part
    gaps, values = number_statements(graph, split, limit)
    if not len(gaps):
        raise InputError(f"numbers and dates are predicted for statements that have them, found none in {split}")
    found = numbers.of_gaps(gaps)
    middle = found.quantile(0.5)
    learned, seen = number_statements(graph, "train")
    error, baseline = np.empty(len(values)), np.empty(len(values))
    for relation in np.unique(gaps.relation):
        own, train = gaps.relation == relation, seen[learned.relation == relation]
        knots = numbers.scales.of(int(numbers.scales.relation[relation]))
        train = train if len(train) else knots
        extent = max(train.max() - train.min(), knots[-1] - knots[0])
        error[own] = 100 * (middle[own] - values[own]) / extent
        baseline[own] = 100 * (np.median(train) - values[own]) / extent
    intervals = [(found.quantile(0.5 - share / 2), found.quantile(0.5 + share / 2)) for share in SHARES]
    within = [100.0 * ((low <= values) & (values <= high)) for low, high in intervals]
    every = np.ones(len(values), bool)
    frequent = sorted(np.unique(gaps.relation).tolist(), key=lambda relation: -int((gaps.relation == relation).sum()))
    chosen = [(graph.relations.identifier(relation), gaps.relation == relation) for relation in frequent]
    return [
        NumberRow(name, int(own.sum()), Errors.of(error[own]), Errors.of(baseline[own]), tuple(float(one[own].mean()) for one in within))
        for name, own in (*chosen, (ALL_RELATIONS, every))
    ]


def condition_reliability(numbers: NumberPredictor, split: str = "test", limit: int | None = None) -> Reliability:
    """Checks the probabilities of conditions such as ``?date < 1900``: each value is compared with nine limits, quantiles of its scale."""
    gaps, values = number_statements(numbers.scales.part, split, limit)
    found = numbers.of_gaps(gaps)
    knots = [numbers.scales.of(scale) for scale in range(len(numbers.scales))]
    limits = [np.array([np.quantile(knots[scale], share) for scale in found.scale.tolist()]) for share in np.arange(1, 10) / 10]
    return reliability(np.concatenate([found.below(one) for one in limits]), np.concatenate([values < one for one in limits]))
