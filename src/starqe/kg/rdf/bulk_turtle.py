"""Reads plain Turtle and TriG in bulk: whole arrays cut a block into triples, and every different term of a block is looked at once.

Plain is what programs write: white space between tokens (a full stop, semicolon or comma may follow a term directly), strings on one
line, comments on lines of their own, annotation blocks that are not nested, prefixes at the beginning. From the first block with anything
else on, a document is left to the parser, and so is every new term that is not of the plainest kind. Therefore both ways accept the same
documents.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, RdfFormat, parse

from starqe.kg.iris import TYPE
from starqe.kg.rdf.bulk_lines import IRI, LABEL, PLAIN, STRING, GraphName, NumberedTriples, matches
from starqe.kg.rdf.nesting import MAX_NAME
from starqe.kg.rdf.numbered_terms import Terms
from starqe.kg.rdf.turtle_tokens import Structure, structure_of, tokens_of
from starqe.ragged import BoolArray, IntArray

PLAIN_BLOCK = 2**22
"""Number of bytes read at a time: a token needs much more memory than its text."""
_NAME = r'[^\x00-\x20<>"\'{}|^`\\#,;()\[\]@:]*:[^\x00-\x20<>"\'{}|^`\\#,;()\[\]@]*'
_NUMBER = r"[+-]?(?:[0-9]+|[0-9]*\.[0-9]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]+)"
_WORD = rf"\A(?:{IRI}|{LABEL}|{_NAME}|{STRING}(?:@[A-Za-z]+(?:-[A-Za-z0-9]+)*|\^\^(?:{IRI}|{_NAME}))?|{_NUMBER}|true|false)\z"
"""A term that the parser is asked about: if it accepts such a text at all, then as one term."""
_PREFIX = r"(?:[A-Za-z][A-Za-z0-9_-]*)?:"
_PLAIN_NAME = rf"\A{_PREFIX}(?:[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?)?\z"
"""A prefixed name that needs no parser if its prefix is known: together with a plain prefix it makes a plain IRI."""
_DECLARED = rf"({_PREFIX})[ \t]++(<[^<>\s]*>)"
_DECLARATION = re.compile(rf"\s*+(?:@prefix[ \t]++{_DECLARED}[ \t]*+\.|(?i:PREFIX)[ \t]++{_DECLARED})(?=\s)".encode())
_PLAIN_IRI = re.compile(PLAIN.removeprefix(r"\A").removesuffix(r"\z").encode())
_COMMENT_LINE = re.compile(rb"^[ \t]*+#[^\n]*+", re.MULTILINE)
_COMMENTS, _LONG_STRINGS = (b"\n#", b" #", b"\t#"), (b'"""', b"'''")


@dataclass(frozen=True)
class NumberedTurtle(NumberedTriples):
    """The triples of a block, and its labels."""

    labels: list[tuple[str, int, Literal]]
    """The IRI of the predicate, the number of the subject, and the label; in the order of the document."""


_NO_NUMBERS = np.empty(0, np.int32)
_NOTHING = NumberedTurtle(_NO_NUMBERS.reshape(0, 3), _NO_NUMBERS, _NO_NUMBERS.reshape(0, 4), _NO_NUMBERS, [DefaultGraph()], [])


class PlainTurtle:
    """A document that is read block by block, as long as it is plain."""

    def __init__(self, trig: bool, terms: Terms, labels: Collection[str]) -> None:
        """Begins a document.

        Args:
            trig: Whether there may be named graphs.
            terms: Where terms get their numbers.
            labels: Predicates whose literals are labels: these are no terms.
        """
        self._trig, self._terms, self._labels = trig, terms, frozenset(labels)
        self._prefixes: dict[bytes, bytes] = {}  # with the colon -> IRI
        self._graph: GraphName | None = None  # the one that is open

    @property
    def context(self) -> bytes:
        """The text that a parser needs before the next block, on one line."""
        declared = b"".join(b"@prefix %b <%b> . " % item for item in self._prefixes.items())
        if self._graph is None:
            return declared
        return declared + (b"{ " if isinstance(self._graph, DefaultGraph) else f"{self._graph} {{ ".encode())

    def number(self, block: bytes) -> NumberedTurtle | None:
        """Numbers the terms of the next block; returns None if it is not plain, or does not end with a statement."""
        if (block.startswith(b"#") or any(mark in block for mark in _COMMENTS)) and not any(mark in block for mark in _LONG_STRINGS):
            block = _COMMENT_LINE.sub(b"", block)
        declared = self._declarations(block)
        if declared is None:
            return None
        prefixes, start = declared
        text = block[start:]
        tokens = tokens_of(text)
        if tokens is None or (tokens.ends - tokens.starts).max(initial=0) > MAX_NAME:
            return None
        if not len(tokens.kinds):
            self._prefixes = prefixes
            return _NOTHING
        found = structure_of(tokens.kinds, self._trig, self._graph is not None)
        if found is None:
            return None
        codes, words = tokens.words(text)
        texts = _Texts(words, prefixes)
        graphs = self._graphs(codes, texts, found)
        numbered = graphs and self._numbered(codes, texts, found, graphs)
        if not graphs or not numbered:
            return None
        self._prefixes, self._graph = prefixes, graphs[-1] if found.is_open else None
        return numbered

    def _declarations(self, block: bytes) -> tuple[dict[bytes, bytes], int] | None:
        """Returns all prefixes, and the place after those at the beginning of a block; None if one is not plain."""
        prefixes, start = dict(self._prefixes), 0
        while found := _DECLARATION.match(block, start):
            name, iri = found[1] or found[3], found[2] or found[4]
            if self._graph is not None or not _PLAIN_IRI.fullmatch(iri) or iri[-2:-1] not in (b"/", b"#", b":"):
                return None
            prefixes[name], start = iri[1:-1], found.end()
        return prefixes, start

    def _graphs(self, codes: IntArray, texts: "_Texts", found: Structure) -> list[GraphName] | None:
        """Returns the graphs of a block: that of triples outside braces, the one that is open before, and those that begin."""
        graphs: list[GraphName] = [DefaultGraph(), self._graph or DefaultGraph()]
        for place, terms in zip(found.begins.tolist(), found.names.tolist(), strict=True):
            name = texts.node(int(codes[place - 1])) if terms else DefaultGraph()
            if name is None or (terms == 2 and texts.words[int(codes[place - 2])].as_py().upper() != b"GRAPH"):
                return None
            graphs.append(name)
        return graphs

    def _numbered(self, codes: IntArray, texts: "_Texts", found: Structure, graphs: list[GraphName]) -> NumberedTurtle | None:
        subjects, predicates, objects = found.triples[:, 0], codes[found.triples[:, 1]], codes[found.triples[:, 2]]
        in_block = subjects < 0  # the subject is the reifier
        heads = codes[subjects[~in_block]]
        is_label = texts.are(self._labels)[predicates] & texts.is_literal[objects]
        no_node, no_relation = texts.is_literal | texts.is_type, texts.is_literal | texts.is_blank
        if no_node[heads].any() or no_relation[predicates].any() or texts.is_type[objects].any() or is_label[found.reified].any():
            return None
        labels = texts.parsed(objects[is_label])
        numbers = None if labels is None else texts.numbers(np.concatenate([heads, predicates[~is_label], objects[~is_label]]), self._terms)
        if labels is None or numbers is None:
            return None
        triples = np.empty((len(in_block), 3), np.int32)
        triples[:, 1], triples[:, 2] = numbers[predicates], numbers[objects]
        triples[~in_block, 0] = numbers[heads]
        reifiers = self._terms.add_unnamed(len(found.reified))
        triples[in_block, 0] = reifiers[-1 - subjects[in_block]]
        graph = found.graph + 1
        names = [texts.keys[code].as_py() for code in predicates[is_label].tolist()]
        return NumberedTurtle(
            triples=triples[~is_label],
            graph=graph[~is_label],
            reified=np.column_stack([reifiers, triples[found.reified]]),
            reified_graph=graph[found.reified],
            graphs=graphs,
            labels=list(zip(names, triples[is_label, 0].tolist(), labels, strict=True)),  # type: ignore[arg-type]
        )


class _Texts:
    """The different words of a block. W words."""

    def __init__(self, words: pa.BinaryArray, prefixes: dict[bytes, bytes]) -> None:
        self.words, self._prefixes = words, prefixes
        is_plain, is_name = pa.array(matches(words, PLAIN)), pa.array(matches(words, _PLAIN_NAME))
        is_blank, is_type = pc.starts_with(words, b"_:"), pc.equal(words, b"a")
        keys = pc.if_else(is_blank, words, pc.binary_slice(words, 1, -1))
        for prefix, iri in prefixes.items():
            has_prefix = pc.and_(is_name, pc.starts_with(words, prefix))
            if pc.any(has_prefix).as_py():
                keys = pc.if_else(has_prefix, pc.binary_replace_slice(words, 0, len(prefix), iri), keys)
                is_plain = pc.or_(is_plain, has_prefix)
        keys, is_plain = pc.if_else(is_type, TYPE.encode(), keys), pc.or_(is_plain, is_type)
        self.keys = pc.if_else(is_plain, keys, None).cast(pa.string())
        """(W,) the texts by which `Terms` knows the words that need no parser; null for the others."""
        self._is_plain: BoolArray = is_plain.to_numpy(zero_copy_only=False)
        self.is_blank: BoolArray = is_blank.to_numpy(zero_copy_only=False)
        self.is_type: BoolArray = is_type.to_numpy(zero_copy_only=False)
        """(W,) whether a word is ``a``, which is a predicate only."""
        self.is_literal: BoolArray = matches(words, r'\A(?:["+.0-9-]|true\z|false\z)')

    def are(self, iris: Collection[str]) -> BoolArray:
        """Returns for each word whether it is one of some IRIs: (W,)."""
        found: BoolArray = pc.is_in(self.keys, pa.array(iris, pa.string())).to_numpy(zero_copy_only=False)
        return found

    def node(self, code: int) -> NamedNode | BlankNode | None:
        """Returns the node that a plain word is; None for other words."""
        key = self.keys[code].as_py()
        if key is None or self.is_type[code]:
            return None
        return BlankNode(key[2:]) if self.is_blank[code] else NamedNode(key)

    def parsed(self, codes: IntArray) -> list[NamedNode | BlankNode | Literal] | None:
        """Parses some words; None if one of them is no term."""
        if not len(codes):
            return []
        words = self.words.take(pa.array(codes))
        if not matches(words, _WORD).all():
            return None
        declared = b"".join(b"@prefix %b <%b> .\n" % item for item in self._prefixes.items())
        text = declared + b"".join(b"<a:a> <a:a> %b .\n" % word for word in words.to_pylist())
        try:
            terms = [quad.object for quad in parse(text, format=RdfFormat.TURTLE)]
        except (SyntaxError, MemoryError):
            return None
        is_same = len(terms) == len(codes) and [type(term) is Literal for term in terms] == self.is_literal[codes].tolist()
        return terms if is_same else None

    def numbers(self, codes: IntArray, terms: Terms) -> IntArray | None:
        """Returns the numbers of some words, and -1 for the others: (W,). None if one of them is no term, or no identifier."""
        used = np.flatnonzero(np.bincount(codes, minlength=len(self.words)))
        plain, others = used[self._is_plain[used]], used[~self._is_plain[used]]
        parsed = self.parsed(others)
        if parsed is None:
            return None
        numbers = np.full(len(self.words), -1, np.int32)
        numbers[plain] = terms.numbers(self.keys.take(pa.array(plain)).to_pylist(), None)
        numbers[others] = [terms.number(term, None) for term in parsed]
        return None if terms.unfit and np.isin(numbers, list(terms.unfit)).any() else numbers
