"""The protocol over real sockets: clients that never read, that send too much, or that are too many."""

import asyncio
import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from starqe.ask import Answerer
from starqe.serve import ServeSettings, create_app
from starqe.serve.running.connections import RESERVE
from starqe.serve.running.server import configuration, listen
from tests.serve.waiting import eventually

pytestmark = pytest.mark.full

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEALTHY = b'{"status":"ok","run":""}'
LARGE = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sparql-query\r\n"


class Served:
    """A service in a thread of this process, and how to talk to it."""

    def __init__(self, server: uvicorn.Server, address: tuple[str, int]) -> None:
        self._server, self._address = server, address

    @property
    def connections(self) -> int:
        return len(self._server.server_state.connections)

    @property
    def unsent(self) -> int:
        """The number of bytes that the service could not send yet: more than none if a client does not read."""
        return sum(connection.transport.get_write_buffer_size() for connection in list(self._server.server_state.connections))

    @property
    def answered(self) -> int:
        return self._server.server_state.total_requests

    def connect(self, receive_bytes: int | None = None) -> socket.socket:
        opened = socket.socket()
        if receive_bytes is not None:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        opened.settimeout(30)
        opened.connect(self._address)
        return opened

    def converse(self, *parts: bytes) -> bytes:
        """Sends bytes as they are, and returns everything that comes back until the connection is closed."""
        with self.connect() as connection:
            for part in parts:
                connection.sendall(part)
            return everything(connection)

    def get(self, path: str) -> tuple[int, bytes]:
        """Asks on a connection of its own; returns the status and the whole response."""
        received = self.converse(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        return int(received[9:12]), received


def everything(connection: socket.socket) -> bytes:
    received = b""
    while part := connection.recv(65_536):
        received += part
    return received


@contextmanager
def served(answerer: Answerer, **settings: object) -> Iterator[Served]:
    limits = ServeSettings.parse(settings)
    with serving(create_app(answerer, limits), limits) as service:
        yield service


@contextmanager
def serving(app: ASGIApp, limits: ServeSettings) -> Iterator[Served]:
    with listen("127.0.0.1", 0) as opened:
        address = opened.getsockname()
        server = uvicorn.Server(configuration(app, limits))
        thread = threading.Thread(target=server.run, args=([opened],))
        thread.start()
        try:
            eventually(lambda: server.started)
            yield Served(server, address)
        finally:
            server.should_exit = True
            thread.join(60)
        assert not thread.is_alive()


def error(received: bytes) -> tuple[int, str]:
    """Returns the status and the kind of an error, which is JSON like all errors."""
    head, _, body = received.partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head.lower()
    assert b"\r\nconnection: close" in head.lower()
    return int(received[9:12]), json.loads(body)["error"]["kind"]


def test_clients_that_never_read_delay_no_one_and_are_cut_off(answerer):
    with ExitStack() as stack, served(answerer, requests=4, write_seconds=1) as service:
        for _ in range(8):
            connection = stack.enter_context(service.connect(receive_bytes=4_096))
            connection.setblocking(False)
            connection.send(LARGE * 500)
        eventually(lambda: service.get("/api/graph")[0] == 200)
        assert [service.get("/api/graph")[0] for _ in range(3)] == [200] * 3
        eventually(lambda: service.connections == 0)


def test_the_next_request_waits_until_the_response_before_it_has_left(answerer):
    with served(answerer, write_seconds=20) as service, service.connect(receive_bytes=4_096) as connection:
        connection.sendall(LARGE * 400)
        eventually(lambda: service.unsent > 0)  # the buffers of the kernel are full
        now = service.answered
        assert 0 < now < 400
        assert service.get("/health")[0] == 200  # what was read by now has been answered: the next request would have been, too
        now += 1
        assert service.answered == now
        received = 0
        while service.answered == now:
            received += len(connection.recv(65_536))
            assert received < 1 << 25


def test_a_client_that_never_reads_gets_few_responses_into_buffers(answerer):
    with served(answerer, write_seconds=20) as service, service.connect(receive_bytes=4_096) as connection:
        size = len(service.converse(LARGE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")))
        connection.sendall(LARGE * 400)
        eventually(lambda: service.unsent > 0)
        assert (service.answered - 1) * size < 1 << 20


def test_clients_that_send_their_requests_all_at_once_leave_every_cycle_to_others(answerer):
    app, cycle, begun = create_app(answerer), 0, Counter[int]()

    def count_cycles() -> None:
        nonlocal cycle
        cycle += 1
        asyncio.get_running_loop().call_soon(count_cycles)

    async def counted(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            count_cycles()
        elif scope["query_string"]:
            begun[cycle] += 1
        await app(scope, receive, send)

    with serving(counted, ServeSettings()) as service, ExitStack() as stack:
        later = HEALTH.replace(b"/health", b"/health?later") * 20
        connections = [stack.enter_context(service.connect()) for _ in range(20)]
        for connection in connections:
            connection.sendall(HEALTH + later)
        for connection in connections:
            received = b""
            while received.count(HEALTHY) < 21:
                received += connection.recv(65_536)
    assert begun.total() == 400
    assert max(begun.values()) == 1


def test_a_slow_client_that_reads_gets_every_response_in_order(answerer):
    with served(answerer, write_seconds=20) as service, service.connect(receive_bytes=4_096) as connection:
        connection.sendall(LARGE * 400 + HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        eventually(lambda: service.unsent > 0)
        received = everything(connection)
    assert received.count(b"HTTP/1.1 200 OK") == 401
    assert received.endswith(HEALTHY)


def test_responses_that_are_not_read_take_a_bounded_number_of_bytes(answerer):
    with served(answerer, write_seconds=20, unsent_bytes=1_000) as service, service.connect(receive_bytes=4_096) as connection:
        connection.setblocking(False)
        connection.send(LARGE * 500)
        eventually(lambda: service.connections == 1)
        eventually(lambda: service.connections == 0)
        assert service.answered < 500


def test_beyond_the_limit_of_connections_health_is_answered_others_are_refused_and_then_closed(answerer):
    with served(answerer, connections=3, retry_seconds=7) as service, ExitStack() as stack:
        for _ in range(3):  # each in the middle of a request
            stack.enter_context(service.connect()).sendall(HEALTH[:-2])
        eventually(lambda: service.connections == 3)
        assert service.converse(HEALTH).endswith(HEALTHY)
        assert b"starqe_requests_total" in service.converse(HEALTH.replace(b"/health", b"/metrics"))
        refused = service.converse(HEALTH.replace(b"/health", b"/api/graph"))
        assert error(refused) == (503, "Busy")
        assert b"\r\nretry-after: 7\r\n" in refused.lower()
        silent = [stack.enter_context(service.connect()) for _ in range(RESERVE)]
        eventually(lambda: service.connections == 3 + RESERVE)
        with service.connect() as beyond:
            assert beyond.recv(1) == b""
        assert [connection.recv(1) for connection in silent] == [b""] * RESERVE  # the reserve is for short requests
        assert service.converse(HEALTH).endswith(HEALTHY)


def test_beyond_the_limit_of_connections_the_longest_idle_one_gives_way(answerer):
    with served(answerer, connections=3) as service, ExitStack() as stack:

        def ask(connection: socket.socket) -> None:
            connection.sendall(HEALTH)
            received = b""
            while not received.endswith(HEALTHY):
                received += connection.recv(65_536)
            assert b"connection: close" not in received.lower()  # it is not one of the reserve

        busy, *idle = (stack.enter_context(service.connect()) for _ in range(3))
        ask(busy)
        busy.sendall(HEALTH[:-2])
        for connection in reversed(idle):
            ask(connection)
        first, second = (stack.enter_context(service.connect()) for _ in range(2))
        ask(first)
        assert idle[1].recv(1) == b""
        ask(second)
        assert idle[0].recv(1) == b""
        busy.sendall(HEALTH[-2:])
        assert busy.recv(10).startswith(b"HTTP/1.1 2")
        ask(first)


def test_a_connection_stays_open_for_longer_than_proxies_keep_theirs():
    assert ServeSettings().idle_seconds > 60  # nginx, for connections to what is behind it


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HEALTH, 400),
        (POST.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"\x00\x01\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\n\r\n", 400),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (HEALTH.replace(b"\r\n\r\n", b"\r\nX: " + b"x" * 33_000 + b"\r\n\r\n"), 431),
        (HEALTH.replace(b"\r\n\r\n", b"\r\nX: " + b"x" * 70_000), 431),
    ],
)
def test_what_breaks_the_protocol_is_refused_once_in_the_form_of_all_errors(answerer, request_, status):
    with served(answerer) as service:
        received = service.converse(request_)
    assert error(received) == (status, "InvalidHttp")
    assert received.count(b"HTTP/1.1 ") == 1


def test_head_is_answered_like_get_without_a_body(answerer):
    with served(answerer) as service:
        for path in ("/health", "/", "/openapi.json", "/sparql?query=SELECT%20%3Fx%20%7B%20%3Fx%20%3Fy%20"):
            get, head = (
                service.converse(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                for method in ("GET", "HEAD")
            )
            assert head.endswith(b"\r\n\r\n")
            assert get.partition(b"\r\n\r\n")[0] == head.partition(b"\r\n\r\n")[0]
        assert service.converse(b"HEAD /api/ask HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1 405 ")
