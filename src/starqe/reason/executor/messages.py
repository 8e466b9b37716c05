"""The message of a finished inner variable to the node at the other end of its last edge, and when its other candidates no longer matter.

Known facts are followed for all candidates. Predictions are made best candidate first, in groups that double. If a number of answers
is wanted, the execution stops when no other candidate can change them: the bound on what is left is then the slack.

R partial questions · V entities · k candidates.
"""

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

if TYPE_CHECKING:
    from starqe.reason.executor.execution import Execution

GROUP, FIRST = 200_000, 400_000
"""About how many numbers are predicted first: for one variable, and for each where several are to be tried."""


def tried_first(predicted: int, entities: int) -> int:
    """Returns how many candidates are tried first, so that about this many numbers are predicted: 4 of 50,000 entities, all of few.

    It does not depend on the number of questions, so that an answer does not depend on what is asked at the same time.
    """
    return max(1, predicted // entities)


def pass_message(execution: "Execution", step: Pass, partial: Partial, wanted: int) -> Work[tuple[Tensor, Tensor]]:
    """Computes what the candidates of a child make true at its parent; says before each group of predictions what it asks.

    Args:
        execution: The batch.
        step: The edge.
        partial: The questions.
        wanted: The number of predicted answers that have to be exact, if the parent is the target of the whole question and this is the
            last step. With 0, every candidate of the beam is tried.

    Returns:
        The truths (R, V), in a buffer of the execution, and the most that candidates which were not tried could give (R,).
    """
    weights, nodes, rest = execution.best(partial, step.child, step.edge)
    message = execution.take()
    message[: len(partial)] = 0
    _follow_facts(execution, step, partial, message)
    if execution.pattern.edges[step.edge].fact:  # nothing is predicted for it
        return message, torch.zeros(len(partial))
    labels = execution.labels(partial, step.edge)
    reach = execution.norm(weights, execution.cap, None)  # the most that a prediction from each candidate can give: (R, k)
    group = min(reach.shape[1], tried_first(GROUP, message.shape[1]) if wanted else execution.narrow or reach.shape[1])
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
        _follow_predictions(execution, step.given, nodes[owner, column], labels[owner], weight, message, owner)
        tried |= chosen
        if not wanted or last == reach.shape[1]:
            break
        useful[:, last:] &= ~_settled(execution, partial, step.parent, message, reach[:, last] * useful[:, last], wanted)[:, None]
        first, last = last, min(reach.shape[1], 2 * last) if useful[:, last:].any() else last
    left = torch.where(tried, 0, reach).amax(dim=1)
    return message, torch.maximum(left, execution.norm(rest, execution.cap, None))


def _settled(execution: "Execution", partial: Partial, node: str, message: Tensor, reach: Tensor, wanted: int) -> Tensor:
    """Returns for which questions no truth up to ``reach`` can change the best predicted answers: (R,) bool."""
    found = reach <= 0
    joined = torch.empty(message.shape[1])
    for place in torch.nonzero(~found).flatten().tolist():
        row, most = message[place], reach[place]
        own = partial.truth[node][place] if node in partial.truth else None
        if own is None:
            ceiling = most
            joined.copy_(row)
        else:
            execution.norm(own, row, joined)
            ceiling = torch.where(row < most, execution.norm(own, most, None), 0).amax()
        found[place] = ceiling <= least_of_best(joined, wanted)
    return found


def least_of_best(truths: Tensor, wanted: int) -> Tensor:
    """Returns the truth of the last of the best answers beside those that facts make true; overwrites the truths. (…, V) -> (…)."""
    truths.masked_fill_(truths >= 1, 0)
    if wanted == 1:
        return truths.amax(dim=-1)
    return truths.topk(min(wanted, truths.shape[-1]), dim=-1).values[..., -1]


def _follow_facts(execution: "Execution", step: Pass, partial: Partial, message: Tensor) -> None:
    """Passes each candidate's truth along all known statements of the edge: far fewer than the numbers of one prediction."""
    truth, edges = partial.truth.get(step.child), execution.edges
    for place, label in enumerate(execution.labels(partial, step.edge)):
        statements = edges.statements(int(label))
        child, parent = edges.ends(step.given, statements), edges.ends(OTHER[step.given], statements)
        if truth is None:
            message[place].numpy()[parent] = 1
        else:
            np.maximum.at(message[place].numpy(), parent, truth[place].numpy()[child])


def _follow_predictions(
    execution: "Execution", given: Side, nodes: IntArray, labels: IntArray, weight: Tensor, message: Tensor, owner: IntArray
) -> None:
    """Passes what is predicted from the chosen candidates, each to the row that it belongs to."""
    one = torch.empty(message.shape[1])
    for part in execution.edges.predicted(given, nodes, labels):
        for asked, row in zip(part.asked.tolist(), part.question.tolist(), strict=True):
            own = message[owner[asked]]
            torch.maximum(own, execution.norm(part.truth[row], weight[asked], one), out=own)


def likely(execution: "Execution", partial: Partial, place: int, node: str, edge: int | None, total: int, count: int) -> IntArray:
    """Returns the most likely values of a node that has no condition, by the known statements of an edge.

    First comes what stands there in statements that have all bound ends of the edge, the most frequent first; if that is not enough,
    what stands there in statements that have one of the bound ends, then in any.
    """
    if edge is None:
        return np.arange(count)
    asked, edges = execution.pattern.edges[edge], execution.edges
    statements = edges.statements(int(execution.labels(partial, edge)[place]))
    ends: tuple[tuple[Side, str], ...] = (("head", asked.head), ("tail", asked.tail))
    fitting = [edges.ends(side, statements) == partial.constants[end][place] for side, end in ends if end in partial.constants]
    seen = [_frequencies(execution, statements[np.logical_and.reduce(fitting)] if fitting else statements, node, edge, total)]
    if fitting and np.count_nonzero(seen[0]) < count:
        seen.append(_frequencies(execution, statements[np.logical_or.reduce(fitting)], node, edge, total))
        seen.append(_frequencies(execution, statements, node, edge, total))
    return np.lexsort([-one for one in reversed(seen)])[:count]


def _frequencies(execution: "Execution", statements: IntArray, node: str, edge: int, total: int) -> IntArray:
    """Counts how often each value stands for a node of an edge in some statements: (total,)."""
    asked, graph = execution.pattern.edges[edge], execution.edges.known.graph
    if node == asked.relation:
        found = graph.relation[statements]
    elif node in (asked.head, asked.tail):
        found = execution.edges.ends("head" if node == asked.head else "tail", statements)
    else:
        found = graph.pairs.take(statements).items[:, 0 if node in execution.pattern.relations else 1]
    return np.bincount(found, minlength=total)
