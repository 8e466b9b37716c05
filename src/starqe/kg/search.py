"""Searches names: by the beginning of a name or of a word in it, by a part of it, and by similar spelling.

All names are in one byte string, in lower case and without accents; everything else is arrays of positions in it. So a name takes
its own bytes and about 25 bytes per word, and no Python objects.
"""

import difflib
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from starqe.ragged import FloatArray, IntArray
from starqe.texts import joined_bytes

LONGEST = 200
"""The maximum number of characters of a search text."""

_KEY = 32  # words are sorted by this number of bytes; longer texts are compared within their group
_MOST_INSIDE = 1_000  # the maximum number of occurrences within words that are checked
_SHORTEST_INSIDE = 3
_CANDIDATES = 24  # the number of names that are compared letter by letter
_MOST_WORDS = 8
_LEAST_SIMILAR = 0.74
_LEAST_SHARED = 0.3  # words that share fewer of their letter pairs are not similar
_PART = 0.97  # a similar part of a name counts a little less than a similar whole name
_CHUNK = 1 << 18
_MARKS = re.compile(r"[\u0300-\u036f]")
_WORD = re.compile(r"[^\W_]+")
_LAST_PART = re.compile(r"(?:[a-z][a-z0-9+.-]*://\S*[/#]|urn:\S*:)([^/#:\s]+)", re.IGNORECASE)
_IN_WORDS = np.array([byte >= 128 or chr(byte).isalnum() for byte in range(256)])


def short_form(identifier: str) -> str:
    """Returns the last part of an IRI, and any other identifier as it is."""
    found = _LAST_PART.fullmatch(identifier)
    return found[1] if found else identifier


class NameSearch:
    """Finds ids by their names. An id may have many names, and a name may belong to many ids.

    N names · W words · T bytes of text.

    Args:
        names: The names; empty ones are left out.
        ids: The id of each name.
    """

    def __init__(self, names: Sequence[str] | pa.ChunkedArray, ids: Sequence[int] | IntArray) -> None:
        column = names if isinstance(names, pa.ChunkedArray) else pa.chunked_array([pa.array(names, pa.string())], pa.string())
        present = pc.not_equal(column, "")
        self._id = np.asarray(ids, np.int32)[present.to_numpy()]  # (N,)
        parts = [joined_bytes(pc.binary_join_element_wise(_compared(chunk), "", "\n")) for chunk in column.filter(present).chunks]
        self._text = b"".join([b"\n", *parts, b"\n" * _KEY])
        letters = np.frombuffer(self._text, np.uint8)  # (T,)
        breaks = np.flatnonzero(letters[: len(letters) - _KEY] == ord("\n"))
        self._name_start, self._name_end = _compact(breaks[:-1] + 1), _compact(breaks[1:])  # (N,)
        in_words = _IN_WORDS[letters]
        begins = np.zeros(len(letters), bool)
        begins[1:] = in_words[1:] & ~in_words[:-1]
        begins[self._name_start] = True
        self._start = _compact(np.flatnonzero(begins))  # (W,) where words begin, in the order of the text
        self._name = (np.cumsum(letters[: len(letters) - _KEY] == ord("\n"), dtype=np.int32) - 1)[self._start]  # (W,) the name of each word
        self._by_text = _alphabetical(letters, self._start)  # (W,) the words in alphabetical order

    @cached_property
    def _pairs(self) -> IntArray:
        """The letter pairs of each word, as bits: (W,)."""
        letters = np.frombuffer(self._text, np.uint8)
        return _letter_pairs(letters, _IN_WORDS[letters], self._start)

    @cached_property
    def _pair_count(self) -> FloatArray:
        """The number of different letter pairs of each word: (W,)."""
        return _bit_count(self._pairs).astype(np.float32)

    def find(self, text: str, count: int = 10) -> list[int]:
        """Returns the ids with a name that begins with a text, then with a word that does; short names first.

        Where there are none, the ids with a name that contains the text anywhere.
        """
        key = _bytes(text.lstrip()[:LONGEST].replace("\n", " "))
        if not key:
            return []
        words = self._beginning(key)
        inner = self._start[words] != self._name_start[self._name[words]]
        found = self._shortest(self._name[words], count, inner)
        if len(found) < count:
            found += self._shortest(self._with_all_words(key.decode(errors="replace")), count)
        if not found and len(key) >= _SHORTEST_INSIDE:
            found = self._shortest(np.fromiter(self._containing(key), np.int64), count)
        return list(dict.fromkeys(found))[:count]

    def near(self, text: str, count: int = 5) -> list[int]:
        """Returns the ids whose name contains a text or has a similar spelling, the best first."""
        found = self.find(text, count)
        if len(found) < count:
            found += [int(self._id[name]) for name in self._similar(text[:LONGEST])]
        return list(dict.fromkeys(found))[:count]

    def exact(self, text: str) -> list[int]:
        """Returns the ids that have a text as a name, whatever its case and accents, ascending."""
        words = self._beginning(_bytes(text.replace("\n", " ")) + b"\n") if text else np.empty(0, np.int64)
        names = self._name[words][self._start[words] == self._name_start[self._name[words]]]
        return sorted(set(self._id[names].tolist()))

    def _beginning(self, key: bytes) -> IntArray:
        """Returns the words that begin with a text."""
        short = key[:_KEY]

        def written(place: int) -> bytes:
            start = int(self._start[self._by_text[place]])
            return self._text[start : start + len(short)]

        places = range(len(self._by_text))
        words = self._by_text[bisect_left(places, short, key=written) : bisect_right(places, short, key=written)]
        if len(key) <= _KEY:
            return words
        return np.array([word for word in words.tolist() if self._text.startswith(key, int(self._start[word]))], np.int64)

    def _with_all_words(self, text: str) -> IntArray:
        """Returns the names in which every word of a text begins a word, in any order."""
        words = [word.encode() for word in _WORD.findall(text)[:_MOST_WORDS]]
        if len(words) < 2:
            return np.empty(0, np.int64)
        names = np.unique(self._name[self._beginning(words[0])])
        for word in words[1:]:
            names = names[np.isin(names, self._name[self._beginning(word)])]
        return names

    def _containing(self, key: bytes) -> Iterator[int]:
        """Yields the names that contain a text anywhere."""
        place, left = self._text.find(key), _MOST_INSIDE
        while place >= 0 and left:
            yield int(np.searchsorted(self._name_start, place, "right")) - 1
            place, left = self._text.find(key, place + 1), left - 1

    def _shortest(self, names: IntArray, count: int, later: IntArray | None = None) -> list[int]:
        """Returns the ids of the shortest names; those marked as later come after all others."""
        ids = self._id[names].astype(np.int64)
        length = (self._name_end[names] - self._name_start[names]).astype(np.int64)
        cost = (length if later is None else length + later * len(self._text)) * (int(self._id.max(initial=0)) + 1) + ids
        few = np.argpartition(cost, 16 * count)[: 16 * count] if len(cost) > 32 * count else np.arange(len(cost))
        return list(dict.fromkeys(ids[few][np.argsort(cost[few])].tolist()))

    def _similar(self, text: str) -> list[int]:
        """Returns the names with a similar spelling, as a whole or in some of their words, the best first."""
        wanted = _bytes(text).decode(errors="replace")
        words = _WORD.findall(wanted)[:_MOST_WORDS]
        if not words or not len(self._id):
            return []
        shared = np.zeros(len(self._id), np.float32)
        for word in words:
            letters = np.frombuffer(word.encode(), np.uint8)
            pairs = _letter_pairs(letters, np.ones(len(letters), bool), np.zeros(1, np.int64))
            common = _bit_count(self._pairs & pairs[0]) / (self._pair_count + _bit_count(pairs)[0]) * 2
            similar = np.flatnonzero(common >= _LEAST_SHARED)
            best_word = np.zeros(len(self._id), np.float32)
            np.maximum.at(best_word, self._name[similar], common[similar])
            shared += best_word
        possible = np.flatnonzero(shared)
        if len(possible) > _CANDIDATES:
            possible = possible[np.argpartition(-shared[possible], _CANDIDATES)[:_CANDIDATES]]
        likeness = {name: self._similarity(wanted, len(words), name) for name in sorted(possible.tolist())}
        return sorted((name for name in likeness if likeness[name] >= _LEAST_SIMILAR), key=lambda name: -likeness[name])

    def _similarity(self, wanted: str, count: int, name: int) -> float:
        """Computes the similarity of a text and a name, from 0 to 1: of the whole name, or of as many adjacent words of it."""
        written = self._text[int(self._name_start[name]) : int(self._name_end[name])].decode(errors="replace")
        words = _WORD.findall(written)
        parts = {written: 1.0} | {" ".join(words[i : i + count]): _PART for i in range(len(words) - count + 1) if len(words) > count}
        matcher = difflib.SequenceMatcher(b=wanted, autojunk=False)
        best = 0.0
        for part, weight in parts.items():
            matcher.set_seq1(part)
            least = max(best, _LEAST_SIMILAR) / weight
            if matcher.real_quick_ratio() >= least and matcher.quick_ratio() >= least:  # bounds that are computed faster
                best = max(best, matcher.ratio() * weight)
        return best


def short_forms(identifiers: pa.StringArray) -> pa.StringArray:
    """Returns the `short_form` of each identifier of a column."""
    may_be = pc.match_substring(identifiers, ":")
    if not pc.any(may_be).as_py():
        return identifiers
    return pc.replace_with_mask(
        identifiers, may_be, pa.array([short_form(one) for one in identifiers.filter(may_be).to_pylist()], pa.string())
    )


def _compact(places: IntArray) -> IntArray:
    """Returns ascending places in as few bytes as they need."""
    return places.astype(np.int32) if not len(places) or places[-1] < 2**31 else places


def _compared(names: pa.StringArray) -> pa.StringArray:
    """Returns names as they are compared, each on one line."""
    ascii_ = pc.string_is_ascii(names)
    names = pc.replace_substring(names, "\n", " ")
    lower = pc.ascii_lower(names)
    if pc.all(ascii_).as_py() is not False:
        return lower
    others = pc.invert(ascii_)
    return pc.replace_with_mask(lower, others, pa.array([_bytes(one).decode() for one in names.filter(others).to_pylist()], pa.string()))


def _alphabetical(letters: IntArray, start: IntArray) -> IntArray:
    """Sorts words by their first bytes, eight at a time: after the first eight, only few are equal."""
    order = np.arange(len(start), dtype=np.int32)
    rank = np.zeros(len(start), np.int64)  # of each word: where its group of words that are equal so far begins
    equal = order  # the words that are equal to others so far
    for place in range(0, _KEY, 8):
        if not len(equal):
            break
        key: IntArray = np.zeros(len(equal), np.uint64)
        for byte in range(place, place + 8):
            key = (key << np.uint64(8)) | letters[start[equal] + byte]
        sorted_ = np.lexsort((key, rank[equal])) if place else np.argsort(key, kind="stable")
        equal, key = equal[sorted_], key[sorted_]
        group = rank[equal]
        new = np.ones(len(equal), bool)
        new[1:] = (group[1:] != group[:-1]) | (key[1:] != key[:-1])
        first_of_group = np.ones(len(equal), bool)
        first_of_group[1:] = group[1:] != group[:-1]
        begin = np.flatnonzero(first_of_group)
        within = np.arange(len(equal)) - np.repeat(begin, np.diff(begin, append=len(equal)))
        order[group + within] = equal
        first = np.flatnonzero(new)
        size = np.diff(first, append=len(equal))
        rank[equal] = np.repeat((group + within)[first], size)
        equal = equal[np.repeat(size > 1, size)]
    return order


def _bytes(text: str) -> bytes:
    """Returns a text in lower case and without accents, as it is compared."""
    text = text.casefold()
    if not text.isascii():
        text = _MARKS.sub("", unicodedata.normalize("NFD", text))
    return text.encode(errors="replace")


def _letter_pairs(letters: IntArray, in_words: IntArray, start: IntArray) -> IntArray:
    """Returns a bit set for each word, with a bit for each pair of adjacent letters; the first letter counts as a pair, too."""
    found = np.zeros(len(start), np.uint64)
    for chunk in range(0, len(start), _CHUNK):
        starts = start[chunk : chunk + _CHUNK]
        begin = int(starts[0])
        end = int(start[chunk + _CHUNK]) if chunk + _CHUNK < len(start) else len(letters)
        before = np.zeros(end - begin, np.int64)
        before[1:] = letters[begin : end - 1] * in_words[begin : end - 1]
        bits = np.left_shift(np.uint64(1), ((before * 37 + letters[begin:end] * np.int64(101)) >> 1 & 63).astype(np.uint64))
        found[chunk : chunk + _CHUNK] = np.bitwise_or.reduceat(bits * in_words[begin:end], starts - begin)
    return found


def _bit_count(bits: IntArray) -> IntArray:
    """Counts the ones in each number."""
    if hasattr(np, "bitwise_count"):  # NumPy counts them itself from 2.0 on
        counted: IntArray = np.bitwise_count(bits)
        return counted
    unpacked: IntArray = np.unpackbits(bits.view(np.uint8).reshape(-1, 8), axis=1)
    return np.asarray(unpacked.sum(1))
