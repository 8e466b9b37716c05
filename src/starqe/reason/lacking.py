"""How much a validation query counts in a fit: questions that will be asked may lack more statements than those of validation.

A query of validation needs a statement of valid, and its other statements are in train or valid. If there is a test split, more is
unknown: a query of test needs a statement of test, its others are in train, valid or test, and train alone is known. So of two edges of
an intersection, the second is seldom unknown in validation, and often in what will be asked.

The odds that a statement is unknown are valid / train in validation and (valid + test) / train afterwards: k = 1 + test / valid times as
high. Of m unknown statements one at least is in test with the probability 1 − 1 / k^m, and all are in valid with the rest. So relative
to queries that lack one statement, those that lack m are k^(m−1) · (1 − k^−m) / (1 − k^−1) = 1 + k + … + k^(m−1) times as frequent.
"""

import numpy as np

from starqe.errors import UnsupportedError
from starqe.kg import Graph
from starqe.queries import QueryTable
from starqe.queries.exact.reduction import reductions
from starqe.ragged import FloatArray, IntArray, Ragged

MAX_ROWS = 2_000_000
"""The maximum number of partial solutions; queries with more derivations count once."""


def further_odds(graph: Graph) -> float:
    """Returns k: how many times as high the odds of an unknown statement are with test as without; 1 without a test split."""
    valid, test = (len(graph.known([split])) for split in ("valid", "test"))
    return 1 + test / valid if valid else 1.0


def query_weights(graph: Graph, table: QueryTable, rows: IntArray, hard: Ragged) -> FloatArray:
    """Returns how much each of some validation queries counts: 1 + k + … + k^(m−1) if it lacks m statements; 1 without a test split. (n,).

    The statements are those of the hard answer that lacks the fewest. Only the number of test statements is used.

    Args:
        graph: The graph of the queries.
        table: The queries.
        rows: Which of them. (n,)
        hard: Their answers that train lacks; each has some.
    """
    odds = further_odds(graph)
    if odds == 1 or len(table.shape.edges) == 1:
        return np.ones(len(rows))
    try:
        count = reductions(graph, table, rows, hard, MAX_ROWS, ("train", "valid")).count
    except UnsupportedError:
        return np.ones(len(rows))
    fewest = np.full(len(rows), len(table.shape.edges))
    np.minimum.at(fewest, hard.owner, np.maximum(count, 1))  # an answer that is true by the absence of a statement lacks none
    return np.asarray((odds**fewest - 1) / (odds - 1))
