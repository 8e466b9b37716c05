"""Explains the truth of an answer: the best values of the inner variables, and the truth of every part of the formula."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from starqe.kg.known import Side
from starqe.queries.formula import And, Atom, Not, Or, Same
from starqe.ragged import IntArray
from starqe.reason.executor.derivation import Derivation, Equation, Group, Part, Reason
from starqe.reason.executor.execution import Execution
from starqe.reason.executor.norms import Norm
from starqe.reason.executor.partial import Partial
from starqe.reason.executor.pattern import ANY, Equal, Tree
from starqe.reason.executor.plan import nested_step
from starqe.reason.executor.prove import Prover, conjuncts
from starqe.reason.executor.steps import Bind, Close, Nested, Pass, Plan
from starqe.reason.executor.truth import OTHER

Values = Mapping[str, int]
"""The ids of the nodes of a pattern."""


class Explaining(Execution):
    """An execution that keeps its rows, and tries only the given answer for answer variables."""

    pinned: Values = MappingProxyType({})

    def candidates(self, step: Bind, partial: Partial) -> tuple[torch.Tensor, IntArray, torch.Tensor]:
        """Returns the candidates for a variable as `Execution` does; for an answer variable, all but the answer get a weight of 0."""
        weights, ids, rest = super().candidates(step, partial)
        if step.node in self.pinned:
            weights = torch.where(torch.from_numpy(ids == self.pinned[step.node]), weights, 0)
        return weights, ids, rest


def explain(execution: Explaining, plan: Plan, answers: Sequence[Values]) -> list[Derivation]:
    """Derives some answers of the only question of a batch, each in the best way; ties go to the lowest id.

    The same candidates are tried as for the truths, so the truth is the same. If no variable is tried
    one candidate after the other, all answers share the way up to the target.
    """
    shared: Partial | None = None
    found = []
    for answer in answers:
        execution.edges.deadline.check()
        execution.pinned = {node: id_ for node, id_ in answer.items() if node != plan.target}
        wanted = None if plan.target is None else answer[plan.target]
        if shared is None:
            partial, target = _forward(execution, plan, execution.start(), wanted)
            if not any(isinstance(step, Bind) for step in plan.steps):
                shared = partial
        else:
            partial, target = shared, plan.target
        truth, values, root = _backward(execution, plan, execution.pattern.tree, partial, target, wanted)
        found.append(Derivation(_assignment(execution, values), root, truth))
    return found


def explain_known(execution: Explaining, prover: Prover, values: Values) -> Derivation:
    """Derives an answer from facts, with values that prove it; the statements in its negations are predicted."""
    execution.pinned = {}
    pattern = execution.pattern
    outer = frozenset({*pattern.answers, *pattern.constants})
    used, root = _known_part(execution, prover, pattern.tree, values, outer)
    return Derivation(_assignment(execution, used), root, root.truth)


def _known_part(execution: Explaining, prover: Prover, tree: Tree, values: Values, outer: frozenset[str]) -> tuple[dict[str, int], Part]:
    """Derives a part that these values prove, and returns the values that it uses; outer nodes are those of other parts."""
    pattern, parts = execution.pattern, conjuncts(tree)
    used = {node: values[node] for part in parts if isinstance(part, int | Equal) for node in pattern.nodes_of(part)}
    used |= {node: id_ for node, id_ in values.items() if node in outer}
    nested: dict[Tree, Group] = {}
    for part in parts:
        if isinstance(part, Or | Not):
            # A variable that occurs in this part only may have another value in each of its branches.
            others = outer.union(*(pattern.mentioned(other) for other in parts if other is not part))
            shared = {node: id_ for node, id_ in values.items() if node in others}
            _, nested[part] = _nested(execution, nested_step(pattern, part, shared), _bound(shared), shared)
            if isinstance(part, Or):
                inside, nested[part] = _proven(execution, prover, part, nested[part], shared)
                used |= inside

    def leaf(edge: int) -> Reason:
        return _reason(execution, _bound(values), edge, "head", values)

    return used, _part(execution, tree, leaf, values, nested)


def _proven(execution: Explaining, prover: Prover, tree: Or[Any], group: Group, shared: Values) -> tuple[dict[str, int], Group]:
    """Replaces the provable branches of a disjunction by their proofs; the first of them explains it."""
    parts, used = list(group.parts), dict[int, dict[str, int]]()
    for place, branch in enumerate(tree.parts):
        if (proof := prover.first(branch, dict(shared))) is not None:
            used[place], parts[place] = _known_part(execution, prover, branch, proof, frozenset(shared))
    chosen = min(used)
    return used[chosen], Group("any", tuple(parts), joined(execution.dual, parts), chosen)


def _bound(values: Values) -> Partial:
    """One question in which all these nodes are constants."""
    return Partial(np.array([0]), {node: np.array([id_]) for node, id_ in values.items()}, {}, {}, torch.ones(1), torch.ones(1))


def _forward(execution: Explaining, plan: Plan, partial: Partial, wanted: int | None) -> tuple[Partial, str | None]:
    """Takes the steps of a plan with the best candidate of each variable that is bound; also returns the target that is left."""
    target, steps = plan.target, plan.steps
    for number, step in enumerate(steps):
        if not isinstance(step, Bind):
            execution.apply(step, partial)
            continue
        rest = Plan(None if step.node == target else target, steps[number + 1 :])
        if step.node in execution.pinned or step.node == target:
            chosen = execution.pinned.get(step.node, wanted)
            assert chosen is not None
            weights, candidates, _ = execution.candidates(step, partial)
            found = weights[0][torch.from_numpy(candidates[0] == chosen)]
            partial = execution.bind(partial, step.node, np.array([0]), np.array([chosen]), found if len(found) else torch.zeros(1))
        else:
            partial = _best_branch(execution, step, rest, partial, wanted)
        target = rest.target
    return partial, target


def _backward(
    execution: Explaining, plan: Plan, tree: Tree, partial: Partial, target: str | None, wanted: int | None
) -> tuple[float, dict[str, int], Part]:
    """Assigns values to the variables, from the target back; returns the truth, the values of the nodes, and the derivation."""
    values = {node: int(ids[0]) for node, ids in partial.constants.items()}
    if plan.target is not None and wanted is not None:
        values[plan.target] = wanted
    reached = _reached(execution, partial, target, wanted)
    nested: dict[Tree, Group] = {}
    of_branches: dict[str, int] = {}
    for step in reversed(plan.steps):
        match step:
            case Pass():
                values[step.child] = _best_child(execution, step, partial, values[step.parent])
            case Close():
                values[step.node] = int(partial.truth[step.node][0].best(1, execution.entities)[1][0])
            case Nested():
                inside, nested[step.tree] = _nested(execution, step, partial, values)
                of_branches = inside | of_branches
    sides = plan.sides()

    def leaf(edge: int) -> Reason:
        return _reason(execution, partial, edge, sides[edge], values)

    return reached, of_branches | values, _part(execution, tree, leaf, values, nested)


def _nested(execution: Explaining, step: Nested, partial: Partial, values: Values) -> tuple[dict[str, int], Group]:
    """Derives every part of a disjunction, or the closest one to breaking a negation; also returns the values of the best branch."""
    constants = {node: np.array([id_]) for node, id_ in values.items() if node in partial.constants}
    wanted = None if step.into is None else values[step.into]
    parts: list[Part] = []
    inside: list[dict[str, int]] = []
    for plan, tree in zip(step.plans, step.parts, strict=True):
        inner = Partial(np.array([0]), dict(constants), {}, {}, torch.ones(1), torch.ones(1))
        inner, target = _forward(execution, plan, inner, wanted)
        _, found, part = _backward(execution, plan, tree, inner, target, wanted)
        parts.append(part)
        inside.append(found)
    if step.negated:
        return {}, Group("not", tuple(parts), 1 - parts[0].truth)
    best = max(range(len(parts)), key=lambda place: parts[place].truth)
    return inside[best], Group("any", tuple(parts), joined(execution.dual, parts), best)


def _part(execution: Execution, tree: Tree, leaf: Callable[[int], Reason], values: Values, nested: Mapping[Tree, Group]) -> Part:
    """Builds the derivation of a tree from that of its disjunctions and negations."""
    match tree:
        case int():
            return leaf(tree)
        case Equal():
            graph = execution.edges.known.graph
            names = graph.relations if {tree.left, tree.right} & execution.pattern.relations else graph.entities
            return Equation(Same(names.identifier(values[tree.left]), names.identifier(values[tree.right])))
        case And():
            parts = tuple(_part(execution, part, leaf, values, nested) for part in tree.parts)
            return Group("all", parts, joined(execution.norm, parts))
        case Or() | Not():
            return nested[tree]


def joined(norm: Norm, parts: Sequence[Part]) -> float:
    """Joins the truths of parts by a norm or by its dual."""
    return float(reduce(lambda one, other: norm(one, other, None), (torch.tensor(part.truth) for part in parts)))


def _assignment(execution: Execution, values: Values) -> dict[str, str]:
    """Returns the identifiers of the variables by name; a constant of a formula is none."""
    pattern, graph = execution.pattern, execution.edges.known.graph
    return {
        node if node == "?" else node.removeprefix("?"): (graph.relations if node in pattern.relations else graph.entities).identifier(id_)
        for node, id_ in values.items()
        if "=" not in node
    }


def _reached(execution: Execution, partial: Partial, target: str | None, wanted: int | None) -> float:
    """The truth of what is wanted after all steps; a target without conditions has the same truth for every entity."""
    own = torch.ones(()) if target is None or target not in partial.truth else partial.truth[target][0].at(np.array([wanted]))[0]
    return float(execution.norm(own, partial.weight[0], None))


def _best_branch(execution: Execution, step: Bind, rest: Plan, partial: Partial, wanted: int | None) -> Partial:
    """Binds a variable to the candidate with which the answer is truest."""
    weights, candidates, _ = execution.candidates(step, partial)
    found: list[tuple[float, int]] = []
    for _, branch in execution.branches(partial, step.node, candidates, weights):
        rows, _ = execution.run(rest, branch)
        truths = [row.rest if rest.target is None else float(row.at(np.array([wanted]))) for row in rows]
        found += [(-value, int(id_)) for value, id_ in zip(truths, branch.constants[step.node], strict=True)]
    chosen = min(found)[1] if found else int(candidates[0, 0])
    return execution.bind(partial, step.node, np.array([0]), np.array([chosen]), weights[0, candidates[0] == chosen])


def _best_child(execution: Execution, step: Pass, partial: Partial, parent: int) -> int:
    """Returns the candidate of the child with the highest truth for the parent: along a fact, or in the beam by a prediction."""
    edges, label = execution.edges, execution.labels(partial, step.edge)
    weights, nodes, _ = execution.best(partial, step.child, step.edge)
    _, statements = edges.facts(OTHER[step.given], np.array([parent]), label)
    along = np.unique(edges.ends(step.given, statements)).astype(np.int64)
    own = partial.truth.get(step.child)
    truths = [torch.ones(len(along)) if own is None else own[0].at(along)]
    children = [along]
    fact = execution.pattern.edges[step.edge].fact
    for place, row in edges.predicted(step.given, nodes[0], np.repeat(label, nodes.shape[1]), fact):
        truths.append(execution.norm(weights[0][place : place + 1], row.at(np.array([parent])), None))
        children.append(nodes[0][place : place + 1])
    truth, child = torch.cat(truths).numpy(), np.concatenate(children)
    return int(child[truth == truth.max()].min())


def _reason(execution: Execution, partial: Partial, edge: int, side: Side, values: Values) -> Reason:
    """Looks one edge up, with its qualifier values."""
    asked, edges = execution.pattern.edges[edge], execution.edges
    head, tail = values[asked.head], values[asked.tail]
    label = int(execution.labels(partial, edge)[0])
    truth, rows = edges.one(side, head, tail, label, asked.fact)
    relation, pairs = edges.all_labels.meaning[label]
    assert relation != ANY, "a relation that is a variable is bound"
    for place, (_, node) in enumerate(asked.values):
        key, value = execution.pair_relation(partial, 0, edge, place), values[node]
        label = edges.all_labels.number((relation, pairs))
        for _, row, _ in edges.values(np.array([head]), np.array([tail]), np.array([label]), [key], asked.fact):
            truth = float(execution.norm(torch.tensor(truth), row.at(np.array([value]))[0], None))
        pairs = tuple(sorted({*pairs, (key, value)}))
    if asked.values:
        _, rows = edges.between(np.array([head]), np.array([tail]), np.array([edges.all_labels.number((relation, pairs))]))
    graph = edges.known.graph
    entity, named = graph.entities.identifier, graph.relations.identifier
    atom = Atom(entity(head), named(relation), entity(tail), tuple((named(key), entity(value)) for key, value in pairs))
    return Reason(edge, atom, truth, tuple(map(graph.statement, rows.tolist())), side)
