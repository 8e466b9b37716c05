"""Known rows are those of a SPARQL store: random queries, asked over HTTP and of Oxigraph on the exported graph."""

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyoxigraph import BlankNode, NamedNode, Quad, RdfFormat, Store, parse
from starlette.testclient import TestClient

from starqe.ask import Answerer
from starqe.kg import Graph
from starqe.kg.rdf.write import SPLIT_GRAPH, write_nquads
from starqe.queries.sparql.write import write_sparql
from starqe.serve import create_app
from starqe.serve.settings import ServeSettings
from tests.queries.strategies import queries

MOST = 20_000


@pytest.fixture(scope="module")
def patient(answerer: Answerer) -> Iterator[TestClient]:
    """A client of a service that cuts nothing off."""
    unbounded = {"known": MOST, "known_supported": MOST, "seconds": 60.0}
    with TestClient(create_app(answerer, ServeSettings.parse(unbounded)), base_url="http://localhost") as made:
        yield made


@pytest.fixture(scope="module")
def store(answerer: Answerer) -> Store:
    """The graph as it is exported in RDF 1.2, all splits as one."""
    graph, made = answerer.graph, Store()
    with tempfile.TemporaryDirectory() as place:
        (path,) = write_nquads(graph, Path(place) / "graph.nq", graph.names)
        quads = parse(path=str(path), format=RdfFormat.N_QUADS)
        made.bulk_extend(Quad(q.subject, q.predicate, q.object) for q in quads if str(q.graph_name).startswith(f"<{SPLIT_GRAPH}"))
    return made


def drawn_text(data: st.DataObject, graph: Graph) -> str:
    """Draws a query with some of its variables projected."""
    query = data.draw(queries(graph))
    further = data.draw(st.lists(st.sampled_from(query.variables[1:]), unique=True)) if len(query.variables) > 1 else []
    inner = [variable for variable in query.variables[1:] if variable not in further]
    start, body = write_sparql(query, graph.names).split("WHERE", 1)
    prologue = start[: start.index("SELECT")]
    values = ""
    if inner and data.draw(st.booleans()):
        entity = graph.names.entities.term(data.draw(st.sampled_from([s.tail for s in list(graph.statements("train"))[:50]])))
        values = f"  VALUES {inner[0]} {{ {entity} }}\n" if isinstance(entity, NamedNode) else ""
    body = body.rstrip().removesuffix("}") + values
    columns = " ".join(map(str, (query.target, *further)))
    return f"{prologue}SELECT {columns} WHERE{body}}}"


@pytest.mark.full
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_the_known_rows_of_the_service_are_those_of_a_store(patient: TestClient, store: Store, answerer: Answerer, data) -> None:
    text = drawn_text(data, answerer.graph)
    response = patient.get("/sparql", params={"query": text})
    assert response.status_code == 200, response.text
    found = response.json()
    names = found["head"]["vars"]
    # Statement nodes are blank: every store names them as it likes.
    ours = Counter(tuple("" if row[n]["type"] == "bnode" else row[n]["value"] for n in names) for row in found["results"]["bindings"])
    theirs = Counter(tuple("" if isinstance(row[n], BlankNode) else row[n].value for n in names) for row in store.query(text))
    if theirs.total() < MOST:
        assert ours == theirs
