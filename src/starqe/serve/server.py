"""The application on a socket: uvicorn, with patience for slow clients measured out."""

import asyncio
import math
import signal
import socket
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from starqe.errors import InputError
from starqe.serve.settings import ServeSettings


def listen(host: str, port: int) -> socket.socket:
    """Opens the socket; port 0 takes any that is free. Whoever connects from now on waits until the service runs.

    Raises:
        InputError: The address is none of this machine, or is taken.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        opened = socket.create_server(address[:2], family=family)
        # Connections inherit it. A response leaves in two parts, and without it the second one waits 40 ms for the client's sign;
        # asyncio sets it only where a socket names its protocol.
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return opened
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot listen on {host}, port {port}: {reason}. Choose another --port (0: any that is free) or --host") from None


def address(opened: socket.socket) -> str:
    """Gives the address of a socket as clients write it."""
    host, port = opened.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(app: FastAPI, opened: socket.socket, settings: ServeSettings) -> None:
    """Serves until SIGINT or SIGTERM, then answers what waits, and returns."""
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=_patient(settings.read_seconds),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,  # it would tell what was asked
        server_header=False,
        proxy_headers=False,
        limit_concurrency=settings.connections,
        timeout_keep_alive=settings.idle_seconds,
        timeout_graceful_shutdown=math.ceil(settings.seconds + settings.read_seconds),
        h11_max_incomplete_event_size=settings.body_bytes,
    )
    # uvicorn stops on these signals and raises them again at its end, when they should do nothing more.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        uvicorn.Server(config).run(sockets=[opened])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _patient(seconds: float) -> type[asyncio.Protocol]:
    """Gives the HTTP protocol that closes a connection whose next headers are not complete after so many seconds.

    uvicorn waits for headers for ever, once the first byte is there.
    """

    class Patient(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is not h11.IDLE:
                self._stop()
            elif self._timer is None:
                self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def _wait(self) -> None:
            self._timer = self.loop.call_later(seconds, self._close)

        def _stop(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _close(self) -> None:
            self.transport.abort()

    found: type[Any] = Patient
    return found
