"""Continues a fit from an existing run: which weights are kept, and which statements must not be validated on."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from starqe.errors import InputError, MismatchError, StorageError
from starqe.kg import Graph, with_split
from starqe.kg.update import shared_rows
from starqe.learn import Recipe, Run, RunFolder
from starqe.learn.warm_start import Start, carried_over
from starqe.model import Encoder
from starqe.reason.calibration import PREDICTOR
from starqe.reason.predictor.config import PredictorRecipe
from starqe.reason.predictor.predictor import Predictor
from starqe.reason.predictor.run import PredictorRun

WARM_RATE = 0.1
"""The learning rate of a warm start, as a share of the rate of the first training."""


@dataclass(frozen=True, eq=False)
class Before:
    """The run from which a fit continues."""

    run: Run
    predictor: PredictorRun

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Opens the run with its predictor.

        Raises:
            StorageError: The folder is not the run of an encoder, is damaged, or has no predictor.
        """
        run = Run.open(folder)
        if not (folder / PREDICTOR).exists():
            raise StorageError(
                f"a fit continues from a run with an encoder and a one-hop predictor, and {folder} has no predictor. "
                "Take a run of starqe fit, or calibrate this one with a predictor"
            )
        return cls(run, PredictorRun.open(folder / PREDICTOR, run.graph))

    def recipes(self, shapes: Iterable[str], seed: int, queries: int) -> tuple[Recipe, PredictorRecipe]:
        """Returns the recipes of the run, with the rate of a warm start."""
        names = ", ".join(f'"{shape}"' for shape in shapes)
        drawn = [f"train.shapes=[{names}]", f"train.varied_per_shape={queries}"]
        encoder = self.run.recipe.with_settings([f"seed={seed}", *drawn, f"train.learning_rate={warm_rate(self.run)}"])
        return encoder, self.predictor.recipe.with_settings([f"seed={seed}", f"train.learning_rate={warm_rate(self.predictor)}"])

    def starts(self, graph: Graph) -> tuple[Start, Start]:
        """Returns the weights of both models for a graph, with rows for new entities and relations.

        Raises:
            StorageError: The weights are missing or damaged.
        """
        after = Run(self.run.folder, self.run.recipe, graph)
        encoder = Encoder(after.recipe.model, after.space, after.recipe.seed)
        one_hop = PredictorRun(self.predictor.folder, self.predictor.recipe, graph).new_predictor()
        return start_of(self.run, encoder, graph), start_of(self.predictor, one_hop, graph)

    def with_validation(self, graph: Graph) -> Graph:
        """Returns a graph whose validation split has nothing that the run has learned.

        A graph without a validation split gets the statements that the run validated on.

        Raises:
            InputError: None of these statements is in the graph any more.
            MismatchError: The run has learned statements that are valid or test in the graph.
        """
        before, train = self.run.graph.whole, np.flatnonzero(graph.split == 0)
        if not len(graph.entity_part.known(["valid"])):
            held_out = np.intersect1d(shared_rows(graph, before, ["valid"]), train)
            if not len(held_out):
                raise InputError(
                    f"a fit validates on statements that were not learned: the {len(before.known(['valid'])):,} validation statements of "
                    f"{self.run.folder} are not in the graph any more. Give the graph a validation split of new statements, or train anew"
                )
            split = graph.split.copy()
            split[held_out] = 1
            return with_split(graph, split)
        learned = np.setdiff1d(shared_rows(graph, before, ["train"]), shared_rows(graph, before, ["valid", "test"]))
        if leaked := len(np.setdiff1d(learned, train)):
            raise MismatchError(
                f"a fit validates on statements that were not learned, and {leaked:,} statements that are valid or test here were train "
                f"statements of {self.run.folder}. Keep the splits of its graph (data update does), or train anew"
            )
        return graph


def warm_rate(run: RunFolder[Any]) -> float:
    """Returns the learning rate to continue with; a run with a warm start has a low one already."""
    rate: float = run.recipe.train.learning_rate
    return rate if run.origin is not None else WARM_RATE * rate


def start_of(run: RunFolder[Any], model: Encoder | Predictor, graph: Graph) -> Start:
    """Returns the weights of a run for a model of another graph.

    Raises:
        MismatchError: The model has another architecture or width.
        StorageError: The weights are missing or damaged.
    """
    old = run.graph
    weights = carried_over(run.weights(), model.blocks, old, graph, model.state_dict())
    fresh = {f"new_{kind}": sum(name not in getattr(old, kind) for name in getattr(graph, kind)) for kind in ("entities", "relations")}
    return Start(weights, {"run": str(run.folder.resolve()), "fingerprint": old.fingerprint, **fresh}, run.further_files)
