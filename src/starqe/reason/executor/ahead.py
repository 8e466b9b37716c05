"""Predictions that are sure to be needed, made together before the steps are taken.

A product of the entities with one vector costs about as much as with eight. So the edges at the constants of a question, and those of
all questions that wait, whatever their patterns, are predicted in one go for each side.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from starqe.kg.known import Side
from starqe.queries.gaps import MISSING, Gaps
from starqe.ragged import Ragged
from starqe.reason.executor.pattern import Edge, Label, Questions
from starqe.reason.executor.steps import Bind, Given, Nested, Plan
from starqe.reason.executor.truth import OneHop

MOST = 64
"""The number of questions up to which predictions are made ahead; of more, those of one pattern fill a product by themselves."""

Asked: TypeAlias = tuple[Side, int, Label]
"""The side of the given end, the entity there, and the label of the edge."""


def predict_ahead(one_hop: OneHop, cap: float, asked: Sequence[tuple[Plan, Questions]], entities: int) -> Mapping[Asked, Tensor]:
    """Predicts the edges at constants of some questions: the truths of all entities for each, facts not counted. (V,)."""
    if sum(len(questions) for _, questions in asked) > MOST:
        return {}
    wanted = dict.fromkeys(one for plan, questions in asked for one in _at_constants(plan, questions))
    found: dict[Asked, Tensor] = {}
    if len(wanted) > 1:
        for side in ("head", "tail"):
            of_side = [one for one in wanted if one[0] == side]
            if of_side:
                rows = one_hop.probabilities(_gaps(side, of_side), torch.empty(len(of_side), entities)).clamp_(0, cap)
                found |= dict(zip(of_side, rows, strict=True))
    return found


def _at_constants(plan: Plan, questions: Questions) -> Iterator[Asked]:
    """Yields what is asked for whatever else is found: the edges that have a constant end and a given relation."""
    for step in plan.steps:
        match step:
            case Bind():
                return
            case Given() if step.constant in questions.constants and _predictable(questions.pattern.edges[step.edge]):
                for place, id_ in enumerate(questions.constants[step.constant].tolist()):
                    yield step.given, id_, questions.labels[place][step.edge]
            case Nested():
                for inner in step.plans:
                    yield from _at_constants(inner, questions)


def _predictable(edge: Edge) -> bool:
    return edge.relation is None and not edge.fact


def _gaps(side: str, asked: Iterable[Asked]) -> Gaps:
    _, nodes, labels = zip(*asked, strict=True)
    given, missing = np.array(nodes, np.int64), np.full(len(nodes), MISSING)
    head, tail = (given, missing) if side == "head" else (missing, given)
    pairs = Ragged.of_lists([pairs for _, pairs in labels], 2)
    return Gaps(head, np.array([relation for relation, _ in labels], np.int32), tail, pairs, Ragged.empty(len(nodes)))
