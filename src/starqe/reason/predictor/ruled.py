"""Adds rules to a trained predictor: they are mined from its training statements, and their weight is fitted on validation."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from starqe.kg import Graph
from starqe.measure.links import ENDS, PARTS, GapRetriever, GapScorer, some_statements
from starqe.measure.ranks import filtered_ranks, ranks_among
from starqe.measure.retrieval import DENSE
from starqe.queries.exact.entailed import Entailed
from starqe.queries.gaps import Gaps, with_gap
from starqe.ragged import FloatArray, IntArray, Ragged
from starqe.reason.predictor.run import RULES, PredictorRun
from starqe.reason.predictor.scorer import PredictorScorer
from starqe.reason.rules.firing import RuleBook
from starqe.reason.rules.mining import mine

STEP, STEPS = 0.25, 8
"""The weights that are tried, in these steps from 0 on."""
UNFITTED = 0.75
"""The weight if there is no validation to fit it on: on WD50K, predictors of 13 and 20 minutes were best with 1 and 0.75."""
STATEMENTS = 500
"""The number of validation statements that the weight is fitted on."""
RIVALS = 1_000
"""The number of best entities that compete with the right one in graphs with more than `DENSE` entities."""
BATCH = 64
"""The number of questions that are ranked at a time."""


def add_rules(run: PredictorRun) -> None:
    """Mines the rules of a trained predictor and saves them in its run, if its recipe asks for rules and there are none yet.

    Raises:
        StorageError: There are no weights yet, or the folder cannot be written.
    """
    if not run.recipe.train.rules or (run.folder / RULES).exists():
        return
    known = run.graph.known(run.recipe.train.splits)
    rules = mine(known, run.recipe.seed)
    fitted = UNFITTED
    if "valid" not in run.recipe.train.splits and len(run.graph.known(["valid"])):
        fitted = fit_rule_weight(PredictorScorer(run.predictor(), frozen=True), RuleBook(rules, known), run.graph, run.recipe.seed)
    replace(rules, weight=fitted).save(run.folder / RULES)


def fit_rule_weight(scorer: GapScorer, book: RuleBook, graph: Graph, seed: int = 0) -> float:
    """Returns the weight of the rules with the best MRR of heads and tails of validation statements.

    Ranks are filtered by train and valid; of equally good weights the smallest is chosen. In large graphs, only the best entities of
    the scorer and those that rules suggest compete.
    """
    rows = some_statements(graph, "valid", STATEMENTS, seed)
    entailed, sums = Entailed(graph.known(["train", "valid"])), np.zeros(STEPS)
    for name in ENDS:
        for start in range(0, len(rows), BATCH):
            asked = rows[start : start + BATCH]
            gaps, own = with_gap(graph, asked, PARTS[name]), getattr(graph, name)[asked]
            if len(graph.entities) > DENSE and isinstance(scorer, GapRetriever):
                sums += _listed(scorer, book, gaps, own, entailed.answers(gaps))
            else:
                scores = scorer.entity_scores(gaps, torch.empty(len(asked), len(graph.entities)))  # (B, V)
                sums += _ranked(scores, book, gaps, own, entailed.answers(gaps))
    return STEP * int(sums.argmax())


def _ranked(scores: Tensor, book: RuleBook, gaps: Gaps, own: IntArray, others: Ragged) -> FloatArray:
    """Returns the sums of the reciprocal ranks of entities by their scores, for every weight; the scores are changed. (weights,)."""
    found, sums = book.suggested(gaps), np.zeros(STEPS)
    place = torch.from_numpy(found.question), torch.from_numpy(found.candidate)
    added = torch.from_numpy(STEP * found.evidence).to(scores)
    for step in range(STEPS):
        sums[step] = (1 / filtered_ranks(scores, Ragged(np.arange(len(own) + 1), own), others).realistic).sum()
        scores[place] += added
    return sums


def _listed(scorer: GapRetriever, book: RuleBook, gaps: Gaps, own: IntArray, others: Ragged) -> FloatArray:
    """Returns the same, with the best entities and those that rules suggest as rivals, without a row over all entities."""
    without = [np.append(others[row], own[row]) for row in range(len(gaps))]
    near, found = scorer.nearest_entities(gaps, RIVALS, without), book.suggested(gaps)
    bounds, sums = np.searchsorted(found.question, np.arange(len(gaps) + 1)), np.zeros(STEPS)
    for row in range(len(gaps)):
        part = slice(bounds[row], bounds[row + 1])
        suggested, evidence = found.candidate[part], found.evidence[part]
        best = near.best.ids[row][near.best.scores[row].isfinite().numpy()]
        ids = np.append(own[row], np.setdiff1d(np.union1d(best, suggested), without[row]))
        added = np.zeros(len(ids))
        place = np.minimum(np.searchsorted(suggested, ids), max(len(suggested) - 1, 0))
        if len(suggested):
            added = np.where(suggested[place] == ids, evidence[place], 0.0)
        scores = near.at(np.array([row]), ids)[0].numpy()[None] + STEP * np.arange(STEPS)[:, None] * added  # (weights, n)
        sums += 1 / ranks_among(scores[:, :1], scores[:, 1:])[:, 0]
    return sums
