"""Protocols: which answers of a query are ranked, and which entities do not compete with them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from starqe.errors import UnsupportedError
from starqe.kg import Graph
from starqe.measure.ranks import Ragged
from starqe.queries.exact import EASY_AND_ALL, easy_and_hard
from starqe.queries.query_set import check_tables
from starqe.queries.table import QueryTable, ragged_take


@dataclass(frozen=True, eq=False)
class Task:
    """What a protocol asks of some queries of a table."""

    rows: np.ndarray  # (queries,) int64: the rows of the table that have something to rank
    ranked: Ragged
    filtered: Ragged
    dropped: int
    """How many of the given rows had nothing to rank."""


def paper(_graph: Graph | None, table: QueryTable, rows: np.ndarray) -> Task:
    """Ranks every listed answer, filtered by the query's own listed answers only.

    Answers that follow from older facts alone are not listed, so they compete.
    """
    answers = _listed(table, rows)
    return _task(rows, answers, answers)


def strict(graph: Graph | None, table: QueryTable, rows: np.ndarray) -> Task:
    """Ranks the hard answers only, filtered by all answers; queries without a hard answer are dropped.

    Easy answers follow from the splits before the table's own, hard ones only with it: for ``valid``, easy is what train
    says and hard what train and valid say beyond; for ``test``, easy is what train and valid say.

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
    return _task(rows, Ragged(*hard), _union(Ragged(*easy), Ragged(*hard), len(graph.entities)))


Protocol = Callable[[Graph | None, QueryTable, np.ndarray], Task]

PROTOCOLS: Mapping[str, Protocol] = {"paper": paper, "strict": strict}
"""The protocols: functions of the graph, a table and some of its rows."""


def _listed(table: QueryTable, rows: np.ndarray) -> Ragged:
    offsets, items = ragged_take(table.answer_offsets, rows)
    return Ragged(offsets, table.answers[items])


def _task(rows: np.ndarray, ranked: Ragged, filtered: Ragged) -> Task:
    kept = np.flatnonzero(ranked.counts)
    if len(kept) < len(rows):
        ranked, filtered = _take(ranked, kept), _take(filtered, kept)
    return Task(rows[kept], ranked, filtered, len(rows) - len(kept))


def _take(ragged: Ragged, queries: np.ndarray) -> Ragged:
    offsets, items = ragged_take(ragged.offsets, queries)
    return Ragged(offsets, ragged.entities[items])


def _union(one: Ragged, other: Ragged, entities: int) -> Ragged:
    """Gives the entities of both, ascending within a query; none stands in both."""
    keys = np.sort(np.concatenate([one.query * entities + one.entities, other.query * entities + other.entities]))
    return Ragged(one.offsets + other.offsets, (keys % entities).astype(np.int32))
