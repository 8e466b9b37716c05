"""The probability of a predicted answer: P(it is an answer in the complete graph | it is not known).

B queries · K candidates.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from starqe.measure.evaluate import Scorer
from starqe.measure.retrieval import Best, Retriever, dense_blocks, retrieve
from starqe.queries import QueryTable, Shape
from starqe.ragged import BoolArray, FloatArray, IntArray
from starqe.reason.mixture import CLASSES, shape_class

FEATURES = ("score", "log share", "log rank", "log known answers", *CLASSES)
"""The features of the probability of an answer."""


def best_candidates(scorer: Scorer, table: QueryTable, rows: IntArray, known: Sequence[IntArray], count: int, entities: int) -> Best:
    """Finds the best entities that are not known; a scorer without its own search is searched by dense scores."""
    if isinstance(scorer, Retriever):
        return scorer.best([(table, rows)], count, known)
    with torch.inference_mode():
        return retrieve(dense_blocks(scorer.scores(table, rows, torch.empty(len(rows), entities))), len(rows), count, known)


def answer_features(shapes: Sequence[Shape], best: Best, known: Sequence[int]) -> FloatArray:
    """Computes the features of all candidates, given the shape and the number of known answers of each query: (B, K, features)."""
    scores = best.scores.numpy()
    ranks = np.broadcast_to(np.log(np.arange(1, scores.shape[1] + 1)), scores.shape)
    counted = np.broadcast_to(np.log1p(np.asarray(known))[:, None], scores.shape)
    own = np.array([CLASSES.index(shape_class(shape)) for shape in shapes])
    classes = [np.broadcast_to((own == place)[:, None].astype(float), scores.shape) for place in range(len(CLASSES))]
    return np.stack([scores, best.shares.numpy(), ranks, counted, *classes], axis=2)


def candidates_exist(features: FloatArray) -> BoolArray:
    """Returns which candidates exist; some queries have fewer than K: (B, K)."""
    return np.isfinite(features[:, :, 0])


def probabilities(fitted: Callable[[FloatArray], FloatArray], features: FloatArray) -> FloatArray:
    """Computes the probabilities of candidates from their features; they never rise along the ranking: (B, K)."""
    exists = candidates_exist(features)
    found = np.zeros(exists.shape)
    found[exists] = fitted(features[exists])
    return np.minimum.accumulate(found, axis=1)
