"""The store of a large graph on disk: the same answers as in memory, built once, completely or not at all."""

import errno
import os
import random
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from starqe.errors import NotReadyError, UnsupportedError
from starqe.kg import Graph, Statement, graph_of
from starqe.queries.store import known_store as store
from starqe.queries.store import process as store_process
from starqe.queries.store.kept_store import HEADER, STORE, KeptStore, remove_others
from starqe.queries.store.known_store import KnownStore, Rows
from tests.crash.harness import leftovers
from tests.serve.waiting import eventually

SPLITS = ("train", "valid", "test")
QUERIES = (
    "SELECT ?x ?y { ?x <urn:starqe:relation:r> ?y }",
    "SELECT ?x ?q ?v { << ?x <urn:starqe:relation:s> ?y >> ?q ?v }",
    "SELECT ?p (COUNT(*) AS ?n) { ?x ?p ?y } GROUP BY ?p",
    "SELECT ?x { ?x <urn:starqe:relation:r> _:b . FILTER isBlank(?x) }",
)


def some_graph(seed: int = 0) -> Graph:
    chance = random.Random(seed)
    names = [*(f"e{number:02}" for number in range(30)), "_:anon", "http://example.org/ä"]
    made = [
        Statement(
            *chance.sample(names, 1), chance.choice("rst"), chance.choice(names), (("q", chance.choice(names)),) * chance.randrange(2)
        )
        for _ in range(200)
    ]
    return graph_of(train=made[:150], test=made[150:])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets every graph count as large."""
    monkeypatch.setattr(store, "LARGE", 0)


def built(kept: KeptStore) -> list[float]:
    """Builds a store as others do, in a process of its own, and returns its progress; processes that used Oxigraph's files cannot fork."""
    steps = list[float]()
    kept.build(steps.append, lambda _: None)
    return steps


def count(kept: KeptStore) -> int:
    with KnownStore(kept.graph, kept.splits, folder=kept.folder) as opened:
        return len(rows(opened.query("SELECT * { ?s ?p ?o }")))


def rows(found: object) -> list[str]:
    assert isinstance(found, Rows)
    return sorted(str(sorted((name, term["value"]) for name, term in row.items())) for row in found.rows)


@pytest.mark.parametrize("splits", [SPLITS, ("train",)])
def test_a_store_on_disk_has_the_rows_of_one_in_memory(small, tmp_path, splits):
    graph = some_graph()
    with KnownStore(graph, splits, folder=tmp_path) as kept, KnownStore(graph, splits) as in_memory:
        assert (kept.is_kept, in_memory.is_kept) == (True, False)
        for text in QUERIES:
            expected = rows(in_memory.query(text))
            assert expected
            assert rows(kept.query(text)) == expected


def test_a_store_is_built_once_and_then_opened(small, tmp_path, monkeypatch):
    graph = some_graph()
    with KnownStore(graph, folder=tmp_path) as first:
        expected = rows(first.query(QUERIES[0]))
    monkeypatch.setattr(KeptStore, "build", lambda *_: pytest.fail("it is there already"))
    with KnownStore(graph, folder=tmp_path) as second, KnownStore(graph, folder=tmp_path) as third:
        assert rows(second.query(QUERIES[0])) == rows(third.query(QUERIES[0])) == expected


def test_another_graph_other_splits_and_other_labels_have_a_store_of_their_own(tmp_path):
    graph = some_graph()
    labelled = Graph(
        type(graph.entities)(graph.entities.identifiers, {"en": {0: "zero"}}),
        *(graph.relations, graph.head, graph.relation, graph.tail, graph.split, graph.pairs),
    )
    kinds = [(graph, SPLITS), (graph, ("train",)), (some_graph(1), SPLITS), (labelled, SPLITS)]
    assert len({KeptStore(one, splits, tmp_path).key for one, splits in kinds}) == len(kinds)
    assert KeptStore(some_graph(), SPLITS, tmp_path).key == KeptStore(graph, SPLITS, tmp_path).key


@pytest.mark.parametrize("damage", ["a file is missing", "a file is shorter", "no header", "another header"])
def test_a_damaged_store_is_built_again(small, tmp_path, damage):
    kept = KeptStore(some_graph(), SPLITS, tmp_path)
    built(kept)
    expected, largest = count(kept), max(kept.place.glob("store/*.sst"), key=lambda path: path.stat().st_size)
    if damage == "a file is missing":
        largest.unlink()
    elif damage == "a file is shorter":
        largest.write_bytes(largest.read_bytes()[:-1])
    elif damage == "no header":
        (kept.place / HEADER).unlink()
    else:
        (kept.place / HEADER).write_text("{}")
    assert kept.found() is None
    assert count(kept) == expected > 200


def test_stores_of_other_graphs_are_removed_unless_they_are_used(small, tmp_path):
    old, used, new = some_graph(1), some_graph(2), some_graph(3)
    places = [KeptStore(graph, SPLITS, tmp_path).place for graph in (old, used, new)]
    (tmp_path / "mine.txt").write_text("not a store")
    with KnownStore(used, folder=tmp_path) as running:
        running.start()
        built(KeptStore(old, SPLITS, tmp_path))
        built(KeptStore(new, SPLITS, tmp_path))
        assert [place.exists() for place in places] == [False, True, True]
    eventually(lambda: not store_process.in_use(places[1] / HEADER))
    remove_others(places[2])
    assert [place.exists() for place in places] == [False, False, True]
    assert (tmp_path / "mine.txt").exists()


def test_until_it_is_prepared_queries_are_refused_also_those_of_forked_processes(small, tmp_path, monkeypatch):
    go_on, begun = threading.Event(), threading.Event()
    whole = KeptStore.build

    def later(*arguments: object) -> Path:
        begun.set()
        assert go_on.wait(60)
        return whole(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(KeptStore, "build", later)
    with KnownStore(some_graph(), folder=tmp_path) as opened:
        opened.prepare()
        assert begun.wait(60)
        assert opened.is_preparing
        with pytest.raises(NotReadyError, match=r"is being prepared \(0%\)"):
            opened.query("ASK { ?s ?p ?o }")
        opened.progress = 0.256
        with pytest.raises(NotReadyError, match=r"\(26%\)"):
            opened.query("ASK { ?s ?p ?o }")
        go_on.set()
        eventually(lambda: not opened.is_preparing)
        assert opened.progress == 1
        assert opened.query("ASK { ?s ?p ?o }") is True


FORKED = """
import os, sys, time
from pathlib import Path
from starqe.errors import NotReadyError
from starqe.queries.store import known_store as store
from tests.queries.store.test_kept_store import some_graph

store.LARGE = 0
opened = store.KnownStore(some_graph(), folder=Path(sys.argv[1]))
opened.prepare()
child = os.fork()
if child == 0:
    try:
        opened.query("ASK { ?s ?p ?o }")
    except NotReadyError:
        print("not ready", flush=True)
    while True:
        try:
            assert opened.query("ASK { ?s ?p ?o }") is True
            break
        except NotReadyError:
            time.sleep(0.05)
    print("asked", flush=True)
    os._exit(0)
os.waitpid(child, 0)
opened.close()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the service forks only on Linux")
def test_a_process_that_is_forked_meanwhile_asks_the_store_once_it_is_ready(tmp_path):
    program = [sys.executable, "-W", "ignore", "-c", FORKED, str(tmp_path)]
    done = subprocess.run(program, stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    assert done.stdout.splitlines() == ["not ready", "asked"]


def test_closing_ends_a_build_and_leaves_nothing(small, tmp_path, caplog):
    opened = KnownStore(some_graph(), folder=tmp_path / "facts")
    opened.prepare()
    opened.close()
    assert not opened.is_preparing
    assert "could not be prepared" not in caplog.text
    kept = KeptStore(some_graph(), SPLITS, tmp_path / "facts")
    built(kept)
    assert kept.found() is not None
    assert leftovers(tmp_path) == []


def test_where_the_disk_refuses_the_store_is_in_memory(small, tmp_path, caplog):
    (tmp_path / "facts").write_text("a file in the way")
    with KnownStore(some_graph(), folder=tmp_path / "facts") as opened:
        assert opened.query("ASK { ?s ?p ?o }") is True
    assert "cannot be kept on disk" in caplog.text


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux filters system calls")
def test_the_process_of_a_query_can_open_files_of_the_store_but_no_connection():
    if (child := os.fork()) == 0:
        code = 1
        try:
            store_process.refuse_connections()
            Path(os.devnull).read_bytes()
            socket.socket()
        except OSError as error:
            code = 0 if error.errno == errno.EACCES else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def test_a_kept_store_asks_no_other_service(small, tmp_path):
    with KnownStore(some_graph(), folder=tmp_path) as opened, pytest.raises(UnsupportedError, match="SERVICE"):
        opened.query("SELECT * { SERVICE <http://localhost:1/> { ?s ?p ?o } }")


KILLED = """
import sys
from pathlib import Path
from starqe.queries.store.kept_store import KeptStore, build
from tests.crash.harness import Flushes, die, die_at_rename
from tests.queries.store.test_kept_store import SPLITS, some_graph
import signal

place, at, report = Path(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
flushes = Flushes(report)
if at == 0:
    flushes.prepare()
elif at == int(at):
    die_at_rename(int(at))()
else:
    signal.signal(signal.SIGALRM, lambda *_: die())
    signal.setitimer(signal.ITIMER_REAL, at)
build(KeptStore(some_graph(), SPLITS, place))
if at == 0:
    flushes.end()
"""
"""A process that builds a store, and is killed at a rename (1, 2, …) or after a time (0.1); at 0, it reports what a power cut loses."""


def killed(folder: Path, at: float) -> int:
    program = [sys.executable, "-c", KILLED, str(folder / "facts"), str(at), str(folder / "report")]
    return subprocess.run(program, timeout=120, check=False).returncode


def check_that_it_is_whole_or_missing(small_graph: Graph, folder: Path, expected: int) -> None:
    kept = KeptStore(small_graph, SPLITS, folder / "facts")
    assert kept.found() is None or (kept.place / STORE / "CURRENT").exists()
    assert count(kept) == expected
    assert leftovers(folder) == []
    (kept.place / HEADER).unlink()


def test_a_kill_at_any_rename_leaves_no_store_or_a_whole_one(small, tmp_path):
    graph = some_graph()
    expected = count(KeptStore(graph, SPLITS, tmp_path / "whole"))
    for number in range(1, 99):
        if killed(tmp_path, number) == 0:
            break
        check_that_it_is_whole_or_missing(graph, tmp_path, expected)
    assert number > 1


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_no_store_or_a_whole_one(small, tmp_path):
    graph, chance, kills = some_graph(), random.Random(0), 0
    expected = count(KeptStore(graph, SPLITS, tmp_path / "whole"))
    while kills < 50:
        kills += killed(tmp_path, 0.2 * chance.random()) != 0
        check_that_it_is_whole_or_missing(graph, tmp_path, expected)


def test_a_power_cut_loses_nothing_that_was_done(tmp_path):
    assert killed(tmp_path, 0) == 0
    assert (tmp_path / "report").read_text() == ""


def test_the_builder_says_how_far_it_is(tmp_path):
    shares = built(KeptStore(some_graph(), SPLITS, tmp_path))
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)
