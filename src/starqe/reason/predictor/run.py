"""The run folder of a one-hop predictor, and run folders of every kind."""

from collections.abc import Mapping
from pathlib import Path

from starqe.errors import StorageError
from starqe.learn import Run, RunFolder, kind_of
from starqe.reason.predictor.architectures import new_predictor
from starqe.reason.predictor.config import PredictorRecipe
from starqe.reason.predictor.predictor import Predictor
from starqe.reason.predictor.scorer import PredictorScorer


class PredictorRun(RunFolder[PredictorRecipe]):
    """The run of a one-hop predictor."""

    kind = "predictor"
    recipe_type = PredictorRecipe

    def new_predictor(self) -> Predictor:
        """Makes a predictor with its initial weights."""
        return new_predictor(self.recipe.model, len(self.graph.entities), len(self.graph.relations), self.recipe.seed)

    def predictor(self) -> Predictor:
        """Returns the trained predictor.

        Raises:
            StorageError: There are no weights yet, they are damaged, or of another model.
        """
        return self.load_weights(self.new_predictor())

    def scorer(self) -> PredictorScorer:
        """Returns the trained predictor as a scorer of one-hop queries.

        Raises:
            StorageError: There are no weights yet, they are damaged, or of another model.
        """
        return PredictorScorer(self.predictor(), frozen=True)


AnyRun = Run | PredictorRun

RUNS: Mapping[str, type[Run] | type[PredictorRun]] = {"encoder": Run, "predictor": PredictorRun}
"""The run folders, by the kind of model."""


def open_run(folder: Path) -> AnyRun:
    """Opens a run of any kind.

    Raises:
        StorageError: The folder is not a run, is damaged, or of an unknown kind.
    """
    kind = kind_of(folder)
    if kind not in RUNS:
        raise StorageError(f"{folder} is a run of the kind '{kind}', and known kinds are {', '.join(RUNS)}. Upgrade starqe")
    return RUNS[kind].open(folder)
