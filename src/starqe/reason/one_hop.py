"""One-hop predictions as probabilities: how likely is it that a statement holds which is not known?

A softmax says how a model spreads one unit of belief over the entities. It is no probability of truth: a question may have no
further answer, or many. So the belief that is left beside the known answers is calibrated on validation, together with what
the known statements tell of the question: how many answers are known, and how many its relation usually has.

B questions · V entities.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from starqe.errors import QueryError
from starqe.kg import Graph, Known
from starqe.kg.known import Side
from starqe.learn import EncoderScorer
from starqe.measure.ranks import Ragged
from starqe.queries import SHAPES, QueryTable, answer_rows, sample
from starqe.queries.shape import INVERSE
from starqe.reason.logistic import Logistic, fit_logistic
from starqe.seed import derive

CANDIDATES = 50
"""How many of the best candidates of each question the calibration learns from."""
FEATURES = ("log belief", "log known answers", "log usual answers", "log known x usual")
SIDES: tuple[Side, ...] = ("head", "tail")
_FLOOR = 1e-6  # the least belief that counts as left beside the known answers


class LogScorer(Protocol):
    """Anything that spreads one unit of belief over all entities."""

    def log_probabilities(self, table: QueryTable, rows: np.ndarray, out: Tensor) -> Tensor:
        """Gives the logarithm of each entity's share for one-hop questions; may write to ``out`` and return it: (B, V)."""


class EncoderOneHop:
    """The encoder of whole queries, asked for one edge."""

    def __init__(self, scorer: EncoderScorer) -> None:
        self._scorer = scorer

    def log_probabilities(self, table: QueryTable, rows: np.ndarray, out: Tensor) -> Tensor:
        """Gives the logarithm of the softmax over all entities: (B, V)."""
        return log_share(self._scorer.scores(table, rows, out))


def log_share(scores: Tensor) -> Tensor:
    """Turns scores, in place, into the logarithm of their softmax over all entities: (B, V)."""
    return scores.sub_(scores.logsumexp(1, keepdim=True))


class OneHopProbability:
    """Calibrated probabilities of one-hop answers (`starqe.reason.truth.OneHop`): P(it is an answer | it is not known to be)."""

    def __init__(self, scorer: LogScorer, known: Known, calibration: Logistic) -> None:
        self._scorer, self._known, self._calibration = scorer, known, calibration
        self._usual = {given: usual_answers(known, given) for given in SIDES}

    def probabilities(self, table: QueryTable, rows: np.ndarray, out: Tensor) -> Tensor:
        """Gives the probability of every entity as an answer: (B, V)."""
        beliefs = self._scorer.log_probabilities(table, rows, out)  # (B, V)
        question = _questions(self._known, self._usual, table, rows, beliefs)
        slope = self._calibration.weights[0]
        shift = self._calibration.logits(question.features) - slope * question.left  # (B,)
        return beliefs.mul_(slope).add_(torch.from_numpy(shift.astype(np.float32))[:, None]).sigmoid_()


@dataclass(frozen=True, eq=False)
class _Questions:
    features: np.ndarray  # (B, features), with 0 in place of the belief in a candidate
    left: np.ndarray  # (B,) the logarithm of the belief that is left beside the known answers
    known: Ragged  # the known answers


def _questions(known: Known, usual: Mapping[Side, np.ndarray], table: QueryTable, rows: np.ndarray, beliefs: Tensor) -> _Questions:
    """Gathers what is known of questions; the usual answers take a pass over all statements, so they come from outside."""
    answers = Ragged(*answer_rows(known, table, rows))
    taken = np.zeros(len(rows))
    np.add.at(taken, answers.query, np.exp(beliefs[answers.query, answers.entities].numpy()))
    counted = np.log1p(answers.counts)
    expected = usual["head" if table.shape.edges[0][1] == "?" else "tail"][table.relations[rows, 0]]
    features = np.stack([np.zeros(len(rows)), counted, expected, counted * expected], axis=1)
    return _Questions(features, np.log(np.maximum(1 - taken, _FLOOR)), answers)


def usual_answers(known: Known, given: Side) -> np.ndarray:
    """Gives, for every relation, the logarithm of the mean number of answers of a question with this end given: (relations,)."""
    graph = known.graph
    node = (graph.head if given == "head" else graph.tail)[known.rows].astype(np.int64)
    relation, count = graph.relation[known.rows], len(graph.relations)
    statements = np.bincount(relation, minlength=count)
    questions = np.bincount(np.unique(relation * len(graph.entities) + node) // len(graph.entities), minlength=count)
    return np.asarray(np.log(np.maximum(statements, 1) / np.maximum(questions, 1)))


def fit_one_hop(graph: Graph, scorer: LogScorer, count: int = 2_000, seed: int = 0) -> Logistic:
    """Calibrates one-hop predictions on validation: which of the best candidates beyond train hold with valid?

    Half of the questions come from validation statements, half from training statements (which seldom have a further answer),
    each in both directions and with none to two qualifiers. Only train is looked up as known.

    Raises:
        QueryError: The graph has no validation statements to learn from.
    """
    if not len(graph.known(["valid"])):
        raise QueryError("probabilities are calibrated on validation statements, and this graph has none. Split it anew")
    cases = [
        _cases(graph, scorer, sample(graph, shape, count // 4, split, [(0, 2)], derive(seed, "one-hop calibration")))
        for shape in (SHAPES["1p"], INVERSE)
        for split in ("valid", "train")
    ]
    features, truth = np.concatenate([case[0] for case in cases]), np.concatenate([case[1] for case in cases])
    return fit_logistic(features, truth)


def _cases(graph: Graph, scorer: LogScorer, table: QueryTable) -> tuple[np.ndarray, np.ndarray]:
    """Gives the features of the best candidates that train does not know, and whether they hold with valid."""
    train, more = graph.known(["train"]), graph.known(["train", "valid"])
    usual = {given: usual_answers(train, given) for given in SIDES}
    features, truth = [np.empty((0, len(FEATURES)))], [np.empty(0, bool)]
    entities = len(graph.entities)
    for start in range(0, len(table), 256):
        rows = np.arange(start, min(start + 256, len(table)))
        beliefs = scorer.log_probabilities(table, rows, torch.empty(len(rows), entities))
        question = _questions(train, usual, table, rows, beliefs)
        beliefs[question.known.query, question.known.entities] = -torch.inf
        best = beliefs.topk(min(CANDIDATES, entities), dim=1)  # (B, K)
        held = Ragged(*answer_rows(more, table, rows))
        holds = torch.zeros(len(rows), entities, dtype=torch.bool)
        holds[held.query, held.entities] = True
        case = np.repeat(question.features[:, None], best.values.shape[1], axis=1)  # (B, K, features)
        case[:, :, 0] = best.values.numpy() - question.left[:, None]
        real = np.isfinite(case[:, :, 0])
        features.append(case[real])
        truth.append(holds.gather(1, best.indices).numpy()[real])
    return np.concatenate(features), np.concatenate(truth)
