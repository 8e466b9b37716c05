"""Training queries: query tables, auxiliary one-hop queries, and the order of an epoch."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from starqe.kg import Graph
from starqe.kg.known import Side
from starqe.learn.config import TrainConfig
from starqe.queries import QueryTable, Shape, answer_rows, reify, sample, triple_only, turned
from starqe.queries.shape import ONE_HOP
from starqe.queries.table import one_hop_table
from starqe.queries.variants import Variant
from starqe.ragged import IntArray, Ragged
from starqe.seed import generator

Part = tuple[QueryTable, IntArray]
"""A table and some of its rows, as `collate` takes them."""


def one_hop_tables(graph: Graph, qualified: bool, seed: int) -> list[QueryTable]:
    """Makes the one-hop queries of all training statements: a table of tails asked for, and one of heads.

    Every distinct (head, relation) of train is a query, with all its tails in train as answers; the same for tails. If
    they may be qualified, each statement with qualifiers adds one query with a random non-empty subset of them, and its
    answers are those of all statements that have the subset.
    """
    rows = graph.known(["train"]).rows
    tables = []
    ends: tuple[tuple[Side, IntArray, IntArray], ...] = (("head", graph.head, graph.tail), ("tail", graph.tail, graph.head))
    for side, given, wanted in ends:
        keys = np.stack([given[rows], graph.relation[rows]], axis=1)
        constants, query = np.unique(keys, axis=0, return_inverse=True)
        answers = _grouped(query.ravel(), wanted[rows], len(constants))
        tables.append(one_hop_table(side, constants[:, 0].copy(), constants[:, 1].copy(), Ragged.empty(len(constants), 2), answers))
        if qualified:
            tables.append(_qualified(graph, side, given, seed))
    return tables


def _qualified(graph: Graph, side: Side, given: IntArray, seed: int) -> QueryTable:
    """Makes one query per training statement with qualifiers, with a random subset of them; all known answers count."""
    known = graph.known(["train"])
    random = generator(seed, f"qualified one-hop {ONE_HOP[side].name}")
    rows = known.rows[graph.pairs.counts[known.rows] > 0]
    pairs = graph.pairs.take(rows)
    kept = random.random(len(pairs.items)) < 0.5
    kept[pairs.offsets[:-1] + random.integers(0, np.maximum(pairs.counts, 1))] = True  # never none
    table = one_hop_table(side, given[rows], graph.relation[rows], pairs.where(kept))
    return replace(table, answers=answer_rows(known, table))


def _grouped(group: IntArray, values: IntArray, count: int) -> Ragged:
    """Returns the distinct values of each group, ascending."""
    width = int(values.max(initial=0)) + 1
    codes = np.unique(group.astype(np.int64) * width + values)
    return Ragged.of_owner(codes // width, (codes % width).astype(np.int32), count)


def as_variant(table: QueryTable, variant: Variant, graph: Graph) -> list[Part]:
    """Returns a table in the form that a model takes; the rows say which of the given ones they are."""
    if variant == "reified":
        return [(part.table, part.rows) for part in reify(table, len(graph.entities), len(graph.relations))]
    return [(triple_only(table) if variant == "triple-only" else table, np.arange(len(table)))]


def varied_tables(graph: Graph, shape: Shape, count: int, seed: int) -> list[QueryTable]:
    """Samples queries from all training statements with the edges of a shape in every combination of directions.

    Half of them have none to two qualifiers on each edge, as the statements have them; the other half at least one on each.
    """
    directions = list(product((False, True), repeat=len(shape.edges)))
    share = -(-count // (2 * len(directions)))
    tables = []
    for turns in directions:
        for counts in ((0, 2), (1, 2)):
            table = sample(graph, turned(shape, turns), share, "train", [counts] * len(shape.edges), seed)
            tables += [table] if len(table) else []
    return tables


class TrainingQueries:
    """The pool of training queries, with a new sample in a new order for every epoch.

    The sample of an epoch depends on the seed and the number of the epoch alone, so a resumed run has the same.
    """

    def __init__(self, graph: Graph, queries: Mapping[str, QueryTable], config: TrainConfig, seed: int) -> None:
        auxiliary = one_hop_tables(graph, config.one_hop == "varied", seed) if config.one_hop != "none" else []
        self._groups: list[tuple[list[QueryTable], int]] = []
        for table in queries.values():
            self._groups.append(([part for part, _ in as_variant(table, config.variant, graph)], config.queries_per_shape))
            if config.varied_per_shape:
                drawn = varied_tables(graph, table.shape, config.varied_per_shape, seed)
                parts = [part for more in drawn for part, _ in as_variant(more, config.variant, graph)]
                self._groups.append((parts, config.queries_per_shape))
        for shape in ONE_HOP.values():
            parts = [part for table in auxiliary if table.shape == shape for part, _ in as_variant(table, config.variant, graph)]
            if parts:
                self._groups.append((parts, config.one_hop_per_direction))
        self._batch, self._seed, self._drop_last = config.batch, seed, config.drop_last
        self.tables = [table for tables, _ in self._groups for table in tables]

    @property
    def per_epoch(self) -> int:
        """The number of queries per epoch."""
        drawn = sum(min(limit, sum(map(len, tables))) for tables, limit in self._groups)
        return drawn - drawn % self._batch if self._drop_last and drawn >= self._batch else drawn

    @property
    def steps_per_epoch(self) -> int:
        """The number of batches per epoch."""
        return -(-self.per_epoch // self._batch)

    def batches(self, epoch: int, start: int = 0) -> Iterator[list[Part]]:
        """Yields the batches of an epoch, from the given one on."""
        random = generator(self._seed, f"epoch {epoch}")
        tables, rows, first = [], [], 0
        for group, limit in self._groups:
            sizes = [len(table) for table in group]
            drawn = random.choice(sum(sizes), min(limit, sum(sizes)), replace=False, shuffle=False)
            bounds = np.cumsum([0, *sizes])
            place = np.searchsorted(bounds, drawn, "right") - 1
            tables.append(first + place)
            rows.append(drawn - bounds[place])
            first += len(group)
        table, row = np.concatenate(tables), np.concatenate(rows)
        order = random.permutation(len(row))
        order = order[: self.per_epoch]
        for begin in range(start * self._batch, len(order), self._batch):
            chosen = order[begin : begin + self._batch]
            yield _parts(self.tables, table[chosen], row[chosen])


def _parts(tables: Sequence[QueryTable], table: IntArray, row: IntArray) -> list[Part]:
    order = np.argsort(table, kind="stable")
    table, row = table[order], row[order]
    bounds = np.searchsorted(table, np.arange(len(tables) + 1))
    return [(tables[i], row[bounds[i] : bounds[i + 1]]) for i in range(len(tables)) if bounds[i] < bounds[i + 1]]
