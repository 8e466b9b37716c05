"""The queues of the service, and the lanes that answer queries.

The quick lane is a thread that answers several cheap queries at a time. The slow lane answers one query after the other in worker
processes, or in a thread of its own if there are none. A query goes there at once if it looks expensive, or has been slow before;
any other that takes longer than `quick_seconds` is stopped in the quick lane and moved over. So cheap queries go on. If there are
processes, a query that has just been moved gets one of its own for a short time (the middle lane), so that a query which is only a
little slower than usual does not wait behind expensive ones.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Sequence
from statistics import median
from typing import Any, TypeVar

from starqe.deadline import Deadline
from starqe.errors import DeadlineError
from starqe.serve.problems import BusyError, ClientGoneError
from starqe.serve.running.lanes import Job, Lane
from starqe.serve.running.monitoring import Metrics
from starqe.serve.running.processes import Work
from starqe.serve.settings import ServeSettings

T = TypeVar("T")
Gone = Callable[[], Coroutine[Any, Any, None]]
"""Waits until a client is gone."""

STUCK_SECONDS = 1.0
"""A thread that does not stop this long after its deadline is abandoned, and another one replaces it."""
MOST_STUCK = 4
"""Number of threads that may be abandoned; beyond it, their lane waits for them."""
_SHARE = 0.25  # the further queries of a batch add this share of `quick_seconds` each
_MIDDLE = 20.0  # a query may take this many times `quick_seconds` in the middle lane
_PATIENCE = 6.0  # a quick query may take this many times `quick_seconds` on a busy machine, if it needs less processor time
_USUAL, _KEPT = 8, 32  # a query is slow at 8 times the median of the last 32 that were answered: few cheap ones take that long
_REMEMBERED = 1_024  # number of queries that are known to be slow

log = logging.getLogger("starqe.serve")


class Batches:
    """Bounded queues, one per lane; the quick lane takes jobs of the same kind together.

    If a batch fails, its jobs are tried one by one, so that a job only fails for its own reasons. A job whose result is no longer wanted
    leaves its queue at once, or is stopped at the next check of its deadline if it has begun.
    """

    def __init__(self, work: Work, settings: ServeSettings, metrics: Metrics) -> None:
        self._settings, self._metrics = settings, metrics
        self.quick, self._slow = Lane("quick answers", work), Lane("slow answers", work)
        self._helpers: list[Lane] = []
        self._middle: Lane | None = None
        self._known_slow: dict[Hashable, Lane] = {}
        self._working = self._stuck = 0
        self._durations: deque[float] = deque(maxlen=_KEPT)
        self._stopping: asyncio.Future[None] | None = None

    def use(self, processes: Work, count: int, helpers: Work | None = None, helping: int = 0) -> None:
        """Lets the slow lane do its jobs in processes, up to this many at a time, and the middle lane in one more.

        Other processes help the thread of the quick lane with what waits while it works.
        """
        self._slow, self._middle = Lane(self._slow.name, processes, count), Lane("middle answers", processes)
        self._helpers = [] if helpers is None else [Lane(f"quick answers, helper {number + 1}", helpers) for number in range(helping)]

    def __len__(self) -> int:
        return sum(len(lane.waiting) for lane in self._lanes)

    @property
    def _lanes(self) -> list[Lane]:
        return [lane for lane in (self.quick, self._middle, self._slow) if lane is not None]

    @property
    def working(self) -> int:
        """Number of threads that are answering."""
        return self._working

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Batches"]:
        """Answers until the block ends; jobs that still wait then are refused."""
        self._stopping = asyncio.get_running_loop().create_future()
        slow = [asyncio.create_task(self._run_slow()) for _ in range(self._slow.threads)]
        middle = [] if self._middle is None else [asyncio.create_task(self._run_middle(self._middle))]
        loops = [asyncio.create_task(self._run_quick()), *middle, *slow]
        try:
            yield self
        finally:
            self.stop()
            for loop in loops:
                loop.cancel()
            await asyncio.gather(*loops, return_exceptions=True)
            for lane in self._lanes:
                for job in lane.waiting:
                    job.fail(self._busy("the service stops"))
            for lane in (*self._lanes, *self._helpers):
                lane.worker.close()

    def stop(self) -> None:
        """Refuses all queries that wait."""
        if self._stopping is not None and not self._stopping.done():
            self._stopping.set_result(None)

    async def do(self, kind: Hashable, item: Any, gone: Gone, alone: bool = False, slow: bool = False) -> Any:
        """Returns the result of a job.

        Args:
            kind: What jobs that are done together have in common.
            item: The job itself.
            gone: Waits until the client is gone.
            alone: Whether it is never batched.
            slow: Whether it is expected to take long, so that it need not be tried in the quick lane.

        Raises:
            BusyError: The queue is full, the time for a query is over, or the service stops.
            ClientGoneError: The client went away first.
        """
        job = Job(kind, item, alone, time.monotonic() + self._settings.seconds)
        if (lane := self._slow if slow else self._known_slow.get((kind, item))) is not None:
            self._move(job, lane)
        elif len(self.quick.waiting) >= self._settings.waiting:
            raise self._busy(f"{self._settings.waiting} queries wait already")
        else:
            self.quick.put(job)
        try:
            return await self.first(job.result, gone)
        finally:
            for lane in self._lanes:
                lane.drop(job)

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
                try:
                    return result.result()
                except DeadlineError:  # the lane has the same limit, and may notice a moment earlier
                    raise self._time_over() from None
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
        """Hands what waits to the quick lane's thread, or to a helper while it works."""
        free = [self.quick, *self._helpers]

        async def answer(jobs: list[Job], lane: Lane) -> None:
            await self._answer_quickly(jobs, lane)
            free.append(lane)
            one_is_free.set()

        one_is_free, expected = asyncio.Event(), 1
        async with asyncio.TaskGroup() as working:
            while True:
                while not free:
                    one_is_free.clear()
                    await one_is_free.wait()
                jobs = await self.quick.take(self._settings.batch, lambda: len(free), expected)
                expected = max(1, len(jobs) // 2)
                lane = self.quick if self.quick in free else free[0]
                free.remove(lane)
                working.create_task(answer(jobs, lane))

    async def _run_middle(self, lane: Lane) -> None:
        while True:
            for job in await lane.take(1):
                try:
                    await self._do(lane, [job], min(_MIDDLE * self._quick_seconds(), max(0.0, job.end - time.monotonic())))
                except DeadlineError:
                    if job.wanted():
                        self._give_up(job, self._slow)

    async def _run_slow(self) -> None:
        while True:
            for job in await self._slow.take(1):
                with contextlib.suppress(DeadlineError):
                    await self._do(self._slow, [job], max(0.0, job.end - time.monotonic()))
                job.fail(self._time_over())

    async def _answer_quickly(self, jobs: list[Job], lane: Lane) -> None:
        self._metrics.add_batch(len(jobs))
        try:
            await self._do(lane, jobs, _PATIENCE * self._quick_seconds() * (1 + _SHARE * (len(jobs) - 1)))
        except DeadlineError:
            late = [job for job in jobs if job.wanted()]
            if len(jobs) > 1:
                for job in late:
                    job.alone = True
                self.quick.put(*late, first=True)
                return
            for job in late:
                self._give_up(job, self._middle or self._slow)

    def _give_up(self, job: Job, to: Lane) -> None:
        """Moves a job that has taken too long to another lane, with equal ones that wait before it, and remembers it."""
        job.tried = True
        self._known_slow[job.kind, job.item] = to
        while len(self._known_slow) > _REMEMBERED:
            self._known_slow.pop(next(iter(self._known_slow)))
        before = [lane for lane in self._lanes if lane not in (to, self._slow)]
        equal = [other for lane in before for other in lane.waiting if (other.kind, other.item) == (job.kind, job.item)]
        for one in (job, *equal):
            for lane in before:
                lane.drop(one)
            self._move(one, to)

    def _quick_seconds(self) -> float:
        """Returns the time for a single query in the quick lane; on a busy machine, cheap queries must not count as slow."""
        return max(self._settings.quick_seconds, _USUAL * median(self._durations or [0.0]))

    def _move(self, job: Job, to: Lane) -> None:
        if self._middle is None or to is self._middle or not job.tried:  # each once
            self._metrics.add_slow()
        if len(to.waiting) >= self._settings.slow_waiting:
            job.fail(self._busy(f"{self._settings.slow_waiting} queries that take long wait already"))
        else:
            job.alone = True
            to.put(job)

    async def _do(self, lane: Lane, jobs: list[Job], seconds: float) -> None:
        """Does jobs of one kind in a thread of a lane.

        Raises:
            DeadlineError: They take longer than that.
        """
        began = time.monotonic()

        def work() -> list[Any]:
            def wanted() -> bool:
                return any(job.wanted() for job in jobs)

            kind, items = jobs[0].kind, [job.item for job in jobs]
            return lane.work(kind, items, Deadline(seconds, wanted, seconds / _PATIENCE if self._is_quick(lane) else None))

        results = asyncio.wrap_future(lane.worker.submit(work))
        self._working += 1
        results.add_done_callback(self._one_less_works)
        await asyncio.wait({results}, timeout=None if self._stuck >= MOST_STUCK else seconds + STUCK_SECONDS)
        if not results.done():
            self._leave_alone(lane, jobs, results)
            return
        try:
            _deliver(jobs, results.result())
            self._learn(lane, jobs, time.monotonic() - began)
        except DeadlineError:
            raise
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].fail(error)
                return
            for job in jobs:
                await self._answer_quickly([job], lane)

    def _learn(self, lane: Lane, jobs: Sequence[Job], seconds: float) -> None:
        """Updates the usual duration; a job that only seemed slow at the start is tried in the quick lane the next time."""
        if self._is_quick(lane) or jobs[0].tried:
            self._durations.append(seconds / len(jobs))
        if not self._is_quick(lane) and seconds < self._quick_seconds():
            self._known_slow.pop((jobs[0].kind, jobs[0].item), None)

    def _leave_alone(self, lane: Lane, jobs: list[Job], results: asyncio.Future[list[Any]]) -> None:
        """Replaces a lane's threads, and moves a quick job to a process; if the old thread still returns in time, its results count."""
        log.warning("%s: a query does not stop at its deadline; another thread takes over", lane.name)
        lane.replace_threads()
        self._stuck += 1
        moved = self._is_quick(lane) and self._middle is not None

        def returned(done: asyncio.Future[list[Any]]) -> None:
            self._stuck -= 1
            if (error := done.exception()) is None:
                _deliver(jobs, done.result())
            for job in jobs if not moved else ():
                job.fail(self._time_over() if isinstance(error, DeadlineError) or not isinstance(error, Exception) else error)

        results.add_done_callback(returned)
        for job in jobs if moved else ():
            self._give_up(job, self._middle or self._slow)

    def _is_quick(self, lane: Lane) -> bool:
        return lane is self.quick or lane in self._helpers

    def _one_less_works(self, results: asyncio.Future[list[Any]]) -> None:
        self._working -= 1
        if not results.cancelled():
            results.exception()  # marks it as retrieved, so that asyncio does not report it


def _deliver(jobs: Sequence[Job], results: Sequence[Any]) -> None:
    for job, result in zip(jobs, results, strict=True):
        if job.wanted():
            job.result.set_result(result)
