"""Why an answer is as true as it is: the best entities of the inner variables, edge by edge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from starqe.queries.exact import assignments
from starqe.queries.query import Query
from starqe.queries.shape import TARGET
from starqe.queries.table import QueryTable
from starqe.reason.execution import Execution, Partial
from starqe.reason.plan import Bind, Close, Pass, Step
from starqe.reason.truth import OTHER


@dataclass(frozen=True)
class Support:
    """One edge of a query with its inner variables filled in."""

    edge: int
    head: int
    relation: int
    tail: int
    pairs: tuple[tuple[int, int], ...]
    truth: float
    statements: tuple[int, ...]
    """The known statements that entail it; none where it is a prediction."""

    @property
    def fact(self) -> bool:
        """Whether it is known, not predicted."""
        return bool(self.statements)


@dataclass(frozen=True)
class Explanation:
    """The best way to make one answer true."""

    answer: int
    entities: Mapping[str, int]
    """The entity of every node of the shape: anchors, variables, and the target ``?``."""
    edges: tuple[Support, ...]
    """In the order of the shape's edges."""
    truth: float
    """The truths of all edges, joined by the norm."""


def explain_answers(execution: Execution, anchors: np.ndarray, answers: Sequence[int]) -> list[Explanation]:
    """Gives the best assignment of the inner variables for answers of the only query of a batch; ties go to the lowest id.

    The execution keeps its rows. The same candidates are tried as for the truths, so the truth is the same. Up to the first
    variable that is bound to one candidate after the other, all answers share the way.
    """
    steps, shared = execution.plan.steps, execution.start(anchors)
    first = next((number for number, step in enumerate(steps) if isinstance(step, Bind)), len(steps))
    for step in steps[:first]:
        execution.apply(step, shared)
    found = []
    for answer in answers:
        partial = shared
        for number, step in enumerate(steps[first:], first):
            if isinstance(step, Bind):
                partial = _best_branch(execution, step, steps[number + 1 :], partial, answer)
            else:
                execution.apply(step, partial)
        found.append(_backward(execution, partial, answer))
        if partial is not shared:
            execution.release(partial)
    return found


def _backward(execution: Execution, partial: Partial, answer: int) -> Explanation:
    """Fills the inner variables in, from the answer back to the anchors."""
    entities = {node: int(ids[0]) for node, ids in partial.constants.items()} | {TARGET: answer}
    for step in reversed(execution.plan.steps):
        if isinstance(step, Pass):
            entities[step.child] = _best_child(execution, step, partial, entities[step.parent])
        elif isinstance(step, Close):
            entities[step.node] = int(partial.truth[step.node][0].numpy().argmax())
    return _explanation(execution, entities)


def explain_known(execution: Execution, table: QueryTable, row: int, answer: int) -> Explanation:
    """Gives the first assignment of the inner variables that facts alone make true for one answer."""
    shape, graph = table.shape, execution.edges.known.graph
    query = Query.from_row(table, row, graph)
    found = assignments(execution.edges.known, query, limit=1, given={query.target: answer})
    names = {variable.name.removesuffix("_"): int(ids[0]) for variable, ids in found.items() if variable != query.target}
    anchors = dict(zip(shape.anchors, table.anchors[row].tolist(), strict=True))
    return _explanation(execution, anchors | names | {TARGET: answer})


def _explanation(execution: Execution, entities: Mapping[str, int]) -> Explanation:
    shape, truth = execution.plan.shape, torch.ones(())
    edges = tuple(_support(execution, edge, entities) for edge in range(len(shape.edges)))
    for support in edges:
        truth = execution.norm(truth, torch.tensor(support.truth), None)
    return Explanation(entities[TARGET], {node: entities[node] for node in shape.nodes}, edges, float(truth))


def _best_branch(execution: Execution, step: Bind, rest: tuple[Step, ...], partial: Partial, answer: int) -> Partial:
    """Binds a variable to the candidate with which the answer is truest."""
    weights, candidates, _ = execution.best(partial, step.node, step.edge)
    found = []
    for _, branch in execution.branches(partial, step.node, candidates, weights):
        values, _ = execution.run(rest, branch)
        found += [(-value, int(id_)) for value, id_ in zip(values[:, answer].tolist(), branch.constants[step.node], strict=True)]
        execution.release(branch)
    chosen = min(found)[1] if found else int(candidates[0, 0])
    return execution.bind(partial, step.node, np.array([0]), np.array([chosen]), weights[0, candidates[0] == chosen])


def _best_child(execution: Execution, step: Pass, partial: Partial, parent: int) -> int:
    """Gives the candidate of the child that makes the parent truest: along a fact, or as one of the beam by a prediction."""
    edges, label = execution.edges, execution.edges.labels[partial.query, step.edge]
    weights, nodes, _ = execution.best(partial, step.child, step.edge)
    _, statements = edges.facts(OTHER[step.given], np.array([parent]), label)
    along = np.unique(edges.ends(step.given, statements)).astype(np.int64)
    own = partial.truth.get(step.child)
    truths = [torch.ones(len(along)) if own is None else own[0][torch.from_numpy(along)]]
    children = [along]
    for part in edges.predicted(step.given, nodes[0], np.repeat(label, nodes.shape[1])):
        truths.append(execution.norm(weights[0][torch.from_numpy(part.asked)], part.truth[torch.from_numpy(part.question), parent], None))
        children.append(nodes[0][part.asked])
    truth, child = torch.cat(truths).numpy(), np.concatenate(children)
    return int(child[truth == truth.max()].min())


def _support(execution: Execution, edge: int, entities: Mapping[str, int]) -> Support:
    head, tail = (entities[node] for node in execution.plan.shape.edges[edge])
    label = int(execution.edges.labels[0, edge])
    truth, statements = execution.edges.one(execution.plan.given[edge], head, tail, label)
    relation, pairs = execution.edges.meaning[label]
    return Support(edge, head, relation, tail, pairs, truth, tuple(statements.tolist()))
