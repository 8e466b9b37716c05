"""The probability of a predicted answer: P(it is an answer in the complete graph | it is not known).

B queries · K candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from starqe.queries import Shape
from starqe.ragged import FloatArray, IntArray
from starqe.reason.logistic import Logistic
from starqe.reason.mixture import CLASSES, shape_class

FEATURES = ("score", "log share", "log rank", "log known answers", *CLASSES)
"""The features of the probability of an answer."""


@dataclass(frozen=True, eq=False)
class Best:
    """The best candidates of some queries that are not known to be answers, best first."""

    entities: IntArray  # (B, K)
    scores: FloatArray  # (B, K); -inf where there are no more
    shares: FloatArray  # (B, K) the logarithm of each one's share among all that are not known
    known: IntArray  # (B,) the number of known answers


def best_candidates(scores: Tensor, known: list[IntArray], count: int) -> Best:
    """Picks the best entities that are not known; the scores of known ones are overwritten."""
    for row, entities in enumerate(known):
        scores[row, torch.from_numpy(entities.astype(np.int64))] = -torch.inf
    values, entities_ = scores.topk(min(count, scores.shape[1]), dim=1)
    shares = values - scores.logsumexp(1, keepdim=True)
    return Best(entities_.numpy(), values.numpy(), shares.numpy(), np.array([len(of_row) for of_row in known]))


def answer_features(shapes: Sequence[Shape], best: Best) -> FloatArray:
    """Computes the features of all candidates, given the shape of each query: (B, K, features)."""
    ranks = np.broadcast_to(np.log(np.arange(1, best.scores.shape[1] + 1)), best.scores.shape)
    known = np.broadcast_to(np.log1p(best.known)[:, None], best.scores.shape)
    own = np.array([CLASSES.index(shape_class(shape)) for shape in shapes])
    classes = [np.broadcast_to((own == place)[:, None].astype(float), best.scores.shape) for place in range(len(CLASSES))]
    return np.stack([best.scores, best.shares, ranks, known, *classes], axis=2)


def probabilities(fitted: Logistic, shapes: Sequence[Shape], best: Best) -> FloatArray:
    """Computes the probabilities of candidates; they never rise along the ranking: (B, K)."""
    features = answer_features(shapes, best)
    exists = np.isfinite(features[:, :, 0])
    found = np.zeros(best.scores.shape)
    found[exists] = fitted(features[exists])
    return np.minimum.accumulate(found, axis=1)
