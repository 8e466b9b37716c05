"""RDF text becomes quads: errors get their line, and blank nodes without a label are told from those with one."""

import codecs
import re
from collections.abc import Callable, Iterator
from typing import Protocol

from pyoxigraph import Quad, RdfFormat, parse

from starqe.errors import InputError
from starqe.kg.report import Report

RDF_FORMATS = {
    "turtle": RdfFormat.TURTLE,
    "trig": RdfFormat.TRIG,
    "ntriples": RdfFormat.N_TRIPLES,
    "nquads": RdfFormat.N_QUADS,
    "reification": RdfFormat.N_QUADS,  # standard reification, which has no base triples
}
BLOCK = 2**16
"""How many bytes are read at a time."""

_PARSER_PLACE = re.compile(r"^Parser error at line \d+ (?:column \d+|between columns \d+ and \d+): |^Parser error[^:]*: ")
_INVENTED_LABEL = re.compile(r"[a-f][0-9a-f]{15,31}")


class ByteSource(Protocol):
    """What bytes are read from: a file, or anything that reads like one."""

    def read(self, size: int, /) -> bytes:
        """Gives up to ``size`` bytes, and none at the end."""
        ...


def parse_rdf(stream: ByteSource, where: str, format_: str, report: Report) -> tuple[Iterator[Quad], Callable[[str], bool]]:
    """Parses a document step by step.

    Returns:
        The quads, and a function that says of a blank node's label in the last of them whether the parser invented it.

    Raises:
        InputError: While the quads are drawn: the document is malformed (in a format of lines: unless the report says to skip).
    """
    rdf = RDF_FORMATS[format_]
    if rdf in (RdfFormat.N_TRIPLES, RdfFormat.N_QUADS):
        return _quads_of_lines(stream, where, rdf, report), _never
    source = _Source(stream)
    return _quads_of_document(source, where, rdf), source.invented


def _quads_of_lines(stream: ByteSource, where: str, rdf: RdfFormat, report: Report) -> Iterator[Quad]:
    """Parses in blocks of whole lines; a block with an error line by line, so that one bad line costs no other."""
    before = 0
    for block in _whole_lines(stream):
        try:
            quads = list(parse(block, format=rdf))
        except SyntaxError:
            for number, line in enumerate(block.split(b"\n"), start=before + 1):
                try:
                    quads = list(parse(line, format=rdf))
                except SyntaxError as error:
                    hint = ". RDF-star lines like this are read as Turtle" if line.lstrip().startswith(b"<<") else ""
                    report.problem(f"{where}:{number}: {_reason(error)}{hint}")
                else:
                    yield from quads
        else:
            yield from quads
        before += block.count(b"\n")


def _quads_of_document(source: "_Source", where: str, rdf: RdfFormat) -> Iterator[Quad]:
    try:
        yield from parse(source, format=rdf)  # type: ignore[arg-type]
    except SyntaxError as error:
        message = f"{where}:{error.lineno}: {_reason(error)}"
        raise InputError(f"{message}. {rdf.name} cannot be read on after an error, so this one cannot be skipped: correct it") from None


def _never(_label: str) -> bool:
    """Says that a label is written, as all are in the formats of lines."""
    return False


def _reason(error: SyntaxError) -> str:
    return _PARSER_PLACE.sub("", error.msg)


class _Source:
    """Passes a stream on to the parser, and tells written blank node labels from those the parser invents.

    The parser names a node without a label by a random number in hexadecimal digits, at most 32 of them. So a label
    that looks like one is invented unless it stands in the text; shorter ones are written, but for a chance of 2^-64.
    """

    OVERLAP = 40
    _LABEL = re.compile(rb"_:(" + _INVENTED_LABEL.pattern.encode() + rb")")

    def __init__(self, stream: ByteSource) -> None:
        self._blocks = _blocks(stream)
        self._block, self._position = b"", 0
        self._written: set[str] = set()

    def read(self, size: int) -> bytes:
        """Gives up to ``size`` bytes."""
        if self._position >= len(self._block):
            tail = self._block[-self.OVERLAP :]
            self._block, self._position = next(self._blocks, b""), 0
            self._written.update(label.decode() for label in self._LABEL.findall(tail + self._block))
        piece = self._block[self._position : self._position + size]
        self._position += len(piece)
        return piece

    def invented(self, label: str) -> bool:
        """Says whether the parser made this label."""
        return label not in self._written and _INVENTED_LABEL.fullmatch(label) is not None


def _blocks(stream: ByteSource) -> Iterator[bytes]:
    """Gives the content of a stream in blocks, without a byte order mark."""
    first = True
    while block := stream.read(BLOCK):
        yield block.removeprefix(codecs.BOM_UTF8) if first else block
        first = False


def _whole_lines(stream: ByteSource) -> Iterator[bytes]:
    """Gives the content of a stream in pieces that end at line ends."""
    rest: list[bytes] = []
    for block in _blocks(stream):
        cut = block.rfind(b"\n") + 1
        if cut:
            yield b"".join((*rest, block[:cut]))
            rest = []
        rest.append(block[cut:])
    yield b"".join(rest)
