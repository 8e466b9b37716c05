"""Finds what fills a gap: all values that known statements entail, for many gaps at once."""

from dataclasses import replace

import numpy as np

from starqe.kg import Known
from starqe.kg.known import matches
from starqe.queries.gaps import HEAD, MISSING, POSITIONS, RELATION, TAIL, VALUE, Gaps
from starqe.ragged import BoolArray, IntArray, Ragged

_GIVEN = {HEAD: ("relation", "tail"), RELATION: ("head", "tail"), TAIL: ("head", "relation"), VALUE: ("head", "relation", "tail")}
"""The columns that are known of a statement with a gap at each position."""


class Entailed:
    """Finds the answers of gaps in known statements. Indexes are built on first use and kept.

    Qualifiers are monotone: a known statement matches if it has the given ends, relation and pairs, possibly with more pairs.
    """

    def __init__(self, known: Known) -> None:
        self._known, self._graph = known, known.graph
        self._indexes: dict[int, tuple[IntArray, IntArray]] = {}

    def answered(self, gaps: Gaps) -> Gaps:
        """Returns the same gaps with their answers."""
        return replace(gaps, answers=self.answers(gaps))

    def answers(self, gaps: Gaps, exactly: bool = False) -> Ragged:
        """Finds all answers of each gap, ascending, each once.

        Args:
            gaps: The questions.
            exactly: Whether a statement with further pairs does not match.
        """
        present = [position for position in range(len(POSITIONS)) if (gaps.position == position).any()]
        found = [(np.empty(0, np.int64), np.empty(0, np.int32)), *(self._at(position, gaps, exactly) for position in present)]
        row, answer = (np.concatenate(parts) for parts in zip(*found, strict=True))
        if len(present) > 1:  # the answers of one position are already in the order of their rows
            answer = answer[np.argsort(row, kind="stable")]
        return Ragged.of_counts(np.bincount(row, minlength=len(gaps)), answer)

    def _at(self, position: int, gaps: Gaps, exactly: bool) -> tuple[IntArray, IntArray]:
        """Returns rows and answers for the gaps at one position, sorted and unique."""
        rows = np.flatnonzero(gaps.position == position)
        place, statement = matches(self._index(position), self._codes(position, gaps, rows))
        row = rows[place]
        fits = self._with_pairs(gaps, row, statement, exactly)
        row, statement = row[fits], statement[fits]
        if position == VALUE:
            return self._values(gaps, row, statement, exactly)
        answer = getattr(self._graph, POSITIONS[position])[statement]
        # The index is sorted by answer within a key, so that equal ones are adjacent.
        fresh = np.ones(len(row), bool)
        fresh[1:] = (row[1:] != row[:-1]) | (answer[1:] != answer[:-1])
        return row[fresh], answer[fresh]

    def _with_pairs(self, gaps: Gaps, row: IntArray, statement: IntArray, exactly: bool) -> BoolArray:
        """Returns for each match whether its statement has all the given pairs (exactly: and as many as the gap has in all)."""
        first, last = gaps.pairs.offsets[row], gaps.pairs.offsets[row + 1]
        missing = gaps.pair_value == MISSING
        fits = self._known.have_pairs(statement, first, last, gaps.pair_relation, gaps.pair_value, missing)
        return fits & (last - first == self._graph.pairs.counts[statement]) if exactly else fits

    def _values(self, gaps: Gaps, row: IntArray, statement: IntArray, exactly: bool) -> tuple[IntArray, IntArray]:
        """Returns the values that the matching statements have for the relation of the open pair (exactly: besides those given for it)."""
        open_relation = np.full(len(gaps), MISSING, np.int64)
        open_pairs = gaps.pair_value == MISSING
        open_relation[gaps.pairs.owner[open_pairs]] = gaps.pair_relation[open_pairs]
        pairs = self._graph.pairs.take(statement)
        row = row[pairs.owner]
        fits = pairs.items[:, 0] == open_relation[row]
        width = self._graph.value_count
        codes = np.unique(row[fits] * width + pairs.items[fits, 1])
        if exactly:
            owner, value = gaps.pairs.owner, gaps.pair_value.astype(np.int64)
            given = (value != MISSING) & (gaps.pair_relation == open_relation[owner])
            codes = np.setdiff1d(codes, owner[given] * width + value[given], assume_unique=False)
        return codes // width, (codes % width).astype(np.int32)

    def _codes(self, position: int, columns: object, rows: IntArray) -> IntArray:
        """Packs what is given at a position into one number per row."""
        code = np.zeros(len(rows), np.int64)
        for name in _GIVEN[position]:
            code = code * (len(self._graph.relations) if name == "relation" else self._graph.value_count) + getattr(columns, name)[rows]
        return code

    def _index(self, position: int) -> tuple[IntArray, IntArray]:
        """Returns the known statements sorted by what is given at a position and then by the answer, with their keys."""
        if position not in self._indexes:
            rows = self._known.rows
            codes = self._codes(position, self._graph, rows)
            answer = rows if position == VALUE else getattr(self._graph, POSITIONS[position])[rows]
            order = np.lexsort((answer, codes))
            self._indexes[position] = codes[order], rows[order]
        return self._indexes[position]
