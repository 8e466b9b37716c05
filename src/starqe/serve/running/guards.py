"""Middleware before the routes: access, limits on requests, and the headers of every response."""

import asyncio
import hmac
import time
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from starqe.serve.problems import BusyError, ClientGoneError, HttpError, failure
from starqe.serve.running.monitoring import Metrics
from starqe.serve.service import log
from starqe.serve.settings import ServeSettings

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""The headers of every response that does not set them itself."""
WATCHING = ("/health", "/metrics")
"""Paths that are answered under any load."""


class HttpMiddleware:
    """Middleware for HTTP requests; other messages, such as those of the lifespan, are passed on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles a request, or passes another message on."""
        await (self.handle if scope["type"] == "http" else self._app)(scope, receive, send)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on."""
        await self._app(scope, receive, send)


class Watch(HttpMiddleware):
    """Counts, times and logs every request, adds headers to every response, and handles HEAD and unexpected exceptions.

    HEAD is answered like GET, without the body. The log has the route, never the address, which may contain a query.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        super().__init__(app)
        self._metrics = metrics

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on."""
        began, status, head = time.perf_counter(), 0, scope["method"] == "HEAD"
        inner = {**scope, "method": "GET"} if head else scope

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send({**message, "body": b""} if head and message["type"] == "http.response.body" else message)

        try:
            await self._app(inner, receive, sending)
        except ClientGoneError:
            status = 499
        except Exception:
            id_, response = failure()
            log.exception("error %s", id_)
            if status:
                raise
            await response(scope, receive, sending)
        finally:
            seconds = time.perf_counter() - began
            route = getattr(inner.get("route"), "path", "other")
            self._metrics.add_request(route, status, seconds)
            log.info("%s %s %d %.1f ms", scope["method"], route, status, 1000 * seconds)


class Hosts(HttpMiddleware):
    """Refuses requests for other host names: a web site could point its own name to this service (DNS rebinding)."""

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...]) -> None:
        super().__init__(app)
        self._hosts = {host.lower().strip("[]") for host in hosts}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or refuses it."""
        if "*" not in self._hosts and not self._allows(Headers(scope=scope).getlist("host")):
            problem = HttpError(400, "the Host header is not a name of this service. Its owner can allow more names", "UnknownHost")
            await problem.response()(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _allows(self, found: list[str]) -> bool:
        try:
            return len(found) == 1 and urlsplit(f"//{found[0]}").hostname in self._hosts
        except ValueError:
            return False


class Token(HttpMiddleware):
    """Refuses requests without ``Authorization: Bearer TOKEN``, except for open paths, which reveal nothing about the graph."""

    def __init__(self, app: ASGIApp, token: str, open_paths: Collection[str]) -> None:
        super().__init__(app)
        self._token, self._open = token.encode(), open_paths

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or refuses it."""
        if scope["path"] not in self._open and not self._allows(Headers(scope=scope).get("authorization", "")):
            headers = {"WWW-Authenticate": 'Bearer realm="starqe"'}
            problem = HttpError(401, "a token is needed here. Send it as Authorization: Bearer TOKEN", "TokenNeeded", headers)
            await problem.response()(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _allows(self, authorization: str) -> bool:
        scheme, _, credentials = authorization.partition(" ")
        # The framework decodes headers as Latin-1. The comparison takes constant time.
        return scheme.lower() == "bearer" and hmac.compare_digest(credentials.strip().encode("latin-1"), self._token)


class Crowd(HttpMiddleware):
    """Refuses requests while too many others are being handled."""

    def __init__(self, app: ASGIApp, settings: ServeSettings) -> None:
        super().__init__(app)
        self._settings, self._inside = settings, 0

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or refuses it."""
        if scope["path"] in WATCHING:
            await self._app(scope, receive, send)
            return
        if self._inside >= self._settings.requests:
            busy = BusyError(f"{self._inside} requests are being handled already. Try again later", self._settings.retry_seconds)
            await busy.response()(scope, receive, send)
            return
        self._inside += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._inside -= 1


class Bodies(HttpMiddleware):
    """Reads the whole body before a route sees the request, within limits of size and time."""

    def __init__(self, app: ASGIApp, settings: ServeSettings) -> None:
        super().__init__(app)
        self._settings = settings

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or refuses it."""
        try:
            body = await self._read(Headers(scope=scope).get("content-length", ""), receive)
        except HttpError as problem:
            await problem.response()(scope, receive, send)
            return
        waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receiving() -> Message:
            return waiting.pop() if waiting else await receive()

        await self._app(scope, receiving, send)

    async def _read(self, length: str, receive: Receive) -> bytes:
        most, seconds = self._settings.body_bytes, self._settings.read_seconds
        # The connection is closed, or the rest of the body would be read as the next request.
        closing = {"Connection": "close"}
        too_long = HttpError(413, f"a body has at most {most:,} bytes here, found more", "BodyTooLong", closing)
        if length.isdigit() and int(length[:20]) > most:
            raise too_long
        parts, size = [], 0
        try:
            async with asyncio.timeout(seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGoneError
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most:
                        raise too_long
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise HttpError(408, f"a body is sent within {seconds:g} seconds, and this one was not", "BodyTooSlow", closing) from None
