"""The queues of the service: jobs that wait, and the threads that do them."""

import asyncio
import contextlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from starqe.serve.running.processes import Work
from starqe.serve.running.workers import Worker

GATHER_SECONDS = 0.01
"""How long jobs wait for others that are likely to come: clients whose answers left together ask again within this time."""


@dataclass(eq=False)
class Job:
    """One query, and the future of its answer."""

    kind: Hashable
    item: Any
    alone: bool
    end: float
    """When its client gives up, by ``time.monotonic``."""
    tried: bool = False
    """Whether the quick lane has given it up."""
    result: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def wanted(self) -> bool:
        """Whether a client still waits; safe in any thread, since it only reads the state of the future."""
        return not self.result.done()

    def fail(self, error: Exception) -> None:
        """Passes an error on, if a client still waits."""
        if self.wanted():
            self.result.set_exception(error)


class Lane:
    """A queue of jobs, the threads that do them, and how they are done."""

    def __init__(self, name: str, work: Work, threads: int = 1) -> None:
        self.name, self.work, self.threads = name, work, threads
        self.waiting, self.worker = list[Job](), Worker(name, threads)
        self._arrived = asyncio.Event()
        self._alone_next = False

    def put(self, *jobs: Job, first: bool = False) -> None:
        """Adds jobs at the end, or before all others."""
        self.waiting[:] = [*jobs, *self.waiting] if first else [*self.waiting, *jobs]
        self._arrived.set()

    def drop(self, job: Job) -> None:
        """Removes a job that still waits."""
        with contextlib.suppress(ValueError):
            self.waiting.remove(job)

    def replace_threads(self) -> None:
        """Leaves the threads alone with what they do, and starts others."""
        self.worker.close()
        self.worker = Worker(self.name, self.threads)

    async def take(self, most: int, takers: Callable[[], int] = lambda: 1, expected: int = 1) -> list[Job]:
        """Waits for jobs; returns one that is never batched, or several of the oldest job's kind; both get their turn.

        Args:
            most: The maximum number of jobs.
            takers: Returns how many takers share what waits.
            expected: It waits for this many jobs, but not longer than `GATHER_SECONDS`.
        """
        await self._until(1)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GATHER_SECONDS):
                await self._until(expected)
        alone = next((job for job in self.waiting if job.alone), None)
        shared = next((job for job in self.waiting if not job.alone), None)
        if shared is None or (alone is not None and self._alone_next):
            assert alone is not None
            jobs, self._alone_next = [alone], False
        else:
            jobs, self._alone_next = [job for job in self.waiting if job.kind == shared.kind and not job.alone], True
            jobs = jobs[: min(most, -(-len(jobs) // takers()))]
        for job in jobs:
            self.waiting.remove(job)
        return jobs

    async def _until(self, count: int) -> None:
        while len(self.waiting) < count:
            self._arrived.clear()
            await self._arrived.wait()
