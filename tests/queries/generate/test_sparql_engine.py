"""Two engines that share no join give the same tables, to the byte."""

import threading
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from time import sleep
from urllib.parse import parse_qs

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyoxigraph import QueryResultsFormat, RdfFormat, Store

from starqe.errors import InputError, StorageError, UnsupportedError
from starqe.kg import SPLITS, Graph, Statement, graph_of
from starqe.kg.iris import Names
from starqe.kg.rdf.write import write_nquads
from starqe.queries import SHAPES, QuerySettings, Shape, generate
from starqe.queries.generate.formulas import shape_sparql
from starqe.queries.generate.sparql_engine import SparqlEngine
from tests.kg import strategies as awkward
from tests.kg.rdf.documents import read_document
from tests.queries import brute_force
from tests.queries import strategies as dense

QV, QW = ("q", "v"), ("q", "w")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.parquet"))}


def assert_same_tables(graph: Graph, folder: Path, shapes, chosen=None, splits=SPLITS, engine=None) -> None:
    generate(graph, folder / "sql", shapes, chosen, splits, threads=1)
    generate(graph, folder / "sparql", shapes, chosen, splits, engine or "sparql", threads=1)
    sql, sparql = contents(folder / "sql"), contents(folder / "sparql")
    assert [name for name in sql if sql[name] != sparql.get(name)] == []
    assert len(sparql) == len(shapes) * len(splits)


@pytest.fixture(scope="module")
def science() -> Graph:
    text = files("starqe.kg").joinpath("embedded/science.trig").read_bytes()
    return read_document(text, "trig", Names()).draft.finish()


@pytest.mark.full
def test_all_seven_shapes_on_the_embedded_graph(science, tmp_path):
    assert_same_tables(science, tmp_path, list(SHAPES.values()), QuerySettings(hub_threshold=8))


@pytest.mark.slow
def test_all_seven_shapes_on_the_embedded_graph_with_the_hubs_of_the_paper(science, tmp_path):
    assert_same_tables(science, tmp_path, list(SHAPES.values()))


@pytest.mark.full
def test_several_pairs_on_the_embedded_graph(science, tmp_path):
    shapes = [SHAPES["1p"], SHAPES["2p"], SHAPES["2i"]]
    assert_same_tables(science, tmp_path, shapes, QuerySettings(qualifiers="0-2", hub_threshold=8), ["valid"])


@pytest.mark.slow
def test_four_shapes_on_a_part_of_wd50k(wd50k_100, tmp_path):
    assert_same_tables(wd50k_100, tmp_path, [SHAPES[name] for name in ("1p", "2p", "2i", "2i-1p")])


QUALIFIERS = st.sampled_from(["0", "1", "2", "0-1"])


@st.composite
def cases(draw):
    """Draws a graph, with awkward names or with many matches, a shape, settings and a split."""
    shape = draw(brute_force.shapes(4))
    edge_by_edge = st.lists(QUALIFIERS, min_size=len(shape.edges), max_size=len(shape.edges)).map(",".join)
    ranges = st.just("0-2") if len(shape.edges) < 3 else QUALIFIERS
    chosen = QuerySettings(
        qualifiers=draw(QUALIFIERS | ranges | edge_by_edge),
        hub_threshold=draw(st.sampled_from([None, 2, 4, 6])),
        solutions_below=draw(st.sampled_from([{}, {"random": 4}])),
        seed=draw(st.integers(0, 3)),
    )
    return draw(dense.graphs() | awkward.graphs(labels=False)), shape, chosen, draw(st.sampled_from(SPLITS))


@pytest.mark.full
@given(cases())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_shapes_on_random_graphs(tmp_path_factory, case):
    graph, shape, chosen, split = case
    assert_same_tables(graph, tmp_path_factory.mktemp("queries"), [shape], chosen, [split])


def test_the_query_of_a_shape_can_be_read():
    text = shape_sparql(SHAPES["2i"], [1, 0], "valid", position=0, hubs=["<urn:h>"])
    assert (
        text
        == """\
PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>
SELECT DISTINCT ?A ?relation_0 ?the_answer ?key_0_0 ?value_0_0 ?B ?relation_1
FROM <urn:starqe:split:train>
FROM <urn:starqe:split:valid>
FROM NAMED <urn:starqe:split:valid>
WHERE {
  {
    SELECT DISTINCT ?A ?relation_0 ?the_answer ?key_0_0 ?value_0_0
    WHERE {
      GRAPH <urn:starqe:split:valid> {
        ?A ?relation_0 ?the_answer .
        ?reifier_0 rdf:reifies <<( ?A ?relation_0 ?the_answer )>> ; ?key_0_0 ?value_0_0 .
        FILTER (?key_0_0 != rdf:reifies && !isLiteral(?value_0_0))
        FILTER (?the_answer NOT IN (<urn:h>))
      }
    }
  }
  {
    SELECT DISTINCT ?B ?relation_1 ?the_answer
    WHERE {
      ?B ?relation_1 ?the_answer .
      FILTER (?relation_1 != rdf:reifies && !isLiteral(?the_answer))
      FILTER NOT EXISTS { ?B rdf:reifies ?triple_1 }
      FILTER (?the_answer NOT IN (<urn:h>))
    }
  }
  FILTER (?A != ?B || ?relation_0 != ?relation_1)
}
"""
    )


def test_nodes_may_have_any_name(tmp_path):
    graph = graph_of(train=[Statement("a", "r", "x", (QV,)), Statement("x", "r", "y", (QV,))])
    assert_same_tables(graph, tmp_path, [Shape.parse("odd", "Relation0>answer answer>? Key>? Value>answer")], splits=["train"])


def test_edges_that_share_an_anchor(tmp_path):
    graph = graph_of(train=[Statement(head, relation, "x", (QV,)) for head, relation in ("br", "bs", "bt", "ar")])
    assert_same_tables(graph, tmp_path, [Shape.parse("fork", "A>? A>? B>?"), Shape.parse("both", "A>? B>? ?>A")], splits=["train"])


def test_hubs_that_sparql_cannot_name_are_left_out_too(tmp_path):
    graph = graph_of(
        train=[Statement(head, "r", tail, (QV,)) for head in "abc" for tail in ("_:hub", "x")] + [Statement("d", "r", "x", (QV,))]
    )
    assert_same_tables(graph, tmp_path, [SHAPES["2i"], SHAPES["2i-1p"]], QuerySettings(hub_threshold=4), ["train"])


GRAPH = graph_of(
    train=[
        Statement("a", "r", "x", (QV,)),
        Statement("b", "r", "x", (QV, QW)),
        Statement("b", "r", "x"),
        Statement("x", "s", "a b", (QW,)),
    ],
    valid=[Statement("c", "r", "x", (QV,)), Statement("x", "s", "d", (QV,))],
    test=[Statement("a", "r", "x", (QW,))],
)


class Handler(BaseHTTPRequestHandler):
    """Answers as the server's ``reply`` says, and notes what it was asked."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        asked = {"body": parse_qs(body), "accept": self.headers["Accept"], "type": self.headers["Content-Type"]}
        self.server.asked.append(asked)
        status, content = self.server.reply(asked["body"]["query"][0])
        self.send_response(status)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args):
        pass


@contextmanager
def endpoint(reply):
    """Runs a web server on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.reply, server.asked = reply, []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/query", server.asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def store_of(graph: Graph, tmp_path: Path, names: Names) -> Store:
    (path,) = write_nquads(graph, tmp_path / "graph.nq", names)
    store = Store()
    store.bulk_load(path=str(path), format=RdfFormat.N_QUADS)
    return store


def answers_of(store: Store):
    return lambda query: (200, store.query(query).serialize(format=QueryResultsFormat.JSON))


@pytest.mark.full
def test_an_endpoint_over_http_gives_the_same_tables(tmp_path):
    names = Names("http://example.org/e/", "http://example.org/r/")
    with endpoint(answers_of(store_of(GRAPH, tmp_path, names))) as (url, asked):
        engine = partial(SparqlEngine, names=names, endpoint=url)
        assert_same_tables(GRAPH, tmp_path, list(SHAPES.values()), QuerySettings(qualifiers="0-1"), engine=engine)
    assert {(one["accept"], one["type"]) for one in asked} == {("application/sparql-results+json", "application/x-www-form-urlencoded")}
    assert all("FROM <urn:starqe:split:train>" in one["body"]["query"][0] for one in asked)


def test_literals_and_labels_of_an_endpoint_are_not_entities(tmp_path):
    store = store_of(GRAPH, tmp_path, Names())
    store.update("""
        INSERT { GRAPH ?g { ?s <urn:starqe:relation:r> "a literal" . ?reifier <urn:starqe:relation:q> 7 } }
        WHERE { GRAPH ?g { ?s <urn:starqe:relation:r> ?o . ?reifier <http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies> ?triple } }""")
    with endpoint(answers_of(store)) as (url, _):
        shapes = [SHAPES["1p"], SHAPES["2p"]]
        assert_same_tables(
            GRAPH, tmp_path, shapes, QuerySettings(qualifiers="0-1"), ["train"], partial(SparqlEngine, names=Names(), endpoint=url)
        )


def ask(url: str, tmp_path: Path, graph: Graph = GRAPH, timeout: float = 5.0) -> None:
    generate(
        graph,
        tmp_path / "asked",
        [SHAPES["1p"]],
        splits=["train"],
        engine=partial(SparqlEngine, names=Names(), endpoint=url, timeout=timeout),
        threads=1,
    )


JSON = b'{"head": {"vars": ["A", "relation_0", "the_answer", "key_0_0", "value_0_0"]}, "results": {"bindings": ['


@pytest.mark.parametrize(
    ("status", "content", "error", "message"),
    [
        (400, b"line 7: unexpected '<<'", InputError, "refuses the query .HTTP 400 Bad Request.: line 7: unexpected '<<'"),
        (503, b"busy", StorageError, "HTTP 503 Service Unavailable.: busy"),
        (200, b"<html>welcome</html>", InputError, "an answer is SPARQL results in JSON, found something else"),
        (200, b"", InputError, "an answer is SPARQL results in JSON, found something else"),
        (200, JSON, InputError, "an answer is SPARQL results in JSON, found something else"),
        (200, b'{"head": {}, "boolean": true}', InputError, "found a yes or no"),
        (200, b'{"head": {"vars": ["b"]}, "results": {"bindings": []}}', InputError, r"the solutions are of \?A .*, found \?b"),
        (200, JSON + b'{"A": {"type": "uri", "value": "x:y"}}]}}', InputError, r"\?A is <x:y>, which this graph does not have"),
    ],
)
def test_what_is_not_an_answer_is_refused(tmp_path, status, content, error, message):
    with endpoint(lambda query: (status, content)) as (url, _), pytest.raises(error, match=message):
        ask(url, tmp_path)
    assert contents(tmp_path / "asked") == {}


def test_an_endpoint_that_holds_other_statements_is_refused(tmp_path):
    more = graph_of(train=[*GRAPH.statements("train"), Statement("b", "s", "a", (QV,))])
    with (
        endpoint(answers_of(store_of(more, tmp_path, Names()))) as (url, _),
        pytest.raises(InputError, match="a statement that this graph does not have"),
    ):
        ask(url, tmp_path)


def test_an_endpoint_that_is_not_there_or_silent_is_named(tmp_path):
    with endpoint(lambda query: (200, b"")) as (gone, _):
        pass
    with pytest.raises(StorageError, match="cannot be reached"):
        ask(gone, tmp_path)

    def late(query):
        sleep(0.5)
        return 200, b""

    with endpoint(late) as (url, _), pytest.raises(StorageError, match=r"no answer within 0\.1 s"):
        ask(url, tmp_path, timeout=0.1)


@pytest.mark.parametrize("address", ["localhost:7878", "file:///etc/passwd", "http://", "", "ftp://example.org/query"])
def test_what_is_not_an_address_of_a_web_server_is_refused(address):
    with pytest.raises(InputError, match="a SPARQL endpoint is an address such as"):
        SparqlEngine(GRAPH, endpoint=address)


def test_blank_nodes_do_not_go_to_an_endpoint():
    graph = graph_of(train=[Statement("_:a", "r", "x")])
    with pytest.raises(UnsupportedError, match="this graph has _:a"):
        SparqlEngine(graph, endpoint="http://localhost/query")
