"""One question that never ends: cheap ones are still answered, and the process stops on a signal."""

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from tests.serve.questions import BORN_IN_ULM, TWO_STEPS

pytestmark = pytest.mark.full

PROGRAM = """
import sys, time
from pathlib import Path
import torch
from starqe.ask import Answerer
from starqe.serve import ServeSettings, create_app
from starqe.serve.running.server import address, listen, serve

torch.set_num_threads(1)
answerer, how = Answerer.open(Path(sys.argv[1])), sys.argv[2]
ask_many = answerer.ask_many

def blocking(requests, deadline, **options):
    if any(len(request.shown) > 1 for request in requests):
        while True:
            if how == "stops":
                deadline.check()
            time.sleep(0.001 if how == "stops" else 3600)
    return ask_many(requests, deadline=deadline, **options)

answerer.ask_many = blocking
settings = ServeSettings.parse(dict(part.split("=") for part in sys.argv[3:]))
with listen("127.0.0.1", 0) as opened:
    print(address(opened), flush=True)
    serve(create_app(answerer, settings), opened, settings)
print("returned", flush=True)
"""
"""A service whose answerer never ends a question with further variables: ``stops`` looks at the deadline, ``sleeps`` does not."""


@contextmanager
def serving(run: Path, how: str, *settings: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    command = [sys.executable, "-c", PROGRAM, str(run), how, *settings]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield process, urlsplit(process.stdout.readline().strip()).netloc
        finally:
            process.kill()


def get(place: str, query: str) -> tuple[int, dict[str, str], bytes]:
    connection = HTTPConnection(place, timeout=60)
    connection.request("GET", "/sparql?" + urlencode({"query": query}), headers={"Host": "localhost"})
    response = connection.getresponse()
    found = response.status, dict(response.getheaders()), response.read()
    connection.close()
    return found


def send(place: str, query: str) -> socket.socket:
    """Asks, and leaves the connection open."""
    host, port = place.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), timeout=60)
    connection.sendall(f"GET /sparql?{urlencode({'query': query})} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return connection


@pytest.mark.parametrize("how", ["stops", "sleeps"])
def test_questions_that_never_end_hold_up_neither_cheap_ones_nor_the_end_of_the_process(askable_run, how):
    with serving(askable_run, how, "quick_seconds=0.1", "seconds=4", "slow_waiting=1", "stop_seconds=2") as (process, place):
        found: list[tuple[int, dict[str, str], bytes]] = []
        threads = [threading.Thread(target=lambda: found.append(get(place, TWO_STEPS))) for _ in range(4)]
        for thread in threads:
            thread.start()
        cheap = []
        while any(thread.is_alive() for thread in threads):
            cheap.append(get(place, BORN_IN_ULM)[0])
        assert cheap == [200] * len(cheap)
        assert cheap
        assert [status for status, _, _ in found] == [503] * 4
        assert {headers["retry-after"] for _, headers, _ in found} == {"1"}
        assert {json.loads(body)["error"]["kind"] for _, _, body in found} == {"Busy", "TimeOver"}
        with send(place, TWO_STEPS) as blocked, send(place, BORN_IN_ULM) as begun:
            assert begun.recv(100).startswith(b"HTTP/1.1 200 ")
            process.send_signal(signal.SIGTERM)
            assert blocked.recv(65_536).startswith(b"HTTP/1.1 503 ")
        assert process.wait(30) == 0


COMMAND = """
import atexit, sys, time
from starqe.cli.main import main

atexit.register(time.sleep, 3600)
sys.argv[0] = "starqe"
main()
"""
"""The command line, in a process whose end would take an hour: as if the graph were very large."""


def test_the_end_of_the_process_waits_for_nothing_after_the_last_response(askable_run):
    command = [sys.executable, "-c", COMMAND, "serve", str(askable_run), "--port", "0", "--json", "--set", "stop_seconds=5"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            place = urlsplit(json.loads(process.stdout.readline())["address"]).netloc
            assert get(place, BORN_IN_ULM)[0] == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()


BLOCKED = """
import ctypes, sys, time
from starqe.cli.main import main
from starqe.serve.running import guards, server

def block(*_):
    print("blocked", flush=True)
    time.sleep(3600)

guards.Watch.handle = block
if sys.argv.pop(1) == "without Python":
    server.end_process = lambda: ctypes.PyDLL(None).sleep(3600)  # keeps the lock of the interpreter
sys.argv[0] = "starqe"
main()
"""
"""The command line with an event loop that the first request blocks for an hour; Python may stop running as well."""


@pytest.mark.parametrize(("how", "code"), [("with Python", 0), ("without Python", 1)])
def test_a_process_that_cannot_stop_by_itself_is_ended(askable_run, how, code):
    command = [sys.executable, "-c", BLOCKED, how, "serve", str(askable_run), "--port", "0", "--json", "--set", "stop_seconds=1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout
            place = urlsplit(json.loads(process.stdout.readline())["address"]).netloc
            with send(place, BORN_IN_ULM):
                assert process.stdout.readline() == "blocked\n"
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == code
        finally:
            process.kill()
