"""From a graph to an answerer: training, and calibration on validation."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from starqe.ask.answerer import Answerer
from starqe.ask.continuing import Before
from starqe.ask.recipes import LARGE, recipes_for, training_queries
from starqe.folders import check_free, locked
from starqe.kg import Graph, hold_out_validation
from starqe.learn import EncoderScorer, Lesson, QueryLesson, Run, RunFolder, Trainer
from starqe.learn.train import Counters
from starqe.measure.evaluate import Measure, evaluate
from starqe.measure.links import LINKS, rank_links, some_statements
from starqe.model import Encoder
from starqe.queries import MORE_SHAPES, SHAPES, QueryTable, sample, turned
from starqe.reason.calibration import PREDICTOR, AnswerProbability, RankedBy
from starqe.reason.executor.settings import ReasonSettings
from starqe.reason.fitting import FACTS, fit_one_hop, fit_probability, fit_weights
from starqe.reason.indexing import index_large
from starqe.reason.logistic import Logistic
from starqe.reason.mixture import ENCODER as ENCODER_ALONE
from starqe.reason.mixture import EVEN
from starqe.reason.predictor.lesson import PredictLesson
from starqe.reason.predictor.ruled import add_rules
from starqe.reason.predictor.run import PredictorRun
from starqe.reason.predictor.scorer import PredictorScorer
from starqe.reason.reasoner import Reasoner, check_calibration_fits, fit_reasoner, save_reasoner

VALIDATION = 150
"""The number of validation queries per shape, for fitting and for the choice of weights."""
COMPOSED, VALIDATION_COMPOSED = ("2u", "up", "2in", "pin", "2cp"), 40
"""The shapes with union, negation and open values that the mixture is fitted on too, and the number of queries of each."""
ENCODER_SHARE, ENCODER_SHARE_OF_LARGE = 0.5, 0.25
"""The encoder's share of the training time; the one-hop predictor has the rest. In large graphs it is what learns most."""
LEAST_TRAINING, HELD_OUT = 0.2, 0.05
"""The minimum share of the time for training, and the share of train statements that become the validation split of a graph without one."""
VALIDATION_SHARE, VALIDATION_SHARE_OF_LARGE = 0.03, 0.01
"""The share of the time that one validation of a model may take: a short fit validates on fewer queries. Large graphs have many epochs."""
CALIBRATION_SHARE = 0.25
"""The share of the time for rules, indexes and calibration: if all validation queries take longer, it is fitted on fewer."""
LEAST_CALIBRATION, PROBED = 5, 8
"""The least validation queries per shape and direction for calibration, even then, and those per shape on which its cost is measured."""

SAMPLING, ENCODER, ONE_HOP, CALIBRATING = "sampling queries", "training the encoder", "training the one-hop predictor", "calibrating"
"""The stages of a fit, in their order."""

Note = Callable[[str, dict[str, Any]], None]
"""Called with the stage of a fit and what is known about it: ``progress`` from 0 to 1, ``seconds`` in this stage, and more by stage."""


def drawn_queries(graph: Graph, split: str, count: int, seed: int = 0) -> dict[str, QueryTable]:
    """Samples queries as people ask them: every shape of the paper, edges in every direction, none to two qualifiers each.

    Queries are keyed by the name of their (turned) shape; shapes that the graph has no query of are left out.
    """
    found: dict[str, QueryTable] = {}
    for shape in SHAPES.values():
        for turns in product((False, True), repeat=len(shape.edges)):
            table = sample(graph, turned(shape, turns), -(-count // 2 ** len(turns)), split, [(0, 2)] * len(shape.edges), seed)
            if len(table):
                found[table.shape.name] = table
    return found


def composed_queries(graph: Graph, split: str, count: int, seed: int = 0) -> dict[str, QueryTable]:
    """Samples queries with union, negation and open qualifier values; shapes that the graph has no query of are left out."""
    shapes = (MORE_SHAPES[name] for name in COMPOSED)
    tables = [sample(graph, shape, count, split, [(0, 2)] * len(shape.edges), seed) for shape in shapes]
    return {table.shape.name: table for table in tables if len(table)}


def calibrate(
    run: Run,
    predictor: PredictorRun | None = None,
    validation: Mapping[str, QueryTable] | None = None,
    settings: ReasonSettings | None = None,
    seed: int = 0,
    step: Callable[[float], None] = lambda _: None,
    seconds: float | None = None,
) -> Answerer:
    """Fits one-hop calibration, mixture and probabilities on validation, and saves them in the run: it can be asked then.

    Args:
        run: The run of a trained encoder.
        predictor: The run of a one-hop predictor; left out, the one that the run has from before, or else the encoder predicts
            single edges too.
        validation: Queries of the split valid; sampled as people ask them if left out.
        settings: How the executor works.
        seed: Decides what is sampled.
        step: Called with the progress, from 0 to 1.
        seconds: The approximate time limit; as many queries are used as fit, but some of each class of shapes. All if left out.

    Raises:
        MismatchError: The predictor was trained on another graph.
        QueryError: The graph has no validation statements to learn from.
        StorageError: The folder cannot be written.
    """
    own = run.folder / PREDICTOR
    predictor = predictor or (PredictorRun.open(own, run.graph) if own.exists() else None)
    validation = validation or drawn_queries(run.graph, "valid", VALIDATION, seed)
    if not any(not table.shape.plain for table in validation.values()):
        validation = {**validation, **composed_queries(run.graph, "valid", VALIDATION_COMPOSED, seed)}
    end = None if seconds is None else time.monotonic() + seconds

    def left(share: float) -> float | None:
        return None if end is None else share * max(0.0, end - time.monotonic())

    reasoner = fit_reasoner(run, predictor, validation, settings, seed, left(0.5))
    step(0.5)
    alone = replace(reasoner, weights=ENCODER_ALONE)
    fitted: dict[RankedBy, AnswerProbability] = {"mixture": fit_probability(run.graph, reasoner.mixture(["train"]), validation, left(0.8))}
    step(0.9)
    fitted["encoder"] = fit_probability(run.graph, alone.mixture(["train"]), validation, left(1.0))
    save_reasoner(run.folder, reasoner, predictor, fitted)
    step(1.0)
    return Answerer(reasoner, fitted["mixture"])


def with_validation(graph: Graph, seed: int = 0) -> Graph:
    """Returns a graph that has a validation split: itself, or with a share of its train statements held out; test stays test.

    Raises:
        InputError: No statement of train can be held out.
    """
    return graph if len(graph.entity_part.known(["valid"])) else hold_out_validation(graph, HELD_OUT, seed)


def fit(
    graph: Graph,
    out: Path,
    minutes: float,
    seed: int = 0,
    resume: bool = False,
    note: Note = lambda *_: None,
    spent: float = 0.0,
    memory: int | None = None,
    before: Before | None = None,
) -> Answerer:
    """Trains an encoder and a one-hop predictor on a graph within a limit of time, and calibrates them: they can be asked then.

    Args:
        graph: The graph; without a validation split, some of its train statements become one.
        out: The folder of the run.
        minutes: The time for everything. The other stages are measured, and training has the rest, but at least `LEAST_TRAINING`.
        seed: Decides everything that is random.
        resume: Continue an interrupted fit.
        note: Called with every stage and its progress.
        spent: The seconds that were used before, such as for reading the graph.
        memory: The memory limit of the process, in bytes; the free memory if left out. Training that does not fit is refused.
        before: The run to continue from: its rows are kept, and a new row starts as the mean of those that fill the same places.

    Raises:
        InputError: Nothing of the graph can be held out.
        MismatchError: The run that is there is of another graph, or the run to go on from has learned validation statements.
        StorageError: The folder exists already, another command trains or calibrates it, or it cannot be written.
    """
    began, budget = time.perf_counter(), 60 * minutes
    check_free(out, overwrite=True)  # a file is refused before queries are sampled
    graph = (before.with_validation(graph.whole) if before else with_validation(graph.whole, seed)).entity_part
    note(SAMPLING, {"progress": 0.0, "seconds": 0.0})
    count = training_queries(minutes)
    drawn = {name: sample(graph, shape, count, "train", [(0, 2)] * len(shape.edges), seed) for name, shape in SHAPES.items()}
    queries = {name: table for name, table in drawn.items() if len(table)}
    validation = drawn_queries(graph, "valid", VALIDATION, seed)
    encoder, one_hop = before.recipes(queries, seed, count) if before else recipes_for(len(graph.entities), queries, seed, minutes)
    starts = before.starts(graph) if before else (None, None)
    run = (Run.open_or_create if resume else Run.create)(out, encoder, graph, starts[0])
    with locked(out):
        predictor = (PredictorRun.open_or_create if resume else PredictorRun.create)(out / PREDICTOR, one_hop, graph, starts[1])
        return _fit_models(
            run, predictor, queries, validation, max(budget - spent, LEAST_TRAINING * budget), began, resume, seed, note, memory
        )


def _fit_models(
    run: Run,
    predictor: PredictorRun,
    queries: Mapping[str, QueryTable],
    validation: Mapping[str, QueryTable],
    budget: float,
    began: float,
    resume: bool,
    seed: int,
    note: Note,
    memory: int | None,
) -> Answerer:
    """Measures what validation and calibration cost, trains both models in the rest of the time, and calibrates them."""
    check_calibration_fits(run, predictor, ReasonSettings(), memory)
    untrained = EncoderScorer(Encoder(run.recipe.model, run.space, 0).eval(), run.graph, run.recipe.train.variant)
    untrained_one_hop = PredictorScorer(predictor.new_predictor().eval())
    most = max(map(len, validation.values()), default=1)
    encoder_validation = _encoder_validation(untrained, run.graph, validation)
    is_large = len(run.graph.entities) > LARGE
    share = (VALIDATION_SHARE_OF_LARGE if is_large else VALIDATION_SHARE) * budget
    validated = max(1, min(most, int(most * share / max(encoder_validation, 1e-9))))
    encoder_validation *= validated / most
    wanted = predictor.recipe.train.validation_questions
    statements, predictor_validation = _predictor_validation(untrained_one_hop, run.graph, wanted, share)
    lesson, questions = QueryLesson(run, queries, _first(validation, validated)), PredictLesson(predictor, statements)
    baselines = lesson.baseline().get("average"), questions.baseline().get("average")
    calibration = CALIBRATION_SHARE * budget
    if not is_large:  # beyond, an untrained model is several times as slow as a trained one, which has an index
        costs = calibration_costs(untrained, untrained_one_hop, run.graph, validation)
        _, calibration = calibration_queries(validation, costs, calibration)
    del untrained, untrained_one_hop  # in large graphs they take as much memory as the models
    drawing = time.perf_counter() - began
    training = max(budget - drawing - calibration, budget * LEAST_TRAINING)
    counts = {"queries": sum(map(len, queries.values())), "validation_queries": sum(map(len, validation.values()))}
    note(SAMPLING, {"progress": 1.0, "seconds": drawing, **counts, "training_seconds": training, "calibration_seconds": calibration})
    encoding = training * (ENCODER_SHARE_OF_LARGE if is_large else ENCODER_SHARE)
    reached = _train(run, lesson, encoding, encoder_validation, baselines[0], resume, partial(note, ENCODER), memory)
    left = max(training - reached.seconds, training * LEAST_TRAINING)
    _train(predictor, questions, left, predictor_validation, baselines[1], resume, partial(note, ONE_HOP), memory)

    note(CALIBRATING, {"progress": 0.0, "seconds": 0.0, "of_seconds": calibration})
    started = time.perf_counter()
    index_large((run, predictor), seed)
    add_rules(predictor)
    calibrated_on = validation
    if not is_large:  # trained models follow more candidates, and the machine may be busier by now: measure again
        costs = calibration_costs(run.scorer(), predictor.scorer(), run.graph, validation)
        calibrated_on, _ = calibration_queries(validation, costs, budget - (time.perf_counter() - began))

    def calibrated(share: float) -> None:
        note(CALIBRATING, {"progress": share, "seconds": time.perf_counter() - started})

    left = budget - (time.perf_counter() - began)
    return calibrate(run, predictor, calibrated_on, seed=seed, step=calibrated, seconds=left)


def _train(
    run: RunFolder[Any],
    lesson: Lesson[Any],
    seconds: float,
    validation_seconds: float,
    baseline: float | None,
    resume: bool,
    note: Callable[[dict[str, Any]], None],
    memory: int | None,
) -> Counters:
    """Trains one model, or continues it; a training that was finished before is left as it is."""
    about = {"of_seconds": seconds, "baseline_mrr": baseline}
    expected = min(validation_seconds, seconds / 4)  # an estimate that is too high must not leave time unused
    trainer = Trainer(run, lesson, seconds / 60, lambda line: note({**line, **about}), expected, memory)
    if resume:
        trainer.resume()
    if not trainer.counters.finished:
        note({"progress": trainer.progress, "seconds": trainer.counters.seconds, "queries": trainer.counters.queries, **about})
    return trainer.train()


@dataclass(frozen=True)
class CalibrationCosts:
    """How long calibration takes, in seconds."""

    single_facts: float
    """The calibration of single facts."""
    per_query: float
    """All the rest, per validation query."""


def calibration_costs(
    encoder: EncoderScorer, one_hop: PredictorScorer, graph: Graph, validation: Mapping[str, QueryTable]
) -> CalibrationCosts:
    """Measures what calibration costs with these models, on some of the validation queries."""
    executor = Reasoner(graph, encoder, one_hop, Logistic((1.0, 0.0, 0.0, 0.0), 0.0), EVEN, ReasonSettings()).executor(["train"])
    few, fewer, facts = _of_each_shape(validation, PROBED), _of_each_shape(validation, 1), 10 * PROBED

    def weights(tables: Mapping[str, QueryTable]) -> object:
        return fit_weights(graph, encoder, executor, tables)

    weights(fewer)  # builds caches, outside the measurement
    return CalibrationCosts(
        _seconds(lambda: fit_one_hop(graph, one_hop, facts)) * FACTS / facts,
        # The weights of the mixture and the probabilities of its answers each take a pass of encoder and executor.
        2 * _seconds(lambda: weights(few)) / max(sum(map(len, few.values())), 1),
    )


def _encoder_validation(encoder: EncoderScorer, graph: Graph, validation: Mapping[str, QueryTable]) -> float:
    """Estimates the seconds that one validation on all validation queries takes."""
    few = _of_each_shape(validation, PROBED)

    def measured() -> object:
        return evaluate(encoder, few, len(graph.entities), Measure(replicates=0))

    measured()  # builds caches, outside the measurement
    return _seconds(measured) * sum(map(len, validation.values())) / max(sum(map(len, few.values())), 1)


def _predictor_validation(one_hop: PredictorScorer, graph: Graph, statements: int, seconds: float) -> tuple[int, float]:
    """Returns how many of these statements can be validated on in this time, at least as many as are tried here, and how long it takes."""
    few = some_statements(graph, "valid", 8 * PROBED)
    each = _seconds(lambda: rank_links(one_hop, graph, few, LINKS["ours"], ("train", "valid"))) / len(few)
    chosen = min(statements, len(graph.known(["valid"])), max(len(few), int(seconds / max(each, 1e-9))))
    return chosen, each * chosen


def _of_each_shape(validation: Mapping[str, QueryTable], count: int) -> dict[str, QueryTable]:
    """Returns the first queries of every shape, of one direction each."""
    return _first({name.partition(".")[0]: table for name, table in validation.items()}, count)


def calibration_queries(
    validation: Mapping[str, QueryTable], costs: CalibrationCosts, seconds: float
) -> tuple[dict[str, QueryTable], float]:
    """Returns as many of the validation queries as can be calibrated on in this time, and how long that takes."""
    most = max(map(len, validation.values()), default=0)
    share = (seconds - costs.single_facts) / max(costs.per_query * sum(map(len, validation.values())), 1e-9)
    chosen = _first(validation, max(LEAST_CALIBRATION, min(most, int(share * most))))
    return chosen, costs.single_facts + costs.per_query * sum(map(len, chosen.values()))


def _first(tables: Mapping[str, QueryTable], count: int) -> dict[str, QueryTable]:
    return {name: table.take(range(min(count, len(table)))) for name, table in tables.items()}


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
