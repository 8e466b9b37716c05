"""From rows of identifiers to a graph in canonical form."""

import dataclasses
from collections.abc import Iterable
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from starqe.errors import InputError
from starqe.kg.graph import Graph
from starqe.kg.names import Names
from starqe.kg.statement import SPLITS, Statement
from starqe.kg.vocabulary import Vocabulary

Kind = Literal["entity", "relation"]


class Draft:
    """Collects statements in any order and number, then makes the graph.

    A statement comes as a row of fields: head, relation, tail, then relation and value of each pair. So the fields at
    even positions are entities and the ones at odd positions relations.
    """

    def __init__(self) -> None:
        self._ids: tuple[dict[str, int], dict[str, int]] = ({}, {})  # entities, relations
        self._codes: list[np.ndarray] = []
        self._lengths: list[np.ndarray] = []
        self._split: list[np.ndarray] = []
        self._labels: dict[tuple[str, str, Kind | None], str] = {}
        self.duplicates = 0
        """After `finish`: how many statements stood more than once in a split, and were merged."""
        self.idle_labels = 0
        """After `finish`: how many labels name nothing that occurs in a statement, and were left out."""

    def __len__(self) -> int:
        return sum(map(len, self._lengths))

    def add(self, rows: Iterable[list[str]], split: str) -> None:
        """Adds statements that are known to be well-formed."""
        rows = list(rows)
        fields = pa.array([field for row in rows for field in row], pa.string())
        self.add_columns(fields.dictionary_encode(), np.fromiter(map(len, rows), np.int64, len(rows)), split)

    def add_columns(self, fields: pa.DictionaryArray, lengths: np.ndarray, split: str) -> None:
        """Adds well-formed statements from one flat column of fields and the number of fields of each."""
        starts = np.cumsum(lengths) - lengths
        odd = np.repeat(starts % 2 == 1, lengths)
        odd[1::2] ^= True  # from "begins at an odd place" to "stands at an odd place of its statement"
        words, local = fields.dictionary.to_pylist(), fields.indices.to_numpy()
        codes = np.empty(len(fields), np.int32)
        for mine, ids in ((~odd, self._ids[0]), (odd, self._ids[1])):
            place = local[mine]
            used = np.flatnonzero(np.bincount(place, minlength=len(words)))
            table = np.empty(len(words), np.int32)
            table[used] = [ids.setdefault(words[word], len(ids)) for word in used.tolist()]
            codes[mine] = table[place]
        self._codes.append(codes)
        self._lengths.append(lengths)
        self._split.append(np.full(len(lengths), SPLITS.index(split), np.int8))

    def label(self, identifier: str, text: str, language: str = "", kind: Kind | None = None) -> None:
        """Notes a label, of an entity or a relation where that is known; of several in one language the first stays."""
        self._labels.setdefault((identifier, language, kind), text)

    def finish(self, names: Names | None = None) -> Graph:
        """Makes the graph; ``names`` says how its identifiers are written in RDF.

        Raises:
            InputError: There is no statement at all.
        """
        if not len(self):
            raise InputError("a graph has at least one statement, found none")
        codes, lengths, split = np.concatenate(self._codes), np.concatenate(self._lengths), np.concatenate(self._split)
        entities, entity_ids = _in_order(self._ids[0])
        relations, relation_ids = _in_order(self._ids[1])
        starts = np.cumsum(lengths) - lengths
        offsets = np.concatenate([[0], np.cumsum((lengths - 3) // 2)])
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
            offsets,
            relation_ids[pairs[:, 0]],
            entity_ids[pairs[:, 1]],
        )
        used = graph.entities._ids.keys() | graph.relations._ids.keys() if self._labels else ()
        self.idle_labels = sum(identifier not in used for identifier, _, _ in self._labels)
        return dataclasses.replace(graph, names=names or Names())

    def _labels_of(self, identifiers: pa.StringArray, kind: Kind) -> dict[str, dict[int, str]]:
        """Gives the labels of one kind; what has none of its own takes one that was given without a kind, or for the other."""
        if not self._labels:
            return {}
        ids = {identifier: id_ for id_, identifier in enumerate(identifiers.to_pylist())}
        labels: dict[str, dict[int, str]] = {}
        own_first = sorted(self._labels.items(), key=lambda item: (item[0][2] != kind, item[0][2] is not None))
        for (identifier, language, _), text in own_first:
            if identifier in ids:
                labels.setdefault(language, {}).setdefault(ids[identifier], text)
        return labels


def graph_of(train: Iterable[Statement] = (), valid: Iterable[Statement] = (), test: Iterable[Statement] = ()) -> Graph:
    """Builds a graph from statements by split."""
    draft = Draft()
    for split, statements in zip(SPLITS, (train, valid, test), strict=True):
        draft.add((statement.fields() for statement in statements), split)
    return draft.finish()


def with_split(graph: Graph, split: np.ndarray) -> Graph:
    """Gives the graph with another split column; statements that become equal within a split are merged."""
    columns = graph.head, graph.relation, graph.tail, split.astype(np.int8), graph.offsets, graph.pair_relation, graph.pair_value
    return dataclasses.replace(canonical(graph.entities, graph.relations, *columns)[0], names=graph.names)


def _in_order(ids: dict[str, int]) -> tuple[pa.StringArray, np.ndarray]:
    """Sorts identifiers by their bytes; also gives the new id of each old one."""
    identifiers = pa.array(ids, pa.string())
    order = pc.sort_indices(identifiers.cast(pa.binary())).to_numpy()
    new = np.empty(len(order), np.int32)
    new[order] = np.arange(len(order), dtype=np.int32)
    return identifiers.take(pa.array(order)), new


def _order(*columns: np.ndarray) -> np.ndarray:
    """Gives the order by the columns, the first one first; packed into one number where they fit, which sorts much faster."""
    bits = [int(column.max(initial=0)).bit_length() for column in columns]
    if sum(bits) > 63:
        return np.lexsort(columns[::-1])
    key = np.zeros(len(columns[0]), np.int64)
    for column, width in zip(columns, bits, strict=True):
        key = (key << width) | column
    return np.argsort(key)


def canonical(
    entities: Vocabulary,
    relations: Vocabulary,
    head: np.ndarray,
    relation: np.ndarray,
    tail: np.ndarray,
    split: np.ndarray,
    offsets: np.ndarray,
    pair_relation: np.ndarray,
    pair_value: np.ndarray,
) -> tuple[Graph, int]:
    """Sorts statements and pairs, and merges what stands twice in one split; also says how many that were."""
    count = len(head)
    # The pairs of each statement: sorted, each once.
    owner = np.repeat(np.arange(count), np.diff(offsets))
    code = pair_relation.astype(np.int64) * max(len(entities), 1) + pair_value
    order = _order(owner, code)
    owner, code = owner[order], code[order]
    fresh = np.ones(len(code), bool)
    fresh[1:] = (owner[1:] != owner[:-1]) | (code[1:] != code[:-1])
    owner, code = owner[fresh], code[fresh]
    starts = np.searchsorted(owner, np.arange(count + 1))

    # The statements: by split and main triple, and only where those tie, by their pairs.
    order = _order(split, head, relation, tail)
    first_of_group = np.ones(count, bool)
    first_of_group[1:] = np.any([np.diff(column[order]) != 0 for column in (split, head, relation, tail)], axis=0)
    group_start = np.flatnonzero(first_of_group)
    group_size = np.diff(group_start, append=count)
    keep = np.ones(count, bool)
    for start, size in zip(group_start[group_size > 1].tolist(), group_size[group_size > 1].tolist(), strict=True):
        group = slice(start, start + size)
        keyed = sorted((tuple(code[starts[row] : starts[row + 1]].tolist()), row) for row in order[group].tolist())
        order[group] = [row for _, row in keyed]
        keep[start + 1 : start + size] = [one[0] != other[0] for one, other in zip(keyed[1:], keyed[:-1], strict=True)]
    order = order[keep]

    lengths = np.diff(starts)[order]
    new_offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    within = np.arange(new_offsets[-1]) - np.repeat(new_offsets[:-1], lengths)
    code = code[np.repeat(starts[:-1][order], lengths) + within]
    graph = Graph(
        entities,
        relations,
        head[order].astype(np.int32),
        relation[order].astype(np.int32),
        tail[order].astype(np.int32),
        split[order].astype(np.int8),
        new_offsets,
        (code // max(len(entities), 1)).astype(np.int32),
        (code % max(len(entities), 1)).astype(np.int32),
    )
    return graph, count - len(order)
