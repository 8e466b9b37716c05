"""Whatever is sent, the service answers or refuses; it never fails, and goes on."""

import http.client
import json
import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import psutil
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from lark import Tree

from starqe.errors import SparqlError
from starqe.queries.sparql.syntax import _parser, parse_sparql
from tests.serve.fuzzing import DRAWN, KINDS, VALID, Sent, requests
from tests.serve.running.test_server import CHECKS, serving

pytestmark = pytest.mark.full

MANY = 20_000
"""Number of different requests that the long run sends."""
LENIENT = settings(max_examples=300, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
MEGABYTE = 1 << 20


def check(status: int, body: bytes, headers: dict[str, str]) -> None:
    """A response is an answer, or one of the refusals that the documentation names."""
    assert status in (200, 307, 400, 401, 404, 405, 406, 408, 413, 415, 422, 431, 503), status
    if status == 503:
        assert headers["retry-after"] == "1"
    if status >= 400 and body:
        error = json.loads(body)["error"]
        assert error["kind"]
        assert error["message"]
        assert "Traceback" not in error["message"]


@LENIENT
@given(requests())
def test_no_request_breaks_the_service(client, sent):
    response = client.request(sent.method, sent.path, headers=dict(sent.headers), content=sent.body, follow_redirects=False)
    check(response.status_code, response.content, dict(response.headers))


def rules_of(text: str) -> set[str]:
    """Returns the rules of the grammar that a text uses; none if it is refused."""
    try:
        tree: Tree = parse_sparql(text)
    except SparqlError:
        return set()
    return {str(part.data) for part in tree.iter_subtrees()}


def all_rules() -> set[str]:
    """Returns the rules that stand in trees: not those whose single part takes their place."""
    named = (rule.alias or rule.origin.name for rule in _parser().lark.rules if rule.alias or not rule.options.expand1)
    return {str(name) for name in named if not name.startswith("_")}


def test_the_texts_that_are_changed_have_every_rule_of_the_grammar_between_them():
    assert set().union(*map(rules_of, VALID)) == all_rules()


class Fuzzer:
    """Sends requests to a service in a process of its own, and counts."""

    def __init__(self, address: str) -> None:
        self.place = urlsplit(address)
        self.connection = http.client.HTTPConnection(self.place.netloc, timeout=60)
        self.seen: set[Sent] = set()
        self.counts: Counter[tuple[str, str]] = Counter()
        self.rules: Counter[str] = Counter()

    def send(self, sent: Sent) -> None:
        if sent in self.seen:
            return
        self.seen.add(sent)
        self.rules.update(rules_of(sent.text or ""))
        try:
            self.connection.request(sent.method, sent.path, sent.body or None, dict(sent.headers))
            response = self.connection.getresponse()
            body = response.read()
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            self.connection.close()  # the service had closed a connection that was idle, or after a refusal
            self.connection.request(sent.method, sent.path, sent.body or None, dict(sent.headers))
            response = self.connection.getresponse()
            body = response.read()
        self.counts[sent.kind, str(response.status)] += 1
        check(response.status, body, {name.lower(): value for name, value in response.getheaders()})

    def talk(self, kind: str, *parts: bytes) -> None:
        """Sends bytes as they are, on a connection of their own."""
        received = b""
        with socket.create_connection((self.place.hostname, self.place.port), timeout=60) as connection:
            with suppress(ConnectionResetError, BrokenPipeError):  # a refusal does not wait for the rest of a long body
                for part in parts:
                    connection.sendall(part)
                if kind != "slow":
                    connection.shutdown(socket.SHUT_WR)
            with suppress(ConnectionResetError):
                while piece := connection.recv(65_536):
                    received += piece
        status = received[9:12].decode() if received.startswith(b"HTTP/1.1 ") else "closed"
        assert status in ("closed", "200", "400", "404", "405", "408", "413", "415", "422", "431"), (kind, received[:200])
        self.seen.add(Sent(kind, "", str(hash(parts))))
        self.counts[kind, status] += 1


def long_bodies() -> Iterator[tuple[bytes, ...]]:
    """Yields bodies of up to 10 MB, with and without their length said before."""
    for size in (65_536, 65_537, MEGABYTE, 10 * MEGABYTE):
        for filling in (b"x", b" ", b"\x00", b"[ ", b'"'):
            body = filling * (size // len(filling))
            head = b"POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sparql-query\r\n"
            yield head + b"Content-Length: %d\r\n\r\n" % len(body), body
            yield head + b"Transfer-Encoding: chunked\r\n\r\n", b"%x\r\n" % len(body), body, b"\r\n0\r\n\r\n"


def broken_requests() -> Iterator[bytes]:
    """Yields what is no request of HTTP, or a strange one."""
    good = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for place in range(len(good)):
        yield good[:place] + b"\x00" + good[place:]
        yield good[:place] + b"\r\n" + good[place + 1 :]
        yield good[:place] + b"\xff" + good[place + 1 :]
    yield good * 50
    yield b"POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx"
    yield b"POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\nxx"
    yield b"POST /sparql HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    yield b"GET /sparql?query=" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"


def talk_slowly(fuzzer: Fuzzer) -> None:
    """Lets clients stop in the middle of a request, all at the same time."""
    whole = b"POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sparql-query\r\nContent-Length: 400\r\n\r\nSELECT"
    cuts = [whole[:length] for length in range(len(whole), 0, -12)]
    threads = [threading.Thread(target=fuzzer.talk, args=("slow", cut)) for cut in cuts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def follow_the_description(fuzzer: Fuzzer, address: str) -> None:
    """Sends what schemathesis makes up from the service's own description."""
    for found in schemathesis.openapi.from_url(f"{address}/openapi.json").get_all_operations():

        @settings(LENIENT, max_examples=100)
        @given(case=found.ok().as_strategy())
        def one(case):
            response = case.call_and_validate(checks=CHECKS)
            fuzzer.seen.add(Sent("description", case.method, str(response.request.url), body=str(response.request.body).encode()))
            fuzzer.counts["description", str(response.status_code)] += 1

        one()


@pytest.mark.slow
def test_many_different_requests_are_answered_or_refused(askable_run: Path) -> None:
    with ExitStack() as stack, serving(askable_run, "--json", "--set", "read_seconds=3") as (process, line):
        address = json.loads(line)["address"]
        fuzzer = Fuzzer(address)
        stack.enter_context(closing(fuzzer.connection))
        fuzzer.send(Sent("valid", "GET", "/api/examples"))
        before = psutil.Process(process.pid).memory_info().rss
        for parts in long_bodies():
            fuzzer.talk("long bodies", *parts)
        for request in broken_requests():
            fuzzer.talk("no HTTP", request)
        talk_slowly(fuzzer)
        follow_the_description(fuzzer, address)
        for number in range(MANY):
            if len(fuzzer.seen) >= MANY:
                break

            @seed(number)
            @settings(LENIENT, max_examples=1_000, derandomize=False, phases=[Phase.generate])
            @given(requests())
            def send(sent):
                fuzzer.send(sent)

            send()
        after = psutil.Process(process.pid).memory_info().rss
        with urlopen(f"{address}/metrics", timeout=60) as response:
            metrics = response.read().decode()
        assert process.poll() is None
    print(f"\n{len(fuzzer.seen):,} different requests; memory of the server: {before / 1e6:.0f} MB before, {after / 1e6:.0f} MB after")
    for kind in dict.fromkeys(kind for kind, _ in sorted(fuzzer.counts)):
        statuses = {status: count for (of, status), count in sorted(fuzzer.counts.items()) if of == kind}
        print(f"  {kind:<14} {sum(statuses.values()):>6,}  {statuses}")
    print(f"rules of the grammar reached: {len(fuzzer.rules)} of {len(all_rules())}: {dict(fuzzer.rules.most_common())}")
    assert len(fuzzer.seen) >= MANY
    assert set(fuzzer.rules) == all_rules()
    assert fuzzer.counts["tokens", "200"] > 100
    assert {kind for kind, _ in fuzzer.counts} >= {*KINDS, "long bodies", "no HTTP", "slow", "description"}
    assert not re.search(r'status="5(?!03)', metrics)
    assert fuzzer.counts["valid", "200"] > len(DRAWN) / 10
