"""Result rows: the type of every result, from evaluations to printed tables.

In addition to the shapes there are ``average``, the mean over the shapes, and ``all``, with the queries of all shapes pooled.
"""

import math
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypeVar, get_args, get_type_hints

import numpy as np

from starqe.errors import InputError
from starqe.measure.metrics import AVERAGES, METRICS, Accumulator, Estimate, mean_estimate

AVERAGE, ALL = "average", "all"
"""The names, in place of a shape, of the mean over the shapes and of all queries pooled."""

OPTIONAL = ("deviation", "missing", "reduction")
"""The cells that JSON omits if they are empty."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One number with its description."""

    name: str
    """What was evaluated: ``row`` in JSON and CSV."""
    shape: str
    metric: str
    average: str
    """``micro`` or ``macro``; empty if nothing is averaged."""
    protocol: str
    n: int
    """The number of things that count the same: ranked answers for micro, queries for macro."""
    seed: int | tuple[int, ...] | None
    ours: float | None
    """In percent if the metric is a share; None if there is no number."""
    paper: float | None = None
    """The comparable published number."""
    low: float | None = None
    """The lower end of the confidence interval over queries."""
    high: float | None = None
    ties: str | None = None
    dropped: int | None = None
    """The number of queries without anything to rank."""
    deviation: float | None = None
    """The standard deviation over seeds."""
    missing: str = ""
    """Why there is no number."""
    reduction: str = ""
    """The class of the ranked answers, by the edges that train lacks; empty where all are ranked."""

    @property
    def number(self) -> float:
        """``ours`` of a row that has a number."""
        assert self.ours is not None, "rows without a number are filtered out before"
        return self.ours

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, or None if one is missing."""
        return None if self.ours is None or self.paper is None else self.ours - self.paper

    def to_json(self) -> dict[str, Any]:
        """Returns the cells for JSON."""
        cells = {_key(field.name): getattr(self, field.name) for field in fields(self)}
        kept = {key: value for key, value in cells.items() if key not in OPTIONAL or value not in (None, "")}
        return {**kept, "seed": list(self.seed) if isinstance(self.seed, tuple) else self.seed}

    @classmethod
    def from_json(cls, cells: Mapping[str, Any]) -> Self:
        """Reads what `to_json` wrote; cells that have a default may be left out.

        Raises:
            InputError: A cell is missing, unknown or of the wrong type.
        """
        known = {_key(field.name): field.name for field in fields(cls)}
        cells = {key: value for key, value in cells.items() if key != "difference"}  # it is computed from two others
        if unknown := sorted(cells.keys() - known.keys()):
            raise InputError(f"the cells of a row are {', '.join(known)}; found '{unknown[0]}'")
        values: dict[str, Any] = {known[key]: tuple(value) if isinstance(value, list) else value for key, value in cells.items()}
        hints = get_type_hints(cls)
        for name, value in values.items():
            if not isinstance(value, _runtime_types(hints[name])):
                raise InputError(f"the cell '{_key(name)}' of a row is {hints[name]}, found {value!r}")
        try:
            return cls(**values)
        except TypeError as error:
            raise InputError(f"a row lacks a cell ({error})") from None


AnyRow = TypeVar("AnyRow", bound=Row)


def _key(field: str) -> str:
    """Returns the name of a cell in JSON and CSV."""
    return "row" if field == "name" else field


def _runtime_types(hint: Any) -> tuple[type, ...]:
    """Returns the runtime classes of values of this type; an int counts as a float."""
    parts = get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    plain = tuple(getattr(part, "__origin__", part) for part in parts)
    return (*plain, int) if float in plain else plain


def check_names(shapes: Iterable[str]) -> None:
    """Checks that no shape has a name that is reserved for results over all shapes.

    Raises:
        InputError: A shape has such a name.
    """
    for shape in shapes:
        if shape in (AVERAGE, ALL):
            raise InputError(f"'{AVERAGE}' and '{ALL}' name the results over all shapes, found a shape '{shape}'. Rename the shape")


def report(
    sums: Mapping[str, Accumulator],
    dropped: Mapping[str, int],
    *,
    name: str,
    protocol: str,
    seed: int | None,
    ties: str,
    confidence: float = 0.95,
) -> list[Row]:
    """Returns the rows of accumulated ranks: every metric and average, by shape and overall.

    Args:
        sums: One accumulator per shape.
        dropped: The number of queries of each shape that had nothing to rank.
        name: What was evaluated.
        protocol: Which answers were ranked and filtered.
        seed: The seed of the model.
        ties: How equal scores were ranked.
        confidence: The confidence of the intervals.

    Raises:
        InputError: A shape has a reserved name.
    """
    check_names(sums)
    rows = []
    pooled = _pool(sums)
    for metric in METRICS:
        for average in AVERAGES:
            found = {shape: part.estimate(metric, average, confidence) for shape, part in sums.items()}
            if pooled is not None:
                found[AVERAGE] = mean_estimate(sums.values(), metric, average, confidence)
                found[ALL] = pooled.estimate(metric, average, confidence)
            for shape, estimate in found.items():
                ours, low, high = _shown(metric, estimate)
                lost = dropped[shape] if shape in dropped else sum(dropped.values())
                about = Row(name=name, shape=shape, metric=metric, average=average, protocol=protocol, n=estimate.n, seed=seed, ours=ours)
                rows.append(replace(about, low=low, high=high, ties=ties, dropped=lost))
    return rows


def over_seeds(rows: Iterable[AnyRow]) -> list[AnyRow]:
    """Merges the rows that differ only in their seed: mean and standard deviation of ``ours``.

    The deviation is that of a sample (n - 1), and None for a single seed. Intervals over queries are dropped: they say
    nothing about seeds. ``seed`` becomes all seeds; the order is that of first mention.
    """
    groups: dict[tuple[str, ...], list[AnyRow]] = {}
    for row in rows:
        groups.setdefault((row.name, row.shape, row.metric, row.average, row.protocol, row.reduction), []).append(row)
    merged = []
    for group in groups.values():
        values = [row.ours for row in group if row.ours is not None]
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
        mean = math.fsum(values) / len(values) if values else None
        seeds = tuple(row.seed for row in group if isinstance(row.seed, int))
        merged.append(replace(group[0], seed=seeds, ours=mean, deviation=deviation, low=None, high=None))
    return merged


def _shown(metric: str, estimate: Estimate) -> tuple[float | None, float | None, float | None]:
    """Returns value and interval as they are shown: in percent, and None for what is not a number."""
    factor = 100 if METRICS[metric].percent else 1
    value, low, high = (None if math.isnan(part) else factor * part for part in (estimate.value, estimate.low, estimate.high))
    return value, low, high


def _pool(sums: Mapping[str, Accumulator]) -> Accumulator | None:
    pooled = None
    for part in sums.values():
        pooled = part if pooled is None else pooled + part
    return pooled
