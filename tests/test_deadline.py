"""Deadlines: by the clock, and by whether anybody still waits."""

import pytest

from starqe.deadline import NEVER, Deadline
from starqe.errors import DeadlineError


def test_work_continues_until_the_time_is_up(monkeypatch):
    now = iter([1.0, 1.04, 1.05])
    monkeypatch.setattr("starqe.deadline.time.monotonic", lambda: next(now))
    deadline = Deadline(0.05)
    deadline.check()
    with pytest.raises(DeadlineError, match=r"may take 0\.05 seconds"):
        deadline.check()


def test_work_stops_when_the_result_is_no_longer_needed():
    waiting = [True]
    deadline = Deadline(wanted=lambda: waiting[0])
    deadline.check()
    waiting.clear()
    waiting.append(False)
    with pytest.raises(DeadlineError, match="no longer waits"):
        deadline.check()


def test_never_is_without_limit():
    NEVER.check()
