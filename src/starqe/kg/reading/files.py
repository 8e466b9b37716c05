"""Reads bytes from files that may be compressed, endless or broken, in bounded memory."""

import bz2
import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa

from starqe.errors import InputError

STDIN = Path("-")
"""Standard input, where a file is expected."""
CHUNK = 8 * 2**20
FREE_EXPANSION = 16 * 2**20
"""A compressed file may expand to this size in any case."""
MAX_EXPANSION = 50
"""Beyond that, what was read of it may have expanded by this factor: statements compress 5 to 20 times; a thousand times is a bomb."""

_BROKEN = (EOFError, OSError, zlib.error)


class GuardedReader(io.RawIOBase):
    """A stream of bytes that limits line length and expansion, and reports where a file is damaged."""

    def __init__(self, stream: BinaryIO, path: Path, max_line: int, compressed: "_Counted | None" = None) -> None:
        self._stream, self._path, self._max_line, self._compressed = stream, path, max_line, compressed
        self._bytes = self._line_bytes = 0
        self.line = 1
        """The number of the current line."""

    def readable(self) -> bool:
        """Returns True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Reads up to a chunk.

        Raises:
            InputError: The file is damaged, expands too much, or has too long a line.
        """
        try:
            data = self._stream.read(CHUNK if size is None or size < 0 else min(size, CHUNK))
        except _BROKEN as error:
            raise InputError(f"{self._path}:{self.line}: the file is truncated or damaged at this line or soon after ({error})") from None
        self._bytes += len(data)
        if self._compressed is not None and self._bytes > max(FREE_EXPANSION, MAX_EXPANSION * self._compressed.count):
            raise InputError(
                f"{self._path}: a compressed file may expand {MAX_EXPANSION} times (or to {FREE_EXPANSION >> 20} MiB), "
                f"and the first {self._compressed.count:,} bytes of this one make {self._bytes:,}. Decompress it yourself if you trust it"
            )
        self._check_lines(data)
        return data

    def _check_lines(self, data: bytes) -> None:
        """Searches for a line end in every block of the maximum line length: few searches, whatever the number of lines."""
        start = 0
        while len(data) - start + self._line_bytes > self._max_line:
            end = data.rfind(b"\n", start, start + max(self._max_line - self._line_bytes, 0) + 1) + 1
            if not end:
                line = self.line + data.count(b"\n", 0, start)
                raise InputError(f"{self._path}:{line}: a line has at most {self._max_line >> 20} MiB. Is this file in another format?")
            start, self._line_bytes = end, 0
        last = data.rfind(b"\n", start)
        self._line_bytes = self._line_bytes + len(data) - start if last < 0 else len(data) - last - 1
        self.line += count_lines(data)

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]
        """Reads into a buffer, by the same rules as `read`."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Closes the underlying file."""
        self._stream.close()
        if self._compressed is not None:
            self._compressed.close()
        super().close()


class _Counted(io.RawIOBase):
    """A compressed file, and how many of its bytes have been read."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self.count = stream, 0

    def readable(self) -> bool:
        """Returns True."""
        return True

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]
        """Reads into a buffer."""
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        self.count += len(data)
        return len(data)

    def close(self) -> None:
        """Closes the file."""
        self._stream.close()
        super().close()


def _gzip(stream: _Counted) -> BinaryIO:
    return cast("BinaryIO", gzip.GzipFile(fileobj=stream))


def _bzip2(stream: _Counted) -> BinaryIO:
    return cast("BinaryIO", bz2.BZ2File(cast("BinaryIO", stream)))


def _zstandard(stream: _Counted) -> BinaryIO:
    return cast("BinaryIO", pa.CompressedInputStream(stream, "zstd"))  # unlike others, it detects a truncated frame


OPENERS = {".gz": _gzip, ".bz2": _bzip2, ".zst": _zstandard}
"""Extension -> how a compressed file is read."""
BEGINS = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\x28\xb5\x2f\xfd": ".zst"}
"""The first bytes of a compressed file -> its usual extension."""


def open_guarded(path: Path, max_line: int) -> GuardedReader:
    """Opens a file for reading; a compressed file, detected by its first bytes or its extension, is decompressed.

    Raises:
        InputError: The file cannot be opened.
    """
    try:
        stream = cast("io.BufferedReader", sys.stdin.buffer) if path == STDIN else path.open("rb")
        begin = stream.peek(4)
        extension = next((extension for mark, extension in BEGINS.items() if begin.startswith(mark)), path.suffix.lower())
        if extension not in OPENERS:
            return GuardedReader(stream, path, max_line)
        counted = _Counted(stream)
        return GuardedReader(OPENERS[extension](counted), path, max_line, counted)
    except OSError as error:
        raise InputError(f"{path}: cannot be opened ({error.strerror})") from None


def count_lines(data: bytes) -> int:
    """Counts line ends; where lines are short, twice as fast as `bytes.count`."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord("\n")))


def whole_lines(stream: GuardedReader) -> Iterator[bytes]:
    """Yields the content in large blocks that end at line ends."""
    rest = b""
    while data := stream.read():
        cut = data.rfind(b"\n") + 1
        if cut:
            yield rest + data[:cut]
            rest = data[cut:]
        else:
            rest += data
    if rest:
        yield rest
