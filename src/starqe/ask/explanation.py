"""Explanations: why a row answers a query, statement by statement."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from starqe.ask.answers import Answer
from starqe.kg import Statement
from starqe.queries import Atom, Query
from starqe.reason import Derivation, Equation, Group, Reason
from starqe.reason.executor.derivation import Part


@dataclass(frozen=True)
class Views:
    """The two scores that make up the probability of a predicted answer."""

    statements: float
    """The executor's score: the truth of the statements of the explanation together."""
    exact: bool
    """Whether this is the best derivation; if not, skipped candidates might give a better one."""
    model: float
    """The encoder's score for the whole question: the softmax probability of this entity."""
    weight: float
    """The weight of the executor's score, from 0 to 1; the encoder has the rest."""


@dataclass(frozen=True)
class Explanation:
    """Why a row answers a query: one derivation, statement by statement."""

    query: Query
    answer: Answer
    derivation: Derivation
    note: str
    """A note on the reliability of the explanation."""
    calibrated: bool = True
    """Whether its probabilities were fitted on enough validation data to be taken as probabilities."""
    views: Views | None = None
    """For a prediction: the components of its probability."""

    @property
    def assignment(self) -> Mapping[str, str]:
        """The values of the variables of the query, by name."""
        return self.derivation.assignment

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Every statement that the query asks for, in the order of its atoms."""
        return self.derivation.reasons

    def as_dict(self) -> dict[str, Any]:
        """Returns everything but the query as plain values."""
        return {
            "answer": {
                "entity": self.answer.entity,
                "label": self.answer.label,
                "known": self.answer.known,
                "probability": self.answer.probability,
                "bindings": {name: None if one is None else one.value for name, one in self.answer.bindings.items()},
            },
            "assignment": dict(self.assignment),
            "reasons": [_reason(reason) for reason in self.reasons],
            "derivation": _part(self.derivation.root),
            "note": self.note,
            "calibrated": self.calibrated,
            "views": None if self.views is None else asdict(self.views),
        }

    def to_json(self) -> str:
        """Writes the explanation as JSON."""
        return json.dumps(self.as_dict(), ensure_ascii=False)


def _part(part: Part) -> dict[str, Any]:
    """Writes the structure of a derivation; a statement is the index of its reason."""
    match part:
        case Reason():
            return {"kind": "statement", "reason": part.edge, "truth": part.truth}
        case Equation():
            return {"kind": "same", "left": part.same.left, "right": part.same.right, "truth": part.truth}
        case Group():
            chosen = {"chosen": part.chosen} if part.kind == "any" else {}
            return {"kind": part.kind, "truth": part.truth, **chosen, "parts": [_part(inner) for inner in part.parts]}


def _reason(reason: Reason) -> dict[str, Any]:
    return {
        **_statement(reason.atom),
        "fact": reason.fact,
        "probability": reason.probability,
        "statements": [_statement(statement) for statement in reason.statements],
        "contributions": [asdict(contribution) for contribution in reason.contributions],
        "rules": [{**asdict(rule), "statements": [_statement(one) for one in rule.statements]} for rule in reason.rules],
    }


def _statement(statement: Atom | Statement) -> dict[str, Any]:
    pairs = [list(pair) for pair in statement.qualifiers]
    return {"head": statement.head, "relation": statement.relation, "tail": statement.tail, "qualifiers": pairs}
