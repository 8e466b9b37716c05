"""One-hop predictions as probabilities: how likely is it that an unknown statement holds?

A softmax distributes one unit of belief over the entities. It is not a probability of truth: a question may have no
further answer, or many. So the belief that remains besides the known answers is calibrated on validation, together with what
is known about the question: its number of known answers, and the usual number of answers of its relation.

B questions · V entities.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from starqe.kg import Known
from starqe.kg.known import Side
from starqe.measure.links import GapScorer
from starqe.queries.exact.entailed import Entailed
from starqe.queries.gaps import TAIL, Gaps
from starqe.ragged import FloatArray, Ragged
from starqe.reason.logistic import Logistic

FEATURES = ("log belief", "log known answers", "log usual answers", "log known x usual")
SIDES: tuple[Side, ...] = ("head", "tail")
_FLOOR = 1e-6  # the minimum belief that remains besides the known answers


def log_share(scores: Tensor) -> Tensor:
    """Turns scores, in place, into the logarithm of their softmax over all entities: (B, V)."""
    return torch.log_softmax(scores, 1, out=scores)


class OneHopProbability:
    """Calibrated probabilities of one-hop answers (`starqe.reason.executor.truth.OneHop`): P(it is an answer | it is not known to be)."""

    def __init__(self, scorer: GapScorer, known: Known, calibration: Logistic) -> None:
        self._scorer, self._calibration = scorer, calibration
        self._context = Context(known)

    def probabilities(self, gaps: Gaps, out: Tensor) -> Tensor:
        """Returns the probability of every entity as the missing end: (B, V)."""
        beliefs = log_share(self._scorer.entity_scores(gaps, out))  # (B, V)
        question = self._context.questions(gaps, beliefs)
        slope = self._calibration.weights[0]
        shift = self._calibration.logits(question.features) - slope * question.left  # (B,)
        return beliefs.mul_(slope).add_(torch.from_numpy(shift.astype(np.float32))[:, None]).sigmoid_()


@dataclass(frozen=True, eq=False)
class Questions:
    """What is known about some questions."""

    features: FloatArray  # (B, features), with 0 in place of the belief in a candidate
    left: FloatArray  # (B,) the logarithm of the belief that remains besides the known answers
    known: Ragged  # the known answers


class Context:
    """Computes what is known about questions."""

    def __init__(self, known: Known) -> None:
        self._entailed = Entailed(known)
        self._usual = {given: usual_answers(known, given) for given in SIDES}

    def questions(self, gaps: Gaps, beliefs: Tensor) -> Questions:
        """Computes the features of questions, given the logarithm of the belief in every entity. (B, V)."""
        answers = self._entailed.answers(gaps)
        taken = np.zeros(len(gaps))
        np.add.at(taken, answers.owner, np.exp(beliefs[answers.owner, answers.items].numpy()))
        counted = np.log1p(answers.counts)
        expected = np.where(gaps.position == TAIL, self._usual["head"][gaps.relation], self._usual["tail"][gaps.relation])
        features = np.stack([np.zeros(len(gaps)), counted, expected, counted * expected], axis=1)
        return Questions(features, np.log(np.maximum(1 - taken, _FLOOR)), answers)


def usual_answers(known: Known, given: Side) -> FloatArray:
    """Computes, for every relation, the logarithm of the mean number of answers of a question with this end given: (relations,)."""
    graph = known.graph
    node = (graph.head if given == "head" else graph.tail)[known.rows].astype(np.int64)
    relation, count = graph.relation[known.rows], len(graph.relations)
    statements = np.bincount(relation, minlength=count)
    questions = np.bincount(np.unique(relation * len(graph.entities) + node) // len(graph.entities), minlength=count)
    return np.asarray(np.log(np.maximum(statements, 1) / np.maximum(questions, 1)))
