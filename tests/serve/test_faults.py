"""Load and faults against a real service on this machine: many clients, slow clients, clients that never read, expensive questions.

Every test ends by itself and prints what it measured (``pytest -s``); times are reported and not judged.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from itertools import cycle, islice, repeat
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import httpx2
import numpy as np
import psutil
import pytest

from starqe.ask import Answerer, calibrate
from starqe.bench.load import Asked, Client, one_after_the_other
from starqe.bench.serving import memory_of, questions
from starqe.kg import import_graph, load_graph
from starqe.learn import QueryLesson, Run, Trainer, preset
from starqe.queries import SHAPES, sample
from tests.places import WD50K
from tests.serve.questions import BORN_IN_ULM
from tests.serve.running.test_server import serving

pytestmark = pytest.mark.slow

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sparql-query\r\nContent-Length: %d\r\n\r\n"
SILENT = 300
CONNECTIONS = 2_000
SOAK_MINUTES = float(os.environ.get("STARQE_SOAK_MINUTES", "1"))
SOAK_PARTS = 10
EXPECTED = 10_000
"""Number of questions with expected answers, from 16 clients."""


@contextmanager
def started(run: Path, *settings: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    options = [part for setting in settings for part in ("--set", setting)]
    with serving(run, "--json", *options) as (process, line):
        yield process, json.loads(line)["address"]


def connect(address: str, receive_bytes: int | None = None) -> socket.socket:
    place = urlsplit(address)
    opened = socket.socket()
    if receive_bytes is not None:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    opened.settimeout(30)
    opened.connect((place.hostname, place.port))
    return opened


def ask(address: str, text: str, count: int) -> list[Asked]:
    """Asks one after the other, on one connection."""

    async def main() -> list[Asked]:
        client = Client(address)
        found = [await client.ask(text) for _ in range(count)]
        await client.close()
        return found

    return asyncio.run(main())


def summary(asked: list[Asked]) -> str:
    times = [1e3 * one.seconds for one in asked]
    p50, p99 = np.percentile(times, (50, 99))
    return f"{dict(Counter(one.status for one in asked))}, p50 {p50:.0f} ms, p99 {p99:.0f} ms"


def healthy(address: str) -> bool:
    with urlopen(f"{address}/health", timeout=300) as response:
        return response.status == 200


def test_clients_that_never_read(askable_run):
    with ExitStack() as stack, started(askable_run, "write_seconds=5") as (process, address):
        idle = ask(address, BORN_IN_ULM, 50)
        memory = psutil.Process(process.pid).memory_info().rss
        for _ in range(SILENT):
            connection = stack.enter_context(connect(address, 4_096))
            connection.setblocking(False)
            connection.send(LARGE * 500)
        anew = [one for _ in range(100) for one in ask(address, BORN_IN_ULM, 1)]  # a connection each
        asked = ask(address, BORN_IN_ULM, 100)
        grown = psutil.Process(process.pid).memory_info().rss - memory
        print(f"\n{SILENT} clients that never read: {summary(anew)} on new connections, {summary(asked)} on one")
        print(f"idle: {summary(idle)}; memory +{grown / 1e6:.0f} MB")
        assert {one.status for one in anew + asked} == {"200"}
        deadline = time.monotonic() + 120
        while len(psutil.Process(process.pid).net_connections("tcp")) > 10:
            assert time.monotonic() < deadline
            time.sleep(0.2)


@pytest.mark.parametrize("part", [HEALTH[:-4], POST % 400 + b"SELECT"], ids=["headers", "body"])
def test_clients_that_send_a_byte_now_and_then(askable_run, part):
    with ExitStack() as stack, started(askable_run, "read_seconds=3") as (_, address):
        slow = [stack.enter_context(connect(address)) for _ in range(100)]
        for connection in slow:
            connection.sendall(part)
        asked, ended = [], 0
        for _ in range(12):
            for connection in slow:
                try:
                    connection.sendall(b"x")
                except OSError:
                    ended += 1
            asked += ask(address, BORN_IN_ULM, 10)
            time.sleep(0.5)
        print(f"\n100 clients that send a byte now and then: {summary(asked)}; {ended} bytes refused")
        assert {one.status for one in asked} == {"200"}
        assert ended


def test_two_thousand_connections(askable_run):
    with ExitStack() as stack, started(askable_run) as (process, address):
        found: Counter[str] = Counter()
        for _ in range(CONNECTIONS):
            opened = stack.enter_context(connect(address))
            try:
                opened.sendall(HEALTH)
                found[opened.recv(65_536)[9:12].decode() or "closed"] += 1
            except OSError:
                found["closed"] += 1
        assert healthy(address)
        stack.close()
        asked = ask(address, BORN_IN_ULM, 20)
        print(f"\n{CONNECTIONS} connections: {dict(found)}; afterwards {summary(asked)}")
        assert found["200"] >= 512
        assert set(found) <= {"200", "closed"}
        assert {one.status for one in asked} == {"200"}
        assert process.poll() is None


@pytest.mark.parametrize(("size", "statuses"), [(64_000, {"413"}), (16_000, {"400", "503"})])
def test_long_queries_that_break_a_rule_are_refused_while_cheap_ones_are_answered(askable_run, size, statuses):
    atom = "?a <urn:r> ?b . "
    long = "SELECT ?a { " + atom * (size // len(atom) - 1) + "}"
    with started(askable_run) as (_, address):
        idle = ask(address, BORN_IN_ULM, 200)

        async def both() -> tuple[list[Asked], list[Asked]]:
            refused = asyncio.create_task(one_after_the_other(address, repeat(long), 40, 10))
            asked = await one_after_the_other(address, repeat(BORN_IN_ULM), 1, 10)
            return asked, await refused

        asked, refused = asyncio.run(both())
    print(f"\n40 clients that send {size:,} bytes that break a rule: {len(refused)} x {summary(refused)}")
    print(f"meanwhile {len(asked)} x {summary(asked)}; idle {summary(idle)}")
    assert {one.status for one in refused} <= statuses
    assert {one.status for one in asked} == {"200"}


@pytest.fixture(scope="module")
def wd50k_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on WD50K that has learned next to nothing, but takes as long to ask as any other of its width."""
    if not WD50K.is_dir():
        pytest.skip(f"{WD50K} is not there")
    graph, _ = import_graph(WD50K)
    shapes = {name: SHAPES[name] for name in ("1p", "2p", "2i")}
    tables = {
        split: {name: sample(graph, shape, count, split, [(0, 2)] * len(shape.edges)) for name, shape in shapes.items()}
        for split, count in (("train", 60), ("valid", 20))
    }
    size = ["model.width=16", "model.heads=2", "train.epochs=1", 'train.shapes=["1p", "2p", "2i"]']
    recipe = preset("demo").with_settings([*size, "train.queries_per_shape=50", "train.one_hop_per_direction=50"])
    run = Run.create(tmp_path_factory.mktemp("faults") / "run", recipe, graph)
    Trainer(run, QueryLesson(run, tables["train"], tables["valid"])).train()
    calibrate(run, validation=tables["valid"])
    return run.folder


HUMAN = '?{} "P31" "Q5" .'
EXPENSIVE = (
    "SELECT ?a ?b ?c { " + " ".join(map(HUMAN.format, "abc")) + " }",
    "SELECT ?a { " + HUMAN.format("a") + " ".join(f'?a "P31" ?v{i} .' for i in range(11)) + " }",
    "SELECT ?v0 { " + " ".join(f'?v{i} "P47" ?v{i + 1} .' for i in range(10)) + HUMAN.format("v10") + " }",
    'SELECT ?a { ?a "P31" ?b . ?c "P31" ?b . ?a "P19" ?d . ?c "P19" ?d . ' + HUMAN.format("a") + " }",
    "SELECT ?a ?b { " + " ".join(map(HUMAN.format, "abcdefghij")) + " }",
)
"""Short questions with many ways to hold: a product, a star on one hub, a chain, a cycle, ten independent variables."""


def test_ten_expensive_questions_at_once_while_a_client_asks_cheap_ones(wd50k_run):
    cheap = list(questions(load_graph(wd50k_run / "graph"), per_shape=100))
    with started(wd50k_run) as (process, address):
        server = psutil.Process(process.pid)
        assert healthy(address)
        asyncio.run(one_after_the_other(address, cycle(cheap), 1, 2))
        idle = asyncio.run(one_after_the_other(address, cycle(cheap), 1, 10))
        memory = memory_of(server)

        async def watch(asking: "asyncio.Task[list[Asked]]") -> int:
            most = 0
            while not asking.done():
                most = max(most, memory_of(server))
                await asyncio.sleep(0.2)
            return most

        async def both() -> tuple[list[Asked], list[Asked], int]:
            expensive = asyncio.create_task(one_after_the_other(address, cycle(EXPENSIVE), 10, 20))
            asking = asyncio.create_task(one_after_the_other(address, cycle(cheap), 1, 20))
            most = await watch(asking)
            return await asking, await expensive, most

        asked, expensive, most = asyncio.run(both())
        print(f"\ncheap while ten expensive ones are asked: {len(asked)} x {summary(asked)}; idle: {len(idle)} x {summary(idle)}")
        print(f"expensive: {len(expensive)} x {summary(expensive)}; memory {memory / 1e6:.0f} MB idle, at most {most / 1e6:.0f} MB")
        assert {one.status for one in asked} == {"200"}
        assert {one.status for one in expensive} <= {"200", "503"}
        assert most - memory < 1.5e9


def test_it_stops_with_an_expensive_question_and_requests_in_flight(wd50k_run):
    cheap = list(questions(load_graph(wd50k_run / "graph"), per_shape=20))
    with started(wd50k_run, "stop_seconds=5") as (process, address), ExitStack() as stack:
        assert healthy(address)
        texts = [EXPENSIVE[0], *islice(cheap, 20)]
        opened = [stack.enter_context(connect(address)) for _ in texts]
        for connection, text in zip(opened, texts, strict=True):
            connection.sendall(POST % len(text.encode()) + text.encode())
        time.sleep(0.5)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        statuses = Counter(connection.recv(65_536)[9:12].decode() for connection in opened)
        assert process.wait(30) == 0
        print(f"\nstopped with {len(texts)} requests in flight after {time.monotonic() - began:.1f} s: {dict(statuses)}")
        assert set(statuses) <= {"200", "503"}


def test_sixteen_clients_get_the_expected_answers(askable_run):
    answerer = Answerer.open(askable_run)
    texts = list(questions(answerer.graph, per_shape=200))
    expected = {
        text: [(answer.entity, answer.known, answer.probability) for answer in found]
        for text, found in zip(texts, answerer.ask_many(texts, top=20), strict=True)
    }
    rounds = iter(list(islice(cycle(texts), EXPECTED)))  # shared by the threads
    wrong: list[str] = []
    statuses: Counter[int] = Counter()

    def ask_on(connection: HTTPConnection) -> None:
        for text in rounds:
            body = json.dumps({"query": text, "top": 20})
            connection.request("POST", "/api/ask", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            content = json.loads(response.read())
            statuses[response.status] += 1
            if response.status != 200 or not agree(expected[text], content["answers"]):
                wrong.append(text)

    with started(askable_run, "seconds=60") as (_, address), ThreadPoolExecutor(16) as pool, ExitStack() as stack:
        connections = [stack.enter_context(closing(HTTPConnection(urlsplit(address).netloc, timeout=90))) for _ in range(16)]
        list(pool.map(ask_on, connections))
    print(f"\n16 clients, {sum(statuses.values()):,} questions ({len(texts):,} different ones): {dict(statuses)}, {len(wrong)} wrong")
    assert statuses == {200: EXPECTED}
    assert wrong == []


Requests = Iterator[tuple[str, str]]
"""Paths and queries."""


async def soak(address: str, streams: list[tuple[Requests, float]], minutes: float, measure: Callable[[], None]) -> Counter[str]:
    """Sends the requests of each stream one after the other, with a pause after each, and measures all the time."""
    statuses: Counter[str] = Counter()
    end = time.monotonic() + 60 * minutes

    async def send(requests: Requests, pause: float) -> None:
        last = time.monotonic()
        async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
            while time.monotonic() < end:
                path, text = next(requests)
                idle = time.monotonic() - last
                body = {"query": text, "top": 10} if path == "/api/ask" else {"query": text, "entity": "Q42"}
                try:
                    response = await (client.post(path, json=body) if path != "/sparql" else client.get(path, params={"query": text}))
                    statuses[str(response.status_code)] += 1
                except httpx2.TransportError as error:
                    statuses[f"{type(error).__name__} after {idle:.1f} idle seconds"] += 1
                last = time.monotonic()
                await asyncio.sleep(pause)

    async def leave(texts: Iterator[str], pause: float) -> None:
        place = urlsplit(address)
        while time.monotonic() < end:
            text = next(texts).encode()
            _, writer = await asyncio.open_connection(place.hostname, place.port)
            writer.write(POST % len(text) + text)
            await writer.drain()
            await asyncio.sleep(pause / 2)
            writer.transport.abort()
            statuses["left"] += 1
            await asyncio.sleep(pause / 2)

    async def watch() -> None:
        while time.monotonic() < end:
            measure()
            await asyncio.sleep(0.5)

    # When all of them are done, every query is answered or ended, and the service is at rest.
    await asyncio.gather(watch(), leave(cycle(EXPENSIVE), 1.0), *(send(requests, pause) for requests, pause in streams))
    return statuses


def test_memory_stays_flat_under_mixed_load(wd50k_run):
    cheap = list(questions(load_graph(wd50k_run / "graph"), per_shape=200))
    broken = ["SELECT", "SELECT ?a { " + "?a <urn:r> ?b . " * 500 + "}", 'SELECT ?x { ?x "P31" ?y } ORDER BY ?x LIMIT 3']
    streams: list[tuple[Requests, float]] = [
        *((cycle([("/sparql", text) for text in cheap[start::4]]), 0.1) for start in range(4)),
        *((cycle([("/api/ask", text) for text in cheap[start::2]]), 0.3) for start in range(2)),
        (cycle([("/sparql", text) for text in EXPENSIVE]), 1.0),
        (cycle([("/api/explain", text) for text in cheap]), 1.0),
        (cycle([("/sparql", text) for text in broken]), 1.0),
    ]
    with started(wd50k_run) as (process, address):
        server, memory, at_rest, statuses = psutil.Process(process.pid), list[int](), list[int](), Counter[str]()
        for _ in range(SOAK_PARTS):
            statuses += asyncio.run(soak(address, streams, SOAK_MINUTES / SOAK_PARTS, lambda: memory.append(memory_of(server))))
            time.sleep(1)
            at_rest.append(round(memory_of(server) / 1e6))
    print(f"\n{SOAK_MINUTES:g} minutes: {dict(statuses)}; MB at rest after each part: {at_rest}; at most {max(memory) / 1e6:.0f}")
    assert set(statuses) <= {"200", "400", "503", "left"}
    assert max(at_rest[SOAK_PARTS // 2 :]) < 1.1 * max(at_rest[: SOAK_PARTS // 2])


def agree(expected: list[tuple[str, bool, float]], found: list[dict[str, Any]]) -> bool:
    """Whether answers are the same; those of nearly the same probability may change places with the size of a batch."""
    close = all(abs(one[2] - other["probability"]) < 1e-4 for one, other in zip(expected, found, strict=False))
    known = [entity for entity, is_known, _ in expected if is_known] == [other["entity"] for other in found if other["known"]]
    last = min((probability for _, _, probability in expected), default=0.0)
    clear = {entity for entity, _, probability in expected if probability > last + 1e-4}
    return len(expected) == len(found) and close and known and clear <= {other["entity"] for other in found}
