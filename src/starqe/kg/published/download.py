"""Downloads one file over HTTP: resumes partial downloads, retries broken or slow connections, and limits the size.

Libraries such as pooch check and cache downloads, but cannot resume one, retry, or give up on a slow server.

Next to the file is a small note, ``NAME.from``, with the address, the server's ETag and the full size. Both
survive a crash, and the next download continues from there.
"""

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from starqe import __version__
from starqe.errors import InputError, StorageError

ATTEMPTS = 5
PAUSE = 0.5
"""Seconds before the second attempt; doubled before each further one."""
TIMEOUT = 30.0
"""Seconds of silence after which a connection counts as broken."""
SLOWEST = 1024
"""Minimum bytes per second, averaged over a timeout; a slower connection counts as broken."""
MAX_BYTES = 256 * 2**20
"""Maximum size of a file of a data set."""
CHUNK = 2**16
PASSING = {408, 416, 425, 429}
"""Status codes below 500 that are worth a retry."""


class _BrokenError(Exception):
    """This attempt failed; a retry may succeed."""


class _Pace:
    """Measures how fast bytes arrive per timeout: a check for silence alone would accept one byte per second."""

    def __init__(self) -> None:
        self._since, self._bytes = time.monotonic(), 0

    def check(self, count: int) -> None:
        """Counts bytes.

        Raises:
            _BrokenError: They arrive too slowly.
        """
        self._bytes += count
        seconds = time.monotonic() - self._since
        if seconds >= TIMEOUT:
            if self._bytes < SLOWEST * seconds:
                raise _BrokenError(f"the server sends less than {SLOWEST:,} bytes per second")
            self._since, self._bytes = time.monotonic(), 0


@dataclass(frozen=True)
class _Note:
    """Where the bytes of a file come from, and how many there are (None until the server says)."""

    url: str
    etag: str | None
    size: int | None


def check_address(url: str) -> None:
    """Checks that an address is http or https.

    Raises:
        InputError: It is not.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InputError(f"data sets come from an address such as https://example.org/data, or from a folder, found '{url}'")


def download(url: str, file: Path, advance: Callable[[int], None], say: Callable[[str], None]) -> None:
    """Downloads a file; an interrupted download keeps what has arrived.

    Args:
        url: The address; http or https.
        file: The destination; a partial download of the same address is completed.
        advance: Called with the number of bytes that arrived since the last call; negative if the download restarts.
        say: Called with a message when an attempt fails and is retried.

    Raises:
        InputError: The address is not http or https.
        StorageError: The server does not have the file, or it is too large, or every attempt failed.
        OSError: The file cannot be written.
    """
    check_address(url)
    shown = 0

    def reached(size: int) -> None:
        nonlocal shown
        advance(size - shown)
        shown = size

    for attempt in range(1, ATTEMPTS + 1):
        try:
            _attempt(url, file, reached)
            return
        except _BrokenError as broken:
            if attempt == ATTEMPTS:
                raise StorageError(f"{url}: {broken} (tried {ATTEMPTS} times)") from None
            pause = PAUSE * 2 ** (attempt - 1)
            say(f"{url}: {broken}; trying again in {pause:g} s ({attempt + 1} of {ATTEMPTS})")
        time.sleep(pause)


def forget(file: Path) -> None:
    """Removes a partial download, so that the next one starts from the beginning."""
    file.unlink(missing_ok=True)
    _note_of(file).unlink(missing_ok=True)


def _attempt(url: str, file: Path, reached: Callable[[int], None]) -> None:
    size, note = _earlier(url, file)
    reached(size)
    if size and size == note.size:
        return
    headers = {"User-Agent": f"starqe/{__version__}", "Accept-Encoding": "identity"}
    if size and note.etag:
        headers |= {"Range": f"bytes={size}-", "If-Range": note.etag}
    with _open(url, headers, file) as answer:
        size = _begin(answer, size, note, file)
        reached(size)
        whole = None if answer.length is None else size + answer.length
        if (whole or 0) > MAX_BYTES:
            raise _too_large(url)
        with file.open("ab" if size else "wb") as out:
            if not size:  # only now is nothing of another version left
                etag = answer.headers.get("ETag") or ""
                _write_note(file, _Note(url, etag if etag.startswith('"') else None, whole))  # a weak ETag does not guarantee equal bytes
            pace = _Pace()
            while data := _read(answer):
                pace.check(len(data))
                out.write(data)
                out.flush()
                size += len(data)
                reached(size)
                if size > MAX_BYTES:
                    raise _too_large(url)
    if whole is not None and size != whole:
        raise _BrokenError(f"the connection broke after {size:,} of {whole:,} bytes")
    _write_note(file, _Note(url, None, size))


def _begin(answer: http.client.HTTPResponse, size: int, note: _Note, file: Path) -> int:
    """Returns how many of the existing bytes the response continues from: all, or none."""
    if answer.status == 200:
        return 0  # the file has changed, or the server does not support ranges
    content_range = answer.headers.get("Content-Range", "")
    other = note.size is not None and content_range.rpartition("/")[2] not in (str(note.size), "*")
    if answer.status != 206 or not content_range.startswith(f"bytes {size}-") or other:
        forget(file)
        raise _BrokenError(f"the bytes from {size:,} on were requested, and the server answers {answer.status} with '{content_range}'")
    return size


def _earlier(url: str, file: Path) -> tuple[int, _Note]:
    """Returns how many bytes of this address exist locally, and their note."""
    try:
        note = _Note(**json.loads(_note_of(file).read_text(encoding="utf-8")))
        return (file.stat().st_size, note) if note.url == url else (0, note)
    except (OSError, ValueError, TypeError):
        return 0, _Note(url, None, None)


def _note_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.from")


def _write_note(file: Path, note: _Note) -> None:
    _note_of(file).write_text(json.dumps(asdict(note)), encoding="utf-8")


def _too_large(url: str) -> StorageError:
    return StorageError(f"{url}: a file of a data set has at most {MAX_BYTES >> 20} MiB, and this one is larger")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirect to the same scheme, or to https; urllib itself also follows redirects to ftp, and from https to http."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        if urllib.parse.urlsplit(newurl).scheme not in (req.type, "https"):
            fp.close()
            raise StorageError(f"{req.full_url}: a redirect leads to the same scheme or to https, found {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Headers(http.client.HTTPConnection):
    """A connection that gives up if the headers of a response are not complete in time: a socket's timeout counts silence only."""

    def getresponse(self) -> http.client.HTTPResponse:
        late = threading.Event()

        def give_up() -> None:
            late.set()
            with contextlib.suppress(OSError, AttributeError):  # it is closed already
                self.sock.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(TIMEOUT, give_up)
        timer.daemon = True
        timer.start()
        try:
            response = super().getresponse()
        except (OSError, http.client.HTTPException):
            if not late.is_set():
                raise
        finally:
            timer.cancel()
        if late.is_set():
            raise TimeoutError(f"the headers take longer than {TIMEOUT:g} seconds")
        return response


class _SecureHeaders(_Headers, http.client.HTTPSConnection):
    """The same over TLS."""


class _Http(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Headers, req)


class _Https(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_SecureHeaders, req, context=ssl.create_default_context())


def _open(url: str, headers: dict[str, str], file: Path) -> http.client.HTTPResponse:
    opener = urllib.request.OpenerDirector()  # not build_opener, which also opens file: and ftp:
    for handler in (
        urllib.request.ProxyHandler,
        _Http,
        _Https,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.UnknownHandler,
        _Redirects,
    ):
        opener.add_handler(handler())
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the scheme has been checked
    try:
        answer: http.client.HTTPResponse = opener.open(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:
            forget(file)  # there are more bytes than the server has
        if error.code in PASSING or error.code >= 500:
            raise _BrokenError(f"the server answers {error.code} {error.reason}") from None
        raise StorageError(f"{url}: the server answers {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise StorageError(f"{url}: the server's certificate is not valid ({reason.verify_message})") from None
        raise _BrokenError(_text(reason)) from None
    return answer


def _read(answer: http.client.HTTPResponse) -> bytes:
    try:
        return answer.read1(CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenError(_text(error)) from None


def _text(error: object) -> str:
    """Describes an error in the operating system's words, without the name of a Python class."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
