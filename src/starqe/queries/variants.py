"""Variants of query tables: without qualifiers, and reified into plain triples.

Standard RDF reification turns an edge with q pairs into 3 + q edges that leave a blank node, one blank node per edge:

    A>x  with one pair      _0>A  _0>P0  _0>x  _0>V0x0

by the relations rdf:subject, rdf:predicate (to an anchor that represents the relation), rdf:object, and the relation of
each pair (to an anchor that is its value). With V entities and R relations in the graph, the anchor for relation r has the
id V + r, and the three new relations have the ids R, R + 1 and R + 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from starqe.errors import InputError, UnsupportedError
from starqe.queries.shape import Shape
from starqe.queries.table import QueryTable, stack
from starqe.ragged import IntArray, Ragged

Variant = Literal["qualified", "triple-only", "reified"]
"""The variants of queries: unchanged, without qualifier pairs, and as plain triples by standard RDF reification."""

_SUFFIX = "-reified-"


@dataclass(frozen=True, eq=False)
class Reified:
    """The reified queries whose edges have the same numbers of pairs, and their rows in the original table.

    The header of the table has the numbers of entities and relations of the graph under ``reified``.
    """

    table: QueryTable
    rows: IntArray  # (n,) int64: rows of the original table


def triple_only(table: QueryTable) -> QueryTable:
    """Removes all qualifier pairs; rows are kept, so some may now be equal queries.

    Raises:
        UnsupportedError: A qualifier value is a variable.
    """
    if table.shape.slots:
        raise UnsupportedError(
            f"without qualifiers there are no values to find, and shape '{table.shape.name}' ('{table.shape.text}') has some. "
            "Leave the shape out"
        )
    return replace(table, pairs=Ragged.empty(len(table.pairs), 2), header={**table.header, "variant": "triple only"})


def reify(table: QueryTable, entities: int, relations: int) -> list[Reified]:
    """Turns queries into plain triples: one table for each combination of numbers of pairs on the edges.

    Args:
        table: Queries of one shape.
        entities: The number of entities of the graph.
        relations: The number of relations of the graph.

    Raises:
        UnsupportedError: The table is reified already.
    """
    if table.shape.of_kind("blank"):
        raise UnsupportedError(f"a table is reified once, and shape '{table.shape.name}' has blank nodes already")
    edges = len(table.shape.edges)
    counts = table.pairs.counts.reshape(-1, edges)  # (n, E)
    if not len(table):
        return [_reify(table, np.empty(0, np.int64), [0] * edges, entities, relations)]
    combinations, member = np.unique(counts, axis=0, return_inverse=True)
    member = member.reshape(-1)
    return [_reify(table, np.flatnonzero(member == i), counts.tolist(), entities, relations) for i, counts in enumerate(combinations)]


def _reify(table: QueryTable, rows: IntArray, counts: list[int], entities: int, relations: int) -> Reified:
    shape = reified_shape(table.shape, counts)
    columns = {anchor: table.anchors[rows, i] for i, anchor in enumerate(table.shape.anchors)}  # node -> (n,)
    edge_relations: list[IntArray] = []  # (n,) for each new edge
    place = 0
    for edge, count in enumerate(counts):
        new = shape.edges[place : place + 3 + count]
        columns[new[1][1]] = table.relations[rows, edge] + np.int32(entities)
        edge_relations += [np.full(len(rows), relations + i, np.int32) for i in range(3)]
        first = table.pairs.offsets[rows * len(counts) + edge]
        for number in range(count):
            columns[new[3 + number][1]] = table.pair_value[first + number]
            edge_relations.append(table.pair_relation[first + number])
        place += 3 + count
    reified = QueryTable(
        shape,
        np.stack([columns[anchor] for anchor in shape.anchors], axis=1),
        np.stack(edge_relations, axis=1),
        Ragged.empty(len(rows) * len(shape.edges), 2),
        table.answers.take(rows),
        {**table.header, "reified": {"entities": entities, "relations": relations}},
    )
    return Reified(reified, rows)


def reified_shape(shape: Shape, counts: Sequence[int]) -> Shape:
    """Returns the shape of reified queries whose edges have these numbers of pairs: ``2p-reified-1-0``.

    Raises:
        UnsupportedError: The shape has alternatives, negated parts, or qualifier values that are variables.
    """
    if not shape.plain:
        raise UnsupportedError(
            f"reified are conjunctions over heads and tails, found shape '{shape.name}' ('{shape.text}'). Leave the shape out"
        )
    relation, value = (_free(letter, shape) for letter in "PV")
    edges: list[tuple[str, str]] = []
    for edge, ((head, tail), count) in enumerate(zip(shape.edges, counts, strict=True)):
        values = [f"{value}{edge}x{number}" for number in range(count)]
        edges += [(f"_{edge}", node) for node in (head, f"{relation}{edge}", tail, *values)]
    return Shape(f"{shape.name}{_SUFFIX}{'-'.join(map(str, counts))}", tuple(edges))


def _free(letter: str, shape: Shape) -> str:
    """Returns a prefix that no node name of the shape starts with."""
    prefix = letter
    while any(node.startswith(prefix) for node in shape.nodes):
        prefix += letter
    return prefix


def unreify(parts: Sequence[Reified]) -> QueryTable:
    """Undoes `reify`; returns the queries in their original order.

    Raises:
        InputError: A table is not reified, or the parts are not all parts of one table.
    """
    tables = [unreified(part.table) for part in parts]
    rows = np.concatenate([np.empty(0, np.int64), *(part.rows for part in parts)])
    if not parts or not np.array_equal(np.sort(rows), np.arange(len(rows))) or len({table.shape for table in tables}) > 1:
        raise InputError("undoing a reification takes all the parts of one table, found others")
    return stack(tables).take(np.argsort(rows))


def unreified(table: QueryTable) -> QueryTable:
    """Returns the queries of one reified table in their original form, row by row.

    Raises:
        InputError: The table is not reified.
    """
    name, _, counted = table.shape.name.rpartition(_SUFFIX)
    header = dict(table.header)
    sizes = header.pop("reified", None)
    if not name or sizes is None:
        raise InputError(f"undoing a reification takes a reified table, found shape '{table.shape.name}'")
    counts = [int(count) for count in counted.split("-")]
    n, column = len(table), {anchor: i for i, anchor in enumerate(table.shape.anchors)}
    edges, relations, pair_relations, pair_values = [], [], [], []
    place = 0
    for count in counts:
        nodes = [tail for _, tail in table.shape.edges[place : place + 3 + count]]
        edges.append((nodes[0], nodes[2]))
        relations.append(table.anchors[:, column[nodes[1]]] - np.int32(sizes["entities"]))
        pair_values += [table.anchors[:, column[node]] for node in nodes[3:]]
        pair_relations += [table.relations[:, place + 3 + number] for number in range(count)]
        place += 3 + count
    shape = Shape(name, tuple(edges))
    columns = [np.stack(pairs, axis=1) if pairs else np.empty((n, 0), np.int32) for pairs in (pair_relations, pair_values)]  # (n, pairs)
    return replace(
        table,
        shape=shape,
        anchors=table.anchors[:, [column[anchor] for anchor in shape.anchors]],
        relations=np.stack(relations, axis=1),
        pairs=Ragged.of_counts(np.tile(counts, n), np.stack(columns, axis=2).reshape(-1, 2)),
        header=header,
    )
