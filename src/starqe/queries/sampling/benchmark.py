"""Samples query sets by the rules of BetaE's benchmarks: plain edges in both directions, found backwards from an answer.

A query of valid or test is kept if it has a hard answer, one that the splits before do not entail; one with a negated part also has
to lose an answer to the new edges. Queries with more than 100 hard or lost answers, and repeated ones, are left out. Every
query of one edge is taken, with however many answers. Statements about entities that train lacks are left aside.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from starqe.kg import Graph
from starqe.kg.known import Known
from starqe.queries.exact.answering import EASY_AND_ALL, answer_rows
from starqe.queries.generate.engine import CONTEXT
from starqe.queries.generate.settings import QuerySettings
from starqe.queries.query_set import claim, finished, table_path
from starqe.queries.sampling.backward import Walks, WaysIn, check_leads_to_target, walk_back
from starqe.queries.shape import ALL_SHAPES, Shape
from starqe.queries.table import QueryTable, save_table
from starqe.ragged import BoolArray, IntArray, Ragged
from starqe.seed import generator

TYPES: Mapping[str, str] = {
    **{name: name for name in ("1p", "2p", "3p", "2i", "3i")},
    "pi": "1p-2i",
    "ip": "2i-1p",
    **{name: name for name in ("2u", "up", "2in", "3in", "inp", "pin", "pni")},
}
"""BetaE's names of the query types, with the names of their shapes here: nine positive ones, then five with negation."""
MOST_ANSWERS = 100
"""Queries with more hard answers, or that lose more, are left out."""
COUNT = 5_000
"""The number of queries of each type in the published test set of FB15k-237, except for 1p."""
ROUND = 2_048
"""The number of walks that are tried together."""
ROUNDS, EXHAUSTED = 500, 3
"""The maximum number of rounds, and the number of rounds in a row without a new query after which sampling ends."""


@dataclass(frozen=True, eq=False)
class _Facts:
    """What queries of a split are judged by: the statements up to the split, those before it, and its own."""

    now: Known
    before: Known | None
    """None for train: nothing comes before it."""
    new: Known

    @classmethod
    def of(cls, graph: Graph, split: str) -> Self:
        """Collects them, without the statements about entities that train lacks."""
        train = graph.known(["train"]).rows
        seen = np.zeros(len(graph.entities), bool)
        seen[graph.head[train]] = seen[graph.tail[train]] = True

        def of_splits(splits: Sequence[str]) -> Known:
            rows = graph.known(splits).rows
            return Known(graph, rows[seen[graph.head[rows]] & seen[graph.tail[rows]]])

        before = EASY_AND_ALL[split][0] if split in EASY_AND_ALL else ()
        return cls(of_splits(CONTEXT[split]), of_splits(before) if before else None, of_splits([split]))

    def judged(self, walks: Walks) -> tuple[Ragged, BoolArray]:
        """Answers queries on the statements up to the split, and says which fulfil the conditions on answers."""
        order: list[IntArray] = [np.empty(0, np.int64)]
        parts = [Ragged.empty(0)]
        hard, lost = np.zeros(len(walks), np.int64), np.zeros(len(walks), np.int64)
        for rows, table in walks.tables():
            now = answer_rows(self.now, table)
            old = Ragged.empty(len(table)) if self.before is None else answer_rows(self.before, table)
            codes, old_codes = (answers.owner * len(self.now.graph.entities) + answers.items for answers in (now, old))
            hard[rows] = now.where(~np.isin(codes, old_codes)).counts
            lost[rows] = old.where(~np.isin(old_codes, codes)).counts
            order.append(rows)
            parts.append(now)
        kept = (hard > 0) & (np.maximum(hard, lost) <= MOST_ANSWERS)
        if walks.shape.negated and self.before is not None:
            kept &= lost > 0
        return Ragged.stack(parts).take(np.argsort(np.concatenate(order))), kept


def sample_type(graph: Graph, shape: Shape, count: int | None, split: str, seed: int = 0) -> list[QueryTable]:
    """Samples queries of a shape by BetaE's rules: a table for each combination of directions, with all answers up to the split.

    The first queries of a larger sample are those of a smaller one.

    Args:
        graph: The graph; qualifiers are left aside.
        shape: The shape, whose edges lead towards the target.
        count: The number of queries; fewer are returned if the graph does not have them. Left out: every query of one edge, 5,000 others.
        split: The split whose statements are new.
        seed: Decides the sample.

    Raises:
        UnsupportedError: The shape cannot be walked backwards.
    """
    check_leads_to_target(shape)
    graph = graph.entity_part
    header = {"split": split, "fingerprint": graph.fingerprint, "sampled": True}
    facts = _Facts.of(graph, split)
    if len(shape.edges) == 1:
        kept, answers = _every_edge(facts, shape, split, seed)
    else:
        kept, answers = _walked(facts, shape, COUNT if count is None else count, split, seed)
    first = np.arange(len(kept) if count is None else min(count, len(kept)))
    kept, answers = kept.take(first), answers.take(first)
    return [replace(table, answers=answers.take(rows), header=header) for rows, table in kept.tables()]


def _walked(facts: _Facts, shape: Shape, count: int, split: str, seed: int) -> tuple[Walks, Ragged]:
    """Walks until there are enough queries; returns them with their answers."""
    into = WaysIn.of(facts.now)
    parts, answers = [Walks.none(shape)], [Ragged.empty(0)]
    tried: set[bytes] = set()
    missing, idle = count, 0
    for number in range(ROUNDS):
        walks = walk_back(shape, into, ROUND, generator(seed, f"backwards {shape.text} {split} {number}"))
        fresh = {key: row for row, key in reversed([*enumerate(walks.keys)]) if key not in tried}
        tried |= fresh.keys()
        walks = walks.take(np.sort(np.array([*fresh.values()], np.int64)))
        found, kept = facts.judged(walks)
        rows = np.flatnonzero(kept)[:missing]
        parts.append(walks.take(rows))
        answers.append(found.take(rows))
        missing -= len(rows)
        idle = 0 if fresh else idle + 1
        if not missing or idle == EXHAUSTED:
            break
    return Walks.joined(parts), Ragged.stack(answers)


def _every_edge(facts: _Facts, shape: Shape, split: str, seed: int) -> tuple[Walks, Ragged]:
    """Takes every entity with a step that a new statement allows, in a random order; returns them with their answers."""
    into = WaysIn.of(facts.new)  # the inverse of a step that leads into an entity leaves it
    width = 2 * into.relations
    entity, step = into.ways // width, (into.ways % width) ^ 1
    order = generator(seed, f"order of {shape.text} {split}").permutation(len(entity))
    walks = Walks(shape, step[order][:, None], entity[order][:, None])
    return walks, facts.judged(walks)[0]


def sample_benchmark(
    graph: Graph,
    destination: Path,
    shapes: Sequence[Shape],
    split: str,
    count: int | None = None,
    seed: int = 0,
    progress: Callable[[str, int], None] = lambda *_: None,
) -> None:
    """Samples a query set by BetaE's rules; a shape has a table for each combination of directions that occurs, such as ``2p.01``.

    Raises:
        UnsupportedError: A shape cannot be walked backwards.
        StorageError: The destination holds something else, or cannot be written.
    """
    graph = graph.entity_part
    settings = QuerySettings(qualifiers="0", hub_threshold=None, solutions_below={}, seed=seed, rules="betae")
    claim(destination, graph, settings)
    for shape in shapes:
        tables = sample_type(graph, shape, count, split, seed)
        for table in tables:
            header = {**table.header, "settings": settings.stored(), "count": count}
            path = table_path(destination, split, table.shape.name)
            if finished(path, table.shape, header) is None:
                save_table(replace(table, header=header), path)
        progress(shape.name, sum(map(len, tables)))


def named_types() -> list[Shape]:
    """Returns the shapes of the 14 types."""
    return [ALL_SHAPES[name] for name in TYPES.values()]
