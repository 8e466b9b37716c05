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
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    if not block.endswith(b"\n"):
        ends = np.append(ends, len(data))
    starts = np.minimum(np.concatenate([[0], ends + 1]), len(data))
    cuts = _cuts(data, starts[:-1], ends, with_graphs)
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
    graph, graphs = _graphs(words, codes, cuts)
    fine = [
        _is_triple(kinds[part[:, -3:]]) & _is_subject(kinds[part[:, 0]]) & (graph[rows] >= 0)
        for rows, part in zip(lines, parts, strict=True)
    ]
    lines = [rows[keep] for rows, keep in zip(lines, fine, strict=True)]
    is_read = np.zeros(len(ends), bool)
    is_read[np.concatenate(lines)] = True
    triples, reified = (numbers[part[keep]] for part, keep in zip(parts, fine, strict=True))
    return NumberedLines(triples, graph[lines[0]], reified, graph[lines[1]], graphs, np.flatnonzero(~is_read), starts)


@dataclass(frozen=True)
class _Cuts:
    """A block in pieces: the terms of its lines and what is between them. L lines."""

    offsets: IntArray  # (C,) the beginning of each piece, and the end of the block
    base: IntArray  # (L,) the first piece of each line
    plain: IntArray  # lines that are plain triples: their terms are the pieces 0, 2 and 4
    reifying: IntArray  # lines that have a triple term as their object: pieces 0 and 2, and 4, 6 and 8 of the triple term
    named: IntArray  # lines that name a graph: the last piece but one

    def pieces(self, lines: IntArray, wanted: tuple[int, ...]) -> IntArray:
        """Returns the places of some pieces of lines: (len(lines), len(wanted))."""
        places: IntArray = self.base[lines][:, None] + np.array(wanted)
        return places

    @property
    def names(self) -> IntArray:
        """The pieces that name a graph."""
        return np.append(self.base, len(self.offsets) - 1)[self.named + 1] - 2


def _cuts(data: IntArray, starts: IntArray, ends: IntArray, with_graphs: bool) -> _Cuts:
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
    stops = ends - 2  # the end of the object
    named = np.empty(0, np.int64)
    if with_graphs:
        before = spaces[np.searchsorted(spaces, stops) - 1]  # the last space before the end
        named = np.flatnonzero(is_line & (before > second) & (at(before + 1, b"<") | at(before + 1, b"_")))
        stops[named] = before[named]
    is_term = is_line & at(second + 1, b"<<")
    plain, reifying = np.flatnonzero(is_line & ~is_term), np.flatnonzero(is_term)
    gaps = spaces[place[reifying][:, None] + np.arange(2, 5)]  # (R, 3) the spaces after the first two
    end = stops[reifying]
    fine = at(second[reifying] + 1, b"<<( ") & at(end - 4, b" )>>") & (gaps[:, 2] < end - 5)
    reifying, gaps, end = reifying[fine], gaps[fine], end[fine]
    pieces = np.ones(len(starts), np.int64)
    pieces[plain], pieces[reifying] = 6, 10
    named = named[pieces[named] > 1]
    pieces[named] += 2
    base = np.cumsum(pieces) - pieces
    offsets = np.empty(int(pieces.sum()) + 1, np.int32)
    offsets[base], offsets[-1] = starts, len(data)
    for lines in (plain, reifying):
        for step, places in enumerate((first, first + 1, second), 1):
            offsets[base[lines] + step] = places[lines]
    offsets[base[plain] + 4], offsets[base[plain] + 5] = second[plain] + 1, stops[plain]
    inner = (gaps[:, 0] + 1, gaps[:, 1], gaps[:, 1] + 1, gaps[:, 2], gaps[:, 2] + 1, end - 4)
    for step, places in enumerate(inner, 4):
        offsets[base[reifying] + step] = places
    after = base[named] + pieces[named]
    offsets[after - 2], offsets[after - 1] = stops[named] + 1, ends[named] - 2
    return _Cuts(offsets, base, plain, reifying, named)


def _graphs(words: pa.BinaryArray, codes: IntArray, cuts: _Cuts) -> tuple[IntArray, list[GraphName]]:
    """Returns the place of the graph of each line, -1 for a name that needs the parser, and the graphs; the first is the default graph."""
    graph = np.zeros(len(cuts.base), np.int32)
    names, number = np.unique(codes[cuts.names], return_inverse=True)
    chosen = words.take(pa.array(names))
    plain = matches(chosen, PLAIN)
    graph[cuts.named] = np.where(plain, np.cumsum(plain), -1)[number]
    texts = [word.decode() for word in chosen.filter(pa.array(plain)).to_pylist()]
    return graph, [DefaultGraph(), *(BlankNode(text[2:]) if text[0] == "_" else NamedNode(text[1:-1]) for text in texts)]


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
    plain = matches(chosen.take(pa.array(new)), PLAIN)
    found[new[plain]] = terms.add(keys.take(pa.array(new[plain])).to_pylist(), generated)
    others = new[~plain]
    others = others[matches(chosen.take(pa.array(others)), _TERM)]
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
