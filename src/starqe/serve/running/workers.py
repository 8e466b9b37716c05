"""Threads that do the work of the service outside the event loop, and never keep the process from ending."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
HOLD_SECONDS = 2.0
"""Time limit for pausing all threads: much less than a client waits for its answer."""
_Submitted: TypeAlias = tuple[Future[Any], Callable[[], Any]]


class Worker:
    """Daemon threads (one by default) that run functions in the order of submission; they start with the first function.

    A `ThreadPoolExecutor` joins its threads when the interpreter exits, so one blocked function would keep the process alive.
    """

    def __init__(self, name: str, threads: int = 1) -> None:
        self._name, self._threads = name, threads
        self._submitted: SimpleQueue[_Submitted | None] | None = None

    def submit(self, function: Callable[..., T], /, *arguments: Any) -> Future[T]:
        """Runs a function later; cancelling the future before that drops it."""
        if self._submitted is None:
            self._submitted = SimpleQueue()
            for _ in range(self._threads):
                threading.Thread(target=_run, args=(self._submitted,), name=self._name, daemon=True).start()
        future: Future[T] = Future()
        self._submitted.put((future, lambda: function(*arguments)))
        return future

    def pause(self, release: threading.Event, arrived: Callable[[], None]) -> None:
        """Makes all threads wait for an event after their submitted work; each reports when it waits."""

        def wait() -> None:
            arrived()
            release.wait()

        for _ in range(self.threads):
            self.submit(wait)

    @property
    def threads(self) -> int:
        """Number of threads that run."""
        return self._threads if self._submitted is not None else 0

    def close(self) -> None:
        """Ends the threads after their submitted work; it does not wait for them."""
        if self._submitted is not None:
            for _ in range(self._threads):
                self._submitted.put(None)
            self._submitted = None


@contextlib.asynccontextmanager
async def paused(workers: Sequence[Worker]) -> AsyncIterator[None]:
    """Makes all threads of these workers wait while the block runs.

    Raises:
        TimeoutError: One of them does not stop in time.
    """
    loop, release = asyncio.get_running_loop(), threading.Event()
    expected, arrived, all_wait = sum(worker.threads for worker in workers), 0, asyncio.Event()

    def one_more() -> None:
        nonlocal arrived
        arrived += 1
        if arrived >= expected:
            all_wait.set()

    def arrives() -> None:
        loop.call_soon_threadsafe(one_more)

    for worker in workers:
        worker.pause(release, arrives)
    try:
        if expected:
            try:
                async with asyncio.timeout(HOLD_SECONDS):
                    await all_wait.wait()
            except TimeoutError:
                raise TimeoutError(f"threads should stop for a moment, and one did not within {HOLD_SECONDS:g} seconds") from None
        yield
    finally:
        release.set()


def _run(queue: "SimpleQueue[_Submitted | None]") -> None:
    while (submitted := queue.get()) is not None:
        future, function = submitted
        if not future.set_running_or_notify_cancel():
            continue
        try:
            result = function()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)
            del result
        del submitted, future, function  # an idle thread keeps no result alive
