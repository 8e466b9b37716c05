"""Everything that predicts answers for one run: the encoder, a one-hop predictor, the executor, and their mixture."""

import shutil
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from starqe.errors import MismatchError, StorageError
from starqe.folders import new_folder, read_header
from starqe.kg import Graph
from starqe.learn import EncoderScorer, Run
from starqe.learn.memory_limit import check_memory
from starqe.learn.run import FORMAT as RUN_FORMAT
from starqe.learn.run import HEADER as RUN_HEADER
from starqe.learn.run import WEIGHTS
from starqe.measure.evaluate import Scorer
from starqe.measure.links import GapScorer
from starqe.queries import QueryTable
from starqe.reason.calibration import (
    HEADER,
    PREDICTOR,
    AnswerProbability,
    Calibration,
    RankedBy,
    load_calibration,
    save_calibration,
    write_calibration,
)
from starqe.reason.executor.executor import Executor
from starqe.reason.executor.settings import ReasonSettings
from starqe.reason.fitting import calibration_bytes, fit_one_hop, fit_weights
from starqe.reason.has_value import HasValue, fit_has_value
from starqe.reason.logistic import Logistic
from starqe.reason.mixture import EVEN, Mixture, Weights
from starqe.reason.numbers import NumberPredictor, fit_levels
from starqe.reason.predictor.one_hop import OneHopProbability
from starqe.reason.predictor.run import PredictorRun
from starqe.reason.predictor.scales import Levels
from starqe.reason.predictor.scorer import PredictorScorer
from starqe.reason.rules.firing import RuleBook

FACTS_SHARE = 0.4
"""The share of a limited time for the probability of single facts; the weights of the mixture have the rest."""


@dataclass(frozen=True, eq=False)
class Reasoner:
    """Encoder and one-hop predictor of a run with their fitted parameters; the caller chooses which splits are known."""

    graph: Graph
    encoder: EncoderScorer
    one_hop: GapScorer
    calibration: Logistic
    """The probability of a single fact."""
    weights: Weights
    settings: ReasonSettings
    levels: Mapping[str, Levels] = field(default_factory=dict)
    """The calibration of predicted numbers and dates, by relation."""
    has_value: Logistic | None = None
    """The probability that an entity without a known number or date has one."""

    @property
    def rules(self) -> RuleBook | None:
        """The rules that are added to predictions of single facts, if any."""
        return self.one_hop.rules if isinstance(self.one_hop, PredictorScorer) else None

    def numbers(self, splits: Collection[str]) -> NumberPredictor | None:
        """Returns the predictor of numbers and dates, with the statements of these splits as known; None if the run has only entities."""
        made = NumberPredictor.of(self.one_hop, self.levels)
        if made is None:
            return None
        return replace(
            made, has_value=HasValue.of(made.scales.graph, made.scales.graph.known(splits), made.scales.relations, self.has_value)
        )

    def executor(self, splits: Collection[str]) -> Executor:
        """Returns the executor that knows the statements of these splits."""
        known = self.graph.known(splits)
        return Executor(known, OneHopProbability(self.one_hop, known, self.calibration), self.settings)

    def mixture(self, splits: Collection[str]) -> Mixture:
        """Returns the mixture of encoder and executor; the executor knows the statements of these splits."""
        return Mixture(self.encoder, self.executor(splits), self.weights)

    @classmethod
    def open(cls, run: Run) -> "Reasoner":
        """Opens the reasoner of a run that was calibrated.

        Raises:
            StorageError: The run was not calibrated, or its files are damaged.
        """
        return cls.of(run, load_calibration(run.folder, run.graph))

    @classmethod
    def of(cls, run: Run, calibration: Calibration) -> "Reasoner":
        """Opens the models of a run, with the numbers of this calibration.

        Raises:
            StorageError: The weights are missing or damaged.
        """
        encoder = run.scorer()
        one_hop = PredictorRun.open(run.folder / PREDICTOR, run.graph).scorer() if calibration.predictor else encoder
        return cls(
            run.graph,
            encoder,
            one_hop,
            calibration.one_hop,
            calibration.weights,
            calibration.settings,
            calibration.levels,
            calibration.has_value,
        )


RANKED_BY: Mapping[str, Callable[[Reasoner], Scorer]] = {
    "encoder": lambda reasoner: reasoner.encoder,
    "executor": lambda reasoner: reasoner.executor(["train"]),
    "mixture": lambda reasoner: reasoner.mixture(["train"]),
}
"""The scorers of a reasoner in an evaluation: they look up facts in train only."""


def check_calibration_fits(run: Run, predictor: PredictorRun | None, settings: ReasonSettings, memory: int | None) -> None:
    """Checks that calibration fits into memory: the weights that exist already, and scores.

    Args:
        run: The run of the encoder.
        predictor: A one-hop predictor; left out, the one that the run has, if any.
        settings: How the executor works.
        memory: The bytes that the process may take; what is free if left out.

    Raises:
        InputError: It does not fit.
    """
    files = (run.folder / WEIGHTS, (predictor.folder if predictor else run.folder / PREDICTOR) / WEIGHTS)
    weights = 2 * sum(file.stat().st_size for file in files if file.exists())
    needed = weights + calibration_bytes(len(run.graph.entities), settings)
    check_memory(needed, memory, "calibration", "a smaller beam, model.width or graph")


def fit_reasoner(
    run: Run,
    predictor: PredictorRun | None,
    validation: Mapping[str, QueryTable],
    settings: ReasonSettings | None = None,
    seed: int = 0,
    seconds: float | None = None,
) -> Reasoner:
    """Fits the probability of single facts and the weights of the mixture on validation; nothing is saved yet.

    Args:
        run: The run of the encoder.
        predictor: A one-hop predictor on a graph of the same vocabulary; without one the encoder predicts single facts.
        validation: Queries of the split valid, by shape.
        settings: How the executor works.
        seed: Decides which questions the calibration learns from.
        seconds: The time that it may take; all questions and queries are used if left out.

    Raises:
        MismatchError: The predictor was trained on another graph, or on more than its train split.
        QueryError: There is nothing to calibrate on.
    """
    if predictor is not None:
        _check_predictor(run, predictor)
    encoder = run.scorer()
    one_hop = predictor.scorer() if predictor is not None else encoder
    end = None if seconds is None else time.monotonic() + seconds
    fact = fit_one_hop(run.graph, one_hop, seed=seed, seconds=None if seconds is None else FACTS_SHARE * seconds)
    numbers = NumberPredictor.of(one_hop)
    has_value = fit_has_value(numbers.scales.graph, numbers.scales.relations, seed) if numbers else None
    reasoner = Reasoner(run.graph, encoder, one_hop, fact, EVEN, settings or ReasonSettings(), fit_levels(one_hop), has_value)
    left = None if end is None else max(0.0, end - time.monotonic())
    return replace(reasoner, weights=fit_weights(run.graph, encoder, reasoner.executor(["train"]), validation, left))


def save_reasoner(
    folder: Path, reasoner: Reasoner, predictor: PredictorRun | None, answers: Mapping[RankedBy, AnswerProbability] | None = None
) -> None:
    """Saves what was fitted in the run folder, with its predictor and the probabilities of answers.

    The run can be asked at any moment. A new predictor is put in place with its calibration, in one step; then the calibration of the run
    is replaced in one step, and the copy beside the predictor is removed.

    Raises:
        StorageError: The folder cannot be written.
    """
    fitted = Calibration(
        reasoner.settings, reasoner.calibration, reasoner.weights, predictor is not None, answers or {}, reasoner.levels, reasoner.has_value
    )
    try:
        if predictor is not None and predictor.folder.resolve() != (folder / PREDICTOR).resolve():
            with new_folder(folder / PREDICTOR, True, lambda: read_header(folder / PREDICTOR / RUN_HEADER, RUN_FORMAT)) as place:
                skipped = shutil.ignore_patterns("graph", "state.safetensors", ".*")
                shutil.copytree(predictor.folder, place, ignore=skipped, dirs_exist_ok=True)
                write_calibration(place / HEADER, fitted)
        save_calibration(folder, fitted)
    except OSError as error:
        raise StorageError(f"cannot write {folder}: {error.strerror or error}") from error


def _check_predictor(run: Run, predictor: PredictorRun) -> None:
    """Checks that a predictor was trained only on the train split of the run's graph."""
    trained_on = read_header(predictor.folder / RUN_HEADER, RUN_FORMAT)["fingerprint"]  # whatever graph it was opened with
    if trained_on != run.graph.fingerprint:
        raise MismatchError(
            f"encoder and predictor are of one graph: the encoder's is {run.graph.fingerprint[:12]}, "
            f"the predictor's {trained_on[:12]}. Train the predictor on the graph of the run"
        )
    if seen := sorted({*predictor.recipe.train.splits} - {"train"}):
        raise MismatchError(
            f"predictions are calibrated on statements that were not learned, and the predictor {predictor.folder} learned from the split "
            f"{', '.join(seen)}. Train one on train alone"
        )
