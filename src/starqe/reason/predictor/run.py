"""The run folder of a one-hop predictor, and run folders of every kind."""

import json
from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path

from starqe.errors import StorageError
from starqe.folders import read_checked, read_header
from starqe.kg import Graph
from starqe.learn import Run, RunFolder, kind_of
from starqe.learn.run import FORMAT, HEADER, VERSION, WEIGHTS
from starqe.learn.tensor_file import recorded_checksum
from starqe.measure.index.nearest import index_of
from starqe.model.embedding import MakeTable
from starqe.model.weights import weight
from starqe.reason.predictor.architectures import new_predictor
from starqe.reason.predictor.config import PredictorRecipe
from starqe.reason.predictor.predictor import Predictor
from starqe.reason.predictor.scales import Scales
from starqe.reason.predictor.scorer import PredictorScorer
from starqe.reason.rules.firing import RuleBook
from starqe.reason.rules.rule_table import Rules

SCALES = "scales.json"
"""The scales of numbers and dates, by relation: see `Scales`."""
RULES = "rules.parquet"
"""The rules, with their weight: see `Rules`."""


class PredictorRun(RunFolder[PredictorRecipe]):
    """The run of a one-hop predictor."""

    kind = "predictor"
    recipe_type = PredictorRecipe

    @classmethod
    def new_files(cls, recipe: PredictorRecipe, graph: Graph) -> dict[str, bytes]:
        """Returns the scales of the graph's numbers and dates, if the model uses them and there are some."""
        scales = Scales.fitted(graph.whole, recipe.model.knots, recipe.train.splits)
        return {SCALES: scales.to_json().encode()} if len(scales) else {}

    @property
    def further_files(self) -> dict[str, bytes]:
        """The scales, as they are written."""
        path = self.folder / SCALES
        if not path.exists():
            return {}
        return {SCALES: read_checked(path, read_header(self.folder / HEADER, FORMAT, VERSION), "Train again")}

    @cached_property
    def scales(self) -> Scales | None:
        """The scales of numbers and dates; None if the model knows entities only.

        Raises:
            StorageError: They are damaged.
        """
        if (text := self.further_files.get(SCALES)) is None:
            return None
        try:
            return Scales.of_json(json.loads(text), self.graph.whole)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise StorageError(f"{self.folder / SCALES}: damaged ({error!r}). Train again") from None

    @property
    def learned(self) -> Graph:
        """The graph as the model sees it: entities, and literals that are on a scale."""
        return self.graph if self.scales is None else self.scales.part

    def rules(self) -> RuleBook | None:
        """Returns the rules that were mined after training, with the statements that it learned from; None if there are none.

        Raises:
            StorageError: They are damaged.
        """
        path = self.folder / RULES
        return RuleBook(Rules.load(path, self.graph), self.graph.known(self.recipe.train.splits)) if path.exists() else None

    def new_predictor(self, table: MakeTable = weight) -> Predictor:
        """Makes a predictor with its initial weights."""
        return new_predictor(self.recipe.model, len(self.graph.entities), len(self.graph.relations), self.recipe.seed, self.scales, table)

    def predictor(self) -> Predictor:
        """Returns the trained predictor.

        Raises:
            StorageError: There are no weights yet, they are damaged, or of another model.
        """
        return self.load_weights(self.new_predictor())

    def scorer(self) -> PredictorScorer:
        """Returns the trained predictor as a scorer of one-hop queries, with its rules, and with the index of the run if there is one.

        Raises:
            StorageError: There are no weights yet, they are damaged, or of another model; or the rules are damaged.
        """
        predictor = self.predictor()
        index = index_of(self.folder, predictor.entity_matrix, "dot", partial(recorded_checksum, self.folder / WEIGHTS))
        return PredictorScorer(predictor, frozen=True, index=index, rules=self.rules())


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
