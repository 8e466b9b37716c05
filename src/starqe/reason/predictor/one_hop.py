"""One-hop predictions as probabilities: how likely is it that an unknown statement holds?

A softmax distributes one unit of belief over the entities. It is not the probability that a statement is true: a question may have no
further answer, or many. So the belief that remains after the known answers is calibrated on validation, together with what
is known about the question: its number of known answers, and the usual number of answers of its relation.

B questions · V entities.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from starqe.kg import Known
from starqe.kg.known import Side, distinct
from starqe.measure.exact_search import Nearest
from starqe.measure.links import GapRetriever, GapScorer, GapTable
from starqe.measure.retrieval import dense_blocks, retrieve
from starqe.queries.exact.entailed import Entailed
from starqe.queries.gaps import MISSING, TAIL, VALUE, Gaps
from starqe.ragged import BoolArray, FloatArray, IntArray, Ragged
from starqe.reason.listed import Listed, Prediction, everywhere
from starqe.reason.logistic import Logistic

FEATURES = ("log belief", "log known answers", "log usual answers", "log known x usual")
SIDES: tuple[Side, ...] = ("head", "tail")
_FLOOR = 1e-6  # the minimum belief that remains after the known answers
_ROWS = 4  # rows processed at a time: those of 50,000 entities stay in the cache
_ROUNDING = 1e-4  # a logit may exceed its bound by the rounding of float32 sums


def log_share(scores: Tensor) -> Tensor:
    """Turns scores, in place, into the logarithm of their softmax over all entities: (B, V)."""
    return torch.log_softmax(scores, 1, out=scores)


class OneHopProbability:
    """Calibrated probabilities of one-hop answers (`starqe.reason.executor.truth.OneHop`): P(it is an answer | it is not known to be).

    A relation that no known statement (or no known qualifier) has is not predicted there: a model has learned nothing
    about it.
    """

    def __init__(self, scorer: GapScorer, known: Known, calibration: Logistic) -> None:
        self._scorer, self._calibration = scorer, calibration
        self._context = Context(known)
        relations, keys = known.graph.relation[known.rows], known.graph.pairs.take(known.rows).items[:, 0]
        self._stated, self._qualifying = (np.bincount(used, minlength=len(known.graph.relations)) > 0 for used in (relations, keys))

    def probabilities(self, gaps: Gaps, out: Tensor) -> Tensor:
        """Returns the probability of every entity as the missing end: (B, V)."""
        return self._probabilities(gaps, self._scorer.entity_scores(gaps, out))[0]

    def rounded(self, gaps: Gaps) -> list[Listed]:
        """Returns the same probabilities; they may be rounded, and then have an exact source."""
        if not isinstance(self._scorer, GapTable):
            return [Listed(row) for row in self.probabilities(gaps, torch.empty(len(gaps), self._context.entities))]
        found = self._scorer.every_entity(gaps)
        chances, shifts = self._probabilities(gaps, found.scores)
        if not found.rounded:
            return [Listed(row) for row in chances]
        slope, occurs = self._calibration.weights[0], self._occurs(gaps).tolist()
        return [
            Listed(chances[row], source=Prediction(found.at, row, slope, shift) if occurs[row] else None)
            for row, shift in enumerate(shifts.tolist())
        ]

    def _probabilities(self, gaps: Gaps, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Turns the scores of all entities, in place, into probabilities σ(slope · score + shift), and returns the shifts. (B, V), (B,)."""
        first = scores[:, 0].clone()
        blocks = [slice(start, start + _ROWS) for start in range(0, len(gaps), _ROWS)]
        for block in blocks:
            log_share(scores[block])
        question = self._context.questions(gaps, scores)
        slope = self._calibration.weights[0]
        shifts = torch.from_numpy((self._calibration.logits(question.features) - slope * question.left).astype(np.float32))
        total = first - scores[:, 0]  # the logarithm of the normaliser
        for block in blocks:
            scores[block].mul_(slope).add_(shifts[block, None]).sigmoid_()
        if len(never := np.flatnonzero(~self._occurs(gaps))):
            scores[torch.from_numpy(never)] = 0
        return scores, shifts - slope * total

    def _occurs(self, gaps: Gaps) -> BoolArray:
        """Returns whether known statements have the relation of a gap in its place: (B,)."""
        found = self._stated[gaps.relation]
        if len(keys := gaps.pair_relation[gaps.pair_value == MISSING]):
            found[gaps.position == VALUE] &= self._qualifying[keys]
        return found

    def best(self, gaps: Gaps, count: int) -> list[Listed]:
        """Returns the probabilities of the most probable entities that are not known answers; of all entities, if the scorer is dense."""
        if not isinstance(self._scorer, GapRetriever):
            return [Listed(row) for row in self.probabilities(gaps, torch.empty(len(gaps), self._context.entities))]
        found = best_beliefs(self._scorer, self._context, gaps, count)
        slope = self._calibration.weights[0]
        logits = torch.from_numpy(self._calibration.logits(self._context.features(gaps, found.known.counts)).astype(np.float32))
        shift = logits - slope * found.left  # (B,)
        there = found.beliefs.isfinite()
        chances = found.beliefs.mul(slope).add_(shift[:, None]).sigmoid_()  # (B, k), the most probable first unless the slope is negative
        order = np.argsort(np.where(there.numpy(), found.ids, np.iinfo(np.int64).max), axis=1)
        ids, values = np.take_along_axis(found.ids, order, 1), chances.gather(1, torch.from_numpy(order))
        least = chances[:, -1].tolist() if slope >= 0 else [1.0] * len(gaps)
        shifts = (shift - slope * found.total).tolist()
        sizes, occurs = there.sum(1).tolist(), self._occurs(gaps).tolist()
        return [
            Listed(values[row, :size], ids[row, :size], least[row] if size == count else 0.0, Prediction(found.at, row, slope, shifts[row]))
            if occurs[row]
            else everywhere(0)
            for row, size in enumerate(sizes)
        ]

    def ceilings(self, gaps: Gaps) -> Tensor:
        """Returns an upper bound on the probability of every entity that is not a known answer: (B,).

        The belief in such an entity is at most what remains after the known answers, so its logit is at most that of the other
        features. They depend on the number of known answers, which is not counted here but lies between 0 and the number of statements.
        """
        slope = self._calibration.weights[0]
        if slope < 0 or (gaps.position == VALUE).any():
            return torch.ones(len(gaps))
        logits = [self._calibration.logits(self._context.features(gaps, counts)) for counts in self._context.limits(gaps)]
        return torch.from_numpy(np.maximum(*logits).astype(np.float32)).add_(_ROUNDING).sigmoid_()


@dataclass(frozen=True, eq=False)
class Beliefs:
    """The beliefs in the best entities of some questions that are not known answers."""

    ids: IntArray  # (B, k)
    beliefs: Tensor  # (B, k) logarithms, the largest first; -inf where there are no more
    total: Tensor  # (B,) the logarithm of the normaliser of all scores
    left: Tensor  # (B,) the logarithm of the belief that remains after the known answers
    known: Ragged  # the known answers
    at: Callable[[IntArray, IntArray], Tensor]
    """Returns the scores of some entities for some of the questions: (r,), (n,) -> (r, n)."""


def best_beliefs(scorer: GapScorer, context: "Context", gaps: Gaps, count: int) -> Beliefs:
    """Finds the entities with the highest beliefs that are not known answers."""
    known = context.answers(gaps)
    without = [known[row] for row in range(len(gaps))]
    with torch.inference_mode():
        if isinstance(scorer, GapRetriever):
            found = scorer.nearest_entities(gaps, count, without)
        else:
            scores = scorer.entity_scores(gaps, torch.empty(len(gaps), context.entities))
            best = retrieve(dense_blocks(scores.clone()), len(gaps), count, without)
            found = Nearest(best, lambda rows, ids: scores[torch.from_numpy(rows)][:, torch.from_numpy(ids).long()])
        total = found.best.log_normaliser.clone()
        for row in np.flatnonzero(known.counts).tolist():
            total[row] = torch.logaddexp(total[row], found.at(np.array([row]), known[row]).logsumexp(1)[0])
    left = (found.best.log_normaliser - total).clamp_min_(math.log(_FLOOR))
    return Beliefs(found.best.ids, found.best.scores - total[:, None], total, left, known, found.at)


@dataclass(frozen=True, eq=False)
class Questions:
    """What is known about some questions."""

    features: FloatArray  # (B, features), with 0 in place of the belief in a candidate
    left: FloatArray  # (B,) the logarithm of the belief that remains after the known answers
    known: Ragged  # the known answers


class Context:
    """Computes what is known about questions."""

    def __init__(self, known: Known) -> None:
        self._known, self._entailed = known, Entailed(known)
        self._usual = {given: usual_answers(known, given) for given in SIDES}

    def questions(self, gaps: Gaps, beliefs: Tensor) -> Questions:
        """Computes the features of questions, given the logarithm of the belief in every entity. (B, V)."""
        answers = self.answers(gaps)
        taken = np.zeros(len(gaps))
        np.add.at(taken, answers.owner, np.exp(beliefs[answers.owner, answers.items].numpy()))
        return Questions(self.features(gaps, answers.counts), np.log(np.maximum(1 - taken, _FLOOR)), answers)

    @property
    def entities(self) -> int:
        """The number of entities."""
        return len(self._known.graph.entities)

    def answers(self, gaps: Gaps) -> Ragged:
        """Returns the known answers of questions."""
        return self._entailed.answers(gaps)

    def features(self, gaps: Gaps, known: IntArray) -> FloatArray:
        """Computes the features of questions with these numbers of known answers, with 0 in place of the belief: (B, features)."""
        counted = np.log1p(known)
        expected = np.where(gaps.position == TAIL, self._usual["head"][gaps.relation], self._usual["tail"][gaps.relation])
        return np.stack([np.zeros(len(gaps)), counted, expected, counted * expected], axis=1)

    def limits(self, gaps: Gaps) -> tuple[IntArray, IntArray]:
        """Returns bounds on the number of known answers of questions for an end, without looking them up: (B,) each."""
        tails = gaps.position == TAIL
        most = np.zeros(len(gaps), np.int64)
        for side, asked in zip(SIDES, (tails, ~tails), strict=True):
            most[asked] = self._known.counts(side, getattr(gaps, side)[asked], gaps.relation[asked])
        return np.minimum(most, gaps.pairs.counts == 0), most


def usual_answers(known: Known, given: Side) -> FloatArray:
    """Computes, for every relation, the logarithm of the mean number of answers of a question with this end given: (relations,)."""
    graph = known.graph
    node = (graph.head if given == "head" else graph.tail)[known.rows].astype(np.int64)
    relation, count = graph.relation[known.rows].astype(np.int64), len(graph.relations)
    statements = np.bincount(relation, minlength=count)
    questions = np.bincount(distinct(relation * len(graph.entities) + node) // len(graph.entities), minlength=count)
    return np.asarray(np.log(np.maximum(statements, 1) / np.maximum(questions, 1)))
