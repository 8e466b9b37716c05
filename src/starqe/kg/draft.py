"""From rows of identifiers to a graph in canonical form."""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from starqe.errors import InputError
from starqe.kg.graph import Graph, canonical
from starqe.kg.iris import Names
from starqe.kg.literal import MARK
from starqe.kg.literals import NO_LITERALS, Literals
from starqe.kg.statement import SPLITS, Statement, field_text
from starqe.kg.vocabulary import Vocabulary
from starqe.ragged import BoolArray, IntArray, Ragged
from starqe.texts import TextArray, alike, as_bytes, text_array

Kind = Literal["entity", "relation"]
LabelKey = tuple[str, str, Kind | None]
"""What a label belongs to: identifier, language, and kind if that is known."""

MERGED = 16
"""The number of parts of about equal size that become one: a field is numbered anew log(parts) times, not for every part."""


class Draft:
    """Collects statements in any order, then builds the graph.

    A statement is a row of fields: head, relation, tail, then relation and value of each pair. So fields at
    even positions are entities (or literals, by their keys), and fields at odd positions are relations.
    """

    def __init__(self) -> None:
        self._levels: list[list[_Part]] = [[]]  # a part of level i + 1 is made of `MERGED` parts of level i
        self._count = 0
        self._words: Vocabulary | None = None
        self.labels: dict[LabelKey, str] = {}
        self.duplicates = 0
        """After `finish`: the number of duplicate statements within a split, which were merged."""
        self.idle_labels = 0
        """After `finish`: the number of labels of identifiers that occur in no statement, which were left out."""

    def __len__(self) -> int:
        return self._count

    def add(self, rows: Iterable[list[str]], split: str) -> None:
        """Adds statements that are known to be well-formed."""
        rows = list(rows)
        fields = pa.array([field for row in rows for field in row], pa.string())
        self.add_columns(fields.dictionary_encode(), np.fromiter(map(len, rows), np.int64, len(rows)), split)

    def add_columns(self, fields: pa.DictionaryArray, lengths: IntArray, split: str) -> None:
        """Adds well-formed statements from one flat column of fields and the number of fields of each."""
        starts, codes = np.cumsum(lengths) - lengths, fields.indices.to_numpy()
        of_pair = np.ones(len(codes), bool)
        for place in range(3):
            of_pair[starts + place] = False
        main = codes[starts], codes[starts + 1], codes[starts + 2]
        self.add_numbers(fields.dictionary, *main, Ragged.of_counts((lengths - 3) // 2, codes[of_pair].reshape(-1, 2)), split)

    def add_numbers(self, words: TextArray, head: IntArray, relation: IntArray, tail: IntArray, pairs: Ragged, split: str) -> None:
        """Adds well-formed statements by the numbers of their words; each word occurs once, and may be used by none."""
        if not len(head):
            return
        code, counts = np.full(len(head), SPLITS.index(split), np.int8), pairs.counts.astype(np.int32)
        part = _Part(words, head, relation, tail, code, counts, pairs.items)
        self._count += len(head)
        self._words = None
        self._levels[0].append(part)
        for level, parts in enumerate(self._levels):
            if len(parts) < MERGED:
                break
            if level + 1 == len(self._levels):
                self._levels.append([])
            self._levels[level + 1].append(_merged(parts))
            parts.clear()

    def mentions(self, identifier: str) -> bool:
        """Returns whether an identifier occurs in a statement."""
        if self._words is None:
            self._words = Vocabulary(self._whole().words)
        return identifier in self._words

    def label(self, identifier: str, text: str, language: str = "", kind: Kind | None = None) -> None:
        """Adds a label, of an entity or a relation if that is known; the first one per language is kept."""
        self.labels.setdefault((identifier, language, kind), text)

    def finish(self, names: Names | None = None) -> Graph:
        """Builds the graph; ``names`` says how its identifiers are written in RDF.

        Raises:
            InputError: There are no statements.
        """
        if not len(self):
            raise InputError("a graph has at least one statement, found none")
        whole = self._whole()
        order = pc.sort_indices(as_bytes(whole.words)).to_numpy()
        values, value_ids = _numbered(whole.words, order, [whole.head, whole.tail, whole.pairs[:, 1]])
        relations, relation_ids = _numbered(whole.words, order, [whole.relation, whole.pairs[:, 0]])
        # The keys of literals begin with a control character, so they come first; their ids come last.
        literals = pc.sum(pc.starts_with(values, MARK)).as_py() or 0
        entities = values[literals:]
        value_ids = np.where(value_ids < literals, value_ids + len(entities), value_ids - literals)
        of_entities, of_relations = self._labels_of(entities, relations)
        graph, self.duplicates = canonical(
            Vocabulary(entities, of_entities),
            Vocabulary(relations, of_relations),
            value_ids[whole.head],
            relation_ids[whole.relation],
            value_ids[whole.tail],
            whole.split,
            Ragged.of_counts(whole.counts, np.stack([relation_ids[whole.pairs[:, 0]], value_ids[whole.pairs[:, 1]]], axis=1)),
            Literals(values[:literals]) if literals else NO_LITERALS,
        )
        return dataclasses.replace(graph, names=names or Names())

    def _whole(self) -> "_Part":
        """Merges all parts into one."""
        parts = [part for level in self._levels for part in level]
        if len(parts) > 1:
            self._levels = [[], [_merged(parts)]]
            return self._levels[1][0]
        return parts[0]

    def _labels_of(self, *vocabularies: TextArray) -> list[dict[str, dict[int, str]]]:
        """Returns the labels of entities and relations; one without a label takes that of unknown kind, or of the other kind."""
        if not self.labels:
            return [{}, {}]
        keys = text_array([identifier for identifier, _, _ in self.labels])
        ids = [pc.fill_null(pc.index_in(keys.cast(vocabulary.type), vocabulary), -1).to_pylist() for vocabulary in vocabularies]
        self.idle_labels = sum(entity < 0 and relation < 0 for entity, relation in zip(*ids, strict=True))
        found: list[dict[str, dict[int, str]]] = []
        for kind, of_kind in zip(("entity", "relation"), ids, strict=True):
            labels: dict[str, dict[int, str]] = {}
            own_first = sorted(
                zip(self.labels.items(), of_kind, strict=True), key=lambda item: (item[0][0][2] != kind, item[0][0][2] is not None)
            )
            for ((_, language, _), text), id_ in own_first:
                if id_ >= 0:
                    labels.setdefault(language, {}).setdefault(id_, text)
            found.append(labels)
        return found


@dataclass(frozen=True, eq=False)
class _Part:
    """Some statements by numbers of their words. S statements · P pairs · W words."""

    words: TextArray  # (W,), each once
    head: IntArray  # (S,) int32
    relation: IntArray  # (S,)
    tail: IntArray  # (S,)
    split: IntArray  # (S,) int8
    counts: IntArray  # (S,) the number of pairs of each
    pairs: IntArray  # (P, 2)


def _merged(parts: Sequence[_Part]) -> _Part:
    """Lays parts end to end, with one numbering of their words."""
    words = pa.chunked_array(alike([part.words for part in parts])).dictionary_encode()
    numbers = [chunk.indices.to_numpy() for chunk in words.chunks]
    assert len(numbers) == len(parts)
    numbered = {
        name: np.concatenate([number[getattr(part, name)] for number, part in zip(numbers, parts, strict=True)])
        for name in ("head", "relation", "tail", "pairs")
    }
    split, counts = (np.concatenate([getattr(part, name) for part in parts]) for name in ("split", "counts"))
    return _Part(words.chunks[-1].dictionary, split=split, counts=counts, **numbered)


def _numbered(words: TextArray, order: IntArray, used: Sequence[IntArray]) -> tuple[TextArray, IntArray]:
    """Returns the words that some columns use, in this order, and the place of each word among them (for others, any number)."""
    is_used: BoolArray = np.zeros(len(words), bool)
    for column in used:
        is_used[column] = True
    in_order = is_used[order]
    ids = np.empty(len(words), np.int32)
    ids[order] = np.cumsum(in_order, dtype=np.int32) - 1
    return words.take(pa.array(order[in_order])), ids


def graph_of(train: Iterable[Statement] = (), valid: Iterable[Statement] = (), test: Iterable[Statement] = ()) -> Graph:
    """Builds a graph from statements by split."""
    draft = Draft()
    for split, statements in zip(SPLITS, (train, valid, test), strict=True):
        draft.add((list(map(field_text, statement.fields())) for statement in statements), split)
    return draft.finish()


def with_split(graph: Graph, split: IntArray) -> Graph:
    """Returns the graph with another split column; statements that become equal within a split are merged."""
    columns = graph.head, graph.relation, graph.tail, split.astype(np.int8), graph.pairs, graph.literals
    return dataclasses.replace(canonical(graph.entities, graph.relations, *columns)[0], names=graph.names, title=graph.title)
