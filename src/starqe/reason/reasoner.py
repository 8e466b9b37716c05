"""Everything that predicts answers for one run: the encoder, a one-hop predictor, the executor, and their mixture."""

import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from starqe.errors import MismatchError, StorageError
from starqe.folders import new_folder, read_header
from starqe.kg import Graph
from starqe.learn import EncoderScorer, Run
from starqe.learn.run import FORMAT as RUN_FORMAT
from starqe.learn.run import HEADER as RUN_HEADER
from starqe.measure.evaluate import Scorer
from starqe.measure.links import GapScorer
from starqe.queries import QueryTable
from starqe.reason.calibration import (
    HEADER,
    PREDICTOR,
    AnswerProbability,
    Calibration,
    RankedBy,
    fit_one_hop,
    fit_weights,
    load_calibration,
    save_calibration,
    write_calibration,
)
from starqe.reason.executor.executor import Executor
from starqe.reason.executor.settings import ReasonSettings
from starqe.reason.logistic import Logistic
from starqe.reason.mixture import EVEN, Mixture, Weights
from starqe.reason.predictor.one_hop import OneHopProbability
from starqe.reason.predictor.run import PredictorRun


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
        return cls(run.graph, encoder, one_hop, calibration.one_hop, calibration.weights, calibration.settings)


RANKED_BY: Mapping[str, Callable[[Reasoner], Scorer]] = {
    "encoder": lambda reasoner: reasoner.encoder,
    "executor": lambda reasoner: reasoner.executor(["train"]),
    "mixture": lambda reasoner: reasoner.mixture(["train"]),
}
"""The scorers of a reasoner in an evaluation: they look up facts in train only."""


def fit_reasoner(
    run: Run,
    predictor: PredictorRun | None,
    validation: Mapping[str, QueryTable],
    settings: ReasonSettings | None = None,
    seed: int = 0,
) -> Reasoner:
    """Fits the probability of single facts and the weights of the mixture on validation; nothing is saved yet.

    Args:
        run: The run of the encoder.
        predictor: A one-hop predictor on a graph of the same vocabulary; without one the encoder predicts single facts.
        validation: Queries of the split valid, by shape.
        settings: How the executor works.
        seed: Decides which questions the calibration learns from.

    Raises:
        MismatchError: The predictor was trained on another graph, or on more than its train split.
        QueryError: There is nothing to calibrate on.
    """
    if predictor is not None:
        _check_predictor(run, predictor)
    encoder = run.scorer()
    one_hop = predictor.scorer() if predictor is not None else encoder
    reasoner = Reasoner(run.graph, encoder, one_hop, fit_one_hop(run.graph, one_hop, seed=seed), EVEN, settings or ReasonSettings())
    return replace(reasoner, weights=fit_weights(run.graph, encoder, reasoner.executor(["train"]), validation))


def save_reasoner(
    folder: Path, reasoner: Reasoner, predictor: PredictorRun | None, answers: Mapping[RankedBy, AnswerProbability] | None = None
) -> None:
    """Saves what was fitted in the run folder, with its predictor and the probabilities of answers.

    The run can be asked at every moment. Another predictor comes with its calibration, in one step; then the calibration of the run
    is replaced in one step, and the copy that came with the predictor is removed.

    Raises:
        StorageError: The folder cannot be written.
    """
    fitted = Calibration(reasoner.settings, reasoner.calibration, reasoner.weights, predictor is not None, answers or {})
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
