"""What the paper says about its tables in words, as rules that numbers of ours keep or break."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from starqe.measure.rows import AVERAGE, Row, over_seeds

MANY_STEPS = ("2p", "3p", "2i-1p", "1p-2i")
"""The shapes in which a query needs more than one step."""

Value = Callable[[str, str], float]
"""Gives the number of a row and a shape: MRR, macro, protocol paper, the mean over seeds; NaN where it was not run."""


@dataclass(frozen=True)
class Verdict:
    """A finding of the paper, whether ours confirms it, and the numbers that say so."""

    claim: str
    confirmed: bool | None
    """None if a number that it needs was not run."""
    numbers: str

    def __str__(self) -> str:
        return f"**{self.word}**: {self.claim} ({self.numbers})"

    @property
    def word(self) -> str:
        """The verdict in words."""
        return {True: "confirmed", False: "not confirmed", None: "not run"}[self.confirmed]


@dataclass(frozen=True)
class Finding:
    """A claim, the rows and shapes it compares, and its rule."""

    claim: str
    rows: tuple[str, ...]
    shapes: tuple[str, ...]
    holds: Callable[[Value], bool]

    def judge(self, value: Value) -> Verdict:
        """Looks whether the rule holds, and quotes every number that it looks at."""
        quoted = [f"{shape}: " + " / ".join(f"{value(row, shape):.1f}" for row in self.rows) for shape in self.shapes]
        numbers = f"MRR of {' / '.join(self.rows)}; {', '.join(quoted)}"
        known = all(not math.isnan(value(row, shape)) for row in self.rows for shape in self.shapes)
        return Verdict(self.claim, self.holds(value) if known else None, numbers if known else f"MRR of {' / '.join(self.rows)}")


def _above(higher: str, lower: Sequence[str], shapes: Sequence[str]) -> Callable[[Value], bool]:
    return lambda value: all(value(higher, shape) > value(row, shape) for row in lower for shape in shapes)


def _ratio(one: float, other: float) -> float:
    """The lower as a share of the higher."""
    return min(one, other) / max(one, other, 1e-9)


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
    "diameter": [
        Finding(
            "as many steps as the diameter, or one more, do not lead to better results: neither mean is above that of StarQE",
            ("StarQE", "Diameter", "Diameter + 1"),
            (AVERAGE,),
            lambda value: max(value("Diameter", AVERAGE), value("Diameter + 1", AVERAGE)) <= value("StarQE", AVERAGE),
        ),
    ],
}
"""The findings about the tables of trained models; the rules are ours, since the paper speaks of what it sees."""


def verdicts(table: str, rows: Sequence[Row]) -> list[Verdict]:
    """Judges the findings about a table by its numbers."""
    chosen = [row for row in rows if (row["metric"], row["average"], row["protocol"]) == ("MRR", "macro", "paper")]
    numbers = {(row["row"], row["shape"]): row["ours"] for row in over_seeds(chosen)}

    def value(row: str, shape: str) -> float:
        found = numbers.get((row, shape))
        return math.nan if found is None else float(found)

    return [finding.judge(value) for finding in FINDINGS.get(table, ())]
