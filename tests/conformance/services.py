"""Services over the data of the suites, where that data is a graph of statements; and an answerer that has learned nothing."""

import contextlib
import tempfile
from pathlib import Path

import httpx2
from pyoxigraph import Quad, RdfFormat, parse
from starlette.testclient import TestClient

from starqe.ask import Answerer
from starqe.errors import InputError, KnownOnlyError
from starqe.kg import Graph, export_graph, import_graph
from starqe.learn import EncoderScorer
from starqe.model import Encoder, ModelConfig, Space
from starqe.queries import read_sparql
from starqe.reason.calibration import AnswerProbability, Evidence
from starqe.reason.chance import Chance
from starqe.reason.executor.settings import ReasonSettings
from starqe.reason.logistic import Logistic
from starqe.reason.mixture import CLASSES, EVEN
from starqe.reason.reasoner import Reasoner
from starqe.serve import ServeSettings, create_app
from tests.conformance.data import data_of, quads_of
from tests.conformance.manifest import Node, W3cTest, file_of
from tests.conformance.results import canonical

PATIENT = ServeSettings.parse({"seconds": 300.0})
"""Time enough on a busy machine: the time limit has tests of its own."""


def untrained(graph: Graph) -> Answerer:
    """Returns an answerer that knows the graph, and whose predictions mean nothing."""
    part = graph.entity_part
    encoder = EncoderScorer(Encoder(ModelConfig(width=16, heads=2), Space(len(part.entities), len(part.relations)), 0).eval(), part)
    reasoner = Reasoner(part, encoder, encoder, Logistic((1.0, 0.1, -0.1, 0.1), -0.9), EVEN, ReasonSettings())
    chance = Chance(Logistic((0.2, 0.9, 0.2, -0.2, *[0.0] * len(CLASSES)), 1.0))
    return Answerer(reasoner, AnswerProbability(chance, Evidence(1_000, 1_000, 100)))


def asked(client: TestClient, text: str) -> httpx2.Response:
    """Sends a query. Queries come one after the other with much time for each, so a service that is busy is wrong."""
    response = client.post("/sparql", data={"query": text})
    assert response.status_code != 503, f"busy with one query at a time: {response.text}"
    return response


def exported(graph: Graph) -> list[Quad]:
    """Returns the triples of a graph's export, all splits as one graph."""
    with tempfile.TemporaryDirectory() as folder:
        (path,) = export_graph(graph, Path(folder) / "graph.nq", names=graph.names)
        return [Quad(quad.subject, quad.predicate, quad.object) for quad in parse(path=str(path), format=RdfFormat.N_QUADS)]


class Services:
    """Makes services over the data of tests; close it at the end."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._graphs: dict[Node, Graph | None] = {}
        self._clients: dict[Node, TestClient] = {}

    def close(self) -> None:
        """Ends all services."""
        self._stack.close()

    def of(self, test: W3cTest, text: str) -> TestClient | None:
        """Returns a client of a service that answers the text of a test by its own reader, or None if the store answers it anyway."""
        default, named = data_of(test)
        if len(default) != 1 or named or file_of(default[0]).suffix != ".ttl":
            return None
        file = default[0]
        if file not in self._graphs:
            self._graphs[file] = _graph(file)
        graph = self._graphs[file]
        try:
            if graph is None:
                return None
            read_sparql(text, graph)
        except KnownOnlyError:
            return None
        if file not in self._clients:
            self._clients[file] = self._stack.enter_context(TestClient(create_app(untrained(graph), PATIENT), base_url="http://localhost"))
        return self._clients[file]


def _graph(file: Node) -> Graph | None:
    """Returns the graph of statements that says exactly what a file says, or None if there is none."""
    try:
        graph, _ = import_graph(file_of(file))
    except InputError:  # no statement in it
        return None
    same = canonical(exported(graph)) == canonical(quads_of(file))  # not if the import leaves something out
    return graph if same else None
