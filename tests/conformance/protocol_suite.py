"""The tests of the SPARQL 1.1 Protocol, sent to a running service as the manifest has them.

A test passes if every response has the expected status, form and truth. A request that names a graph is refused by name; it is
sent a second time without the graph, and must then get what is expected, if the graph does not matter to it.
"""

import http.client
import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit

from pyoxigraph import Literal

from starqe.serve.negotiation import BOOLEANS, FORMS, GRAPHS
from tests.conformance.manifest import MF, Node, W3cTest
from tests.conformance.outcome import Outcome, failed, passed, refused
from tests.conformance.results import read_table

HT, CNT = "http://www.w3.org/2011/http#", "http://www.w3.org/2011/content#"
FORMATS = {"boolean": BOOLEANS, "tabular": tuple(FORMS), "RDF": tuple(GRAPHS)}
SUFFIXES = {"application/sparql-results+json": ".srj", "application/sparql-results+xml": ".srx"}
DATASET = "`default-graph-uri` and `named-graph-uri`: there is one graph"
IDLE_DATASET = "`default-graph-uri` where the graph does not matter; answered as expected without it"
UPDATE = "updates: a graph is never changed here"


@dataclass(frozen=True)
class Request:
    """One request of a test, and what is expected of its response."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None
    statuses: tuple[str, ...]
    """The expected classes of the status, such as ``2xx``."""
    format: str
    truth: str
    """The expected truth as a text, or nothing."""

    @property
    def names_graph(self) -> bool:
        """Whether the request names a graph, in its address or in its body."""
        return "-graph-uri=" in self.path

    @property
    def is_update(self) -> bool:
        """Whether it is an update that should be done."""
        body = (self.body or b"").decode(errors="replace")
        return self.statuses != ("4xx",) and ("sparql-update" in self.headers.get("content-type", "") or body.startswith("update="))

    def without_graph(self) -> "Request":
        """The same request without the names of graphs."""
        path, _, given = self.path.partition("?")
        kept = [(name, value) for name, value in parse_qsl(given) if not name.endswith("graph-uri")]
        return Request(self.method, f"{path}?{urlencode(kept)}", self.headers, self.body, self.statuses, self.format, self.truth)


def run_protocol(test: W3cTest, address: str) -> Outcome:
    """Sends the requests of one test."""
    for node in test.manifest.items(test.manifest.value(test.action, HT + "requests")):
        request = _request(test, node)
        status, media_type, body = _sent(request, address)
        if request.is_update:
            return refused(UPDATE) if status in (400, 415) else failed(f"an update was answered with {status}")
        if request.names_graph and status == 400 and b"there is one graph" in body:
            if "_dataset" in test.name:
                return refused(DATASET)
            wrong = _wrong(request, *_sent(request.without_graph(), address))
            return failed(f"without the graph: {wrong}") if wrong else refused(IDLE_DATASET)
        if wrong := _wrong(request, status, media_type, body):
            return failed(wrong)
    return passed


def _request(test: W3cTest, node: Node) -> Request:
    def value(at: Node | None, name: str) -> str:
        found = None if at is None else test.manifest.value(at, name)
        return "" if found is None else found.value

    headers = {}
    for header in test.manifest.items(test.manifest.value(node, HT + "headers")):
        headers[value(header, HT + "fieldName").lower()] = value(header, HT + "fieldValue")
    body, response = test.manifest.value(node, HT + "body"), test.manifest.value(node, HT + "resp")
    assert response is not None
    content = None if body is None else value(body, CNT + "chars").encode(value(body, CNT + "characterEncoding"))
    statuses = [found.value.rpartition("StatusCode")[2] for found in test.manifest.values(response, MF + "expectedStatus")]
    truth = test.manifest.value(response, MF + "expectedBoolean")
    assert truth is None or isinstance(truth, Literal)
    return Request(
        value(node, HT + "methodName"),
        re.sub(r"^/sparql/", "/sparql", value(node, HT + "absolutePath")),
        headers,
        content,
        tuple(sorted(statuses)),
        value(response, MF + "expectedFormat"),
        "" if truth is None else truth.value,
    )


def _sent(request: Request, address: str) -> tuple[int, str, bytes]:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=300)
    try:
        connection.request(request.method, request.path, request.body, request.headers)
        response = connection.getresponse()
        return response.status, (response.getheader("content-type") or "").split(";")[0], response.read()
    finally:
        connection.close()


def _wrong(request: Request, status: int, media_type: str, body: bytes) -> str:
    """Returns what is wrong with a response, or nothing."""
    if f"{status // 100}xx" not in request.statuses:
        return f"status {status}, expected {' or '.join(request.statuses)}: {body[:200]!r}"
    if request.format and media_type not in FORMATS[request.format]:
        return f"{media_type} is no form of {request.format}"
    if request.truth and read_table(body, SUFFIXES[media_type]) is not (request.truth == "true"):
        return f"{body!r}, expected {request.truth}"
    return ""
