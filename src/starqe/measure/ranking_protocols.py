"""Protocols: which answers of a query are ranked, and which entities do not compete with them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from starqe.errors import UnsupportedError
from starqe.kg import Graph
from starqe.queries.exact.answering import EASY_AND_ALL, easy_and_hard
from starqe.queries.query_set import check_tables
from starqe.queries.table import QueryTable
from starqe.ragged import IntArray, Ragged


@dataclass(frozen=True, eq=False)
class Task:
    """The answers to rank and to filter, for some queries of a table."""

    rows: IntArray  # (queries,) int64: the rows of the table that have something to rank
    ranked: Ragged
    filtered: Ragged
    dropped: int
    """The number of given rows that had nothing to rank."""


def paper(_graph: Graph | None, table: QueryTable, rows: IntArray) -> Task:
    """Ranks every listed answer, filtered by the query's own listed answers only.

    Answers that follow from older facts alone are not listed, so they compete.
    """
    answers = table.answers.take(rows)
    return _task(rows, answers, answers)


def strict(graph: Graph | None, table: QueryTable, rows: IntArray) -> Task:
    """Ranks the hard answers only, filtered by all answers; queries without a hard answer are dropped.

    Easy answers follow from the splits before the table's own, hard ones only with it: for ``valid``, easy is what train
    entails and hard what only train and valid together entail; for ``test``, easy is what train and valid entail.

    Raises:
        MismatchError: The table was made from another graph.
        UnsupportedError: No graph is given, or the table is not one of the splits valid and test.
    """
    split = str(table.header.get("split"))
    if split not in EASY_AND_ALL:
        raise UnsupportedError(f"the protocol 'strict' is for queries of the splits valid and test, found '{split}'. Use 'paper'")
    if graph is None:
        raise UnsupportedError("the protocol 'strict' needs the graph that the queries are about, found none. Give it, or use 'paper'")
    check_tables(graph, [table])
    easy, hard = easy_and_hard(graph, table, rows, split)
    return _task(rows, hard, _union(easy, hard, len(graph.entities)))


Protocol = Callable[[Graph | None, QueryTable, IntArray], Task]

PROTOCOLS: Mapping[str, Protocol] = {"paper": paper, "strict": strict}
"""The protocols: functions of the graph, a table and some of its rows."""


def _task(rows: IntArray, ranked: Ragged, filtered: Ragged) -> Task:
    kept = np.flatnonzero(ranked.counts)
    if len(kept) < len(rows):
        ranked, filtered = ranked.take(kept), filtered.take(kept)
    return Task(rows[kept], ranked, filtered, len(rows) - len(kept))


def _union(one: Ragged, other: Ragged, entities: int) -> Ragged:
    """Returns the entities of both, which are disjoint, ascending within a query."""
    keys = np.sort(np.concatenate([part.owner * entities + part.items for part in (one, other)]))
    return Ragged(one.offsets + other.offsets, (keys % entities).astype(np.int32))
