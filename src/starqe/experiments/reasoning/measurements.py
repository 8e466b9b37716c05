"""Measures encoder, executor and mixture on one table of queries: ranks, missing edges asked alone, and explanations.

Results are plain lists and numbers, stored as JSON. Each query is encoded and executed once.

B queries · V entities.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from starqe.experiments.reasoning.derivations import MissingEdges, all_new, asked_alone, choices, derivations, one_missing
from starqe.kg import SPLITS
from starqe.measure.ranking_protocols import PROTOCOLS
from starqe.measure.ranks import filtered_ranks
from starqe.queries import QueryTable, answer_rows
from starqe.ragged import FloatArray, Ragged
from starqe.reason.executor.executor import Executor
from starqe.reason.executor.pattern import pattern_of_shape
from starqe.reason.executor.plan import plan_of
from starqe.reason.mixture import mixed
from starqe.reason.reasoner import RANKED_BY, Reasoner

BATCH = 64
"""Number of queries per batch."""

ALONE = "alone"
"""The rank of the missing entity when its edge is asked alone, next to those of the answer in the whole query."""

KNOWN_LAST = "mixture, known last"
"""The mixture where answers that train entails come after all predictions. Only negations differ: elsewhere such answers are filtered."""

Measured = dict[str, Any]
"""The measurements of a table; see `measured`."""


def measured(reasoner: Reasoner, table: QueryTable) -> Measured:
    """Measures a table of test queries; only train counts as known.

    Returns:
        ``queries``, their number; ``all_new``, the rows of which every edge is new (see `all_new`); ``ranks``, by protocol, of
        every ranked answer; ``missing``, the hard answers that lack one statement, with the reciprocal ranks of what is missing.

    Raises:
        UnsupportedError: The table is reified, or a query has too many derivations.
    """
    found = derivations(reasoner.graph, table)
    ranks = ranks_of(reasoner, table)
    return {
        "queries": len(table),
        "all_new": np.flatnonzero(all_new(found, len(table))).tolist(),
        "ranks": ranks,
        "missing": _missing(reasoner, table, one_missing(reasoner.graph, found), ranks["strict"]),
    }


def ranks_of(
    reasoner: Reasoner, table: QueryTable, protocols: Iterable[str] = tuple(PROTOCOLS), known_last: bool = False
) -> dict[str, Measured]:
    """Ranks the answers of every query by these protocols and by each of encoder, executor and mixture: realistic ranks.

    With ``known_last``, also by the mixture with the answers that train entails behind all others.
    """
    executor, weight = reasoner.executor(["train"]), reasoner.weights.of(table.shape)
    tasks = {name: PROTOCOLS[name](reasoner.graph, table, np.arange(len(table))) for name in protocols}
    known = answer_rows(reasoner.graph.known(["train"]), table) if known_last else Ragged.empty(len(table))
    names = (*RANKED_BY, KNOWN_LAST) if known_last else tuple(RANKED_BY)
    ranks: dict[str, dict[str, list[float]]] = {name: {by: [] for by in names} for name in tasks}
    candidates: dict[str, list[int]] = {name: [] for name in tasks}
    buffers = torch.empty(2, BATCH, len(reasoner.graph.entities))  # (2, B, V)
    for start in range(0, len(table), BATCH):
        rows = np.arange(start, min(start + BATCH, len(table)))
        encoded = reasoner.encoder.scores(table, rows, buffers[0, : len(rows)])
        truth = executor.scores(table, rows, buffers[1, : len(rows)])
        by_all = {"encoder": encoded, "executor": truth, "mixture": mixed(encoded, truth, weight)}
        if known_last:
            by_all[KNOWN_LAST] = behind(by_all["mixture"], known.take(rows))
        for by, scores in by_all.items():
            for name, task in tasks.items():
                first, last = np.searchsorted(task.rows, [start, start + len(rows)])
                own = scores[torch.from_numpy(task.rows[first:last] - start)]
                one = filtered_ranks(own, task.ranked.slice(first, last), task.filtered.slice(first, last))
                ranks[name][by] += one.realistic.tolist()
                if by == "encoder":
                    candidates[name] += one.candidates.tolist()
    return {
        name: {
            "query": task.rows[task.ranked.owner].tolist(),
            "answer": task.ranked.items.tolist(),
            "candidates": candidates[name],
            "rank": ranks[name],
            "dropped": task.dropped,
        }
        for name, task in tasks.items()
    }


def behind(scores: Tensor, known: Ragged) -> Tensor:
    """Returns the scores with those of some entities of each query below all others. (B, V)."""
    found = scores.clone()
    found[torch.from_numpy(known.owner), torch.from_numpy(known.items.astype(np.int64))] = -torch.inf
    return found


def _missing(reasoner: Reasoner, table: QueryTable, missing: MissingEdges, strict: Measured) -> Measured:
    """Returns the hard answers that lack one statement, and the rank of what is missing: alone, and in the query."""
    place = {key: number for number, key in enumerate(zip(strict["query"], strict["answer"], strict=True))}
    ranked = [place.get(key) for key in zip(missing.query.tolist(), missing.answer.tolist(), strict=True)]
    hard = [number for number, at in enumerate(ranked) if at is not None]
    missing = missing.take(np.array(hard, np.int64))
    in_query = {by: [1 / ranks[ranked[number]] for number in hard] for by, ranks in strict["rank"].items()}
    return {
        "query": missing.query.tolist(),
        "answer": missing.answer.tolist(),
        "edge": missing.edge.tolist(),
        "head": missing.head.tolist(),
        "tail": missing.tail.tolist(),
        "relation": table.relations[missing.query, missing.edge].tolist(),
        "choices": choices(reasoner.graph, table, missing).tolist(),
        "reciprocal": {ALONE: _alone(reasoner.executor(["train"]), table, missing).tolist(), **in_query},
    }


def _alone(executor: Executor, table: QueryTable, missing: MissingEdges) -> FloatArray:
    """Returns the reciprocal rank of the missing entity if its edge is asked alone, from the side that the executor asks it from. (m,)."""
    graph, reciprocal = executor.known.graph, np.empty(len(missing))
    by_edge = plan_of(pattern_of_shape(table.shape)).sides()
    sides = np.array([by_edge[edge] for edge in missing.edge.tolist()])
    for side, given, wanted in (("head", missing.head, missing.tail), ("tail", missing.tail, missing.head)):
        places = np.flatnonzero(sides == side)
        for start in range(0, len(places), BATCH):
            part = places[start : start + BATCH]
            alone = asked_alone(table, missing.query[part], missing.edge[part], "head" if side == "head" else "tail", given[part])
            scores = executor.scores(alone, np.arange(len(part)), torch.empty(len(part), len(graph.entities)))
            own = Ragged(np.arange(len(part) + 1), wanted[part].astype(np.int32))
            reciprocal[part] = 1 / filtered_ranks(scores, own, answer_rows(graph.known(SPLITS), alone)).realistic
    return reciprocal


def explained(executor: Executor, table: QueryTable, missing: Mapping[str, list[int]], place: int) -> Measured:
    """Explains an answer that lacks one statement: does the explanation predict only that edge, and that statement?"""
    edge, ends = missing["edge"][place], (missing["head"][place], missing["tail"][place])
    why = executor.explain_row(table, missing["query"][place], missing["answer"][place])
    predicted = [reason for reason in why.reasons if not reason.fact]
    named = [reason.edge for reason in predicted] == [edge]
    statement = tuple(map(executor.known.graph.entities.identifier, ends))
    return {
        "shape": table.shape.name,
        "query": missing["query"][place],
        "answer": missing["answer"][place],
        "edge": named,
        "statement": named and (predicted[0].atom.head, predicted[0].atom.tail) == statement,
        "edge at random": 1 / len(table.shape.edges),
        "statement at random": 1 / missing["choices"][place],
    }
