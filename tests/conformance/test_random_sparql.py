"""Random SPARQL texts: the known rows of starqe are those of Oxigraph on the exported graph, row by row."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import RdfFormat, parse
from starlette.testclient import TestClient

from starqe.ask import Answerer
from starqe.errors import KnownOnlyError
from starqe.kg import Graph, embedded_graph, export_graph, import_graph
from starqe.serve import ServeSettings, create_app
from tests.conformance.random_sparql import KNOWN, SparqlTexts, Text
from tests.conformance.reference import Reference, reference
from tests.conformance.services import asked, untrained
from tests.places import WD50K

MOST = 20_000
"""Texts with more rows are passed over."""
PATIENT = {"known": MOST, "known_supported": MOST, "seconds": 300.0, "atoms": 100, "query_bytes": 65_536}
TOO_LONG = 0.1
"""The share of texts that may take a store too long."""
TOO_LARGE, REFUSED = 0.01, "a query may take a limited amount of memory, and this one needs more. Ask for less at once"
"""The share of texts that the service may refuse since they need more memory than a query may take, and how it says so."""


class Compared:
    """A service over a graph, and Oxigraph with the same graph."""

    def __init__(self, answerer: Answerer, client: TestClient, store: Reference) -> None:
        self.answerer, self._client, self._store = answerer, client, store
        self.counts: Counter[str] = Counter()

    def compare(self, text: Text) -> None:
        """Asks both, and fails where the rows differ."""
        by_reader = self._reads(text.sparql)
        expected = self._store.ask(text.sparql.replace(KNOWN, ""))
        if expected is None:
            self.counts["took too long"] += 1
            return
        if len(expected.get("results", {}).get("bindings", ())) >= MOST:
            self.counts["too many rows"] += 1
            return
        response = asked(self._client, text.sparql)
        if response.status_code == 400 and response.json()["error"] == {"kind": "UnsupportedError", "message": REFUSED}:
            self.counts["too much memory"] += 1
            return
        assert response.status_code == 200, f"{response.text}\n{text.sparql}"
        self.counts["by the reader" if by_reader else "by the store"] += 1
        if "triples" in expected:
            ours = {str(quad.triple) for quad in parse(response.content, format=RdfFormat.TURTLE)}
            self._check(Counter(map(_plain, ours)) == Counter(map(_plain, set(expected["triples"]))), text, ours, expected["triples"])
            return
        found = response.json()
        if "boolean" in expected:
            self._check(found.get("boolean") is expected["boolean"], text, found, expected)
            return
        self._check(sorted(found["head"]["vars"]) == sorted(expected["head"]["vars"]), text, found["head"], expected["head"])
        ours, theirs = (_bag(content["results"]["bindings"]) for content in (found, expected))
        self.counts["with rows"] += bool(theirs)
        if text.reduced:  # it may leave out duplicates, or not
            ours, theirs = Counter(set(ours)), Counter(set(theirs))
        self._check(ours == theirs, text, ours - theirs, theirs - ours)
        if text.ordered:
            keys, wanted = ([_keys(row, text.ordered) for row in content["results"]["bindings"]] for content in (found, expected))
            self._check(keys == wanted, text, keys, wanted)

    def _reads(self, text: str) -> bool:
        """Whether starqe's own reader takes a text; what it does not take, the store answers."""
        try:
            self.answerer.read(text)
        except KnownOnlyError:
            return False
        return True

    def _check(self, same: bool, text: Text, ours: Any, theirs: Any) -> None:
        assert same, f"{text.sparql}\nours, beyond theirs: {str(ours)[:1_500]}\ntheirs, beyond ours: {str(theirs)[:1_500]}"


def _bag(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(_row(row) for row in rows)


def _row(row: dict[str, Any]) -> str:
    """Writes a row in one way; blank nodes are all alike, since their names mean nothing."""
    return json.dumps({name: "_:" if term["type"] == "bnode" else term for name, term in row.items()}, sort_keys=True)


def _keys(row: dict[str, Any], names: tuple[str, ...]) -> str:
    return _row({name[1:]: row[name[1:]] for name in names if name[1:] in row})


def _plain(triple: str) -> str:
    return " ".join("_:" if part.startswith("_:") else part for part in triple.split(" "))


@contextmanager
def compared(graph: Graph, place: Path) -> Iterator[Compared]:
    (path,) = export_graph(graph, place / "graph.nq", names=graph.names)
    with ExitStack() as stack:
        answerer = untrained(graph)
        client = TestClient(create_app(answerer, ServeSettings.parse(PATIENT)), base_url="http://localhost")
        yield Compared(answerer, stack.enter_context(client), stack.enter_context(reference(path)))


def check_texts(graph: Graph, place: Path, seed: int, count: int) -> Counter[str]:
    """Compares a number of texts, and checks that most have rows and few take too long."""
    with compared(graph, place) as both:
        texts = SparqlTexts(graph, seed)
        for _ in range(count):
            both.compare(texts.draw())
        counts = both.counts
    print(f"\n{count:,} texts: {', '.join(f'{number:,} {kind}' for kind, number in counts.most_common())}")
    assert counts["took too long"] + counts["too many rows"] <= TOO_LONG * count, counts
    assert counts["too much memory"] <= TOO_LARGE * count, counts
    assert counts["with rows"] >= 0.3 * count, counts
    return counts


@pytest.mark.full
def test_known_rows_of_random_texts_are_those_of_a_store(tmp_path: Path) -> None:
    check_texts(embedded_graph(), tmp_path, seed=1, count=60)


@pytest.mark.slow
def test_known_rows_of_1000_random_texts_are_those_of_a_store(tmp_path: Path) -> None:
    check_texts(embedded_graph(), tmp_path, seed=2, count=1_000)


@pytest.mark.slow
def test_known_rows_of_1000_random_texts_over_wd50k_are_those_of_a_store(tmp_path: Path) -> None:
    if not WD50K.exists():
        pytest.skip("wd50k is not here")
    check_texts(import_graph(WD50K)[0], tmp_path, seed=3, count=1_000)
