"""Deadlines: long loops check them, so that one question never blocks the others."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from starqe.errors import DeadlineError


@dataclass(frozen=True)
class Deadline:
    """A point in time, a limit of processor time, and whether the result is still needed.

    Args:
        seconds: The time limit from now on; None means no limit.
        wanted: Returns whether the result is still needed. It is called often, from any thread, so it must be cheap and thread-safe.
        processor_seconds: The limit of processor time in this thread from now on, which does not depend on what else the machine
            does; None means no limit.
    """

    seconds: float | None = None
    wanted: Callable[[], bool] = lambda: True
    processor_seconds: float | None = None
    _end: float = field(init=False, repr=False)
    _processor_end: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        limits = (("_end", self.seconds, time.monotonic), ("_processor_end", self.processor_seconds, time.thread_time))
        for name, seconds, clock in limits:
            object.__setattr__(self, name, float("inf") if seconds is None else clock() + seconds)

    def check(self) -> None:
        """Returns normally while the work may continue.

        Raises:
            DeadlineError: The time is up, or the result is no longer needed.
        """
        # The clock of a thread is a system call: it is read only where it limits something.
        if (self.seconds is not None and time.monotonic() >= self._end) or (
            self.processor_seconds is not None and time.thread_time() >= self._processor_end
        ):
            limit = self.seconds if self.processor_seconds is None else self.processor_seconds
            raise DeadlineError(f"a question may take {limit:g} seconds, and this one needs more. Ask a smaller question")
        if not self.wanted():
            raise DeadlineError("the client no longer waits for this answer")


NEVER = Deadline()
"""No limit: for batch work, scripts and tests."""
