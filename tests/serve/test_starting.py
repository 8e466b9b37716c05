"""While the store of known facts is built, everything else is answered, and the service says what is missing."""

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from starlette.testclient import TestClient

from starqe.ask import Answerer
from starqe.queries.store import known_store as store
from starqe.queries.store.kept_store import FACTS, KeptStore
from starqe.serve import create_app
from tests.serve.waiting import eventually

COUNTED = "SELECT (COUNT(*) AS ?n) { ?x ?p ?y }"
JOINED = "SELECT ?x { <urn:starqe:entity:a> <urn:starqe:relation:knows> ?x }"


def test_questions_that_need_the_store_get_a_503_until_it_is_built(six_statements_run, monkeypatch):
    monkeypatch.setattr(store, "LARGE", 0)
    go_on, whole = threading.Event(), KeptStore.build

    def later(*arguments: object) -> Path:
        assert go_on.wait(60)
        return whole(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(KeptStore, "build", later)
    answerer = Answerer.open(six_statements_run)
    with TestClient(create_app(answerer), base_url="http://localhost") as client:
        answerer.start_store()
        assert client.get("/health").json() == {"status": "starting", "run": "", "preparing": ["store of known facts (0%)"]}
        for refused in (client.get("/sparql", params={"query": COUNTED}), client.post("/api/ask", json={"query": COUNTED})):
            assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
            assert refused.json()["error"]["kind"] == "NotReady"
            assert "is being prepared" in refused.json()["error"]["message"]
        assert client.get("/sparql", params={"query": JOINED}).status_code == 200
        assert client.get("/api/graph").json()["statements"] == 6
        go_on.set()
        eventually(lambda: client.get("/health").json() == {"status": "ok", "run": ""})
        assert client.get("/sparql", params={"query": COUNTED}).status_code == 200
    assert [path.name for path in (six_statements_run / FACTS).iterdir()] == [KeptStore(answerer.graph, answerer.splits, Path()).key[:16]]


@pytest.fixture(autouse=True)
def no_facts_left(six_statements_run):
    """Other tests compare the files of this run."""
    yield
    shutil.rmtree(six_statements_run / FACTS, ignore_errors=True)


SERVING = """
import sys, time
from pathlib import Path
from starqe.cli import serve
from starqe.cli.main import main
from starqe.queries.store import known_store
from starqe.serve.running import memory

known_store.LARGE = memory.LARGE = 0
run, go_on = map(Path, sys.argv[1:])
whole = serve._open

def later(*arguments):
    while not go_on.exists():
        time.sleep(0.01)
    if "fail" in go_on.read_text():
        raise SystemExit(3)
    return whole(*arguments)

serve._open = later
sys.argv = ["starqe", "serve", str(run), "--port", "0", "--json"]
main()
"""
"""A service of a run that counts as large, which is opened as soon as a file exists."""


@contextmanager
def serving(run: Path, go_on: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Starts it, and yields its process and its address."""
    with subprocess.Popen([sys.executable, "-c", SERVING, str(run), str(go_on)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads(process.stdout.readline())["address"]
        finally:
            process.kill()


def get(address: str, **query: str) -> tuple[int, Message, dict[str, Any]]:
    try:
        with urlopen(f"{address}?{urlencode(query)}", timeout=30) as answer:
            return answer.status, answer.headers, json.loads(answer.read())
    except HTTPError as error:
        return error.code, error.headers, json.loads(error.read())


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, clients wait until the run is open")
def test_while_a_large_run_is_opened_the_service_says_so_and_then_answers(six_statements_run, tmp_path):
    go_on = tmp_path / "go on"
    with serving(six_statements_run, go_on) as (process, address):
        status, _, health = get(f"{address}/health")
        assert (status, health["status"]) == (200, "starting")
        assert "store of known facts" in health["preparing"]
        status, headers, body = get(f"{address}/sparql", query=JOINED)
        assert (status, headers["Retry-After"], body["error"]["kind"]) == (503, "5", "NotReady")
        assert headers["X-Content-Type-Options"] == "nosniff"
        go_on.touch()
        eventually(lambda: get(f"{address}/health")[2]["status"] == "ok")
        for text in (JOINED, COUNTED):
            assert get(f"{address}/sparql", query=text)[0] == 200
        process.terminate()
        assert process.wait(30) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, clients wait until the run is open")
def test_a_large_run_that_cannot_be_opened_ends_the_service(six_statements_run, tmp_path):
    go_on = tmp_path / "go on"
    with serving(six_statements_run, go_on) as (process, address):
        assert get(f"{address}/health")[0] == 200
        go_on.write_text("fail")
        assert process.wait(30) == 3
        with pytest.raises(URLError):
            get(f"{address}/health")
