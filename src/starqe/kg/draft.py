"""From rows of identifiers to a graph in canonical form."""

import dataclasses
from collections.abc import Iterable
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
from starqe.ragged import IntArray, Ragged

Kind = Literal["entity", "relation"]
LabelKey = tuple[str, str, Kind | None]
"""What a label belongs to: identifier, language, and kind if that is known."""


class Draft:
    """Collects statements in any order, then builds the graph.

    A statement is a row of fields: head, relation, tail, then relation and value of each pair. So fields at
    even positions are entities (or literals, by their keys), and fields at odd positions are relations.
    """

    def __init__(self) -> None:
        self._ids: tuple[dict[str, int], dict[str, int]] = ({}, {})  # entities, relations
        self._codes: list[IntArray] = []
        self._lengths: list[IntArray] = []
        self._split: list[IntArray] = []
        self.labels: dict[LabelKey, str] = {}
        self.duplicates = 0
        """After `finish`: the number of duplicate statements within a split, which were merged."""
        self.idle_labels = 0
        """After `finish`: the number of labels of identifiers that occur in no statement, which were left out."""

    def __len__(self) -> int:
        return sum(map(len, self._lengths))

    def add(self, rows: Iterable[list[str]], split: str) -> None:
        """Adds statements that are known to be well-formed."""
        rows = list(rows)
        fields = pa.array([field for row in rows for field in row], pa.string())
        self.add_columns(fields.dictionary_encode(), np.fromiter(map(len, rows), np.int64, len(rows)), split)

    def add_columns(self, fields: pa.DictionaryArray, lengths: IntArray, split: str) -> None:
        """Adds well-formed statements from one flat column of fields and the number of fields of each."""
        starts = np.cumsum(lengths) - lengths
        odd = np.repeat(starts % 2 == 1, lengths)
        odd[1::2] ^= True  # from "its statement begins at an odd position" to "at an odd position in its statement"
        words, local = fields.dictionary.to_pylist(), fields.indices.to_numpy()
        codes = np.empty(len(fields), np.int32)
        for chosen, ids in ((~odd, self._ids[0]), (odd, self._ids[1])):
            place = local[chosen]
            used = np.flatnonzero(np.bincount(place, minlength=len(words)))
            table = np.empty(len(words), np.int32)
            table[used] = [ids.setdefault(words[word], len(ids)) for word in used.tolist()]
            codes[chosen] = table[place]
        self._codes.append(codes)
        self._lengths.append(lengths)
        self._split.append(np.full(len(lengths), SPLITS.index(split), np.int8))

    def mentions(self, identifier: str) -> bool:
        """Returns whether an identifier occurs in a statement."""
        return identifier in self._ids[0] or identifier in self._ids[1]

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
        codes, lengths, split = np.concatenate(self._codes), np.concatenate(self._lengths), np.concatenate(self._split)
        values, entity_ids = _in_order(self._ids[0])
        # The keys of literals begin with a control character, so they come first; their ids come last.
        literals = pc.sum(pc.starts_with(values, MARK)).as_py() or 0
        entities = values[literals:]
        entity_ids = np.where(entity_ids < literals, entity_ids + len(entities), entity_ids - literals)
        relations, relation_ids = _in_order(self._ids[1])
        starts = np.cumsum(lengths) - lengths
        of_pair = np.ones(len(codes), bool)
        for place in range(3):
            of_pair[starts + place] = False
        pairs = codes[of_pair].reshape(-1, 2)  # (P, 2)
        graph, self.duplicates = canonical(
            Vocabulary(entities, self._labels_of(entities, "entity")),
            Vocabulary(relations, self._labels_of(relations, "relation")),
            entity_ids[codes[starts]],
            relation_ids[codes[starts + 1]],
            entity_ids[codes[starts + 2]],
            split,
            Ragged.of_counts((lengths - 3) // 2, np.stack([relation_ids[pairs[:, 0]], entity_ids[pairs[:, 1]]], axis=1)),
            Literals(values[:literals]) if literals else NO_LITERALS,
        )
        used = graph.entities._ids.keys() | graph.relations._ids.keys() if self.labels else ()
        self.idle_labels = sum(identifier not in used for identifier, _, _ in self.labels)
        return dataclasses.replace(graph, names=names or Names())

    def _labels_of(self, identifiers: pa.StringArray, kind: Kind) -> dict[str, dict[int, str]]:
        """Returns the labels of one kind; an identifier without one takes a label of unknown kind, or of the other kind."""
        if not self.labels:
            return {}
        ids = {identifier: id_ for id_, identifier in enumerate(identifiers.to_pylist())}
        labels: dict[str, dict[int, str]] = {}
        own_first = sorted(self.labels.items(), key=lambda item: (item[0][2] != kind, item[0][2] is not None))
        for (identifier, language, _), text in own_first:
            if identifier in ids:
                labels.setdefault(language, {}).setdefault(ids[identifier], text)
        return labels


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


def _in_order(ids: dict[str, int]) -> tuple[pa.StringArray, IntArray]:
    """Sorts identifiers by their bytes; also returns the new id of each old one."""
    identifiers = pa.array(ids, pa.string())
    order = pc.sort_indices(identifiers.cast(pa.binary())).to_numpy()
    new = np.empty(len(order), np.int32)
    new[order] = np.arange(len(order), dtype=np.int32)
    return identifiers.take(pa.array(order)), new
