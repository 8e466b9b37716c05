"""Queries that wait, and the one thread that answers them, several at once."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starqe.serve.metrics import Metrics
from starqe.serve.problems import BusyError, ClientGoneError
from starqe.serve.settings import ServeSettings

T = TypeVar("T")
Work = Callable[[Hashable, Sequence[Any]], list[Any]]
"""Does jobs of one kind together: what they have in common, what each of them is -> a result each."""
Gone = Callable[[], Coroutine[Any, Any, None]]
"""Waits until a client is gone."""


class Alone:
    """A part of a kind that no other job has, for jobs that gain nothing from company: they would be ready only when all are."""


@dataclass(frozen=True, eq=False)
class _Job:
    kind: Hashable
    item: Any
    result: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Batches:
    """A bounded queue before a single thread, which takes what waits and does jobs of the same kind together.

    What fails together is tried one by one, so that a job fails for its own reasons only. A job whose result nobody waits for
    any more is dropped, unless it is being worked on.
    """

    def __init__(self, work: Work, settings: ServeSettings, metrics: Metrics) -> None:
        self._work, self._settings, self._metrics = work, settings, metrics
        self._waiting: asyncio.Queue[_Job] = asyncio.Queue(settings.waiting)
        self._thread = ThreadPoolExecutor(1, "answers")

    def __len__(self) -> int:
        return self._waiting.qsize()

    @contextlib.asynccontextmanager
    async def running(self) -> Any:
        """Works until the block ends; what still waits then is refused."""
        loop = asyncio.create_task(self._run())
        try:
            yield self
        finally:
            loop.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await loop
            while not self._waiting.empty():
                _fail(self._waiting.get_nowait(), self._busy("the service stops"))
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def do(self, kind: Hashable, item: Any, gone: Gone) -> Any:
        """Gives the result of a job.

        Raises:
            BusyError: The queue is full, or the time for a query is over.
            ClientGoneError: The client went away first.
        """
        job = _Job(kind, item)
        try:
            self._waiting.put_nowait(job)
        except asyncio.QueueFull:
            raise self._busy(f"{self._settings.waiting} queries wait already") from None
        return await self.first(job.result, gone)

    async def first(self, result: asyncio.Future[T], gone: Gone) -> T:
        """Waits for a result as long as the client does, and no longer than a query may take.

        Raises:
            BusyError: The time for a query is over.
            ClientGoneError: The client went away first.
        """
        left = asyncio.create_task(gone())
        try:
            both: set[asyncio.Future[Any]] = {result, left}
            await asyncio.wait(both, timeout=self._settings.seconds, return_when=asyncio.FIRST_COMPLETED)
            if result.done():
                return result.result()
            if left.done():
                raise ClientGoneError
            raise self._busy(f"a query may take {self._settings.seconds:g} seconds, and this one was not answered by then")
        finally:
            result.cancel()
            left.cancel()

    def _busy(self, message: str) -> BusyError:
        return BusyError(f"{message}. Try again later", self._settings.retry_seconds)

    async def _run(self) -> None:
        while True:
            jobs = [await self._waiting.get()]
            while len(jobs) < self._settings.batch and not self._waiting.empty():
                jobs.append(self._waiting.get_nowait())
            kinds: dict[Hashable, list[_Job]] = {}
            for job in jobs:
                kinds.setdefault(job.kind, []).append(job)
            for kind, of_kind in kinds.items():
                try:
                    await self._do_together(kind, of_kind)
                except asyncio.CancelledError:
                    for job in jobs:
                        _fail(job, self._busy("the service stops"))
                    raise

    async def _do_together(self, kind: Hashable, jobs: list[_Job]) -> None:
        jobs = [job for job in jobs if not job.result.done()]
        if not jobs:
            return
        self._metrics.add_batch(len(jobs))
        loop = asyncio.get_running_loop()
        try:
            results = await loop.run_in_executor(self._thread, self._work, kind, [job.item for job in jobs])
        except Exception as error:
            if len(jobs) == 1:
                _fail(jobs[0], error)
                return
            for job in jobs:
                await self._do_together(kind, [job])
            return
        for job, result in zip(jobs, results, strict=True):
            if not job.result.done():
                job.result.set_result(result)


def _fail(job: _Job, error: Exception) -> None:
    if not job.result.done():
        job.result.set_exception(error)
