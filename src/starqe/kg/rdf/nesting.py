"""Limits that are checked before parsing: the parser crashes on deeply nested terms, and hangs on nested entities.

Only opening and closing tokens are searched for; strings, IRIs and comments are skipped. Syntax errors are left to the parser.
"""

import re
from collections.abc import Iterable

import numpy as np
from pyoxigraph import RdfFormat

from starqe.errors import InputError
from starqe.kg.reading.files import count_lines
from starqe.ragged import IntArray

MAX_DEPTH = 100
"""The maximum nesting depth of triple terms, and of elements of RDF/XML."""
MAX_TERM = 16 * 2**20
"""The maximum length of a term in bytes; a limit of the parser."""
MAX_NAME = 2**20
"""The maximum length of a prefixed name or keyword in bytes: the parser looks at an unfinished one again with every block."""
MAX_ENTITY = 1000
"""The maximum length of an entity that an RDF/XML document declares; they abbreviate the beginnings of IRIs."""

_TURTLE = re.compile(
    rb'(?P<open><<)|(?P<close>>>)|[<=]=|=>|<[^<>"\s]*+>'
    rb'|"""(?:[^"\\]++|\\.|"(?!""))*+"""|' + rb"'''(?:[^'\\]++|\\.|'(?!''))*+'''"
    rb'|"(?!"")(?:[^"\\\n\r]++|\\.)*+"|' + rb"'(?!'')(?:[^'\\\n\r]++|\\.)*+'"
    rb"|\#[^\n\r]*+[\n\r]|\\.|(?P<unfinished>[<>\"'#\\])",
    re.DOTALL,
)
_NAME_ENDS = b" \t\r\n<>\"'#;,()[]{}"
_XML = re.compile(
    rb"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|(?P<entity><!ENTITY\s[^>]*+>)|<!DOCTYPE[^\[>]*+[\[>]|<![A-Z][^>]*+>|(?P<close></[^>]*+>)"
    rb"|(?P<open><[^!?/](?:[^>\"']++|\"[^\"]*+\"|'[^']*+')*+>)|(?P<unfinished><)",
    re.DOTALL,
)


class NestingGuard:
    """Checks a document, block by block, and refuses one that is nested too deeply."""

    def __init__(self, where: str, syntax: RdfFormat, line: int = 1) -> None:
        self._where, self._xml = where, syntax == RdfFormat.RDF_XML
        self._token = _XML if self._xml else _TURTLE
        self._is_checked = syntax != RdfFormat.JSON_LD  # its parser has its own limit
        self._depth = 0
        self.line = line
        """The number of the current line."""
        self._rest, self._looked_at = b"", 0
        self._name, self._longest_name = 0, MAX_NAME  # bytes since the last character that ends a name, and when they are looked at

    def feed(self, block: bytes) -> None:
        """Checks the next block.

        Raises:
            InputError: Terms or elements are nested too deeply, a term is too long, or an entity could expand without end.
        """
        if not self._is_checked:
            return
        text = self._rest + block
        self._check_name(block, text)
        if len(text) < 2 * self._looked_at:  # a long term is not checked again with every block
            self._rest = text
            return
        cut = text.rfind(b"\n") + 1
        plain = not self._xml and not self._depth and not self._looked_at
        if plain and cut and not any(mark in text for mark in (b"<<", b'"""', b"'''")):
            self.line += text.count(b"\n", 0, cut)
            self._rest = text[cut:]
        else:
            self._rest = self._tokens(text)
        if len(self._rest) > MAX_TERM:
            raise InputError(f"{self._where}:{self.line}: a term has at most {MAX_TERM >> 20} MiB, found a longer one that begins here")
        self._looked_at = len(self._rest) if self._rest and not (plain and cut) else 0

    def _check_name(self, block: bytes, text: bytes) -> None:
        """Refuses a name that is too long; strings and IRIs may be longer."""
        end = max(block.rfind(b"\n"), block.rfind(b" "))
        if end < 0:  # as a rule, one of these two is found near the end
            end = max(map(block.rfind, _NAME_ENDS))
        self._name = self._name + len(block) if end < 0 else len(block) - end
        if end >= 0:
            self._longest_name = MAX_NAME
        if self._xml or self._name <= self._longest_name:
            return
        self._longest_name *= 2
        if not any(token.lastgroup == "unfinished" or token.end() == len(text) for token in self._token.finditer(text)):
            line = self.line + text.count(b"\n")
            raise InputError(f"{self._where}:{line}: a name has at most {MAX_NAME >> 20} MiB, found a longer one")

    def _tokens(self, text: bytes) -> bytes:
        """Counts opening and closing tokens; returns the rest, which may be the beginning of a token."""
        if self._xml and (plain := _plain_elements(text)):
            steps, cut = plain
            depth = self._depth + np.cumsum(steps)
            if depth.min(initial=0) >= 0 and depth.max(initial=0) <= MAX_DEPTH:
                self._depth += int(steps.sum())
                self.line += count_lines(text[:cut])
                return text[cut:]
        for token in self._token.finditer(text):
            if token.lastgroup == "unfinished" or token.end() == len(text):  # what follows may belong to it
                self.line += text.count(b"\n", 0, token.start())
                return text[token.start() :]
            match token.lastgroup:
                case "open" if not token[0].endswith(b"/>"):
                    self._depth += 1
                case "close":
                    self._depth = max(self._depth - 1, 0)
                case "entity":
                    self._check_entity(token[0], text[: token.start()])
            if self._depth > MAX_DEPTH:
                line = self.line + text.count(b"\n", 0, token.start())
                what = "elements" if self._xml else "triple terms"
                raise InputError(f"{self._where}:{line}: {what} are nested at most {MAX_DEPTH} deep, found more")
        self.line += text.count(b"\n")
        return b""

    def _check_entity(self, declaration: bytes, before: bytes) -> None:
        if len(declaration) > MAX_ENTITY or re.search(rb"&(?!#)", declaration):
            line = self.line + before.count(b"\n")
            raise InputError(
                f"{self._where}:{line}: an entity has at most {MAX_ENTITY} bytes and mentions no other, found "
                f"{declaration[:60].decode(errors='replace')!r}. Write out its value"
            )


def _plain_elements(text: bytes) -> tuple[IntArray, int] | None:
    """Finds the tags of XML at the speed of array operations, where nothing but tags and text is in it.

    Returns:
        1 for each tag that opens an element, -1 for one that closes it, 0 for one that does both; and the place of an unfinished tag
        at the end, or the end. None if there is anything else, or a mark in an attribute that could be taken for the end of its tag.
    """
    data = np.frombuffer(text, np.uint8)
    is_mark = (data == ord("<")) | (data == ord(">")) | (data == ord('"')) | (data == ord("'"))
    marks = np.flatnonzero(is_mark)
    kinds = data[marks]
    begins, ends = np.flatnonzero(kinds == ord("<")), np.flatnonzero(kinds == ord(">"))  # among the marks
    cut = len(text)
    if len(begins) > len(ends):
        if len(ends) and ends[-1] > begins[-1]:
            return None  # a mark in an attribute: the last tag ends
        cut, begins = int(marks[begins[-1]]), begins[:-1]
    if len(begins) != len(ends) or (begins > ends).any() or (ends[:-1] > begins[1:]).any() or ((ends - begins) % 2 == 0).any():
        return None  # otherwise there is nothing but an even number of quotation marks between the two marks of a tag
    single = np.cumsum(kinds == ord("'"))
    first = data[marks[begins] + 1]
    if (single[begins] != single[ends]).any() or ((first == ord("!")) | (first == ord("?"))).any():
        return None
    closes = first == ord("/")
    steps: IntArray = 1 - 2 * closes.astype(np.int64) - (~closes & (data[marks[ends] - 1] == ord("/")))
    return steps, cut


def check_lines(lines: Iterable[tuple[int, bytes]], where: str) -> None:
    """Refuses a line of N-Triples or N-Quads whose triple terms are nested too deeply.

    Raises:
        InputError: There is one.
    """
    for number, line in lines:
        if line.count(b"<<") > MAX_DEPTH:
            NestingGuard(where, RdfFormat.N_TRIPLES, number).feed(line + b"\n")
