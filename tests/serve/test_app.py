import asyncio
import copy
import importlib
import logging
import threading
from collections import Counter
from typing import Any

import httpx2
import pytest

from starqe.errors import StorageError
from starqe.serve import ServeSettings, create_app
from starqe.serve.app import page_files
from tests.serve.questions import BORN_IN_ULM, PREFIXES, TWO_STEPS


def changed(answerer, ask_many):
    """Returns the answerer with another way to answer."""
    other = copy.copy(answerer)
    other.ask_many = ask_many
    return other


def together(app: Any, scenario: Any) -> Any:
    """Runs a scenario with a client that can ask several queries at a time."""

    async def main():
        transport = httpx2.ASGITransport(app)
        async with app.router.lifespan_context(app), httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await scenario(client)

    return asyncio.run(main())


def test_the_page_and_its_files_are_served(client):
    assert {"/", "/app.js", "/style.css"} <= page_files().keys()
    for path, file in page_files().items():
        response = client.get(path)
        assert (response.status_code, response.content) == (200, file.read_bytes())
    assert client.get("/").headers["content-type"].startswith("text/html")
    assert client.get("/app.js").headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize("path", ["/nothing", "/page/index.html", "/../app.py", "/%2e%2e/app.py", "/docs", "/redoc"])
def test_nothing_else_is_served(client, path):
    response = client.get(path)
    assert (response.status_code, response.json()["error"]["kind"]) == (404, "NotFound")


@pytest.mark.parametrize("error", [RuntimeError("/secret/path"), StorageError("/secret/path is damaged")])
def test_an_unexpected_exception_is_500_with_an_id_and_nothing_else(client_with, answerer, caplog, error):
    def fail(*_, **__):
        raise error

    client = client_with(of=changed(answerer, fail))
    with caplog.at_level(logging.ERROR, "starqe.serve"):
        response = client.post("/api/ask", json={"query": BORN_IN_ULM})
    error = response.json()["error"]
    assert (response.status_code, error["kind"]) == (500, "InternalError")
    assert "secret" not in response.text
    assert "Traceback" not in response.text
    id_ = error["message"].split()[-1]
    assert len(id_) == 12
    assert f"error {id_}" in caplog.text
    assert "/secret/path" in caplog.text
    assert response.headers["x-content-type-options"] == "nosniff"
    assert client.get("/health").status_code == 200


QUERIES = [
    BORN_IN_ULM,
    TWO_STEPS.replace("?university ?who", "?university"),
    *(
        PREFIXES + f"SELECT ?x WHERE {{ :{who} p:{relation} ?x }}"
        for who in ("AlbertEinstein", "MaxPlanck", "NielsBohr")
        for relation in ("employer", "award")
    ),
]


def test_queries_that_come_together_are_answered_in_fewer_batches_with_the_same_answers(client, answerer):
    alone = [client.post("/api/ask", json={"query": query, "top": 20}).json()["answers"] for query in QUERIES]
    answerer._ranking._kept.clear()

    async def scenario(asking):
        responses = await asyncio.gather(*(asking.post("/api/ask", json={"query": query, "top": 20}) for query in QUERIES * 3))
        return [response.json()["answers"] for response in responses], (await asking.get("/metrics")).text

    found, metrics = together(create_app(answerer, ServeSettings(seconds=60)), scenario)
    for one, other in zip(alone * 3, found, strict=True):
        assert [answer["entity"] for answer in one] == [answer["entity"] for answer in other]
        assert [answer["probability"] for answer in one] == pytest.approx([answer["probability"] for answer in other], rel=1e-4)
    counters = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if not line.startswith("#"))
    assert float(counters["starqe_batched_queries_total"]) == len(QUERIES) * 3
    assert float(counters["starqe_batches_total"]) < len(QUERIES) * 3


def test_a_broken_query_does_not_spoil_the_others(answerer):
    async def scenario(asking):
        queries = [BORN_IN_ULM, "SELECT", BORN_IN_ULM, 'SELECT ?x WHERE { ?x "no such relation" "Ulm" }']
        return [r.status_code for r in await asyncio.gather(*(asking.get("/sparql", params={"query": query}) for query in queries))]

    assert together(create_app(answerer), scenario) == [200, 400, 200, 400]


def test_overload_is_503_and_nothing_else(answerer):
    """One query is worked on and two wait; the rest is refused at once, and those three are answered."""
    gate, reached = threading.Event(), threading.Event()

    def slow(*arguments, **options):
        reached.set()
        assert gate.wait(30)
        return answerer.ask_many(*arguments, **options)

    async def scenario(asking):
        first = asyncio.ensure_future(asking.get("/sparql", params={"query": BORN_IN_ULM}))
        while not reached.is_set():
            await asyncio.sleep(0.001)
        others = [asyncio.ensure_future(asking.get("/sparql", params={"query": BORN_IN_ULM})) for _ in range(20)]
        while sum(other.done() for other in others) < 18:
            await asyncio.sleep(0.001)
        waiting = (await asking.get("/metrics")).text
        gate.set()
        return await asyncio.gather(first, *others), waiting

    responses, metrics = together(create_app(changed(answerer, slow), ServeSettings(waiting=2, quick_seconds=30)), scenario)
    assert sorted(response.status_code for response in responses) == [200] * 3 + [503] * 18
    assert {response.headers["retry-after"] for response in responses if response.status_code == 503} == {"1"}
    assert "\nstarqe_waiting_queries 2.0\n" in metrics


def test_too_many_requests_at_a_time_are_503_but_health_is_always_answered(answerer):
    gate = threading.Event()

    def slow(*arguments, **options):
        assert gate.wait(30)
        return answerer.ask_many(*arguments, **options)

    async def scenario(asking):
        inside = [asyncio.ensure_future(asking.get("/sparql", params={"query": BORN_IN_ULM})) for _ in range(3)]
        await asyncio.sleep(0)
        refused, health = await asking.get("/api/graph"), await asking.get("/health")
        gate.set()
        await asyncio.gather(*inside)
        return refused, health, await asking.get("/api/graph")

    refused, health, later = together(create_app(changed(answerer, slow), ServeSettings(requests=3, quick_seconds=30)), scenario)
    assert (refused.status_code, refused.headers["retry-after"], refused.json()["error"]["kind"]) == (503, "1", "Busy")
    assert (health.status_code, later.status_code) == (200, 200)


def test_a_query_that_takes_too_long_is_503(client_with, answerer):
    gate = threading.Event()

    def slow(*arguments, **options):
        assert gate.wait(30)
        return answerer.ask_many(*arguments, **options)

    client = client_with(of=changed(answerer, slow), seconds=0.3)
    response = client.get("/sparql", params={"query": BORN_IN_ULM})
    gate.set()
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert "a query may take 0.3 seconds" in response.json()["error"]["message"]


def test_a_client_that_leaves_is_not_waited_for(answerer):
    """The first query is worked on; the client of the second one leaves, and it is never asked."""
    gate, reached, asked = threading.Event(), threading.Event(), []

    def slow(requests, **options):
        reached.set()
        assert gate.wait(30)
        asked.extend(request.query.target.name for request in requests)
        return answerer.ask_many(requests, **options)

    async def leave(app, scope):
        messages = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive():
            return messages.pop() if messages else {"type": "http.disconnect"}

        async def send(message):
            raise AssertionError("the client has gone")

        await app(scope, receive, send)

    app = create_app(changed(answerer, slow), ServeSettings(quick_seconds=30))

    async def scenario(asking):
        first = asyncio.ensure_future(asking.get("/sparql", params={"query": BORN_IN_ULM}))
        while not reached.is_set():
            await asyncio.sleep(0.001)
        query = str(httpx2.QueryParams({"query": BORN_IN_ULM.replace("?who", "?left")})).encode()
        await leave(app, {"type": "http", "method": "GET", "path": "/sparql", "query_string": query, "headers": [(b"host", b"localhost")]})
        gate.set()
        assert (await first).status_code == 200
        return (await asking.get("/metrics")).text

    metrics = together(app, scenario)
    assert asked == ["who"]
    assert 'starqe_requests_total{route="/sparql",status="499"} 1' in metrics


@pytest.mark.parametrize(("module", "function"), [("protocol", "write_results"), ("api", "answered")])
def test_responses_are_written_outside_the_event_loop(client, monkeypatch, module, function):
    place = importlib.import_module(f"starqe.serve.{module}")
    original, threads = getattr(place, function), []

    def write(*arguments):
        threads.append(threading.current_thread().name)
        return original(*arguments)

    monkeypatch.setattr(place, function, write)
    client.get("/sparql", params={"query": BORN_IN_ULM})
    client.post("/api/ask", json={"query": BORN_IN_ULM})
    assert threads == ["writing"]


def test_long_queries_are_read_apart_and_short_ones_do_not_wait_for_them(answerer):
    """Forty long texts that break a rule are refused, or answered with a time to try again; a short query is answered meanwhile."""
    reached, gate = threading.Event(), threading.Event()
    other = copy.copy(answerer)

    def read(text, *arguments):
        if isinstance(text, str) and len(text) > 2_048:
            reached.set()
            assert gate.wait(30)
        return answerer.read(text, *arguments)

    other.read = read
    long = PREFIXES + "SELECT ?who WHERE { " + "?who p:bornIn :Ulm . " * 200 + "}"

    async def scenario(asking):
        late = [asyncio.ensure_future(asking.get("/sparql", params={"query": long})) for _ in range(40)]
        while not reached.is_set():
            await asyncio.sleep(0.001)
        short = await asking.get("/sparql", params={"query": BORN_IN_ULM})
        too_long = await asking.post("/api/check", json={"query": long + " " * 16_384})
        gate.set()
        return short, too_long, await asyncio.gather(*late)

    short, too_long, late = together(create_app(other, ServeSettings(slow_waiting=8)), scenario)
    assert short.status_code == 200
    assert (too_long.status_code, too_long.json()["error"]["kind"]) == (413, "QueryTooLong")
    statuses = Counter(response.status_code for response in late)
    assert set(statuses) == {400, 503}
    assert statuses[400] in (8, 9)  # eight wait, and one may be read already when they come


BORN, IN_ULM, STUDIED = "?{} p:bornIn ?{} .", "?a p:bornIn :Ulm .", "?{} p:educatedAt ?{} ."


@pytest.mark.parametrize(
    ("columns", "patterns", "slow"),
    [
        ("?a", [IN_ULM], False),
        ("?a ?b", [BORN.format("a", "b"), STUDIED.format("a", "c"), IN_ULM, "?a p:educatedAt :ETHZurich ."], False),
        ("?a", [BORN.format("a", "b"), STUDIED.format("c", "d"), BORN.format("c", "b")], True),  # three joins
        ("?a", [IN_ULM, *(f"?a p:educatedAt :{name} ." for name in ("ETHZurich", "UniversityOfZurich", "Ulm", "AlbertEinstein"))], True),
        ("?a ?b ?c", [BORN.format("a", "b"), STUDIED.format("a", "c")], True),  # two further columns
    ],
)
def test_what_is_expected_to_be_expensive_has_a_lane_of_its_own(client_with, columns, patterns, slow):
    client = client_with(quick_seconds=30)  # expected, not measured: a busy machine changes nothing

    def counted() -> float:
        (line,) = (line for line in client.get("/metrics").text.splitlines() if line.startswith("starqe_slow_queries_total "))
        return float(line.split()[1])

    before = counted()
    text = f"{PREFIXES} SELECT {columns} {{ {' '.join(patterns)} }}"
    assert client.get("/sparql", params={"query": text, "predicted": "true"}).status_code == 200
    assert counted() - before == slow


def test_metrics_are_text_of_prometheus(client):
    response = client.get("/metrics")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert response.text.endswith("\n")


def test_every_route_is_described_with_its_errors(client):
    described = client.get("/openapi.json").json()
    assert set(described["paths"]) == {
        "/sparql",
        "/api/ask",
        "/api/check",
        "/api/explain",
        "/api/entities",
        "/api/relations",
        "/api/examples",
        "/api/graph",
        "/health",
        "/metrics",
        "/reload",
    }
    for path, methods in described["paths"].items():
        for operation in methods.values():
            assert operation["description"]
            if path.startswith(("/api", "/sparql")):
                assert {"200", "400", "401", "408", "413", "422", "500", "503"} <= operation["responses"].keys()
    assert "HTTPValidationError" not in described["components"]["schemas"]
