"""The entities with the best scores for query vectors, their exact scores, the normaliser, and the scores of any others.

B queries · V entities · D width · k best.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from starqe.measure.retrieval import Best, least_of_best, retrieve, stacked
from starqe.model.similarity import BLOCK, EntityRows
from starqe.ragged import IntArray

SPARE = 64
"""By rounded rows, this many more entities than are wanted are found; all of them are scored exactly."""
WORST = 0.05
"""Rounded rows are not used if their errors are more than this share of the spread of the scores: a processor may lack the instructions."""
FEW = 16
"""The number of vectors that the rows are packed for, and that are multiplied at a time."""
LEADING = 64
"""The number of best scores of a query that are exact where the others are rounded: most of the mass of a softmax."""
FAST = 3
"""Scores of all entities are rounded for up to this many vectors; for more, exact ones take little longer."""


@dataclass(frozen=True, eq=False)
class Nearest:
    """The best entities of some queries, and a way to score any others."""

    best: Best
    at: Callable[[IntArray, IntArray], Tensor]
    """Returns the scores of some entities for some of the queries: (r,), (n,) -> (r, n)."""


@dataclass(frozen=True, eq=False)
class Scored:
    """The scores of all entities for some queries. They may be rounded; then those of the best are exact."""

    scores: Tensor  # (B, V)
    at: Callable[[IntArray, IntArray], Tensor]
    """Computes the exact scores of some entities for some of the queries: (r,), (n,) -> (r, n)."""
    pairs: Callable[[IntArray, IntArray], Tensor]
    """Computes the exact scores of pairs of a query and an entity: (n,), (n,) -> (n,)."""
    rounded: bool

    def with_exact_best(self, count: int) -> "Scored":
        """Replaces the best rounded scores of each query by exact ones, in place; a few more than this many."""
        if self.rounded:
            rows, ids = np.nonzero(self.scores.numpy() >= least_of_best(self.scores, count).numpy())
            self.scores[torch.from_numpy(rows), torch.from_numpy(ids)] = self.pairs(rows, ids)
        return self


def exact_scores(scores: Tensor) -> Scored:
    """Returns exact scores of all entities: (B, V)."""

    def at(rows: IntArray, ids: IntArray) -> Tensor:
        return scores[torch.from_numpy(rows)][:, torch.from_numpy(ids)]

    return Scored(scores, at, lambda rows, ids: scores[torch.from_numpy(rows), torch.from_numpy(ids)], rounded=False)


class Rounded:
    """Rows in 8 bits, scaled so that the largest number of each is 127; products are approximate, and several times as fast.

    Vectors have two digits of 8 bits. With one, all scores of a vector are too large or too small together: normalisers would be wrong
    by 0.01, instead of 0.0001. For one vector both digits take no more time than one.
    """

    def __init__(self, rows: Tensor) -> None:
        self._parts = [_packed(block) for block in torch.split(rows, BLOCK)]

    def blocks(self, vectors: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Yields approximate dot products with up to `BLOCK` entities at a time, and the first entity of each block. (B, D) -> (B, n)."""
        largest = vectors.abs().amax(1, keepdim=True).clamp_min_(torch.finfo(vectors.dtype).tiny)  # (B, 1)
        scaled = vectors.mul(127 / largest)
        first = scaled.round()
        whole = torch.cat([first, scaled.sub_(first).mul_(2 * 127).round_()]).add_(128).to(torch.uint8)  # (2B, D)
        for number, (packed, scales, zeros) in enumerate(self._parts):
            both = torch.ops.onednn.qlinear_pointwise(whole, 1.0, 128, packed, scales, zeros, None, 1.0, 0, torch.float32, "none", [], "")
            scores, rest = both.chunk(2)
            yield number * BLOCK, scores.add_(rest, alpha=1 / (2 * 127)).mul_(largest / 127)


def rounded(rows: Tensor) -> Rounded | None:
    """Returns rows in 8 bits; None where this processor or this torch cannot multiply them well. (V, D)."""
    few = rows[:: max(1, len(rows) // FEW)][:FEW]
    try:
        made = Rounded(rows)
        start, scores = next(iter(made.blocks(few)))
    except (RuntimeError, AttributeError):  # no such operation, or not for these sizes
        return None
    exact = few @ rows[start : start + scores.shape[1]].T
    return made if (scores - exact).std() <= WORST * exact.std() + 1e-9 else None


def _packed(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    scales = rows.abs().amax(1).clamp_min_(torch.finfo(rows.dtype).tiny).div_(127)
    whole = (rows / scales[:, None]).round_().to(torch.int8)
    packed = torch.ops.onednn.qlinear_prepack(whole, [FEW, rows.shape[1]])
    return packed, scales, torch.zeros(len(rows), dtype=torch.int32)


class EntitySearch:
    """Finds the entities with the best scores; safe to use from several threads.

    Rows that no longer change are rounded to 8 bits on first use. Products with these find the best candidates, which are scored
    exactly; the normaliser has rounded scores for all others. Otherwise all scores are exact.
    """

    def __init__(self, entities: EntityRows) -> None:
        self._entities = entities
        self._rounded: tuple[Rounded | None, int] | None = None  # the rounded rows, if they are of use, and the number of rows
        self._lock = threading.Lock()

    def best(self, vectors: Tensor, count: int, without: Sequence[IntArray] | None = None) -> Best:
        """Finds the best entities for each vector, besides those that do not compete. (B, D)."""
        screen = self._screen(count)
        if screen is None:
            return retrieve(self._entities.blocks(vectors), len(vectors), count, without)
        parts = []
        for first in range(0, len(vectors), FEW):
            some = slice(first, first + FEW)
            parts.append(self._screened(screen, vectors[some], count, None if without is None else without[some]))
        return parts[0] if len(parts) == 1 else stacked(parts)

    def all(self, vectors: Tensor) -> Scored:
        """Scores all entities: with rounded rows for few vectors, if they can be used. (B, D)."""
        screen = self._screen(0) if len(vectors) <= FAST else None
        blocks = [scores for _, scores in (self._entities if screen is None else screen).blocks(vectors)]
        scores = blocks[0] if len(blocks) == 1 else torch.cat(blocks, 1)

        def pairs(rows: IntArray, ids: IntArray) -> Tensor:
            return self._entities.pairs(vectors.index_select(0, torch.from_numpy(rows)), torch.from_numpy(ids))

        return Scored(scores, lambda rows, ids: self.at(vectors[torch.from_numpy(rows)], ids), pairs, screen is not None)

    def _screened(self, screen: Rounded, vectors: Tensor, count: int, without: Sequence[IntArray] | None) -> Best:
        rough = retrieve(screen.blocks(vectors), len(vectors), count + SPARE, without)
        ids = torch.from_numpy(np.sort(rough.ids, axis=1))
        scores = torch.cat([self._entities.at(vectors[row : row + 1], ids[row]) for row in range(len(vectors))])
        # The exact scores of the candidates take the place of their rounded ones in the normaliser.
        offset = rough.log_normaliser[:, None]
        share = torch.log1p((scores - offset).exp_().sum(1) - (rough.scores - offset).exp_().sum(1))
        order = scores.argsort(dim=1, descending=True, stable=True)[:, :count]  # stable: of equal ones, the lowest id comes first
        return Best(ids.gather(1, order).numpy(), scores.gather(1, order), rough.log_normaliser + share, rough.ceiling)

    def at(self, vectors: Tensor, ids: IntArray) -> Tensor:
        """Returns the exact scores of some entities. (B, D), (n,) -> (B, n)."""
        return self._entities.at(vectors, torch.from_numpy(ids.astype(np.int64, copy=False)))

    def _screen(self, count: int) -> Rounded | None:
        """Returns the rounded rows, if they save time for this number of entities."""
        with self._lock:
            if self._rounded is None:
                rows = self._entities.frozen_rows()
                self._rounded = (None, 0) if rows is None else (rounded(rows), len(rows))
        screen, size = self._rounded
        return screen if 8 * (count + SPARE) < size else None


class Search(Protocol):
    """Finds the best entities of query vectors: all scores compared, or by an index."""

    def best(self, vectors: Tensor, count: int, without: Sequence[IntArray] | None = None) -> Best:
        """Finds the best entities for each vector, besides those that do not compete. (B, D)."""

    def at(self, vectors: Tensor, ids: IntArray) -> Tensor:
        """Returns the exact scores of some entities. (B, D), (n,) -> (B, n)."""


def nearest(search: Search, vectors: Tensor, count: int, without: Sequence[IntArray] | None = None) -> Nearest:
    """Finds the best entities for each vector, besides those that do not compete. (B, D)."""
    with torch.inference_mode():
        return Nearest(search.best(vectors, count, without), lambda rows, ids: search.at(vectors[torch.from_numpy(rows)], ids))


def together(parts: Sequence[Nearest]) -> Nearest:
    """Returns the best entities of the queries of several parts, part after part."""
    owner = np.repeat(np.arange(len(parts)), [len(part.best.ids) for part in parts])
    first = np.searchsorted(owner, np.arange(len(parts)))

    def at(rows: IntArray, ids: IntArray) -> Tensor:
        return torch.cat([parts[owner[row]].at(np.array([row - first[owner[row]]]), ids) for row in rows.tolist()])

    return Nearest(stacked([part.best for part in parts]), at)
