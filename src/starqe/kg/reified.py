"""From triples and reifiers to statements with qualifiers, all by numbers.

T triples · R reifications · S statements · P qualifier pairs. A split is a position in SPLITS.
"""

from dataclasses import dataclass

import numpy as np

from starqe.kg.statement import SPLITS


@dataclass(frozen=True)
class Numbered:
    """Statements whose terms are numbers."""

    triples: np.ndarray  # (S, 3) head, relation, tail
    split: np.ndarray  # (S,)
    first: np.ndarray  # (S,) the pairs of statement i are pairs[first[i]] … pairs[first[i] + count[i] - 1]
    count: np.ndarray  # (S,)
    pairs: np.ndarray  # (P, 2) relation, value; reifiers of two triples share theirs
    unasserted: int
    """Reifications whose triple nothing asserts, which give no statement."""

    def only(self, chosen: np.ndarray) -> "Numbered":
        """Gives the chosen statements."""
        return Numbered(self.triples[chosen], self.split[chosen], self.first[chosen], self.count[chosen], self.pairs, self.unasserted)


def statements_of(asserted: np.ndarray, pairs: np.ndarray, reified: np.ndarray) -> Numbered:
    """Gives a statement for each asserted triple that has no reifier, and for each reifier of one that has.

    What stands in one split belongs together. A reification whose triple is asserted only in other splits gives a
    statement in each of those; pairs in a split where their reifier reifies nothing belong to it wherever it does.

    Args:
        asserted: (T, 4) subject, predicate, object, split.
        pairs: (P, 4) reifier, relation, value, split; each once.
        reified: (R, 6) reifier, subject, predicate, object, split, and whether it holds without an assertion; each once.
    """
    distinct, number = np.unique(np.concatenate([asserted[:, :3], reified[:, 1:4]]), axis=0, return_inverse=True)
    number = number.reshape(-1)
    number, of_reified = number[: len(asserted)], number[len(asserted) :]
    by_itself = key(of_reified, reified[:, 4])[reified[:, 5] == 1]
    places = np.unique(np.concatenate([key(number, asserted[:, 3]), by_itself]))
    chosen, split = _at_home(of_reified, reified[:, 4], places)
    bare = np.setdiff1d(places, key(of_reified[chosen], split))

    reifier = key(reified[:, 0], reified[:, 4])
    row, pair_split = _at_home(pairs[:, 0], pairs[:, 3], np.unique(reifier))
    owner = key(pairs[row, 0], pair_split)
    order = np.argsort(owner, kind="stable")
    owner, row = owner[order], row[order]
    first, end = (np.searchsorted(owner, reifier[chosen], side) for side in ("left", "right"))

    none = np.zeros(len(bare), np.int64)
    return Numbered(
        triples=distinct[np.concatenate([bare // len(SPLITS), of_reified[chosen]])],
        split=np.concatenate([bare % len(SPLITS), split]),
        first=np.concatenate([none, first]),
        count=np.concatenate([none, end - first]),
        pairs=pairs[row, 1:3],
        unasserted=len(reified) - len(np.unique(chosen)),
    )


@dataclass(frozen=True)
class Standard:
    """What standard reification (rdf:subject, rdf:predicate, rdf:object on one node) was found among triples."""

    rest: np.ndarray  # (T, 4) the triples without those that make it up
    reified: np.ndarray  # (R, 5) reifier, subject, predicate, object, split
    incomplete: np.ndarray  # nodes that have some of the three but not all; their triples are in the rest
    ambiguous: np.ndarray  # nodes that have one of the three several times; none of their triples is in the rest


def standard_reification(triples: np.ndarray, roles: tuple[int, int, int], type_: int, statement: int) -> Standard:
    """Finds the nodes that have, in one split, a subject, a predicate and an object.

    Args:
        triples: (T, 4) subject, predicate, object, split.
        roles: The numbers of rdf:subject, rdf:predicate and rdf:object.
        type_: The number of rdf:type.
        statement: The number of rdf:Statement; that a reifier is one goes without saying, and is no qualifier.
    """
    values, keys, firsts, counts = [], [], [], []
    for role in roles:
        part = np.unique(triples[triples[:, 1] == role][:, [0, 3, 2]], axis=0)  # node, split, value
        owner, first, count = np.unique(key(part[:, 0], part[:, 1]), return_index=True, return_counts=True)
        values.append(part[:, 2])
        keys.append(owner)
        firsts.append(first)
        counts.append(count)
    nodes = np.intersect1d(np.intersect1d(keys[0], keys[1]), keys[2])
    at = [np.searchsorted(owner, nodes) for owner in keys]
    single = np.all([count[place] == 1 for count, place in zip(counts, at, strict=True)], axis=0)
    parts = [value[first[place]] for value, first, place in zip(values, firsts, at, strict=True)]

    own = key(triples[:, 0], triples[:, 3])
    makes_it_up = np.isin(triples[:, 1], roles) | ((triples[:, 1] == type_) & (triples[:, 2] == statement))
    gone = (makes_it_up & np.isin(own, nodes)) | np.isin(own, nodes[~single])
    return Standard(
        rest=triples[~gone],
        reified=np.column_stack([nodes // len(SPLITS), *parts, nodes % len(SPLITS)])[single].astype(np.int32),
        incomplete=np.setdiff1d(np.concatenate(keys), nodes) // len(SPLITS),
        ambiguous=nodes[~single] // len(SPLITS),
    )


def key(number: np.ndarray, split: np.ndarray) -> np.ndarray:
    """Gives one number for a number in a split."""
    together: np.ndarray = number.astype(np.int64) * len(SPLITS) + split
    return together


def ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Gives starts[0], starts[0] + 1, … (counts[0] of them), then those of starts[1], and so on."""
    ends = np.cumsum(counts)
    numbers: np.ndarray = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)
    return numbers


def _at_home(number: np.ndarray, split: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Finds where each thing is at home: in its own split if that is one of the places, else in every split that is.

    Returns:
        Rows of the things, and a split for each; a thing without a home has none.
    """
    here = np.isin(key(number, split), places)
    rows, splits = [np.flatnonzero(here)], [split[here].astype(np.int64)]
    for code in range(len(SPLITS)):
        there = np.flatnonzero(~here & np.isin(key(number, np.full(len(number), code)), places))
        rows.append(there)
        splits.append(np.full(len(there), code, np.int64))
    return np.concatenate(rows), np.concatenate(splits)
