"""Link prediction: ranks the entities of held-out statements, by the protocols of `LINKS`.

B questions · V entities.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from starqe.errors import InputError
from starqe.kg import SPLITS, Graph
from starqe.measure.evaluate import Progress, batch_for
from starqe.measure.exact_search import Nearest, Scored
from starqe.measure.metrics import Accumulator
from starqe.measure.ranks import filtered_ranks
from starqe.measure.rows import Row, report
from starqe.queries.exact.entailed import Entailed
from starqe.queries.gaps import HEAD, TAIL, VALUE, Gaps, with_gap
from starqe.ragged import IntArray, Ragged
from starqe.seed import generator

BATCH = 512
"""The number of questions per batch."""


class GapScorer(Protocol):
    """Scores all entities as the missing part of statements."""

    def entity_scores(self, gaps: Gaps, out: Tensor) -> Tensor:
        """Returns the scores of all entities; may write to ``out`` and return it: (B, V)."""


@runtime_checkable
class GapRetriever(Protocol):
    """A scorer that finds the best entities for the missing part of statements, without a row of scores for all."""

    def nearest_entities(self, gaps: Gaps, count: int, without: Sequence[IntArray] | None = None) -> Nearest:
        """Finds the best entities, besides those that do not compete."""


@runtime_checkable
class GapTable(Protocol):
    """A scorer that can also score all entities with rounded numbers, which is faster."""

    def every_entity(self, gaps: Gaps) -> Scored:
        """Scores all entities as the missing part of statements."""


ENDS = ("tail", "head")
PARTS = {"tail": TAIL, "head": HEAD, "value": VALUE}
"""What can be asked for: the ends of a statement, and the value of each of its qualifier pairs."""


@dataclass(frozen=True)
class LinkProtocol:
    """Which entities compete with the one in the statement."""

    same_pairs: bool
    """Whether other answers are filtered only if their statement has the same set of pairs, or whenever it has all the given ones."""
    ends_only: bool
    """Whether entities that occur only in qualifiers are excluded from the candidates."""
    parts: tuple[str, ...] = ENDS
    """What is asked for, keys of `PARTS`; in the rows they take the place of shapes."""


LINKS: Mapping[str, LinkProtocol] = {
    "published": LinkProtocol(same_pairs=True, ends_only=True),
    "ours": LinkProtocol(same_pairs=False, ends_only=False),
    "every-entity": LinkProtocol(same_pairs=True, ends_only=False, parts=(*ENDS, "value")),
}
"""The protocols: that of the published results for heads and tails with qualifiers, one that follows the meaning of qualifiers, and that
of the published results for every entity of a statement, qualifier values included."""


def link_rows(
    scorer: GapScorer,
    graph: Graph,
    protocol: str = "published",
    split: str = "test",
    limit: int | None = None,
    *,
    row: str = "model",
    seed: int = 0,
    replicates: int = 200,
    progress: Progress | None = None,
) -> list[Row]:
    """Asks for the parts of every statement of a split that the protocol names, all else given; returns all metrics.

    Every question counts the same: of the ends, ``all`` is the mean over both. Other answers in any split do not compete.
    Ranks among equal scores are realistic. A question has one ranked answer, so micro and macro averages are the same.

    Args:
        scorer: Scores all entities.
        graph: The statements of all splits; the scorer never sees it.
        protocol: A key of `LINKS`.
        split: Which statements are asked for.
        limit: The number of them, sampled at random; all if left out.
        row: The name of what is evaluated.
        seed: The seed that the model was trained with; the bootstrap uses it too.
        replicates: Bootstrap replicates for the confidence intervals.
        progress: Called after every batch.

    Raises:
        InputError: The protocol or the split is unknown, or the split has no statements.
        MeasureError: A score is not a number.
        UnsupportedError: The scorer cannot be asked such queries.
    """
    if protocol not in LINKS:
        raise InputError(f"protocols of link prediction are {', '.join(LINKS)}, found '{protocol}'")
    rows = some_statements(graph, split, limit)
    if not len(rows):
        raise InputError(f"link prediction asks for statements of a split, found none in {split}")
    sums = rank_links(scorer, graph, rows, LINKS[protocol], SPLITS, replicates, seed, progress)
    rows_of_both = report(sums, dict.fromkeys(sums, 0), name=row, protocol=protocol, seed=seed, ties="realistic")
    return [one for one in rows_of_both if one.average == "micro"]


def some_statements(graph: Graph, split: str, limit: int | None, seed: int = 0) -> IntArray:
    """Returns the statements of a split that have an entity at both ends, or a random sample of them."""
    rows = graph.known([split]).rows
    rows = rows[graph.tail[rows] < len(graph.entities)]
    if limit is None or limit >= len(rows):
        return rows
    return np.sort(generator(seed, f"statements of {split}").choice(rows, limit, replace=False))


def rank_links(
    scorer: GapScorer,
    graph: Graph,
    rows: IntArray,
    protocol: LinkProtocol,
    splits: Collection[str],
    replicates: int = 0,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Accumulator]:
    """Ranks the missing entities of statements; answers that are known in the given splits do not compete."""
    entailed = Entailed(graph.known(splits))
    candidates = _Candidates(graph, protocol.ends_only)
    batch = batch_for(len(graph.entities), BATCH)
    scores = torch.empty(batch, len(graph.entities))  # (B, V), for all batches
    sums = {name: Accumulator(replicates, seed, name) for name in protocol.parts}
    for name in protocol.parts:
        asked, pair = questions_for(graph, rows, name)
        for start in range(0, len(asked), batch):
            gaps, answer = _with_answer(graph, asked[start : start + batch], name, pair[start : start + batch])
            own = Ragged(np.arange(len(gaps) + 1), answer)
            others = entailed.answers(gaps, exactly=protocol.same_pairs)
            others = others.where(others.items < len(graph.entities))  # a literal does not compete
            found = scorer.entity_scores(gaps, scores[: len(gaps)])
            ranks = filtered_ranks(candidates.scores(found), candidates.places(own), candidates.places(others))
            sums[name].add(ranks, own.counts)
            if progress:
                progress(name, start + len(gaps), len(asked))
    return sums


def questions_for(graph: Graph, rows: IntArray, part: str) -> tuple[IntArray, IntArray]:
    """Returns the statement of each question for a part of these statements, and which of its pairs lacks the value, if a value does.

    Every statement is asked for its ends, and for each of its values that is an entity.
    """
    if PARTS[part] != VALUE:
        return rows, np.zeros(len(rows), np.int64)
    pairs = graph.pairs.take(rows)
    entities = np.flatnonzero(pairs.items[:, 1] < len(graph.entities))
    return rows[pairs.owner[entities]], (np.arange(len(pairs.items)) - pairs.offsets[pairs.owner])[entities]


def _with_answer(graph: Graph, rows: IntArray, part: str, pair: IntArray) -> tuple[Gaps, IntArray]:
    """Returns statements that lack a part, and what they lack."""
    if PARTS[part] != VALUE:
        return with_gap(graph, rows, PARTS[part]), getattr(graph, part)[rows]
    pairs = graph.pairs.take(rows)
    hidden = pairs.offsets[:-1] + pair
    return with_gap(graph, rows, VALUE, hidden=hidden), pairs.items[hidden, 1]


class _Candidates:
    """The entities that compete: all, or those that are an end of a statement in any split."""

    def __init__(self, graph: Graph, ends_only: bool) -> None:
        self._all = not ends_only
        ends = np.unique(np.concatenate([graph.head, graph.tail]))
        competing = ends[ends < len(graph.entities)]
        self._competing = torch.from_numpy(competing.astype(np.int64))
        self._place = np.full(len(graph.entities), -1, np.int32)
        self._place[competing] = np.arange(len(competing), dtype=np.int32)
        self._buffer = torch.empty(0 if self._all else batch_for(len(graph.entities), BATCH), len(competing))

    def scores(self, scores: Tensor) -> Tensor:
        """Returns the columns of those that compete. (B, V) -> (B, candidates)."""
        if self._all:
            return scores
        return torch.index_select(scores, 1, self._competing, out=self._buffer[: len(scores)])

    def places(self, entities: Ragged) -> Ragged:
        """Returns entities, all of them ends of statements, as columns of these scores."""
        return entities if self._all else Ragged(entities.offsets, self._place[entities.items])
