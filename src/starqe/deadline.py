"""When work must stop: long loops ask, so that one question never holds up all others."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from starqe.errors import DeadlineError


@dataclass(frozen=True)
class Deadline:
    """A point in time, and whether anybody still waits for the result.

    Args:
        seconds: How long the work may take from now on; None means without limit.
        wanted: Says whether anybody still waits. Asked often, so it must be cheap and safe to call from any thread.
    """

    seconds: float | None = None
    wanted: Callable[[], bool] = lambda: True
    _end: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_end", float("inf") if self.seconds is None else time.monotonic() + self.seconds)

    def check(self) -> None:
        """Does nothing while the work may go on.

        Raises:
            DeadlineError: The time is up, or nobody waits any more.
        """
        if time.monotonic() >= self._end:
            raise DeadlineError(f"a question may take {self.seconds:g} seconds, and this one needs more. Ask for less at once")
        if not self.wanted():
            raise DeadlineError("nobody waits for this answer any more")


NEVER = Deadline()
"""No limit: for batch work, scripts and tests."""
