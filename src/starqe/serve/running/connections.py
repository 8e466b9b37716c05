"""One connection of the service: strict HTTP, and time limits for sending and reading."""

import asyncio
from collections import deque
from typing import Any

import h11
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from starqe.serve.problems import BusyError, HttpError
from starqe.serve.running.guards import WATCHING
from starqe.serve.settings import ServeSettings

RESERVE = 16
"""Number of connections beyond the limit that still get a response: /health and /metrics are answered, everything else gets a 503."""
RESERVE_SECONDS = 1.0
"""Time for the headers on a connection of the reserve."""
LINGER_SECONDS = 1.0
"""How long input is still read and dropped after a refusal: closing at once would destroy the response on its way."""


class StrictConnection(h11.Connection):
    """HTTP/1.1 without ambiguous lengths and with bounded headers; `problem` is the error that ended it."""

    def __init__(self, header_bytes: int) -> None:
        super().__init__(h11.SERVER, header_bytes)
        self.problem: h11.RemoteProtocolError | None = None
        self._header_bytes = header_bytes

    def next_event(self) -> Any:
        """Returns the next event.

        Raises:
            h11.RemoteProtocolError: The client breaks the protocol, or its headers are too long.
        """
        try:
            event = super().next_event()
            if isinstance(event, h11.Request):
                self._check(event)
        except h11.RemoteProtocolError as error:
            self.problem = error
            raise
        return event

    def _check(self, request: h11.Request) -> None:
        # h11 counts only what is incomplete: headers that arrive in one piece pass its limit.
        size = len(request.method) + len(request.target) + sum(len(name) + len(value) + 4 for name, value in request.headers)
        if size > self._header_bytes:
            raise h11.RemoteProtocolError(f"headers have at most {self._header_bytes:,} bytes here, found {size:,}", 431)
        names = {name for name, _ in request.headers}
        # A proxy might take the other length, and the rest of the body for a request (RFC 9112, section 6.1).
        if b"transfer-encoding" in names and (b"content-length" in names or request.http_version < b"1.1"):
            raise h11.RemoteProtocolError("a body has one length, found Transfer-Encoding with Content-Length or with HTTP/1.0")


class Unsent:
    """The connections whose clients have not read their response, oldest first; their total size is bounded."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._connections: dict[Connection, None] = {}

    def add(self, connection: "Connection") -> None:
        """Adds a connection, and aborts the oldest ones while the total is too large."""
        self._connections[connection] = None
        sizes = {each: each.transport.get_write_buffer_size() for each in self._connections}
        total = sum(sizes.values())
        for each, size in sizes.items():
            if total <= self._most_bytes:
                break
            each.transport.abort()
            self.remove(each)
            total -= size

    def remove(self, connection: "Connection") -> None:
        """Removes a connection."""
        self._connections.pop(connection, None)


class Turns:
    """The connections whose next request was there before the last was answered, in the order in which they continue.

    One of them continues per cycle of the event loop. Hundreds of clients that send their requests all at once would fill every
    cycle otherwise, and a client that sends one request on a new connection, which takes several cycles, would wait for seconds.
    """

    def __init__(self) -> None:
        self._waiting: deque[Connection] = deque()

    def add(self, connection: "Connection") -> None:
        """Adds a connection, which continues when all before it have."""
        self._waiting.append(connection)
        if len(self._waiting) == 1:
            connection.loop.call_soon(self._next)

    def _next(self) -> None:
        connection = self._waiting.popleft()
        if self._waiting:
            connection.loop.call_soon(self._next)
        connection.take_turn()


class Connection(H11Protocol):
    """uvicorn's protocol with time limits for sending headers and for reading a response; at most one response is unsent.

    A request is done, for the rest of the service, when its response is handed to the transport: a client that does not read
    occupies its connection only. Its next request is not read before the last byte of the response has left, and the connection
    is aborted if that takes more than `write_seconds`. A request that was sent before then waits for its turn.
    """

    def __init__(self, settings: ServeSettings, unsent: Unsent, turns: Turns, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.conn: StrictConnection = StrictConnection(settings.header_bytes)
        self._settings, self._unsent, self._turns = settings, unsent, turns
        self._in_turn = False
        self._header_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._completed = self._refused = False
        self._header_seconds = settings.read_seconds

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the header timer; beyond the connection limit, closes an idle connection, uses the reserve, or closes this one."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # so that `pause_writing` means that something is unsent
        beyond = len(self._open()) - self._settings.connections
        if beyond > 0 and self._close_longest_idle():
            beyond -= 1
        if beyond > RESERVE:
            transport.abort()
            return
        if beyond > 0:
            self.app = _only_watching(self.app, self._settings)
            self._header_seconds = min(RESERVE_SECONDS, self._header_seconds)
        self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops all timers."""
        self._stop_waiting_for_headers()
        self._stop_waiting_for_reader()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Handles data from the client, unless it was refused."""
        if self._refused:
            return
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting_for_headers()
        elif self._header_timer is None:
            self._wait_for_headers()

    def pause_writing(self) -> None:
        """Starts the timer for reading the response; nothing more is read from the client until then."""
        self.flow.pause_reading()
        self._write_timer = self._write_timer or self.loop.call_later(self._settings.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Resumes: everything written so far has been sent."""
        self._stop_waiting_for_reader()
        if self._completed:
            self._completed = False
            self._end_request()
        else:
            self.flow.resume_reading()

    def on_response_complete(self) -> None:
        """Continues with the next request as soon as the response has been sent."""
        if self._write_timer is None:
            self._end_request()
        else:
            self._completed = True
            self._unsent.add(self)

    def handle_events(self) -> None:
        """Handles what was received, now or when it is this connection's turn."""
        if self._in_turn:
            self.flow.pause_reading()
            self._turns.add(self)
        else:
            super().handle_events()

    def take_turn(self) -> None:
        """Handles what was received before the last response was sent."""
        self._in_turn = False
        if not self.transport.is_closing():
            self.flow.resume_reading()
            self.handle_events()

    def send_400_response(self, msg: str) -> None:
        """Refuses a request that breaks the protocol, in the form of all errors, and ends the connection."""
        problem = self.conn.problem
        status = problem.error_status_hint if problem is not None else 400
        self._refused = True
        if self.cycle is not None and not self.cycle.response_complete:  # in the middle of a body: the client is gone
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        response = HttpError(status, str(problem or msg), "InvalidHttp", {"Connection": "close"}).response()
        events = (
            h11.Response(status_code=status, headers=response.raw_headers, reason=STATUS_PHRASES[status]),
            h11.Data(data=bytes(response.body)),
            h11.EndOfMessage(),
        )
        for event in events:
            self.transport.write(self.conn.send(event) or b"")
        self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def _end_request(self) -> None:
        self._in_turn = self.conn.trailing_data[0] != b""
        super().on_response_complete()

    def _open(self) -> list["Connection"]:
        return [each for each in self.connections if isinstance(each, Connection) and not each.transport.is_closing()]

    def _close_longest_idle(self) -> bool:
        """Closes the connection that has waited the longest for its next request; returns whether there was one."""
        ends = {each: timer.when() for each in self._open() if (timer := each.timeout_keep_alive_task) is not None}
        if ends:
            min(ends, key=ends.__getitem__).timeout_keep_alive_handler()
        return bool(ends)

    def _wait_for_headers(self) -> None:
        self._header_timer = self.loop.call_later(self._header_seconds, self.transport.abort)

    def _stop_waiting_for_headers(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _stop_waiting_for_reader(self) -> None:
        self._unsent.remove(self)
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None


def _only_watching(app: ASGIApp, settings: ServeSettings) -> ASGIApp:
    """Wraps an application for a connection of the reserve: one response, and a refusal except for /health and /metrics."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["Connection"] = "close"
            await send(message)

        busy = BusyError(f"{settings.connections} connections are open already. Try again later", settings.retry_seconds)
        await (app if scope["path"] in WATCHING else busy.response())(scope, receive, sending)

    return answer
