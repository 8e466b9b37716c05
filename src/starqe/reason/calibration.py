"""Calibration: everything that is fitted on validation, and the file that keeps it.

Four things are fitted, in this order: the probability of a single predicted fact, the levels of predicted numbers, the weights of
the mixture of encoder and executor, and the probability of an answer. All of them ask with train alone as known: which of the best
candidates hold once the validation statements are added? A calibrated run folder has

    answering.json    {"format": "starqe answering", "version": 3, settings, one_hop, executor, answers, levels, has_value}
    predictor/        the one-hop predictor, if there is one; else the encoder predicts single facts too

The file is written atomically at the end, so an interrupted calibration leaves the previous one.

B questions or queries · K candidates · V entities.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from starqe.errors import QueryError, StorageError
from starqe.folders import new_file, read_header, write_header
from starqe.kg import Graph
from starqe.measure.evaluate import Scorer
from starqe.measure.links import GapScorer
from starqe.measure.ranking_protocols import strict
from starqe.measure.ranks import filtered_ranks
from starqe.measure.reliability import Reliability, reliability
from starqe.queries import QueryTable, sample
from starqe.queries.exact.entailed import Entailed
from starqe.queries.gaps import gaps_of
from starqe.queries.shape import ONE_HOP
from starqe.ragged import BoolArray, FloatArray
from starqe.reason.executor.executor import CELLS
from starqe.reason.executor.settings import ReasonSettings
from starqe.reason.has_value import FEATURES as HAS_VALUE
from starqe.reason.logistic import Logistic, fit_logistic
from starqe.reason.mixture import CLASSES, FIRST_CLASSES, Weights, log_truth, shape_class
from starqe.reason.predictor import one_hop
from starqe.reason.predictor.one_hop import Context, log_share
from starqe.reason.predictor.scales import Levels
from starqe.reason.probability import FEATURES, answer_features, best_candidates, candidates_exist, probabilities
from starqe.seed import derive

FORMAT, VERSION = "starqe answering", 3
HEADER = "answering.json"
PREDICTOR = "predictor"
"""The folder of the one-hop predictor inside a run."""
OLD_FORMAT, OLD_HEADER = "starqe reasoning", "reasoning.json"  # until version 1: all but the probabilities of answers

MIN_STATEMENTS = 50
"""Probabilities fitted on fewer validation statements count as not calibrated: a share of 50 cases has a standard error of up to 0.07."""
MIN_POSITIVES = 20
"""The same for the candidates that came true: with fewer, the dependence of the share on the score cannot be estimated."""

WEIGHTS = tuple(round(0.1 * step, 1) for step in range(11))
"""The weights of the executor that are tried; the encoder has the rest."""
FACTS = 2_000
"""The number of questions that the probability of single facts is fitted on."""
FACT_CANDIDATES, ANSWER_CANDIDATES = 50, 20
"""The number of best candidates per question (single facts) and per query (answers) that the fits learn from."""
_BATCH, _FACT_BATCH = 64, 256

RankedBy = Literal["mixture", "encoder"]
"""The scorer of answers that are not known."""


@dataclass(frozen=True)
class Evidence:
    """How much validation data probabilities were fitted on."""

    statements: int
    """Validation statements of the graph."""
    candidates: int
    """Cases: the best candidates of the validation queries."""
    positives: int
    """Cases that came true."""

    def __post_init__(self) -> None:
        if any(type(count) is not int or count < 0 for count in (self.statements, self.candidates, self.positives)):
            raise TypeError(f"counts are whole numbers, found {self}")

    @property
    def enough(self) -> bool:
        """Whether probabilities fitted on this much data count as calibrated."""
        return self.statements >= MIN_STATEMENTS and self.positives >= MIN_POSITIVES

    @property
    def note(self) -> str:
        """A warning about the probabilities; empty if there is enough data."""
        if self.enough:
            return ""
        return (
            f"the probabilities are not calibrated: they were fitted on {self.statements:,} validation statements with {self.positives:,} "
            f"predictions that came true, and {MIN_STATEMENTS} and {MIN_POSITIVES} are needed. Use them for the order only"
        )


@dataclass(frozen=True)
class AnswerProbability:
    """The fitted probability of answers, and what it was fitted on."""

    logistic: Logistic
    evidence: Evidence


@dataclass(frozen=True)
class Calibration:
    """Everything that was fitted on validation for one run."""

    settings: ReasonSettings
    one_hop: Logistic
    """The probability of a single fact."""
    weights: Weights
    """The weights of the mixture."""
    predictor: bool
    """Whether a one-hop predictor in the run folder predicts single facts; else the encoder does."""
    answers: Mapping[RankedBy, AnswerProbability] = field(default_factory=dict)
    """The probabilities of answers, by scorer; empty for a run that is only measured."""
    levels: Mapping[str, Levels] = field(default_factory=dict)
    """The calibration of predicted numbers and dates, by relation."""
    has_value: Logistic | None = None
    """The probability that an entity without a known number or date has one."""


def save_calibration(folder: Path, calibration: Calibration) -> None:
    """Writes a calibration into a run folder atomically.

    Raises:
        StorageError: The folder cannot be written.
    """
    with new_file(folder / HEADER, overwrite=True) as beside:
        write_calibration(beside, calibration)
    for replaced in (folder / OLD_HEADER, folder / PREDICTOR / HEADER):
        replaced.unlink(missing_ok=True)


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Writes a calibration as a file."""
    content = {
        "predictor": calibration.predictor,
        "settings": calibration.settings.model_dump(),
        "one_hop": calibration.one_hop.written(),
        "executor": dict(calibration.weights.executor),
        "has_value": calibration.has_value.written() if calibration.has_value else None,
        "levels": {relation: levels.shares for relation, levels in calibration.levels.items()},
        "answers": {name: {**part.logistic.written(), "evidence": asdict(part.evidence)} for name, part in calibration.answers.items()},
    }
    write_header(path, FORMAT, VERSION, content)


def load_calibration(folder: Path, graph: Graph) -> Calibration:
    """Reads the calibration of a run on this graph.

    A calibration in the folder of the predictor came with the predictor, and the command that put both there was killed before it
    replaced the calibration of the run. So it counts.

    Raises:
        StorageError: The run was not calibrated, or the file is damaged.
    """
    path, old = folder / HEADER, folder / OLD_HEADER
    if (with_predictor := folder / PREDICTOR / HEADER).exists():
        path = with_predictor
    if not path.exists() and not old.exists():
        raise StorageError(f"{folder} was not calibrated, so it can rank, but not reason. Run: starqe calibrate {folder}")
    content: dict[str, Any] = read_header(path, FORMAT, VERSION) if path.exists() else {"version": 1}
    if content["version"] == 1:  # two files, without evidence
        probability = {name: part for name, part in content.items() if name in ("mixture", "encoder")}
        content, path = {**read_header(old, OLD_FORMAT, 1), "answers": probability}, old
    try:
        return Calibration(
            ReasonSettings.parse(content["settings"]),
            Logistic.read(content["one_hop"], len(one_hop.FEATURES), path),
            Weights.read(content["executor"], str(folder)),
            bool(content["predictor"]),
            {name: _answers_of(part, path, graph) for name, part in content["answers"].items()},
            {relation: Levels(tuple(map(float, shares))) for relation, shares in content.get("levels", {}).items()},
            Logistic.read(has_value, len(HAS_VALUE), path) if (has_value := content.get("has_value")) else None,
        )
    except (KeyError, TypeError, AttributeError, ValueError):
        raise StorageError(f"{path}: parts of the calibration are missing. Run: starqe calibrate {folder}") from None


def _answers_of(content: Mapping[str, Any], path: Path, graph: Graph) -> AnswerProbability:
    counts = content.get("evidence")
    # Runs of version 1 did not count cases: the number of validation statements is used instead.
    evidence = Evidence(**counts) if counts is not None else Evidence(len(graph.known(["valid"])), 0, MIN_POSITIVES)
    weights = content.get("weights")
    if isinstance(weights, list) and len(weights) == len(FEATURES) - len(CLASSES) + len(FIRST_CLASSES):
        # Until version 2 there were fewer classes: the others count as mixed, the last of those.
        content = {**content, "weights": [*weights, *[weights[-1]] * (len(CLASSES) - len(FIRST_CLASSES))]}
    return AnswerProbability(Logistic.read(content, len(FEATURES), path), evidence)


def fit_one_hop(graph: Graph, scorer: GapScorer, count: int = FACTS, seed: int = 0) -> Logistic:
    """Fits the probability of single facts: which of the best candidates beyond train hold with valid?

    Half of the questions come from validation statements, half from training statements (which seldom have a further answer),
    each in both directions and with none to two qualifiers.

    Raises:
        QueryError: The graph has no validation statements to learn from.
    """
    if not len(graph.known(["valid"])):
        raise QueryError("probabilities are calibrated on validation statements, and this graph has none. Split it again")
    cases = [
        _fact_cases(graph, scorer, sample(graph, shape, count // 4, split, [(0, 2)], derive(seed, "one-hop calibration")))
        for shape in ONE_HOP.values()
        for split in ("valid", "train")
    ]
    features, truth = np.concatenate([case[0] for case in cases]), np.concatenate([case[1] for case in cases])
    return fit_logistic(features, truth)


def _fact_cases(graph: Graph, scorer: GapScorer, table: QueryTable) -> tuple[FloatArray, BoolArray]:
    """Returns the features of the best candidates that train does not know, and whether they hold with valid."""
    context, with_valid = Context(graph.known(["train"])), Entailed(graph.known(["train", "valid"]))
    features: list[FloatArray] = [np.empty((0, len(one_hop.FEATURES)))]
    truth: list[BoolArray] = [np.empty(0, bool)]
    entities = len(graph.entities)
    for start in range(0, len(table), _FACT_BATCH):
        gaps = gaps_of(table, np.arange(start, min(start + _FACT_BATCH, len(table))))
        beliefs = log_share(scorer.entity_scores(gaps, torch.empty(len(gaps), entities)))
        question = context.questions(gaps, beliefs)
        beliefs[question.known.owner, question.known.items] = -torch.inf
        best = beliefs.topk(min(FACT_CANDIDATES, entities), dim=1)  # (B, K)
        answers = with_valid.answers(gaps)
        holds = torch.zeros(len(gaps), entities, dtype=torch.bool)
        holds[answers.owner, answers.items] = True
        case = np.repeat(question.features[:, None], best.values.shape[1], axis=1)  # (B, K, features)
        case[:, :, 0] = best.values.numpy() - question.left[:, None]
        exists = np.isfinite(case[:, :, 0])
        features.append(case[exists])
        truth.append(holds.gather(1, best.indices).numpy()[exists])
    return np.concatenate(features), np.concatenate(truth)


def calibration_bytes(entities: int, settings: ReasonSettings) -> int:
    """Estimates the memory that calibration takes for scores: of facts, of a batch of queries, and of the candidates of its executor."""
    executor = min(CELLS, settings.beam * _BATCH * entities)
    return 4 * (4 * _FACT_BATCH * entities + 3 * _BATCH * entities + 8 * executor)


def fit_weights(graph: Graph, encoder: Scorer, executor: Scorer, validation: Mapping[str, QueryTable]) -> Weights:
    """Fits the weights of the mixture: for each class of shapes those with the best MRR of hard answers (macro).

    A class that no validation query has gets the weight of the mixed class, or else half.

    Args:
        graph: The graph in which easy and hard answers are looked up; the scorers see train only.
        encoder: Scores of the encoder.
        executor: Truths of the executor.
        validation: Queries of the split valid, by shape.
    """
    sums: dict[str, FloatArray] = {}
    counts: dict[str, int] = {}
    for table in validation.values():
        reciprocal = _reciprocal_ranks(graph, encoder, executor, table)  # (queries, weights)
        name = shape_class(table.shape)
        # Every shape of a class counts the same, however many queries it has.
        sums[name] = sums.get(name, np.zeros(len(WEIGHTS))) + (reciprocal.mean(axis=0) if len(reciprocal) else 0)
        counts[name] = counts.get(name, 0) + len(reciprocal)
    best = {name: WEIGHTS[int(sums[name].argmax())] for name in CLASSES if counts.get(name)}
    return Weights({name: best.get(name, best.get("mixed", 0.5)) for name in CLASSES})


def _reciprocal_ranks(graph: Graph, encoder: Scorer, executor: Scorer, table: QueryTable) -> FloatArray:
    """Computes the mean reciprocal rank of the hard answers of each query, for every weight: (queries, weights)."""
    task = strict(graph, table, np.arange(len(table)))
    found = [np.empty((0, len(WEIGHTS)))]
    buffers = torch.empty(3, _BATCH, len(graph.entities))
    for start in range(0, len(task.rows), _BATCH):
        rows = task.rows[start : start + _BATCH]
        one, other, both = (buffer[: len(rows)] for buffer in buffers)
        encoded = log_share(encoder.scores(table, rows, one))
        derived = log_truth(executor.scores(table, rows, other))
        ranked, filtered = task.ranked.slice(start, start + len(rows)), task.filtered.slice(start, start + len(rows))
        columns = []
        for weight in WEIGHTS:
            torch.mul(derived, weight, out=both).add_(encoded, alpha=1 - weight)
            ranks = filtered_ranks(both, ranked, filtered).realistic
            columns.append(np.bincount(ranked.owner, 1 / ranks, minlength=len(rows)) / ranked.counts)
        found.append(np.stack(columns, axis=1))
    return np.concatenate(found)


def fit_probability(graph: Graph, scorer: Scorer, validation: Mapping[str, QueryTable]) -> AnswerProbability:
    """Fits the probability of answers on validation queries that have hard answers; the scorer knows train only.

    Raises:
        QueryError: No validation query has a hard answer.
    """
    cases = _answer_cases(graph, scorer, validation)
    if not cases:
        raise QueryError("probabilities are fitted on validation queries with answers that train lacks, and there are none")
    features = np.concatenate([features[candidates_exist(features)] for features, _ in cases])
    truth = np.concatenate([holds[candidates_exist(features)] for features, holds in cases])
    evidence = Evidence(len(graph.known(["valid"])), len(truth), int(truth.sum()))
    return AnswerProbability(fit_logistic(features, truth), evidence)


def check_probability(graph: Graph, scorer: Scorer, fitted: Logistic, tables: Mapping[str, QueryTable]) -> Reliability | None:
    """Compares the probabilities of the best candidates of queries with which of them are hard answers; None without any.

    The scorer knows train only, as when the probabilities were fitted.
    """
    predicted: list[FloatArray] = [np.empty(0)]
    observed: list[BoolArray] = [np.empty(0, bool)]
    for features, holds in _answer_cases(graph, scorer, tables):
        exists = candidates_exist(features)
        predicted.append(probabilities(fitted, features)[exists])
        observed.append(holds[exists])
    probability, truth = np.concatenate(predicted), np.concatenate(observed)
    return reliability(probability, truth) if len(truth) else None


def _answer_cases(graph: Graph, scorer: Scorer, tables: Mapping[str, QueryTable]) -> list[tuple[FloatArray, BoolArray]]:
    """Ranks queries with their easy answers as known; returns the features of the best candidates, and which of them are hard answers."""
    found = []
    for table in tables.values():
        task = strict(graph, table, np.arange(len(table)))
        for start in range(0, len(task.rows), _BATCH):
            rows = task.rows[start : start + _BATCH]
            hard, either = task.ranked.slice(start, start + len(rows)), task.filtered.slice(start, start + len(rows))
            easy = [np.setdiff1d(either[i], hard[i]) for i in range(len(rows))]
            best = best_candidates(scorer, table, rows, easy, ANSWER_CANDIDATES, len(graph.entities))
            features = answer_features([table.shape] * len(rows), best, [len(ids) for ids in easy])
            found.append((features, np.stack([np.isin(best.ids[i], hard[i]) for i in range(len(rows))])))
    return found
