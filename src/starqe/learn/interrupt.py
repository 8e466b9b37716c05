"""Defers Ctrl-C and SIGTERM until nothing would be lost."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def deferred_signals() -> Iterator[Callable[[], bool]]:
    """Defers SIGINT and SIGTERM while a block runs, and delivers them when it ends.

    Yields a function that returns whether a signal has arrived, so that the block can save its state and end. A second signal is
    delivered at once. Ignored signals stay ignored. Outside the main thread, which alone receives signals, this does nothing.
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
