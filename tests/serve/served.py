"""The service on a port of this machine, in a thread of the test's process: real connections, without the start of a program."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from starqe.ask import Answerer
from starqe.serve import ServeSettings, create_app
from starqe.serve.running.server import address, configuration, listen


@contextmanager
def served(answerer: Answerer, **settings: object) -> Iterator[str]:
    """Serves an answerer, and gives the address without a path."""
    of = ServeSettings.parse(settings)
    server = uvicorn.Server(configuration(create_app(answerer, of), of))
    with listen("127.0.0.1", 0) as opened:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]}, name="served")
        thread.start()
        try:
            yield address(opened)
        finally:
            server.should_exit = True
            thread.join()
