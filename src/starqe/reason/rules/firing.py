"""Applies rules to questions: which entities fill a gap, and why.

B questions · V entities.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from starqe.kg import Known
from starqe.kg.known import matches
from starqe.measure.exact_search import Nearest, Scored
from starqe.queries.gaps import HEAD as HEAD_MISSING
from starqe.queries.gaps import MISSING, TAIL, VALUE, Gaps
from starqe.ragged import FloatArray, IntArray
from starqe.reason.rules.rule_table import ABSENT, Rules
from starqe.reason.rules.walks import FIRST_KEY, HEAD, Walks, step_code
from starqe.reason.rules.walks import TAIL as TAIL_PLACE

SMALL = 1e-3
"""The scale of beliefs: one far below this value adds no evidence."""
LESS = 0.5
"""The discount of each further rule for the same candidate, since rules overlap."""


@dataclass(frozen=True, eq=False)
class Fired:
    """Which rules suggest which candidates for which questions, each once."""

    question: IntArray  # (n,)
    candidate: IntArray  # (n,)
    rule: IntArray  # (n,)


@dataclass(frozen=True, eq=False)
class Suggested:
    """The candidates of questions that rules suggest, each once; by question, then by candidate."""

    question: IntArray  # (n,)
    candidate: IntArray  # (n,)
    belief: FloatArray  # (n,) the combined confidence of the rules in each, from 0 to 1

    @property
    def evidence(self) -> FloatArray:
        """The belief as a term to add to a score: about its log-odds, and 0 for no belief. (n,)."""
        return np.asarray(np.log1p(self.belief / SMALL))


class Added:
    """The terms that rules add to the scores of candidates; none is negative.

    Args:
        rows: The candidates of each question in ascending order, and what is added to each: (n,) both.
    """

    def __init__(self, rows: Sequence[tuple[IntArray, Tensor]]) -> None:
        self._rows = rows
        self._codes = np.concatenate([(np.int64(row) << 32) | own.astype(np.int64) for row, (own, _) in enumerate(rows)])
        self._terms = torch.cat([more for _, more in rows]).numpy()

    def to_nearest(self, found: Nearest, without: Sequence[IntArray] | None = None) -> Nearest:
        """Adds the terms to the scores of entities and returns the new best ones."""
        best = found.best
        ids, scores, log_sum = best.ids.copy(), best.scores.clone(), best.log_normaliser.clone()
        for row, (new, more) in enumerate(self._rows):
            if without is not None:
                competes = ~np.isin(new, without[row])
                new, more = new[competes], more[torch.from_numpy(competes)]
            before = found.at(np.array([row]), new)[0]
            # Best entities without a term keep their scores, and no other entity exceeds them. An id without a score is padding.
            kept = ~np.isin(ids[row], new) | torch.isinf(scores[row]).numpy()
            every = np.concatenate([ids[row][kept], new])
            values = torch.cat([scores[row][torch.from_numpy(kept)], before + more])
            order = np.lexsort((every, -values.numpy()))[: len(ids[row])]
            ids[row], scores[row] = every[order], values[torch.from_numpy(order)]
            log_sum[row] += torch.log1p(((before - log_sum[row]).exp() * torch.expm1(more)).sum())
        return Nearest(
            replace(best, ids=ids, scores=scores, log_normaliser=log_sum),
            lambda rows, ids: found.at(rows, ids) + self._at(rows[:, None], ids),
        )

    def to_scored(self, found: Scored) -> Scored:
        """Adds the terms to the scores of all entities, in place."""
        return replace(
            found,
            scores=self.to_all(found.scores),
            at=lambda rows, ids: found.at(rows, ids) + self._at(rows[:, None], ids),
            pairs=lambda rows, ids: found.pairs(rows, ids) + self._at(rows, ids),
        )

    def to_all(self, scores: Tensor) -> Tensor:
        """Adds the terms to the scores of all entities, in place: (B, V)."""
        rows, ids = torch.from_numpy(self._codes >> 32), torch.from_numpy(self._codes & (2**32 - 1))
        return scores.index_put_((rows, ids), torch.from_numpy(self._terms).to(scores), accumulate=True)

    def _at(self, rows: IntArray, ids: IntArray) -> Tensor:
        """Returns the terms of entities for questions; both broadcast."""
        codes = (rows.astype(np.int64) << 32) | ids
        if not len(self._codes):
            return torch.zeros(codes.shape)
        place = np.searchsorted(self._codes, codes).clip(max=len(self._codes) - 1)
        return torch.from_numpy(np.where(self._codes[place] == codes, self._terms[place], np.float32(0)))


class RuleBook:
    """Applies rules to questions; their bodies are looked up in known statements."""

    def __init__(self, rules: Rules, known: Known) -> None:
        self.rules, self._walks = rules, Walks.of(known)
        self._entities = max(len(known.graph.entities), 1)

    def suggested(self, gaps: Gaps) -> Suggested:
        """Combines all rules: 1 − Π (1 − cᵢ)^(½ⁱ) over their confidences in descending order."""
        code, rank = np.divmod(self._fired(gaps), len(self._ranked))  # the most confident rule of a candidate comes first
        confidence = self.rules.confidence[self._ranked[rank]]
        fresh = np.ones(len(code), bool)
        fresh[1:] = code[1:] != code[:-1]
        first, group = np.flatnonzero(fresh), np.cumsum(fresh) - 1
        doubt = np.bincount(group, np.log1p(-confidence) * LESS ** (np.arange(len(code)) - first[group]), minlength=len(first))
        return Suggested(code[first] // self._entities, code[first] % self._entities, -np.expm1(doubt))

    def entity_scores(self, gaps: Gaps, out: Tensor) -> Tensor:
        """Scores all entities by the evidence of the rules alone: (B, V)."""
        found = self.suggested(gaps)
        out.zero_()[torch.from_numpy(found.question), torch.from_numpy(found.candidate)] = torch.from_numpy(found.evidence).to(out)
        return out

    def added(self, gaps: Gaps) -> Added | None:
        """Returns the evidence of the rules times their weight; None if their weight is 0."""
        if not self.rules.weight:
            return None
        found = self.suggested(gaps)
        value = torch.from_numpy((self.rules.weight * found.evidence).astype(np.float32))
        bounds = np.searchsorted(found.question, np.arange(len(gaps) + 1))
        return Added([(found.candidate[first:end], value[first:end]) for first, end in itertools.pairwise(bounds)])

    def fired(self, gaps: Gaps) -> Fired:
        """Finds all candidates that rules suggest for questions about entities."""
        code, rank = np.divmod(self._fired(gaps), len(self._ranked))
        return Fired(code // self._entities, code % self._entities, self._ranked[rank])

    def _fired(self, gaps: Gaps) -> IntArray:
        """Returns question, candidate and place of the rule in `_ranked` as one number for each, ascending."""
        question, head, given = self._asked(gaps)
        position, kind, target = self._walks.leaving(given)
        around = question[position], head[position], kind, target
        parts = [self._usual(question, head), self._given(question, head, given), self._shared(*around)]
        parts += [self._paths_of_one(*around), self._paths_of_two(*around)]
        question, candidate, rule = np.concatenate(parts, axis=1)
        codes = np.sort((question * self._entities + candidate) * len(self._ranked) + self._rank[rule])
        return codes[np.flatnonzero(np.diff(codes, prepend=-1))]

    @cached_property
    def _ranked(self) -> IntArray:
        """The rules, the most confident first."""
        return np.argsort(-self.rules.confidence, kind="stable")

    @cached_property
    def _rank(self) -> IntArray:
        """The place of each rule in that order."""
        return np.argsort(self._ranked)

    def why(self, gaps: Gaps, candidate: int, count: int) -> list[int]:
        """Returns the most confident rules that suggest a candidate for the first question."""
        fired = self.fired(gaps)
        rules = np.unique(fired.rule[(fired.question == 0) & (fired.candidate == candidate)])
        return [int(rule) for rule in rules[np.argsort(-self.rules.confidence[rules], kind="stable")][:count]]

    def facts(self, gaps: Gaps, candidate: int, rule: int) -> list[int]:
        """Returns known statements that satisfy the body of a rule for the first question: one for each of its steps."""
        rules, walks = self.rules, self._walks
        first, second = (int(kind[rule]) for kind in (self._first, self._second))
        for question, head, given in zip(*(column.tolist() for column in self._asked(gaps)), strict=True):
            if question != 0 or head != self._head[rule] or first == ABSENT:
                continue
            if second == ABSENT:
                target = candidate if rules.answer[rule] == ABSENT else int(rules.value[rule])
                if len(found := walks.statements(given, first, target)):
                    return [int(found[0])]
                continue
            for middle in walks.reached(np.array([given]), np.array([first]))[1].tolist():
                if len(found := walks.statements(middle, second, candidate)):
                    return [int(walks.statements(given, first, middle)[0]), int(found[0])]
        return []

    def _asked(self, gaps: Gaps) -> tuple[IntArray, IntArray, IntArray]:
        """Lists the steps whose targets are asked for: question, kind of step, and source of each."""
        graph, relation, position = self._walks.graph, gaps.relation.astype(np.int64), gaps.position
        owner, open_pairs = gaps.pairs.owner, gaps.pair_value == MISSING
        asked = np.select([position == TAIL, position == HEAD_MISSING], [TAIL_PLACE, HEAD], ABSENT).astype(np.int64)
        asked[owner[open_pairs]] = gaps.pair_relation[open_pairs] + FIRST_KEY
        parts: list[tuple[IntArray, IntArray, IntArray]] = []
        for place, column, missing in ((HEAD, gaps.head, HEAD_MISSING), (TAIL_PLACE, gaps.tail, TAIL)):
            own = np.flatnonzero((position != missing) & (asked != ABSENT))
            parts.append((own, step_code(graph, relation[own], place, asked[own]), column[own]))
        pairs = np.flatnonzero((position[owner] != VALUE) & (asked[owner] != ABSENT))
        rows = owner[pairs]
        parts.append((rows, step_code(graph, relation[rows], gaps.pair_relation[pairs] + FIRST_KEY, asked[rows]), gaps.pair_value[pairs]))
        question, code, given = (np.concatenate(columns).astype(np.int64) for columns in zip(*parts, strict=True))
        kind = self._walks.kind_of(code)
        return question[kind >= 0], kind[kind >= 0], given[kind >= 0]

    def _usual(self, question: IntArray, head: IntArray) -> IntArray:
        position, rule = matches(self._usual_index, head)
        return np.stack([question[position], self.rules.answer[rule], rule])

    def _given(self, question: IntArray, head: IntArray, given: IntArray) -> IntArray:
        position, rule = matches(self._given_index, head * self._entities + given)
        return np.stack([question[position], self.rules.answer[rule], rule])

    def _shared(self, question: IntArray, head: IntArray, kind: IntArray, target: IntArray) -> IntArray:
        position, rule = matches(self._shared_index, self._pair(head, kind) * self._entities + target)
        return np.stack([question[position], self.rules.answer[rule], rule])

    def _paths_of_one(self, question: IntArray, head: IntArray, kind: IntArray, target: IntArray) -> IntArray:
        position, rule = matches(self._path_index(1), self._pair(head, kind))
        return np.stack([question[position], target[position], rule])

    def _paths_of_two(self, question: IntArray, head: IntArray, kind: IntArray, target: IntArray) -> IntArray:
        position, rule = matches(self._path_index(2), self._pair(head, kind))
        further, end = self._walks.reached(target[position], self._second[rule])
        return np.stack([question[position[further]], end, rule[further]])

    def _pair(self, head: IntArray, kind: IntArray) -> IntArray:
        return np.asarray(head * len(self._walks.kinds) + kind)

    @cached_property
    def _head(self) -> IntArray:
        return self._walks.kind_of(self.rules.head)

    @cached_property
    def _first(self) -> IntArray:
        return self._walks.kind_of(self.rules.first)

    @cached_property
    def _second(self) -> IntArray:
        return self._walks.kind_of(self.rules.second)

    @cached_property
    def _usual_index(self) -> tuple[IntArray, IntArray]:
        return _index(self._head, self.rules.usual, [self._head])

    @cached_property
    def _given_index(self) -> tuple[IntArray, IntArray]:
        return _index(self._head * self._entities + self.rules.value, self.rules.given, [self._head])

    @cached_property
    def _shared_index(self) -> tuple[IntArray, IntArray]:
        return _index(self._pair(self._head, self._first) * self._entities + self.rules.value, self.rules.shared, [self._head, self._first])

    @cached_property
    def _path_indexes(self) -> tuple[tuple[IntArray, IntArray], tuple[IntArray, IntArray]]:
        rules, key, longer = self.rules.path, self._pair(self._head, self._first), self.rules.second[self.rules.path] != ABSENT
        needed = [self._head, self._first]
        return _index(key, rules[~longer], needed), _index(key, rules[longer], [*needed, self._second])

    def _path_index(self, length: int) -> tuple[IntArray, IntArray]:
        return self._path_indexes[length - 1]


def _index(key: IntArray, rules: IntArray, needed: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """Returns rules whose steps occur, sorted by a key, with their keys."""
    rules = rules[np.all([kind[rules] >= 0 for kind in needed], axis=0)]
    rules = rules[np.argsort(key[rules], kind="stable")]
    return key[rules], rules
