"""Deadlines: long loops check them, so that one question never blocks the others."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from starqe.errors import DeadlineError


@dataclass(frozen=True)
class Deadline:
    """A point in time, and whether the result is still needed.

    Args:
        seconds: The time limit from now on; None means no limit.
        wanted: Returns whether the result is still needed. It is called often, from any thread, so it must be cheap and thread-safe.
    """

    seconds: float | None = None
    wanted: Callable[[], bool] = lambda: True
    _end: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_end", float("inf") if self.seconds is None else time.monotonic() + self.seconds)

    def check(self) -> None:
        """Returns normally while the work may continue.

        Raises:
            DeadlineError: The time is up, or the result is no longer needed.
        """
        if time.monotonic() >= self._end:
            raise DeadlineError(f"a question may take {self.seconds:g} seconds, and this one needs more. Ask a smaller question")
        if not self.wanted():
            raise DeadlineError("the client no longer waits for this answer")


NEVER = Deadline()
"""No limit: for batch work, scripts and tests."""
