"""Adds rules to a trained predictor: they are mined from its training statements, and their weight is fitted on validation."""

from dataclasses import replace

import numpy as np
import torch

from starqe.kg import Graph
from starqe.measure.links import BATCH, ENDS, GapScorer, some_statements
from starqe.measure.ranks import filtered_ranks
from starqe.queries.exact.entailed import Entailed
from starqe.queries.gaps import with_gap
from starqe.ragged import Ragged
from starqe.reason.predictor.run import RULES, PredictorRun
from starqe.reason.predictor.scorer import PredictorScorer
from starqe.reason.rules.firing import RuleBook
from starqe.reason.rules.mining import mine

STEP, STEPS = 0.25, 8
"""The weights that are tried, in these steps from 0 on."""
UNFITTED = 0.5
"""The weight if there is no validation to fit it on."""
STATEMENTS = 500
"""The number of validation statements that the weight is fitted on."""


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

    Ranks are filtered by train and valid; of equally good weights the smallest is chosen.
    """
    rows = some_statements(graph, "valid", STATEMENTS, seed)
    entailed, sums = Entailed(graph.known(["train", "valid"])), np.zeros(STEPS)
    for name, position in ENDS.items():
        for start in range(0, len(rows), BATCH):
            asked = rows[start : start + BATCH]
            gaps = with_gap(graph, asked, position)
            scores = scorer.entity_scores(gaps, torch.empty(len(asked), len(graph.entities)))  # (B, V)
            own, others = Ragged(np.arange(len(asked) + 1), getattr(graph, name)[asked]), entailed.answers(gaps)
            found = book.suggested(gaps)
            place = torch.from_numpy(found.question), torch.from_numpy(found.candidate)
            added = torch.from_numpy(STEP * found.evidence).to(scores)
            for step in range(STEPS):
                sums[step] += (1 / filtered_ranks(scores, own, others).realistic).sum()
                scores[place] += added
    return STEP * int(sums.argmax())
