"""Makes the predictions that several queries need together.

A product of the entities with one vector costs about as much as with eight. So waiting queries of all patterns are taken
through their plans side by side: each announces its next questions, and these are predicted for all of them together.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TypeAlias, TypeVar

import numpy as np

from starqe.queries.gaps import MISSING, Gaps
from starqe.ragged import Ragged
from starqe.reason.executor.pattern import Edge, Questions
from starqe.reason.executor.steps import Bind, Given, Nested, Plan
from starqe.reason.executor.truth import Asked, Made, Predictions

T = TypeVar("T")
Work: TypeAlias = Generator[Sequence[Asked], None, T]
"""Work that yields the predictions it needs next; if they were not made for it, it makes them itself when it continues."""

MOST = 64
"""The maximum number of queries that are taken side by side; with more, the queries of one pattern fill a product by themselves."""


def alone(work: Work[T]) -> T:
    """Does some work by itself."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


def side_by_side(works: Sequence[Work[None]], made: Made, predict: Callable[[Sequence[Asked]], Made]) -> None:
    """Does several pieces of work; what they ask at the same time is predicted together.

    Args:
        works: The work.
        made: The predictions made so far, shared by all work. Those of the first round, at the constants, stay; others last one round.
        predict: Makes predictions.
    """
    first: Made | None = None
    while works:
        needed: dict[Asked, None] = {}
        going = []
        for work in works:
            try:
                needed |= dict.fromkeys(next(work))
            except StopIteration:
                continue
            going.append(work)
        if first is not None:
            made.clear()
            made |= first
        missing = [one for one in needed if one not in made]
        if missing:
            made |= predict(missing)
        first = dict(made) if first is None else first
        works = going


def predict(predictions: Predictions, asked: Sequence[Asked]) -> Made:
    """Predicts the other end of edges, heads and tails alike; the truths are without facts."""
    heads, tails = ([node if side == given else MISSING for side, node, _ in asked] for given in ("head", "tail"))
    relations, pairs = [relation for _, _, (relation, _) in asked], Ragged.of_lists([pairs for _, _, (_, pairs) in asked], 2)
    gaps = Gaps(np.array(heads), np.array(relations, np.int32), np.array(tails), pairs, Ragged.empty(len(asked)))
    return dict(zip(asked, predictions.rows(gaps), strict=True))


def at_constants(plan: Plan, questions: Questions) -> Iterator[Asked]:
    """Yields the questions that are always asked: edges with a constant end and a given relation."""
    for step in plan.steps:
        match step:
            case Bind():
                return
            case Given() if step.constant in questions.constants and _predictable(questions.pattern.edges[step.edge]):
                for place, id_ in enumerate(questions.constants[step.constant].tolist()):
                    yield step.given, id_, questions.labels[place][step.edge]
            case Nested():
                for inner in step.plans:
                    yield from at_constants(inner, questions)


def _predictable(edge: Edge) -> bool:
    return edge.relation is None and not edge.fact
