"""Graphs that grow: statements are added and removed, and the ids of existing entities and relations do not change.

New entities and relations are appended in the byte order of their identifiers. One that no longer occurs keeps its id. So a model
of the old graph fits the new one: its rows are the first ones. Models have no rows for literals, whose ids follow the entities.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from starqe.errors import InputError
from starqe.kg.draft import Draft, LabelKey
from starqe.kg.graph import Graph, canonical, part_about, split_codes
from starqe.kg.literals import Literals
from starqe.kg.vocabulary import Vocabulary
from starqe.ragged import BoolArray, IntArray, Ragged
from starqe.texts import TextArray

Key = tuple[int, ...]
"""A statement without its split: head, relation, tail, then its sorted pairs."""
LITERALS = 2**30
"""The number of the first literal during an update, when entities may still be added."""


@dataclass(frozen=True)
class Changes:
    """What is added to a graph and removed from it."""

    added: tuple[Graph, ...] = ()
    removed: tuple[Graph, ...] = ()
    """Their statements are removed from every split, before others are added."""
    labels: Mapping[LabelKey, str] = field(default_factory=dict)
    """New labels: they replace those of the same language, and none is removed."""

    @classmethod
    def of(cls, added: Iterable[Graph | Draft] = (), removed: Iterable[Graph | Draft] = ()) -> "Changes":
        """Gathers changes; a draft may have labels and no statements."""
        parts: list[tuple[Graph, ...]] = []
        labels: dict[LabelKey, str] = {}
        for sources, labelled in ((list(added), True), (list(removed), False)):
            drafts = [source for source in sources if isinstance(source, Draft)]
            graphs = [source for source in sources if isinstance(source, Graph)]
            parts.append((*graphs, *(draft.finish() for draft in drafts if len(draft))))
            for source in sources if labelled else ():
                labels |= source.labels if isinstance(source, Draft) else _labels(source)
        return cls(parts[0], parts[1], labels)


@dataclass(frozen=True)
class UpdateReport:
    """What an update did."""

    added: int = 0
    """New statements."""
    repeated: int = 0
    """Statements to add that the graph has already, in any split."""
    removed: int = 0
    absent: int = 0
    """Statements to remove that the graph does not have, with exactly these qualifiers."""
    new_entities: int = 0
    new_relations: int = 0
    labels: int = 0
    """Labels that are new or changed."""
    idle_labels: int = 0
    """Labels of identifiers that the graph does not have."""
    held_out_triples: int = 0
    """New statements of train whose main triple is in valid or test, where a model should not have seen it."""

    def as_dict(self) -> dict[str, int]:
        """Returns the counts as JSON."""
        return asdict(self)

    def findings(self) -> list[str]:
        """Returns what a person should know, one line each."""
        counted = {
            "statements to add that the graph has already": self.repeated,
            "statements to remove that the graph does not have": self.absent,
            "labels of identifiers that the graph does not have": self.idle_labels,
            "new train statements whose main triple is in valid or test": self.held_out_triples,
        }
        return [f"{what}: {count:,}" for what, count in counted.items() if count]


def update_graph(graph: Graph, changes: Changes, split: str | None = None) -> tuple[Graph, UpdateReport]:
    """Returns the graph with statements removed and added; ids and splits of what stays are kept.

    Args:
        graph: The old graph.
        changes: What is removed, and then added.
        split: The split of new statements; as the changes have it if left out, which is train for a plain file.

    Raises:
        InputError: The split is unknown, or nothing would remain.
    """
    code = None if split is None else split_codes([split])[0]
    columns, kept, counts = _Columns(graph), np.ones(len(graph), bool), dict.fromkeys(("added", "repeated", "removed", "absent"), 0)
    for part in changes.removed:
        present, numbers = columns.numbers(part, grow=False)
        counts["absent"] += int((~present).sum())
        found = columns.find(numbers)
        counts["absent"] += sum(not rows for rows in found)
        rows = sorted({row for of_one in found for row in of_one})
        counts["removed"] += int(kept[rows].sum())
        kept[rows] = False
    parts = [columns.own(kept)]
    for part in changes.added:
        _, numbers = columns.numbers(part, grow=True)
        fresh = np.array([not any(kept[row] for row in rows) for rows in columns.find(numbers)], bool)
        counts["repeated"] += int((~fresh).sum())
        added = numbers.take(np.flatnonzero(fresh))
        parts.append(added if code is None else replace(added, split=np.full(len(added.head), code, np.int8)))
    whole = _joined(parts)
    if not len(whole.head):
        raise InputError(f"a graph has at least one statement, and all {len(graph):,} would be removed. Leave some, or delete the graph")
    entities, entity_labels = _labelled(graph.entities, columns.entities, changes.labels, "entity")
    relations, relation_labels = _labelled(graph.relations, columns.relations, changes.labels, "relation")
    whole, literals = _with_literals(whole, columns.literals, len(entities))
    made, merged = canonical(entities, relations, whole.head, whole.relation, whole.tail, whole.split, whole.pairs, literals)
    counts["added"] = len(made) - int(kept.sum())
    counts["repeated"] += merged
    report = UpdateReport(
        **counts,
        new_entities=len(entities) - len(graph.entities),
        new_relations=len(relations) - len(graph.relations),
        labels=entity_labels + relation_labels,
        idle_labels=sum(name not in entities and name not in relations for name, _, _ in changes.labels),
        held_out_triples=_held_out(made, whole, int(kept.sum())),
    )
    return replace(made, names=graph.names, title=graph.title), report


def diff_graphs(old: Graph, new: Graph) -> tuple[Graph, Graph]:
    """Returns what has to be added to a graph, and removed from it, to get another one; either may have no statements.

    A statement that changes its split is in both. What is added has the labels that are new or differ.
    """
    columns = _Columns(old)
    _, numbers = columns.numbers(new, grow=True)
    before, after = _splits(columns.own(np.ones(len(old), bool))), _splits(numbers)
    removed = [row for key, rows in before.items() if rows.keys() != after.get(key, {}).keys() for row in rows.values()]
    added = [row for key, rows in after.items() if rows.keys() != before.get(key, {}).keys() for row in rows.values()]
    own = _labels(old)
    changed = {key: text for key, text in _labels(new).items() if own.get(key) != text}
    return _rows(new, added, changed), _rows(old, removed, {})


def shared_rows(graph: Graph, other: Graph, splits: Collection[str]) -> IntArray:
    """Returns the rows of a graph, of any split, whose statements another graph has in these splits."""
    chosen = np.isin(other.split, split_codes(splits))
    columns = _Columns(graph)
    present, numbers = columns.numbers(other, grow=False)
    found = columns.find(numbers.take(np.flatnonzero(chosen[present])))
    return np.unique(np.array([row for rows in found for row in rows], np.int64))


def part_before(graph: Graph, entities: int, relations: int) -> Graph:
    """Returns the part of a graph about its first entities and relations: those that it had before its updates.

    A qualifier pair about others is left out; the statement also holds without it.
    """
    return part_about(graph, _first(graph.entities, entities), _first(graph.relations, relations))


def _first(vocabulary: Vocabulary, count: int) -> Vocabulary:
    labels = {tag: {id_: text for id_, text in by_id.items() if id_ < count} for tag, by_id in vocabulary.labels.items()}
    return Vocabulary(vocabulary.identifiers.slice(0, count), labels)


@dataclass(frozen=True)
class _Numbers:
    """Columns of statements, by ids."""

    head: IntArray
    relation: IntArray
    tail: IntArray
    split: IntArray
    pairs: Ragged

    def take(self, rows: IntArray) -> "_Numbers":
        return _Numbers(self.head[rows], self.relation[rows], self.tail[rows], self.split[rows], self.pairs.take(rows))

    def keys(self) -> list[Key]:
        """Returns the statements without their splits; their pairs are sorted by ids."""
        main = zip(self.head.tolist(), self.relation.tolist(), self.tail.tolist(), strict=True)
        bounds, pairs = self.pairs.offsets.tolist(), list(map(tuple, self.pairs.items.tolist()))
        ends = pairwise(bounds)
        return [(*triple, *(part for pair in sorted(pairs[a:b]) for part in pair)) for triple, (a, b) in zip(main, ends, strict=True)]


class _Columns:
    """The statements of a graph, and identifiers in the order in which they get their ids."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.entities, self.relations = ({name: id_ for id_, name in enumerate(one)} for one in (graph.entities, graph.relations))
        self.literals = {key: LITERALS + place for place, key in enumerate(graph.literals.keys.to_pylist())}
        tail, pair_value = (
            np.where(column >= len(graph.entities), column - len(graph.entities) + LITERALS, column)
            for column in (graph.tail, graph.pair_value)
        )
        pairs = Ragged(graph.pairs.offsets, np.stack([graph.pair_relation, pair_value], axis=1))
        self._own = _Numbers(graph.head, graph.relation, tail, graph.split, pairs)

    def own(self, kept: BoolArray) -> _Numbers:
        """Returns the statements that are kept."""
        return self._own.take(np.flatnonzero(kept))

    def numbers(self, other: Graph, grow: bool) -> tuple[BoolArray, _Numbers]:
        """Returns the statements of another graph by ids of this one, and which of its statements these are.

        New identifiers get the next ids if the graph may grow; otherwise statements with new identifiers are left out.
        """
        values = [other.tail, other.pair_value]
        of_entities = [column[column < len(other.entities)] for column in values]
        of_literals = [column[column >= len(other.entities)] - len(other.entities) for column in values]
        entities = _translation(self.entities, other.entities.identifiers, [other.head, *of_entities], grow)
        relations = _translation(self.relations, other.relations.identifiers, [other.relation, other.pair_relation], grow)
        literals = _translation(self.literals, other.literals.keys, of_literals, grow, LITERALS)
        value = np.concatenate([entities, literals])
        main = entities[other.head], relations[other.relation], value[other.tail]
        pairs = np.stack([relations[other.pair_relation], value[other.pair_value]], axis=1)
        present = np.all([column >= 0 for column in main], axis=0)
        present[other.pairs.owner[(pairs < 0).any(1)]] = False
        found = _Numbers(*main, other.split, Ragged(other.pairs.offsets, pairs))
        return present, found.take(np.flatnonzero(present))

    def find(self, wanted: _Numbers) -> list[list[int]]:
        """Returns for each statement the rows of the graph that are equal to it, one for each split that has it."""
        size = 2 * LITERALS
        ends = self._own.head.astype(np.int64) * size + self._own.tail
        rows = np.flatnonzero(np.isin(ends, wanted.head.astype(np.int64) * size + wanted.tail))
        places: dict[Key, list[int]] = defaultdict(list)
        own = self._own.take(rows)
        for key, row in zip(own.keys(), rows.tolist(), strict=True):
            places[key].append(row)
        return [places.get(key, []) for key in wanted.keys()]  # noqa: SIM118  not a dict


def _translation(ids: dict[str, int], other: TextArray, used: list[IntArray], grow: bool, first: int = 0) -> IntArray:
    """Returns the id of each name of another graph; -1 if it has none, or if no statement uses it. New ids begin with ``first``."""
    table = np.full(len(other), -1, np.int32)
    found = np.unique(np.concatenate(used))
    names = other.take(pa.array(found)).to_pylist()
    if grow:
        for name in sorted((name for name in names if name not in ids), key=str.encode):
            ids[name] = first + len(ids)
    table[found] = [ids.get(name, -1) for name in names]
    return table


def _with_literals(numbers: _Numbers, ids: Mapping[str, int], entities: int) -> tuple[_Numbers, Literals]:
    """Returns the statements with the final ids of literals, and the literals that occur in them, in order."""
    used = np.unique(np.concatenate([numbers.tail, numbers.pairs.items[:, 1]]))
    names = {id_: name for name, id_ in ids.items()}
    literals = Literals(names[id_] for id_ in used[used >= LITERALS].tolist())
    place = {key: place for place, key in enumerate(literals.keys.to_pylist())}
    table = np.array([entities + place.get(name, 0) for name in ids], np.int64)  # names are in the order of their numbers

    def final(column: IntArray) -> IntArray:
        is_literal = column >= LITERALS
        return np.asarray(np.where(is_literal, table[np.where(is_literal, column - LITERALS, 0)], column) if len(table) else column)

    pairs = np.stack([numbers.pairs.items[:, 0], final(numbers.pairs.items[:, 1])], axis=1)
    return replace(numbers, tail=final(numbers.tail), pairs=Ragged(numbers.pairs.offsets, pairs)), literals


def _joined(parts: list[_Numbers]) -> _Numbers:
    head, relation, tail, split = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("head", "relation", "tail", "split")
    )
    return _Numbers(head, relation, tail, split, Ragged.stack([part.pairs for part in parts]))


def _splits(numbers: _Numbers) -> dict[Key, dict[int, int]]:
    """Returns statement -> split -> row."""
    found: dict[Key, dict[int, int]] = defaultdict(dict)
    for row, (key, split) in enumerate(zip(numbers.keys(), numbers.split.tolist(), strict=True)):
        found[key][split] = row
    return found


def _rows(graph: Graph, rows: list[int], labels: Mapping[LabelKey, str]) -> Graph:
    """Returns some statements of a graph with these labels; ids stay as they are."""
    kinds: dict[str, dict[str, dict[int, str]]] = {"entity": {}, "relation": {}}
    for (name, language, kind), text in labels.items():
        vocabulary = graph.entities if kind == "entity" else graph.relations
        kinds[str(kind)].setdefault(language, {})[vocabulary.id(name)] = text
    chosen = np.array(sorted({*rows}), np.int64)
    columns = {name: getattr(graph, name)[chosen] for name in ("head", "relation", "tail", "split")}
    entities = Vocabulary(graph.entities.identifiers, kinds["entity"])
    relations = Vocabulary(graph.relations.identifiers, kinds["relation"])
    return replace(graph, entities=entities, relations=relations, **columns, pairs=graph.pairs.take(chosen))


def _labels(graph: Graph) -> dict[LabelKey, str]:
    """Returns the labels of a graph by identifier, language and kind."""
    kinds: tuple[tuple[Any, Vocabulary], ...] = (("entity", graph.entities), ("relation", graph.relations))
    return {
        (vocabulary.identifier(id_), language, kind): text
        for kind, vocabulary in kinds
        for language, by_id in vocabulary.labels.items()
        for id_, text in by_id.items()
    }


def _labelled(old: Vocabulary, ids: Mapping[str, int], labels: Mapping[LabelKey, str], kind: str) -> tuple[Vocabulary, int]:
    """Returns the vocabulary of these ids with its labels, old and new, and the number of labels that are new or changed."""
    after = {language: dict(by_id) for language, by_id in old.labels.items()}
    changed: set[tuple[str, int]] = set()
    # A label of the other kind, such as of a property that is also an entity, is better than none.
    for other in (False, True):
        for (name, language, of_kind), text in labels.items():
            if name not in ids or (of_kind not in (kind, None)) != other:
                continue
            by_id = after.setdefault(language, {})
            if by_id.get(ids[name]) == text or (other and ids[name] in by_id):
                continue
            by_id[ids[name]] = text
            changed.add((language, ids[name]))
    return Vocabulary(ids, after), len(changed)


def _held_out(graph: Graph, whole: _Numbers, old: int) -> int:
    """Counts the new statements of train whose main triple is in valid or test."""
    held = graph.split != 0
    triples = set(zip(graph.head[held].tolist(), graph.relation[held].tolist(), graph.tail[held].tolist(), strict=True))
    new = zip(*(column[old:].tolist() for column in (whole.head, whole.relation, whole.tail, whole.split)), strict=True)
    return sum(split == 0 and (head, relation, tail) in triples for head, relation, tail, split in new)
