"""The models of the reasoning table: a given calibrated run, or encoders and predictors that are trained and calibrated here.

runs/one-hop-0/           the one-hop predictor that belongs to runs/starqe-0
"""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from starqe.ask.prepare import VALIDATION
from starqe.errors import InputError, MismatchError, TrainingError
from starqe.experiments.train_rows import OF_ITS_OWN, RECORD, train_missing, train_to_the_end
from starqe.experiments.work_folder import WorkFolder, read_json, write_json
from starqe.folders import read_header
from starqe.learn import Run
from starqe.learn.run import FORMAT as RUN_FORMAT
from starqe.learn.run import HEADER as RUN_HEADER
from starqe.learn.run import WEIGHTS
from starqe.queries import load_queries
from starqe.reason.calibration import HEADER, OLD_HEADER, PREDICTOR
from starqe.reason.mixture import CLASSES
from starqe.reason.predictor.config import PredictorRecipe
from starqe.reason.predictor.lesson import PredictLesson
from starqe.reason.predictor.presets import PREDICTORS
from starqe.reason.predictor.ruled import add_rules
from starqe.reason.predictor.run import PredictorRun
from starqe.reason.reasoner import Reasoner, fit_reasoner, save_reasoner

FITTED = "fitted.json"
"""The file that records what an encoder was calibrated from."""
TINY = {"model": {"width": 32, "feed_forward": 32}, "train": {"epochs": 2, "validation_questions": 50, "checkpoint_seconds": 1}}
"""Settings of a predictor that is small enough to train in seconds."""


@dataclass(frozen=True, eq=False)
class Model:
    """A reasoner that is measured."""

    seed: int
    reasoner: Reasoner
    digest: str
    """Identifies its weights, calibration and mixture."""


def reasoners(work: WorkFolder) -> tuple[list[Model], dict[int, str]]:
    """Returns the models, and by seed why one is missing. Encoder and predictor each get half of a budget.

    Raises:
        MismatchError: The given run was trained on another graph.
        StorageError: The given run was not calibrated, or something is damaged.
    """
    if work.settings.run is not None:
        return [_model(_given(work, work.settings.run))], {}
    budget = work.settings.budget
    half = work if budget is None else replace(work, settings=work.settings.model_copy(update={"budget": budget / 2}))
    reasons = {job[1]: reason for job, reason in train_missing(half, "reasoning").items()}
    models = []
    for seed in (seed for seed in work.seeds if seed not in reasons):
        try:
            models.append(_model(_calibrated(half, seed)))
        except (*OF_ITS_OWN, InputError) as error:
            reasons[seed] = str(error)
    return models, reasons


def _given(work: WorkFolder, folder: Path) -> Run:
    trained_on = read_header(folder / RUN_HEADER, RUN_FORMAT)["fingerprint"]
    if trained_on != work.graph.fingerprint:
        raise MismatchError(
            f"the run has to be trained on the graph of the queries (fingerprint {work.graph.fingerprint[:12]}), found {trained_on[:12]}: "
            "what is test here may be train there"
        )
    return Run.open(folder, work.graph)


def _calibrated(work: WorkFolder, seed: int) -> Run:
    """Returns the run of an encoder that is trained already, calibrated with its predictor."""
    run = Run.open(work.run_folder("starqe", seed), work.graph)
    predictor = _predictor(work, seed)
    weights = (run.folder / WEIGHTS, predictor.folder / WEIGHTS)
    wanted = {"weights": [hashlib.sha256(path.read_bytes()).hexdigest() for path in weights], "queries": VALIDATION, "classes": [*CLASSES]}
    place = run.folder / FITTED
    if not (run.folder / HEADER).exists() or not place.exists() or read_json(place) != wanted:
        work.tell(f"starqe-{seed}: calibrating on validation queries")
        place.unlink(missing_ok=True)
        reasoner = fit_reasoner(run, predictor, load_queries(work.queries, "valid", None, VALIDATION, work.graph), seed=seed)
        save_reasoner(run.folder, reasoner, predictor)
        write_json(place, wanted)
    return run


def _predictor(work: WorkFolder, seed: int) -> PredictorRun:
    """Returns the one-hop predictor of a seed; trains it if it is missing."""
    folder, budget = work.run_folder("one-hop", seed), work.settings.budget
    recipe = PredictorRecipe.parse(PREDICTORS["one-hop"]).replace(seed=seed, **(TINY if work.tiny else {}))
    if not (folder / RECORD).exists() and budget == 0:
        raise TrainingError("the budget is 0")
    run = PredictorRun.open_or_create(folder, recipe, work.graph)
    if not (folder / RECORD).exists():
        work.tell(f"one-hop-{seed}: training")
        train_to_the_end(work, run, PredictLesson(run), None if budget is None else budget / len(work.seeds))
    add_rules(run)
    return run


def _model(run: Run) -> Model:
    digest = hashlib.sha256()
    for name in (HEADER, OLD_HEADER, WEIGHTS, f"{PREDICTOR}/{WEIGHTS}"):
        if (run.folder / name).exists():
            digest.update((run.folder / name).read_bytes())
    return Model(run.recipe.seed, Reasoner.open(run), digest.hexdigest()[:12])
