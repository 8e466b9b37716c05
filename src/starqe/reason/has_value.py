"""Whether an entity has a value at all: a film has no number of inhabitants, known or not.

Entities are described by the relations that they occur with, as head and as tail. For each relation with a scale, naive Bayes compares
the entities that have a value with all others; a logistic function, fitted on validation, turns its log-odds into a probability.

E entities · R relations.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from starqe.kg import Graph, Known
from starqe.ragged import BoolArray, FloatArray, IntArray, Ragged
from starqe.reason.logistic import Logistic, fit_logistic
from starqe.seed import generator

FEATURES = ("mean log odds", "log share of entities that have a value", "log number of traits")
LEAST_CASES = 20
"""With fewer validation values of entities that have none in train, the probability is not fitted."""
MOST_CASES = 300_000
"""The approximate number of cases to fit on."""
_SMOOTHING = 0.5


@dataclass(frozen=True, eq=False)
class HasValue:
    """The probability that an entity without a known value for a relation has one."""

    traits: Ragged
    """For each entity, the relations that it occurs with: as head r, as tail R + r; each once."""
    holders: BoolArray
    """Which entities have a value: (scales, E)."""
    own: IntArray
    """The trait of each scale's own relation, which is ignored: (scales,)."""
    logistic: Logistic | None = None

    @classmethod
    def of(cls, graph: Graph, known: Known, relations: IntArray, logistic: Logistic | None = None) -> "HasValue":
        """Describes the entities of a graph by known statements.

        Args:
            graph: The whole graph.
            known: The statements that count.
            relations: The relation of each scale.
            logistic: The fitted probability, if there is one.
        """
        rows, count = known.rows, len(graph.relations)
        between = rows[graph.tail[rows] < len(graph.entities)]
        codes = np.unique(
            np.concatenate(
                [
                    graph.head[rows].astype(np.int64) * 2 * count + graph.relation[rows],
                    graph.tail[between].astype(np.int64) * 2 * count + count + graph.relation[between],
                ]
            )
        )
        traits = Ragged.of_owner(codes // (2 * count), codes % (2 * count), len(graph.entities))
        holders = np.zeros((len(relations), len(graph.entities)), bool)
        for scale, relation in enumerate(relations.tolist()):
            holders[scale, graph.head[rows[graph.relation[rows] == relation]]] = True
        return cls(traits, holders, np.asarray(relations, np.int64), logistic)

    def features(self, scale: int, entities: IntArray) -> FloatArray:
        """Computes the features of entities: (n, features)."""
        if scale not in self._weights:
            self._weights[scale] = self._weight(scale)
        traits, holders = self.traits.take(entities), self.holders[scale]
        odds = np.bincount(traits.owner, self._weights[scale][traits.items], minlength=len(entities))
        share = np.log((holders.sum() + _SMOOTHING) / (len(holders) + 1))
        return np.stack([odds / (1 + traits.counts), np.full(len(entities), share), np.log1p(traits.counts)], axis=1)

    @cached_property
    def _weights(self) -> dict[int, FloatArray]:
        return {}

    def _weight(self, scale: int) -> FloatArray:
        """Computes the log-odds of each trait for a scale: (traits,)."""
        holders, owner = self.holders[scale], self.traits.owner
        having, lacking = int(holders.sum()), int((~holders).sum())
        among = np.bincount(self.traits.items[holders[owner]], minlength=int(self.traits.items.max(initial=0)) + 1)
        others = np.bincount(self.traits.items[~holders[owner]], minlength=len(among))
        weight = np.log((among + _SMOOTHING) / (having + 1)) - np.log((others + _SMOOTHING) / (lacking + 1))
        if self.own[scale] < len(weight):
            weight[self.own[scale]] = 0.0
        return np.asarray(weight)

    def probability(self, scale: int, entities: IntArray) -> FloatArray:
        """Returns the probability that each entity has a value: (n,). Without a fit, 1."""
        if self.logistic is None or not len(entities):
            return np.ones(len(entities))
        return self.logistic(self.features(scale, entities))


def fit_has_value(graph: Graph, relations: IntArray, seed: int = 0) -> Logistic | None:
    """Fits the probability: which entities without a value in train have one with valid? None if there are too few cases.

    In a large graph, only a sample of the entities without a value in either is used, and the bias is corrected for it.
    """
    made = HasValue.of(graph, graph.known(["train"]), relations)
    valid = graph.known(["valid"]).rows
    share = min(1.0, MOST_CASES / max(1, int((~made.holders).sum())))
    features, came_true, random = [], [], generator(seed, "entities without a value")
    for scale, relation in enumerate(relations.tolist()):
        (lacking,) = np.nonzero(~made.holders[scale])
        new = np.isin(lacking, graph.head[valid[graph.relation[valid] == relation]])
        chosen = new | (random.random(len(lacking)) < share)
        features.append(made.features(scale, lacking[chosen]))
        came_true.append(new[chosen])
    if sum(int(one.sum()) for one in came_true) < LEAST_CASES:
        return None
    fitted = fit_logistic(np.concatenate(features), np.concatenate(came_true))
    return replace(fitted, bias=fitted.bias + float(np.log(share)))
