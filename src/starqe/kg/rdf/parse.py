"""Parses RDF text to quads: errors name their line, and blank nodes with and without a label are distinguished."""

import codecs
import contextlib
import io
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from pyoxigraph import Quad, RdfFormat, parse, serialize

from starqe.errors import InputError
from starqe.kg.rdf.nesting import MAX_DEPTH, MAX_TERM, NestingGuard, check_lines
from starqe.kg.rdf.rdf_star import QUOTED, join_reifiers, parse_star_lines
from starqe.kg.reading.files import count_lines
from starqe.kg.reading.report import Report

BLOCK = 2**16
"""Number of bytes read at a time."""
BULK = 2**24
"""Number of bytes read at a time where lines are read in bulk."""
FEW = 1000
"""Number of quads that become lines at a time: with long prefixes, lines are much longer than their document."""

_PARSER_PLACE = re.compile(r"^Parser error at line \d+ (?:column \d+|between columns \d+ and \d+): |^Parser error[^:]*: ")
_TOO_LONG = f"a term has at most {MAX_TERM >> 20} MiB, found a longer one at this line or soon after"
_GENERATED_LABEL = re.compile(r"[a-f][0-9a-f]{15,31}")


class ByteSource(Protocol):
    """A source of bytes: a file, or anything with the same `read`."""

    def read(self, size: int, /) -> bytes:
        """Returns up to ``size`` bytes, and an empty result at the end."""
        ...


def parse_rdf(
    stream: ByteSource, where: str, syntax: RdfFormat, report: Report, base: str | None = None, star: bool = False, line: int = 1
) -> tuple[Iterator[Quad], Callable[[str], bool]]:
    """Parses a document incrementally.

    Args:
        stream: Its bytes.
        where: Its name in errors.
        syntax: How it is written.
        report: Where problems of line-based formats go.
        base: What relative IRIs are resolved against; without it, a document has none, or declares a base.
        star: Whether quoted triples are those of RDF-star before RDF 1.2.
        line: The number of its first line, except in line-based formats.

    Returns:
        The quads, and a function that returns whether the parser generated the blank node label of the last quad.

    Raises:
        InputError: While the quads are consumed: the document is malformed (in line-based formats: unless the report skips errors).
    """
    if syntax in (RdfFormat.N_TRIPLES, RdfFormat.N_QUADS):
        return _quads_of_lines(stream, where, syntax, report, star), _never
    source = _Source(stream, NestingGuard(where, syntax, line))
    quads = _quads_of_document(source, where, syntax, base)
    return join_reifiers(quads, source.generated) if star else quads, source.generated


def _quads_of_lines(stream: ByteSource, where: str, syntax: RdfFormat, report: Report, star: bool) -> Iterator[Quad]:
    for block, first, _ in whole_lines(stream):
        yield from parse_lines(block, itertools.count(first), where, syntax, report, star)


def parse_lines(block: bytes, numbers: Iterable[int], where: str, syntax: RdfFormat, report: Report, star: bool = False) -> Iterator[Quad]:
    """Parses whole lines; if there is an error in them, one by one, so that only the bad line is lost.

    Args:
        block: The lines.
        numbers: Their numbers in the document.
        where: Its name in errors.
        syntax: N-Triples or N-Quads.
        report: Where problems go.
        star: Whether lines of RDF-star, from before RDF 1.2, are read too.

    Raises:
        InputError: A line is malformed (unless the report skips errors).
    """
    parsed = parse_star_lines if star and QUOTED.search(block) else _parse
    if block.count(b"<<") > MAX_DEPTH:
        numbers = list(itertools.islice(numbers, block.count(b"\n") + 1))  # they are needed again where a line is malformed
        check_lines(zip(numbers, block.split(b"\n"), strict=False), where)
    try:
        quads = list(parsed(block, syntax))
    except (SyntaxError, MemoryError):
        for number, line in zip(numbers, block.split(b"\n"), strict=False):
            if not line.strip():
                continue
            try:
                quads = list(parsed(line, syntax))
            except MemoryError:
                report.problem(f"{where}:{number}: {_TOO_LONG}")
            except SyntaxError as error:
                report.problem(f"{where}:{number}: {_reason(error)}")
            else:
                yield from quads
    else:
        yield from quads


def _parse(block: bytes, syntax: RdfFormat) -> Iterator[Quad]:
    return parse(block, format=syntax)


def lines_of_document(
    stream: ByteSource, where: str, syntax: RdfFormat, star: bool, line: int = 1
) -> tuple[Iterator[bytes], Callable[[str], bool]]:
    """Parses a document to blocks of N-Triples, without a step in Python for every triple; otherwise the same as `parse_rdf`.

    Raises:
        InputError: While the blocks are consumed: the document is malformed.
    """
    source = _Source(stream, NestingGuard(where, syntax, line))

    def lines_in_blocks() -> Iterator[bytes]:
        with _named_errors(source, where, syntax):
            quads: Iterator[Quad] = parse(source.buffered(), format=syntax)
            quads = join_reifiers(quads, source.generated) if star else quads
            lines = bytearray()
            while text := serialize(itertools.islice(quads, FEW), format=RdfFormat.N_QUADS):
                lines += text
                if len(lines) > BULK:
                    yield bytes(lines)
                    lines.clear()
            if lines:
                yield bytes(lines)

    return lines_in_blocks(), source.generated


def _quads_of_document(source: "_Source", where: str, syntax: RdfFormat, base: str | None) -> Iterator[Quad]:
    with _named_errors(source, where, syntax):
        yield from parse(source.buffered(), format=syntax, base_iri=base)


@contextlib.contextmanager
def _named_errors(source: "_Source", where: str, syntax: RdfFormat) -> Iterator[None]:
    """Turns the errors of the parser into those of an import, with their place."""
    try:
        yield
    except SyntaxError as error:
        place = f"{where}:{source.first_line + error.lineno - 1}" if error.lineno else where
        end = f"{syntax.name} cannot be read past an error, so this one cannot be skipped: correct it"
        raise InputError(f"{place}: {_reason(error)}. {end}") from None
    except MemoryError:
        raise InputError(f"{where}:{source.guard.line}: {_TOO_LONG}") from None


def _never(_label: str) -> bool:
    """Always returns False: line-based formats have no generated labels."""
    return False


def _reason(error: SyntaxError) -> str:
    return _PARSER_PLACE.sub("", error.msg)


class _Source(io.RawIOBase):
    """Passes a stream to the parser, and distinguishes written blank node labels from those that the parser generates.

    The parser names a node without a label by a random number in hexadecimal digits, at most 32 of them. So a label
    that looks like one is generated unless it occurs in the text; shorter ones are written, except with probability 2^-64.
    """

    OVERLAP = 40
    _LABEL = re.compile(rb"_:(" + _GENERATED_LABEL.pattern.encode() + rb")")

    def __init__(self, stream: ByteSource, guard: NestingGuard) -> None:
        self._blocks = blocks(stream)
        self.guard, self.first_line = guard, guard.line
        self._block, self._position = b"", 0
        self._written: set[str] = set()

    def buffered(self) -> io.BufferedReader:
        """Returns a reader of it for the parser, which reads a few bytes at a time."""
        return io.BufferedReader(self, BLOCK)

    def readable(self) -> bool:
        """Returns True."""
        return True

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]
        """Reads into a buffer."""
        if self._position >= len(self._block):
            tail = self._block[-self.OVERLAP :]
            self._block, self._position = next(self._blocks, b""), 0
            self.guard.feed(self._block)
            self._written.update(label.decode() for label in self._LABEL.findall(tail + self._block))
        piece = self._block[self._position : self._position + len(buffer)]
        buffer[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)

    def generated(self, label: str) -> bool:
        """Returns whether the parser generated this label."""
        return label not in self._written and _GENERATED_LABEL.fullmatch(label) is not None


class Joined:
    """A text, and the rest of a stream after it."""

    def __init__(self, text: bytes, stream: ByteSource) -> None:
        self._text, self._stream = io.BytesIO(text), stream

    def read(self, size: int, /) -> bytes:
        """Returns up to ``size`` bytes."""
        return self._text.read(size) or self._stream.read(size)


def blocks(stream: ByteSource, size: int = BLOCK) -> Iterator[bytes]:
    """Yields the content of a stream in blocks, without a byte order mark."""
    first = True
    while block := stream.read(size):
        yield block.removeprefix(codecs.BOM_UTF8) if first else block
        first = False


def whole_lines(stream: ByteSource, size: int = BLOCK) -> Iterator[tuple[bytes, int, int]]:
    """Yields the content of a stream in blocks of whole lines, each with the number of its first line, and of its line ends."""
    rest: list[bytes] = []
    line = 1
    for block in blocks(stream, size):
        cut = block.rfind(b"\n") + 1
        if cut:
            lines = b"".join((*rest, memoryview(block)[:cut]))
            count = count_lines(lines)
            yield lines, line, count
            line += count
            rest = []
        rest.append(block[cut:])
    if any(rest):
        yield b"".join(rest), line, 0
