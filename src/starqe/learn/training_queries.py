"""Training queries: query tables, auxiliary one-hop queries, and the order of an epoch."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
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
from starqe.seed import derive, generator

Part = tuple[QueryTable, IntArray]
"""A table and some of its rows, as `collate` takes them."""


def one_hop_tables(graph: Graph, qualified: bool, seed: int, lazily: bool = False, all_lazily: bool = False) -> list[QueryTable]:
    """Makes the one-hop queries of all training statements: a table of tails asked for, and one of heads.

    Every distinct (head, relation) of train is a query, with all its tails in train as answers; the same for tails. If
    they may be qualified, each statement with qualifiers adds one query with a random non-empty subset of them, and its
    answers are those of all statements that have the subset. Finding them takes the longest; done lazily, they are left out. In large
    graphs the answers of all queries take as much memory as the embeddings: with ``all_lazily``, all of them are left out.
    """
    rows = graph.known(["train"]).rows
    tables = []
    ends: tuple[tuple[Side, IntArray, IntArray], ...] = (("head", graph.head, graph.tail), ("tail", graph.tail, graph.head))
    for side, given, wanted in ends:
        relations = len(graph.relations)
        codes = given[rows].astype(np.int64) * relations + graph.relation[rows]
        keys = np.unique(codes)
        answers = Ragged.empty(len(keys)) if all_lazily else _grouped(np.searchsorted(keys, codes), wanted[rows], len(keys))
        node, relation = ((keys // relations).astype(np.int32), (keys % relations).astype(np.int32))
        tables.append(one_hop_table(side, node, relation, Ragged.empty(len(keys), 2), answers))
        if qualified:
            drawn = _qualified(graph, side, given, seed)
            tables.append(drawn if lazily else answered(graph, drawn))
    return tables


def _qualified(graph: Graph, side: Side, given: IntArray, seed: int) -> QueryTable:
    """Makes one query per training statement with qualifiers, with a random subset of them, and without answers."""
    known = graph.known(["train"])
    random = generator(seed, f"qualified one-hop {ONE_HOP[side].name}")
    rows = known.rows[graph.pairs.counts[known.rows] > 0]
    pairs = graph.pairs.take(rows)
    kept = random.random(len(pairs.items)) < 0.5
    kept[pairs.offsets[:-1] + random.integers(0, np.maximum(pairs.counts, 1))] = True  # never none
    return one_hop_table(side, given[rows], graph.relation[rows], pairs.where(kept))


def answered(graph: Graph, table: QueryTable) -> QueryTable:
    """Returns a table with all answers that the training statements entail, if it has none yet."""
    if len(table.answers.items):
        return table
    return replace(table, answers=answer_rows(graph.known(["train"]), table))


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

    The sample of an epoch depends on the seed and the number of the epoch alone, so a resumed run has the same. What is sampled from
    the statements of a large graph has no end: with ``redraw``, every epoch has other queries, which are sampled when it begins.
    """

    def __init__(self, graph: Graph, queries: Mapping[str, QueryTable], config: TrainConfig, seed: int) -> None:
        self._graph, self._config, self._seed = graph, config, seed
        lazily = config.variant == "qualified"
        all_lazily = lazily and config.redraw
        auxiliary = one_hop_tables(graph, config.one_hop == "varied", seed, lazily, all_lazily) if config.one_hop != "none" else []
        self._fixed: list[tuple[list[QueryTable], int]] = []
        self._varied: list[Shape] = []
        for table in queries.values():
            self._fixed.append(([part for part, _ in as_variant(table, config.variant, graph)], config.queries_per_shape))
            if config.varied_per_shape:
                self._varied.append(table.shape)
        for shape in ONE_HOP.values():
            parts = [part for table in auxiliary if table.shape == shape for part, _ in as_variant(table, config.variant, graph)]
            if parts:
                self._fixed.append((parts, config.one_hop_per_direction))
        self._drawn = 0, self._draw(0)

    def _draw(self, epoch: int) -> list[tuple[list[QueryTable], int]]:
        """Samples the further queries of an epoch; without ``redraw``, all epochs have the same."""
        config, seed = self._config, self._seed if epoch == 0 else derive(self._seed, f"queries of epoch {epoch}")
        groups = []
        for shape in self._varied:
            drawn = varied_tables(self._graph, shape, config.varied_per_shape, seed)
            parts = [part for more in drawn for part, _ in as_variant(more, config.variant, self._graph)]
            groups.append((parts, config.queries_per_shape))
        return groups

    def _groups(self, epoch: int) -> list[tuple[list[QueryTable], int]]:
        """Returns the tables of an epoch, in groups with the number of queries to take of each at most."""
        wanted = epoch if self._config.redraw else 0
        if self._drawn[0] != wanted:
            self._drawn = wanted, self._draw(wanted)
        return [*self._fixed, *self._drawn[1]]

    @property
    def tables(self) -> list[QueryTable]:
        """The tables of the current epoch."""
        return [table for tables, _ in self._groups(self._drawn[0]) for table in tables]

    @cached_property
    def per_epoch(self) -> int:
        """The number of queries per epoch; of the first, if others are sampled for the next ones."""
        return self._limited(sum(min(limit, sum(map(len, tables))) for tables, limit in self._groups(self._drawn[0])))

    @property
    def steps_per_epoch(self) -> int:
        """The number of batches per epoch."""
        return -(-self.per_epoch // self._config.batch)

    def _limited(self, count: int) -> int:
        return count - count % self._config.batch if self._config.drop_last and count >= self._config.batch else count

    def batches(self, epoch: int, start: int = 0) -> Iterator[list[Part]]:
        """Yields the batches of an epoch, from the given one on."""
        random, size = generator(self._seed, f"epoch {epoch}"), self._config.batch
        tables: list[QueryTable] = []
        numbers, rows = [], []
        for group, limit in self._groups(epoch):
            sizes = [len(table) for table in group]
            drawn = random.choice(sum(sizes), min(limit, sum(sizes)), replace=False, shuffle=False)
            bounds = np.cumsum([0, *sizes])
            place = np.searchsorted(bounds, drawn, "right") - 1
            numbers.append(len(tables) + place)
            rows.append(drawn - bounds[place])
            tables += group
        number, row = np.concatenate(numbers), np.concatenate(rows)
        tables, row = self._answered(tables, number, row)
        order = random.permutation(len(row))
        order = order[: self._limited(len(row))]
        for begin in range(start * size, len(order), size):
            chosen = order[begin : begin + size]
            yield _parts(tables, number[chosen], row[chosen])

    def _answered(self, tables: list[QueryTable], number: IntArray, row: IntArray) -> tuple[list[QueryTable], IntArray]:
        """Finds the answers of chosen queries whose tables have none; returns the tables and the rows as they are then."""
        for i, table in enumerate(tables):
            own = np.flatnonzero(number == i)
            if len(own) and not len(table.answers.items):
                row[own], tables[i] = np.arange(len(own)), answered(self._graph, table.take(row[own]))
        return tables, row


def _parts(tables: Sequence[QueryTable], table: IntArray, row: IntArray) -> list[Part]:
    order = np.argsort(table, kind="stable")
    table, row = table[order], row[order]
    bounds = np.searchsorted(table, np.arange(len(tables) + 1))
    return [(tables[i], row[bounds[i] : bounds[i + 1]]) for i in range(len(tables)) if bounds[i] < bounds[i + 1]]
