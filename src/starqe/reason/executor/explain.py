"""Why an answer is as true as it is: the best values of the inner variables, edge by edge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from starqe.kg.known import Side
from starqe.reason.executor.execution import Execution
from starqe.reason.executor.partial import Partial
from starqe.reason.executor.pattern import ANY
from starqe.reason.executor.steps import Bind, Close, Nested, Pass, Plan
from starqe.reason.executor.truth import OTHER


@dataclass(frozen=True)
class Support:
    """One edge of a question with its variables filled in."""

    edge: int
    head: int
    relation: int
    tail: int
    pairs: tuple[tuple[int, int], ...]
    truth: float
    statements: tuple[int, ...]
    """The known statements that entail it; none where it is a prediction."""
    given: Side = "head"
    """The side that it is predicted from."""
    denied: bool = False
    """Whether the question asks that it does not hold."""

    @property
    def fact(self) -> bool:
        """Whether it is known, not predicted."""
        return bool(self.statements)


@dataclass(frozen=True)
class Way:
    """The best way to make one answer true."""

    values: Mapping[str, int]
    """The value of every constant and of every variable that the way needs, by node."""
    edges: tuple[Support, ...]
    """The edges that it rests on, by their number; of a disjunction those of its best part."""
    truth: float
    """The truth of the answer."""


def explain(execution: Execution, plan: Plan, answers: Sequence[Mapping[str, int]]) -> list[Way]:
    """Returns the best way to make each of some answers of the only question of a batch true; ties go to the lowest id.

    The execution keeps its rows. The same candidates are tried as for the truths, so the truth is the same. Where no variable is tried
    one candidate after the other, all answers share the way up to the target.
    """
    shared: Partial | None = None
    found = []
    for answer in answers:
        execution.edges.deadline.check()
        kept = {node: np.array([id_]) for node, id_ in answer.items() if node != plan.target}
        wanted = None if plan.target is None else answer[plan.target]
        if shared is None:
            partial, target = _forward(execution, plan, execution.start(), wanted, kept)
            if not any(isinstance(step, Bind) for step in plan.steps):
                shared = partial
        else:
            partial, target = shared, plan.target
        truth, values, edges = _backward(execution, plan, partial, target, wanted, denied=False)
        found.append(Way(values, tuple(sorted(edges, key=lambda support: support.edge)), truth))
        if partial is not shared:
            execution.release(partial)
    return found


def along_facts(execution: Execution, plan: Plan, values: Mapping[str, int]) -> Way:
    """Returns the way that has these values, for a conjunction that they make true by facts alone."""
    start = execution.start()
    edges = [_support(execution, start, edge, side, values, denied=False) for edge, side in sorted(plan.sides().items())]
    return Way(values, tuple(edges), 1.0)


def _forward(
    execution: Execution, plan: Plan, partial: Partial, wanted: int | None, kept: Mapping[str, np.ndarray]
) -> tuple[Partial, str | None]:
    """Takes the steps of a plan with the best candidate of each variable that is bound; also returns the target that is left."""
    target, steps = plan.target, plan.steps
    for number, step in enumerate(steps):
        if not isinstance(step, Bind):
            execution.apply(step, partial)
            continue
        rest = Plan(None if step.node == target else target, steps[number + 1 :])
        if step.node in kept or step.node == target:
            chosen = int(kept[step.node][0]) if step.node in kept else wanted
            assert chosen is not None
            weights, candidates, _ = execution.candidates(step, partial)
            found = weights[0][torch.from_numpy(candidates[0] == chosen)]
            partial = execution.bind(partial, step.node, np.array([0]), np.array([chosen]), found if len(found) else torch.zeros(1))
        else:
            partial = _best_branch(execution, step, rest, partial, wanted)
        target = rest.target
    return partial, target


def _backward(
    execution: Execution, plan: Plan, partial: Partial, target: str | None, wanted: int | None, *, denied: bool
) -> tuple[float, dict[str, int], list[Support]]:
    """Fills the variables in, from the target back: the truth of what is wanted, the values of the nodes, and the edges."""
    values = {node: int(ids[0]) for node, ids in partial.constants.items()}
    if plan.target is not None and wanted is not None:
        values[plan.target] = wanted
    reached = _reached(execution, partial, None if target is None else partial.truth.get(target), wanted)
    edges: list[Support] = []
    for step in reversed(plan.steps):
        match step:
            case Pass():
                values[step.child] = _best_child(execution, step, partial, values[step.parent])
            case Close():
                values[step.node] = int(partial.truth[step.node][0].numpy().argmax())
            case Nested():
                more, inside = _nested(execution, step, partial, values, denied=denied)
                edges += inside
                values = more | values
    edges += [_support(execution, partial, edge, side, values, denied=denied) for edge, side in _own_sides(plan).items()]
    return reached, values, edges


def _nested(
    execution: Execution, step: Nested, partial: Partial, values: Mapping[str, int], *, denied: bool
) -> tuple[dict[str, int], list[Support]]:
    """Explains the best part of a disjunction, or what comes nearest to breaking a negation."""
    constants = {node: np.array([id_]) for node, id_ in values.items() if node in partial.constants}
    wanted = None if step.into is None else values[step.into]
    found = []
    for plan in step.plans:
        inner = Partial(np.array([0]), dict(constants), {}, {}, torch.ones(1), torch.ones(1))
        inner, target = _forward(execution, plan, inner, wanted, {})
        found.append(_backward(execution, plan, inner, target, wanted, denied=denied != step.negated))
        execution.release(inner)
    _, inside, edges = max(found, key=lambda part: part[0])
    return inside, edges


def _reached(execution: Execution, partial: Partial, truth: torch.Tensor | None, wanted: int | None) -> float:
    """The truth of what is wanted after all steps; a target that nothing speaks of may be anything."""
    own = torch.ones(()) if truth is None else truth[0, wanted]
    return float(execution.norm(own, partial.weight[0], None))


def _own_sides(plan: Plan) -> dict[int, Side]:
    """The edges that stand in the plan itself, not in a part of it, and the side that each is predicted from."""
    return Plan(plan.target, tuple(step for step in plan.steps if not isinstance(step, Nested))).sides()


def _best_branch(execution: Execution, step: Bind, rest: Plan, partial: Partial, wanted: int | None) -> Partial:
    """Binds a variable to the candidate with which the answer is truest."""
    weights, candidates, _ = execution.candidates(step, partial)
    found: list[tuple[float, int]] = []
    for _, branch in execution.branches(partial, step.node, candidates, weights):
        values, _ = execution.run(rest, branch)
        truths = values.tolist() if rest.target is None else values[:, wanted].tolist()
        found += [(-value, int(id_)) for value, id_ in zip(truths, branch.constants[step.node], strict=True)]
        execution.release(branch)
    chosen = min(found)[1] if found else int(candidates[0, 0])
    return execution.bind(partial, step.node, np.array([0]), np.array([chosen]), weights[0, candidates[0] == chosen])


def _best_child(execution: Execution, step: Pass, partial: Partial, parent: int) -> int:
    """Returns the candidate of the child that makes the parent truest: along a fact, or as one of the beam by a prediction."""
    edges, label = execution.edges, execution.labels(partial, step.edge)
    weights, nodes, _ = execution.best(partial, step.child, step.edge)
    _, statements = edges.facts(OTHER[step.given], np.array([parent]), label)
    along = np.unique(edges.ends(step.given, statements)).astype(np.int64)
    own = partial.truth.get(step.child)
    truths = [torch.ones(len(along)) if own is None else own[0][torch.from_numpy(along)]]
    children = [along]
    fact = execution.pattern.edges[step.edge].fact
    for part in edges.predicted(step.given, nodes[0], np.repeat(label, nodes.shape[1]), fact):
        truths.append(execution.norm(weights[0][torch.from_numpy(part.asked)], part.truth[torch.from_numpy(part.question), parent], None))
        children.append(nodes[0][part.asked])
    truth, child = torch.cat(truths).numpy(), np.concatenate(children)
    return int(child[truth == truth.max()].min())


def _support(execution: Execution, partial: Partial, edge: int, side: Side, values: Mapping[str, int], *, denied: bool) -> Support:
    """Looks one edge up, with its qualifier values."""
    asked, edges = execution.pattern.edges[edge], execution.edges
    head, tail = values[asked.head], values[asked.tail]
    label = int(execution.labels(partial, edge)[0])
    truth, statements = edges.one(side, head, tail, label, asked.fact)
    relation, pairs = edges.all_labels.meaning[label]
    assert relation != ANY, "a relation that is a variable is bound"
    for place, (_, node) in enumerate(asked.values):
        key, value = execution.pair_relation(partial, 0, edge, place), values[node]
        label = edges.all_labels.number((relation, pairs))
        for _, row, _ in edges.values(np.array([head]), np.array([tail]), np.array([label]), [key], asked.fact):
            truth = float(execution.norm(torch.tensor(truth), row[value], None))
        pairs = tuple(sorted({*pairs, (key, value)}))
    if asked.values:
        _, statements = edges.between(np.array([head]), np.array([tail]), np.array([edges.all_labels.number((relation, pairs))]))
    return Support(edge, head, relation, tail, pairs, truth, tuple(statements.tolist()), side, denied)
