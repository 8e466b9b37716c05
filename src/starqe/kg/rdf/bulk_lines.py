"""Numbers the terms of N-Triples in bulk: whole arrays cut the lines into terms, and every different term of a block is looked at once.

Only lines as programs write them are read here: one space between terms, a space and a full stop at the end. The others are left to the
parser, and so is every new term that is not of the plainest kind. Therefore both ways accept the same documents.
"""

import itertools
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyoxigraph import RdfFormat, parse

from starqe.kg.iris import REIFIES
from starqe.kg.rdf.numbered_terms import Generated, Terms
from starqe.ragged import BoolArray, IntArray

_IRI = r'<[A-Za-z][^\x00-\x20<>"{}|^`\\]*>'
_LABEL = r"_:[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?"
_STRING = r'"(?:[^"\\\r\n]|\\[tbnrf"\'\\]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*"'
_TERM = rf"\A(?:{_IRI}|{_LABEL}|{_STRING}(?:@[A-Za-z]+(?:-[A-Za-z0-9]+)*|\^\^{_IRI})?)\z"
"""A term that the parser is asked about."""
_PATH = r"[A-Za-z0-9._~:/+-]*"
PLAIN = rf"\A(?:<[a-z]+:(?:|[A-Za-z0-9._~+-]{_PATH}|//[A-Za-z0-9.-]+(?:/{_PATH})?)(?:#{_PATH})?>|{_LABEL})\z"
"""A term that needs no parser: an IRI of letters, digits and a few marks, or a blank node. All of these are valid, and are identifiers."""
_OTHER, _NODE, _BLANK, _LITERAL = 0, 1, 2, 3
_KINDS = np.zeros(256, np.int8)
"""The first byte of a term -> its kind."""
_KINDS[list(b'<_"')] = _NODE, _BLANK, _LITERAL


SHORTEST = 16
"""The least number of bytes per line: bulk reading needs memory for every line, so blocks of empty lines are left to the parser."""


@dataclass(frozen=True)
class NumberedLines:
    """The lines of a block as numbers. T triples · R reifications · O lines for the parser."""

    triples: IntArray  # (T, 3) subject, predicate, object
    reified: IntArray  # (R, 4) reifier, subject, predicate, object
    others: IntArray  # (O,) their places in the block, from 0
    starts: IntArray  # the beginning of each line, and the end of the block


def number_lines(block: bytes, terms: Terms, labels: Collection[str], generated: Generated = None) -> NumberedLines:
    """Numbers the terms of a block of whole lines.

    Args:
        block: The lines; the last one may have no line end.
        terms: Where terms get their numbers.
        labels: Predicates whose lines with literals are left to the parser: labels are no terms.
        generated: Returns whether a parser generated the label of a blank node; None if it generated none.
    """
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    if not block.endswith(b"\n"):
        ends = np.append(ends, len(data))
    starts = np.minimum(np.concatenate([[0], ends + 1]), len(data))
    cuts = _cuts(data, starts[:-1], ends)
    column = pa.Array.from_buffers(
        pa.binary(), len(cuts.offsets) - 1, [None, pa.py_buffer(cuts.offsets), pa.py_buffer(block)]
    ).dictionary_encode()
    codes, words = column.indices.to_numpy(), column.dictionary
    lines = [cuts.plain, cuts.reifying]
    parts = [codes[cuts.pieces(rows, wanted)] for rows, wanted in zip(lines, ((0, 2, 4), (0, 2, 4, 6, 8)), strict=True)]
    begins_literal = data[cuts.offsets[cuts.pieces(cuts.plain, (4,))[:, 0]]] == ord('"')
    chosen = [~(_are(words, labels)[parts[0][:, 1]] & begins_literal), _are(words, [REIFIES])[parts[1][:, 1]]]
    lines, parts = ([part[keep] for part, keep in zip(some, chosen, strict=True)] for some in (lines, parts))
    parts[1] = parts[1][:, [0, 2, 3, 4]]
    numbers, kinds = _numbers(words, np.concatenate([part.reshape(-1) for part in parts]), terms, generated)
    fine = [_is_triple(kinds[part[:, -3:]]) & _is_subject(kinds[part[:, 0]]) for part in parts]
    is_read = np.zeros(len(ends), bool)
    for rows, keep in zip(lines, fine, strict=True):
        is_read[rows[keep]] = True
    triples, reified = (numbers[part[keep]] for part, keep in zip(parts, fine, strict=True))
    return NumberedLines(triples, reified, np.flatnonzero(~is_read), starts)


@dataclass(frozen=True)
class _Cuts:
    """A block in pieces: the terms of its lines and what is between them. L lines."""

    offsets: IntArray  # (C,) the beginning of each piece, and the end of the block
    base: IntArray  # (L,) the first piece of each line
    plain: IntArray  # lines that are plain triples: their terms are the pieces 0, 2 and 4
    reifying: IntArray  # lines that have a triple term as their object: pieces 0 and 2, and 4, 6 and 8 of the triple term

    def pieces(self, lines: IntArray, wanted: tuple[int, ...]) -> IntArray:
        """Returns the places of some pieces of lines: (len(lines), len(wanted))."""
        places: IntArray = self.base[lines][:, None] + np.array(wanted)
        return places


def _cuts(data: IntArray, starts: IntArray, ends: IntArray) -> _Cuts:
    """Cuts lines at their spaces; lines in another form are one piece."""
    spaces = np.append(np.flatnonzero(data == ord(" ")), [len(data)] * 5)
    place = np.searchsorted(spaces, starts)
    first, second = spaces[place], spaces[place + 1]
    last = len(data) - 1

    def at(places: IntArray, text: bytes) -> BoolArray:
        """Returns whether a text is at each of some places."""
        same = (places >= 0) & (places + len(text) <= len(data))
        for step, byte in enumerate(text):
            same &= data[np.clip(places + step, 0, last)] == byte
        return same

    is_line = (second < ends - 3) & at(ends - 2, b" .")
    is_term = is_line & at(second + 1, b"<<")
    plain, reifying = np.flatnonzero(is_line & ~is_term), np.flatnonzero(is_term)
    gaps = spaces[place[reifying][:, None] + np.arange(2, 5)]  # (R, 3) the spaces after the first two
    end = ends[reifying]
    fine = at(second[reifying] + 1, b"<<( ") & at(end - 6, b" )>>") & (gaps[:, 2] < end - 7)
    reifying, gaps, end = reifying[fine], gaps[fine], end[fine]
    pieces = np.ones(len(starts), np.int64)
    pieces[plain], pieces[reifying] = 6, 10
    base = np.cumsum(pieces) - pieces
    offsets = np.empty(int(pieces.sum()) + 1, np.int32)
    offsets[base], offsets[-1] = starts, len(data)
    for lines in (plain, reifying):
        for step, places in enumerate((first, first + 1, second), 1):
            offsets[base[lines] + step] = places[lines]
    offsets[base[plain] + 4], offsets[base[plain] + 5] = second[plain] + 1, ends[plain] - 2
    inner = (gaps[:, 0] + 1, gaps[:, 1], gaps[:, 1] + 1, gaps[:, 2], gaps[:, 2] + 1, end - 6)
    for step, places in enumerate(inner, 4):
        offsets[base[reifying] + step] = places
    return _Cuts(offsets, base, plain, reifying)


def _are(words: pa.BinaryArray, iris: Collection[str]) -> BoolArray:
    found: BoolArray = pc.is_in(words, pa.array([f"<{iri}>".encode() for iri in iris], pa.binary())).to_numpy(zero_copy_only=False)
    return found


def _is_triple(kinds: IntArray) -> BoolArray:
    fine: BoolArray = (kinds[:, 0] > _OTHER) & (kinds[:, 0] < _LITERAL) & (kinds[:, 1] == _NODE) & (kinds[:, 2] > _OTHER)
    return fine


def _is_subject(kinds: IntArray) -> BoolArray:
    fine: BoolArray = (kinds == _NODE) | (kinds == _BLANK)
    return fine


def _numbers(words: pa.BinaryArray, codes: IntArray, terms: Terms, generated: Generated) -> tuple[IntArray, IntArray]:
    """Returns numbers and kinds of words, of those that codes mention; the kind is `_OTHER` for what is left to the parser."""
    numbers, kinds = np.full(len(words), -1, np.int32), np.zeros(len(words), np.int8)
    used = np.flatnonzero(np.bincount(codes, minlength=len(words)))
    chosen = words.take(pa.array(used))
    keys = _keys(chosen)
    found = np.fromiter(map(terms.ids.get, keys.to_pylist(), itertools.repeat(-1)), np.int32, len(keys))
    new = np.flatnonzero(found < 0)
    plain = _matches(chosen.take(pa.array(new)), PLAIN)
    found[new[plain]] = terms.add(keys.take(pa.array(new[plain])).to_pylist(), generated)
    others = new[~plain]
    others = others[_matches(chosen.take(pa.array(others)), _TERM)]
    found[others] = _parsed_numbers(chosen.take(pa.array(others)).to_pylist(), terms, generated)
    numbers[used] = found
    kinds[used] = _kinds(chosen)
    kinds[numbers < 0] = _OTHER
    if terms.unfit:
        kinds[np.isin(numbers, list(terms.unfit))] = _OTHER
    return numbers, kinds


def _keys(words: pa.BinaryArray) -> pa.StringArray:
    """Returns the texts by which `Terms` knows words as they are usually written; empty for what is not UTF-8."""
    is_iri = pc.match_substring_regex(words, r"\A<[A-Za-z](?s:.)*>\z")
    others = pc.if_else(pc.starts_with(words, b"_"), words, pc.binary_join_element_wise(b'"', words, b""))
    keys = pc.if_else(is_iri, pc.binary_slice(words, 1, -1), others)
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(key) for key in keys.to_pylist()], pa.string())


def _text(word: bytes) -> str:
    try:
        return word.decode()
    except UnicodeDecodeError:
        return ""


def _matches(words: pa.BinaryArray, pattern: str) -> BoolArray:
    found: BoolArray = pc.match_substring_regex(words, pattern).to_numpy(zero_copy_only=False)
    return found


def _kinds(words: pa.BinaryArray) -> IntArray:
    """Returns the kind of each word by its first byte."""
    offsets = np.frombuffer(words.buffers()[1], np.int32)[words.offset : words.offset + len(words) + 1]
    data = np.append(np.frombuffer(words.buffers()[2] or b"", np.uint8), np.uint8(0))
    return np.where(np.diff(offsets) > 0, _KINDS[data[offsets[:-1]]], _OTHER)


def _parsed_numbers(words: list[bytes], terms: Terms, generated: Generated) -> list[int]:
    """Parses terms, each as the object of a triple, and numbers them; -1 for all if one of them is malformed."""
    try:
        quads = list(parse(b"".join(b"<a:a> <a:a> %b .\n" % word for word in words), format=RdfFormat.N_TRIPLES))
    except (SyntaxError, MemoryError):
        return [-1] * len(words)
    return [terms.number(quad.object, generated) for quad in quads]
