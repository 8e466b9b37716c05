"""Queries of several shapes as one graph in tensors."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from starqe.errors import InputError, UnsupportedError
from starqe.model.space import Space
from starqe.queries.shape import node_kind
from starqe.queries.table import QueryTable
from starqe.ragged import IntArray, Ragged


@dataclass(frozen=True, eq=False)
class Batch:
    """One graph whose parts are the queries.

    B queries · N nodes · E edges · Q qualifier pairs. An entity is one node of a query, however often the query
    mentions it; every variable and blank node is a separate node.
    """

    node: Tensor  # (N,) rows of the input embedding
    query_of_node: Tensor  # (N,)
    on_edge: Tensor  # (N,) bool: an end of an edge, not only a qualifier value
    target: Tensor  # (B,) nodes
    diameter: Tensor  # (B,) of the shape
    edge_head: Tensor  # (E,) nodes
    edge_tail: Tensor  # (E,) nodes
    edge_relation: Tensor  # (E,) forward rows of the relation embedding
    pair_edge: Tensor  # (Q,) edges
    pair_relation: Tensor  # (Q,) forward rows of the relation embedding
    pair_node: Tensor  # (Q,) nodes: the values
    answer_offsets: Tensor  # (B+1,): the answers of query i are answers[answer_offsets[i]:answer_offsets[i+1]]
    answers: Tensor  # entity ids

    def __len__(self) -> int:
        return len(self.target)

    def to(self, device: torch.device | str) -> "Batch":
        """Returns the same batch on a device."""
        return Batch(**{field.name: getattr(self, field.name).to(device, non_blocking=True) for field in fields(self)})


@dataclass(frozen=True)
class _Part:
    """The rows of one table, with constants still as ids and nodes still as (query, place)."""

    table: QueryTable
    queries: IntArray  # (n,) positions in the batch
    anchors: IntArray  # (n, A) ids
    relations: IntArray  # (n, edges)
    pair_cell: IntArray  # (pairs,) positions in relations, flattened
    pair_relation: IntArray  # (pairs,)
    pair_value: IntArray  # (pairs,)
    value_relations: IntArray  # (n, slots): of the pairs whose value is a variable
    answers: Ragged  # n rows of entities


def collate(parts: Sequence[tuple[QueryTable, IntArray]], space: Space) -> Batch:
    """Collates rows of several tables into one batch, part after part.

    Raises:
        InputError: There are no rows, or an id is outside the space.
        UnsupportedError: A shape has alternatives or negated parts.
    """
    read = _read(parts)
    edges_before = np.cumsum([0] + [part.relations.size for part in read])
    anchor_query = [np.repeat(part.queries, part.anchors.shape[1]) for part in read]
    pair_query = [part.queries[part.pair_cell // part.relations.shape[1]] for part in read]
    named = np.concatenate([*(part.anchors.ravel() for part in read), *(part.pair_value for part in read)])
    edge_relation = np.concatenate([part.relations.ravel() for part in read])
    pair_relation = np.concatenate([*(part.pair_relation for part in read), *(part.value_relations.ravel() for part in read)])
    _check("an anchor or a qualifier value", named, space.nodes)
    _check("a relation", edge_relation, space.directed)
    _check("a qualifier relation", pair_relation, space.directed)

    # Equal (query, entity) codes are one node; the nodes to be found are numbered after them.
    codes = np.concatenate([*anchor_query, *pair_query]) * space.nodes + named
    given, place = np.unique(codes, return_inverse=True)
    anchor_node, pair_node = np.split(place, [sum(map(len, anchor_query))])
    heads, tails, targets, rows, owners, values = _open_nodes(read, anchor_node, len(given), space)
    node = np.concatenate([given % space.nodes, *rows])
    head, tail = np.concatenate(heads), np.concatenate(tails)
    on_edge = np.zeros(len(node), bool)
    on_edge[head] = on_edge[tail] = True
    answers = Ragged.stack([part.answers for part in read])
    cells_of = [part.pair_cell for part in read], [_open_cells(part) for part in read]
    columns = {
        "node": node,
        "query_of_node": np.concatenate([given // space.nodes, *owners]),
        "on_edge": on_edge,
        "target": np.concatenate(targets),
        "diameter": np.repeat([part.table.shape.diameter for part in read], [len(part.queries) for part in read]),
        "edge_head": head,
        "edge_tail": tail,
        "edge_relation": edge_relation,
        "pair_edge": np.concatenate([cells + before for of_kind in cells_of for cells, before in zip(of_kind, edges_before, strict=False)]),
        "pair_relation": pair_relation,
        "pair_node": np.concatenate([pair_node, *values]),
        "answer_offsets": answers.offsets,
        "answers": answers.items,
    }
    wide = {name: column if column.dtype == bool else column.astype(np.int64, copy=False) for name, column in columns.items()}
    return Batch(**{name: torch.from_numpy(column) for name, column in wide.items()})


def _read(parts: Sequence[tuple[QueryTable, IntArray]]) -> list[_Part]:
    read: list[_Part] = []
    queries = 0
    for table, rows in parts:
        rows = np.asarray(rows, np.int64)
        if not len(rows):
            continue
        if table.shape.tree is not None:
            raise UnsupportedError(
                f"a batch holds conjunctions, found shape '{table.shape.name}' ('{table.shape.text}'). Train without it; a trained encoder "
                "answers its alternatives one by one"
            )
        pairs, answers = table.pairs.take(table.cells(rows)), table.answers.take(rows)
        read.append(
            _Part(
                table,
                np.arange(queries, queries + len(rows)),
                table.anchors[rows].astype(np.int64),
                table.relations[rows],
                pairs.owner,
                pairs.items[:, 0],
                pairs.items[:, 1].astype(np.int64),
                table.value_relations[rows],
                answers,
            )
        )
        queries += len(rows)
    if not read:
        raise InputError("a batch has at least one query, found none")
    return read


def _open_nodes(read: list[_Part], anchor_node: IntArray, first: int, space: Space) -> tuple[list[IntArray], ...]:
    """Numbers the nodes to be found from `first` on, and returns, part by part, heads, tails, targets, input rows, queries and values."""
    heads, tails, targets, rows, owners, values = [], [], [], [], [], []
    anchors_before = 0
    for part in read:
        shape, count = part.table.shape, len(part.queries)
        own = anchor_node[anchors_before : anchors_before + part.anchors.size].reshape(part.anchors.shape)
        anchors_before += part.anchors.size
        column = {name: own[:, i] for i, name in enumerate(shape.anchors)}
        for name in shape.nodes:
            kind = node_kind(name)
            if kind != "anchor":
                column[name] = np.arange(first, first + count)
                first += count
                rows.append(np.full(count, space.symbol(kind)))
                owners.append(part.queries)
                if kind == "target":
                    targets.append(column[name])
        heads.append(np.stack([column[head] for head, _ in shape.edges], axis=1).ravel())
        tails.append(np.stack([column[tail] for _, tail in shape.edges], axis=1).ravel())
        if shape.slots:
            values.append(np.stack([column[node] for _, node in shape.slots], axis=1).ravel())
    return heads, tails, targets, rows, owners, values


def _open_cells(part: _Part) -> IntArray:
    """Returns the positions in the relations, flattened, of the edges of the pairs whose value is a variable: (n * slots,)."""
    edges = np.array([edge for edge, _ in part.table.shape.slots], np.int64)
    return np.asarray((np.arange(len(part.queries))[:, None] * part.relations.shape[1] + edges).ravel())


def _check(what: str, ids: IntArray, limit: int) -> None:
    # One comparison as unsigned numbers finds negative ids and ids that are too large.
    if len(ids) and ids.view(f"u{ids.itemsize}").max() >= limit:
        wrong = ids[(ids < 0) | (ids >= limit)][0]
        raise InputError(f"{what} is an id from 0 to {limit - 1}, found {wrong}. Do the queries belong to another graph?")
