"""Runs jobs in worker processes: they take no processor time from the threads of the service, have limited memory, and can be ended.

The service forks once, before it has threads. This first process holds the run as it was loaded (its memory is shared until it
is written to), and forks a worker whenever one is needed. A worker does one job at a time, and ends when no client waits for its result
any more.
"""

import contextlib
import ctypes
import gc
import logging
import os
import pickle
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from starqe.deadline import Deadline
from starqe.errors import UnsupportedError

Work = Callable[[Hashable, Sequence[Any], Deadline], list[Any]]
"""Does jobs of one kind together: what they have in common, what each of them is, when to stop -> one result per job."""

AVAILABLE = sys.platform == "linux"
"""Whether the system can fork a process that has used threads and large libraries."""
NICE = 5
"""The ``nice`` value of workers for slow queries, relative to the service."""
_POLL_SECONDS = 0.02
log = logging.getLogger("starqe.serve")
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_TOO_MUCH = "a query may take a limited amount of memory, and this one needs more. Ask for less at once"


@dataclass(frozen=True, eq=False)
class _Worker:
    connection: Connection
    pid: int

    def end(self) -> None:
        self.connection.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


class Processes:
    """Does jobs in worker processes; safe to use from several threads, each of which has a worker while its job is done.

    Args:
        work: Does the jobs; everything that it uses must be loaded already.
        memory: Bytes that a worker may take beyond what it shares with the service; without limit if left out.
        nice: The ``nice`` value of workers, relative to the service.
    """

    def __init__(self, work: Work, memory: int | None = None, nice: int = NICE) -> None:
        self._work = work
        self._control, theirs = socket.socketpair()
        self._idle: list[_Worker] = []
        self._lock = threading.Lock()
        sys.stdout.flush()
        self._first = os.fork()
        if self._first == 0:
            try:
                self._control.close()
                _fork_workers(theirs, work, memory, nice)
            finally:
                os._exit(1)
        theirs.close()

    def __call__(self, kind: Hashable, items: Sequence[Any], deadline: Deadline) -> list[Any]:
        """Does jobs of one kind in a worker, which is ended at the deadline; a limit of processor time stops only the jobs.

        Raises:
            UnsupportedError: They need more memory than a worker may take.
            DeadlineError: The time is up, or the result is no longer wanted.
        """
        try:
            worker = self._take()
        except (EOFError, ConnectionError):
            log.warning("the process that starts workers is gone; a thread answers instead")
            return self._work(kind, items, deadline)
        try:
            worker.connection.send((kind, items, deadline.processor_seconds))
            while not worker.connection.poll(_POLL_SECONDS):
                deadline.check()
            done, found = worker.connection.recv()
        except (EOFError, ConnectionError):  # the system ended it, without a reply
            worker.end()
            raise UnsupportedError(_TOO_MUCH) from None
        except BaseException:
            worker.end()
            raise
        with self._lock:
            self._idle.append(worker)
        if not done:
            raise _revived(found)
        return list(found)

    def close(self) -> None:
        """Ends all processes."""
        with self._lock:
            for worker in self._idle:
                worker.end()
            self._idle.clear()
            self._control.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._first, 0)

    def _take(self) -> _Worker:
        with self._lock:
            if self._idle:
                return self._idle.pop()
            ours, theirs = socket.socketpair()
            connection = Connection(ours.detach())
            try:
                with theirs:
                    socket.send_fds(self._control, [b"fork"], [theirs.fileno()])
                return _Worker(connection, connection.recv())
            except BaseException:
                connection.close()
                raise


def _fork_workers(control: socket.socket, work: Work, memory: int | None, nice: int) -> NoReturn:
    """Forks a worker for each socket that comes, until the service closes its side or ends."""
    import torch

    _become_helper(control.fileno(), nice)
    torch.set_num_threads(1)  # the threads that the service may have for arithmetic were not forked
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # workers that end leave nothing behind
    gc.freeze()  # collecting garbage would write to memory that is shared
    while True:
        message, sockets, _, _ = socket.recv_fds(control, 16, 1)
        if not message:
            os._exit(0)
        if os.fork() == 0:
            control.close()
            die_with_parent()
            if memory is not None:
                _limit_memory(memory)
            with contextlib.suppress(OSError, EOFError):  # the service may end at any time
                _do_jobs(Connection(sockets[0]), work)
            os._exit(0)
        os.close(sockets[0])


def _become_helper(keep: int, nice: int) -> None:
    """Detaches the process from the service: signals, streams, files, sockets and priority."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the service ends its helpers itself
    die_with_parent()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    for handle in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208
        if handle > 2 and handle != keep:
            with contextlib.suppress(OSError):
                os.close(handle)
    os.nice(nice)
    os.setsid()
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w", encoding="ascii") as file:  # noqa: PTH123
        file.write(str(nice))  # where the system shares its processors among sessions, `nice` counts only within each of them


def die_with_parent() -> None:
    """Lets the system end this process when the one that forked it ends."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def _limit_memory(more: int) -> None:
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        pages = int(file.read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + more,) * 2)


def _do_jobs(connection: Connection, work: Work) -> None:
    connection.send(os.getpid())
    while True:
        kind, items, processor_seconds = connection.recv()
        connection.send_bytes(_outcome(work, kind, items, Deadline(processor_seconds=processor_seconds)))


def _outcome(work: Work, kind: Hashable, items: Sequence[Any], deadline: Deadline) -> bytes:
    """Does jobs; the reply says whether they were done, and has their results or the error."""
    try:
        return pickle.dumps((True, work(kind, items, deadline)), pickle.HIGHEST_PROTOCOL)
    except MemoryError:
        return pickle.dumps((False, _kept(UnsupportedError(_TOO_MUCH))))
    except Exception as error:
        error.add_note("".join(traceback.format_exception(error)))
        try:
            return pickle.dumps((False, _kept(error)))
        except Exception:  # its content cannot be sent
            return pickle.dumps((False, _kept(RuntimeError("".join(traceback.format_exception(error))))))


_Kept = tuple[type[Exception], tuple[Any, ...], dict[str, Any]]


def _kept(error: Exception) -> _Kept:
    """Splits an error into parts: pickle would call a class with its own arguments with the wrong ones."""
    return type(error), error.args, error.__dict__


def _revived(kept: _Kept) -> Exception:
    kind, arguments, attributes = kept
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(attributes)
    return error
