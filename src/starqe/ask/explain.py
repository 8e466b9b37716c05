"""Makes explanations: the statements that prove a known answer, or the best way in which a predicted one could hold."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from starqe.ask.answers import Answer
from starqe.ask.explanation import Explanation, Views
from starqe.deadline import NEVER, Deadline
from starqe.queries import Atom, Query, Variable
from starqe.queries.gaps import gaps_of
from starqe.queries.shape import ONE_HOP, Shape
from starqe.reason.executor.derivation import Contribution, Reason, replaced
from starqe.reason.executor.executor import Executor
from starqe.reason.mixture import Mixture

PROOF = "The graph entails a known answer: every statement that is given for it is one of its facts."
PREDICTION = (
    "A prediction is not a fact. What is given for it is the best way found in which the answer could hold; "
    "the probability of the answer also counts the model's view of the whole question."
)

NARROWED = "Not every candidate of its inner variables was tried (the beam was cut), so a better way may exist."


def explain_known(executor: Executor, query: Query, answer: Answer, deadline: Deadline = NEVER) -> Explanation:
    """Explains a known answer by the statements that prove it: one proof, the first in the order of the graph."""
    derivation = executor.explain_known(query.plain_form(), [executor.known.graph.entities.id(answer.entity)], deadline)
    assert derivation is not None, "a known answer has a proof"
    return Explanation(query, answer, derivation, PROOF)


def explain_predicted(executor: Executor, query: Query, answer: Answer, deadline: Deadline = NEVER) -> Explanation:
    """Explains a predicted answer by the best way in which it could hold, edge by edge.

    Raises:
        DeadlineError: The time is up.
    """
    (derivation,) = executor.explain(query.plain_form(), [[executor.known.graph.entities.id(answer.entity)]], deadline)
    predicted = [reason for reason in derivation.reasons if not reason.fact and reason.atom.qualifiers]
    weighed = {reason.edge: replace(reason, contributions=_contributions(executor, reason)) for reason in predicted}
    return Explanation(query, answer, replace(derivation, root=replaced(derivation.root, weighed)), PREDICTION)


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
    """Returns the values of the variables in the best way in which each of several predicted answers could hold.

    Raises:
        DeadlineError: The time is up.
    """
    found = executor.explain(query, [[id_] for id_ in answers], deadline)
    return [{Variable(name): value for name, value in derivation.assignment.items()} for derivation in found]


def _contributions(executor: Executor, reason: Reason) -> tuple[Contribution, ...]:
    """Asks again without each of the pairs: facts first, as the executor does, and then the one-hop predictor."""
    graph, atom, target = executor.known.graph, reason.atom, Variable("answer")
    head, relation, tail = graph.entities.id(str(atom.head)), graph.relations.id(str(atom.relation)), graph.entities.id(str(atom.tail))
    wanted = tail if reason.given == "head" else head
    shapes: Mapping[str, Shape] = {shape.name: shape for shape in ONE_HOP.values()}
    found = []
    for pair in atom.qualifiers:
        rest = tuple(other for other in atom.qualifiers if other != pair)
        asked = Atom(atom.head, atom.relation, target, rest) if reason.given == "head" else Atom(target, atom.relation, atom.tail, rest)
        table = Query.conjunction([asked], target.name).to_table(graph, shapes=shapes)
        pairs = [(graph.relations.id(str(relation)), graph.entities.id(str(value))) for relation, value in rest]
        if executor.known.holds(head, relation, tail, pairs):
            without = 1.0
        else:
            with torch.inference_mode():
                chances = executor.one_hop.probabilities(gaps_of(table, [0]), torch.empty(1, len(graph.entities)))
            without = min(float(chances[0, wanted]), executor.settings.cap)
        found.append(Contribution(str(pair[0]), str(pair[1]), reason.probability - without))
    return tuple(found)
