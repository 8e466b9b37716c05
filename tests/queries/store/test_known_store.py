"""Any SPARQL over what is known: the rows of a store, within limits of time, memory and rows."""

import gc
import re
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from starqe.deadline import Deadline
from starqe.errors import DeadlineError, QueryError, UnsupportedError
from starqe.kg import Statement, graph_of
from starqe.queries.store.known_store import PARALLEL, Dataset, KnownStore, Rows, Triples
from tests.serve.waiting import eventually

ENTITY, RELATION = "urn:starqe:entity:", "urn:starqe:relation:"
PREFIXES = {"e": ENTITY, "r": RELATION}
TRAIN = [
    Statement("Einstein", "educatedAt", "ETH", (("degree", "BSc"),)),
    Statement("Einstein", "educatedAt", "UZH", (("degree", "PhD"),)),
    Statement("Curie", "educatedAt", "Sorbonne"),
]
TEST = [Statement("Curie", "bornIn", "Warsaw")]


@pytest.fixture(scope="module")
def store():
    with KnownStore(graph_of(TRAIN, test=TEST)) as opened:
        yield opened


def entities(rows: Rows, variable: str) -> list[str]:
    return sorted(row[variable]["value"].removeprefix(ENTITY) for row in rows.rows)


def test_what_the_language_of_starqe_lacks_is_answered_as_a_store_does(store):
    counted = store.query("SELECT ?who (COUNT(?u) AS ?n) { ?who r:educatedAt ?u } GROUP BY ?who ORDER BY DESC(?n)", prefixes=PREFIXES)
    assert counted.variables == ("who", "n")
    assert [(row["who"]["value"].removeprefix(ENTITY), row["n"]["value"]) for row in counted.rows] == [("Einstein", "2"), ("Curie", "1")]
    either = store.query("SELECT ?x { { ?x r:bornIn ?y } UNION { e:Einstein r:educatedAt ?x } }", prefixes=PREFIXES)
    assert entities(either, "x") == ["Curie", "ETH", "UZH"]
    without = store.query("SELECT ?x { ?x r:educatedAt ?u FILTER NOT EXISTS { ?x r:bornIn ?y } }", prefixes=PREFIXES)
    assert entities(without, "x") == ["Einstein", "Einstein"]  # duplicates as SPARQL has them
    assert store.query("ASK { e:Curie r:bornIn e:Warsaw }", prefixes=PREFIXES) is True


def test_qualifiers_are_reifiers(store):
    found = store.query("SELECT ?u { << e:Einstein r:educatedAt ?u >> r:degree e:BSc }", prefixes=PREFIXES)
    assert entities(found, "u") == ["ETH"]


def test_a_graph_is_constructed(store):
    found = store.query("CONSTRUCT { ?y r:birthplaceOf ?x } { ?x r:bornIn ?y }", prefixes=PREFIXES)
    assert found == Triples((f"<{ENTITY}Warsaw> <{RELATION}birthplaceOf> <{ENTITY}Curie> .",), True)


def test_only_known_splits_are_in_the_store():
    with KnownStore(graph_of(TRAIN, test=TEST), ["train"]) as store:
        assert store.query("ASK { ?x <urn:starqe:relation:bornIn> ?y }") is False
        assert store.query("ASK { ?x <urn:starqe:relation:educatedAt> ?y }") is True


def test_rows_are_cut_at_the_limit_and_that_is_said(store):
    cut = store.query("SELECT * { ?s ?p ?o }", max_rows=2)
    assert (len(cut.rows), cut.complete) == (2, False)
    whole = store.query("SELECT * { ?s r:bornIn ?o }", prefixes=PREFIXES, max_rows=1)
    assert (len(whole.rows), whole.complete) == (1, True)


def test_a_text_that_is_not_sparql_is_refused(store):
    with pytest.raises(QueryError, match="not a SPARQL query"):
        store.query("MATCH (n) RETURN n")
    with pytest.raises(QueryError, match="not a SPARQL query"):
        store.query("INSERT DATA { <urn:a> <urn:b> <urn:c> }")


@pytest.mark.parametrize("text", ["SELECT * { SERVICE <http://localhost:1/> { ?s ?p ?o } }", "ASK { service silent ?x { ?s ?p ?o } }"])
def test_no_other_service_is_asked(store, text):
    with pytest.raises(UnsupportedError, match="from this graph alone, found SERVICE"):
        store.query(text)


HIDDEN = '''ASK { ?s ?p ?o FILTER (?o != """a\\""" b """) SERVICE <%s> { ?s ?p ?o } FILTER (?o != """ """) }'''


def test_a_service_that_strings_seem_to_hide_is_found(store):
    with pytest.raises(UnsupportedError, match="found SERVICE"):
        store.query(HIDDEN % "http://localhost:1/")


def test_no_query_opens_a_connection_even_if_the_word_is_missed(store, monkeypatch):
    monkeypatch.setattr("starqe.queries.store.known_store._SERVICE", re.compile("never"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        with pytest.raises(UnsupportedError, match="cannot answer"):
            store.query(HIDDEN % f"http://127.0.0.1:{server.getsockname()[1]}/", deadline=Deadline(5))
        with pytest.raises(TimeoutError):
            server.accept()


def test_relative_iris_have_the_base_that_is_given(store):
    found = store.query("CONSTRUCT { <a> <b> <c> } {}", base="http://example.org/x/")
    assert found == Triples(("<http://example.org/x/a> <http://example.org/x/b> <http://example.org/x/c> .",), True)


def test_a_file_of_quads_is_loaded_as_it_is_and_a_query_sees_the_graphs_of_its_dataset(tmp_path):
    (tmp_path / "two.nq").write_text(
        "<urn:a> <urn:p> 'none' .\n<urn:a> <urn:p> 'one' <urn:g1> .\n<urn:a> <urn:p> 'two' <urn:g2> .\n".replace("'", '"')
    )
    text = "SELECT ?o ?g { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }"
    seen = {None: ["none", "one g1", "two g2"], Dataset(("urn:g1",), ("urn:g2",)): ["one", "two g2"], Dataset(): ["none"]}
    with KnownStore(tmp_path / "two.nq") as store:
        for dataset, expected in seen.items():
            rows = store.query(text, dataset=dataset).rows
            assert sorted(" ".join(term["value"].removeprefix("urn:") for term in row.values()) for row in rows) == expected
    assert (tmp_path / "two.nq").exists()


@pytest.mark.parametrize("text", ['ASK { ?s ?p "SERVICE" }', "ASK { ?service ?p <urn:x:SERVICE> } # SERVICE", "ASK { ?s r:SERVICE ?o }"])
def test_the_word_service_may_be_in_names_and_texts(store, text):
    assert store.query(text, prefixes=PREFIXES) is False


ENDLESS = "SELECT (COUNT(*) AS ?n) { " + " . ".join(f"?a{i} ?b{i} ?c{i}" for i in range(12)) + " }"


def test_a_query_that_takes_too_long_is_stopped_and_others_go_on(store):
    with pytest.raises(DeadlineError, match="needs more"):
        store.query(ENDLESS, deadline=Deadline(0.2))
    assert store.query("ASK { ?s ?p ?o }") is True
    assert _running(store) == 0


def test_a_query_whose_client_is_gone_is_stopped(store):
    end = time.monotonic() + 0.2
    with pytest.raises(DeadlineError, match="no longer waits"):
        store.query(ENDLESS, deadline=Deadline(wanted=lambda: time.monotonic() < end))
    assert _running(store) == 0


def test_a_query_that_needs_too_much_memory_is_stopped_and_others_go_on():
    with KnownStore(graph_of(TRAIN, test=TEST), memory=50 << 20) as store:
        with pytest.raises(UnsupportedError, match="amount of memory"):
            store.query("SELECT * { " + " . ".join(f"?a{i} ?b{i} ?c{i}" for i in range(6)) + " } ORDER BY ?a1", deadline=Deadline(60))
        assert store.query("ASK { ?s ?p ?o }") is True


def test_many_threads_ask_at_once(store):
    texts = [f"SELECT ?s {{ ?s ?p ?o }} LIMIT {count}" for count in range(8)]
    with ThreadPoolExecutor(8) as threads:
        assert [len(found.rows) for found in threads.map(store.query, texts)] == list(range(8))


def test_a_store_that_was_ended_is_started_again(store):
    store.query("ASK { ?s ?p ?o }")
    store._process.kill()
    store._process.wait()
    assert store.query("ASK { ?s ?p ?o }") is True


def test_a_store_that_the_garbage_collector_finds_leaves_nothing_and_warns_of_nothing(monkeypatch):
    warned = []
    monkeypatch.setattr(sys, "unraisablehook", warned.append)
    store = KnownStore(graph_of(TRAIN))
    store.query("ASK { ?s ?p ?o }")
    folder, process = store._folder, psutil.Process(store._process.pid)
    store.itself = store
    del store
    assert folder.exists()
    gc.collect()
    assert not folder.exists()
    assert not process.is_running()
    assert warned == []


def test_urgent_queries_do_not_wait_for_others(store):
    store.start()
    end = threading.Event()
    with ThreadPoolExecutor(PARALLEL) as threads:
        endless = [threads.submit(store.query, ENDLESS, deadline=Deadline(60, lambda: not end.is_set())) for _ in range(PARALLEL)]
        try:
            eventually(lambda: len(psutil.Process(store._process.pid).children()) == PARALLEL)
            with pytest.raises(DeadlineError):
                store.query("ASK { ?s ?p ?o }", deadline=Deadline(0.2))
            assert store.query("ASK { ?s ?p ?o }", urgent=True) is True
        finally:
            end.set()
    assert all(isinstance(future.exception(), DeadlineError) for future in endless)


FORKING = """
import os, sys
from starqe.kg import Statement, graph_of
from starqe.queries.store.known_store import KnownStore

store = KnownStore(graph_of([Statement("a", "r", f"b{number}") for number in range(40)]))
store.start()
if os.fork() == 0:
    assert store.query("ASK { ?s ?p ?o }") is True
    print(store._process.pid, store._folder, flush=True)
    store.close()  # it is not this process that may end it
    print("asks", flush=True)
    store.query(sys.argv[1])
    os._exit(0)
os.wait()
assert store.query("ASK { ?s ?p ?o }") is True
print("still there", flush=True)
sys.stdin.readline()
"""
"""A process that loads a store, and one that is forked from it, which asks twice; the second query never ends."""


@pytest.mark.skipif(sys.platform != "linux", reason="only on Linux is a query ended when its client is killed")
def test_forked_processes_share_a_store_and_nothing_is_left_when_any_of_them_is_killed():
    command = [sys.executable, "-c", FORKING, ENDLESS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid, place = process.stdout.readline().split()
        assert process.stdout.readline() == "asks\n"
        serving = psutil.Process(int(pid))
        (forked,) = [child for child in psutil.Process(process.pid).children() if child.pid != int(pid)]

        def working() -> list[psutil.Process]:
            return [child for child in serving.children() if time.time() - child.create_time() > 0.5]

        eventually(lambda: bool(working()))  # the process of the first query ends at once
        (query,) = working()
        forked.kill()
        eventually(lambda: not query.is_running())
        assert process.stdout.readline() == "still there\n"
        process.kill()
        eventually(lambda: not serving.is_running() or serving.status() == psutil.STATUS_ZOMBIE)
        eventually(lambda: not Path(place).exists())


WRITING = """
import time
from starqe.kg import Statement, graph_of
from starqe.queries.store import known_store as store

def write(graph, path, *_, **__):
    path.write_text("")
    print(path, flush=True)
    time.sleep(3600)

store.write_nquads = write
store.KnownStore(graph_of([Statement("a", "r", "b")])).start()
"""
"""A process that never ends to write the graph for its store."""


def test_a_process_that_is_killed_while_it_writes_the_graph_leaves_nothing():
    """The file may be large, and a service that is killed again and again would fill the disk."""
    with subprocess.Popen([sys.executable, "-c", WRITING], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        assert path.exists()
        process.kill()
        eventually(lambda: not path.parent.exists())


def _running(store: KnownStore) -> int:
    """The number of processes of queries, once those that were ended are gone."""
    for _ in range(100):
        if not (children := psutil.Process(store._process.pid).children()):
            break
        time.sleep(0.02)
    return len(children)
