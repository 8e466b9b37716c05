"""A web server for tests of downloads: it knows ranges, and breaks off, refuses or redirects on demand."""

import contextlib
import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class FileServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        """Path -> content."""
        self.plan: list[tuple[str, Any]] = []
        """What to do with the next requests, instead of a plain answer: see `_Handler.do_GET`."""
        self.ranges = True
        self.etag = '"{}"'
        self.length = True
        self.sent: list[tuple[str, str | None, int]] = []
        """For every answer with content: the path, the range that was asked for, and how many bytes were sent."""
        self.stalled, self.go_on = threading.Event(), threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: FileServer

    def log_message(self, *arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        what, value = self.server.plan.pop(0) if self.server.plan else ("serve", None)
        if what == "status":
            self.send_error(value)
        elif what == "redirect":
            self.send_response(302)
            self.send_header("Location", value)
            self.end_headers()
        elif what == "drip headers":
            self._drip(b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 10_000, value)
        elif self.path not in self.server.files:
            self.send_error(404)
        else:
            self._serve(what, value)

    def _serve(self, what: str, value: Any) -> None:
        content = self.server.files[self.path]
        etag = self.server.etag.format(hashlib.md5(content).hexdigest())
        asked = self.headers["Range"]
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.headers["If-Range"] == etag else 0
        if start and self.server.ranges:
            if start >= len(content):
                return self.send_error(416)
            self.send_response(206)
            self.send_header("Content-Range", value if what == "range" else f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            start = 0
            self.send_response(200)
        if self.server.etag:
            self.send_header("ETag", etag)
        if self.server.length:
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        body = content[start:]
        if what == "drip":
            return self._drip(body, value)
        body = body[:value] if what in ("break", "stall") else body
        self.server.sent.append((self.path.rpartition("/")[2], asked, len(body)))  # before: whoever has the bytes may look here
        self.wfile.write(body)
        self.wfile.flush()
        if what == "stall":
            self.server.stalled.set()
            self.server.go_on.wait(60)
        return None

    def _drip(self, body: bytes, seconds: float) -> None:
        """Sends one byte per interval until the other side hangs up."""
        with contextlib.suppress(OSError):
            for byte in body:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                if self.server.go_on.wait(seconds):
                    return


@contextmanager
def running() -> Iterator[FileServer]:
    server = FileServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join()
