"""From a graph to an answerer: training, and the fitting of everything that validation decides."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from starqe.ask.answerer import Answerer, RankedBy, forget_probability, save_probability
from starqe.ask.probability import fit_probability
from starqe.errors import InputError
from starqe.kg import Graph, transductive_split
from starqe.learn import QueryLesson, Recipe, Run, Trainer, preset
from starqe.queries import SHAPES, QueryTable, sample, turned
from starqe.reason.config import PredictorRecipe
from starqe.reason.lesson import PredictLesson
from starqe.reason.logistic import Logistic
from starqe.reason.mixture import ENCODER
from starqe.reason.presets import PREDICTORS
from starqe.reason.reasoner import PREDICTOR, fit_reasoner
from starqe.reason.run import PredictorRun
from starqe.reason.settings import ReasonSettings

VALIDATION = 150
"""How many validation queries of each shape are drawn to fit and to choose by."""
TRAINING = 20_000
"""How many training queries of each shape are drawn."""
SMALL = 5_000
"""Graphs with fewer entities train with smaller batches: they have fewer queries, and need as many steps."""
ENCODER_SHARE = 0.5
"""The share of the time in which the encoder trains; the one-hop predictor has the rest."""
HELD_OUT = 0.05
"""The share of the statements that a graph without a validation split gives up for one."""

Note = Callable[[str, dict[str, Any]], None]
"""Told what is being trained, and every report of its training."""


def drawn_queries(graph: Graph, split: str, count: int, seed: int = 0) -> dict[str, QueryTable]:
    """Draws queries as people ask them: every shape of the paper, edges in every direction, none to two qualifiers each.

    Queries are keyed by the name of their (turned) shape; shapes that the graph has no query of are left out.
    """
    found: dict[str, QueryTable] = {}
    for shape in SHAPES.values():
        directions = list(product((False, True), repeat=len(shape.edges)))
        for turns in directions:
            table = sample(graph, turned(shape, turns), -(-count // len(directions)), split, [(0, 2)] * len(shape.edges), seed)
            if len(table):
                found[table.shape.name] = table
    return found


def calibrate(
    run: Run,
    predictor: PredictorRun | None = None,
    validation: Mapping[str, QueryTable] | None = None,
    settings: ReasonSettings | None = None,
    seed: int = 0,
) -> Answerer:
    """Fits what validation decides (one-hop calibration, mixture, probabilities) and keeps it in the run: it can be asked then.

    Args:
        run: The run of a trained encoder.
        predictor: The run of a one-hop predictor; left out, the one that the run has from before, or else the encoder predicts
            single edges too.
        validation: Queries of the split valid; drawn as people ask them if left out.
        settings: How the executor works.
        seed: Decides what is drawn.

    Raises:
        MismatchError: The predictor was trained on another graph.
        QueryError: The graph has no validation statements to learn from.
        StorageError: The folder cannot be written.
    """
    forget_probability(run.folder)  # probabilities are of one mixture: an interrupted fit leaves none rather than old ones
    own = run.folder / PREDICTOR
    predictor = predictor or (PredictorRun.open(own, run.graph) if own.exists() else None)
    validation = validation or drawn_queries(run.graph, "valid", VALIDATION, seed)
    reasoner = fit_reasoner(run, predictor, validation, settings, seed)
    alone = replace(reasoner, weights=ENCODER)
    fitted: dict[RankedBy, Logistic] = {
        "mixture": fit_probability(run.graph, reasoner.mixture(["train"]), validation),
        "encoder": fit_probability(run.graph, alone.mixture(["train"]), validation),
    }
    save_probability(run.folder, fitted)
    return Answerer(reasoner, fitted["mixture"])


def recipes_for(graph: Graph, shapes: Iterable[str], seed: int = 0) -> tuple[Recipe, PredictorRecipe]:
    """Chooses the recipes of encoder and one-hop predictor that suit the size of a graph."""
    size = ["train.batch=128", "train.average=0.99"] if len(graph.entities) < SMALL else []
    steps = ["train.learning_rate=2e-3"] if size else []
    names = ", ".join(f'"{shape}"' for shape in shapes)
    drawn = [f"train.shapes=[{names}]", f"train.varied_per_shape={TRAINING}"]
    encoder = preset("starqe-ask").with_settings([f"seed={seed}", *size, *steps, *drawn])
    return encoder, PredictorRecipe.parse(PREDICTORS["one-hop"]).with_settings([f"seed={seed}", *size])


def with_validation(graph: Graph, seed: int = 0) -> Graph:
    """Gives a graph that has a validation split: itself, or split anew, since what is predicted has to be checked on something.

    Raises:
        InputError: The graph is too small for any statement to be held out.
    """
    if len(graph.known(["valid"])):
        return graph
    share = max(HELD_OUT, 1 / len(graph)) if len(graph) > 1 else 0.0
    split = transductive_split(graph, (1 - share, share, 0.0), seed)
    if not len(split.known(["valid"])):
        raise InputError(
            f"a model is checked on statements that can be held out, and none of the {len(graph):,} can: each mentions "
            "something that nothing else does. Add statements"
        )
    return split


def fit(graph: Graph, out: Path, minutes: float, seed: int = 0, resume: bool = False, note: Note = lambda *_: None) -> Answerer:
    """Trains an encoder and a one-hop predictor on a graph within a limit of time, and makes them answer.

    Args:
        graph: The graph; without a validation split one is made.
        out: The folder of the run.
        minutes: The time for training; drawing queries and fitting add a little.
        seed: Decides everything that is drawn.
        resume: Go on with what is there.
        note: Told of the progress.

    Raises:
        InputError: Nothing of the graph can be held out.
        MismatchError: The run that is there is of another graph.
        StorageError: Something stands there already, or cannot be written.
    """
    graph = with_validation(graph, seed)
    drawn = {name: sample(graph, shape, TRAINING, "train", [(0, 2)] * len(shape.edges), seed) for name, shape in SHAPES.items()}
    queries = {name: table for name, table in drawn.items() if len(table)}
    encoder, one_hop = recipes_for(graph, queries, seed)
    run = (Run.open_or_create if resume else Run.create)(out, encoder, graph)
    lesson = QueryLesson(run, queries, drawn_queries(graph, "valid", VALIDATION, seed))
    _train(Trainer(run, lesson, minutes * ENCODER_SHARE, lambda line: note("encoder", line)), resume)
    predictor = (PredictorRun.open_or_create if resume else PredictorRun.create)(out / PREDICTOR, one_hop, graph)
    answers = Trainer(predictor, PredictLesson(predictor), minutes * (1 - ENCODER_SHARE), lambda line: note("one-hop predictor", line))
    _train(answers, resume)
    return calibrate(run, predictor, seed=seed)


def _train(trainer: Trainer, resume: bool) -> None:
    if resume:
        trainer.resume()
    trainer.train()
