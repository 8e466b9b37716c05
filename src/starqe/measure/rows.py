"""Rows: the form of every result, from an evaluation to a printed table.

A row is a dict: ``row`` (what was evaluated), ``shape``, ``metric``, ``average``, ``protocol``, ``n`` (the things that
count the same: ranked answers for micro, queries for macro), ``seed``, ``ours`` and ``paper`` (in percent where the
metric is a share, None where there is no number), ``low`` and ``high`` (the confidence interval over queries of ``ours``),
``ties``, and ``dropped`` (queries without anything to rank). Beside the shapes stand ``average``, the mean over the
shapes, and ``all``, where the queries of all shapes are pooled.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from starqe.errors import InputError
from starqe.measure.metrics import AVERAGES, METRICS, Accumulator, Estimate, mean_estimate

AVERAGE, ALL = "average", "all"
"""The names, in place of a shape, of the mean over the shapes and of all queries pooled."""

Row = dict[str, Any]


def check_names(shapes: Iterable[str]) -> None:
    """Checks that no shape is called as the results over all shapes are.

    Raises:
        InputError: A shape has such a name.
    """
    for shape in shapes:
        if shape in (AVERAGE, ALL):
            raise InputError(f"'{AVERAGE}' and '{ALL}' name the results over all shapes, found a shape '{shape}'. Rename the shape")


def report(sums: Mapping[str, Accumulator], dropped: Mapping[str, int], given: Mapping[str, Any], confidence: float = 0.95) -> list[Row]:
    """Gives the rows of what was summed by shape: every metric and average, by shape and overall.

    Args:
        sums: One accumulator a shape.
        dropped: How many queries of each shape had nothing to rank.
        given: What is the same in all rows: row, protocol, seed, ties.
        confidence: The confidence of the intervals.

    Raises:
        InputError: A shape is called as the results over all shapes are.
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
                lost = dropped[shape] if shape in dropped else sum(dropped.values())
                rows.append(_row(metric, average, shape, estimate, {**given, "dropped": lost}))
    return rows


def over_seeds(rows: Iterable[Row]) -> list[Row]:
    """Gives one row for the rows that differ in nothing but their seed: mean and standard deviation of ``ours``.

    The deviation is that of a sample (n - 1), and None for a single seed. Intervals over queries are dropped: they say
    nothing about seeds. ``seed`` becomes the list of seeds; the order is that of first mention.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in ("row", "shape", "metric", "average", "protocol")), []).append(row)
    merged = []
    for group in groups.values():
        values = [row["ours"] for row in group if row["ours"] is not None]
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else None
        mean = math.fsum(values) / len(values) if values else None
        kept = {key: value for key, value in group[0].items() if key not in ("low", "high")}
        merged.append({**kept, "seed": [row["seed"] for row in group], "ours": mean, "deviation": deviation})
    return merged


def _row(metric: str, average: str, shape: str, estimate: Estimate, given: Mapping[str, Any]) -> Row:
    factor = 100 if METRICS[metric].percent else 1
    ours, low, high = (None if math.isnan(value) else factor * value for value in (estimate.value, estimate.low, estimate.high))
    keys = {"row": given["row"], "shape": shape, "metric": metric, "average": average, "protocol": given["protocol"]}
    return {**keys, "n": estimate.n, "seed": given["seed"], "ours": ours, "paper": None, "low": low, "high": high, **given}


def _pool(sums: Mapping[str, Accumulator]) -> Accumulator | None:
    pooled = None
    for part in sums.values():
        pooled = part if pooled is None else pooled + part
    return pooled
