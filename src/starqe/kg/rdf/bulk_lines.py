"""Numbers the terms of N-Triples in bulk: whole arrays cut the lines into terms, and every different term of a block is looked at once.

Only lines as programs write them are read here: one space between terms, a space and a full stop at the end. The others are left to the
parser, and so is every term that was not met before. Therefore both ways accept the same documents.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyoxigraph import RdfFormat, parse

from starqe.kg.iris import REIFIES
from starqe.kg.rdf.numbered_terms import Terms
from starqe.ragged import BoolArray, IntArray

_IRI = rb'<[A-Za-z][^\x00-\x20<>"{}|^`\\]*>'
_LABEL = rb"_:[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?"
_STRING = rb'"(?:[^"\\\r\n]++|\\[tbnrf"\'\\]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*+"'
_TERM = re.compile(_IRI + b"|" + _LABEL + b"|" + _STRING + rb"(?:@[A-Za-z]+(?:-[A-Za-z0-9]+)*|\^\^" + _IRI + b")?")
_OTHER, _NODE, _BLANK, _LITERAL = 0, 1, 2, 3
_KINDS = {b"<": _NODE, b"_": _BLANK, b'"': _LITERAL}
_COLUMNS = 10
"""The number of cuts in a line: subject 0, predicate 2, object 4; for a triple term its subject 4, predicate 6 and object 8."""


SHORTEST = 16
"""The least number of bytes per line: bulk reading needs memory for every line, so blocks of empty lines are left to the parser."""


@dataclass(frozen=True)
class NumberedLines:
    """The lines of a block as numbers. T triples · R reifications · O lines for the parser."""

    triples: IntArray  # (T, 3) subject, predicate, object
    reified: IntArray  # (R, 4) reifier, subject, predicate, object
    others: IntArray  # (O,) their places in the block, from 0
    starts: IntArray  # the beginning of each line, and the end of the block


def number_lines(block: bytes, terms: Terms, labels: Collection[str], generated: Callable[[str], bool] = lambda _: False) -> NumberedLines:
    """Numbers the terms of a block of whole lines.

    Args:
        block: The lines; the last one may have no line end.
        terms: Where terms get their numbers.
        labels: Predicates whose lines with literals are left to the parser: labels are no terms.
        generated: Returns whether a parser generated the label of a blank node.
    """
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    if not block.endswith(b"\n"):
        ends = np.append(ends, len(data))
    starts = np.minimum(np.concatenate([[0], ends + 1]), len(data))
    cuts, plain, reified = _cuts(data, starts[:-1], ends)
    offsets = np.append(cuts.reshape(-1), len(data)).astype(np.int32)
    column = pa.Array.from_buffers(pa.binary(), cuts.size, [None, pa.py_buffer(offsets), pa.py_buffer(block)]).dictionary_encode()
    codes, words = column.indices.to_numpy().reshape(cuts.shape), column.dictionary  # (L, 10)
    is_label = _are(words, labels)[codes[:, 2]] & (data[np.minimum(cuts[:, 4], len(data) - 1)] == ord('"'))
    reified &= _are(words, [REIFIES])[codes[:, 2]]
    plain &= ~is_label
    parts = codes[plain][:, [0, 2, 4]], codes[reified][:, [0, 4, 6, 8]]
    numbers, kinds = _numbers(words, np.concatenate([part.reshape(-1) for part in parts]), terms, generated)
    lines = np.flatnonzero(plain), np.flatnonzero(reified)
    fine = [_is_triple(kinds[part[:, -3:]]) & np.isin(kinds[part[:, 0]], (_NODE, _BLANK)) for part in parts]
    is_read = np.zeros(len(ends), bool)
    for rows, chosen in zip(lines, fine, strict=True):
        is_read[rows[chosen]] = True
    triples, reifications = (numbers[part[chosen]] for part, chosen in zip(parts, fine, strict=True))
    return NumberedLines(triples, reifications, np.flatnonzero(~is_read), starts)


def _cuts(data: IntArray, starts: IntArray, ends: IntArray) -> tuple[IntArray, BoolArray, BoolArray]:
    """Cuts lines at their spaces: returns the cuts, and which lines are plain triples and which have a triple term as their object.

    Lines in another form have no parts but the last.
    """
    spaces = np.concatenate([np.flatnonzero(data == ord(" ")), np.full(5, len(data))])
    gap = spaces[np.searchsorted(spaces, starts)[:, None] + np.arange(5)]  # (L, 5) the first spaces from each start on
    last = len(data) - 1

    def at(places: IntArray, text: bytes) -> BoolArray:
        """Returns whether a text is at each of some places."""
        same = (places >= 0) & (places + len(text) <= len(data))
        for step, byte in enumerate(text):
            same &= data[np.clip(places + step, 0, last)] == byte
        return same

    is_line = (gap[:, 1] < ends - 3) & at(ends - 2, b" .")
    has_term = is_line & at(gap[:, 1], b" <<( ") & at(ends - 6, b" )>>") & (gap[:, 4] < ends - 7)
    plain = is_line & ~at(gap[:, 1], b" <<")
    cuts = np.repeat(starts[:, None], _COLUMNS, axis=1)
    first, second = gap[:, 0], gap[:, 1]
    cuts[plain] = np.column_stack([starts, first, first + 1, second, second + 1, *[ends - 2] * 5])[plain]
    third, fourth, fifth = gap[:, 2], gap[:, 3], gap[:, 4]
    inner = [third + 1, fourth, fourth + 1, fifth, fifth + 1, ends - 6]
    cuts[has_term] = np.column_stack([starts, first, first + 1, second, *inner])[has_term]
    return cuts, plain, has_term


def _are(words: pa.BinaryArray, iris: Collection[str]) -> BoolArray:
    found: BoolArray = pc.is_in(words, pa.array([f"<{iri}>".encode() for iri in iris], pa.binary())).to_numpy(zero_copy_only=False)
    return found


def _is_triple(kinds: IntArray) -> BoolArray:
    fine: BoolArray = (kinds[:, 0] > _OTHER) & (kinds[:, 0] < _LITERAL) & (kinds[:, 1] == _NODE) & (kinds[:, 2] > _OTHER)
    return fine


def _numbers(words: pa.BinaryArray, codes: IntArray, terms: Terms, generated: Callable[[str], bool]) -> tuple[IntArray, IntArray]:
    """Returns numbers and kinds of words, of those that codes mention; the kind is `_OTHER` for what is left to the parser."""
    numbers, kinds = np.full(len(words), -1, np.int32), np.zeros(len(words), np.int8)
    used = np.flatnonzero(np.bincount(codes, minlength=len(words)))
    texts = words.take(pa.array(used)).to_pylist()
    ids, new = terms.ids, []
    found: list[int] = []
    for place, word in enumerate(texts):
        try:
            text = word.decode()
        except UnicodeDecodeError:
            found.append(-1)
            continue
        is_iri = text[-1:] == ">" and text[:1] == "<" and text[1:2].isalpha()
        number = ids.get(text[1:-1] if is_iri else text if text[:1] == "_" else f'"{text}')
        if number is None:
            number = -1
            if _TERM.fullmatch(word):
                new.append(place)
        found.append(number)
    for place, number in zip(new, _new_numbers([texts[place] for place in new], terms, generated), strict=True):
        found[place] = number
    numbers[used] = found
    kinds[used] = [_KINDS.get(word[:1], _OTHER) for word in texts]
    kinds[numbers < 0] = _OTHER
    if terms.unfit:
        kinds[np.isin(numbers, list(terms.unfit))] = _OTHER
    return numbers, kinds


def _new_numbers(words: list[bytes], terms: Terms, generated: Callable[[str], bool]) -> list[int]:
    """Parses terms, each as the object of a triple, and numbers them; -1 for all if one of them is malformed."""
    try:
        quads = list(parse(b"".join(b"<a:a> <a:a> %b .\n" % word for word in words), format=RdfFormat.N_TRIPLES))
    except (SyntaxError, MemoryError):
        return [-1] * len(words)
    return [terms.number(quad.object, generated) for quad in quads]
