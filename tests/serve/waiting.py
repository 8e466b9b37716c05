"""Waits for what happens in another thread or process."""

import time
from collections.abc import Callable


def eventually(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Waits until a condition holds; a busy machine has plenty of time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)
