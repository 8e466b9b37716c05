"""Threads that do the work of the service beside the event loop, and never keep the process from ending."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
_Submitted: TypeAlias = tuple[Future[Any], Callable[[], Any]]


class Worker:
    """Daemon threads (one, if nothing else is said) that run functions in the order of their submission; they start with the first one.

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

    def close(self) -> None:
        """Ends the threads after what was submitted; they are never waited for."""
        if self._submitted is not None:
            for _ in range(self._threads):
                self._submitted.put(None)
            self._submitted = None


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
