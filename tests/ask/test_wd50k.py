"""WD50K, from query tables to SPARQL and back: the same ranking to the last entity, and known answers as a SPARQL store finds them."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from pyoxigraph import Quad, RdfFormat, Store, parse

from starqe.ask import Answerer, drawn_queries
from starqe.kg import SPLITS, Graph, import_graph
from starqe.kg.rdf.write import SPLIT_GRAPH, write_nquads
from starqe.learn import EncoderScorer
from starqe.model import Encoder, ModelConfig, Space
from starqe.queries import QueryTable, answer, read_sparql
from starqe.queries.layout import query_of_row, table_of_query
from starqe.queries.sparql.write import write_sparql
from starqe.reason.calibration import AnswerProbability, Evidence
from starqe.reason.chance import Chance
from starqe.reason.executor.settings import ReasonSettings
from starqe.reason.logistic import Logistic
from starqe.reason.mixture import CLASSES, EVEN
from starqe.reason.reasoner import Reasoner
from tests.places import WD50K

PER_SHAPE = 150
CLOSE = 1e-4
"""Scores (logarithms) that differ by less may change places: an edge that stands elsewhere is added elsewhere."""

PROBABILITY = AnswerProbability(Chance(Logistic((0.2, 0.9, 0.2, -0.2, *[0.0] * len(CLASSES)), 1.0)), Evidence(1_000, 1_000, 100))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def graph() -> Graph:
    if not WD50K.exists():
        pytest.skip("wd50k is not here")
    return import_graph(WD50K)[0]


@pytest.fixture(scope="module")
def reasoner(graph: Graph) -> Reasoner:
    """An encoder that has learned nothing, beside an executor that asks it for single edges; both count."""
    encoder = EncoderScorer(Encoder(ModelConfig(width=16, heads=2), Space(len(graph.entities), len(graph.relations)), 0).eval(), graph)
    return Reasoner(graph, encoder, encoder, Logistic((1.0, 0.1, -0.1, 0.1), -0.9), EVEN, ReasonSettings())


@pytest.fixture(scope="module")
def asked(graph: Graph) -> list[tuple[QueryTable, int, str]]:
    """More than 1,000 test queries of all shapes: table, row, and the row as SPARQL."""
    tables = drawn_queries(graph, "test", PER_SHAPE)
    return [
        (table, row, write_sparql(query_of_row(table, row, graph), graph.names)) for table in tables.values() for row in range(len(table))
    ]


def store_of(graph: Graph) -> Store:
    """Returns a store with the graph as it is exported, all splits as one."""
    store = Store()
    with tempfile.TemporaryDirectory() as place:
        (path,) = write_nquads(graph, Path(place) / "graph.nq", graph.names)
        quads = parse(path=str(path), format=RdfFormat.N_QUADS)
        of_splits = (quad for quad in quads if str(quad.graph_name).startswith(f"<{SPLIT_GRAPH}"))
        store.bulk_extend(Quad(quad.subject, quad.predicate, quad.object) for quad in of_splits)
    return store


def test_the_queries_are_of_every_kind(asked: list[tuple[QueryTable, int, str]]) -> None:
    assert len({text for _, _, text in asked}) == len(asked) >= 1_000
    assert {table.shape.name.split(".")[0] for table, _, _ in asked} == {"1p", "2p", "3p", "2i", "3i", "2i-1p", "1p-2i"}
    assert sum("." in table.shape.name for table, _, _ in asked) > len(asked) / 2  # with edges that are reversed
    pairs = np.concatenate([[len(table.pairs_of(row, edge)) for edge in range(len(table.shape.edges))] for table, row, _ in asked])
    assert set(pairs.tolist()) == {0, 1, 2}


def test_a_query_that_was_written_and_read_is_ranked_as_its_row_to_the_last_entity(
    graph: Graph, reasoner: Reasoner, asked: list[tuple[QueryTable, int, str]]
) -> None:
    mixture = reasoner.mixture(SPLITS)
    one, other = (torch.empty(1, len(graph.entities)) for _ in range(2))
    for table, row, text in asked:
        expected = mixture.scores(table, np.array([row]), one)[0].numpy()
        found = mixture.scores(table_of_query(read_sparql(text, graph).query, graph), np.array([0]), other)[0].numpy()
        falling = expected[np.argsort(-found, kind="stable")]
        assert np.diff(falling).max() < CLOSE, text
        assert np.abs(found - expected).max() < CLOSE, text


def test_the_answerer_gives_this_ranking_with_the_known_answers_before_it(
    graph: Graph, reasoner: Reasoner, asked: list[tuple[QueryTable, int, str]]
) -> None:
    answerer, mixture = Answerer(reasoner, PROBABILITY), reasoner.mixture(SPLITS)
    ids = {identifier: id_ for id_, identifier in enumerate(graph.entities)}
    for table, row, text in asked[::50]:
        ranked = np.array([ids[one.entity] for one in answerer.ask(text, top=len(graph.entities))])
        known = table.answers[row]
        assert np.array_equal(ranked[: len(known)], known)
        assert np.array_equal(np.sort(ranked), np.arange(len(graph.entities)))
        scores = mixture.scores(table, np.array([row]), torch.empty(1, len(graph.entities)))[0].numpy()
        assert np.diff(scores[ranked[len(known) :]]).max() < CLOSE, text


def test_the_known_answers_are_those_of_a_sparql_store(graph: Graph, asked: list[tuple[QueryTable, int, str]]) -> None:
    store, known = store_of(graph), graph.known(SPLITS)
    for table, row, text in asked:
        query = read_sparql(text, graph).query
        # A qualifier is a triple from a reifier: to a store, a blank node is as good a subject as an entity.
        entities = " && ".join(f"isIRI({variable})" for variable in query.variables)
        solutions = store.query(text.removesuffix("}\n") + f"  FILTER ({entities})\n}}\n")
        found = {graph.names.entities.identifier(solution[query.target.name].value) for solution in solutions}
        ours = answer(known, query)
        assert {graph.entities.identifier(id_) for id_ in ours} == found, text
        assert np.array_equal(ours, table.answers[row])
