import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from starqe.learn.interrupt import deferred_signals


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Ctrl-C as a terminal has it: workers of the tests ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_signal_waits_for_the_end_of_the_block() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), deferred_signals() as interrupted:  # noqa: PT012
        assert not interrupted()
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupted()
        done.append("the rest of the block")
    assert done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_sigterm_reaches_the_handler_that_was_there_before() -> None:
    came = []
    before = signal.signal(signal.SIGTERM, lambda *_: came.append("then"))
    try:
        with deferred_signals() as interrupted:
            os.kill(os.getpid(), signal.SIGTERM)
            assert interrupted()
            came.append("first")
        assert came == ["first", "then"]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_second_signal_does_not_wait() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), deferred_signals():  # noqa: PT012
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        done.append("too late")
    assert not done


def test_signals_that_are_ignored_stay_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with deferred_signals() as interrupted:
            os.kill(os.getpid(), signal.SIGINT)
            assert not interrupted()
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_get_no_signals_and_work_as_before() -> None:
    found: list[Callable[[], bool]] = []

    def work() -> None:
        with deferred_signals() as interrupted:
            found.append(interrupted)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not found[0]()
