"""Numbers the terms of N-Triples and N-Quads in bulk: arrays cut lines into terms, and every different term of a block is looked at once.

Only lines as programs write them are read here: one space between terms, a space and a full stop at the end. The others are left to the
parser, and so is every new term that is not of the plainest kind. Therefore both ways accept the same documents.
"""

import itertools
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyoxigraph import BlankNode, DefaultGraph, NamedNode, RdfFormat, parse

from starqe.kg.iris import REIFIES
from starqe.kg.rdf.numbered_terms import Generated, Terms
from starqe.kg.rdf.turtle_tokens import quotation_marks
from starqe.ragged import BoolArray, IntArray

GraphName = NamedNode | BlankNode | DefaultGraph
IRI = r'<[A-Za-z][^\x00-\x20<>"{}|^`\\]*>'
LABEL = r"_:[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?"
STRING = r'"(?:[^"\\\r\n]|\\[tbnrf"\'\\]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*"'
_TERM = rf"\A(?:{IRI}|{LABEL}|{STRING}(?:@[A-Za-z]+(?:-[A-Za-z0-9]+)*|\^\^{IRI})?)\z"
"""A term that the parser is asked about."""
_PATH = r"[A-Za-z0-9._~:/+-]*"
PLAIN = rf"\A(?:<[a-z]+:(?:|[A-Za-z0-9._~+-]{_PATH}|//[A-Za-z0-9.-]+(?:/{_PATH})?)(?:#{_PATH})?>|{LABEL})\z"
"""A term that needs no parser: an IRI of letters, digits and a few marks, or a blank node. All of these are valid, and are identifiers."""
_OTHER, _NODE, _BLANK, _LITERAL = 0, 1, 2, 3
_KINDS = np.zeros(256, np.int8)
"""The first byte of a term -> its kind."""
_KINDS[list(b'<_"')] = _NODE, _BLANK, _LITERAL


SHORTEST = 16
"""The least number of bytes per line: bulk reading needs memory for every line, so blocks of empty lines are left to the parser."""


@dataclass(frozen=True)
class NumberedTriples:
    """The triples of a block as numbers. T triples · R reifications."""

    triples: IntArray  # (T, 3) subject, predicate, object
    graph: IntArray  # (T,) the place of its graph in `graphs`
    reified: IntArray  # (R, 4) reifier, subject, predicate, object
    reified_graph: IntArray  # (R,)
    graphs: list[GraphName]


@dataclass(frozen=True)
class NumberedLines(NumberedTriples):
    """The lines of a block as numbers. O lines for the parser."""

    others: IntArray  # (O,) their places in the block, from 0
    starts: IntArray  # the beginning of each line, and the end of the block


def number_lines(
    block: bytes, terms: Terms, labels: Collection[str], generated: Generated = None, with_graphs: bool = False
) -> NumberedLines:
    """Numbers the terms of a block of whole lines.

    Args:
        block: The lines; the last one may have no line end.
        terms: Where terms get their numbers.
        labels: Predicates whose lines with literals are left to the parser: labels are no terms.
        generated: Returns whether a parser generated the label of a blank node; None if it generated none.
        with_graphs: Whether a line may name a graph: N-Quads.
    """
    pieces = _Pieces.of(block if block.endswith(b"\n") else block + b"\n")
    kinds = _kinds(pieces.words)
    triples, quads, reifying, reifying_quads = (pieces.lines(*form) for form in _FORMS)
    lines = [np.concatenate([triples, quads]), np.concatenate([reifying, reifying_quads])]
    if not with_graphs:
        lines = [triples, reifying]
    parts = [pieces.codes_of(rows, wanted) for rows, wanted in zip(lines, ((0, 1, 2), (0, 1, 3, 4, 5)), strict=True)]
    is_label = _are(pieces.words, parts[0][:, 1], labels) & (kinds[parts[0][:, 2]] == _LITERAL)
    chosen = [~is_label, _are(pieces.words, parts[1][:, 1], [REIFIES])]
    lines, parts = ([part[keep] for part, keep in zip(some, chosen, strict=True)] for some in (lines, parts))
    parts[1] = parts[1][:, [0, 2, 3, 4]]
    numbers = _numbers(pieces.words, np.concatenate([part.reshape(-1) for part in parts]), terms, generated)
    kinds[numbers < 0] = _OTHER
    graph, graphs = _graphs(pieces, np.concatenate([quads, reifying_quads]) if with_graphs else _NO_LINES)
    fine = [
        _is_triple(kinds[part[:, -3:]]) & _is_subject(kinds[part[:, 0]]) & (graph[rows] >= 0)
        for rows, part in zip(lines, parts, strict=True)
    ]
    lines = [rows[keep] for rows, keep in zip(lines, fine, strict=True)]
    is_read = np.zeros(len(pieces.base), bool)
    is_read[np.concatenate(lines)] = True
    numbered, reified = (numbers[part[keep]] for part, keep in zip(parts, fine, strict=True))
    return NumberedLines(numbered, graph[lines[0]], reified, graph[lines[1]], graphs, np.flatnonzero(~is_read), pieces.starts)


_MARKS = {2: b"<<( ", 6: b")>> "}
"""The pieces around a triple term that is an object, by their places in the line."""
_FORMS: tuple[tuple[int, tuple[int, ...]], ...] = ((4, ()), (5, ()), (8, (2, 6)), (9, (2, 6)))
"""The forms of lines: the number of their pieces, and the places of marks. Every second one names a graph."""
_NO_LINES = np.empty(0, np.int64)


@dataclass(frozen=True)
class _Pieces:
    """A block in pieces: what is between two separators, which are line ends, and spaces outside strings. L lines · P pieces."""

    starts: IntArray  # (L + 1,) the beginning of each line, and the end of the block
    base: IntArray  # (L,) the first piece of each line
    count: IntArray  # (L,) the number of its pieces; 0 if it does not end with a full stop of its own
    codes: IntArray  # (P,) the place of each piece among the words
    words: pa.BinaryArray
    marks: dict[int, int]
    """The words that are `_MARKS`; -1 for those that do not occur."""

    @classmethod
    def of(cls, block: bytes) -> "_Pieces":
        """Cuts a block of whole lines."""
        data = np.frombuffer(block, np.uint8)
        cuts = _separators(data, block)
        offsets = np.zeros(len(cuts) + 1, np.int32)
        np.add(cuts, 1, out=offsets[1:], casting="unsafe")
        column = pa.Array.from_buffers(pa.binary(), len(cuts), [None, pa.py_buffer(offsets), pa.py_buffer(block)]).dictionary_encode()
        words = column.dictionary
        last = np.flatnonzero(data[cuts] == ord("\n"))
        base = np.append(0, last + 1)
        stops, ends = offsets[last], cuts[last]
        ended = (data[stops] == ord(".")) & ((ends - stops == 1) | ((ends - stops == 2) & (data[ends - 1] == ord("\r"))))
        marks = {place: words.index(mark).as_py() for place, mark in _MARKS.items()}
        return cls(offsets[base], base[:-1], np.diff(base) * ended, column.indices.to_numpy(), pc.binary_slice(words, 0, -1), marks)

    def lines(self, count: int, marks: tuple[int, ...]) -> IntArray:
        """Returns the lines with a number of pieces, and with marks at some places."""
        found = np.flatnonzero(self.count == count)
        for place in marks:
            found = found[self.codes[self.base[found] + place] == self.marks[place]]
        return found

    def codes_of(self, lines: IntArray, places: tuple[int, ...]) -> IntArray:
        """Returns the words at some places of lines: (len(lines), len(places))."""
        codes: IntArray = self.codes[self.base[lines][:, None] + np.array(places)]
        return codes


def _separators(data: IntArray, block: bytes) -> IntArray:
    """Returns the places of line ends, and of spaces before which the line has an even number of quotation marks."""
    places = np.flatnonzero((data == ord(" ")) | (data == ord("\n")))
    if b'"' not in block:
        return places
    ends_line = data[places] == ord("\n")
    before = np.searchsorted(quotation_marks(data, b'\\"' in block), places)
    of_others = np.append(0, before[ends_line])[np.cumsum(ends_line) - ends_line]  # those of the lines before
    separators: IntArray = places[ends_line | ((before - of_others) % 2 == 0)]
    return separators


def _graphs(pieces: _Pieces, lines: IntArray) -> tuple[IntArray, list[GraphName]]:
    """Returns the place of the graph of each line, -1 for a name that needs the parser, and the graphs; the first is the default graph."""
    graph = np.zeros(len(pieces.base), np.int32)
    names, number = np.unique(pieces.codes[pieces.base[lines] + pieces.count[lines] - 2], return_inverse=True)
    chosen = pieces.words.take(pa.array(names))
    plain = matches(chosen, PLAIN)
    graph[lines] = np.where(plain, np.cumsum(plain), -1)[number]
    texts = [word.decode() for word in chosen.filter(pa.array(plain)).to_pylist()]
    return graph, [DefaultGraph(), *(BlankNode(text[2:]) if text[0] == "_" else NamedNode(text[1:-1]) for text in texts)]


def _are(words: pa.BinaryArray, codes: IntArray, iris: Collection[str]) -> BoolArray:
    """Returns for each code whether its word is one of some IRIs."""
    different = np.flatnonzero(np.bincount(codes, minlength=len(words)))
    found = np.zeros(len(words), bool)
    texts = pa.array([f"<{iri}>".encode() for iri in iris], pa.binary())
    found[different] = pc.is_in(words.take(pa.array(different)), texts).to_numpy(zero_copy_only=False)
    return found[codes]


def _is_triple(kinds: IntArray) -> BoolArray:
    fine: BoolArray = (kinds[:, 0] > _OTHER) & (kinds[:, 0] < _LITERAL) & (kinds[:, 1] == _NODE) & (kinds[:, 2] > _OTHER)
    return fine


def _is_subject(kinds: IntArray) -> BoolArray:
    fine: BoolArray = (kinds == _NODE) | (kinds == _BLANK)
    return fine


def _numbers(words: pa.BinaryArray, codes: IntArray, terms: Terms, generated: Generated) -> IntArray:
    """Returns the numbers of words, of those that codes mention; -1 for what is left to the parser."""
    numbers = np.full(len(words), -1, np.int32)
    is_used = np.zeros(len(words), bool)
    is_used[codes] = True
    used, chosen = np.flatnonzero(is_used), words.filter(pa.array(is_used))
    is_plain = matches(chosen, PLAIN)
    plain, others = chosen.filter(pa.array(is_plain)), chosen.filter(pa.array(~is_plain))
    keys = pc.if_else(pc.starts_with(plain, b"_"), plain, pc.binary_slice(plain, 1, -1)).cast(pa.string())
    numbers[used[is_plain]] = terms.numbers(keys.to_pylist(), generated)
    found = np.fromiter(map(terms.ids.get, _keys(others), itertools.repeat(-1)), np.int32, len(others))
    new = np.flatnonzero((found < 0) & matches(others, _TERM))
    found[new] = _parsed_numbers(others.take(pa.array(new)).to_pylist(), terms, generated)
    numbers[used[~is_plain]] = found
    if terms.unfit:
        numbers[np.isin(numbers, list(terms.unfit))] = -1
    return numbers


def _keys(words: pa.BinaryArray) -> list[str]:
    """Returns the texts by which `Terms` knows words as they are usually written; empty for what is not UTF-8."""
    is_iri = pc.match_substring_regex(words, r"\A<[A-Za-z](?s:.)*>\z")
    others = pc.if_else(pc.starts_with(words, b"_"), words, pc.binary_join_element_wise(b'"', words, b""))
    keys = pc.if_else(is_iri, pc.binary_slice(words, 1, -1), others)
    try:
        return list(keys.cast(pa.string()).to_pylist())
    except pa.ArrowInvalid:
        return [_text(key) for key in keys.to_pylist()]


def _text(word: bytes) -> str:
    try:
        return word.decode()
    except UnicodeDecodeError:
        return ""


def matches(words: pa.BinaryArray, pattern: str) -> BoolArray:
    """Returns for each word whether it has a pattern."""
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
