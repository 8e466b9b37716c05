"""What may be known: train only. Shuffled tails of valid and test statements change no score of any evaluated query.

What validation decides (the calibration of one-hop predictions, the weights of the mixture) may look at valid, and never at test:
so for these the tails of test alone are shuffled, and no fitted number may change either.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from starqe.ask import Answerer, calibrate
from starqe.kg import SPLITS, Graph, embedded_graph
from starqe.kg.graph import canonical
from starqe.learn import EncoderScorer, QueryLesson, Run, Trainer, preset
from starqe.measure.baseline import FrequencyScorer
from starqe.measure.evaluate import Scorer
from starqe.model import Encoder
from starqe.queries import ALL_SHAPES, MORE_SHAPES, SHAPES, QueryTable, generate, load_queries, sample
from starqe.reason import PredictLesson, PredictorRun, ReasonSettings, recipe_of
from starqe.reason.fitting import fit_one_hop, fit_probability, fit_weights
from starqe.reason.logistic import Logistic
from starqe.reason.mixture import EVEN
from starqe.reason.reasoner import RANKED_BY, Reasoner
from starqe.seed import generator

pytestmark = pytest.mark.full

SIZE = ["model.width=16", "model.heads=2"]
TINY = [*SIZE, "train.queries_per_shape=100", "train.one_hop_per_direction=100", "train.epochs=1"]

Tables = dict[str, QueryTable]


def with_columns(graph: Graph, tail: np.ndarray, split: np.ndarray) -> Graph:
    columns = graph.head, graph.relation, tail, split, graph.pairs
    return canonical(graph.entities, graph.relations, *columns)[0]


def shuffled(graph: Graph, *splits: str) -> Graph:
    """Returns the graph with the tails of the statements of these splits in another order."""
    tail = graph.tail.copy()
    moved = graph.known(splits).rows
    tail[moved] = tail[generator(0, "shuffle").permutation(moved)]
    made = with_columns(graph, tail, graph.split)
    assert made.fingerprint != graph.fingerprint
    assert made.vocabulary_fingerprint == graph.vocabulary_fingerprint
    return made


def leaking_test(graph: Graph) -> Graph:
    """Returns the graph in which the statements of test are valid ones: a leak, on purpose."""
    return with_columns(graph, graph.tail, np.minimum(graph.split, SPLITS.index("valid")).astype(graph.split.dtype))


def queries_of(graph: Graph, split: str, folder: Path, limit: int) -> Tables:
    generate(graph, folder, splits=[split])
    return load_queries(folder, split, limit=limit)


@pytest.fixture(scope="module")
def graphs() -> tuple[Graph, Graph]:
    graph = embedded_graph()
    return graph, shuffled(graph, "valid", "test")


@pytest.fixture(scope="module")
def asked(graphs: tuple[Graph, Graph], tmp_path_factory: pytest.TempPathFactory) -> Tables:
    tables = queries_of(graphs[0], "test", tmp_path_factory.mktemp("test") / "queries", 40)
    # No statement of the embedded graph has two values that other facts lead to: there is no 3cp.
    more = {name: sample(graphs[0], shape, 10, "test", [(0, 1)] * len(shape.edges)) for name, shape in MORE_SHAPES.items() if name != "3cp"}
    assert all(map(len, more.values()))
    return {**tables, **more}


def scores(scorer: Scorer, tables: Tables, entities: int) -> dict[str, torch.Tensor]:
    return {name: scorer.scores(table, np.arange(len(table)), torch.empty(len(table), entities)).clone() for name, table in tables.items()}


def trained(graph: Graph, folder: Path) -> Scorer:
    generate(graph, folder / "queries", splits=["train"])
    run = Run.create(folder / "run", preset("starqe-ask").with_settings([*TINY, "train.varied_per_shape=200"]), graph)
    Trainer(run, QueryLesson(run, load_queries(folder / "queries", "train"))).train()
    return run.scorer()


def trained_predictor(graph: Graph, folder: Path, splits: str = '["train"]') -> Scorer:
    settings = [*SIZE, "model.feed_forward=16", "train.epochs=1", "train.validation_questions=0", f"train.splits={splits}"]
    run = PredictorRun.create(folder / "run", recipe_of("one-hop").with_settings(settings), graph)
    Trainer(run, PredictLesson(run)).train()
    return run.scorer()


def first_encoder(graph: Graph) -> EncoderScorer:
    """An encoder with its first weights: they depend on the seed alone."""
    recipe = preset("demo").with_settings(SIZE)
    run = Run(Path(), recipe, graph)
    return EncoderScorer(Encoder(recipe.model, run.space, recipe.seed).eval(), graph, recipe.train.variant)


def reasoner(graph: Graph) -> Reasoner:
    """What reasons with fixed numbers."""
    encoder = first_encoder(graph)
    return Reasoner(graph, encoder, encoder, Logistic((1.0, 0.1, -0.1, 0.1), -1.0), EVEN, ReasonSettings(beam=4))


Make = Callable[[Graph, Path], Scorer]

SCORERS: dict[str, tuple[Collection[str], Make]] = {
    "encoder, trained from the start": (SHAPES, trained),
    "frequency": (SHAPES, lambda graph, _: FrequencyScorer(graph)),
    "predictor, trained from the start": (["1p"], trained_predictor),
    "executor": (ALL_SHAPES, lambda graph, _: RANKED_BY["executor"](reasoner(graph))),
    "mixture": (ALL_SHAPES, lambda graph, _: RANKED_BY["mixture"](reasoner(graph))),
}
"""What is evaluated, and the shapes that it can be asked."""

LEAKS: dict[str, tuple[Collection[str], Make]] = {
    "frequency": (SHAPES, lambda graph, _: FrequencyScorer(graph, ("train", "test"))),
    "predictor": (["1p"], lambda graph, folder: trained_predictor(graph, folder, '["train", "test"]')),
    "executor": (SHAPES, lambda graph, _: reasoner(graph).executor(["train", "test"])),
    "executor, asked for union, negation and values": (MORE_SHAPES, lambda graph, _: reasoner(graph).executor(["train", "test"])),
    "executor that sees valid": (SHAPES, lambda graph, _: reasoner(graph).executor(["train", "valid"])),
    "mixture": (SHAPES, lambda graph, _: reasoner(graph).mixture(["train", "test"])),
}
"""The same with a look-up that is given more than train, on purpose."""


def changed_shapes(made: tuple[Collection[str], Make], graphs: tuple[Graph, Graph], asked: Tables, folder: Path) -> list[str]:
    """Returns the shapes for which some score is not the same on both graphs."""
    shapes, make = made
    tables = {shape: asked[shape] for shape in shapes if shape in asked}
    own, other = (scores(make(graph, folder / str(number)), tables, len(graph.entities)) for number, graph in enumerate(graphs))
    return [shape for shape in tables if not torch.equal(own[shape], other[shape])]


@pytest.mark.parametrize("name", SCORERS)
def test_facts_of_valid_and_test_change_no_score(name: str, graphs: tuple[Graph, Graph], asked: Tables, tmp_path: Path) -> None:
    assert asked.keys() == ALL_SHAPES.keys() - {"3cp"}
    assert changed_shapes(SCORERS[name], graphs, asked, tmp_path) == []


@pytest.mark.parametrize("name", LEAKS)
def test_a_scorer_that_looks_at_more_than_train_is_caught(name: str, graphs: tuple[Graph, Graph], asked: Tables, tmp_path: Path) -> None:
    assert changed_shapes(LEAKS[name], graphs, asked, tmp_path) != []


@pytest.fixture(scope="module")
def reordered() -> tuple[Graph, Graph]:
    graph = embedded_graph()
    return graph, shuffled(graph, "test")


@pytest.fixture(scope="module")
def validation(graphs: tuple[Graph, Graph], tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return queries_of(graphs[0], "valid", tmp_path_factory.mktemp("valid") / "queries", 30)


def of_graph(tables: Tables, graph: Graph) -> Tables:
    """Says that queries are of this graph: they are given, and what is fitted on them is looked at."""
    return {shape: replace(table, header={**table.header, "fingerprint": graph.fingerprint}) for shape, table in tables.items()}


def fitted(graph: Graph, validation: Tables, folder: Path) -> Answerer:
    run = Run.create(folder, preset("demo").with_settings(SIZE), graph)
    run.save_weights(Encoder(run.recipe.model, run.space, run.recipe.seed).state_dict())
    return calibrate(run, None, of_graph(validation, graph), ReasonSettings(beam=4))


def test_facts_of_test_change_no_fitted_number_and_no_score(
    reordered: tuple[Graph, Graph], validation: Tables, asked: Tables, tmp_path: Path
) -> None:
    own, other = (fitted(graph, validation, tmp_path / str(number)) for number, graph in enumerate(reordered))
    assert own.reasoner.calibration == other.reasoner.calibration
    assert own.weights == other.weights
    assert own.probability == other.probability
    for by, make in RANKED_BY.items():
        one, two = (scores(make(of.reasoner), asked, len(of.graph.entities)) for of in (own, other))
        assert all(torch.equal(one[shape], two[shape]) for shape in SHAPES), by


def test_a_calibration_that_looks_at_test_is_caught(reordered: tuple[Graph, Graph]) -> None:
    own, other = (fit_one_hop(leaking_test(graph), first_encoder(graph)) for graph in reordered)
    assert own != other


def test_weights_of_a_mixture_that_look_at_test_are_caught(reordered: tuple[Graph, Graph], validation: Tables) -> None:
    own, other = (
        fit_weights(leaky, first_encoder(leaky), RANKED_BY["executor"](reasoner(leaky)), of_graph(validation, leaky))
        for leaky in map(leaking_test, reordered)
    )
    assert own != other


def test_probabilities_that_look_at_test_are_caught(reordered: tuple[Graph, Graph], validation: Tables) -> None:
    own, other = (
        fit_probability(leaky, RANKED_BY["mixture"](reasoner(leaky)), of_graph(validation, leaky)) for leaky in map(leaking_test, reordered)
    )
    assert own != other
