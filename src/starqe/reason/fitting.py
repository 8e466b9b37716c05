"""Fits parameters on validation, with train alone as known: which of the best candidates hold once validation statements are added?

In this order: the probability of a single predicted fact, the levels of predicted numbers (`starqe.reason.numbers`), the weights of
the mixture of encoder and executor, and the probability of an answer. In large graphs all of them use the best candidates only.

B questions or queries · K candidates · V entities.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from starqe.errors import QueryError
from starqe.kg import Graph
from starqe.measure.evaluate import Scorer
from starqe.measure.links import GapScorer
from starqe.measure.ranking_protocols import Task, strict
from starqe.measure.ranks import filtered_ranks, ranks_among
from starqe.measure.reliability import Reliability, reliability
from starqe.measure.retrieval import DENSE
from starqe.model.similarity import BLOCK
from starqe.queries import QueryTable, sample
from starqe.queries.exact.entailed import Entailed
from starqe.queries.gaps import gaps_of
from starqe.queries.shape import ONE_HOP
from starqe.ragged import BoolArray, FloatArray, IntArray, Ragged
from starqe.reason.calibration import AnswerProbability, Evidence
from starqe.reason.chance import Chance, fit_chance
from starqe.reason.executor.executor import CELLS
from starqe.reason.executor.settings import ReasonSettings
from starqe.reason.lacking import query_weights
from starqe.reason.logistic import Logistic, fit_logistic
from starqe.reason.mixture import CANDIDATES, CLASSES, Encoding, Executing, Weights, log_truth, shape_class
from starqe.reason.predictor import one_hop
from starqe.reason.predictor.one_hop import Context, best_beliefs, log_share
from starqe.reason.probability import FEATURES, answer_features, best_candidates, candidates_exist, probabilities
from starqe.seed import derive

WEIGHTS = tuple(round(0.1 * step, 1) for step in range(11))
"""The executor weights that are tried; the encoder's weight is 1 minus the executor's."""
FACTS = 2_000
"""The number of questions that the probability of single facts is fitted on."""
FACT_CANDIDATES, ANSWER_CANDIDATES = 50, 20
"""The number of best candidates per question (single facts) and per query (answers) that the fits learn from."""
_BATCH, _FACT_BATCH = 64, 256
_LISTED_BATCH, _LISTED_FACT_BATCH = 16, 32  # in large graphs: a batch may take a second, and the clock is checked after each


def fit_one_hop(graph: Graph, scorer: GapScorer, count: int = FACTS, seed: int = 0, seconds: float | None = None) -> Logistic:
    """Fits the probability of single facts: which of the best candidates beyond train hold with valid?

    Half of the questions come from validation statements, half from training statements (which seldom have a further answer),
    each in both directions and with none to two qualifiers. With a limit of time, fewer questions are used.

    Raises:
        QueryError: The graph has no validation statements to learn from.
    """
    if not len(graph.known(["valid"])):
        raise QueryError("probabilities are calibrated on validation statements, and this graph has none. Split it again")
    tables = [
        sample(graph, shape, count // 4, split, [(0, 2)], derive(seed, "one-hop calibration"))
        for shape in ONE_HOP.values()
        for split in ("valid", "train")
    ]
    context, with_valid = Context(graph.known(["train"])), Entailed(graph.known(["train", "valid"]))
    features: list[FloatArray] = [np.empty((0, len(one_hop.FEATURES)))]
    truth: list[BoolArray] = [np.empty(0, bool)]
    size = _FACT_BATCH if len(graph.entities) <= DENSE else _LISTED_FACT_BATCH
    for place, batch in in_turns([len(table) for table in tables], size, seconds, least=len(tables)):
        gaps = gaps_of(tables[place], np.arange(batch.start, batch.stop))
        found = best_beliefs(scorer, context, gaps, min(FACT_CANDIDATES, len(graph.entities)))
        answers = with_valid.answers(gaps)
        case = np.repeat(context.features(gaps, found.known.counts)[:, None], found.ids.shape[1], axis=1)  # (B, K, features)
        case[:, :, 0] = found.beliefs.numpy() - found.left.numpy()[:, None]
        exists = np.isfinite(case[:, :, 0])
        features.append(case[exists])
        truth.append(np.stack([np.isin(ids, answers[row]) for row, ids in enumerate(found.ids)])[exists])
    return fit_logistic(np.concatenate(features), np.concatenate(truth))


def calibration_bytes(entities: int, settings: ReasonSettings) -> int:
    """Estimates the memory that calibration takes for scores: of facts, of a batch of queries, and of the candidates of its executor."""
    if entities > DENSE:  # blocks of scores, of facts and of a batch of queries
        return 4 * 4 * _FACT_BATCH * BLOCK
    executor = min(CELLS, settings.beam * _BATCH * entities)
    return 4 * (4 * _FACT_BATCH * entities + 3 * _BATCH * entities + 8 * executor)


def fit_weights(
    graph: Graph, encoder: Scorer, executor: Scorer, validation: Mapping[str, QueryTable], seconds: float | None = None
) -> Weights:
    """Fits the weights of the mixture: for each class of shapes those with the best MRR of hard answers (macro).

    Queries count by what they lack (`starqe.reason.lacking`). A class that no validation query has gets the weight of the mixed class,
    or else half.

    Args:
        graph: The graph in which easy and hard answers are looked up; the scorers see train only.
        encoder: Scores of the encoder.
        executor: Truths of the executor.
        validation: Queries of the split valid, by shape.
        seconds: The time that it may take; all queries are used if left out.
    """
    sums: dict[str, FloatArray] = {}
    counts: dict[str, int] = {}
    found: dict[str, list[FloatArray]] = {}
    often: dict[str, list[FloatArray]] = {}
    for table, task, batch in _hard_batches(graph, validation, seconds):
        found.setdefault(table.shape.name, []).append(_reciprocal_ranks(graph, encoder, executor, table, task, batch))  # (queries, weights)
        hard = task.ranked.slice(batch.start, batch.stop)
        often.setdefault(table.shape.name, []).append(query_weights(graph, table, task.rows[batch], hard))
    for table in validation.values():
        # Every shape of a class counts the same, however many queries it has.
        if parts := found.get(table.shape.name):
            name, reciprocal = shape_class(table.shape), np.concatenate(parts)
            mean = np.average(reciprocal, axis=0, weights=np.concatenate(often[table.shape.name]))
            sums[name] = sums.get(name, np.zeros(len(WEIGHTS))) + mean
            counts[name] = counts.get(name, 0) + len(reciprocal)
    best = {name: WEIGHTS[int(sums[name].argmax())] for name in CLASSES if counts.get(name)}
    return Weights({name: best.get(name, best.get("mixed", 0.5)) for name in CLASSES})


def in_turns(counts: Sequence[int], size: int, seconds: float | None, least: int) -> Iterator[tuple[int, slice]]:
    """Yields batches of several tables, one of each table in turn, while there is time; the first ``least`` tables always have one."""
    end = None if seconds is None else time.monotonic() + seconds
    for start in range(0, max(counts, default=0), size):
        for place, count in enumerate(counts):
            if end is not None and time.monotonic() >= end and (start or place >= least):
                return
            if start < count:
                yield place, slice(start, min(start + size, count))


def _hard_batches(graph: Graph, tables: Mapping[str, QueryTable], seconds: float | None) -> Iterator[tuple[QueryTable, Task, slice]]:
    """Yields batches of the queries that have hard answers, one of each shape in turn, and of one shape per class in any case."""
    first = {shape_class(table.shape): name for name, table in reversed(list(tables.items()))}
    ordered = [*(tables[name] for name in first.values()), *(table for name, table in tables.items() if name not in first.values())]
    tasks: dict[int, Task] = {}
    size = _BATCH if len(graph.entities) <= DENSE else _LISTED_BATCH
    for place, batch in in_turns([len(table) for table in ordered], size, seconds, least=len(first)):
        if place not in tasks:
            tasks[place] = strict(graph, ordered[place], np.arange(len(ordered[place])))
        hard = len(tasks[place].rows)
        if batch.start < hard:
            yield ordered[place], tasks[place], slice(batch.start, min(batch.stop, hard))


def _reciprocal_ranks(graph: Graph, encoder: Scorer, executor: Scorer, table: QueryTable, task: Task, batch: slice) -> FloatArray:
    """Computes the mean reciprocal rank of the hard answers of each query, for every weight: (queries, weights)."""
    if len(graph.entities) > DENSE and isinstance(encoder, Encoding) and isinstance(executor, Executing):
        return _listed_ranks(graph, encoder, executor, table, task, batch)
    rows = task.rows[batch]
    one, other, both = torch.empty(3, len(rows), len(graph.entities))
    encoded = log_share(encoder.scores(table, rows, one))
    derived = log_truth(executor.scores(table, rows, other))
    ranked, filtered = task.ranked.slice(batch.start, batch.stop), task.filtered.slice(batch.start, batch.stop)
    columns = []
    for weight in WEIGHTS:
        torch.mul(derived, weight, out=both).add_(encoded, alpha=1 - weight)
        ranks = filtered_ranks(both, ranked, filtered).realistic
        columns.append(np.bincount(ranked.owner, 1 / ranks, minlength=len(rows)) / ranked.counts)
    return np.stack(columns, axis=1)


def _listed_ranks(graph: Graph, encoder: Encoding, executor: Executing, table: QueryTable, task: Task, batch: slice) -> FloatArray:
    """Computes the same in large graphs: hard answers compete with the candidates of the executor and the encoder."""
    found = [np.empty((0, len(WEIGHTS)))]
    parts = [(table, task.rows[batch])]
    ranked, filtered = task.ranked.slice(batch.start, batch.stop), task.filtered.slice(batch.start, batch.stop)
    near = encoder.nearest(parts, CANDIDATES, [filtered[row] for row in range(len(filtered))])
    truths = executor.rows_of(parts, listed=CANDIDATES)
    for row, truth in enumerate(truths.rows):
        hard = ranked[row].astype(np.int64)
        rivals = np.union1d(near.best.ids[row][near.best.scores[row].isfinite().numpy()], truth.pairs(len(graph.entities))[0])
        ids = np.concatenate([hard, np.setdiff1d(rivals, filtered[row])])
        encoded, derived = near.at(np.array([row]), ids)[0], log_truth(truth.at(ids).clone())
        scores = torch.stack([derived * weight + encoded * (1 - weight) for weight in WEIGHTS]).numpy()  # (weights, n)
        ranks = ranks_among(scores[:, : len(hard)], scores[:, len(hard) :])  # (weights, hard)
        found.append((1 / ranks).mean(1)[None])
    return np.concatenate(found)


def fit_probability(graph: Graph, scorer: Scorer, validation: Mapping[str, QueryTable], seconds: float | None = None) -> AnswerProbability:
    """Fits the probability of answers on validation queries that have hard answers; the scorer knows train only.

    Queries count by what they lack (`starqe.reason.lacking`). It stops after the given seconds, and has used queries of every class of
    shapes by then; without a limit, all queries are used.

    Raises:
        QueryError: No validation query has a hard answer.
    """
    cases = list(_answer_cases(graph, scorer, validation, seconds))
    if not cases:
        raise QueryError("probabilities are fitted on validation queries with answers that train lacks, and there are none")
    every = _Cases.joined(cases)
    counts = np.concatenate([query_weights(graph, case.table, case.rows, case.hard) for case in cases])
    chance, _ = fit_chance(every.features, every.truth, every.query, counts[every.query])
    return AnswerProbability(chance, Evidence(len(graph.known(["valid"])), len(every.truth), int(every.truth.sum())))


@dataclass(frozen=True)
class Checked:
    """How far probabilities can be trusted: of all candidates, of each class of shapes, and by the number of known answers."""

    every: Reliability
    classes: Mapping[str, Reliability]
    known: Mapping[str, Reliability]


KNOWN = {"none": (0, 1), "1 or 2": (1, 3), "3 to 9": (3, 10), "10 or more": (10, np.inf)}
"""Numbers of known answers that are checked together: from, and below."""


def check_probability(graph: Graph, scorer: Scorer, fitted: Chance, tables: Mapping[str, QueryTable]) -> Checked | None:
    """Compares the probabilities of the best candidates of queries with which of them are hard answers; None without any.

    The scorer knows train only, as when the probabilities were fitted.
    """
    cases = list(_answer_cases(graph, scorer, tables))
    if not cases:
        return None
    every = _Cases.joined(cases)
    chances = np.concatenate([probabilities(fitted, case.best)[candidates_exist(case.best)] for case in cases])
    counts, classes = np.expm1(every.features[:, FEATURES.index("log known answers")]).round(), every.features[:, -len(CLASSES) :] > 0

    def of(part: BoolArray) -> Reliability:
        return reliability(chances[part], every.truth[part])

    by_known = {name: (counts >= least) & (counts < most) for name, (least, most) in KNOWN.items()}
    return Checked(
        of(np.ones(len(chances), bool)),
        {name: of(classes[:, place]) for place, name in enumerate(CLASSES) if classes[:, place].any()},
        {name: of(part) for name, part in by_known.items() if part.any()},
    )


@dataclass(frozen=True, eq=False)
class _Case:
    """The best candidates of some queries of one table, with their easy answers as known."""

    table: QueryTable
    rows: IntArray  # (B,)
    hard: Ragged  # the hard answers of each
    best: FloatArray  # (B, K, features)
    holds: BoolArray  # (B, K) whether they are hard answers


@dataclass(frozen=True, eq=False)
class _Cases:
    """Candidates of many queries."""

    features: FloatArray  # (n, features)
    truth: BoolArray  # (n,)
    query: IntArray  # (n,) the query of each, counted over all cases

    @classmethod
    def joined(cls, cases: Sequence[_Case]) -> "_Cases":
        exist = [candidates_exist(case.best) for case in cases]
        found = np.concatenate([exists.sum(1) for exists in exist])
        return cls(
            np.concatenate([case.best[exists] for case, exists in zip(cases, exist, strict=True)]),
            np.concatenate([case.holds[exists] for case, exists in zip(cases, exist, strict=True)]),
            np.repeat(np.arange(len(found)), found),
        )


def _answer_cases(graph: Graph, scorer: Scorer, tables: Mapping[str, QueryTable], seconds: float | None = None) -> Iterator[_Case]:
    """Ranks queries that have hard answers with their easy answers as known."""
    for table, task, batch in _hard_batches(graph, tables, seconds):
        rows = task.rows[batch]
        hard, either = task.ranked.slice(batch.start, batch.stop), task.filtered.slice(batch.start, batch.stop)
        easy: list[IntArray] = [np.setdiff1d(either[i], hard[i]) for i in range(len(rows))]
        best = best_candidates(scorer, table, rows, easy, ANSWER_CANDIDATES, len(graph.entities))
        features = answer_features([table.shape] * len(rows), best, [len(ids) for ids in easy])
        yield _Case(table, rows, hard, features, np.stack([np.isin(best.ids[i], hard[i]) for i in range(len(rows))]))
