"""Ctrl-C and SIGTERM, held back until there is a moment at which nothing is lost."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def held_back() -> Iterator[Callable[[], bool]]:
    """Holds SIGINT and SIGTERM back while a block runs, and delivers what came when it ends.

    Yields a function that says whether one came, so that the block can save its state and end. A second signal is delivered at once:
    whoever insists is not made to wait. Signals that are ignored stay so; outside the main thread, which alone gets signals, nothing
    is done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in SIGNALS}
    before = {number: handler for number, handler in before.items() if handler is not None and handler != signal.SIG_IGN}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:
            restore()
            signal.raise_signal(number)

    for number in before:
        signal.signal(number, note)
    try:
        yield lambda: bool(came)
    finally:
        restore()
    if came:
        signal.raise_signal(came[0])
