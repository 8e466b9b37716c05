"""Two older ways to write qualifiers in RDF, as reified triples; all terms are numbers.

    s p1 o .   p1 rdf:singletonPropertyOf p .   p1 q v .         a singleton property
    s p node . node value o .                   node q v .       a node for an n-ary relation; the user declares ``value``

Both say (s, p, o) with the qualifier (q, v).
"""

import numpy as np

from starqe.ragged import IntArray, Ragged

SINGLETON = "http://www.w3.org/1999/02/22-rdf-syntax-ns#singletonPropertyOf"


def singleton_properties(triples: IntArray, singleton: int) -> tuple[IntArray, IntArray]:
    """Takes singleton properties apart.

    Args:
        triples: (T, 4) subject, predicate, object, split.
        singleton: The predicate that leads from a singleton property to its property; -1 if there is none.

    Returns:
        The other triples, and reifications: (R, 6) reifier, subject, predicate, object, split, and 1, since the triple is asserted.
    """
    declared = triples[:, 1] == singleton
    node, place = np.unique(triples[declared, 0], return_index=True)
    of_node = triples[declared, 2][place]
    used = np.isin(triples[:, 1], node) & ~declared
    rows = triples[used]
    general = of_node[np.searchsorted(node, rows[:, 1])] if len(node) else rows[:, 1]
    reified = np.column_stack([rows[:, 1], rows[:, 0], general, rows[:, 2], rows[:, 3], np.ones(len(rows), np.int32)])
    return triples[~(declared | used)], reified.astype(np.int32)


def value_nodes(triples: IntArray, value: int) -> tuple[IntArray, IntArray]:
    """Takes nodes of n-ary relations apart.

    Args:
        triples: (T, 4) subject, predicate, object, split.
        value: The predicate that leads from a node to the object; -1 if there is none. A node with several makes several statements.

    Returns:
        The other triples, and reifications, as `singleton_properties` does.
    """
    declared = triples[:, 1] == value
    leads = np.isin(triples[:, 2], triples[declared, 0]) & ~declared
    entry, end = triples[leads], np.unique(triples[declared][:, [0, 2, 3]], axis=0)
    order = np.argsort(end[:, 0], kind="stable")
    end = end[order]
    first, last = (np.searchsorted(end[:, 0], entry[:, 2], side) for side in ("left", "right"))
    ends = Ragged.ranges(first, last - first)
    row, target = ends.owner, end[ends.items]
    same = target[:, 2] == entry[row, 3]
    row, target = row[same], target[same]
    columns = [entry[row, 2], entry[row, 0], entry[row, 1], target[:, 1], entry[row, 3], np.ones(len(row), np.int32)]
    return triples[~(declared | leads)], np.column_stack(columns).astype(np.int32)
