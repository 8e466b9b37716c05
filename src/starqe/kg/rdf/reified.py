"""Converts triples and reifiers to statements with qualifiers; all terms are numbers.

T triples · R reifications · S statements · P qualifier pairs. A split is a position in SPLITS.
"""

from dataclasses import dataclass

import numpy as np

from starqe.kg.known import distinct
from starqe.kg.statement import SPLITS
from starqe.ragged import BoolArray, IntArray


@dataclass(frozen=True)
class Numbered:
    """Statements whose terms are numbers."""

    triples: IntArray  # (S, 3) head, relation, tail
    split: IntArray  # (S,)
    first: IntArray  # (S,) the pairs of statement i are pairs[first[i]] … pairs[first[i] + count[i] - 1]
    count: IntArray  # (S,)
    pairs: IntArray  # (P, 2) relation, value; reifiers of two triples share theirs
    unasserted: int
    """Number of reifications whose triple is not asserted; they make no statement."""

    def only(self, chosen: BoolArray) -> "Numbered":
        """Returns the chosen statements."""
        return Numbered(self.triples[chosen], self.split[chosen], self.first[chosen], self.count[chosen], self.pairs, self.unasserted)


def statements_of(asserted: IntArray, pairs: IntArray, reified: IntArray) -> Numbered:
    """Makes a statement for each asserted triple without a reifier, and for each reifier of an asserted triple.

    Triples, reifiers and pairs are matched within a split. A reification whose triple is asserted only in other splits makes a
    statement in each of those; pairs in a split where their reifier reifies nothing belong to it in the splits where it does.

    Args:
        asserted: (T, 4) subject, predicate, object, split.
        pairs: (P, 4) reifier, relation, value, split; each once.
        reified: (R, 6) reifier, subject, predicate, object, split, and whether it needs no assertion; each once.
    """
    different, number = unique_rows(np.concatenate([asserted[:, :3], reified[:, 1:4]]))
    number, of_reified = number[: len(asserted)], number[len(asserted) :]
    by_itself = key(of_reified, reified[:, 4])[reified[:, 5] == 1]
    places = distinct(np.concatenate([key(number, asserted[:, 3]), by_itself]))
    chosen, split = _splits_of(of_reified, reified[:, 4], places)
    bare = np.setdiff1d(places, distinct(key(of_reified[chosen], split)), assume_unique=True)

    reifier = key(reified[:, 0], reified[:, 4])
    row, pair_split = _splits_of(pairs[:, 0], pairs[:, 3], distinct(reifier))
    owner = key(pairs[row, 0], pair_split)
    order = np.argsort(owner, kind="stable")
    owner, row = owner[order], row[order]
    first, end = (np.searchsorted(owner, reifier[chosen], side) for side in ("left", "right"))

    none = np.zeros(len(bare), np.int64)
    return Numbered(
        triples=different[np.concatenate([bare // len(SPLITS), of_reified[chosen]])],
        split=np.concatenate([bare % len(SPLITS), split]),
        first=np.concatenate([none, first]),
        count=np.concatenate([none, end - first]),
        pairs=pairs[row, 1:3],
        unasserted=len(reified) - len(distinct(chosen)),
    )


@dataclass(frozen=True)
class Standard:
    """The standard reification (rdf:subject, rdf:predicate, rdf:object on one node) found among triples."""

    rest: IntArray  # (T, 4) the triples that are not part of a reification
    reified: IntArray  # (R, 5) reifier, subject, predicate, object, split
    incomplete: IntArray  # nodes that have some of the three but not all; their triples are in the rest
    ambiguous: IntArray  # nodes that have one of the three several times; none of their triples is in the rest


def standard_reification(triples: IntArray, roles: tuple[int, int, int], type_: int, statement: int) -> Standard:
    """Finds the nodes that have, in one split, a subject, a predicate and an object.

    Args:
        triples: (T, 4) subject, predicate, object, split.
        roles: The numbers of rdf:subject, rdf:predicate and rdf:object.
        type_: The number of rdf:type.
        statement: The number of rdf:Statement; that a reifier has this type is not a qualifier.
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
    reifying = np.isin(triples[:, 1], roles) | ((triples[:, 1] == type_) & (triples[:, 2] == statement))
    removed = (reifying & np.isin(own, nodes)) | np.isin(own, nodes[~single])
    return Standard(
        rest=triples[~removed],
        reified=np.column_stack([nodes // len(SPLITS), *parts, nodes % len(SPLITS)])[single].astype(np.int32),
        incomplete=np.setdiff1d(np.concatenate(keys), nodes) // len(SPLITS),
        ambiguous=nodes[~single] // len(SPLITS),
    )


def unique_rows(rows: IntArray) -> tuple[IntArray, IntArray]:
    """Returns the different rows, ascending, and the place of each row among them.

    The same as `np.unique` with ``axis=0`` for numbers from 0 on, in a third of the time: a row is packed into one number.
    """
    packed, size = np.zeros(len(rows), np.int64), 1
    for column in rows.T if len(rows) else ():
        width = int(column.max()) + 1
        if size * width > 2**62:
            different, packed = np.unique(packed, return_inverse=True)
            size = len(different)
        packed, size = packed * width + column, size * width
    _, first, place = np.unique(packed, return_index=True, return_inverse=True)
    return rows[first], place


def used_numbers(*columns: IntArray) -> IntArray:
    """Returns the different numbers, from 0 on, that occur in some columns, ascending."""
    is_used = np.zeros(max((int(column.max(initial=-1)) for column in columns), default=-1) + 1, bool)
    for column in columns:
        is_used[column] = True
    return np.flatnonzero(is_used)


def key(number: IntArray, split: IntArray) -> IntArray:
    """Packs a number and a split into one number."""
    together: IntArray = number.astype(np.int64) * len(SPLITS) + split
    return together


def _splits_of(number: IntArray, split: IntArray, places: IntArray) -> tuple[IntArray, IntArray]:
    """Assigns splits to things: the thing's own split if it is among the places, else every split that is.

    Returns:
        Rows of the things, and a split for each; a thing without a matching split has no row.
    """
    here = np.isin(key(number, split), places)
    rows, splits = [np.flatnonzero(here)], [split[here].astype(np.int64)]
    for code in range(len(SPLITS)):
        elsewhere = np.flatnonzero(~here & np.isin(key(number, np.full(len(number), code)), places))
        rows.append(elsewhere)
        splits.append(np.full(len(elsewhere), code, np.int64))
    return np.concatenate(rows), np.concatenate(splits)
