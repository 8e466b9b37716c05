"""What may stand in a gap: everything that the known statements entail there, for many gaps at once."""

from dataclasses import replace

import numpy as np

from starqe.kg import Known
from starqe.kg.known import matches
from starqe.queries.table import ragged_take
from starqe.reason.gaps import HEAD, MISSING, POSITIONS, RELATION, TAIL, VALUE, Gaps

_GIVEN = {HEAD: ("relation", "tail"), RELATION: ("head", "tail"), TAIL: ("head", "relation"), VALUE: ("head", "relation", "tail")}
"""The columns that are known of a statement with a gap at each position."""

Answers = tuple[np.ndarray, np.ndarray]
"""Offsets (n+1,) and ids: the answers of statement i, ascending and each once."""


class Entailed:
    """Finds the answers of gaps in known statements. Indexes are made on first use and kept.

    Qualifiers are monotone: a known statement answers if it has the given ends, relation and pairs, and maybe more pairs.
    """

    def __init__(self, known: Known) -> None:
        self._known, self._graph = known, known.graph
        self._indexes: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def answered(self, gaps: Gaps) -> Gaps:
        """Gives the same gaps with their answers."""
        offsets, answers = self.answers(gaps)
        return replace(gaps, answer_offsets=offsets, answers=answers)

    def answers(self, gaps: Gaps, exactly: bool = False) -> Answers:
        """Gives all answers of each gap.

        Args:
            gaps: The questions.
            exactly: Whether a statement answers only if it has no further pairs.
        """
        there = [position for position in range(len(POSITIONS)) if (gaps.position == position).any()]
        found = [(np.empty(0, np.int64), np.empty(0, np.int32)), *(self._at(position, gaps, exactly) for position in there)]
        row, answer = (np.concatenate(parts) for parts in zip(*found, strict=True))
        if len(there) > 1:  # the answers of one position stand in the order of their rows already
            answer = answer[np.argsort(row, kind="stable")]
        offsets = np.zeros(len(gaps) + 1, np.int64)
        np.cumsum(np.bincount(row, minlength=len(gaps)), out=offsets[1:])
        return offsets, answer

    def _at(self, position: int, gaps: Gaps, exactly: bool) -> tuple[np.ndarray, np.ndarray]:
        """Gives the row and the answer of everything that fits into the gaps at one position, sorted, each once."""
        rows = np.flatnonzero(gaps.position == position)
        place, statement = matches(self._index(position), self._codes(position, gaps, rows))
        row = rows[place]
        fits = self._with_pairs(gaps, row, statement, exactly)
        row, statement = row[fits], statement[fits]
        if position == VALUE:
            return self._values(gaps, row, statement)
        answer = getattr(self._graph, POSITIONS[position])[statement]
        # The index is sorted by answer within a key, so that equal ones are neighbours.
        fresh = np.ones(len(row), bool)
        fresh[1:] = (row[1:] != row[:-1]) | (answer[1:] != answer[:-1])
        return row[fresh], answer[fresh]

    def _with_pairs(self, gaps: Gaps, row: np.ndarray, statement: np.ndarray, exactly: bool) -> np.ndarray:
        """Says for each match whether its statement has all the given pairs (exactly: and as many as the gap has in all)."""
        first, last = gaps.pair_offsets[row], gaps.pair_offsets[row + 1]
        missing = gaps.pair_value == MISSING
        fits = self._known.have_pairs(statement, first, last, gaps.pair_relation, gaps.pair_value, missing)
        return fits & (last - first == np.diff(self._graph.offsets)[statement]) if exactly else fits

    def _values(self, gaps: Gaps, row: np.ndarray, statement: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gives the values that the matching statements have for the relation of the open pair."""
        open_relation = np.full(len(gaps), MISSING, np.int64)
        open_pairs = gaps.pair_value == MISSING
        open_relation[gaps.owner[open_pairs]] = gaps.pair_relation[open_pairs]
        offsets, pairs = ragged_take(self._graph.offsets, statement)
        row = np.repeat(row, np.diff(offsets))
        fits = self._graph.pair_relation[pairs] == open_relation[row]
        width = len(self._graph.entities)
        codes = np.unique(row[fits] * width + self._graph.pair_value[pairs[fits]])
        return codes // width, (codes % width).astype(np.int32)

    def _codes(self, position: int, columns: object, rows: np.ndarray) -> np.ndarray:
        """Packs what is given at a position into one number a row."""
        code = np.zeros(len(rows), np.int64)
        for name in _GIVEN[position]:
            code = code * (len(self._graph.relations) if name == "relation" else len(self._graph.entities)) + getattr(columns, name)[rows]
        return code

    def _index(self, position: int) -> tuple[np.ndarray, np.ndarray]:
        """Gives the known statements sorted by what is given at a position and then by the answer, with their keys."""
        if position not in self._indexes:
            rows = self._known.rows
            codes = self._codes(position, self._graph, rows)
            answer = rows if position == VALUE else getattr(self._graph, POSITIONS[position])[rows]
            order = np.lexsort((answer, codes))
            self._indexes[position] = codes[order], rows[order]
        return self._indexes[position]
