"""While the store of known facts is built, everything else is answered, and the service says what is missing."""

import shutil
import threading
from pathlib import Path

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
