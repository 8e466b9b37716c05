"""One batch of queries taken through the steps of a plan.

R partial queries · V entities · k candidates. The truth of every open node is a row of numbers, one for each entity; inner
variables count by their best entity (a maximum), conditions are joined by a norm. Every row of numbers L comes with a
slack s, and the true numbers T obey ``L <= T <= max(L, s)``: what is above the slack is exact, the rest is a lower bound.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from starqe.kg.known import Side
from starqe.queries.shape import TARGET
from starqe.reason.norms import Norm
from starqe.reason.plan import Bind, Check, Close, Given, Pass, Plan, Step
from starqe.reason.truth import OTHER, EdgeTruth


@dataclass
class Partial:
    """R queries on the way: what is bound, and how true each entity is for each open node so far."""

    query: np.ndarray  # (R,) places in the batch
    constants: dict[str, np.ndarray]  # node -> (R,)
    truth: dict[str, Tensor]  # node -> (most, V), of which the first R rows count; a node without condition has none
    slack: dict[str, Tensor]  # node -> (R,)
    weight: Tensor  # (R,) the truth of what concerns no open node
    ceiling: Tensor  # (R,) the most that the weight could be

    def __len__(self) -> int:
        return len(self.query)


class Execution:
    """The state of one batch: its edges, and buffers that are used again and again (fresh pages cost as much as the arithmetic)."""

    def __init__(self, plan: Plan, truth: EdgeTruth, norm: Norm, cap: float, width: int, most: int, *, keep: bool = False) -> None:
        self.plan, self.edges, self.norm, self.width = plan, truth, norm, width
        self._cap, self._most, self._keep = torch.tensor(cap), most, keep
        self._entities = len(truth.known.graph.entities)
        self._free: list[Tensor] = []

    def start(self, anchors: np.ndarray) -> Partial:
        """Gives the queries with nothing but their anchors bound: (R, A)."""
        constants = {node: anchors[:, column].astype(np.int64) for column, node in enumerate(self.plan.shape.anchors)}
        ones = torch.ones(len(anchors))
        return Partial(np.arange(len(anchors)), constants, {}, {}, ones, ones.clone())

    def run(self, steps: tuple[Step, ...], partial: Partial) -> tuple[Tensor, Tensor]:
        """Takes the steps one by one; gives the truth of every entity as the target (R, V) and the slack (R,).

        The truths stand in a buffer: copy them, then `release` the partial queries.
        """
        for number, step in enumerate(steps):
            if isinstance(step, Bind):
                return self._try_candidates(step, steps[number + 1 :], partial)
            self.apply(step, partial)
        return self._finish(partial)

    def apply(self, step: Step, partial: Partial) -> None:
        """Takes one step that is no `Bind`."""
        match step:
            case Given():
                self._given(step, partial)
            case Check():
                self._check(step, partial)
            case Pass():
                self._pass(step, partial)
            case Close():
                self._close(step, partial)

    def release(self, partial: Partial) -> None:
        """Gives the buffers of partial queries back."""
        for node in list(partial.truth):
            self._drop(partial, node)

    def best(self, partial: Partial, node: str, edge: int) -> tuple[Tensor, np.ndarray, Tensor]:
        """Gives the truths (R, k) and ids (R, k) of a node's best candidates, and the largest truth among all others (R,).

        For a node without any condition, those come first that stand most often in the known statements of the edge.
        """
        count = min(self.width, self._entities)
        if node in partial.truth:
            values, ids = torch.topk(partial.truth[node][: len(partial)], min(count + 1, self._entities))
            return values[:, :count], ids[:, :count].numpy(), values[:, count] if count < self._entities else torch.zeros(len(partial))
        side: Side = "head" if self.plan.shape.edges[edge][0] == node else "tail"
        nodes = np.empty((len(partial), count), np.int64)
        for place, label in enumerate(self._labels(partial, edge)):
            seen = np.bincount(self.edges.ends(side, self.edges.statements(int(label))), minlength=self._entities)
            nodes[place] = np.argsort(-seen, kind="stable")[:count]
        return torch.ones(nodes.shape), nodes, torch.full((len(partial),), float(count < self._entities))

    def bind(self, partial: Partial, node: str, rows: np.ndarray, ids: np.ndarray, weights: Tensor) -> Partial:
        """Gives a partial query for each of these rows, with the node bound to an entity that is as true as its weight."""
        place = torch.from_numpy(rows)
        return Partial(
            partial.query[rows],
            {other: constant[rows] for other, constant in partial.constants.items()} | {node: ids},
            {other: self._copy(truth, place) for other, truth in partial.truth.items() if other != node},
            {other: slack[place] for other, slack in partial.slack.items() if other != node},
            self.norm(partial.weight[place], weights, None),
            self.norm(partial.ceiling[place], weights, None),
        )

    def branches(self, partial: Partial, node: str, candidates: np.ndarray, weights: Tensor) -> Iterator[tuple[np.ndarray, Partial]]:
        """Binds the node to each candidate that is true at all; gives some at a time, and the row that each comes from."""
        owner, column = np.nonzero(weights.numpy() > 0)
        for start in range(0, len(owner), self._most):
            rows, columns = owner[start : start + self._most], column[start : start + self._most]
            weight = weights[torch.from_numpy(rows), torch.from_numpy(columns)]
            yield rows, self.bind(partial, node, rows, candidates[rows, columns], weight)

    def _labels(self, partial: Partial, edge: int) -> np.ndarray:
        return np.asarray(self.edges.labels[partial.query, edge])

    def _given(self, step: Given, partial: Partial) -> None:
        other = OTHER[step.given]
        for part in self.edges.predicted(step.given, partial.constants[step.constant], self._labels(partial, step.edge)):
            question, statement = self.edges.facts(step.given, part.nodes, part.labels)
            part.truth[torch.from_numpy(question), torch.from_numpy(self.edges.ends(other, statement)).long()] = 1
            for place, row in zip(part.asked.tolist(), part.question.tolist(), strict=True):
                self._conjoin(partial, step.into, place, part.truth[row], 0.0)

    def _check(self, step: Check, partial: Partial) -> None:
        head, tail = partial.constants[step.head], partial.constants[step.tail]
        labels = self._labels(partial, step.edge)
        truth = torch.zeros(len(partial))
        for part in self.edges.predicted("head", head, labels):
            truth[torch.from_numpy(part.asked)] = part.truth[torch.from_numpy(part.question), torch.from_numpy(tail[part.asked])]
        place, statement = self.edges.facts("head", head, labels)
        truth[torch.from_numpy(place[self.edges.ends("tail", statement) == tail[place]])] = 1
        self.norm(partial.weight, truth, partial.weight)
        self.norm(partial.ceiling, truth, partial.ceiling)

    def _pass(self, step: Pass, partial: Partial) -> None:
        weights, nodes, rest = self.best(partial, step.child, step.edge)
        message = self._take()
        message[: len(partial)] = 0
        self._follow_facts(step, partial, message)
        self._follow_predictions(step, partial, weights, nodes, message)
        # A candidate that was left out gives at most its truth and a prediction; one that is truer than it seems, a fact.
        slack = self.norm(rest, self._cap, None)
        if step.child in partial.slack:
            torch.maximum(slack, partial.slack[step.child], out=slack)
        for place, most in enumerate(slack.tolist()):
            self._conjoin(partial, step.parent, place, message[place], most)
        self._free.append(message)
        if not self._keep:
            self._drop(partial, step.child)

    def _follow_facts(self, step: Pass, partial: Partial, message: Tensor) -> None:
        """Passes each candidate's truth along all known statements of the edge: far fewer than the numbers of one prediction."""
        truth = partial.truth.get(step.child)
        for place, label in enumerate(self._labels(partial, step.edge)):
            statements = self.edges.statements(int(label))
            child, parent = self.edges.ends(step.given, statements), self.edges.ends(OTHER[step.given], statements)
            if truth is None:
                message[place].numpy()[parent] = 1
            else:
                np.maximum.at(message[place].numpy(), parent, truth[place].numpy()[child])

    def _follow_predictions(self, step: Pass, partial: Partial, weights: Tensor, nodes: np.ndarray, message: Tensor) -> None:
        """Passes what is predicted from the best candidates; those that could give nothing are not asked."""
        owner, column = np.nonzero(self.norm(weights, self._cap, None).numpy() > 0)
        chosen = weights[torch.from_numpy(owner), torch.from_numpy(column)]
        one = torch.empty(self._entities)
        for part in self.edges.predicted(step.given, nodes[owner, column], self._labels(partial, step.edge)[owner]):
            for asked, row in zip(part.asked.tolist(), part.question.tolist(), strict=True):
                own = message[owner[asked]]
                torch.maximum(own, self.norm(part.truth[row], chosen[asked], one), out=own)

    def _close(self, step: Close, partial: Partial) -> None:
        best = partial.truth[step.node][: len(partial)].amax(dim=1)
        self.norm(partial.weight, best, partial.weight)
        self.norm(partial.ceiling, torch.maximum(best, partial.slack[step.node]), partial.ceiling)
        if not self._keep:
            self._drop(partial, step.node)

    def _try_candidates(self, step: Bind, rest: tuple[Step, ...], partial: Partial) -> tuple[Tensor, Tensor]:
        weights, candidates, left_out = self.best(partial, step.node, step.edge)
        if step.node in partial.slack:
            left_out = torch.maximum(left_out, partial.slack[step.node])
        slack = self.norm(left_out, partial.ceiling, None)
        best = self._take()
        best[: len(partial)] = 0
        for owner, branch in self.branches(partial, step.node, candidates, weights):
            values, slacks = self.run(rest, branch)
            for row, place in enumerate(owner):
                torch.maximum(best[place], values[row], out=best[place])
                slack[place] = torch.maximum(slack[place], slacks[row])
            self.release(branch)
        self.release(partial)
        partial.truth[TARGET], partial.slack[TARGET] = best, slack
        return best[: len(partial)], slack

    def _conjoin(self, partial: Partial, node: str, place: int, row: Tensor, slack: float) -> None:
        """Joins one more condition to one row of a node."""
        if node not in partial.truth:
            partial.truth[node], partial.slack[node] = self._take(), torch.zeros(len(partial))
            partial.truth[node][: len(partial)] = 1
        own, own_slack = partial.truth[node][place], float(partial.slack[node][place])
        if slack == own_slack == 0:
            self.norm(own, row, own)
        else:
            ceiling = self.norm(own.clamp_min(own_slack), row.clamp_min(slack), None)
            partial.slack[node][place] = _largest_open(self.norm(own, row, own), ceiling)

    def _finish(self, partial: Partial) -> tuple[Tensor, Tensor]:
        values, slack = partial.truth[TARGET][: len(partial)], partial.slack[TARGET]
        for place in range(len(partial)):
            own, weight, ceiling = values[place], partial.weight[place], partial.ceiling[place]
            if slack[place] > 0 or ceiling > weight:
                most = self.norm(own.clamp_min(float(slack[place])), ceiling, None)
                slack[place] = _largest_open(self.norm(own, weight, own), most)
            elif weight < 1:
                self.norm(own, weight, own)
        return values, slack

    def _take(self) -> Tensor:
        return self._free.pop() if self._free else torch.empty(self._most, self._entities)

    def _copy(self, truth: Tensor, rows: Tensor) -> Tensor:
        copy = self._take()
        torch.index_select(truth, 0, rows, out=copy[: len(rows)])
        return copy

    def _drop(self, partial: Partial, node: str) -> None:
        if node in partial.truth:
            self._free.append(partial.truth.pop(node))
            del partial.slack[node]


def _largest_open(values: Tensor, ceiling: Tensor) -> Tensor:
    """Gives the largest ceiling that is above its value, or 0: the slack of a row whose numbers have ceilings of their own."""
    return torch.where(ceiling > values, ceiling, 0).amax()
