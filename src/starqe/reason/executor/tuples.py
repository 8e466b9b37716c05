"""The best values of several answer variables: candidates are tried best first, and skipped when they cannot be among the best."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch

from starqe.reason.executor.execution import Execution
from starqe.reason.executor.partial import Partial
from starqe.reason.executor.steps import Bind, Plan

_BRANCHES = 8  # the number of candidates that are tried together


@dataclass(frozen=True)
class Tuples:
    """The best values of the answer variables of one query, in their order, with their truths."""

    ranked: tuple[tuple[tuple[int, ...], float], ...]
    """The most probable first; an id is that of an entity, or of a relation if the variable is one."""
    slack: float
    """The highest truth that a skipped tuple could have: tuples above it are exactly the best ones. 0 if no tuple was skipped."""


class BestTuples:
    """The best values of several answer variables that were found so far."""

    def __init__(self, count: int, without: Collection[tuple[int, ...]] = ()) -> None:
        self.count, self.least, self.slack = count, 0.0, 0.0
        """The number wanted; the truth that a further one has to exceed; the highest truth that a skipped one could have."""
        self._truth: dict[tuple[int, ...], float] = {}
        self._without = frozenset(without)
        self._by_others: dict[int, dict[tuple[int, ...], list[int]]] = {}

    @property
    def wanted(self) -> int:
        """How many have to be exact: excluded ones may be among the best, too."""
        return self.count + len(self._without)

    def left_out(self, place: int, bound: Sequence[int | None]) -> list[int]:
        """Returns the ids at one place that are not wanted, given those at all other places."""
        if place not in self._by_others:
            grouped = self._by_others[place] = {}
            for ids in self._without:
                grouped.setdefault((*ids[:place], *ids[place + 1 :]), []).append(ids[place])
        return self._by_others[place].get(tuple(id_ for number, id_ in enumerate(bound) if number != place and id_ is not None), [])

    def add(self, ids: tuple[int, ...], truth: float) -> None:
        """Adds one, unless it is excluded or known to be as true already."""
        if truth <= max(self.least, self._truth.get(ids, 0.0)) or ids in self._without:
            return
        self._truth[ids] = truth
        if len(self._truth) > 4 * self.count:
            self._truth = dict(self.ranked())
            self.least = min(self._truth.values())

    def leave(self, most: float) -> None:
        """Records the upper bound of candidates that were skipped."""
        self.slack = max(self.slack, most)

    def ranked(self) -> list[tuple[tuple[int, ...], float]]:
        """Returns the best ones in descending order of truth; equal ones by their ids."""
        return sorted(self._truth.items(), key=lambda item: (-item[1], item[0]))[: self.count]


def collect(execution: Execution, plan: Plan, partial: Partial, best: BestTuples) -> None:
    """Takes the steps of a plan for one question, and collects the values of its answer variables with their truths.

    Candidates are tried best first, and skipped when they cannot reach what has been found already.
    """
    for number, step in enumerate(plan.steps):
        if isinstance(step, Bind):
            rest = Plan(None if step.node == plan.target else plan.target, plan.steps[number + 1 :])
            weights, candidates, left_out = execution.candidates(step, partial)
            best.leave(float(execution.norm(left_out, partial.ceiling, None).amax()))
            for start in range(0, weights.shape[1], _BRANCHES):
                some = weights[:, start : start + _BRANCHES]
                reach = execution.norm(some, partial.ceiling[:, None], None)
                for _, branch in execution.branches(partial, step.node, candidates[:, start:], torch.where(reach > best.least, some, 0)):
                    collect(execution, rest, branch, best)
            return
        if best.least > 0:
            partial.floor = torch.full((len(partial),), best.least)
        execution.apply(step, partial, best.wanted if number == len(plan.steps) - 1 else 0)
    rows, slack = execution.finish(plan.target, partial)
    for row, truths in enumerate(rows):
        bound = [int(partial.constants[node][row]) if node in partial.constants else None for node in execution.pattern.answers]
        if plan.target is None:
            best.add(tuple(id_ for id_ in bound if id_ is not None), truths.rest)
            best.leave(slack[row] if slack[row] > truths.rest else 0.0)
            continue
        most = best.count + len(best.left_out(bound.index(None), bound))
        top, ids, others = truths.best(most, execution.entities)
        best.leave(max(slack[row], others if others > top[-1] else 0.0))  # entities that are not listed may be truer
        for truth, id_ in zip(top.tolist(), ids.tolist(), strict=True):
            if truth <= best.least:
                break
            best.add(tuple(id_ if other is None else other for other in bound), truth)
