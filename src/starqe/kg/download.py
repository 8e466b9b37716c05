"""One file over HTTP: the rest only where a part is here, tried again when the connection breaks, bounded in size.

Beside the file stands a small note, ``NAME.from``, with the address, the server's ETag and the whole size. The two
survive whatever ends the process, and the next download goes on from there.
"""

import http.client
import json
import ssl
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
MAX_BYTES = 256 * 2**20
"""No file of a data set is larger: what goes on beyond it is something else."""
CHUNK = 2**16
PASSING = {408, 416, 425, 429}
"""Answers below 500 after which another attempt may go better."""


class _BrokenError(Exception):
    """This attempt failed, and another one may not."""


@dataclass(frozen=True)
class _Note:
    """Where the bytes of a file come from, and how many there are (None as long as the server does not say)."""

    url: str
    etag: str | None
    size: int | None


def check_address(url: str) -> None:
    """Checks that an address is one of the web.

    Raises:
        InputError: It is not.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InputError(f"data sets come from an address such as https://example.org/data, or from a folder, found '{url}'")


def download(url: str, file: Path, advance: Callable[[int], None], say: Callable[[str], None]) -> None:
    """Brings a file here, and leaves what has arrived where it breaks off.

    Args:
        url: The address; http or https.
        file: Where to; what an earlier download of the same address left there is completed.
        advance: Told again and again how many more bytes of the file are here; fewer, if it starts anew.
        say: Told in words when an attempt fails and another one follows.

    Raises:
        InputError: The address is not one of the web.
        StorageError: The server does not have the file, or it is too large, or every attempt failed.
        OSError: The disk refuses.
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
    """Removes what a download left, so that the next one starts anew."""
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
            if not size:  # only now is nothing left of another version
                etag = answer.headers.get("ETag") or ""
                _write_note(file, _Note(url, etag if etag.startswith('"') else None, whole))  # a weak one does not vouch for bytes
            while data := _read(answer):
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
    """Gives how many of the bytes that are here the answer goes on from: all, or none."""
    if answer.status == 200:
        return 0  # the file has changed, or the server knows no ranges
    said = answer.headers.get("Content-Range", "")
    other = note.size is not None and said.rpartition("/")[2] not in (str(note.size), "*")
    if answer.status != 206 or not said.startswith(f"bytes {size}-") or other:
        forget(file)
        raise _BrokenError(f"the server was asked for the bytes from {size:,} on, and answers {answer.status} with '{said}'")
    return size


def _earlier(url: str, file: Path) -> tuple[int, _Note]:
    """Gives how many bytes of this address are here, and their note."""
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
    return StorageError(f"{url}: a file of a data set has at most {MAX_BYTES >> 20} MiB, and this one goes on beyond")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirect to the same scheme, or to https; urllib itself lets through ftp, and http after https."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: http.client.HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        if urllib.parse.urlsplit(newurl).scheme not in (req.type, "https"):
            fp.close()
            raise StorageError(f"{req.full_url}: a redirect leads to the same scheme or to https, found {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open(url: str, headers: dict[str, str], file: Path) -> http.client.HTTPResponse:
    opener = urllib.request.OpenerDirector()  # not build_opener: that one also opens file: and ftp:
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
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
            forget(file)  # there is more here than there
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
    """Says what broke in the words of the operating system, which name no class of Python."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
