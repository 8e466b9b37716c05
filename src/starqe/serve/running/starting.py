"""Answers while a large run is opened: `/health` says that the service starts, and everything else gets a 503.

A process of its own does it, on the socket of the service: opening a run keeps Python's lock for seconds, and processes that are forked
afterwards would hold the locks of its threads.
"""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator

import orjson
import uvicorn
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from starqe.serve.bodies import Health
from starqe.serve.problems import BusyError
from starqe.serve.running.guards import HEADERS, Hosts
from starqe.serve.running.processes import AVAILABLE, die_with_parent
from starqe.serve.running.server import configuration
from starqe.serve.settings import ServeSettings

OPENING = ("models", "look-ups", "rules", "store of known facts")
"""What is prepared while a run is opened."""
RETRY_SECONDS = 5
"""The value of Retry-After meanwhile."""


@contextlib.contextmanager
def answering(opened: socket.socket, settings: ServeSettings) -> Iterator[None]:
    """Answers on a socket until the block ends; where the system cannot fork, clients wait."""
    if not AVAILABLE:
        yield
        return
    theirs, ours = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.close(ours)
            _answer(opened, settings, theirs)
        finally:
            os._exit(0)
    os.close(theirs)
    try:
        yield
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.write(ours, b"ready")
        os.close(ours)
        threading.Thread(target=os.waitpid, args=(child, 0), daemon=True).start()  # it may still write a response


def _answer(opened: socket.socket, settings: ServeSettings, end: int) -> None:
    die_with_parent()
    server = uvicorn.Server(configuration(Hosts(starting, settings.hosts), settings))

    def wait() -> None:
        os.read(end, 1)
        server.should_exit = True

    threading.Thread(target=wait, daemon=True).start()
    server.run(sockets=[opened])


async def starting(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers one request."""
    if scope["type"] != "http":
        await _lifespan(receive, send)
        return
    if scope["path"] == "/health":
        health = Health(status="starting", preparing=[*OPENING])
        response = Response(orjson.dumps(health.model_dump()), media_type="application/json")
    else:
        message = f"the service starts: it prepares {', '.join(OPENING)}. Ask again later; /health says when it is ready"
        response = BusyError(message, RETRY_SECONDS, "NotReady").response()
    response.headers.update({**HEADERS, "Connection": "close"})  # the next request is for the service itself
    if scope["method"] == "HEAD":
        response.body = b""
    await response(scope, receive, send)


async def _lifespan(receive: Receive, send: Send) -> None:
    for _ in range(2):
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
