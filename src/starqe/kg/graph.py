"""The graph: statements as columns of ids, each with its split."""

import dataclasses
import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from starqe.errors import InputError
from starqe.kg.iris import DEFAULT_NAMES, Names
from starqe.kg.known import Known
from starqe.kg.literal import Literal
from starqe.kg.literals import NO_LITERALS, Literals
from starqe.kg.statement import SPLITS, Statement
from starqe.kg.vocabulary import Vocabulary
from starqe.ragged import BoolArray, IntArray, PairColumns, Ragged, stable_order


@dataclass(frozen=True, eq=False)
class Graph(PairColumns):
    """A hyper-relational graph in canonical form.

    S statements · P qualifier pairs. Statements are sorted by split, head, relation, tail and pairs; the pairs of a
    statement are sorted and unique; a statement occurs once per split. So equal content means equal columns, and
    the fingerprint identifies the content.

    Heads are entities. A tail or a qualifier value is an entity, or a literal: then its id is the number of entities plus the
    place of the literal in `literals`. Models learn from `entity_part`, which has no literals; facts are looked up in the whole graph.

    Facts are looked up through `known`, which takes the splits to use: nothing reads the test split by accident.
    """

    entities: Vocabulary
    relations: Vocabulary
    head: IntArray  # (S,) int32
    relation: IntArray  # (S,) int32
    tail: IntArray  # (S,) int32, a value
    split: IntArray  # (S,) int8, positions in SPLITS
    pairs: Ragged  # S rows of (relation, value): (P, 2) int32
    names: Names = DEFAULT_NAMES
    """How identifiers are written in RDF and SPARQL; names, labels and the title are not part of the fingerprint."""
    title: str = ""
    """The name of the graph for people; after an import, that of its file or folder."""
    literals: Literals = NO_LITERALS
    part_of: "Graph | None" = None
    """The graph that this is the entity part of."""

    def __len__(self) -> int:
        return len(self.head)

    def __repr__(self) -> str:
        literals = f"{len(self.literals):,} literals, " if len(self.literals) else ""
        return (
            f"Graph({len(self):,} statements, {len(self.entities):,} entities, {literals}{len(self.relations):,} relations, "
            f"{self.fingerprint[:12]})"
        )

    @cached_property
    def entity_part(self) -> "Graph":
        """The graph without literals, with the same ids of entities and relations: what models learn from.

        Statements with a literal tail are left out, and so are pairs with a literal value.
        """
        if not len(self.literals):
            return self
        return dataclasses.replace(part_about(self, self.entities, self.relations), part_of=self)

    @property
    def whole(self) -> "Graph":
        """The graph that this is the entity part of; else the graph itself."""
        return self.part_of or self

    @cached_property
    def literal_relations(self) -> frozenset[str]:
        """The relations that have a literal in some statement or qualifier, by identifier."""
        return self._relations_of(literals=True)

    @cached_property
    def only_literals(self) -> frozenset[str]:
        """The relations that have literals as values, and no entity."""
        return self.literal_relations - self._relations_of(literals=False) if len(self.literals) else frozenset()

    def _relations_of(self, literals: bool) -> frozenset[str]:
        columns = ((self.relation, self.tail), (self.pair_relation, self.pair_value))
        used = np.unique(np.concatenate([relation[(value >= len(self.entities)) == literals] for relation, value in columns]))
        return frozenset(self.relations.identifier(id_) for id_ in used.tolist())

    @property
    def value_count(self) -> int:
        """The number of values: entities and literals."""
        return len(self.entities) + len(self.literals)

    def value(self, id_: int) -> str | Literal:
        """Returns the identifier of an entity, or a literal."""
        place = int(id_) - len(self.entities)
        return self.literals[place] if place >= 0 else self.entities.identifier(id_)

    def value_label(self, id_: int) -> str:
        """Returns what people read: the label of an entity, or the text of a literal."""
        place = int(id_) - len(self.entities)
        return self.literals[place].label if place >= 0 else self.entities.label(id_)

    def value_id(self, value: str | Literal) -> int:
        """Returns the id of an entity or a literal.

        Raises:
            InputError: It does not occur in the graph.
        """
        if isinstance(value, str):
            return self.entities.id(value)
        if (place := self.literals.find(value)) is None:
            raise InputError(f"the literal {value.label!r} ({value.kind}) does not occur in this graph")
        return len(self.entities) + place

    def known(self, splits: Collection[str]) -> Known:
        """Returns look-ups over the statements of these splits only.

        Raises:
            InputError: A split is not one of train, valid and test.
        """
        codes = split_codes(splits)
        if codes not in self._known:
            self._known[codes] = Known(self, np.flatnonzero(np.isin(self.split, codes)))
        return self._known[codes]

    @cached_property
    def _known(self) -> dict[tuple[int, ...], Known]:
        return {}

    def pairs_of(self, row: int) -> list[tuple[int, int]]:
        """Returns the qualifier pairs of a statement, by ids."""
        return [(relation, value) for relation, value in self.pairs[row].tolist()]

    def statement(self, row: int) -> Statement:
        """Returns one statement by its identifiers."""
        v, r = self.value, self.relations.identifier
        pairs = tuple((r(key), v(value)) for key, value in self.pairs_of(row))
        return Statement(self.entities.identifier(self.head[row]), r(self.relation[row]), v(self.tail[row]), pairs)

    def statements(self, *splits: str) -> Iterator[Statement]:
        """Yields the statements of the named splits in the graph's order."""
        for row in np.flatnonzero(np.isin(self.split, split_codes(splits))):
            yield self.statement(int(row))

    @cached_property
    def vocabulary_fingerprint(self) -> str:
        """A hash of the entity and relation identifiers: a model fits every graph with the same hash."""
        return hashlib.sha256(f"{self.entities.fingerprint}/{self.relations.fingerprint}".encode()).hexdigest()

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the vocabulary, the literals, the statements and their splits; labels do not count."""
        digest = hashlib.sha256(self.vocabulary_fingerprint.encode())
        for column in (self.head, self.relation, self.tail, self.split, self.pairs.offsets, self.pair_relation, self.pair_value):
            digest.update(np.ascontiguousarray(column, column.dtype.newbyteorder("<")).data)
        if len(self.literals):
            digest.update(self.literals.fingerprint.encode())
        return digest.hexdigest()


def split_codes(splits: Collection[str]) -> tuple[int, ...]:
    """Turns split names into codes.

    Raises:
        InputError: A name is not a split, or none is given.
    """
    if isinstance(splits, str) or not splits or not set(splits) <= set(SPLITS):
        raise InputError(f"splits are one or more of {', '.join(SPLITS)}, found {splits!r}")
    return tuple(sorted({SPLITS.index(split) for split in splits}))


def canonical(
    entities: Vocabulary,
    relations: Vocabulary,
    head: IntArray,
    relation: IntArray,
    tail: IntArray,
    split: IntArray,
    pairs: Ragged,
    literals: Literals = NO_LITERALS,
) -> tuple[Graph, int]:
    """Sorts statements and pairs, and merges duplicates within a split; also returns the number of duplicates."""
    count, values = len(head), max(len(entities) + len(literals), 1)
    codes = _pair_codes(pairs, values)
    # The statements: by split and main triple, and in case of a tie, by their pairs.
    order = sort_order(split, head, relation, tail)
    group_start = np.flatnonzero(first_of_equal([column[order] for column in (split, head, relation, tail)]))
    group_size = np.diff(group_start, append=count)
    keep = np.ones(count, bool)
    for start, size in zip(group_start[group_size > 1].tolist(), group_size[group_size > 1].tolist(), strict=True):
        group = slice(start, start + size)
        keyed = sorted((tuple(codes[row].tolist()), row) for row in order[group].tolist())
        order[group] = [row for _, row in keyed]
        keep[start + 1 : start + size] = [one[0] != other[0] for one, other in zip(keyed[1:], keyed[:-1], strict=True)]
    order = order[keep]

    codes = codes.take(order)
    graph = Graph(
        entities,
        relations,
        head[order].astype(np.int32, copy=False),
        relation[order].astype(np.int32, copy=False),
        tail[order].astype(np.int32, copy=False),
        split[order].astype(np.int8, copy=False),
        Ragged(codes.offsets, np.stack([(codes.items // values).astype(np.int32), (codes.items % values).astype(np.int32)], axis=1)),
        literals=literals,
    )
    return graph, count - len(order)


def _pair_codes(pairs: Ragged, values: int) -> Ragged:
    """Returns the pairs of each statement as numbers, sorted and each once."""
    owner, code = pairs.owner, pairs.items[:, 0].astype(np.int64) * values + pairs.items[:, 1]
    order = sort_order(owner, code)
    owner, code = owner[order], code[order]
    fresh = first_of_equal([owner, code])
    return Ragged.of_owner(owner[fresh], code[fresh], len(pairs))


def part_about(graph: Graph, entities: Vocabulary, relations: Vocabulary) -> Graph:
    """Returns the part of a graph about the first of its entities and relations, given as vocabularies; literals are left out.

    A statement about others is left out, and so is a qualifier pair: the statement also holds without it.
    """
    known = (graph.head < len(entities)) & (graph.relation < len(relations)) & (graph.tail < len(entities))
    known_pairs = (graph.pair_relation < len(relations)) & (graph.pair_value < len(entities))
    return part_with(graph, known, known_pairs, entities, relations, NO_LITERALS)


def part_with(
    graph: Graph, statements: BoolArray, pairs: BoolArray, entities: Vocabulary, relations: Vocabulary, literals: Literals
) -> Graph:
    """Returns some statements of a graph, with some of their pairs, over these vocabularies: (S,) and (P,) bool."""
    rows, kept = np.flatnonzero(statements), graph.pairs.where(pairs)
    columns = graph.head[rows], graph.relation[rows], graph.tail[rows], graph.split[rows], kept.take(rows)
    part, _ = canonical(entities, relations, *columns, literals)
    return dataclasses.replace(part, names=graph.names, title=graph.title)


def sort_order(*columns: IntArray) -> IntArray:
    """Returns the lexicographic order by these columns; packed into one number where they fit, which sorts much faster."""
    bits = [int(column.max(initial=0)).bit_length() for column in columns]
    if sum(bits) > 63:
        return np.lexsort(columns[::-1])
    key = np.zeros(len(columns[0]), np.int64)
    for column, width in zip(columns, bits, strict=True):
        key = (key << width) | column
    return stable_order(key)


def first_of_equal(columns: Sequence[IntArray]) -> BoolArray:
    """Returns which rows differ from the row before them; the first one does."""
    first: BoolArray = np.zeros(len(columns[0]), bool)
    first[:1] = True
    for column in columns:
        first[1:] |= column[1:] != column[:-1]
    return first
