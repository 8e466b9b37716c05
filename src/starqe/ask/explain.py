"""Reasons: the statements that prove a known answer, or the best way in which a predicted one could hold."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from starqe.ask.answers import Answer, Contribution, Explanation, Reason, Views
from starqe.deadline import NEVER, Deadline
from starqe.kg import Graph, Known
from starqe.queries import Atom, Query, Variable, assignments
from starqe.queries.formula import Term
from starqe.queries.gaps import gaps_of
from starqe.queries.shape import ONE_HOP, Shape
from starqe.reason.executor.executor import Executor
from starqe.reason.executor.explain import Support, Way
from starqe.reason.mixture import Mixture

PROOF = "The graph entails a known answer: every statement that is given for it is one of its facts."
PREDICTION = (
    "A prediction is not a fact. What is given for it is the best way found in which the answer could hold; "
    "the probability of the answer also counts the model's view of the whole question."
)

NARROWED = "Not every candidate of its inner variables was tried (the beam was cut), so a better way may exist."


def explain_known(known: Known, query: Query, answer: Answer, deadline: Deadline = NEVER) -> Explanation:
    """Gives the statements that prove a known answer: one proof, the first in the order of the graph."""
    graph = known.graph
    found = assignments(known, query, limit=1, given={query.target: graph.entities.id(answer.entity)}, deadline=deadline)
    filled = {variable: graph.entities.identifier(ids[0]) for variable, ids in found.items()}
    reasons = tuple(_fact(known, _fill(atom, filled)) for atom in query.plain_form().all_atoms)
    return Explanation(query, answer, {variable.name: entity for variable, entity in filled.items()}, reasons, PROOF)


def explain_predicted(executor: Executor, query: Query, answer: Answer, deadline: Deadline = NEVER) -> Explanation:
    """Gives the best way in which a predicted answer could hold, edge by edge.

    Raises:
        UnsupportedError: The query has no shape.
    """
    graph = executor.known.graph
    (way,) = executor.explain(query, [[graph.entities.id(answer.entity)]], deadline)
    filled = _filled(way, query, graph)
    atoms = query.plain_form().all_atoms
    reasons = tuple(_reason(executor, _fill(atoms[edge.edge], filled), edge) for edge in way.edges)
    return Explanation(query, answer, {variable.name: entity for variable, entity in filled.items()}, reasons, PREDICTION)


def views_of(mixture: Mixture, executor: Executor, query: Query, answer: int, deadline: Deadline = NEVER) -> Views:
    """Computes the two views that the ranking of an answer mixes.

    Raises:
        UnsupportedError: The query has no shape.
        DeadlineError: The time is up.
    """
    table, row = query.to_table(executor.known.graph), np.array([0])
    with torch.inference_mode():
        result = executor.truths(table, row, deadline=deadline)
        shares = mixture.encoder_shares(table, row, torch.empty(1, len(executor.known.graph.entities)))
    truth, slack = float(result.values[0, answer]), float(result.slack[0])
    return Views(truth, slack == 0 or truth > slack, float(shares[0, answer]), mixture.weights.of(table.shape))


def predicted_assignments(
    executor: Executor, query: Query, answers: Sequence[int], deadline: Deadline = NEVER
) -> list[dict[Variable, str]]:
    """Gives what the variables stand for in the best way in which each of several predicted answers could hold.

    Raises:
        UnsupportedError: The query has no shape.
    """
    ways = executor.explain(query, [[id_] for id_ in answers], deadline)
    return [_filled(way, query, executor.known.graph) for way in ways]


def _filled(way: Way, query: Query, graph: Graph) -> dict[Variable, str]:
    """The entities of the variables in one way to make an answer true."""
    return {variable: graph.entities.identifier(way.values[str(variable)]) for variable in query.variables}


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


def _reason(executor: Executor, atom: Atom, edge: Support) -> Reason:
    graph = executor.known.graph
    if edge.fact:
        return Reason(atom, True, 1.0, tuple(graph.statement(row) for row in edge.statements))
    return Reason(atom, False, edge.truth, (), _contributions(executor, graph, atom, edge))


def _contributions(executor: Executor, graph: Graph, atom: Atom, edge: Support) -> tuple[Contribution, ...]:
    """Asks again without each of the pairs: facts first, as the executor does, and then the one-hop predictor."""
    target, given = Variable("answer"), edge.given
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
                chances = executor.one_hop.probabilities(gaps_of(table, [0]), torch.empty(1, len(graph.entities)))
            without = min(float(chances[0, wanted]), executor.settings.cap)
        found.append(Contribution(str(pair[0]), str(pair[1]), edge.truth - without))
    return tuple(found)
