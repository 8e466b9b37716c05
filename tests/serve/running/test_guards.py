import asyncio
import logging
import re
from typing import Any

import pytest

from starqe.serve import ServeSettings, create_app
from starqe.serve.app import page_files
from starqe.serve.running.guards import HEADERS
from tests.serve.questions import BORN_IN_ULM, BROKEN

DIRECT = {"Content-Type": "application/sparql-query"}


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "LOCALHOST", "127.0.0.1:80", "[::1]:8000"])
def test_the_names_of_this_machine_are_answered(client, host):
    assert client.get("/health", headers={"Host": host}).json() == {"status": "ok", "run": ""}


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "localhost.evil.example", "", "[", "localhost@evil.example"])
def test_other_hosts_are_refused_so_that_no_site_can_point_its_name_here(client, host):
    response = client.get("/api/graph", headers={"Host": host})
    assert (response.status_code, response.json()["error"]["kind"]) == (400, "UnknownHost")


def test_further_hosts_can_be_allowed(client_with):
    client = client_with(hosts=["Graph.Example"])
    assert client.get("/health", headers={"Host": "graph.example"}).status_code == 200
    assert client.get("/health").status_code == 400
    assert client_with(hosts=["*"]).get("/health", headers={"Host": "any.example"}).status_code == 200


def test_a_token_is_needed_where_there_is_one(client_with):
    client = client_with(token="sesamé")
    for wrong in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic sesam"},
        {"Authorization": "sesam"},
        {"Authorization": "Bearer"},
    ):
        response = client.get("/api/graph", headers=wrong)
        assert (response.status_code, response.headers["www-authenticate"]) == (401, 'Bearer realm="starqe"')
        assert client.post("/sparql", content=BORN_IN_ULM, headers={**DIRECT, **wrong}).status_code == 401
        assert client.get("/metrics", headers=wrong).status_code == 401
        assert client.get("/openapi.json", headers=wrong).status_code == 401
    for scheme in ("Bearer", "bearer"):
        assert client.get("/api/graph", headers={"Authorization": f"{scheme} sesamé".encode()}).status_code == 200


def test_health_and_the_page_are_open_so_that_the_page_can_ask_for_the_token(client_with):
    client = client_with(token="sesame")
    for path in ("/health", *page_files()):
        assert client.get(path).status_code == 200


def test_pages_of_other_origins_may_not_read_answers_unless_allowed(client, client_with):
    origin = {"Origin": "https://page.example"}
    asked = {**origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    assert not [name for name in client.get("/api/graph", headers=origin).headers if name.startswith("access-control")]
    assert client.options("/api/ask", headers=asked).status_code == 405
    allowing = client_with(cors=["https://page.example"], token="sesame")
    assert allowing.options("/api/ask", headers=asked).headers["access-control-allow-origin"] == "https://page.example"
    assert allowing.get("/api/graph", headers=origin).headers["access-control-allow-origin"] == "https://page.example"
    assert allowing.get("/health", headers=origin).headers["access-control-allow-origin"] == "https://page.example"
    assert allowing.options("/api/ask", headers={**asked, "Origin": "https://evil.example"}).status_code == 400


@pytest.mark.parametrize("path", ["/health", "/", "/nothing", "/sparql", "/openapi.json"])
def test_every_response_has_the_headers_that_protect_a_browser(client, path):
    headers = client.get(path).headers
    for name in HEADERS:
        assert headers[name] == ("no-cache" if (path, name) == ("/", "Cache-Control") else HEADERS[name])
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


def test_a_body_that_says_it_is_too_long_is_refused_before_it_is_read(client):
    response = client.post("/sparql", content=b"x" * 65_537, headers=DIRECT)
    assert (response.status_code, response.headers["connection"]) == (413, "close")
    assert response.json()["error"]["kind"] == "BodyTooLong"
    assert client.post("/sparql", content=b"x" * 65_536, headers=DIRECT).json()["error"]["kind"] == "QueryTooLong"


def test_a_body_of_unknown_length_is_counted_while_it_comes(client):
    def parts():
        yield from [b"x" * 1000] * 66

    response = client.post("/api/ask", content=parts(), headers={"Content-Type": "application/json"})
    assert "content-length" not in response.request.headers
    assert (response.status_code, response.json()["error"]["kind"]) == (413, "BodyTooLong")


def post_in_parts(app: Any, parts: list[bytes], pause: float) -> tuple[int, int]:
    """Posts to /sparql as a server would pass it on; gives the status, and how many parts were taken."""
    sent: list[dict[str, Any]] = []
    taken = 0

    async def receive():
        nonlocal taken
        await asyncio.sleep(pause)
        taken += 1
        return {"type": "http.request", "body": parts[taken - 1], "more_body": taken < len(parts)}

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/sparql-query")]
    scope = {"type": "http", "method": "POST", "path": "/sparql", "query_string": b"", "headers": headers}
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], taken


def test_a_client_that_is_too_slow_with_its_body_gets_an_error(answerer):
    app = create_app(answerer, ServeSettings(read_seconds=0.2))
    status, taken = post_in_parts(app, [b"x"] * 1000, 0.02)
    assert status == 408
    assert taken < 20


def test_a_body_without_an_end_is_read_no_further_than_the_limit(answerer):
    status, taken = post_in_parts(create_app(answerer, ServeSettings(body_bytes=2000)), [b"x" * 100] * 1000, 0)
    assert (status, taken) == (413, 21)


def test_the_log_says_what_happened_but_not_what_was_asked(client, client_with, caplog):
    with caplog.at_level(logging.INFO, "starqe.serve"):
        client.get("/sparql", params={"query": BORN_IN_ULM})
        client.get("/sparql", params={"query": BROKEN})
        client.get("/secret-path")
    lines = [record.getMessage() for record in caplog.records if record.name == "starqe.serve"]
    assert [re.sub(r"[\d.]+ ms", "ms", line) for line in lines] == ["GET /sparql 200 ms", "GET /sparql 400 ms", "GET other 404 ms"]
    caplog.clear()
    with caplog.at_level(logging.INFO, "starqe.serve"):
        client_with(log_queries=True).get("/sparql", params={"query": BROKEN})
    assert 'query "SELECT ?who WHERE {\\n' in caplog.text
