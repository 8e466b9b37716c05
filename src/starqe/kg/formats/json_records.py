"""Records in JSON: one per line, in sequence, or as an array; also arrays with one record per line.

Files with one record per line (the dumps of Wikidata are arrays of this kind) are read at the speed of orjson. All others
are parsed value by value, which is slower. Either way, only a part of the file and one record are in memory.
"""

import codecs
import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from starqe.errors import InputError
from starqe.kg.reading.files import GuardedReader, open_guarded, whole_lines
from starqe.kg.reading.report import Report

MAX_RECORD = 256 * 2**20
SHOWN = 60
"""The number of characters of a malformed record that an error quotes."""
_BETWEEN = re.compile(r"[\s,\[\]]*")
_LINE_END = re.compile(rb"[\s,]*$")


class Record(NamedTuple):
    """A record, and where it begins in the decompressed file."""

    value: Any
    line: int
    offset: int

    def place(self, path: Path) -> str:
        """Names the place for a message."""
        return place(path, self.line, self.offset)


def place(path: Path, line: int, offset: int) -> str:
    """Names a place in a file for a message."""
    return f"{path}:{line} (byte {offset:,})"


def json_records(path: Path, report: Report) -> Iterator[Record]:
    """Reads the records of a file.

    Raises:
        InputError: A record is not JSON, or an array is not closed (both unless the report says to skip), or the file cannot be read.
    """
    with contextlib.closing(open_guarded(path, MAX_RECORD)) as stream:
        first = stream.read()
        if _has_lines(first):
            yield from _from_lines(_blocks(first, stream), path, report)
        else:
            yield from _from_text(first, stream, path, report)


def _has_lines(first: bytes) -> bool:
    """Returns whether each record is on its own line, judged by the first one."""
    lines = (line.strip() for line in first[:1_000_000].removeprefix(codecs.BOM_UTF8).split(b"\n"))
    opening = next((line for line in lines if line not in (b"", b"[")), b"")
    whole = opening.rstrip(b",").endswith((b"}", b"]")) or b"\n" not in first[:1_000_000]
    return opening.startswith(b"{") and opening != b"{" and (whole or _is_object_start(opening))


def _is_object_start(line: bytes) -> bool:
    """Returns whether a line holds more than the first key of an object, so that it is a damaged record rather than one over many lines."""
    return len(line) > 200


def _blocks(first: bytes, stream: GuardedReader) -> Iterator[bytes]:
    """Yields the file in large blocks that end at line ends, starting with what was read already."""
    cut = first.rfind(b"\n") + 1
    rest = first[cut:]
    if cut:
        yield first[:cut]
    for block in whole_lines(stream):
        yield rest + block
        rest = b""
    if rest:
        yield rest


def _from_lines(blocks: Iterator[bytes], path: Path, report: Report) -> Iterator[Record]:
    number = offset = 0
    opened = closed = False
    loads = orjson.loads
    for block in blocks:
        for line in block.removesuffix(b"\n").split(b"\n"):
            number += 1
            if not line or line.isspace():  # an error of orjson for each of many would take long
                offset += len(line) + 1
                continue
            try:
                record = loads(line[:-1] if line.endswith(b",") else line)
            except orjson.JSONDecodeError as error:
                text = _LINE_END.sub(b"", line.removeprefix(codecs.BOM_UTF8).lstrip())
                if text == b"[" and opened and not closed:
                    report.problem(f"{place(path, number, offset)}: an array of records has no array in it, found another '['")
                elif text in (b"[", b"]"):
                    opened, closed = opened or text == b"[", text == b"]"
                elif text:
                    try:  # spaces at the end, or after the comma
                        yield Record(loads(text), number, offset)
                    except orjson.JSONDecodeError:
                        report.problem(f"{place(path, number, offset)}: a record is an object in JSON, found {_shown(text)} ({error})")
            else:
                yield Record(record, number, offset)
            offset += len(line) + 1
    if opened and not closed:
        report.problem(f"{place(path, number, offset)}: an array ends with ']', found the end of the file. Was the file cut off?")


def _from_text(first: bytes, stream: GuardedReader, path: Path, report: Report) -> Iterator[Record]:
    """Parses values from a text in any layout; an array around them is opened, but not kept."""
    decode = codecs.getincrementaldecoder("utf-8-sig")().decode
    decoder = json.JSONDecoder()
    line, offset, position, depth = 1, 0, 0, 0
    try:
        text = decode(first)
        while True:
            end = _BETWEEN.match(text, position).end()  # type: ignore[union-attr]
            skipped = text[position:end]
            depth += skipped.count("[") - skipped.count("]")
            line, offset, position = line + skipped.count("\n"), offset + len(skipped), end  # only ASCII was skipped
            try:
                value, end = decoder.raw_decode(text, position)
            except json.JSONDecodeError as error:
                more = stream.read()
                if more and len(text) - position <= MAX_RECORD:
                    text, position = text[position:] + decode(more), 0
                    continue
                _explain_the_end(text, position, error, depth, place(path, line, offset), report)
                return
            yield Record(value, line, offset)
            taken = text[position:end]
            line, offset, position = line + taken.count("\n"), offset + len(taken.encode()), end
    except UnicodeDecodeError as error:
        raise InputError(f"{path}:{line}: text is UTF-8, found the byte 0x{error.object[error.start]:02x}. Convert the file") from None


def _explain_the_end(text: str, position: int, error: json.JSONDecodeError, depth: int, where: str, report: Report) -> None:
    """Reports what follows the last value that could be read, unless it is the end of the file."""
    if position == len(text):
        if depth > 0:
            report.problem(f"{where}: an array ends with ']', found the end of the file. Was the file cut off?")
    elif len(text) - position > MAX_RECORD:
        raise InputError(f"{where}: a record has at most {MAX_RECORD >> 20} MiB, found more. Is this file in another format?")
    else:
        shown = _shown(text[position : position + 4 * SHOWN].encode())
        report.problem(f"{where}: a record is JSON, found {shown} ({error}). Nothing after it can be read")


def _shown(text: bytes) -> str:
    shown = text[: 4 * SHOWN].decode(errors="replace")
    return repr(shown if len(shown) <= SHOWN else shown[: SHOWN - 1] + "…")
