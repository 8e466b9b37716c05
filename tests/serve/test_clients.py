"""SPARQL clients with what they really send: libraries, and other stores that join their own data with our answers."""

import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from starqe.ask import Answerer
from tests.serve.questions import SCIENCE
from tests.serve.served import served

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore")]  # the clients' own warnings

RELATION = f"{SCIENCE}relation/"
PREFIXES = f"PREFIX e: <{SCIENCE}> PREFIX r: <{RELATION}> PREFIX x: <urn:x:> "
EINSTEIN, CURIE, ULM, WARSAW = (SCIENCE + name for name in ("AlbertEinstein", "MarieCurie", "Ulm", "Warsaw"))
NOTES = f'<{EINSTEIN}> <urn:x:note> "violin" .\n<{CURIE}> <urn:x:note> "bicycle" .\n<urn:x:nobody> <urn:x:note> "none" .\n'
"""The data of another store: two entities of the graph, and a name that the graph does not have."""
JOIN = PREFIXES + "SELECT ?who ?note ?where { ?who x:note ?note SERVICE <%s/sparql> { ?who r:bornIn ?where } }"
JOINED = [(EINSTEIN, "violin", ULM), (CURIE, "bicycle", WARSAW)]


@pytest.fixture(scope="module")
def endpoint(answerer: Answerer) -> Iterator[str]:
    with served(answerer, seconds=300.0) as address:
        yield address


def asked(endpoint: str, query: str, **more: str) -> list[dict[str, str]]:
    """Sends a query as a form of a page does."""
    accept = "application/sparql-results+json,*/*;q=0.9"
    request = Request(f"{endpoint}/sparql", urlencode({"query": query, **more}).encode(), {"Accept": accept})
    with urlopen(request, timeout=300) as response:
        rows = json.load(response)["results"]["bindings"]
    return [{name: term["value"] for name, term in row.items()} for row in rows]


def test_the_first_query_of_yasgui_gets_ten_rows(endpoint: str) -> None:
    rows = asked(endpoint, "SELECT * { ?s ?p ?o } LIMIT 10")
    assert len(rows) == 10
    assert all(set(row) == {"s", "p", "o"} for row in rows)


@pytest.mark.parametrize("empty", ["default-graph-uri", "named-graph-uri"])
def test_a_form_may_leave_the_graph_empty(endpoint: str, empty: str) -> None:
    assert asked(endpoint, f"{PREFIXES} SELECT * {{ ?who r:bornIn e:Ulm }}", **{empty: ""}) == [{"who": EINSTEIN}]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_sparqlwrapper_asks_in_every_form(endpoint: str, method: str) -> None:
    from SPARQLWrapper import JSON, TURTLE, SPARQLWrapper

    def found(query: str, form: str):
        wrapper = SPARQLWrapper(f"{endpoint}/sparql", returnFormat=form)
        wrapper.setMethod(method)
        wrapper.setQuery(PREFIXES + query)
        return wrapper.queryAndConvert()

    (row,) = found("SELECT * { ?who r:bornIn e:Ulm }", JSON)["results"]["bindings"]
    assert row == {"who": {"type": "uri", "value": EINSTEIN}}
    rows = found("SELECT ?who ?where { VALUES ?where { e:Ulm e:Warsaw x:nowhere } ?who r:bornIn ?where }", JSON)["results"]["bindings"]
    assert {(row["who"]["value"], row["where"]["value"]) for row in rows} >= {(EINSTEIN, ULM), (CURIE, WARSAW)}
    assert found("ASK { e:AlbertEinstein r:bornIn e:Ulm }", JSON)["boolean"] is True
    assert found("ASK { e:AlbertEinstein r:bornIn e:Warsaw }", JSON)["boolean"] is False
    assert f"<{ULM}>" in found("CONSTRUCT { ?where x:of ?who } { ?who r:bornIn ?where FILTER (?where = e:Ulm) }", TURTLE).decode()


def test_a_graph_of_rdflib_reads_from_the_service(endpoint: str) -> None:
    """Its look-ups are SELECT with constants and VALUES, ASK, and COUNT."""
    from rdflib import Graph, URIRef
    from rdflib.plugins.stores.sparqlstore import SPARQLStore

    born, einstein = URIRef(f"{RELATION}bornIn"), URIRef(EINSTEIN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = Graph(SPARQLStore(f"{endpoint}/sparql"))
        assert set(graph.triples((None, born, URIRef(ULM)))) == {(einstein, born, URIRef(ULM))}
        assert (einstein, born, URIRef(ULM)) in graph
        assert (einstein, born, URIRef("urn:x:nowhere")) not in graph
        assert graph.value(einstein, born) == URIRef(ULM)
        assert (None, None, URIRef(ULM)) in graph
        assert {row.where for row in graph.query("SELECT ?where { ?who ?p ?where }", initBindings={"who": einstein, "p": born})} == {
            URIRef(ULM)
        }


def test_rdflib_joins_its_data_with_our_answers(endpoint: str) -> None:
    """Its federation sends SELECT REDUCED * with a block of VALUES."""
    from rdflib import Graph

    graph = Graph().parse(data=NOTES, format="nt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = sorted(tuple(map(str, row)) for row in graph.query(JOIN % endpoint))
    assert rows == JOINED


def test_oxigraph_joins_its_data_with_our_answers(endpoint: str) -> None:
    """Its federation sends SELECT * . It runs in a process of its own, since it does not let other threads run while it waits."""
    program = """
import json, sys
from pyoxigraph import RdfFormat, Store
store = Store()
store.load(sys.argv[1].encode(), format=RdfFormat.N_TRIPLES)
print(json.dumps(sorted([term.value for term in row] for row in store.query(sys.argv[2]))))
"""
    found = subprocess.run(
        [sys.executable, "-c", program, NOTES, JOIN % endpoint], capture_output=True, text=True, check=False, timeout=600
    )
    assert found.stderr == ""
    assert [tuple(row) for row in json.loads(found.stdout)] == JOINED


COMUNICA = "@comunica/query-sparql@4.4.1"


@pytest.fixture(scope="module")
def comunica() -> Path:
    """The folder with Comunica in it: installed once, which takes a minute or two, and kept beside other caches."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("Comunica needs node and npm, which are not here")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "starqe-tests" / COMUNICA.replace("/", "-")
    if not (folder / "node_modules" / "@comunica" / "query-sparql" / "package.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(folder), COMUNICA]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
        if done.returncode != 0:
            pytest.skip(f"Comunica cannot be installed by npm: {done.stderr.strip()[-300:]}")
    return folder


COMUNICA_PROGRAM = """
const { QueryEngine } = require('@comunica/query-sparql');
(async () => {
  const [query, address, data] = process.argv.slice(2);
  const sources = [{ type: 'sparql', value: address }];
  if (data) sources.push({ type: 'serialized', value: data, mediaType: 'application/n-triples' });
  const rows = await (await new QueryEngine().queryBindings(query, { sources })).toArray();
  console.log(JSON.stringify(rows.map(row => Object.fromEntries([...row].map(([name, term]) => [name.value, term.value])))));
})();
"""


@pytest.mark.slow
@pytest.mark.parametrize("joined", [False, True])
def test_comunica_asks_and_joins_its_data_with_our_answers(endpoint: str, comunica: Path, joined: bool) -> None:
    """It counts the rows of each pattern, and sends VALUES of bindings."""
    (comunica / "ask.js").write_text(COMUNICA_PROGRAM, encoding="utf-8")
    group = "?who x:note ?note . ?who r:bornIn ?where" if joined else "?who r:bornIn ?where . ?who r:bornIn e:Ulm"
    arguments = [f"{PREFIXES} SELECT * {{ {group} }}", f"{endpoint}/sparql", NOTES if joined else ""]
    found = subprocess.run(["node", str(comunica / "ask.js"), *arguments], capture_output=True, text=True, check=False, timeout=300)
    assert found.returncode == 0, found.stderr
    rows = json.loads(found.stdout)
    if joined:
        assert sorted((row["who"], row["note"], row["where"]) for row in rows) == JOINED
    else:
        assert rows == [{"who": EINSTEIN, "where": ULM}]
