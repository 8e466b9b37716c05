"""The truths of all entities at one node of one question; only the best are listed.

For the others there is a bound, and a function that computes them. A row that lists all entities is the dense row of small graphs, and the
reference in tests. The values of a dense row may be rounded: then its function computes the exact truths of any entities.

B queries · n listed entities · V entities.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from starqe.ragged import IntArray

Source: TypeAlias = Callable[[IntArray], Tensor]
"""Computes the truths of any entities: (n,) -> (n,)."""
Join: TypeAlias = Callable[[Tensor, Tensor, Tensor | None], Tensor]
"""Joins the truths of two conditions, element by element; monotone in both."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """The probability of any entity as the answer of one of several questions that were asked together (a `Source`)."""

    scores: Callable[[IntArray, IntArray], Tensor]
    """Returns the scores of entities for some of the questions: (r,), (n,) -> (r, n)."""
    row: int
    slope: float
    shift: float
    """The probability of a score s is σ(slope · s + shift), up to the cap."""
    cap: float = 1.0
    join: Join | None = None
    weight: float = 1.0
    """The operation and the weight that are applied to every probability."""

    def __call__(self, ids: IntArray) -> Tensor:
        """Returns the truths of some entities: (n,)."""
        return _together([self], ids)[0]


def _together(some: Sequence[Prediction], ids: IntArray) -> Tensor:
    """Returns the truths of entities by predictions of one kind: (r, n)."""
    one = some[0]
    scores = one.scores(np.array([each.row for each in some]), ids)
    shift = torch.tensor([each.shift for each in some])[:, None]
    truths = scores.mul_(one.slope).add_(shift).sigmoid_().clamp_max_(one.cap)
    return truths if one.join is None else one.join(truths, torch.tensor([each.weight for each in some])[:, None], truths)


@dataclass(frozen=True, eq=False)
class Listed:
    """The truths of all entities for one node."""

    values: Tensor  # (n,)
    ids: IntArray | None = None  # (n,) ascending; None if all entities are listed
    rest: float = 0.0
    """Upper bound on the truth of every entity that is not listed."""
    source: Source | None = None
    """Computes the truths of entities that are not listed; without it, they are all equal to ``rest``. If all are listed, it computes those
    of all, and the values are rounded."""

    def most_without(self, ids: IntArray) -> float:
        """Returns the largest truth of all but these entities, or the bound on it."""
        others = np.setdiff1d(np.arange(len(self.values)) if self.ids is None else self.ids, ids)
        largest = float(self.at(others).amax()) if len(others) else 0.0
        return largest if self.ids is None else max(largest, self.rest)

    @property
    def holds_for_most(self) -> bool:
        """Whether nine of ten entities may be more true than not, as with a negation: the truths do not say which of them to try."""
        return self.rest > 0.5 if self.ids is not None else bool((self.values > 0.5).sum() > 0.9 * len(self.values))

    @property
    def facts(self) -> IntArray:
        """The entities with truth 1: (n,)."""
        place = np.flatnonzero(self.values.numpy() >= 1)
        return place if self.ids is None else self.ids[place]

    def pairs(self, entities: int) -> tuple[IntArray, Tensor]:
        """Returns the listed entities with their truths: (n,) both."""
        return np.arange(entities) if self.ids is None else self.ids, self.values

    def at(self, ids: IntArray) -> Tensor:
        """Returns the truths of some entities: (n,)."""
        if self.ids is None:
            return self.values[torch.from_numpy(ids.astype(np.int64, copy=False))] if self.source is None else self.source(ids)
        place, own = _places(self.ids, ids)
        if self.source is not None and not own.any():
            return self.source(ids)
        found = torch.full((len(ids),), self.rest)
        found[torch.from_numpy(own)] = self.values[torch.from_numpy(place[own])]
        if self.source is not None and not own.all():
            found[torch.from_numpy(~own)] = self.source(ids[~own])
        return found

    def dense(self, entities: int) -> Tensor:
        """Returns the truths of all entities: (V,)."""
        if self.ids is None:
            return self.values
        if self.source is not None:
            return self.at(np.arange(entities))
        row = torch.full((entities,), self.rest)
        row[torch.from_numpy(self.ids)] = self.values
        return row

    def with_facts(self, ids: IntArray) -> "Listed":
        """Returns the same truths, with 1 for these entities, which are ascending; they are listed."""
        if self.ids is None:
            values = self.values.clone()
            values[torch.from_numpy(ids.astype(np.int64, copy=False))] = 1
            return Listed(values, source=self.source and _certain(self.source, ids))
        left = ~_places(ids, self.ids)[1]
        both = np.concatenate([self.ids[left], ids.astype(np.int64, copy=False)])
        order = np.argsort(both, kind="stable")
        values = torch.cat([self.values[torch.from_numpy(left)], torch.ones(len(ids))])[torch.from_numpy(order)]
        return Listed(values, both[order], self.rest, self.source)

    def weighed(self, join: Join, weight: Tensor) -> "Listed":
        """Joins one condition, the same for all entities: ()."""
        source = self.source
        joined: Source | None = None
        if isinstance(source, Prediction) and source.join is None:
            joined = replace(source, join=join, weight=float(weight))
        elif source is not None:
            joined = lambda ids: join(source(ids), weight, None)  # noqa: E731
        return Listed(join(self.values, weight, None), self.ids, _number(join, self.rest, float(weight)), joined)

    def negated(self, slack: float) -> "Listed":
        """Returns 1 minus the upper bound of each truth."""
        values = self.values.clamp_min(slack).neg_().add_(1)
        if self.ids is None or self.source is None:  # then all others have the same truth
            return Listed(values, self.ids, 1 - max(self.rest, slack))
        return Listed(values, self.ids, 1 - slack, lambda ids: 1 - self.at(ids).clamp_min(slack))

    def best(self, count: int, entities: int) -> tuple[Tensor, IntArray, float]:
        """Returns the largest truths with their entities, and an upper bound for all others. (k,), (k,)."""
        row = self
        if self.ids is not None and len(self.ids) < entities and (len(self.ids) < count or self._least(count) < self.rest):
            row = self._with_others(count, entities)
        values, place = torch.topk(row.values, min(count + 1, len(row.values)))
        ids = place.numpy() if row.ids is None else row.ids[place.numpy()]
        rest = float(values[count]) if len(values) > count else 0.0
        return values[:count], ids[:count], rest if row.ids is None or len(row.ids) == entities else max(rest, self.rest)

    def kept(self, count: int) -> "Listed":
        """Returns the same truths with fewer listed: the best, and all that are facts."""
        if self.ids is None or len(self.ids) <= count:
            return self
        least = self._least(count)
        keep = (self.values >= min(least, 1.0)).numpy()
        dropped = self.values[torch.from_numpy(~keep)]
        if not len(dropped):
            return self
        return Listed(self.values[torch.from_numpy(keep)], self.ids[keep], max(self.rest, float(dropped.amax())), self.at)

    def _least(self, count: int) -> float:
        return float(self.values.topk(count).values[-1])

    def _with_others(self, count: int, entities: int) -> "Listed":
        """Lists some more entities, in any order: the bound does not say which of them are best."""
        assert self.ids is not None
        others = np.setdiff1d(np.arange(min(entities, count + 1 + len(self.ids))), self.ids)[: count + 1]
        ids = np.concatenate([self.ids, others])
        order = np.argsort(ids)
        values = torch.cat([self.values, self.at(others)])[torch.from_numpy(order)]
        return Listed(values, ids[order], self.rest, self.source)


@dataclass(frozen=True, eq=False)
class Result:
    """The truth of every entity as an answer, with a bound on the error."""

    values: Tensor  # (B, V) in [0, 1]
    slack: Tensor  # (B,)
    """The highest truth that a skipped candidate could give: values above it are exact, others are lower bounds."""

    @property
    def approximate(self) -> Tensor:
        """Whether skipped candidates could change the result: (B,) bool."""
        return self.slack > 0


@dataclass(frozen=True, eq=False)
class Rows:
    """The truths of entities as answers, the best of them listed, with a bound on the error."""

    rows: list[Listed]
    slack: Tensor  # (B,) as in `Result`


def everywhere(truth: float) -> Listed:
    """Returns the same truth for all entities."""
    return Listed(torch.empty(0), np.empty(0, np.int64), float(truth))


def only(ids: IntArray, values: Tensor) -> Listed:
    """Returns truths of some entities, ascending, and 0 for all others."""
    return Listed(values, ids.astype(np.int64, copy=False), 0.0)


def joined(join: Join, one: Listed, other: Listed, slacks: tuple[float, float] = (0.0, 0.0)) -> tuple[Listed, float]:
    """Joins two conditions; what one of them lists is looked up in the other.

    Args:
        join: A norm, or its dual.
        one: Truths.
        other: Truths.
        slacks: For each, an entity with a truth up to its slack may be as true as the slack.

    Returns:
        The joined truths, and their slack.
    """
    ids, left, right = aligned(one, other)
    values = join(left, right, None)
    slack = 0.0
    if max(slacks) > 0:
        slack = largest_open(values, join(left.clamp_min(slacks[0]), right.clamp_min(slacks[1]), None))
        if ids is not None:  # an entity that is not listed may reach the slack of one and the bound of the other
            most = max(one.rest, slacks[0]), max(other.rest, slacks[1])
            slack = max(slack, _number(join, slacks[0], most[1]) if slacks[0] else 0, _number(join, most[0], slacks[1]) if slacks[1] else 0)
    source = None if one.source is None and other.source is None else lambda asked: join(one.at(asked), other.at(asked), None)
    if ids is None:
        return Listed(values, source=source if any(row.ids is None and row.source is not None for row in (one, other)) else None), slack
    return Listed(values, ids, _number(join, one.rest, other.rest), source), slack


def greatest(rows: Sequence[Listed]) -> Listed:
    """Returns the largest of several truths of each entity.

    It lists entities that are not below any bound: rows that do not list them cannot change them.
    """
    if len(rows) == 1:
        return rows[0]
    dense = next((row for row in rows if row.ids is None), None)
    if dense is not None:
        values = dense.values.clone()
        for row in rows:
            torch.maximum(values, row.dense(len(values)), out=values)
        return Listed(values)
    ids = np.concatenate([row.ids for row in rows if row.ids is not None])
    ids, place = np.unique(ids, return_inverse=True)
    values = torch.zeros(len(ids))
    np.maximum.at(values.numpy(), place, torch.cat([row.values for row in rows]).numpy())
    bound = max(row.rest for row in rows)
    if not bound and all(row.source is None for row in rows):
        return only(ids, values)
    sure = (values >= bound).numpy()
    return Listed(values[torch.from_numpy(sure)], ids[sure], bound, _greatest_source(rows))


def _greatest_source(rows: Sequence[Listed]) -> Source:
    """Returns the function that computes the largest truths of any entities; predictions of one batch are computed together."""
    groups: dict[object, list[Prediction]] = {}
    others = []
    for row in rows:
        if isinstance(row.source, Prediction):  # it computes the listed truths, too
            groups.setdefault((row.source.scores, row.source.join, row.source.cap), []).append(row.source)
        else:
            others.append(row)

    def source(ids: IntArray) -> Tensor:
        return torch.stack([*(row.at(ids) for row in others), *(_together(some, ids).amax(0) for some in groups.values())]).amax(0)

    return source


def _certain(source: Source, facts: IntArray) -> Source:
    """Returns the source of the same truths, with 1 for facts."""
    return lambda ids: source(ids).masked_fill(torch.from_numpy(np.isin(ids, facts)), 1)


def largest_open(values: Tensor, ceiling: Tensor) -> float:
    """Returns the largest ceiling that is above its value, or 0: the slack of a row whose numbers have ceilings of their own."""
    return float(torch.where(ceiling > values, ceiling, 0).amax()) if len(values) else 0.0


def aligned(one: Listed, other: Listed) -> tuple[IntArray | None, Tensor, Tensor]:
    """Returns the truths of the entities that either lists, in both; all entities if one lists all."""
    if one.ids is None or other.ids is None:
        entities = len(one.values if one.ids is None else other.values)
        return None, one.dense(entities), other.dense(entities)
    ids = one.ids if one.ids is other.ids else np.union1d(one.ids, other.ids)
    return ids, one.at(ids), other.at(ids)


def _places(among: IntArray, ids: IntArray) -> tuple[IntArray, IntArray]:
    """Returns where each id is in an ascending array, and whether it is there: (n,) both."""
    if not len(among):
        return np.zeros(len(ids), np.int64), np.zeros(len(ids), bool)
    place = np.minimum(np.searchsorted(among, ids), len(among) - 1)
    return place, among[place] == ids


def _number(join: Join, one: float, other: float) -> float:
    return float(join(torch.tensor(one), torch.tensor(other), None))
