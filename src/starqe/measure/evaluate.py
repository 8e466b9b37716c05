"""Evaluation: from a scorer and query tables to result rows."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from queue import SimpleQueue
from typing import Any, Literal, Protocol

import numpy as np
import pydantic
import torch

from starqe.config import Section
from starqe.errors import UnsupportedError
from starqe.kg import Graph
from starqe.measure.metrics import Accumulator, terms_of
from starqe.measure.ranking_protocols import PROTOCOLS, Task
from starqe.measure.ranks import TIES, Ranks, filtered_ranks
from starqe.measure.rows import Row, check_names, report
from starqe.measure.sink import RankSink
from starqe.queries.exact.reduction import class_order, reductions
from starqe.queries.table import QueryTable
from starqe.ragged import IntArray

Progress = Callable[[str, int, int], None]
"""Called with the shape, the number of its queries that are done, and their total."""

WORKERS = 8
"""The maximum number of batches that are processed at the same time; each needs its own buffer."""

SCORE_BYTES = 1 << 27
"""The maximum size of a buffer of scores."""

_Job = tuple[str, QueryTable, Task]


class Scorer(Protocol):
    """Scores every entity as an answer; several threads may call it at the same time, each with its own ``out``."""

    def scores(self, table: QueryTable, rows: IntArray, out: torch.Tensor) -> torch.Tensor:
        """Returns the scores of all entities for these rows of a table; may write them to ``out`` and return it: (B, V)."""


class Measure(Section):
    """How models are evaluated."""

    protocol: Literal["paper", "strict"] = "paper"
    """Which answers are ranked: every listed one (paper), or those that need the split of the queries (strict)."""
    ties: Literal["realistic", "optimistic", "pessimistic"] = "realistic"
    """The rank among equal scores: the mean of first and last place, the first, or the last."""
    batch: int = pydantic.Field(512, ge=1)
    """The number of queries per batch."""
    replicates: int = pydantic.Field(200, ge=0)
    """Bootstrap replicates for the confidence intervals over queries; 0 leaves the intervals out."""
    confidence: float = pydantic.Field(0.95, gt=0, lt=1)
    """The confidence of the intervals."""
    by_reduction: bool = False
    """Also report the answers of each reduction class apart: by the number of edges that train lacks, and full inference."""


def evaluate(
    scorer: Scorer,
    tables: Mapping[str, QueryTable],
    entities: int,
    settings: Measure | None = None,
    *,
    row: str = "model",
    seed: int = 0,
    graph: Graph | None = None,
    sink: RankSink | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """Ranks the answers of every query; returns all metrics, by shape and overall.

    Args:
        scorer: Scores all entities.
        tables: The queries, by the name of their shape.
        entities: The number of real entities: the columns of the scores.
        settings: Protocol, ties, batch size and intervals.
        row: The name of what is evaluated.
        seed: The seed that the model was trained with; the bootstrap uses it too.
        graph: For looking up easy answers and derivations; only the protocol strict and reductions need it, and the scorer never sees it.
        sink: Stores every single rank.
        progress: Called after every batch.

    Raises:
        InputError: A shape has a name that is reserved for results over all shapes.
        MeasureError: A score is not a number.
        MismatchError: The protocol needs the graph, and it is not the one of the queries.
        UnsupportedError: The protocol cannot be applied to a table, or reductions are wanted without a graph.
    """
    check_names(tables)
    settings = settings or Measure()
    settings = settings.replace(batch=batch_for(entities, settings.batch))
    sums = {shape: Accumulator(settings.replicates, seed, shape) for shape in tables}
    classes = ByReduction(graph, settings, seed) if settings.by_reduction else None
    dropped = dict.fromkeys(tables, 0)
    done = dict.fromkeys(tables, 0)
    jobs = ((shape, table, task) for shape, table in tables.items() for task in _tasks(table, settings, graph))
    for shape, table, task, ranks in _ranked(scorer, jobs, settings.batch, entities):
        sums[shape].add(ranks, task.ranked.counts, settings.ties)
        if classes:
            classes.add(shape, table, task, ranks)
        if sink:
            sink.write(shape, task.rows, task.ranked, ranks)
        dropped[shape] += task.dropped
        done[shape] += len(task.rows) + task.dropped
        if progress:
            progress(shape, done[shape], len(table))
    about: dict[str, Any] = {
        "name": row,
        "protocol": settings.protocol,
        "seed": seed,
        "ties": settings.ties,
        "confidence": settings.confidence,
    }
    return report(sums, dropped, **about) + (classes.report(**about) if classes else [])


class ByReduction:
    """Sums ranks by reduction class.

    Raises:
        UnsupportedError: There is no graph to look derivations up in.
    """

    def __init__(self, graph: Graph | None, settings: Measure, seed: int) -> None:
        if graph is None:
            raise UnsupportedError("reductions need the graph that the queries are about, found none. Give it, or leave them out")
        self._graph, self._settings, self._seed = graph, settings, seed
        self._sums: dict[str, dict[str, Accumulator]] = {}

    def add(self, shape: str, table: QueryTable, task: Task, ranks: Ranks) -> None:
        """Adds the ranks of a task."""
        if not len(task.rows):
            return
        names = np.array(reductions(self._graph, table, task.rows, task.ranked).classes)
        terms = terms_of(TIES[self._settings.ties](ranks), ranks.candidates)
        for name in np.unique(names).tolist():
            of_class = self._sums.setdefault(name, {})
            if shape not in of_class:
                of_class[shape] = Accumulator(self._settings.replicates, self._seed, f"{shape} {name}")
            own = names == name
            of_class[shape].add_terms(terms[own], task.ranked.where(own).counts)

    def report(self, **about: Any) -> list[Row]:
        """Returns the rows of every class; a query counts in each class that it has an answer of."""
        rows = []
        for name in sorted(self._sums, key=class_order):
            found = report(self._sums[name], dict.fromkeys(self._sums[name], 0), **about)
            rows += [replace(row, reduction=name, dropped=None) for row in found]
        return rows


def batch_for(entities: int, most: int) -> int:
    """Returns the number of queries to score together, so that a row over all entities for each takes at most `SCORE_BYTES`."""
    return max(1, min(most, SCORE_BYTES // (4 * max(entities, 1))))


def workers_for(threads: int) -> int:
    """Returns the number of batches to process at the same time: the one that leaves the fewest threads idle, at most `WORKERS`.

    Only the product of a batch is fast on two threads; encoding its queries and counting its ranks are not, and would leave
    one of them idle.
    """
    most = min(threads, WORKERS)
    return max(range(-(-most // 2), most + 1), key=lambda workers: (threads // workers * workers, workers))


def _ranked(scorer: Scorer, jobs: Iterable[_Job], batch: int, entities: int) -> Iterator[tuple[str, QueryTable, Task, Ranks]]:
    """Ranks the answers of every job, in order; every worker has its own batch and an equal share of torch's threads."""
    threads = torch.get_num_threads()
    workers = workers_for(threads)
    # (B, V), reused for all batches: new memory costs as much as the arithmetic
    buffers: SimpleQueue[torch.Tensor] = SimpleQueue()
    for _ in range(workers):
        buffers.put(torch.empty(batch, entities))

    def rank(table: QueryTable, task: Task) -> Ranks:
        buffer = buffers.get()
        try:
            scores = buffer[: len(task.rows)]  # (B, V)
            if len(task.rows):
                scores = scorer.scores(table, task.rows, scores)
            assert scores.shape == (len(task.rows), entities), (scores.shape, entities)
            return filtered_ranks(scores, task.ranked, task.filtered)
        finally:
            buffers.put(buffer)

    # Set in the workers: the caller's own threads stay as they are while it uses what is ranked.
    with _default_threads(threads), ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads // workers,)) as pool:
        waiting: deque[tuple[_Job, Future[Ranks]]] = deque()
        for job in jobs:
            waiting.append((job, pool.submit(rank, job[1], job[2])))
            if len(waiting) > workers:
                first, ranks = waiting.popleft()
                yield *first, ranks.result()
        for last, ranks in waiting:
            yield *last, ranks.result()


@contextlib.contextmanager
def _default_threads(threads: int) -> Iterator[None]:
    """Sets the number of threads again at the end: in torch, the last number set in any thread counts for threads that start later."""
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _tasks(table: QueryTable, settings: Measure, graph: Graph | None) -> Iterator[Task]:
    """Yields the tasks, one per batch; the exact answers of a strict protocol are found for many batches at once."""
    block = 16 * settings.batch
    for start in range(0, len(table), block):
        task = PROTOCOLS[settings.protocol](graph, table, np.arange(start, min(start + block, len(table))))
        if not len(task.rows):
            yield task
        for first in range(0, len(task.rows), settings.batch):
            last = min(first + settings.batch, len(task.rows))
            dropped = task.dropped if last == len(task.rows) else 0
            yield Task(task.rows[first:last], task.ranked.slice(first, last), task.filtered.slice(first, last), dropped)
