"""Splits: making a transductive one, and checking any."""

from dataclasses import asdict, dataclass

import numpy as np

from starqe.errors import InputError
from starqe.kg.draft import with_split
from starqe.kg.graph import Graph
from starqe.kg.statement import SPLITS
from starqe.seed import generator


@dataclass(frozen=True)
class SplitFindings:
    """What a transductive split would not have; all zero is clean."""

    entities_of_valid_not_in_train: int
    entities_of_test_not_in_train: int
    relations_of_valid_not_in_train: int
    relations_of_test_not_in_train: int
    triples_in_train_and_valid: int
    triples_in_train_and_test: int
    triples_in_valid_and_test: int
    statements_in_several_splits: int
    distinct_statements: int

    def as_dict(self) -> dict[str, int]:
        """Gives the findings for programs."""
        return asdict(self)

    @property
    def clean(self) -> bool:
        """Says whether every entity and relation occurs in train and no main triple stands in two splits."""
        return not any(count for name, count in asdict(self).items() if name != "distinct_statements")


def check_split(graph: Graph) -> SplitFindings:
    """Finds what is wrong with the splits of a graph; a split that does not occur has nothing wrong."""
    entities = [_mentioned(graph, code, "entities") for code in range(len(SPLITS))]
    relations = [_mentioned(graph, code, "relations") for code in range(len(SPLITS))]
    triple = _triple_codes(graph)
    triples = [np.unique(triple[graph.split == code]) for code in range(len(SPLITS))]
    merged = with_split(graph, np.zeros(len(graph)))

    def both(one: int, other: int) -> int:
        return len(np.intersect1d(triples[one], triples[other], assume_unique=True))

    return SplitFindings(
        int((entities[1] & ~entities[0]).sum()),
        int((entities[2] & ~entities[0]).sum()),
        int((relations[1] & ~relations[0]).sum()),
        int((relations[2] & ~relations[0]).sum()),
        both(0, 1),
        both(0, 2),
        both(1, 2),
        len(graph) - len(merged),
        len(merged),
    )


def transductive_split(graph: Graph, shares: tuple[float, float, float], seed: int) -> Graph:
    """Splits a graph anew, at random, so that train mentions everything and no main triple stands in two splits.

    Groups of statements with one main triple are drawn in random order; a group goes to valid or test only if each
    entity and relation that it mentions is still mentioned by what stays. So the held-out shares can fall short on a
    sparse graph, and never exceed what was asked (but for the size of the last group).

    Raises:
        InputError: The shares are not three numbers from 0 to 1 that make 1, with something for train.
    """
    if len(shares) != 3 or any(not 0 <= share <= 1 for share in shares) or abs(sum(shares) - 1) > 1e-6 or shares[0] == 0:
        raise InputError(f"a split is three shares (train, valid, test) that make 1, train more than 0, found {shares}")
    graph = with_split(graph, np.zeros(len(graph)))
    uses = _Uses(graph)
    wanted = [round(share * len(graph)) for share in shares]
    split = np.zeros(len(graph), np.int8)
    _, group = np.unique(_triple_codes(graph), return_inverse=True)
    members = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[members], np.arange(group.max() + 2))
    filled = [0, 0, 0]
    for drawn in generator(seed, "split").permutation(len(starts) - 1):
        rows = members[starts[drawn] : starts[drawn + 1]]
        code = 2 if filled[2] < wanted[2] else 1
        if filled[code] >= wanted[code]:
            break
        if uses.spare(rows):
            uses.remove(rows)
            split[rows] = code
            filled[code] += len(rows)
    return with_split(graph, split)


class _Uses:
    """How often the statements that stay mention each entity and relation."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._mentions = [self._mentioned_by(row) for row in range(len(graph))]
        self._counts = np.zeros(len(graph.entities) + len(graph.relations), np.int64)
        for mentioned in self._mentions:
            np.add.at(self._counts, mentioned, 1)

    def _mentioned_by(self, row: int) -> np.ndarray:
        graph, span = self._graph, slice(self._graph.offsets[row], self._graph.offsets[row + 1])
        relations = np.concatenate([graph.relation[row : row + 1], graph.pair_relation[span]]) + len(graph.entities)
        return np.concatenate([graph.head[row : row + 1], graph.tail[row : row + 1], graph.pair_value[span], relations])

    def spare(self, rows: np.ndarray) -> bool:
        """Says whether everything that these statements mention is mentioned by others too."""
        mentioned, times = np.unique(np.concatenate([self._mentions[row] for row in rows]), return_counts=True)
        return bool((self._counts[mentioned] > times).all())

    def remove(self, rows: np.ndarray) -> None:
        """Takes these statements out of what stays."""
        for row in rows:
            np.subtract.at(self._counts, self._mentions[row], 1)


def _mentioned(graph: Graph, code: int, kind: str) -> np.ndarray:
    """Says for each entity or relation whether a split mentions it, in a main triple or a pair."""
    rows, pairs = graph.split == code, graph.split[graph.pair_statement] == code
    if kind == "entities":
        found, columns = np.zeros(len(graph.entities), bool), [graph.head[rows], graph.tail[rows], graph.pair_value[pairs]]
    else:
        found, columns = np.zeros(len(graph.relations), bool), [graph.relation[rows], graph.pair_relation[pairs]]
    for column in columns:
        found[column] = True
    return found


def _triple_codes(graph: Graph) -> np.ndarray:
    """Gives each statement a number for its main triple."""
    rows = np.stack([graph.head, graph.relation, graph.tail], axis=1)
    return np.unique(rows, axis=0, return_inverse=True)[1].ravel()
