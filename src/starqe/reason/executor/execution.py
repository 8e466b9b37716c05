"""One batch of questions taken through the steps of a plan.

R partial questions · V entities · k candidates. The truth of every open node is a row of numbers, one for each entity; inner
variables count by their best entity (a maximum), conditions are joined by a norm, disjunctions by its dual, and a negation is 1 less
the truth. Every row of numbers L comes with a slack s, and the true numbers T obey ``L <= T <= max(L, s)``: what is above the slack
is exact, the rest is a lower bound.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from starqe.ragged import IntArray
from starqe.reason.executor.ahead import Work, alone
from starqe.reason.executor.messages import likely, pass_message
from starqe.reason.executor.norms import DUALS, NORMS
from starqe.reason.executor.partial import Partial, largest_open
from starqe.reason.executor.pattern import Pattern
from starqe.reason.executor.steps import Bind, Check, Close, Fix, Given, Nested, Pass, Plan, Step, Value
from starqe.reason.executor.truth import OTHER, EdgeTruth


class Execution:
    """The state of one batch: its edges, and reused buffers (fresh pages cost as much as the arithmetic)."""

    def __init__(
        self,
        pattern: Pattern,
        truth: EdgeTruth,
        norm: str,
        cap: float,
        width: int,
        most: int,
        *,
        narrow: int = 0,
        keep: bool = False,
    ) -> None:
        self.pattern, self.edges, self.width, self._keep = pattern, truth, width, keep
        self.norm, self.dual = NORMS[norm], DUALS[norm]
        self.cap, self._most = torch.tensor(cap), most
        self.narrow = narrow if narrow < width else 0
        """How many of the candidates of an inner variable are tried, if not all; the slack counts the others."""
        self._entities = len(truth.known.graph.entities)
        self._free: list[Tensor] = []

    def start(self, floor: Tensor | None = None) -> Partial:
        """Returns the questions with nothing but their constants bound; only truths above the floor matter. (R,)."""
        questions = self.edges.questions
        ones = torch.ones(len(questions))
        constants: dict[str, IntArray] = {node: np.asarray(ids, np.int64) for node, ids in questions.constants.items()}
        return Partial(np.arange(len(questions)), constants, {}, {}, ones, ones.clone(), floor)

    def run(self, plan: Plan, partial: Partial, wanted: int = 0) -> tuple[Tensor, Tensor]:
        """Takes the steps of a plan; returns the truth of every entity as its target (R, V) and the slack (R,).

        If a number of predicted answers is wanted, the last step makes no predictions that cannot change them.

        The truths are in a buffer: copy them, then `release` the partial questions. A plan without a target gives one truth for each
        question (R,), and the most that it could be (R,).
        """
        return alone(self.stepwise(plan, partial, wanted))

    def stepwise(self, plan: Plan, partial: Partial, wanted: int = 0) -> Work[tuple[Tensor, Tensor]]:
        """Takes the steps of a plan as `run` does; says before a step from an inner variable what it asks."""
        for number, step in enumerate(plan.steps):
            if isinstance(step, Bind):
                return self._try_candidates(step, Plan(plan.target, plan.steps[number + 1 :]), partial)
            if isinstance(step, Pass):
                yield from self._pass(step, partial, wanted if number == len(plan.steps) - 1 else 0)
            else:
                self.apply(step, partial)
        return self.finish(plan.target, partial)

    def apply(self, step: Step, partial: Partial, wanted: int = 0) -> None:
        """Takes one step other than `Bind`; if answers are wanted, it is the last one."""
        match step:
            case Given():
                self._given(step, partial)
            case Check():
                self._check(step, partial)
            case Pass():
                alone(self._pass(step, partial, wanted))
            case Close():
                self._close(step, partial)
            case Value():
                self._value(step, partial)
            case Fix():
                self._fix(step, partial)
            case Nested():
                self._nested(step, partial)

    def release(self, partial: Partial) -> None:
        """Takes the buffers of partial questions back."""
        for node in list(partial.truth):
            self._drop(partial, node)

    def candidates(self, step: Bind, partial: Partial) -> tuple[Tensor, IntArray, Tensor]:
        """Returns the truths (R, k) and ids (R, k) of the candidates for a variable that is bound, and the most of all others (R,)."""
        if step.node in partial.truth or step.edge is not None or step.hint is None:
            return self.best(partial, step.node, step.edge)
        guess = Partial(partial.query, partial.constants, {}, {}, partial.weight.clone().fill_(1), partial.ceiling.clone().fill_(1))
        self._nested(step.hint, guess)
        weights, ids, rest = self.best(guess, step.node, None)
        rest = torch.maximum(rest, guess.slack[step.node])
        self.release(guess)
        return torch.ones_like(weights), ids, rest

    def best(self, partial: Partial, node: str, edge: int | None) -> tuple[Tensor, IntArray, Tensor]:
        """Returns the truths (R, k) and ids (R, k) of a node's best candidates, and the largest truth among all others (R,).

        For a node without any condition, those come first that are most likely by the known statements of the edge.
        """
        total = len(self.edges.known.graph.relations) if node in self.pattern.relations else self._entities
        count = min(self.width, total)
        if node in partial.truth:
            values, ids = torch.topk(partial.truth[node][: len(partial)], min(count + 1, total))
            return values[:, :count], ids[:, :count].numpy(), values[:, count] if count < total else torch.zeros(len(partial))
        nodes = np.empty((len(partial), count), np.int64)
        for place in range(len(partial)):
            nodes[place] = likely(self, partial, place, node, edge, total, count)
        return torch.ones(nodes.shape), nodes, torch.full((len(partial),), float(count < total))

    def bind(self, partial: Partial, node: str, rows: IntArray, ids: IntArray, weights: Tensor) -> Partial:
        """Returns a partial question for each of these rows, with the node bound to an entity; its weight is the entity's truth."""
        place = torch.from_numpy(rows)
        return Partial(
            partial.query[rows],
            {other: constant[rows] for other, constant in partial.constants.items()} | {node: ids},
            {other: self._copy(truth, place) for other, truth in partial.truth.items() if other != node},
            {other: slack[place] for other, slack in partial.slack.items() if other != node},
            self.norm(partial.weight[place], weights, None),
            self.norm(partial.ceiling[place], weights, None),
            None if partial.floor is None else partial.floor[place],
        )

    def branches(self, partial: Partial, node: str, candidates: IntArray, weights: Tensor) -> Iterator[tuple[IntArray, Partial]]:
        """Binds the node to each candidate with a truth above 0; yields some at a time, and the row that each comes from."""
        owner, column = np.nonzero(weights.numpy() > 0)
        for start in range(0, len(owner), self._most):
            self.edges.deadline.check()
            rows, columns = owner[start : start + self._most], column[start : start + self._most]
            weight = weights[torch.from_numpy(rows), torch.from_numpy(columns)]
            yield rows, self.bind(partial, node, rows, candidates[rows, columns], weight)

    def labels(self, partial: Partial, edge: int, values: int = 0) -> IntArray:
        """Returns the label of an edge for each question, with its relation and the first of its qualifier values as they are bound."""
        asked = self.pattern.edges[edge]
        if asked.relation is None and not values:
            return np.asarray(self.edges.labels[partial.query, edge])
        found = []
        for place, query in enumerate(partial.query.tolist()):
            relation, pairs = self.edges.questions.labels[query][edge]
            if asked.relation is not None and asked.relation in partial.constants:
                relation = int(partial.constants[asked.relation][place])
            bound = [
                (self.pair_relation(partial, place, edge, number), int(partial.constants[node][place]))
                for number, (_, node) in enumerate(asked.values[:values])
            ]
            found.append(self.edges.all_labels.number((relation, tuple(sorted({*pairs, *bound})))))
        return np.array(found, np.int64)

    def pair_relation(self, partial: Partial, place: int, edge: int, number: int) -> int:
        """Returns the relation of a qualifier pair with a variable: as it is given, or bound."""
        variable = self.pattern.edges[edge].values[number][0]
        if variable is None:
            return self.edges.questions.pair_relations[int(partial.query[place])][edge][number]
        return int(partial.constants[variable][place])

    def _given(self, step: Given, partial: Partial) -> None:
        other = OTHER[step.given]
        nodes, labels = partial.constants[step.constant], self.labels(partial, step.edge)
        for part in self.edges.predicted(step.given, nodes, labels, self.pattern.edges[step.edge].fact):
            place_, statement = self.edges.facts(step.given, nodes[part.asked], labels[part.asked])
            part.truth[torch.from_numpy(part.question[place_]), torch.from_numpy(self.edges.ends(other, statement)).long()] = 1
            for place, row in zip(part.asked.tolist(), part.question.tolist(), strict=True):
                self._conjoin(partial, step.into, place, part.truth[row], 0.0)

    def _check(self, step: Check, partial: Partial) -> None:
        head, tail = partial.constants[step.head], partial.constants[step.tail]
        labels = self.labels(partial, step.edge)
        truth = torch.zeros(len(partial))
        for part in self.edges.predicted("head", head, labels, self.pattern.edges[step.edge].fact):
            truth[torch.from_numpy(part.asked)] = part.truth[torch.from_numpy(part.question), torch.from_numpy(tail[part.asked])]
        place, _ = self.edges.between(head, tail, labels)
        truth[torch.from_numpy(place)] = 1
        self._weigh(partial, truth, truth)

    def _value(self, step: Value, partial: Partial) -> None:
        edge = self.pattern.edges[step.edge]
        heads, tails = partial.constants[edge.head], partial.constants[edge.tail]
        relations = [self.pair_relation(partial, place, step.edge, step.place) for place in range(len(partial))]
        truth = torch.zeros(len(partial))
        for place, row, _ in self.edges.values(heads, tails, self.labels(partial, step.edge, step.place), relations, edge.fact):
            if step.into is None:
                truth[place] = row[int(partial.constants[step.node][place])]
            else:
                self._conjoin(partial, step.into, place, row, 0.0)
        if step.into is None:
            self._weigh(partial, truth, truth)

    def _fix(self, step: Fix, partial: Partial) -> None:
        entity = partial.constants[step.constant]
        if step.into is None:
            truth = torch.from_numpy((entity == partial.constants[step.node]).astype(np.float32))
            self._weigh(partial, truth, truth)
            return
        row = torch.zeros(self._entities)
        for place, id_ in enumerate(entity.tolist()):
            row[id_] = 1
            self._conjoin(partial, step.into, place, row, 0.0)
            row[id_] = 0

    def _nested(self, step: Nested, partial: Partial) -> None:
        """Joins the result of plans of their own: a disjunction of several, or the negation of one."""
        found: tuple[Tensor, Tensor] | None = None
        for plan in step.plans:
            inner = Partial(partial.query, dict(partial.constants), {}, {}, torch.ones(len(partial)), torch.ones(len(partial)))
            values, most = self.run(plan, inner)
            if step.into is not None:
                most = torch.maximum(values, most[:, None])
            if found is None:
                found = values.clone(), most.clone()
            else:
                self.dual(found[0], values, found[0])
                self.dual(found[1], most, found[1])
            self.release(inner)
        assert found is not None, "a disjunction has parts"
        values, most = found
        if step.negated:
            values, most = most.neg_().add_(1), values.neg_().add_(1)
        if step.into is None:
            self._weigh(partial, values, most)
            return
        for place in range(len(partial)):
            self._conjoin(partial, step.into, place, values[place], float(largest_open(values[place], most[place])))

    def _pass(self, step: Pass, partial: Partial, wanted: int) -> Work[None]:
        message, slack = yield from pass_message(self, step, partial, wanted)
        # A candidate that was left out gives at most its truth and a prediction; one that is truer than it seems, a fact.
        if step.child in partial.slack:
            torch.maximum(slack, partial.slack[step.child], out=slack)
        for place, most in enumerate(slack.tolist()):
            self._conjoin(partial, step.parent, place, message[place], most)
        self._free.append(message)
        if not self._keep:
            self._drop(partial, step.child)

    def _close(self, step: Close, partial: Partial) -> None:
        best = partial.truth[step.node][: len(partial)].amax(dim=1)
        self._weigh(partial, best, torch.maximum(best, partial.slack[step.node]))
        if not self._keep:
            self._drop(partial, step.node)

    def _try_candidates(self, step: Bind, rest: Plan, partial: Partial) -> tuple[Tensor, Tensor]:
        weights, candidates, left_out = self.candidates(step, partial)
        if step.node in partial.slack:
            left_out = torch.maximum(left_out, partial.slack[step.node])
        weights, left_out = self._most_useful(weights, left_out, partial)
        bound_target = step.node == rest.target
        if bound_target:
            rest = Plan(None, rest.steps)
        slack = self.norm(left_out, partial.ceiling, None)
        best = self.take() if bound_target or rest.target is not None else torch.zeros(len(partial))
        best[: len(partial)] = 0
        for owner, branch in self.branches(partial, step.node, candidates, weights):
            values, slacks = self.run(rest, branch)
            for row, place in enumerate(owner):
                most = slacks[row]
                if bound_target:
                    best[place, branch.constants[step.node][row]] = values[row]
                    most = torch.where(most > values[row], most, 0)
                else:
                    best[place] = torch.maximum(best[place], values[row])
                slack[place] = torch.maximum(slack[place], most)
            self.release(branch)
        self.release(partial)
        if rest.target is None and not bound_target:
            return best, torch.maximum(best, slack)
        partial.truth[step.node], partial.slack[step.node] = best, slack
        return best[: len(partial)], slack

    def _most_useful(self, weights: Tensor, left_out: Tensor, partial: Partial) -> tuple[Tensor, Tensor]:
        """Leaves out candidates beyond the narrow beam, and those that cannot lift an answer above the floor. (R, k), (R,)."""
        useful = torch.ones_like(weights, dtype=torch.bool)
        if self.narrow:
            useful[:, self.narrow :] = False
        if partial.floor is not None:
            useful &= self.norm(weights, partial.ceiling[:, None], None) > partial.floor[:, None]
        return torch.where(useful, weights, 0), torch.maximum(left_out, torch.where(useful, 0, weights).amax(dim=1))

    def _weigh(self, partial: Partial, truth: Tensor, most: Tensor) -> None:
        """Joins a condition that concerns no open node, and the most that it could be."""
        self.norm(partial.weight, truth, partial.weight)
        self.norm(partial.ceiling, most, partial.ceiling)

    def _conjoin(self, partial: Partial, node: str, place: int, row: Tensor, slack: float) -> None:
        """Joins one more condition to one row of a node."""
        if node not in partial.truth:
            partial.truth[node], partial.slack[node] = self.take(), torch.zeros(len(partial))
            partial.truth[node][: len(partial)] = 1
        own, own_slack = partial.truth[node][place], float(partial.slack[node][place])
        if slack == own_slack == 0:
            self.norm(own, row, own)
        else:
            ceiling = self.norm(own.clamp_min(own_slack), row.clamp_min(slack), None)
            partial.slack[node][place] = largest_open(self.norm(own, row, own), ceiling)

    def finish(self, target: str | None, partial: Partial) -> tuple[Tensor, Tensor]:
        """Returns the truths of a target after all steps, and the slack, as `run` does."""
        if target is None:
            return partial.weight, partial.ceiling
        if target not in partial.truth:  # no condition on the target, so every entity has the same truth
            partial.truth[target], partial.slack[target] = self.take(), torch.zeros(len(partial))
            partial.truth[target][: len(partial)] = 1
        values, slack = partial.truth[target][: len(partial)], partial.slack[target]
        for place in range(len(partial)):
            own, weight, ceiling = values[place], partial.weight[place], partial.ceiling[place]
            if slack[place] > 0 or ceiling > weight:
                most = self.norm(own.clamp_min(float(slack[place])), ceiling, None)
                slack[place] = largest_open(self.norm(own, weight, own), most)
            elif weight < 1:
                self.norm(own, weight, own)
        return values, slack

    def take(self) -> Tensor:
        """Returns a buffer with undefined content: (most, V)."""
        return self._free.pop() if self._free else torch.empty(self._most, self._entities)

    def _copy(self, truth: Tensor, rows: Tensor) -> Tensor:
        copy = self.take()
        torch.index_select(truth, 0, rows, out=copy[: len(rows)])
        return copy

    def _drop(self, partial: Partial, node: str) -> None:
        if node in partial.truth:
            self._free.append(partial.truth.pop(node))
            del partial.slack[node]
