"""One batch of questions taken through the steps of a plan.

R partial questions · k candidates. The truths of the entities at an open node are a `Listed` row; inner variables count by their
best entity (a maximum), conditions are joined by a norm, disjunctions by its dual, and a negation is 1 minus the truth. Every row L comes
with a slack s, and the true numbers T obey ``L <= T <= max(L, s)``: what is above the slack is exact, the rest is a lower bound. An
entity that a row does not list has at most the larger of the slack and the row's bound.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from starqe.ragged import IntArray
from starqe.reason.executor.ahead import Work, alone
from starqe.reason.executor.messages import likely, pass_message
from starqe.reason.executor.norms import DUALS, NORMS
from starqe.reason.executor.partial import Partial
from starqe.reason.executor.pattern import Pattern
from starqe.reason.executor.steps import Bind, Check, Close, Fix, Given, Nested, Pass, Plan, Step, Value
from starqe.reason.executor.truth import OTHER, EdgeTruth
from starqe.reason.listed import Listed, everywhere, greatest, joined, only

Found = tuple[list[Listed], list[float]]
"""The truths of a target, and the slacks. Without a target, each row has one truth for all entities, and the slack is its upper bound."""

ANYTHING = everywhere(1)
"""The truths at a node without conditions."""


class Execution:
    """The state of one batch: its edges, and how they are joined."""

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
        """Maximum number of candidates of an inner variable that are tried, if not all; the slack covers the others."""
        self.entities = len(truth.known.graph.entities)

    def start(self, floor: Tensor | None = None) -> Partial:
        """Returns the questions with nothing but their constants bound; only truths above the floor matter. (R,)."""
        questions = self.edges.questions
        ones = torch.ones(len(questions))
        constants: dict[str, IntArray] = {node: np.asarray(ids, np.int64) for node, ids in questions.constants.items()}
        return Partial(np.arange(len(questions)), constants, {}, {}, ones, ones.clone(), floor)

    def run(self, plan: Plan, partial: Partial, wanted: int = 0) -> Found:
        """Takes the steps of a plan; returns the truths of its target, and the slack.

        If a number of predicted answers is wanted, the last step makes no predictions that cannot change them.
        """
        return alone(self.stepwise(plan, partial, wanted))

    def stepwise(self, plan: Plan, partial: Partial, wanted: int = 0) -> Work[Found]:
        """Takes the steps of a plan as `run` does; before a step from an inner variable, it yields the questions of the step."""
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

    def candidates(self, step: Bind, partial: Partial) -> tuple[Tensor, IntArray, Tensor]:
        """Returns truths (R, k) and ids (R, k) of the candidates for a variable to bind, and an upper bound for all others (R,)."""
        if step.node in partial.truth or step.edge is not None or step.hint is None:
            weights, ids, rest = self.best(partial, step.node, step.edge)
            return weights, ids, torch.maximum(rest, torch.tensor(partial.slack.get(step.node, [0.0] * len(partial))))
        guess = Partial(partial.query, partial.constants, {}, {}, partial.weight.clone().fill_(1), partial.ceiling.clone().fill_(1))
        self._nested(step.hint, guess)
        weights, ids, rest = self.best(guess, step.node, None)
        return torch.ones_like(weights), ids, torch.maximum(rest, torch.tensor(guess.slack[step.node]))

    def best(self, partial: Partial, node: str, edge: int | None) -> tuple[Tensor, IntArray, Tensor]:
        """Returns the truths (R, k) and ids (R, k) of a node's best candidates, and the largest truth among all others (R,).

        If a row has fewer candidates, it is filled with truths of 0. For a node without any condition, or with one that holds for most
        entities (such as a negation), those come first that are most likely by the known statements of the edge.
        """
        total = len(self.edges.known.graph.relations) if node in self.pattern.relations else self.entities
        count = min(self.width, total)
        weights, nodes, rest = torch.zeros(len(partial), count), np.zeros((len(partial), count), np.int64), torch.zeros(len(partial))
        for place in range(len(partial)):
            row = partial.truth[node][place] if node in partial.truth else None
            if row is None:
                weights[place], nodes[place], rest[place] = 1, likely(self, partial, place, node, edge, total, count), float(count < total)
                continue
            if count < total and edge is not None and row.holds_for_most:
                ids = likely(self, partial, place, node, edge, total, count)
                values, rest[place] = row.at(ids), row.most_without(ids)
            else:
                values, ids, rest[place] = row.best(count, total)
            weights[place, : len(values)], nodes[place, : len(ids)] = values, ids
        return weights, nodes, rest

    def bind(self, partial: Partial, node: str, rows: IntArray, ids: IntArray, weights: Tensor) -> Partial:
        """Returns a partial question for each of these rows, with the node bound to an entity; its weight is the entity's truth."""
        place = torch.from_numpy(rows)
        return Partial(
            partial.query[rows],
            {other: constant[rows] for other, constant in partial.constants.items()} | {node: ids},
            {other: [truth[row] for row in rows.tolist()] for other, truth in partial.truth.items() if other != node},
            {other: [slack[row] for row in rows.tolist()] for other, slack in partial.slack.items() if other != node},
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
        nodes, labels = partial.constants[step.constant], self.labels(partial, step.edge)
        place_, statement = self.edges.facts(step.given, nodes, labels)
        ends = self.edges.ends(OTHER[step.given], statement)
        for place, row in self.edges.predicted(step.given, nodes, labels, self.pattern.edges[step.edge].fact):
            self._conjoin(partial, step.into, place, row.with_facts(np.unique(ends[place_ == place])), 0.0)

    def _check(self, step: Check, partial: Partial) -> None:
        head, tail = partial.constants[step.head], partial.constants[step.tail]
        labels = self.labels(partial, step.edge)
        truth = torch.zeros(len(partial))
        for place, row in self.edges.predicted("head", head, labels, self.pattern.edges[step.edge].fact):
            truth[place] = row.at(tail[place : place + 1])[0]
        place_, _ = self.edges.between(head, tail, labels)
        truth[torch.from_numpy(place_)] = 1
        self._weigh(partial, truth, truth)

    def _value(self, step: Value, partial: Partial) -> None:
        edge = self.pattern.edges[step.edge]
        heads, tails = partial.constants[edge.head], partial.constants[edge.tail]
        relations = [self.pair_relation(partial, place, step.edge, step.place) for place in range(len(partial))]
        truth = torch.zeros(len(partial))
        for place, row, _ in self.edges.values(heads, tails, self.labels(partial, step.edge, step.place), relations, edge.fact):
            if step.into is None:
                truth[place] = row.at(partial.constants[step.node][place : place + 1])[0]
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
        for place in range(len(entity)):
            self._conjoin(partial, step.into, place, only(entity[place : place + 1], torch.ones(1)), 0.0)

    def _nested(self, step: Nested, partial: Partial) -> None:
        """Joins the result of nested plans: a disjunction of several, or the negation of one."""
        branches = []
        for plan in step.plans:
            inner = Partial(partial.query, dict(partial.constants), {}, {}, torch.ones(len(partial)), torch.ones(len(partial)))
            branches.append(self.run(plan, inner))
        truth, most = torch.zeros(len(partial)), torch.zeros(len(partial))
        for place in range(len(partial)):
            row, slack = self._either([(rows[place], slacks[place]) for rows, slacks in branches], step.into is None)
            if step.into is not None:
                self._conjoin(partial, step.into, place, *(_negation(row, slack) if step.negated else (row, slack)))
            elif step.negated:
                truth[place], most[place] = 1 - slack, 1 - row.rest
            else:
                truth[place], most[place] = row.rest, slack
        if step.into is None:
            self._weigh(partial, truth, most)

    def _either(self, parts: Sequence[tuple[Listed, float]], alone: bool) -> tuple[Listed, float]:
        """Joins the branches of a disjunction; ``alone``: each is one truth with its upper bound."""
        row, slack = parts[0]
        for other, other_slack in parts[1:]:
            if alone:
                slack = float(self.dual(torch.tensor(slack), torch.tensor(other_slack), None))
                row, _ = joined(self.dual, row, other)
            else:
                row, slack = joined(self.dual, row, other, (slack, other_slack))
        return row, slack

    def _pass(self, step: Pass, partial: Partial, wanted: int) -> Work[None]:
        messages, slacks = yield from pass_message(self, step, partial, wanted)
        # A skipped candidate gives at most its truth joined with a prediction; a candidate whose truth is only a lower bound, a fact.
        own = partial.slack.get(step.child, [0.0] * len(partial))
        for place, most in enumerate(slacks.tolist()):
            self._conjoin(partial, step.parent, place, messages[place], max(most, own[place]))
        if not self._keep:
            self._drop(partial, step.child)

    def _close(self, step: Close, partial: Partial) -> None:
        found = [row.best(1, self.entities) for row in partial.truth[step.node]]
        best = torch.tensor([float(values[0]) for values, _, _ in found])
        # The bound on the other entities counts only where there are others: a row may list all of them.
        most = torch.tensor([max(rest, slack) for (_, _, rest), slack in zip(found, partial.slack[step.node], strict=True)])
        self._weigh(partial, best, torch.maximum(best, most))
        if not self._keep:
            self._drop(partial, step.node)

    def _try_candidates(self, step: Bind, rest: Plan, partial: Partial) -> Found:
        weights, candidates, left_out = self.candidates(step, partial)
        weights, left_out = self._most_useful(weights, left_out, partial)
        bound_target = step.node == rest.target
        if bound_target:
            rest = Plan(None, rest.steps)
        slack = self.norm(left_out, partial.ceiling, None).tolist()
        found: list[list[Listed]] = [[everywhere(0)] for _ in range(len(partial))]
        for owner, branch in self.branches(partial, step.node, candidates, weights):
            rows, slacks = self.run(rest, branch)
            for place, row, most, id_ in zip(owner.tolist(), rows, slacks, branch.constants[step.node], strict=True):
                if bound_target:
                    found[place].append(only(np.array([id_]), torch.tensor([row.rest])))
                    slack[place] = max(slack[place], most if most > row.rest else 0.0)
                else:
                    found[place].append(row)
                    slack[place] = max(slack[place], most)
        best = [greatest(rows) for rows in found]
        if rest.target is None and not bound_target:
            return best, [max(row.rest, most) for row, most in zip(best, slack, strict=True)]
        return best, slack

    def _most_useful(self, weights: Tensor, left_out: Tensor, partial: Partial) -> tuple[Tensor, Tensor]:
        """Drops candidates beyond the narrow beam, and those that cannot raise an answer above the floor. (R, k), (R,)."""
        useful = torch.ones_like(weights, dtype=torch.bool)
        if self.narrow:
            useful[:, self.narrow :] = False
        if partial.floor is not None:
            useful &= self.norm(weights, partial.ceiling[:, None], None) > partial.floor[:, None]
        return torch.where(useful, weights, 0), torch.maximum(left_out, torch.where(useful, 0, weights).amax(dim=1))

    def _weigh(self, partial: Partial, truth: Tensor, most: Tensor) -> None:
        """Joins a condition that concerns no open node, and its upper bound."""
        self.norm(partial.weight, truth, partial.weight)
        self.norm(partial.ceiling, most, partial.ceiling)

    def _conjoin(self, partial: Partial, node: str, place: int, row: Listed, slack: float) -> None:
        """Joins one more condition to one row of a node."""
        if node not in partial.truth:
            partial.truth[node], partial.slack[node] = [ANYTHING] * len(partial), [0.0] * len(partial)
        own = partial.truth[node][place], partial.slack[node][place]
        if own[0] is ANYTHING and not slack:
            partial.truth[node][place] = row
            return
        partial.truth[node][place], partial.slack[node][place] = joined(self.norm, own[0], row, (own[1], slack))

    def finish(self, target: str | None, partial: Partial) -> Found:
        """Returns the truths of a target after all steps, and the slack, as `run` does."""
        weights, ceilings = partial.weight.tolist(), partial.ceiling.tolist()
        if target is None:
            return [everywhere(weight) for weight in weights], ceilings
        if target not in partial.truth:  # no condition on the target, so every entity has the same truth
            partial.truth[target], partial.slack[target] = [ANYTHING] * len(partial), [0.0] * len(partial)
        rows, slack = list(partial.truth[target]), list(partial.slack[target])
        for place, (weight, ceiling) in enumerate(zip(weights, ceilings, strict=True)):
            if slack[place] > 0 or ceiling > weight:
                # The weight is the same condition on all entities; its upper bound is the ceiling.
                most = ceiling if ceiling > weight else 0.0
                rows[place], slack[place] = joined(self.norm, rows[place], everywhere(weight), (slack[place], most))
            elif weight < 1:
                rows[place] = rows[place].weighed(self.norm, partial.weight[place])
        return rows, slack

    def _drop(self, partial: Partial, node: str) -> None:
        partial.truth.pop(node, None)
        partial.slack.pop(node, None)


def _negation(row: Listed, slack: float) -> tuple[Listed, float]:
    """Returns 1 minus the truths, and the slack: the truth of an entity below the slack may be as low as its lower bound."""
    opened = row.values[row.values < slack]
    least = [float(opened.amin())] if len(opened) else []
    if row.ids is not None and slack > 0:
        least.append(row.rest if row.source is None and row.rest < slack else 0.0)
    return row.negated(slack), 1 - min(least) if least else 0.0
