"""All that predicts answers for one run: the encoder, a one-hop predictor, the executor, and their mixture.

Beside the encoder's files, a run folder that was calibrated has

    reasoning.json    {"format": "starqe reasoning", "version": 1, settings, calibration of one-hop predictions, weights}
    predictor/        the one-hop predictor, if there is one; else the encoder predicts single edges too
"""

import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from starqe.errors import MismatchError, StorageError
from starqe.folders import new_file, new_folder, read_header, write_header
from starqe.kg import Graph
from starqe.learn import EncoderScorer, Run
from starqe.learn.run import FORMAT as RUN_FORMAT
from starqe.learn.run import HEADER as RUN_HEADER
from starqe.measure.evaluate import Scorer
from starqe.queries import QueryTable
from starqe.reason.executor import Executor
from starqe.reason.logistic import Logistic
from starqe.reason.mixture import EVEN, Mixture, Weights, fit_weights
from starqe.reason.one_hop import FEATURES, EncoderOneHop, LogScorer, OneHopProbability, fit_one_hop
from starqe.reason.run import PredictorRun
from starqe.reason.settings import ReasonSettings

FORMAT, VERSION = "starqe reasoning", 1
HEADER, PREDICTOR = "reasoning.json", "predictor"


@dataclass(frozen=True, eq=False)
class Reasoner:
    """Encoder and one-hop predictor of a run with their fitted numbers; what counts as known is said on use."""

    graph: Graph
    encoder: EncoderScorer
    one_hop: LogScorer
    calibration: Logistic
    weights: Weights
    settings: ReasonSettings

    def executor(self, splits: Collection[str]) -> Executor:
        """Gives the executor that knows the statements of these splits."""
        known = self.graph.known(splits)
        return Executor(known, OneHopProbability(self.one_hop, known, self.calibration), self.settings)

    def mixture(self, splits: Collection[str]) -> Mixture:
        """Gives the mixture of encoder and executor; the executor knows the statements of these splits."""
        return Mixture(self.encoder, self.executor(splits), self.weights)

    @classmethod
    def open(cls, run: Run) -> "Reasoner":
        """Opens the reasoner of a run that was calibrated.

        Raises:
            StorageError: The run was not calibrated, or its files are damaged.
        """
        if not (run.folder / HEADER).exists():
            raise StorageError(f"{run.folder} was not calibrated, so it can rank, but not reason. Run: starqe calibrate {run.folder}")
        content = read_header(run.folder / HEADER, FORMAT, VERSION)
        encoder = run.scorer()
        folder = run.folder / PREDICTOR
        one_hop = PredictorRun.open(folder, run.graph).scorer() if content["predictor"] else EncoderOneHop(encoder)
        calibration = Logistic.read(content["one_hop"], len(FEATURES), run.folder / HEADER)
        weights = Weights.read(content["executor"], str(run.folder))
        return cls(run.graph, encoder, one_hop, calibration, weights, ReasonSettings.parse(content["settings"]))


RANKED_BY: Mapping[str, Callable[[Reasoner], Scorer]] = {
    "encoder": lambda reasoner: reasoner.encoder,
    "executor": lambda reasoner: reasoner.executor(["train"]),
    "mixture": lambda reasoner: reasoner.mixture(["train"]),
}
"""What ranks answers when a reasoner is evaluated: whatever looks facts up knows train only."""


def fit_reasoner(
    run: Run,
    predictor: PredictorRun | None,
    validation: Mapping[str, QueryTable],
    settings: ReasonSettings | None = None,
    seed: int = 0,
) -> Reasoner:
    """Calibrates one-hop predictions and fits the weights of the mixture on validation, and keeps them in the run's folder.

    Args:
        run: The run of the encoder.
        predictor: A one-hop predictor on a graph of the same vocabulary; without one the encoder predicts single edges.
        validation: Queries of the split valid, by shape.
        settings: How the executor works.
        seed: Decides which questions the calibration learns from.

    Raises:
        MismatchError: The predictor was trained on another graph, or on more than its train split.
        QueryError: There is nothing to calibrate on.
        StorageError: The folder cannot be written.
    """
    if predictor is not None:
        _check_predictor(run, predictor)
    encoder = run.scorer()
    one_hop = predictor.scorer() if predictor is not None else EncoderOneHop(encoder)
    reasoner = Reasoner(run.graph, encoder, one_hop, fit_one_hop(run.graph, one_hop, seed=seed), EVEN, settings or ReasonSettings())
    weights = fit_weights(run.graph, encoder, reasoner.executor(["train"]), validation)
    reasoner = Reasoner(run.graph, encoder, one_hop, reasoner.calibration, weights, reasoner.settings)
    _keep(run.folder, reasoner, predictor)
    return reasoner


def _check_predictor(run: Run, predictor: PredictorRun) -> None:
    """Makes sure that a predictor may be calibrated: what it learned from is the train split of the run's graph."""
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


def _keep(folder: Path, reasoner: Reasoner, predictor: PredictorRun | None) -> None:
    """Writes the numbers last: a folder without them was not calibrated."""
    (folder / HEADER).unlink(missing_ok=True)
    try:
        if predictor is not None and predictor.folder.resolve() != (folder / PREDICTOR).resolve():
            with new_folder(folder / PREDICTOR, True, lambda: read_header(folder / PREDICTOR / RUN_HEADER, RUN_FORMAT)) as place:
                left = shutil.ignore_patterns("graph", "state.safetensors", ".*")
                shutil.copytree(predictor.folder, place, ignore=left, dirs_exist_ok=True)
        content = {
            "predictor": predictor is not None,
            "settings": reasoner.settings.model_dump(),
            "one_hop": reasoner.calibration.written(),
            "executor": dict(reasoner.weights.executor),
        }
        with new_file(folder / HEADER, overwrite=True) as beside:
            write_header(beside, FORMAT, VERSION, content)
    except OSError as error:
        raise StorageError(f"cannot write {folder}: {error.strerror or error}") from error
