"""Cuts plain Turtle and TriG into tokens, and tokens into triples, by work on whole arrays.

Nothing here looks at terms: whoever uses the triples has to check that every term is one, and that no token is none.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from starqe.ragged import BoolArray, IntArray

TERM, STOP, NEXT, COMMA, OPEN, CLOSE, TILDE, BEGIN, END = range(9)
"""Kinds of tokens: a term (or anything else), and the marks ``.``, ``;``, ``,``, ``{|``, ``|}``, ``~``, ``{`` and ``}``."""
_MARKS = np.zeros(256, np.int8)
_MARKS[list(b".;,~{}")] = STOP, NEXT, COMMA, TILDE, BEGIN, END
_ENDS_TERM = np.isin(np.arange(256), list(b".;,"))
_SPACE = np.isin(np.arange(256), list(b" \t\r\n"))
_EXPECTED = np.array([0, 3, 2, 1, 2, 0, 0, 3, 3])
"""The number of terms between a mark and the end of the triple after it."""


def _kinds(*kinds: int) -> BoolArray:
    return np.isin(np.arange(len(_EXPECTED)), kinds)


_STARTS = _kinds(STOP, BEGIN, END)
"""The marks before a new subject."""
_AFTER_REIFIER = _kinds(STOP, NEXT, COMMA, TILDE, END)
_REIFIER, _BLOCK, _GRAPH, _CONTINUES = _kinds(OPEN, TILDE), _kinds(CLOSE, TILDE), _kinds(BEGIN, END), _kinds(NEXT, COMMA)


@dataclass(frozen=True)
class Tokens:
    """The tokens of a text. N tokens."""

    starts: IntArray  # (N,)
    ends: IntArray  # (N,)
    kinds: IntArray  # (N,)

    def words(self, text: bytes) -> tuple[IntArray, pa.BinaryArray]:
        """Returns for each token its place among the different terms (for marks, any number), and these terms."""
        is_term = self.kinds == TERM
        starts, ends = self.starts[is_term], self.ends[is_term]
        offsets = np.empty(2 * len(starts), np.int32)  # every second piece is what is between two terms
        offsets[0::2], offsets[1::2] = starts, ends
        pieces = pa.Array.from_buffers(pa.binary(), max(len(offsets) - 1, 0), [None, pa.py_buffer(offsets), pa.py_buffer(text)])
        encoded = pieces.dictionary_encode()
        codes = np.zeros(len(is_term), np.int32)
        codes[is_term] = encoded.indices.to_numpy()[0::2]
        return codes, encoded.dictionary


def tokens_of(text: bytes) -> Tokens | None:
    """Cuts a text at white space outside strings, and before full stops, semicolons and commas at the end of a word.

    Returns None if a line ends in a string, or if there are control characters.
    """
    data = np.frombuffer(text, np.uint8)
    spaces = np.flatnonzero(data <= ord(" "))
    if not _SPACE[data[spaces]].all():
        return None
    if b'"' in text:
        in_string = np.searchsorted(quotation_marks(data, b'\\"' in text), spaces) % 2 == 1
        if (data[spaces[in_string]] < ord(" ")).any():
            return None
        spaces = spaces[~in_string]
    edges = np.concatenate([[-1], spaces, [len(data)]])
    is_token = np.diff(edges) > 1
    starts, ends = edges[:-1][is_token] + 1, edges[1:][is_token]
    marked = (ends - starts > 1) & _ENDS_TERM[data[ends - 1]]
    if marked.any():
        marks = ends[marked]
        ends[marked] -= 1
        starts, ends = np.sort(np.concatenate([starts, marks - 1])), np.sort(np.concatenate([ends, marks]))
    length, first = ends - starts, data[starts]
    kinds = np.where(length == 1, _MARKS[first], np.int8(TERM))
    twos = np.flatnonzero(length == 2)
    second = data[starts[twos] + 1]
    kinds[twos[(first[twos] == ord("{")) & (second == ord("|"))]] = OPEN
    kinds[twos[(first[twos] == ord("|")) & (second == ord("}"))]] = CLOSE
    return Tokens(starts, ends, kinds)


def quotation_marks(data: IntArray, some_escaped: bool) -> IntArray:
    """Returns the places of quotation marks that no backslash escapes."""
    marks = np.flatnonzero(data == ord('"'))
    if not some_escaped:
        return marks
    slashes = np.flatnonzero(data == ord("\\"))
    order = np.arange(len(slashes))
    begins = np.maximum.accumulate(np.where(np.diff(slashes, prepend=-2) > 1, order, 0))
    escaping = slashes[(order - begins) % 2 == 0]  # every second one of a row of backslashes
    return np.setdiff1d(marks, escaping + 1, assume_unique=True)


@dataclass(frozen=True)
class Structure:
    """The triples of a text, by places of tokens. T triples · R reifiers: annotation blocks, and ``~`` without a name · G graphs."""

    triples: IntArray  # (T, 3) subject, predicate, object; in an annotation block, the subject is -1 minus the place of its reifier
    graph: IntArray  # (T,) the graph in which it is: 0 is the one that was open before the text, i is the i-th that begins here, -1: none
    reified: IntArray  # (R,) the triple that each reifier is about
    begins: IntArray  # (G,) the tokens ``{``
    names: IntArray  # (G,) the number of terms before them
    is_open: bool
    """Whether a graph is open at the end."""


def structure_of(kinds: IntArray, trig: bool, is_open: bool) -> Structure | None:
    """Finds the triples of a text that consists of whole statements; None if it does not, or if annotation blocks are nested.

    Args:
        kinds: Its tokens.
        trig: Whether there may be graphs.
        is_open: Whether the text begins within a graph.
    """
    marks = np.flatnonzero(kinds)
    if not len(marks) or marks[-1] != len(kinds) - 1:
        return None
    now = kinds[marks]
    before, previous = np.append(np.int8(STOP), now[:-1]), np.append(-1, marks[:-1])
    count = marks - previous - 1  # the terms before each mark
    opened = np.append(0, np.cumsum((now == OPEN).astype(np.int64) - (now == CLOSE)))
    graphs = np.append(0, np.cumsum((now == BEGIN).astype(np.int64) - (now == END))) + is_open
    closes = (count == _EXPECTED[before]) & (count > 0) & (now != BEGIN)  # whether a mark ends a triple
    if not _is_plain(now, before, count, closes, opened, graphs, trig):
        return None
    rows = np.flatnonzero(closes)
    in_block = opened[rows] == 1
    predicate = np.where(before[rows] == COMMA, -1, marks[rows] - 2)
    for part in (in_block, ~in_block):  # after a comma, the predicate is the last one in the same block or outside
        predicate[part] = np.maximum.accumulate(predicate[part])
    subject = np.maximum.accumulate(np.where(_STARTS[before], previous, -1))[rows] + 1
    reifies = _REIFIER[now]
    subject[in_block] = -np.cumsum(reifies)[rows[in_block]]
    main = np.flatnonzero(~in_block)
    begun = np.cumsum(now == BEGIN)
    return Structure(
        triples=np.stack([subject, predicate, marks[rows] - 1], axis=1),
        graph=np.where(graphs[rows] == 1, begun[rows], -1),
        reified=main[np.searchsorted(rows[main], np.flatnonzero(reifies), "right") - 1],
        begins=marks[now == BEGIN],
        names=count[now == BEGIN],
        is_open=bool(graphs[-1]),
    )


def _is_plain(now: IntArray, before: IntArray, count: IntArray, closes: BoolArray, opened: IntArray, graphs: IntArray, trig: bool) -> bool:
    """Returns whether every mark may be where it is, given the mark before it and the number of terms between them."""
    if (not trig and _GRAPH[now].any()) or min(opened.min(), graphs.min()) < 0 or max(opened.max(), graphs.max()) > 1:
        return False
    no_terms = count == 0
    follows = _BLOCK[before] & no_terms & (_AFTER_REIFIER[now] | ((before == CLOSE) & (now == OPEN)))  # a block after ~ is of that reifier
    begins = (now == BEGIN) & _STARTS[before] & (before != BEGIN) & (count <= 2)
    ends = (now == END) & _STARTS[before] & (before != END) & no_terms
    in_block = opened[:-1] == 1
    return bool(((closes | follows | begins | ends) & ((in_block == (now == CLOSE)) | _CONTINUES[now])).all())
