"""The probability of a predicted answer: P(it is an answer in the complete graph | it is not known).

It is fitted on validation queries, asked with train alone as known: which of the best candidates are answers once the validation
statements are added? So it is the probability for queries that do lack an answer. B queries · K candidates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from starqe.errors import QueryError
from starqe.kg import Graph
from starqe.measure.evaluate import Scorer
from starqe.measure.protocol import strict
from starqe.measure.reliability import Reliability, reliability
from starqe.queries import QueryTable, Shape
from starqe.reason.logistic import Logistic, fit_logistic
from starqe.reason.mixture import CLASSES, shape_class

CANDIDATES = 20
"""How many of the best candidates of a query the fit learns from."""
FEATURES = ("score", "log share", "log rank", "log known answers", *CLASSES)
"""What the probability of an answer is computed from."""
_BATCH = 64


@dataclass(frozen=True, eq=False)
class Best:
    """The best candidates of some queries that are not known to be answers, best first."""

    entities: np.ndarray  # (B, K)
    scores: np.ndarray  # (B, K); -inf where there are no more
    shares: np.ndarray  # (B, K) the logarithm of each one's share among all that are not known
    known: np.ndarray  # (B,) how many answers are known


def best_candidates(scores: Tensor, known: list[np.ndarray], count: int) -> Best:
    """Picks the best entities that are not known; the scores of known ones are overwritten."""
    for row, entities in enumerate(known):
        scores[row, torch.from_numpy(entities.astype(np.int64))] = -torch.inf
    values, entities_ = scores.topk(min(count, scores.shape[1]), dim=1)
    shares = values - scores.logsumexp(1, keepdim=True)
    return Best(entities_.numpy(), values.numpy(), shares.numpy(), np.array([len(of_row) for of_row in known]))


def answer_features(shapes: Sequence[Shape], best: Best) -> np.ndarray:
    """Gives what the probability is computed from, with the shape of each query: (B, K, features)."""
    ranks = np.broadcast_to(np.log(np.arange(1, best.scores.shape[1] + 1)), best.scores.shape)
    known = np.broadcast_to(np.log1p(best.known)[:, None], best.scores.shape)
    own = np.array([CLASSES.index(shape_class(shape)) for shape in shapes])
    classes = [np.broadcast_to((own == place)[:, None].astype(float), best.scores.shape) for place in range(len(CLASSES))]
    return np.stack([best.scores, best.shares, ranks, known, *classes], axis=2)


def probabilities(fitted: Logistic, shapes: Sequence[Shape], best: Best) -> np.ndarray:
    """Gives the probabilities of candidates; they never rise along the ranking: (B, K)."""
    features = answer_features(shapes, best)
    there = np.isfinite(features[:, :, 0])
    found = np.zeros(best.scores.shape)
    found[there] = fitted(features[there])
    return np.minimum.accumulate(found, axis=1)


def candidate_cases(graph: Graph, scorer: Scorer, tables: Mapping[str, QueryTable]) -> list[tuple[list[Shape], Best, np.ndarray]]:
    """Asks queries with their easy answers as known: the best candidates of each, and which of them are hard answers. (B, K) bool."""
    found = []
    for table in tables.values():
        task = strict(graph, table, np.arange(len(table)))
        for start in range(0, len(task.rows), _BATCH):
            rows = task.rows[start : start + _BATCH]
            hard, either = task.ranked.part(start, start + len(rows)), task.filtered.part(start, start + len(rows))
            scores = scorer.scores(table, rows, torch.empty(len(rows), len(graph.entities)))
            answers = [either.entities[either.offsets[i] : either.offsets[i + 1]] for i in range(len(rows))]
            new = [hard.entities[hard.offsets[i] : hard.offsets[i + 1]] for i in range(len(rows))]
            best = best_candidates(scores, [np.setdiff1d(a, b) for a, b in zip(answers, new, strict=True)], CANDIDATES)
            found.append(([table.shape] * len(rows), best, np.stack([np.isin(best.entities[i], new[i]) for i in range(len(rows))])))
    return found


def fit_probability(graph: Graph, scorer: Scorer, validation: Mapping[str, QueryTable]) -> Logistic:
    """Fits the probability on validation queries; the scorer knows train only.

    Raises:
        QueryError: No validation query has a hard answer.
    """
    cases = candidate_cases(graph, scorer, validation)
    features = [answer_features(shapes, best)[np.isfinite(best.scores)] for shapes, best, _ in cases]
    truth = [holds[np.isfinite(best.scores)] for _, best, holds in cases]
    if not truth:
        raise QueryError("probabilities are fitted on validation queries with answers that train lacks, and there are none")
    return fit_logistic(np.concatenate(features), np.concatenate(truth))


def check_probability(graph: Graph, scorer: Scorer, fitted: Logistic, tables: Mapping[str, QueryTable]) -> Reliability | None:
    """Compares the probabilities of the best candidates of queries with which of them are hard answers; None without any.

    The scorer knows train only, as when the probabilities were fitted.
    """
    said, held = [np.empty(0)], [np.empty(0, bool)]
    for shapes, best, holds in candidate_cases(graph, scorer, tables):
        there = np.isfinite(best.scores)
        said.append(probabilities(fitted, shapes, best)[there])
        held.append(holds[there])
    probability, truth = np.concatenate(said), np.concatenate(held)
    return reliability(probability, truth) if len(truth) else None
