"""The service as people run it: ``starqe serve`` in a process of its own, asked by the clients that people have."""

import gc
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance, status_code_conformance

from starqe.config import known_keys
from starqe.errors import InputError
from starqe.serve import ServeSettings, create_app
from starqe.serve.negotiation import FORMS
from starqe.serve.running.server import address, listen, serve
from tests.places import ROOT
from tests.serve.questions import BORN_IN_ULM, SCIENCE, SCORED, TWO_STEPS
from tests.test_house import goes_on

pytestmark = pytest.mark.full

CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
EINSTEIN = SCIENCE + "AlbertEinstein"
PAGE = ROOT / "docs" / "service.md"


@contextmanager
def serving(run: Path, *options: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Starts the service on a free port; gives the process and what it printed first."""
    command = [sys.executable, "-m", "starqe", "serve", str(run), "--port", "0", "--threads", "1", *options]
    given = {**os.environ, "PYTHONUNBUFFERED": "1", **environment}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=given) as process:
        try:
            assert process.stdout
            yield process, process.stdout.readline()
        finally:
            process.kill()


def test_garbage_is_not_looked_for_in_the_graph_while_queries_are_answered(answerer, monkeypatch):
    """A full collection stops all threads; with millions of objects of the graph it takes as long as several queries."""
    frozen = []
    gc.unfreeze()  # what the tests have frozen
    monkeypatch.setattr("starqe.serve.running.server.AVAILABLE", False)
    monkeypatch.setattr("starqe.serve.running.server._Server.run", lambda *_, **__: frozen.append(gc.get_freeze_count()))
    settings, interval = ServeSettings(), sys.getswitchinterval()
    try:
        with listen("127.0.0.1", 0) as opened:
            serve(create_app(answerer, settings), opened, settings)
    finally:
        sys.setswitchinterval(interval)
    assert frozen[0] > 10_000
    assert gc.get_freeze_count() == 0


@pytest.fixture(scope="module")
def service(askable_run: Path) -> Iterator[str]:
    with serving(askable_run, "--json", "--set", "read_seconds=1", "--set", "idle_seconds=60") as (_, line):
        yield json.loads(line)["address"]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("form", ["json", "xml", "csv", "tsv"])
def test_sparqlwrapper_asks_unchanged(service, method, form):
    from SPARQLWrapper import SPARQLWrapper

    wrapper = SPARQLWrapper(f"{service}/sparql", returnFormat=form)
    wrapper.setMethod(method)
    wrapper.setQuery(SCORED)
    found = wrapper.query().convert()
    match form:
        case "json":
            rows = [row["who"]["value"] for row in found["results"]["bindings"]]
        case "xml":
            rows = [uri.firstChild.data for uri in found.getElementsByTagName("uri")]
        case _:
            rows = [line.split("," if form == "csv" else "\t")[0].strip("<>") for line in found.decode().splitlines()[1:]]
    assert rows[0] == EINSTEIN
    assert len(rows) == 2


def test_sparqlwrapper_posts_directly_and_reports_a_bad_query(service):
    from SPARQLWrapper import JSON, POST, POSTDIRECTLY, SPARQLWrapper
    from SPARQLWrapper.SPARQLExceptions import QueryBadFormed

    wrapper = SPARQLWrapper(f"{service}/sparql", returnFormat=JSON)
    wrapper.setMethod(POST)
    wrapper.setRequestMethod(POSTDIRECTLY)
    wrapper.setQuery(TWO_STEPS)
    assert wrapper.queryAndConvert()["results"]["bindings"][0]["who"]["value"] == EINSTEIN
    wrapper.setQuery("SELECT ?who WHERE { ?who ")
    with pytest.raises(QueryBadFormed, match="the text ends too early"):
        wrapper.query()


@pytest.mark.parametrize("method", ["GET", "POST", "POST_FORM"])
@pytest.mark.parametrize("form", ["xml", "json"])
def test_the_store_of_rdflib_asks_unchanged(service, method, form):
    from rdflib import Literal, URIRef
    from rdflib.plugins.stores.sparqlstore import SPARQLStore

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rdflib's own
        store = SPARQLStore(f"{service}/sparql", method=method, returnFormat=form)
        (first, *_) = store.query(SCORED)
    assert first[0] == URIRef(EINSTEIN)
    assert first[1:] == (Literal(1.0), Literal(True))


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("media_type", FORMS)
def test_curl_gets_every_form(service, media_type):
    command = [
        "curl",
        "--silent",
        "--fail",
        "--include",
        f"{service}/sparql",
        "-H",
        f"Accept: {media_type}",
        "--data-urlencode",
        f"query={BORN_IN_ULM}",
    ]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert f"content-type: {media_type}" in found
    assert "server:" not in found
    assert EINSTEIN in found


def converse(service: str, *parts: bytes) -> bytes:
    """Sends bytes as they are, and gives all that comes back until the connection is closed."""
    place = urlsplit(service)
    with socket.create_connection((place.hostname, place.port), timeout=30) as connection:
        for part in parts:
            connection.sendall(part)
        received = b""
        while part := connection.recv(65_536):
            received += part
        return received


def test_a_client_that_never_finishes_its_headers_is_cut_off(service):
    assert converse(service, b"GET /health HTTP/1.1\r\nHost: local") == b""
    assert converse(service) == b""


def test_a_second_request_has_no_more_time_for_its_headers_than_the_first(service):
    place = urlsplit(service)
    with socket.create_connection((place.hostname, place.port), timeout=30) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200 OK")
        connection.sendall(b"GET /health HTTP")
        rest = connection.recv(65_536)  # the body may come by itself
        assert not rest or rest.startswith(b'{"status":"ok"')
        assert connection.recv(65_536) == b""


def test_a_client_that_never_finishes_its_body_gets_an_error(service):
    head = b"POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sparql-query\r\nContent-Length: 100\r\n\r\n"
    assert converse(service, head, b"SELECT").startswith(b"HTTP/1.1 408 ")


def test_a_body_in_chunks_is_counted(service):
    head = b"POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sparql-query\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert converse(service, head, b"10001\r\n" + b"x" * 0x10001 + b"\r\n").startswith(b"HTTP/1.1 413 ")


def test_headers_without_end_are_refused(service):
    assert converse(service, b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 70_000).startswith(b"HTTP/1.1 431 ")


def test_it_says_where_it_is_and_stops_at_ctrl_c_with_exit_code_0_once_what_was_begun_is_answered(askable_run):
    with serving(askable_run, "--log", STARQE_TOKEN="sesame") as (process, line):
        assert line.startswith("The page:        http://127.0.0.1:")
        place = line.split()[-1]
        lines = [process.stdout.readline() for _ in range(5)]
        assert lines[0] == f"SPARQL endpoint: {place}sparql\n"
        assert lines[1].startswith(f"  curl {place}sparql")
        assert "Authorization: Bearer TOKEN" in lines[2]
        head = (
            "POST /sparql HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sesame\r\nContent-Type: application/sparql-query\r\n"
            f"Content-Length: {len(BORN_IN_ULM)}\r\n\r\n"
        )
        with socket.create_connection((urlsplit(place).hostname, urlsplit(place).port), timeout=60) as begun:
            begun.sendall(head.encode())
            with urlopen(Request(f"{place}api/graph", headers={"Authorization": "Bearer sesame"}), timeout=60) as response:
                assert json.load(response)["name"] == "History of science"  # the title of the graph
            process.send_signal(signal.SIGINT)
            begun.sendall(BORN_IN_ULM.encode())
            assert begun.recv(65_536).startswith(b"HTTP/1.1 200 OK")
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0
        assert [line.split(maxsplit=2)[2].rsplit(maxsplit=2)[0] for line in err.splitlines()] == ["GET /api/graph 200", "POST /sparql 200"]
        assert "sesame" not in out + err


def test_a_port_that_is_taken_is_an_error_with_a_way_out():
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert address(taken) == f"http://127.0.0.1:{port}"
        with pytest.raises(InputError, match=rf"cannot listen on 127\.0\.0\.1, port {port}: .* Choose another port"):
            listen("127.0.0.1", port)
    with pytest.raises(InputError, match="cannot listen on no host"):
        listen("no host", 0)


def test_a_response_does_not_wait_for_a_sign_of_the_client_between_its_parts():
    with listen("127.0.0.1", 0) as opened, socket.create_connection(opened.getsockname()):
        accepted, _ = opened.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def examples() -> list[tuple[str, str]]:
    """Returns the curl commands of the page on the service, each with what it prints."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        if block.startswith("$ curl"):
            lines = block.removeprefix("$ ").splitlines(keepends=True)
            last = next(end for end in range(1, len(lines) + 1) if not goes_on("".join(lines[:end]).rstrip("\n")))
            found.append(("".join(lines[:last]), "".join(lines[last:])))
    return found


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize(("command", "printed"), examples())
def test_the_examples_of_the_documentation_print_what_they_say(service, command, printed):
    asked = command.replace("http://localhost:8000", service)
    assert asked != command
    result = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.splitlines() == printed.splitlines()


def test_everything_about_the_service_is_documented(service):
    text = PAGE.read_text(encoding="utf-8")
    with urlopen(f"{service}/openapi.json", timeout=60) as response:
        paths = json.load(response)["paths"]
    with urlopen(f"{service}/metrics", timeout=60) as response:
        metrics = re.findall(r"^# TYPE (\w+)", response.read().decode(), re.MULTILINE)
    assert [name for name in (*paths, *metrics, *FORMS, *known_keys(ServeSettings)) if f"`{name}`" not in text] == []


@pytest.mark.slow
def test_requests_made_up_from_the_description_are_answered_as_described(service):
    schema = schemathesis.openapi.from_url(f"{service}/openapi.json")
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) == 12
    for operation in operations:

        @settings(max_examples=25, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def check(case):
            case.call_and_validate(checks=CHECKS)

        check()
