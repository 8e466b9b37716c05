"""Makes transductive splits, and checks any split."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from starqe.errors import InputError
from starqe.kg.draft import with_split
from starqe.kg.graph import Graph, first_of_equal, sort_order
from starqe.kg.statement import SPLITS
from starqe.ragged import BoolArray, IntArray, Ragged
from starqe.seed import generator


@dataclass(frozen=True)
class SplitFindings:
    """Violations of a transductive split; all zero is clean."""

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
        """Returns the findings as a dict."""
        return asdict(self)

    @property
    def clean(self) -> bool:
        """Returns whether every entity and relation occurs in train and no main triple is in two splits."""
        return not any(count for name, count in asdict(self).items() if name != "distinct_statements")


def check_split(graph: Graph) -> SplitFindings:
    """Checks the splits of a graph; an empty split has no violations."""
    entities = [_mentioned(graph, code, "entities") for code in range(len(SPLITS))]
    relations = [_mentioned(graph, code, "relations") for code in range(len(SPLITS))]
    triple = _triple_codes(graph)
    triples = [np.unique(triple[graph.split == code]) for code in range(len(SPLITS))]
    merged = with_split(graph, np.zeros(len(graph), np.int8))

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
    """Splits a graph at random, so that train mentions everything and no main triple is in two splits.

    Existing splits are ignored. Held-out shares can fall short on a sparse graph, and exceed the request at most by the size of
    one group of statements with the same main triple.

    Raises:
        InputError: The shares are not three numbers from 0 to 1 that add up to 1, with train above 0.
    """
    if len(shares) != 3 or any(not 0 <= share <= 1 for share in shares) or abs(sum(shares) - 1) > 1e-6 or shares[0] == 0:
        raise InputError(f"a split is three shares (train, valid, test) that add up to 1, with train above 0, found {shares}")
    graph = with_split(graph, np.zeros(len(graph), np.int8))
    wanted = {2: round(shares[2] * len(graph)), 1: round(shares[1] * len(graph))}
    return with_split(graph, _hold_out(graph, np.arange(len(graph)), wanted, seed))


def hold_out_validation(graph: Graph, share: float, seed: int) -> Graph:
    """Moves a share of the train statements, at random, to valid; test statements stay in test.

    At least one statement is moved. Every entity and relation of a moved statement still occurs in train. Main triples
    that also occur in valid or test are not moved, and neither are statements whose tail is a literal, which models do not learn from.

    Raises:
        InputError: The share is not between 0 and 1, or no statement of train can be held out.
    """
    if not 0 < share < 1:
        raise InputError(f"the share of train that is held out for validation is between 0 and 1, found {share}")
    train = np.flatnonzero((graph.split == 0) & (graph.tail < len(graph.entities)))
    if len(graph.literals) and not len(train):
        raise InputError(
            "a model learns from statements between entities, and the tails of all statements are literals. "
            "To make entities of ranges of numbers and dates, set the option literals to bucket"
        )
    triple = _triple_codes(graph)
    free = train[~np.isin(triple[train], triple[graph.split != 0])]
    split = _hold_out(graph, free, {1: max(1, round(share * len(train)))}, seed)
    if (split == graph.split).all():
        raise InputError(
            f"validation needs statements that can be held out from train, and none of its {len(train):,} can: each mentions "
            "something that no other statement mentions. Add statements"
        )
    return with_split(graph, split)


def _hold_out(graph: Graph, rows: IntArray, wanted: Mapping[int, int], seed: int) -> IntArray:
    """Returns the split column with some of these rows moved from train: the wanted number to each split, in the order of the mapping.

    Groups of statements with the same main triple are visited in random order; a group is moved only if each entity and
    relation in it still occurs in train afterwards.
    """
    split = graph.split.copy()
    if not len(rows):
        return split
    _, group = np.unique(_triple_codes(graph)[rows], return_inverse=True)
    order = np.argsort(group, kind="stable")
    members = Ragged.of_owner(group[order], rows[order], int(group.max()) + 1)
    visited = generator(seed, "split").permutation(len(members))
    uses, left = _Uses(graph), {code: count for code, count in wanted.items() if count > 0}
    for start in range(0, len(visited), BLOCK):
        if not left:
            break
        block = members.take(visited[start : start + BLOCK])
        mentions = uses.mentions(block)
        spare = np.flatnonzero(uses.spare(mentions))
        while left and len(spare):
            code, missing = next(iter(left.items()))
            size = np.cumsum(block.counts[spare])
            moved, spare = np.split(spare, [np.searchsorted(size, missing) + 1])
            split[block.take(moved).items] = code
            uses.remove(mentions.take(moved))
            left[code] -= int(size[len(moved) - 1])
            left = {code: count for code, count in left.items() if count > 0}
    return split


BLOCK = 1 << 16
"""The number of groups of statements that are looked at together."""


class _Uses:
    """Counts how often train mentions each entity and relation."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        train, of_train = graph.split == 0, (graph.split == 0)[graph.pairs.owner]
        entities = np.concatenate([graph.head[train], graph.tail[train], graph.pair_value[of_train]])
        entities = entities[entities < len(graph.entities)]  # a literal need not occur elsewhere
        relations = np.concatenate([graph.relation[train], graph.pair_relation[of_train]])
        self._counts = np.concatenate(
            [np.bincount(entities, minlength=len(graph.entities)), np.bincount(relations, minlength=len(graph.relations))]
        )

    def mentions(self, groups: Ragged) -> Ragged:
        """Returns what each group of statements mentions, and how often: rows of (number, times)."""
        graph, rows, group = self._graph, groups.items, groups.owner
        pairs = graph.pairs.take(rows)
        of_pair = group[pairs.owner]
        entities = len(graph.entities)
        number = np.concatenate([graph.head[rows], graph.tail[rows], pairs.items[:, 1], graph.relation[rows], pairs.items[:, 0]])
        number = number.astype(np.int64)
        values = 2 * len(rows) + len(of_pair)
        kept = np.concatenate([number[:values] < entities, np.ones(len(number) - values, bool)])
        number[values:] += entities
        owner = np.concatenate([group, group, of_pair, group, of_pair])
        code, times = np.unique(owner[kept] * len(self._counts) + number[kept], return_counts=True)
        owner, number = np.divmod(code, len(self._counts))
        return Ragged.of_owner(owner, np.stack([number, times], axis=1), len(groups))

    def spare(self, mentions: Ragged) -> BoolArray:
        """Returns which groups can be removed, each after those before it, so that train still mentions everything."""
        number, times = mentions.items.T
        numbers, place = np.unique(number, return_inverse=True)
        left = self._counts[numbers]
        # Where enough is left even if all groups are removed, the order does not matter: only the other numbers are walked through.
        scarce = left <= np.bincount(place, times, minlength=len(numbers))
        spare = np.ones(len(mentions), bool)
        spare[mentions.owner[left[place] <= times]] = False
        doubtful = np.flatnonzero(scarce[place] & spare[mentions.owner])
        counts, owner = left.tolist(), mentions.owner[doubtful]
        needs = list(zip(place[doubtful].tolist(), times[doubtful].tolist(), strict=True))
        for group, start, stop in zip(*_runs(owner), strict=True):
            if all(counts[one] > need for one, need in needs[start:stop]):
                for one, need in needs[start:stop]:
                    counts[one] -= need
            else:
                spare[group] = False
        return spare

    def remove(self, mentions: Ragged) -> None:
        """Subtracts groups of statements from the counts."""
        np.subtract.at(self._counts, mentions.items[:, 0], mentions.items[:, 1])


def _runs(sorted_: IntArray) -> tuple[list[int], list[int], list[int]]:
    """Returns the different numbers in a sorted column, and where each begins and ends."""
    start = np.flatnonzero(np.diff(sorted_, prepend=-1))
    return sorted_[start].tolist(), start.tolist(), [*start[1:].tolist(), len(sorted_)][: len(start)]


def _mentioned(graph: Graph, code: int, kind: str) -> BoolArray:
    """Returns for each entity or relation whether a split mentions it, in a main triple or a pair."""
    rows, pairs = graph.split == code, graph.split[graph.pairs.owner] == code
    if kind == "entities":
        found, columns = np.zeros(graph.value_count, bool), [graph.head[rows], graph.tail[rows], graph.pair_value[pairs]]
    else:
        found, columns = np.zeros(len(graph.relations), bool), [graph.relation[rows], graph.pair_relation[pairs]]
    for column in columns:
        found[column] = True
    return found[: len(graph.entities)] if kind == "entities" else found


def _triple_codes(graph: Graph) -> IntArray:
    """Numbers the main triples in their order: returns the number of each statement's."""
    columns = graph.head, graph.relation, graph.tail
    order = sort_order(*columns)
    code = np.empty(len(order), np.int64)
    code[order] = np.cumsum(first_of_equal([column[order] for column in columns])) - 1
    return code
