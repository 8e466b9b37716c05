"""The message of a finished inner variable to the node at the other end of its last edge, and when to skip its remaining candidates.

Known facts are followed for all candidates. Predictions are made best candidate first, in groups that double. If a number of answers
is wanted, the execution stops when no other candidate can change them: the bound on what is left is then the slack.

R partial questions · k candidates.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from starqe.kg.known import Side
from starqe.ragged import IntArray
from starqe.reason.executor.ahead import Work
from starqe.reason.executor.partial import Partial
from starqe.reason.executor.steps import Pass
from starqe.reason.executor.truth import OTHER
from starqe.reason.listed import Listed, aligned, greatest, only

if TYPE_CHECKING:
    from starqe.reason.executor.execution import Execution

GROUP, FIRST = 200_000, 400_000
"""Approximate number of truths to predict first: for one variable, and for each of several."""


def tried_first(predicted: int, entities: int) -> int:
    """Returns how many candidates to try first, so that about this many truths are predicted: 4 with 50,000 entities, all with few.

    It does not depend on the number of questions, so that an answer does not depend on what is asked at the same time.
    """
    return max(1, predicted // entities)


def pass_message(execution: "Execution", step: Pass, partial: Partial, wanted: int) -> Work[tuple[list[Listed], Tensor]]:
    """Computes the truths that the candidates of a child give its parent; yields the questions of each group of predictions first.

    Args:
        execution: The batch.
        step: The edge.
        partial: The questions.
        wanted: The number of predicted answers that have to be exact, if the parent is the target of the whole question and this is the
            last step. With 0, every candidate of the beam is tried.

    Returns:
        The truths of each question, and an upper bound for candidates that were not tried (R,).
    """
    weights, nodes, rest = execution.best(partial, step.child, step.edge)
    labels = execution.labels(partial, step.edge)
    messages = [_facts(execution, step, partial, place, int(label)) for place, label in enumerate(labels)]
    unlisted = torch.tensor([_bound(row) for row in partial.truth.get(step.child, [None] * len(partial))])
    if execution.pattern.edges[step.edge].fact:  # nothing is predicted for it
        return messages, unlisted
    reach = execution.norm(weights, execution.cap, None)  # the most that a prediction from each candidate can give: (R, k)
    group = min(reach.shape[1], tried_first(GROUP, execution.entities) if wanted else execution.narrow or reach.shape[1])
    if group < reach.shape[1] or partial.floor is not None:
        flat = execution.edges.ceilings(step.given, nodes.ravel(), np.repeat(labels, nodes.shape[1]))
        reach = execution.norm(weights, flat.view(weights.shape), None)
        order = reach.argsort(dim=1, descending=True, stable=True)
        weights, nodes, reach = weights.gather(1, order), np.take_along_axis(nodes, order.numpy(), 1), reach.gather(1, order)
    floor = torch.zeros(len(partial)) if partial.floor is None else partial.floor
    useful, tried = reach > floor[:, None], torch.zeros_like(reach, dtype=torch.bool)
    first, last = 0, group
    while first < last:
        chosen = useful.clone()
        chosen[:, :first], chosen[:, last:] = False, False
        owner, column = np.nonzero(chosen.numpy())
        yield execution.edges.asked(step.given, nodes[owner, column], labels[owner])
        weight = weights[torch.from_numpy(owner), torch.from_numpy(column)]
        _follow_predictions(execution, step.given, nodes[owner, column], labels[owner], weight, messages, owner)
        tried |= chosen
        if not wanted or last == reach.shape[1]:
            break
        useful[:, last:] &= ~_settled(execution, partial, step.parent, messages, reach[:, last] * useful[:, last], wanted)[:, None]
        first, last = last, min(reach.shape[1], 2 * last) if useful[:, last:].any() else last
    left = torch.where(tried, 0, reach).amax(dim=1)
    return messages, torch.maximum(torch.maximum(left, unlisted), execution.norm(rest, execution.cap, None))


def _bound(row: Listed | None) -> float:
    """Returns an upper bound for facts at candidates that are not listed, where they are not followed."""
    return 0.0 if row is None or _followed_from_all(row) else row.rest


def _followed_from_all(row: Listed) -> bool:
    """Returns whether facts are followed from all entities: where the truths of all are at hand, or most of them are true."""
    return row.ids is None or (row.rest > 0 and row.source is None) or row.holds_for_most


def _settled(execution: "Execution", partial: Partial, node: str, messages: Sequence[Listed], reach: Tensor, wanted: int) -> Tensor:
    """Returns for which questions no truth up to ``reach`` can change the best predicted answers: (R,) bool."""
    found = reach <= 0
    for place in torch.nonzero(~found).flatten().tolist():
        row, most = messages[place], reach[place]
        if node not in partial.truth:
            found[place] = most <= least_of_best(row.values.clone(), wanted)
            continue
        own = partial.truth[node][place]
        ids, mine, passed = aligned(own, row)
        ceiling = torch.where(passed < most, execution.norm(mine, most, None), 0)
        least = least_of_best(execution.norm(mine, passed, None), wanted)
        found[place] = (not len(ceiling) or ceiling.amax() <= least) and (
            ids is None or execution.norm(torch.tensor(own.rest), most, None) <= least
        )
    return found


def least_of_best(truths: Tensor, wanted: int) -> Tensor:
    """Returns the truth of the last of the best answers apart from facts; overwrites the truths. (…, n) -> (…)."""
    if not truths.shape[-1]:
        return torch.zeros(truths.shape[:-1])
    truths.masked_fill_(truths >= 1, 0)
    if wanted == 1:
        return truths.amax(dim=-1)
    return truths.topk(min(wanted, truths.shape[-1]), dim=-1).values[..., -1]


def _facts(execution: "Execution", step: Pass, partial: Partial, place: int, label: int) -> Listed:
    """Passes each candidate's truth along the known statements of the edge, which are far fewer than the entities of a prediction."""
    edges, rows = execution.edges, partial.truth.get(step.child)
    other = OTHER[step.given]
    if rows is None:
        parents = np.unique(edges.ends(other, edges.statements(label)))
        return only(parents, torch.ones(len(parents)))
    row = rows[place]
    if row.ids is None:
        statements = edges.statements(label)
        message = torch.zeros(execution.entities)
        np.maximum.at(message.numpy(), edges.ends(other, statements), row.values.numpy()[edges.ends(step.given, statements)])
        return Listed(message)
    if _followed_from_all(row):
        statements = edges.statements(label)
        children, child = np.unique(edges.ends(step.given, statements), return_inverse=True)
        passed = row.at(children).numpy()[child]
    else:
        listed, statements = edges.facts(step.given, row.ids, np.full(len(row.ids), label))
        passed = row.values.numpy()[listed]
    parents, parent = np.unique(edges.ends(other, statements), return_inverse=True)
    truths = torch.zeros(len(parents))
    np.maximum.at(truths.numpy(), parent, passed)
    return only(parents, truths)


def _follow_predictions(
    execution: "Execution", given: Side, nodes: IntArray, labels: IntArray, weight: Tensor, messages: list[Listed], owner: IntArray
) -> None:
    """Adds the predictions from the chosen candidates, each to its own row."""
    found: dict[int, list[Listed]] = {}
    for asked, row in execution.edges.predicted(given, nodes, labels):
        place = int(owner[asked])
        passed = row.weighed(execution.norm, weight[asked])
        if row.ids is None and messages[place].ids is None:  # dense rows are merged at once
            torch.maximum(messages[place].values, passed.values, out=messages[place].values)
        else:
            found.setdefault(place, [messages[place]]).append(passed)
    for place, rows in found.items():
        messages[place] = greatest(rows).kept(execution.edges.listed)


def likely(execution: "Execution", partial: Partial, place: int, node: str, edge: int | None, total: int, count: int) -> IntArray:
    """Returns the most likely values of a node that has no condition, by the known statements of an edge.

    First come its values in statements that have all bound ends of the edge, the most frequent first; if these are too few,
    those in statements that have one of the bound ends, then in any statement.
    """
    if edge is None:
        return np.arange(count)
    asked, edges = execution.pattern.edges[edge], execution.edges
    statements = edges.statements(int(execution.labels(partial, edge)[place]))
    ends: tuple[tuple[Side, str], ...] = (("head", asked.head), ("tail", asked.tail))
    fitting = [edges.ends(side, statements) == partial.constants[end][place] for side, end in ends if end in partial.constants]
    every = _values(execution, statements, node, edge)
    values = np.unique(every)
    subsets = [every]
    if fitting:
        both = _values(execution, statements[np.logical_and.reduce(fitting)], node, edge)
        either = _values(execution, statements[np.logical_or.reduce(fitting)], node, edge)
        subsets = [both, either, every]
    order = np.lexsort([-np.bincount(np.searchsorted(values, some), minlength=len(values)) for some in reversed(subsets)])
    found = values[order][:count]
    others = np.setdiff1d(np.arange(min(total, count + len(found))), found)[: count - len(found)]
    return np.concatenate([found, others])


def _values(execution: "Execution", statements: IntArray, node: str, edge: int) -> IntArray:
    """Returns the values that a node of an edge has in some statements: (n,)."""
    asked, graph = execution.pattern.edges[edge], execution.edges.known.graph
    if node == asked.relation:
        return np.asarray(graph.relation[statements])
    if node in (asked.head, asked.tail):
        return execution.edges.ends("head" if node == asked.head else "tail", statements)
    return np.asarray(graph.pairs.take(statements).items[:, 0 if node in execution.pattern.relations else 1])
