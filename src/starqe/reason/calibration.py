"""Calibration: everything that is fitted on validation (`starqe.reason.fitting`), and the file that keeps it.

A calibrated run folder has

    answering.json    {"format": "starqe answering", "version": 4, settings, one_hop, executor, answers, levels, has_value}
    predictor/        the one-hop predictor, if there is one; else the encoder predicts single facts too

The file is written atomically at the end, so an interrupted calibration leaves the previous one.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from starqe.errors import StorageError
from starqe.folders import new_file, read_header, write_header
from starqe.kg import Graph
from starqe.reason.chance import Chance
from starqe.reason.executor.settings import ReasonSettings
from starqe.reason.has_value import FEATURES as HAS_VALUE
from starqe.reason.logistic import Logistic
from starqe.reason.mixture import CLASSES, EARLIER, Weights
from starqe.reason.predictor import one_hop
from starqe.reason.predictor.scales import Levels
from starqe.reason.probability import FEATURES

FORMAT, VERSION = "starqe answering", 4
HEADER = "answering.json"
PREDICTOR = "predictor"
"""The folder of the one-hop predictor inside a run."""
OLD_FORMAT, OLD_HEADER = "starqe reasoning", "reasoning.json"  # up to version 1: everything except the probabilities of answers

MIN_STATEMENTS = 50
"""Probabilities fitted on fewer validation statements count as not calibrated: a share of 50 cases has a standard error of up to 0.07."""
MIN_POSITIVES = 20
"""The same for candidates that are correct: with fewer, the slope of the fit cannot be estimated."""

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
    """Cases in which the candidate is correct."""

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

    chance: Chance
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
        "answers": {name: {**part.chance.written(), "evidence": asdict(part.evidence)} for name, part in calibration.answers.items()},
    }
    write_header(path, FORMAT, VERSION, content)


def load_calibration(folder: Path, graph: Graph) -> Calibration:
    """Reads the calibration of a run on this graph.

    A calibration in the predictor's folder was saved with the predictor, by a command that was killed before it
    replaced the calibration of the run. So it is the current one.

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
    if isinstance(weights, list) and len(weights) in [len(FEATURES) - len(CLASSES) + len(earlier) for earlier in EARLIER]:
        # Until version 3 there were fewer classes: the others count as mixed.
        content = {**content, "weights": [*weights, *[weights[FEATURES.index("mixed")]] * (len(FEATURES) - len(weights))]}
    return AnswerProbability(Chance.read(content, path), evidence)
