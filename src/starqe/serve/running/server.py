"""The application on a socket, served by uvicorn."""

import asyncio
import contextlib
import faulthandler
import gc
import logging
import os
import signal
import socket
import sys
import threading
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from starqe.errors import InputError
from starqe.serve.running.connections import Connection, Turns, Unsent
from starqe.serve.running.processes import AVAILABLE
from starqe.serve.running.runs import Runs
from starqe.serve.settings import ServeSettings

HANG_UP: signal.Signals | None = getattr(signal, "SIGHUP", None)
"""The signal to load the run again; Windows has none."""
_ANSWERING, _CLOSING = 0.7, 0.9
"""After these shares of `stop_seconds`, queries that wait are refused, and connections are closed."""
SWITCH_SECONDS = 0.0005
"""The switch interval of threads. Arithmetic releases the interpreter's lock all the time, and each time waits Python's default of 5 ms
while another thread reads or writes."""
SEND_BYTES = 1 << 17
"""Size of the send buffer of a connection; Linux doubles it. By default, it grows to 4 MB for each client that never reads."""
_HARD_SECONDS = 1.0
"""After this many more seconds the process ends even if Python does not run."""


def listen(host: str, port: int) -> socket.socket:
    """Opens the socket; port 0 takes any free port. Clients that connect from now on wait until the service runs.

    Raises:
        InputError: The address does not belong to this machine, or is taken.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        opened = socket.create_server(address[:2], family=family)
        # Connections inherit it. A response leaves in two parts, and without it the second one waits up to 40 ms for the client's
        # acknowledgement; asyncio sets it only for sockets that name their protocol.
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        return opened
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot listen on {host}, port {port}: {reason}. Choose another port (0: any that is free) or host") from None


def address(opened: socket.socket) -> str:
    """Returns the address of a socket as a URL."""
    host, port = opened.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def configuration(app: ASGIApp, settings: ServeSettings) -> uvicorn.Config:
    """Returns how uvicorn serves the application."""
    protocol: Any = partial(Connection, settings, Unsent(settings.unsent_bytes), Turns())
    return uvicorn.Config(
        app,
        loop="asyncio",
        http=protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,  # it would reveal queries
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=settings.idle_seconds,
        timeout_graceful_shutdown=_CLOSING * settings.stop_seconds,  # type: ignore[arg-type]  # any number will do
    )


def prepare(app: FastAPI) -> None:
    """Builds what the first queries would wait for, and starts the processes of the service; there are no threads yet."""
    runs: Runs = app.state.runs
    runs.current.answerer.warm_up()
    # The graph and its indexes are millions of objects that stay. Each full collection would look at all of them, and stop every thread
    # for as long as several cheap queries take.
    gc.collect()
    gc.freeze()
    if AVAILABLE:
        runs.current.answerer.start_store()
        runs.start_processes()


def serve(app: FastAPI, opened: socket.socket, settings: ServeSettings, prepared: bool = False) -> None:
    """Serves until SIGINT or SIGTERM, then answers what waits, and returns; it ends the process if that takes too long."""
    runs: Runs = app.state.runs
    sys.setswitchinterval(SWITCH_SECONDS)
    if not prepared:
        prepare(app)
    server = _Server(configuration(app, settings), settings, runs)
    # uvicorn handles these signals while it runs, and raises them again at its end, when they should do nothing more.
    before = {number: signal.signal(number, server.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
    if HANG_UP is not None:
        before[HANG_UP] = signal.signal(HANG_UP, signal.SIG_IGN)  # until the server runs, there is nothing to load again
    try:
        server.run(sockets=[opened])
        if runs.working:
            end_process()  # a thread that still answers might delay the exit of the interpreter
    finally:
        faulthandler.cancel_dump_traceback_later()
        gc.unfreeze()
        for number, handler in before.items():
            signal.signal(number, handler)


class _Server(uvicorn.Server):
    """uvicorn's server, which ends within `stop_seconds` after the first signal."""

    def __init__(self, config: uvicorn.Config, settings: ServeSettings, runs: Runs) -> None:
        super().__init__(config)
        self._settings, self._runs = settings, runs
        self._reloading: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to serve; from now on SIGHUP loads the run again."""
        await super().startup(sockets)
        if HANG_UP is not None:
            asyncio.get_running_loop().add_signal_handler(HANG_UP, self._hang_up, sys.__stdin__ is not None and sys.__stdin__.isatty())

    def _hang_up(self, had_terminal: bool) -> None:
        """Loads the run again, or stops if the signal says that the terminal was closed."""
        if had_terminal and not os.isatty(0):
            self.handle_exit(signal.SIGTERM, None)
            return
        task = asyncio.get_running_loop().create_task(self._runs.reload_in_turn())
        self._reloading.add(task)
        task.add_done_callback(self._reloading.discard)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begins to stop; a thread ends the process if nothing else does."""
        if not self.should_exit:
            watchdog = threading.Timer(self._settings.stop_seconds, end_process)
            watchdog.daemon = True
            watchdog.start()
            # The thread needs the interpreter's lock, which a long array operation may hold; faulthandler does not.
            faulthandler.dump_traceback_later(self._settings.stop_seconds + _HARD_SECONDS, exit=True, file=sys.__stderr__ or 2)
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answers what was begun; what is not answered in time is refused."""
        refusal = asyncio.get_running_loop().call_later(_ANSWERING * self._settings.stop_seconds, self._runs.stop)
        await super().shutdown(sockets)
        refusal.cancel()


def end_process() -> None:
    """Ends the process at once, after flushing logs and output."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(0)
