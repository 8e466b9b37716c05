"""Explanations in lines of text."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from starqe.cli.show import as_probability

if TYPE_CHECKING:
    from starqe.ask import Answerer, Explanation
    from starqe.kg import Statement
    from starqe.queries import Atom
    from starqe.reason import Group, Reason
    from starqe.reason.executor.derivation import Part

IRI = re.compile(r"([a-z][a-z0-9+.-]*://\S*[/#])([^/#\s]+)", re.IGNORECASE)
"""All of an IRI but its last part, and that."""


def shown_label(label: str) -> str:
    """Returns a label as it is shown: an IRI that stands in for one is cut down to its last part."""
    found = IRI.fullmatch(label)
    return found[2] if found else label


def reasons_text(answerer: "Answerer", explanation: "Explanation") -> str:
    """Writes an explanation in lines: each statement, and whether it is a fact or a prediction; options and negations above theirs."""
    answer = explanation.answer
    labels = ", ".join(shown_label(one.label) for one in answer.bindings.values() if one is not None) or "yes"
    mark = "" if explanation.calibrated else " (not calibrated)"
    lines = [f"{labels}: {'known' if answer.known else f'predicted, probability{mark} {as_probability(answer.probability)}'}"]
    lines += _Lines(answerer, mark).of(explanation.derivation.root, "  ")
    if (views := explanation.views) is not None:
        lines.append(f"  these statements together: {as_probability(views.statements)}")
        lines.append(
            f"  the model's score for the whole question: {as_probability(views.model)} (counts {1 - views.weight:.0%} of the ranking)"
        )
    return "\n".join(lines)


class _Lines:
    """Writes the parts of a derivation."""

    def __init__(self, answerer: "Answerer", mark: str) -> None:
        self._answerer, self._mark = answerer, mark

    def of(self, part: "Part", indent: str, negated: bool = False) -> Iterator[str]:
        """Yields the lines of a part; in a negation, a statement that is not a fact is missing, not predicted."""
        from starqe.reason import Equation, Reason

        if isinstance(part, Reason):
            yield from self._reason(part, indent, negated)
        elif isinstance(part, Equation):
            sign = "=" if part.truth else "is not"
            yield f"{indent}{'compared':<14} {self._entity(str(part.same.left))} {sign} {self._entity(str(part.same.right))}"
        elif part.kind == "all":
            for inner in part.parts:
                yield from self.of(inner, indent, negated)
        elif part.kind == "any":
            yield from self._options(part, indent, negated)
        else:
            yield from self._negation(part, indent, negated)

    def _options(self, part: "Group", indent: str, negated: bool) -> Iterator[str]:
        yield f"{indent}at least one of {len(part.parts)} options: {as_probability(part.truth)}"
        for place in sorted(range(len(part.parts)), key=lambda place: (place != part.chosen, place)):
            name = "this option explains it" if place == part.chosen else "another option"
            yield f"{indent}  {name}: {as_probability(part.parts[place].truth)}"
            yield from self.of(part.parts[place], f"{indent}    ", negated)

    def _negation(self, part: "Group", indent: str, negated: bool) -> Iterator[str]:
        from starqe.reason import Equation, Reason

        (inner,) = part.parts
        if isinstance(inner, Equation):
            yield from self.of(inner, indent, not negated)
        elif isinstance(inner, Reason) and not inner.fact:
            chance = as_probability(inner.probability)
            yield f"{indent}relies on: no statement {self._statement(inner.atom)}; probability that there is one{self._mark} {chance}"
        else:
            yield f"{indent}relies on: not all of this; probability that it holds{self._mark} {as_probability(inner.truth)}"
            yield from self.of(inner, f"{indent}  ", not negated)

    def _reason(self, reason: "Reason", indent: str, negated: bool) -> Iterator[str]:
        word = "missing" if negated else "predicted"
        kind = "fact" if reason.fact else f"{word} {as_probability(reason.probability)}{self._mark}"
        yield f"{indent}{kind:<14} {self._statement(reason.atom)}"
        for part in reason.contributions:
            difference = round(part.difference, 2) + 0.0  # never -0.00
            yield f"{indent}    {self._relation(part.relation)}: {self._entity(part.value)} contributed {difference:+.2f}"
        for rule in reason.rules:
            yield f"{indent}    rule: {rule.rule} (right in {rule.support:,} of {rule.body:,})"
            for one in rule.statements:
                yield f"{indent}      fact         {self._statement(one)}"

    def _statement(self, one: "Atom | Statement") -> str:
        pairs = "; ".join(f"{self._relation(str(r))}: {self._entity(str(v))}" for r, v in one.qualifiers)
        main = f"{self._entity(str(one.head))} - {self._relation(str(one.relation))} - {self._entity(str(one.tail))}"
        return main + (f"  ({pairs})" if pairs else "")

    def _entity(self, name: str) -> str:
        return shown_label(self._answerer.label(name))

    def _relation(self, name: str) -> str:
        return shown_label(self._answerer.relation_label(name))
