"""Queries that wait, and the threads that answer them: one for quick queries, several at a time, and one for slow queries.

A query is tried in the quick lane first. One that takes longer than `quick_seconds` is stopped there and moved to the slow lane,
which has a bounded queue and a thread of its own, so that cheap queries go on.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TypeVar

from starqe.deadline import Deadline
from starqe.errors import DeadlineError
from starqe.serve.problems import BusyError, ClientGoneError
from starqe.serve.running.metrics import Metrics
from starqe.serve.running.workers import Worker
from starqe.serve.settings import ServeSettings

T = TypeVar("T")
Work = Callable[[Hashable, Sequence[Any], Deadline], list[Any]]
"""Does jobs of one kind together: what they have in common, what each of them is, when to stop -> one result per job."""
Gone = Callable[[], Coroutine[Any, Any, None]]
"""Waits until a client is gone."""

STUCK_SECONDS = 1.0
"""A thread that does not stop this long after its deadline is left alone, and another one takes its place."""
MOST_STUCK = 4
"""Number of threads that may be left alone; beyond it, their lane waits for them."""
_SHARE = 0.25  # the further queries of a batch add this share of `quick_seconds` each
_USUAL, _KEPT = 4, 32  # a query is slow at this many times the median of so many answered before

log = logging.getLogger("starqe.serve")


@dataclass(eq=False)
class _Job:
    kind: Hashable
    item: Any
    alone: bool
    end: float
    """When its client gives up, by ``time.monotonic``."""
    result: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def wanted(self) -> bool:
        """Whether anybody still waits; safe in any thread, since it only reads the state of the future."""
        return not self.result.done()

    def fail(self, error: Exception) -> None:
        """Passes an error on, if anybody waits for it."""
        if self.wanted():
            self.result.set_exception(error)


class _Lane:
    """A queue of jobs and the thread that does them."""

    def __init__(self, name: str) -> None:
        self.name, self.waiting, self.worker = name, list[_Job](), Worker(name)
        self._arrived = asyncio.Event()
        self._alone_next = False

    def put(self, *jobs: _Job, first: bool = False) -> None:
        """Adds jobs at the end, or before all others."""
        self.waiting[:] = [*jobs, *self.waiting] if first else [*self.waiting, *jobs]
        self._arrived.set()

    def drop(self, job: _Job) -> None:
        """Removes a job, if it still waits."""
        with contextlib.suppress(ValueError):
            self.waiting.remove(job)

    async def take(self, most: int) -> list[_Job]:
        """Waits for jobs; returns one that is never batched, or several of the kind of the oldest; both have their turn."""
        while not self.waiting:
            self._arrived.clear()
            await self._arrived.wait()
        alone = next((job for job in self.waiting if job.alone), None)
        shared = next((job for job in self.waiting if not job.alone), None)
        if shared is None or (alone is not None and self._alone_next):
            assert alone is not None
            jobs, self._alone_next = [alone], False
        else:
            jobs, self._alone_next = [job for job in self.waiting if job.kind == shared.kind and not job.alone][:most], True
        for job in jobs:
            self.waiting.remove(job)
        return jobs


class Batches:
    """Bounded queues before two threads; the quick one takes jobs of the same kind together.

    What fails together is tried one by one, so that a job fails for its own reasons only. A job that nobody waits for any more
    leaves its queue at once, and is stopped at the next look at its deadline if it has begun.
    """

    def __init__(self, work: Work, settings: ServeSettings, metrics: Metrics) -> None:
        self._work, self._settings, self._metrics = work, settings, metrics
        self._quick, self._slow = _Lane("quick answers"), _Lane("slow answers")
        self._working = self._stuck = 0
        self._durations: deque[float] = deque(maxlen=_KEPT)
        self._stopping: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._quick.waiting) + len(self._slow.waiting)

    @property
    def working(self) -> int:
        """Number of threads that are answering."""
        return self._working

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Batches"]:
        """Answers until the block ends; jobs that still wait then are refused."""
        self._stopping = asyncio.get_running_loop().create_future()
        loops = [asyncio.create_task(self._run_quick()), asyncio.create_task(self._run_slow())]
        try:
            yield self
        finally:
            self.stop()
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            for lane in (self._quick, self._slow):
                for job in lane.waiting:
                    job.fail(self._busy("the service stops"))
                lane.worker.close()

    def stop(self) -> None:
        """Refuses everybody who waits."""
        if self._stopping is not None and not self._stopping.done():
            self._stopping.set_result(None)

    async def do(self, kind: Hashable, item: Any, gone: Gone, alone: bool = False) -> Any:
        """Returns the result of a job; one that is done alone is never batched.

        Raises:
            BusyError: The queue is full, the time for a query is over, or the service stops.
            ClientGoneError: The client went away first.
        """
        if len(self._quick.waiting) >= self._settings.waiting:
            raise self._busy(f"{self._settings.waiting} queries wait already")
        job = _Job(kind, item, alone, time.monotonic() + self._settings.seconds)
        self._quick.put(job)
        try:
            return await self.first(job.result, gone)
        finally:
            self._quick.drop(job)
            self._slow.drop(job)

    async def first(self, result: asyncio.Future[T], gone: Gone) -> T:
        """Waits for a result as long as the client does, and no longer than a query may take.

        Raises:
            BusyError: The time for a query is over, or the service stops.
            ClientGoneError: The client went away first.
        """
        left = asyncio.create_task(gone())
        try:
            awaited: list[asyncio.Future[Any]] = [result, left, *([self._stopping] if self._stopping is not None else [])]
            await asyncio.wait(awaited, timeout=self._settings.seconds, return_when=asyncio.FIRST_COMPLETED)
            if result.done():
                return result.result()
            if left.done():
                raise ClientGoneError
            if self._stopping is not None and self._stopping.done():
                raise self._busy("the service stops")
            raise self._time_over()
        finally:
            result.cancel()
            left.cancel()

    def _busy(self, message: str) -> BusyError:
        return BusyError(f"{message}. Try again later", self._settings.retry_seconds)

    def _time_over(self) -> BusyError:
        message = f"a query may take {self._settings.seconds:g} seconds, and this one was not answered by then"
        return BusyError(f"{message}. Ask for less at once, or try again later", self._settings.retry_seconds, "TimeOver")

    async def _run_quick(self) -> None:
        while True:
            await self._answer_quickly(await self._quick.take(self._settings.batch))

    async def _run_slow(self) -> None:
        while True:
            for job in await self._slow.take(1):
                with contextlib.suppress(DeadlineError):
                    await self._do(self._slow, [job], max(0.0, job.end - time.monotonic()))
                job.fail(self._time_over())

    async def _answer_quickly(self, jobs: list[_Job]) -> None:
        self._metrics.add_batch(len(jobs))
        try:
            await self._do(self._quick, jobs, self._quick_seconds() * (1 + _SHARE * (len(jobs) - 1)))
        except DeadlineError:
            late = [job for job in jobs if job.wanted()]
            if len(jobs) > 1:
                for job in late:
                    job.alone = True
                self._quick.put(*late, first=True)
                return
            for job in late:
                self._move(job)

    def _quick_seconds(self) -> float:
        """Returns the time for a single query in the quick lane; on a busy machine, cheap queries must not count as slow."""
        return max(self._settings.quick_seconds, _USUAL * median(self._durations or [0.0]))

    def _move(self, job: _Job) -> None:
        self._metrics.add_slow()
        if len(self._slow.waiting) >= self._settings.slow_waiting:
            job.fail(self._busy(f"{self._settings.slow_waiting} queries that take long wait already"))
        else:
            job.alone = True
            self._slow.put(job)

    async def _do(self, lane: _Lane, jobs: list[_Job], seconds: float) -> None:
        """Does jobs of one kind in the thread of a lane.

        Raises:
            DeadlineError: They take longer than that.
        """
        began = time.monotonic()
        deadline = Deadline(seconds, lambda: any(job.wanted() for job in jobs))
        results = asyncio.wrap_future(lane.worker.submit(self._work, jobs[0].kind, [job.item for job in jobs], deadline))
        self._working += 1
        results.add_done_callback(self._one_less_works)
        await asyncio.wait({results}, timeout=None if self._stuck >= MOST_STUCK else seconds + STUCK_SECONDS)
        if not results.done():
            self._leave_alone(lane, jobs, results)
            return
        try:
            _deliver(jobs, results.result())
            self._durations.append((time.monotonic() - began) / len(jobs))
        except DeadlineError:
            raise
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].fail(error)
                return
            for job in jobs:
                await self._answer_quickly([job])

    def _leave_alone(self, lane: _Lane, jobs: list[_Job], results: asyncio.Future[list[Any]]) -> None:
        """Returns a lane another thread; if the old one still returns in time, its results count."""
        log.warning("%s: a query does not stop at its deadline; another thread takes over", lane.name)
        lane.worker.close()
        lane.worker = Worker(lane.name)
        self._stuck += 1

        def returned(done: asyncio.Future[list[Any]]) -> None:
            self._stuck -= 1
            if (error := done.exception()) is None:
                _deliver(jobs, done.result())
            for job in jobs:
                job.fail(self._time_over() if isinstance(error, DeadlineError) or not isinstance(error, Exception) else error)

        results.add_done_callback(returned)

    def _one_less_works(self, _: asyncio.Future[list[Any]]) -> None:
        self._working -= 1


def _deliver(jobs: Sequence[_Job], results: Sequence[Any]) -> None:
    for job, result in zip(jobs, results, strict=True):
        if job.wanted():
            job.result.set_result(result)
