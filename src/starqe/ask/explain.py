"""Reasons: the statements that prove a known answer, or the best way in which a predicted one could hold."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from starqe.ask.answers import Answer, Contribution, Explanation, Reason
from starqe.kg import Graph, Known
from starqe.queries import SHAPES, Atom, Query, Variable, assignments
from starqe.queries.formula import Term
from starqe.queries.layout import Layout, lay_out
from starqe.queries.shape import Shape
from starqe.reason.executor import Executor
from starqe.reason.explain import Support
from starqe.reason.plan import plan_of
from starqe.reason.truth import ONE_HOP

PROOF = "The graph entails a known answer: every statement that is given for it is one of its facts."
PREDICTION = (
    "A prediction is not a fact. What is given for it is the best way found in which the answer could hold; "
    "the probability of the answer also counts what the model says of the query as a whole."
)


def explain_known(known: Known, query: Query, answer: Answer) -> Explanation:
    """Gives the statements that prove a known answer: one proof, the first in the order of the graph."""
    graph = known.graph
    found = assignments(known, query, limit=1, given={query.target: graph.entities.id(answer.entity)})
    filled = {variable: graph.entities.identifier(ids[0]) for variable, ids in found.items()}
    reasons = tuple(_fact(known, _fill(atom, filled)) for atom in query.plain_form().all_atoms)
    return Explanation(query, answer, {variable.name: entity for variable, entity in filled.items()}, reasons, PROOF)


def explain_predicted(executor: Executor, query: Query, answer: Answer) -> Explanation:
    """Gives the best way in which a predicted answer could hold, edge by edge.

    Raises:
        UnsupportedError: The query has no shape.
    """
    ((plan, edges, filled),) = _derived(executor, query, [executor.known.graph.entities.id(answer.entity)])
    given = plan_of(plan.shape).given
    reason_of = {atom: _reason(executor, _fill(atom, filled), edge, given[edge.edge]) for atom, edge in zip(plan.atoms, edges, strict=True)}
    reasons = tuple(reason_of[atom] for atom in query.plain_form().all_atoms)
    return Explanation(query, answer, {variable.name: entity for variable, entity in filled.items()}, reasons, PREDICTION)


def predicted_assignments(executor: Executor, query: Query, answers: Sequence[int]) -> list[dict[Variable, str]]:
    """Gives what the variables stand for in the best way in which each of several predicted answers could hold.

    Raises:
        UnsupportedError: The query has no shape.
    """
    return [filled for _, _, filled in _derived(executor, query, answers)]


Derived = tuple[Layout, tuple[Support, ...], dict[Variable, str]]
"""The atoms in the order of a shape, their edges in the best way for an answer, and the entities of the variables."""


def _derived(executor: Executor, query: Query, answers: Sequence[int]) -> list[Derived]:
    graph, found = executor.known.graph, []
    plan = lay_out(query.plain_form().conjuncts("an explanation"), query.target, SHAPES)
    for way in executor.explain_many(query.to_table(graph), 0, answers):
        filled: dict[Variable, str] = {}
        for atom, edge in zip(plan.atoms, way.edges, strict=True):
            for term, id_ in ((atom.head, edge.head), (atom.tail, edge.tail)):
                if isinstance(term, Variable):
                    filled[term] = graph.entities.identifier(id_)
        found.append((plan, way.edges, filled))
    return found


def _fill(atom: Atom, filled: Mapping[Variable, str]) -> Atom:
    def value(term: Term) -> Term:
        return filled[term] if isinstance(term, Variable) else term

    return Atom(value(atom.head), atom.relation, value(atom.tail), atom.qualifiers)


def _fact(known: Known, atom: Atom) -> Reason:
    graph = known.graph
    ends = (np.array([graph.entities.id(str(term))]) for term in (atom.head, atom.tail))
    head, tail = ends
    _, rows = known.find(head, graph.relations.id(str(atom.relation)), tail)
    pairs = [(graph.relations.id(str(r)), graph.entities.id(str(v))) for r, v in atom.qualifiers]
    rows = rows[known.with_pairs(rows, pairs)]
    return Reason(atom, True, 1.0, tuple(graph.statement(row) for row in rows.tolist()))


def _reason(executor: Executor, atom: Atom, edge: Support, given: str) -> Reason:
    graph = executor.known.graph
    if edge.fact:
        return Reason(atom, True, 1.0, tuple(graph.statement(row) for row in edge.statements))
    return Reason(atom, False, edge.truth, (), _contributions(executor, graph, atom, edge, given))


def _contributions(executor: Executor, graph: Graph, atom: Atom, edge: Support, given: str) -> tuple[Contribution, ...]:
    """Asks again without each of the pairs: facts first, as the executor does, and then the one-hop predictor."""
    target = Variable("answer")
    wanted = edge.tail if given == "head" else edge.head
    shapes: Mapping[str, Shape] = {shape.name: shape for shape in ONE_HOP.values()}
    found = []
    for pair in atom.qualifiers:
        rest = tuple(other for other in atom.qualifiers if other != pair)
        asked = Atom(atom.head, atom.relation, target, rest) if given == "head" else Atom(target, atom.relation, atom.tail, rest)
        table = Query.conjunction([asked], target.name).to_table(graph, shapes=shapes)
        pairs = [(graph.relations.id(str(relation)), graph.entities.id(str(value))) for relation, value in rest]
        if executor.known.holds(edge.head, edge.relation, edge.tail, pairs):
            without = 1.0
        else:
            with torch.inference_mode():
                chances = executor.one_hop.probabilities(table, np.array([0]), torch.empty(1, len(graph.entities)))
            without = min(float(chances[0, wanted]), executor.settings.cap)
        found.append(Contribution(str(pair[0]), str(pair[1]), edge.truth - without))
    return tuple(found)
