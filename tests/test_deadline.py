"""Deadlines: by the clock, and by whether anybody still waits."""

import time

import pytest

from starqe.deadline import NEVER, Deadline
from starqe.errors import DeadlineError


def test_work_goes_on_until_the_time_is_up():
    deadline = Deadline(0.05)
    deadline.check()
    time.sleep(0.06)
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
