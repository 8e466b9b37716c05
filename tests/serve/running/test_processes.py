"""Work in processes of their own: it can be ended, its errors come back, and its memory is limited."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from starqe.deadline import NEVER, Deadline
from starqe.errors import DeadlineError, QueryError, SparqlError, UnsupportedError
from starqe.serve.running.processes import AVAILABLE, NICE, Processes
from tests.serve.waiting import eventually

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="workers are forked on Linux only")

MEMORY = 256 << 20


def work(kind, items, deadline):
    match kind:
        case "double":
            return [2 * item for item in items]
        case "where":
            return [os.getpid() for _ in items]
        case "nice":
            return [os.nice(0), signal.getsignal(signal.SIGINT) == signal.SIG_IGN, os.getsid(0) != items[0]]
        case "sleep":
            time.sleep(3600)
        case "work":
            while True:
                deadline.check()
        case "memory":
            return [len(bytes(2 * MEMORY)) for _ in items]
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "sparql":
            raise SparqlError("it is wrong", "Write it right", 1, 2, 3, 4, ["right"])
        case "odd":
            error = QueryError("odd")
            error.thing = lambda: None  # type: ignore[attr-defined]
            raise error
    raise ZeroDivisionError("no such work")


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    started = Processes(work, MEMORY)
    yield started
    started.close()


def test_jobs_are_done_elsewhere_by_a_worker_that_stays(processes):
    assert processes("double", [1, 2], NEVER) == [2, 4]
    first, second = (processes("where", [None], NEVER)[0] for _ in range(2))
    assert first == second != os.getpid()


def test_a_worker_is_less_urgent_and_left_alone_by_ctrl_c(processes):
    assert processes("nice", [os.getsid(0)], NEVER) == [min(19, os.nice(0) + NICE), True, True]


def test_a_job_is_ended_at_its_deadline_with_its_process(processes):
    (worker,) = processes("where", [None], NEVER)
    with pytest.raises(DeadlineError, match=r"may take 0\.1 seconds"):
        processes("sleep", [None], Deadline(0.1))
    eventually(lambda: not psutil.pid_exists(worker))
    assert processes("double", [3], NEVER) == [6]


def test_a_limit_of_processor_time_stops_the_job_and_the_worker_stays(processes):
    (worker,) = processes("where", [None], NEVER)
    with pytest.raises(DeadlineError, match=r"may take 0\.05 seconds"):
        processes("work", [None], Deadline(processor_seconds=0.05))
    assert processes("where", [None], NEVER) == [worker]


def test_helpers_are_as_urgent_as_the_service_and_have_its_memory():
    started = Processes(work, nice=0)
    assert started("nice", [os.getsid(0)], NEVER) == [os.nice(0), True, True]
    assert started("memory", [None], NEVER) == [2 * MEMORY]
    started.close()


def test_a_job_is_ended_when_no_one_waits(processes):
    with pytest.raises(DeadlineError, match="no longer waits"):
        processes("sleep", [None], Deadline(wanted=lambda: False))


def test_errors_come_back_as_they_are(processes):
    with pytest.raises(SparqlError, match=r"it is wrong \(line 1, column 2\)\. Write it right") as caught:
        processes("sparql", [None], NEVER)
    assert (caught.value.offset, caught.value.length, caught.value.suggestions) == (3, 4, ("right",))
    assert "in work" in caught.value.__notes__[0]  # where it was raised, for the log
    with pytest.raises(RuntimeError, match="odd"):  # it cannot be sent
        processes("odd", [None], NEVER)
    with pytest.raises(ZeroDivisionError):
        processes("?", [None], NEVER)


@pytest.mark.parametrize("kind", ["memory", "die"])
def test_too_much_memory_is_an_error_of_the_query(processes, kind):
    with pytest.raises(UnsupportedError, match="a limited amount of memory"):
        processes(kind, [None], NEVER)
    assert processes("double", [3], NEVER) == [6]


def test_nothing_is_left_when_they_are_closed():
    started = Processes(work, MEMORY)
    (worker,) = started("where", [None], NEVER)
    started.close()
    eventually(lambda: not psutil.pid_exists(worker))
    assert not psutil.pid_exists(started._first)


def test_without_its_first_process_a_thread_answers(caplog):
    started = Processes(work, MEMORY)
    os.kill(started._first, signal.SIGKILL)
    eventually(lambda: psutil.Process(started._first).status() == psutil.STATUS_ZOMBIE)
    assert started("where", [None], NEVER) == [os.getpid()]
    assert "a thread answers instead" in caplog.text
    started.close()


@pytest.mark.full
def test_workers_end_with_a_service_that_is_killed():
    program = (
        "import sys, time; from starqe.deadline import NEVER; from starqe.serve.running.processes import Processes\n"
        "from tests.serve.running.test_processes import work\n"
        "started = Processes(work, 1 << 28); print(started._first, *started('where', [None], NEVER), flush=True)\n"
        "started('sleep', [None], NEVER)"
    )
    root = Path(__file__).parents[3]
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout
        helpers = [int(word) for word in process.stdout.readline().split()]
        assert len(helpers) == 2
        process.kill()
        assert process.stdout.read() == ""  # no helper holds the streams of the service open
    eventually(lambda: not any(map(psutil.pid_exists, helpers)))
