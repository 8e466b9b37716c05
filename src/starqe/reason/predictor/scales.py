"""Scales: numbers and dates as a model sees them.

A scale belongs to a relation and has knots: quantiles of the values that the relation has in train, as tails and in qualifiers. A model
has an embedding for each knot. A value between two knots is a mixture of both, so that 1921 is close to 1922 if either was never seen.

n values · L literals of the graph.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from starqe.errors import InputError
from starqe.kg import Graph
from starqe.kg.graph import part_with
from starqe.ragged import BoolArray, FloatArray, IntArray, Ragged

LEAST = 10
"""A relation with fewer values in train has no scale."""
PER_KNOT = 5
"""The minimum number of values in train per knot."""


@dataclass(frozen=True, eq=False)
class Scales:
    """The scales of some relations, for the literals of one graph."""

    axes: tuple[str, ...]
    """What is on each scale: ``time``, or ``number`` with its unit."""
    relation: IntArray  # (relations,) the scale of each relation, or -1
    sizes: IntArray  # (scales,) the number of knots
    knots: FloatArray  # all knots, scale by scale, ascending in each
    graph: Graph
    """The whole graph, with its literals."""

    @classmethod
    def fitted(cls, graph: Graph, most: int, splits: Sequence[str]) -> Self:
        """Makes the scales of all relations that have enough values in some splits.

        Args:
            graph: The whole graph.
            most: The maximum number of knots of a scale.
            splits: The splits whose values count.
        """
        found = {}
        names, axis = graph.literals.axes
        rows = graph.known(splits).rows
        pairs = graph.pairs.take(rows).items
        relation = np.concatenate([graph.relation[rows], pairs[:, 0]])
        place = np.concatenate([graph.tail[rows], pairs[:, 1]]).astype(np.int64) - len(graph.entities)
        relation, place = relation[place >= 0], place[place >= 0]
        for one in np.unique(relation).tolist() if most else []:
            own = place[relation == one]
            own = own[axis[own] > 0]
            if not len(own):
                continue
            usual = int(np.bincount(axis[own]).argmax())
            numbers = graph.literals.numbers[own[axis[own] == usual]]
            if len(numbers) >= LEAST:
                shares = np.linspace(0, 1, min(most, max(2, len(numbers) // PER_KNOT)))
                knots = np.unique(np.quantile(numbers, shares))
                if len(knots) > 1:
                    found[graph.relations.identifier(one)] = {"axis": names[usual], "knots": knots.tolist()}
        return cls.of_json(found, graph)

    @classmethod
    def of_json(cls, content: Mapping[str, Any], graph: Graph) -> Self:
        """Reads scales by the identifiers of their relations; those of relations that the graph lacks are left out."""
        own = {name: scale for name, scale in content.items() if name in graph.relations}
        relation = np.full(len(graph.relations), -1, np.int64)
        for scale, name in enumerate(own):
            relation[graph.relations.id(name)] = scale
        knots = [np.asarray(scale["knots"], np.float64) for scale in own.values()]
        sizes = np.array([len(part) for part in knots], np.int64)
        axes = tuple(str(scale["axis"]) for scale in own.values())
        return cls(axes, relation, sizes, np.concatenate([*knots, np.empty(0)]), graph)

    @cached_property
    def relations(self) -> IntArray:
        """The relation of each scale."""
        return np.argsort(self.relation, kind="stable")[len(self.relation) - len(self) :]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The relation of each scale, by its identifier."""
        return tuple(self.graph.relations.identifier(id_) for id_ in self.relations.tolist())

    def to_json(self) -> str:
        """Writes the scales by the identifiers of their relations."""
        content = {name: {"axis": self.axes[scale], "knots": self.of(scale).tolist()} for scale, name in enumerate(self.names)}
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def places(self) -> Ragged:
        """The numbers of the knots of each scale."""
        return Ragged.of_counts(self.sizes, np.arange(len(self.knots)))

    def of(self, scale: int) -> FloatArray:
        """Returns the knots of a scale."""
        return self.knots[self.places[scale]]

    def has(self, relation: IntArray, value: IntArray) -> BoolArray:
        """Returns which values (entities or literals) are literals on the scale of their relation: (n,)."""
        place = value.astype(np.int64) - len(self.graph.entities)
        scale, literal = self.relation[relation], place >= 0
        on_scale = np.zeros(len(place), bool)
        on_scale[literal] = (scale[literal] >= 0) & (self._axis[place[literal]] == self._axis_of_scale[scale[literal]])
        return on_scale

    def between(self, relation: IntArray, value: IntArray) -> tuple[IntArray, FloatArray]:
        """Returns the knot below each literal, and the share of the next knot in it: (n,) both.

        Raises:
            InputError: A value is not on the scale of its relation.
        """
        if not self.has(relation, value).all():
            raise InputError("a model takes the numbers and dates that are on the scale of their relation, found another literal")
        return self.at(self.relation[relation], self.graph.literals.numbers[value - len(self.graph.entities)])

    def at(self, scale: IntArray, number: FloatArray) -> tuple[IntArray, FloatArray]:
        """Returns the knot below each number on a scale, and the share of the next knot; beyond the ends, the last knot: (n,) both."""
        below, share = np.zeros(len(scale), np.int64), np.zeros(len(scale))
        for one in np.unique(scale).tolist():
            chosen, knots = scale == one, self.of(one)
            place = np.clip(np.searchsorted(knots, number[chosen], "right") - 1, 0, len(knots) - 2)
            below[chosen] = self.places.offsets[one] + place
            share[chosen] = np.clip((number[chosen] - knots[place]) / (knots[place + 1] - knots[place]), 0, 1)
        return below, share

    @cached_property
    def part(self) -> Graph:
        """The graph with entities and the literals that are on a scale; others are left out."""
        graph = self.graph
        statements = (graph.tail < len(graph.entities)) | self.has(graph.relation, graph.tail)
        pairs = (graph.pair_value < len(graph.entities)) | self.has(graph.pair_relation, graph.pair_value)
        return part_with(graph, statements, pairs, graph.entities, graph.relations, graph.literals)

    @cached_property
    def _axis(self) -> IntArray:
        return self.graph.literals.axes[1]

    @cached_property
    def _axis_of_scale(self) -> IntArray:
        names = self.graph.literals.axes[0]
        return np.array([names.index(axis) if axis in names else -1 for axis in self.axes], np.int64)


@dataclass(frozen=True)
class Levels:
    """A calibration of distributions by quantiles: how often true values lie below a predicted quantile.

    Raises:
        ValueError: The shares are not ascending probabilities.
    """

    shares: tuple[float, ...]
    """The share of the prediction below which 0, 1/n, 2/n, … 1 of the values lie."""

    def __post_init__(self) -> None:
        if len(self.shares) < 2 or not (np.diff((0.0, *self.shares, 1.0)) >= 0).all():
            raise ValueError(f"levels are ascending probabilities, found {self.shares}")

    @classmethod
    def fitted(cls, shares: FloatArray, count: int = 20) -> "Levels":
        """Fits the levels to the predicted quantiles of observed values."""
        inner = np.quantile(shares, np.linspace(0, 1, count + 1)[1:-1])
        return cls((0.0, *inner.tolist(), 1.0))

    def predicted(self, shares: FloatArray) -> FloatArray:
        """Returns the predicted quantiles that values are below with these probabilities."""
        return np.interp(shares, self._even, self.shares)

    def true(self, predicted: float) -> float:
        """Returns the calibrated probability that a value is below this predicted quantile."""
        return float(np.interp(predicted, self.shares, self._even))

    @property
    def _even(self) -> FloatArray:
        return np.linspace(0, 1, len(self.shares))


@dataclass(frozen=True, eq=False)
class Distributions:
    """Predicted distributions of some numbers: the probability of each knot of their scales.

    Half of the probability of a knot lies below it; between two knots the density is uniform.
    """

    scale: IntArray  # (n,)
    shares: Ragged
    """The probabilities of the knots of each number's scale."""
    scales: Scales
    levels: tuple[Levels, ...] = ()
    """The calibration of each scale; empty if the distributions are not calibrated."""

    def __len__(self) -> int:
        return len(self.scale)

    def quantile(self, share: float) -> FloatArray:
        """Returns the number that each value is below with this probability: (n,)."""
        return self.quantiles(np.array([share]))[:, 0]

    def quantiles(self, shares: FloatArray) -> FloatArray:
        """Returns the numbers that each value is below with these probabilities: (n, shares)."""
        own = [levels.predicted(shares) for levels in self.levels] or [shares] * len(self.scales)
        found = [np.interp(own[scale], self._below(row), self.scales.of(scale)) for row, scale in enumerate(self.scale.tolist())]
        return np.array(found, np.float64).reshape(len(self), len(shares))

    def below(self, number: FloatArray) -> FloatArray:
        """Returns the probability that each value is below a number: (n,)."""
        found = []
        for row, (scale, one) in enumerate(zip(self.scale.tolist(), number.tolist(), strict=True)):
            share = float(np.interp(one, self.scales.of(scale), self._below(row), 0.0, 1.0))
            found.append(self.levels[scale].true(share) if self.levels else share)
        return np.array(found, np.float64)

    def _below(self, row: int) -> FloatArray:
        """Returns the probability of being below each knot: (knots,)."""
        shares = self.shares[row]
        return np.asarray(np.cumsum(shares) - shares / 2)
