"""The paper's findings about its tables, as rules that are checked on our numbers.

The published numbers are micro averages (see docs/evaluation.md), so a finding is judged by micro, and also by macro.
"""

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from starqe.measure.metrics import AVERAGES
from starqe.measure.paper import COMPARED
from starqe.measure.rows import AVERAGE, Row, over_seeds

MANY_STEPS = ("2p", "3p", "2i-1p", "1p-2i")
"""The shapes in which a query needs more than one step."""
EVERY_SHAPE = ("1p", "2p", "3p", "2i", "3i", "2i-1p", "1p-2i")
HITS = ("Hits@1", "Hits@3", "Hits@10")
COUNTED = (*HITS, "MRR", "AMRI")
"""The metrics of the paper's tables with deviations."""
ABOUT_ONE = 1.5
"""The median deviation, in points, that still counts as about one."""

Value = Callable[..., float]
"""Returns the number of a row, a shape and a metric (MRR if left out): protocol paper, the mean over seeds; NaN if it was not run."""


@dataclass(frozen=True)
class Verdict:
    """A finding of the paper, whether our numbers confirm it, and these numbers."""

    claim: str
    confirmed: bool | None
    """By the micro average, if there are averages; None if a number that it needs was not measured."""
    numbers: str
    by_macro: "Verdict | None" = None
    """The same finding by the macro average."""

    def __str__(self) -> str:
        """Returns the verdict as an item of a page, with its numbers folded away: there may be two hundred."""
        return f"**{self.word}**: {self.claim}<details><summary>numbers</summary>{self.all_numbers}</details>"

    @property
    def word(self) -> str:
        """The verdict in words; by average if the averages disagree."""
        word = _WORDS[self.confirmed]
        if self.by_macro is None or self.by_macro.confirmed == self.confirmed:
            return word
        return f"{word} by micro, {_WORDS[self.by_macro.confirmed]} by macro"

    @property
    def all_numbers(self) -> str:
        """The numbers by micro and by macro."""
        if self.by_macro is None or self.by_macro.numbers == self.numbers:
            return self.numbers
        return f"micro: {self.numbers} | macro: {self.by_macro.numbers}"


_WORDS = {True: "confirmed", False: "not confirmed", None: "not measured"}


@dataclass(frozen=True)
class Finding:
    """A claim, the rows, shapes and metrics it compares, and its rule."""

    claim: str
    rows: tuple[str, ...]
    shapes: tuple[str, ...]
    holds: Callable[[Value], bool]
    metrics: tuple[str, ...] = ("MRR",)

    def judge(self, value: Value) -> Verdict:
        """Checks the rule, and quotes every number that it uses."""
        named = f"{', '.join(self.metrics)} of {' / '.join(self.rows)}"
        values = {(row, shape, metric): value(row, shape, metric) for metric in self.metrics for shape in self.shapes for row in self.rows}
        if any(math.isnan(number) for number in values.values()):
            return Verdict(self.claim, None, named)
        quoted = []
        for metric in self.metrics:
            of = f"{metric} " if len(self.metrics) > 1 else ""
            quoted += [f"{of}{shape}: " + " / ".join(f"{values[row, shape, metric]:.1f}" for row in self.rows) for shape in self.shapes]
        return Verdict(self.claim, self.holds(value), f"{named}; {', '.join(quoted)}")


def _above(higher: str, lower: Sequence[str], shapes: Sequence[str]) -> Callable[[Value], bool]:
    return lambda value: all(value(higher, shape) > value(row, shape) for row in lower for shape in shapes)


def _ratio(one: float, other: float) -> float:
    """The lower as a share of the higher."""
    return min(one, other) / max(one, other, 1e-9)


_TRAINED = ("StarQE", "Triple-Only", "Reification", "Zero Layers")


def _share(value: Value, shape: str) -> float:
    """Zero Layers as a share of StarQE."""
    return value("Zero Layers", shape) / max(value("StarQE", shape), 1e-9)


def _amris(value: Value, rows: Sequence[str]) -> list[float]:
    return [value(row, shape, "AMRI") for row in rows for shape in EVERY_SHAPE]


_ORACLE_FALLS = Finding(
    "the smaller k, the harder for the Oracle: on every shape Hits@1 is below Hits@3, and Hits@3 below Hits@10",
    ("Oracle (all splits)",),
    EVERY_SHAPE,
    lambda value: all(
        value("Oracle (all splits)", shape, smaller) < value("Oracle (all splits)", shape, larger)
        for smaller, larger in pairwise(HITS)
        for shape in EVERY_SHAPE
    ),
    HITS,
)

FINDINGS: Mapping[str, Sequence[Finding]] = {
    "results": [
        Finding(
            "qualifiers help on 2p, 3p, 2i-1p and 1p-2i: StarQE is above Triple-Only on each",
            ("StarQE", "Triple-Only"),
            MANY_STEPS,
            _above("StarQE", ["Triple-Only"], MANY_STEPS),
        ),
        Finding(
            "reification is level with StarQE: of their means over the shapes, the lower is at least nine tenths of the higher",
            ("StarQE", "Reification"),
            (AVERAGE,),
            lambda value: _ratio(value("StarQE", AVERAGE), value("Reification", AVERAGE)) >= 0.9,
        ),
        Finding(
            "message passing matters: the mean of Zero Layers is below four fifths of that of StarQE",
            ("StarQE", "Zero Layers"),
            (AVERAGE,),
            lambda value: value("Zero Layers", AVERAGE) < 0.8 * value("StarQE", AVERAGE),
        ),
        Finding(
            "on 2p, 3p, 2i-1p and 1p-2i no model without qualifiers could do it: StarQE is above the Oracle",
            ("StarQE", "Oracle (all splits)"),
            MANY_STEPS,
            _above("StarQE", ["Oracle (all splits)"], MANY_STEPS),
        ),
        Finding(
            "StarQE is the best by Hits@k, except on 1p and 3i (the paper's own table has Reification ahead on 2i by Hits@3 and Hits@10)",
            ("StarQE", "Triple-Only", "Reification", "Zero Layers"),
            ("2p", "3p", "2i", "2i-1p", "1p-2i"),
            lambda value: all(
                value("StarQE", shape, metric) > value(row, shape, metric)
                for metric in HITS
                for shape in ("2p", "3p", "2i", "2i-1p", "1p-2i")
                for row in ("Triple-Only", "Reification", "Zero Layers")
            ),
            HITS,
        ),
        Finding(
            "by AMRI, StarQE falls behind Reification and Zero Layers: its mean over the shapes is below both",
            ("StarQE", "Reification", "Zero Layers"),
            (AVERAGE,),
            lambda value: value("StarQE", AVERAGE, "AMRI") < min(value(row, AVERAGE, "AMRI") for row in ("Reification", "Zero Layers")),
            ("AMRI",),
        ),
        _ORACLE_FALLS,
        Finding(
            "complex shapes are often answered better than 1p: StarQE is better on at least four of the six others",
            ("StarQE",),
            EVERY_SHAPE,
            lambda value: sum(value("StarQE", shape) > value("StarQE", "1p") for shape in EVERY_SHAPE) >= 4,
        ),
        Finding(
            "MRR is close to Hits@10: the mean of StarQE by MRR is at least four fifths of that by Hits@10",
            ("StarQE",),
            (AVERAGE,),
            lambda value: _ratio(value("StarQE", AVERAGE), value("StarQE", AVERAGE, "Hits@10")) >= 0.8,
            ("MRR", "Hits@10"),
        ),
        Finding(
            "the more paths intersect, the fewer mistakes: StarQE and the Oracle are better on 3i than on 2i, and on 2i than on 1p",
            ("StarQE", "Oracle (all splits)"),
            ("1p", "2i", "3i"),
            lambda value: all(value(row, "1p") < value(row, "2i") < value(row, "3i") for row in ("StarQE", "Oracle (all splits)")),
        ),
        Finding(
            "star-shaped queries need layers least: as a share of StarQE, Zero Layers is better on 1p, 2i and 3i than on any other shape",
            ("StarQE", "Zero Layers"),
            EVERY_SHAPE,
            lambda value: min(_share(value, shape) for shape in ("1p", "2i", "3i")) > max(_share(value, shape) for shape in MANY_STEPS),
        ),
        Finding(
            "the Oracle bounds what is possible without qualifiers: it is above Triple-Only on every shape",
            ("Oracle (all splits)", "Triple-Only"),
            EVERY_SHAPE,
            _above("Oracle (all splits)", ["Triple-Only"], EVERY_SHAPE),
        ),
        Finding(
            "AMRI is usually beyond 90: of the trained rows every cell is above 50 and most are above 90, and the Oracle is above 99",
            (*_TRAINED, "Oracle (all splits)"),
            EVERY_SHAPE,
            lambda value: (
                min(_amris(value, _TRAINED)) > 50
                and sum(amri > 90 for amri in _amris(value, _TRAINED)) > len(_TRAINED) * len(EVERY_SHAPE) / 2
                and min(_amris(value, ("Oracle (all splits)",))) > 99
            ),
            ("AMRI",),
        ),
    ],
    "generalisation": [
        Finding(
            "projections matter for generalisation: on 2p, 3p and 2i-1p, EmQL-like and MPQE-like are below Q2B-like",
            ("Q2B-like", "EmQL-like", "MPQE-like"),
            ("2p", "3p", "2i-1p"),
            _above("Q2B-like", ["EmQL-like", "MPQE-like"], ["2p", "3p", "2i-1p"]),
        ),
        Finding(
            "it is not necessary to train on all shapes: on 2i-1p and 1p-2i, Q2B-like has at least three quarters of what StarQE-like has",
            ("StarQE-like", "Q2B-like"),
            ("2i-1p", "1p-2i"),
            lambda value: all(value("Q2B-like", shape) >= 0.75 * value("StarQE-like", shape) for shape in ("2i-1p", "1p-2i")),
        ),
        Finding(
            "every regime generalises to intersections: each is better on 2i and 3i than on 1p",
            ("Q2B-like", "EmQL-like", "MPQE-like", "MPQE-like + Reification"),
            ("1p", "2i", "3i"),
            lambda value: all(
                min(value(row, "2i"), value(row, "3i")) > value(row, "1p")
                for row in ("Q2B-like", "EmQL-like", "MPQE-like", "MPQE-like + Reification")
            ),
        ),
        Finding(
            "reification impedes generalisation: on 2p, 3p, 2i-1p and 1p-2i, MPQE-like + Reification is below MPQE-like on average",
            ("MPQE-like", "MPQE-like + Reification"),
            MANY_STEPS,
            lambda value: sum(value("MPQE-like", shape) - value("MPQE-like + Reification", shape) for shape in MANY_STEPS) > 0,
        ),
        Finding(
            "training on 1p alone is the hardest: the mean of MPQE-like is below those of Q2B-like and EmQL-like",
            ("Q2B-like", "EmQL-like", "MPQE-like"),
            (AVERAGE,),
            lambda value: value("MPQE-like", AVERAGE) < min(value(row, AVERAGE) for row in ("Q2B-like", "EmQL-like")),
        ),
    ],
    "faithfulness": [
        Finding(
            "a model trained on all shapes answers its own training queries almost perfectly: a mean of at least 90",
            ("StarQE-like",),
            (AVERAGE,),
            lambda value: value("StarQE-like", AVERAGE) >= 90,
        ),
        Finding(
            "training on one shape inhibits faithfulness: on 2p, 3p, 2i-1p and 1p-2i, MPQE-like is below StarQE-like",
            ("StarQE-like", "MPQE-like"),
            MANY_STEPS,
            _above("StarQE-like", ["MPQE-like"], MANY_STEPS),
        ),
    ],
    "oracle": [_ORACLE_FALLS],
    "pooling": [
        Finding(
            "relations in the pooling make little difference: of the means of Zero Layers with and without them, the lower is at least "
            "nine tenths of the higher",
            ("Zero Layers", "Zero Layers + Relations"),
            (AVERAGE,),
            lambda value: _ratio(value("Zero Layers", AVERAGE), value("Zero Layers + Relations", AVERAGE)) >= 0.9,
        ),
    ],
    "diameter": [
        Finding(
            "as many steps as the diameter, or one more, do not lead to better results: neither mean is above that of StarQE",
            ("StarQE", "Diameter", "Diameter + 1"),
            (AVERAGE,),
            lambda value: max(value("Diameter", AVERAGE), value("Diameter + 1", AVERAGE)) <= value("StarQE", AVERAGE),
        ),
    ],
}
"""The findings about each table; the rules are ours, since the paper states its findings in words."""


def verdicts(table: str, rows: Sequence[Row]) -> list[Verdict]:
    """Judges the findings about a table by its numbers, by both averages."""
    chosen = [row for row in rows if row.protocol == "paper"]
    numbers = {(row.average, row.name, row.shape, row.metric): row.ours for row in over_seeds(chosen)}

    def value_by(average: str) -> Value:
        def value(row: str, shape: str, metric: str = "MRR") -> float:
            found = numbers.get((average, row, shape, metric))
            return math.nan if found is None else float(found)

        return value

    return [by_both({average: finding.judge(value_by(average)) for average in AVERAGES}) for finding in FINDINGS.get(table, ())]


def deviations(rows: Sequence[Row], trained: Collection[str]) -> list[Verdict]:
    """Judges, for the rows of several seeds, that their deviations are about one point; returns nothing for a single seed."""
    claim = f"deviations over seeds are about one point: their median over rows, shapes and metrics is at most {ABOUT_ONE:g}"
    merged = over_seeds([row for row in rows if row.protocol == "paper" and row.name in trained and row.shape in EVERY_SHAPE])
    judged = {}
    for average in AVERAGES:
        found = [(row, row.deviation) for row in merged if row.average == average and row.metric in COUNTED and row.deviation is not None]
        if not found:
            return []
        parts = {name: [deviation for row, deviation in found if row.name == name] for name in trained}
        medians = ", ".join(f"{name} {statistics.median(of):.2f}" for name, of in parts.items() if of)
        most, largest = max(found, key=lambda pair: pair[1])
        middle = statistics.median(deviation for _, deviation in found)
        numbers = f"medians: {medians}, all {middle:.2f}; the largest: {most.name} {most.shape} by {most.metric} {largest:.2f}"
        judged[average] = Verdict(claim, middle <= ABOUT_ONE, numbers)
    return [by_both(judged)]


def by_both(judged: Mapping[str, Verdict]) -> Verdict:
    """Combines the verdicts of both averages: that of the published average, with the other attached."""
    return replace(judged[COMPARED], by_macro=judged["macro"])
