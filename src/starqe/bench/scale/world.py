"""A synthetic hyper-relational graph of any size, in chunks of heads: every number is a hash of the seed and its place.

So the content depends on nothing but the seed and the sizes, and no chunk needs another one. What can be learned from it:

- Entities have a type and, within it, a community of `COMMUNITY` members. The community decides the class (``instance_of``).
- Relations go from one type to another. A relation maps a community to one community: 9 of 10 tails are members of it.
- Of one relation per type, the qualifier ``role`` decides which community that is.
- One relation per type is a function, one the composition of two functions, and ``partner_of`` is symmetric.
- ``since`` is decided by the community of the head, ``with`` is a member of the tail's community.

Degrees follow power laws: the numbers of statements of heads, and the popularity of communities, members and classes as tails.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from starqe.errors import InputError
from starqe.ragged import BoolArray, FloatArray, IntArray
from starqe.seed import derive

LEAST = 1_000
"""The minimum number of entities."""
MOST = 2**31 - 1
TYPES, COMMUNITY, ROLES, YEARS = 12, 64, 4, 128
KINDS = ("link", "link", "by-role", "function", "composition")
"""The relations that start at each type, by kind."""
_INSTANCE, _PARTNER, _SUBCLASS = "instance_of", "partner_of", "subclass_of"
QUALIFIERS = ("role", "since", "with")
"""The relations of qualifier pairs, ascending; a statement has at most one pair of each."""
VALID, TEST = 0.02, 0.02
"""The shares of held-out statements, of those that are not about a class."""
_SHARES = np.cumsum([0.34, 0.28, 0.18, 0.08, 0.07])  # of the kinds of relations; the rest is partner_of
_SINCE, _WITH, _NOISE = 0.2, 0.05, 0.1
_DEGREE_POWER, _MOST_STATEMENTS = 2.2, 1_000
_DUPLICATES = 1.067  # number of sampled statements per distinct one


@dataclass(frozen=True, eq=False)
class Chunk:
    """The statements of some heads, sorted by head, relation and tail; no main triple occurs twice."""

    head: IntArray  # (S,) int32
    relation: IntArray
    tail: IntArray
    split: IntArray  # (S,) int8
    values: IntArray  # (S, 3) int32: the value of each qualifier relation; -1 if there is none


@dataclass(frozen=True)
class World:
    """A synthetic graph, described by its sizes and its seed.

    Raises:
        InputError: A size is out of range.
    """

    entities: int
    statements_per_entity: float = 5.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not LEAST <= self.entities <= MOST:
            raise InputError(f"a world has from {LEAST:,} to {MOST:,} entities, found {self.entities:,}")
        if not 2 <= self.statements_per_entity <= 100:
            raise InputError(f"a world has from 2 to 100 statements per entity, found {self.statements_per_entity:g}")

    @cached_property
    def relations(self) -> list[str]:
        """The identifiers of all relations, in the order of their ids."""
        of_types = [f"relation_{number:02d}" for number in range(TYPES * len(KINDS))]
        return sorted([_INSTANCE, _PARTNER, _SUBCLASS, *QUALIFIERS, *of_types])

    @property
    def digits(self) -> int:
        """The number of digits of identifiers: all have the same, so that their order is that of the ids."""
        return len(str(self.entities - 1))

    def identifier(self, entity: int) -> str:
        """Returns the identifier of an entity."""
        return f"e{entity:0{self.digits}d}"

    @cached_property
    def classes(self) -> int:
        """The number of classes: one per 1,000 entities, and at least two per type."""
        return max(2 * TYPES, self.entities // 1_000)

    @cached_property
    def starts(self) -> IntArray:
        """The first entity of each type, and the end: (TYPES + 1,). Before them are roles, years and classes."""
        first = ROLES + YEARS + self.classes
        share = np.cumsum(1 / np.arange(1, TYPES + 1))
        return first + np.concatenate([[0], (share / share[-1] * (self.entities - first)).astype(np.int64)])

    @cached_property
    def ranges(self) -> IntArray:
        """The type of the tails of each relation of each type: (TYPES, kinds)."""
        types = np.arange(TYPES)
        found = (self._uniform("range", types[:, None], np.arange(len(KINDS))[None]) * TYPES).astype(np.int64)
        found[:, 4] = found[found[:, 3], 3]  # a function of a function
        return found

    @cached_property
    def _degree_scale(self) -> float:
        """The scale that gives the wanted mean number of statements."""
        low, high, wanted = 0.0, self.statements_per_entity, (self.statements_per_entity - 1) * _DUPLICATES
        uniform = (np.arange(100_000) + 0.5) / 100_000
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if _power_law(uniform, middle).mean() < wanted else (low, middle)
        return low

    def chunks(self, heads: int = 200_000) -> Iterator[Chunk]:
        """Yields all statements in chunks of this number of heads."""
        for first in range(0, self.entities, heads):
            yield self._chunk(np.arange(first, min(first + heads, self.entities)))

    def _chunk(self, heads: IntArray) -> Chunk:
        special, ordinary = heads[heads < self.starts[0]], heads[heads >= self.starts[0]]
        parts = [self._about_classes(special, ordinary), self._drawn(ordinary)]
        head, relation, tail, values, place = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = np.lexsort((place, tail, relation, head))
        fresh = np.ones(len(order), bool)
        fresh[1:] = np.any([np.diff(column[order]) != 0 for column in (head, relation, tail)], axis=0)
        order = order[fresh]
        held_out = self._uniform("split", head[order], place[order])
        split = np.where(place[order] == 0, 0, np.where(held_out < VALID, 1, np.where(held_out < VALID + TEST, 2, 0)))
        head, relation, tail, values = (column[order].astype(np.int32) for column in (head, relation, tail, values))
        return Chunk(head, relation, tail, split.astype(np.int8), values)

    def _about_classes(self, special: IntArray, ordinary: IntArray) -> tuple[IntArray, ...]:
        """Returns one statement for each head, always in train: its class, or the superclass of a class."""
        first = ROLES + YEARS
        local = special - first
        above = (np.maximum(local, 1) * self._uniform("above", special)).astype(np.int64)
        of_special = first + np.where(local < 0, special % 2, np.where(local == 0, 1, above))
        type_, community, _ = self._places(ordinary)
        own = (self.classes - type_ - 1) // TYPES + 1  # the number of classes of each type
        of_ordinary = first + type_ + TYPES * (own * self._uniform("class", type_, community) ** 2).astype(np.int64)
        head, tail = np.concatenate([special, ordinary]), np.concatenate([of_special, of_ordinary])
        is_class = (head >= first + 1) & (head < self.starts[0])
        relation = np.where(is_class, self.relations.index(_SUBCLASS), self.relations.index(_INSTANCE))
        return head, relation, tail, np.full((len(head), 3), -1), np.zeros(len(head), np.int64)

    def _drawn(self, ordinary: IntArray) -> tuple[IntArray, ...]:
        """Returns the other statements of the heads; some may be equal."""
        counts = _power_law(self._uniform("degree", ordinary), self._degree_scale)
        head = np.repeat(ordinary, counts)
        place = np.arange(len(head)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
        type_, community, _ = self._places(head)
        kind = np.searchsorted(_SHARES, self._uniform("kind", head, place), side="right")
        kind = np.where((kind >= 3) & (place > 6), (head + place) % 2, kind)  # relations with one tail are not sampled forever
        is_partner = kind == len(KINDS)
        kind = np.where(is_partner, 0, kind)
        role = np.where((kind == 2) & ~is_partner, (self._uniform("role", head, place) * ROLES).astype(np.int64), -1)
        tail = self._member(type_, kind, community, role, self._uniform("member", head, place), self._uniform("noise", head, place))
        for number, function in ((3, self._function), (4, self._composition)):
            tail[kind == number] = function(head[kind == number])
        tail = np.where(is_partner, self._partner(head), tail)
        names = np.array([self.relations.index(f"relation_{number:02d}") for number in range(TYPES * len(KINDS))])
        relation = np.where(is_partner, self.relations.index(_PARTNER), names[type_ * len(KINDS) + kind])
        return head, relation, tail, self._pair_values(head, tail, place, role), place

    def _pair_values(self, head: IntArray, tail: IntArray, place: IntArray, role: IntArray) -> IntArray:
        """Returns the value of each qualifier relation: (S, 3)."""
        type_, community, _ = self._places(head)
        year = (self._uniform("year", type_, community) * YEARS + 4 * self._uniform("year noise", head, place)).astype(np.int64) % YEARS
        tail_type, tail_community, _ = self._places(tail)
        company = self._at(tail_type, tail_community, self._uniform("company", head, place) ** 2.5)
        return np.stack(
            [
                role,  # the roles are the first entities
                np.where(self._uniform("since", head, place) < _SINCE, ROLES + year, -1),
                np.where(self._uniform("with", head, place) < _WITH, company, -1),
            ],
            axis=1,
        )

    def _places(self, entity: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Returns the type of each entity, its community, and its number within the type."""
        type_ = np.searchsorted(self.starts, entity, side="right") - 1
        local = entity - self.starts[type_]
        return type_, local // COMMUNITY, local

    def _at(self, type_: IntArray, community: IntArray, share: FloatArray) -> IntArray:
        """Returns the members at relative positions within their communities, from 0 to 1."""
        first = self.starts[type_] + community * COMMUNITY
        return first + (share * np.minimum(COMMUNITY, self.starts[type_ + 1] - first)).astype(np.int64)

    def _member(
        self, type_: IntArray, kind: IntArray, community: IntArray, role: IntArray, uniform: FloatArray, noise: FloatArray | None = None
    ) -> IntArray:
        """Returns tails: members of the community that a relation maps to; with noise, some are any entity of the type."""
        range_ = self.ranges[type_, kind]
        size = self.starts[range_ + 1] - self.starts[range_]
        communities = -(-size // COMMUNITY)
        sent = (communities * self._uniform("sent", type_, kind, community, role + 1) ** 1.5).astype(np.int64)
        member = self._at(range_, sent, uniform**2.5)
        if noise is None:
            return member
        return np.where(noise < _NOISE, self.starts[range_] + (size * uniform**3).astype(np.int64), member)

    def _function(self, head: IntArray) -> IntArray:
        type_, community, _ = self._places(head)
        none = np.full(len(head), -1)
        return self._member(type_, np.full(len(head), 3), community, none, self._uniform("function", head))

    def _composition(self, head: IntArray) -> IntArray:
        return self._function(self._function(head))

    def _partner(self, head: IntArray) -> IntArray:
        """Returns the partners: neighbours within the type, in both directions; the last of an odd type has the first one."""
        type_, _, local = self._places(head)
        partner = self.starts[type_] + (local ^ 1)
        return np.where(partner < self.starts[type_ + 1], partner, self.starts[type_])

    def _uniform(self, purpose: str, *places: IntArray) -> FloatArray:
        """Returns a uniform number from 0 to 1 for each place, always the same one."""
        state: IntArray = np.full(np.broadcast_shapes(*(place.shape for place in places)), derive(self.seed, f"world {purpose}"), np.uint64)
        for place in places:
            state = _mixed(state + place.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
        return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(state: IntArray) -> IntArray:
    """Mixes the bits of numbers (SplitMix64, Steele et al. 2014)."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def _power_law(uniform: FloatArray, scale: float) -> IntArray:
    """Returns whole numbers that follow a power law."""
    return np.minimum(scale * np.maximum(uniform, 1e-12) ** (-1 / _DEGREE_POWER), _MOST_STATEMENTS).astype(np.int64)


def has_pair(chunk: Chunk) -> BoolArray:
    """Returns which qualifier relations each statement has: (S, 3)."""
    return chunk.values >= 0
