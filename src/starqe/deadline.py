"""When work must stop: long loops check, so that one query never holds up all others."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from starqe.errors import DeadlineError


@dataclass(frozen=True)
class Deadline:
    """A point in time, a limit of processor time, and whether anybody still waits for the result.

    Args:
        seconds: How long the work may take from now on; None means without limit.
        wanted: Says whether anybody still waits. Called often, so it must be cheap and safe to call from any thread.
        processor_seconds: How much processor time the work may take in this thread from now on, which does not depend on what else
            the machine does; None means without limit.
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
        """Does nothing while the work may continue.

        Raises:
            DeadlineError: The time is up, or nobody waits any more.
        """
        if time.monotonic() >= self._end or time.thread_time() >= self._processor_end:
            limit = self.seconds if self.processor_seconds is None else self.processor_seconds
            raise DeadlineError(f"a query may take {limit:g} seconds, and this one needs more. Ask for less at once")
        if not self.wanted():
            raise DeadlineError("nobody waits for this answer any more")


NEVER = Deadline()
"""No limit: for batch work, scripts and tests."""
