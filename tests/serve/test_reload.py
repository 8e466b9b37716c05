"""Another run takes the place of the one that answers: no request is lost, a failure changes nothing, and the old one is freed."""

import asyncio
import gc
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import psutil
import pytest
from starlette.testclient import TestClient

from starqe.ask import Answerer
from starqe.bench.serving import memory_of, questions
from starqe.cli.serve import _open
from starqe.errors import StorageError
from starqe.kg import embedded_graph
from starqe.serve import ServeSettings, create_app
from starqe.serve.running import runs as runs_module
from starqe.serve.running import workers
from starqe.serve.running.runs import Loaded, Runs, run_fingerprint
from starqe.serve.service import Service
from tests.serve.questions import BORN_IN_ULM, TWO_STEPS
from tests.serve.test_faults import agree
from tests.serve.waiting import eventually
from tests.tiny_run import tiny_run

TOKEN = {"Authorization": "Bearer secret"}
CLIENTS, RELOADS = 4, 5
SIXTEEN, MANY_RELOADS = 16, 100


def loaded(folder: Path, **settings: object) -> Loaded:
    return Loaded(Answerer.open(folder), ServeSettings.parse(settings), run_fingerprint(folder))


@contextmanager
def client_of(load: Callable[[], Loaded]) -> Iterator[TestClient]:
    with TestClient(create_app(load(), load=load), base_url="http://localhost") as client:
        yield client


def test_a_client_with_the_token_lets_another_run_answer_and_the_old_one_is_freed(askable_run, six_statements_run):
    runs = [six_statements_run, askable_run]
    old: list[weakref.ref[Answerer]] = []

    def load() -> Loaded:
        found = loaded(runs.pop(), token="secret")
        old.append(weakref.ref(found.answerer))
        return found

    with client_of(load) as client:
        before = client.get("/api/graph", headers=TOKEN).json()["statements"]
        assert client.get("/health").json() == {"status": "ok", "run": run_fingerprint(askable_run)[:12]}
        assert client.post("/reload").status_code == 401
        answer = client.post("/reload", headers=TOKEN)
        assert (answer.status_code, answer.json()["run"]) == (200, run_fingerprint(six_statements_run)[:12])
        assert client.get("/api/graph", headers=TOKEN).json()["statements"] == 6 < before
        assert f'starqe_run_info{{run="{run_fingerprint(six_statements_run)[:12]}"}} 1.0' in client.get("/metrics", headers=TOKEN).text
        gc.collect()
        assert old[0]() is None
        assert old[1]() is not None


def test_a_run_that_cannot_be_loaded_changes_nothing_and_is_logged(askable_run, caplog):
    calls = iter([lambda: loaded(askable_run, token="secret")])

    def load() -> Loaded:
        if (call := next(calls, None)) is not None:
            return call()
        raise StorageError("RUN: damaged")

    with client_of(load) as client:
        answer = client.post("/reload", headers=TOKEN)
        assert (answer.status_code, answer.json()["error"]["kind"]) == (500, "NotLoaded")
        assert "RUN" not in answer.text, "a client need not know where files are"
        assert client.get("/sparql", params={"query": BORN_IN_ULM}, headers=TOKEN).status_code == 200
        assert client.get("/health").json()["run"] == run_fingerprint(askable_run)[:12]
    assert "the previous one stays in use: RUN: damaged" in caplog.text


def test_a_failure_that_nobody_expected_changes_nothing_either(askable_run, caplog):
    first = [lambda: loaded(askable_run, token="secret")]

    def load() -> Loaded:
        return first.pop()()  # the second time an IndexError

    with client_of(load) as client:
        assert client.post("/reload", headers=TOKEN).json()["error"]["kind"] == "NotLoaded"
        assert client.post("/reload", headers=TOKEN).json()["error"]["kind"] == "NotLoaded", "it can be tried again"
        assert client.get("/sparql", params={"query": BORN_IN_ULM}, headers=TOKEN).status_code == 200
    assert "IndexError" in caplog.text


def test_a_signal_while_a_run_is_loaded_loads_once_more_afterwards(askable_run, six_statements_run):
    """The link has moved on since the run that is being loaded was read, so the last signal decides what answers."""
    began, go_on = threading.Event(), threading.Event()
    calls: list[Path] = []

    def load() -> Loaded:
        calls.append(askable_run if len(calls) < 2 else six_statements_run)
        if len(calls) == 2:
            began.set()
            assert go_on.wait(30)
        return loaded(calls[-1])

    async def main() -> None:
        runs = Runs(load(), load)
        async with runs.running():
            tasks = [asyncio.create_task(runs.reload_in_turn())]
            await asyncio.to_thread(began.wait)
            tasks += [asyncio.create_task(runs.reload_in_turn()) for _ in range(10)]
            await asyncio.sleep(0)
            go_on.set()
            await asyncio.gather(*tasks)
            assert runs.fingerprint == run_fingerprint(six_statements_run)

    asyncio.run(main())
    assert len(calls) == 3, "the first one, the one that was being loaded, and one for all later signals"


def test_a_thread_that_does_not_stop_delays_a_reload_and_no_request(askable_run, monkeypatch):
    for module in (runs_module, workers):
        monkeypatch.setattr(module, "HOLD_SECONDS", 0.2)
    monkeypatch.setattr(runs_module, "FORK_TRIES", 1_000)
    monkeypatch.setattr(Service, "start_processes", lambda _: None)
    with client_of(lambda: loaded(askable_run, token="secret", seconds=5)) as client:
        runs: Runs = client.app.state.runs  # type: ignore[attr-defined]
        runs.start_processes()
        release, found = threading.Event(), []
        runs.current.batches.quick.worker.submit(release.wait)
        assert client.get("/api/entities", headers=TOKEN).status_code == 200  # so that the thread that reads runs too
        thread = threading.Thread(target=lambda: found.append(client.post("/reload", headers=TOKEN)))
        thread.start()
        statuses = [client.get("/api/entities", headers=TOKEN).status_code for _ in range(10)]
        assert (statuses, found) == ([200] * 10, [])
        release.set()
        thread.join()
    assert found[0].status_code == 200


def test_a_run_that_changes_while_it_is_read_is_refused(askable_run, six_statements_run, tmp_path, monkeypatch):
    """Weights of one run and a calibration of another would fit if they have the same sizes."""
    link, opened = tmp_path / "current", Answerer.open
    point_at(link, askable_run)

    def open_and_move(*arguments: object) -> Answerer:
        found = opened(*arguments)
        point_at(link, six_statements_run)
        return found

    monkeypatch.setattr(Answerer, "open", open_and_move)
    with pytest.raises(StorageError, match="was changed while it was read"):
        _open(link, None, "train", "mixture", ServeSettings())


def test_a_service_without_a_token_or_without_a_folder_is_not_reloaded_over_http(askable_run):
    with client_of(lambda: loaded(askable_run)) as client:
        assert client.post("/reload").status_code == 403
    with TestClient(create_app(Answerer.open(askable_run), ServeSettings(token="secret")), base_url="http://localhost") as client:
        assert client.post("/reload", headers=TOKEN).json()["error"]["kind"] == "NoRun"


def test_a_request_ends_on_the_run_that_it_began_on(askable_run, six_statements_run):
    """A slow question is under way while the run changes; its answer is that of the old run."""
    runs = [six_statements_run, askable_run]
    asked, go_on = threading.Event(), threading.Event()
    with client_of(lambda: loaded(runs.pop(), token="secret", quick_seconds=30)) as client:
        service = client.app.state.runs.current  # type: ignore[attr-defined]
        ask_many = service.answerer.ask_many

        def slow(*arguments: object, **options: object) -> object:
            asked.set()
            assert go_on.wait(30)
            return ask_many(*arguments, **options)

        service.answerer.ask_many = slow
        found = []
        body = {"query": BORN_IN_ULM, "known_only": True}
        thread = threading.Thread(target=lambda: found.append(client.post("/api/ask", json=body, headers=TOKEN)))
        thread.start()
        assert asked.wait(30)
        assert client.post("/reload", headers=TOKEN).status_code == 200
        assert client.get("/api/graph", headers=TOKEN).json()["statements"] == 6
        go_on.set()
        thread.join()
    assert (found[0].status_code, found[0].json()["answers"][0]["label"]) == (200, "Albert Einstein")


def test_runs_have_equal_fingerprints_exactly_if_they_answer_alike(askable_run, tmp_path):
    shutil.copytree(askable_run, tmp_path / "copy")
    assert run_fingerprint(tmp_path / "copy") == run_fingerprint(askable_run)
    (tmp_path / "copy" / "metrics.jsonl").write_text("")
    assert run_fingerprint(tmp_path / "copy") == run_fingerprint(askable_run)
    (tmp_path / "copy" / "answering.json").write_text("{}")
    assert run_fingerprint(tmp_path / "copy") != run_fingerprint(askable_run)
    with pytest.raises(StorageError, match="not a run folder"):
        run_fingerprint(tmp_path)


@contextmanager
def program(run: Path, *options: str) -> Iterator[tuple["subprocess.Popen[str]", str, Path]]:
    """Serves a run by the command; gives the process, its address and the file of its log."""
    command = [sys.executable, "-m", "starqe", "serve", str(run), "--port", "0", "--json", *options]
    errors = run.parent / "errors.log"
    with errors.open("w") as log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process:
        try:
            assert process.stdout
            yield process, urlsplit(json.loads(process.stdout.readline())["address"]).netloc, errors
        finally:
            process.kill()


def health(place: str) -> str:
    connection = HTTPConnection(place, timeout=60)
    connection.request("GET", "/health", headers={"Host": "localhost"})
    found = json.loads(connection.getresponse().read())
    connection.close()
    return str(found["run"])


def point_at(link: Path, run: Path) -> None:
    (link.parent / "next").symlink_to(run)
    os.replace(link.parent / "next", link)


@pytest.mark.full
def test_no_request_is_lost_in_five_reloads_under_load(askable_run, six_statements_run, tmp_path):
    link, stop, counts, lost = tmp_path / "current", threading.Event(), Counter[int](), []
    point_at(link, askable_run)
    with program(link) as (process, place, errors):
        assert health(place) == run_fingerprint(askable_run)[:12]

        def ask(number: int) -> None:
            connection = HTTPConnection(place, timeout=60)  # kept open, as pools of clients do
            query = (BORN_IN_ULM, TWO_STEPS)[number % 2]
            while not stop.is_set():
                try:
                    address = "/sparql?" + urlencode({"query": query, "predicted": "true"})
                    connection.request("GET", address, headers={"Host": "localhost", "Accept": "application/sparql-results+json"})
                    response = connection.getresponse()
                    counts[response.status] += 1
                    json.loads(response.read())
                except Exception as error:
                    lost.append(repr(error))
                    break
            connection.close()

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        sizes = []
        for number in range(RELOADS):
            run = (six_statements_run, askable_run)[number % 2]
            point_at(link, run)
            process.send_signal(signal.SIGHUP)
            eventually(lambda run=run: health(place) == run_fingerprint(run)[:12])
            done = sum(counts.values())
            eventually(lambda done=done: sum(counts.values()) >= done + 8)
            sizes.append(psutil.Process(process.pid).memory_info().rss)
        point_at(link, tmp_path)  # no run at all
        process.send_signal(signal.SIGHUP)
        eventually(lambda: "the previous one stays in use" in errors.read_text())
        assert health(place) == run_fingerprint(six_statements_run)[:12]
        # of every slow lane, helper and store but the last, nothing remains
        eventually(lambda: len(psutil.Process(process.pid).children()) <= 2 + ServeSettings().helping)
        stop.set()
        for thread in threads:
            thread.join()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert lost == []
    assert set(counts) == {200}
    assert counts[200] >= 8 * RELOADS
    assert sizes[4] - sizes[0] < 150e6, sizes


def damaged_copies(run: Path, place: Path) -> list[Path]:
    """Makes folders that cannot be served: damaged, not calibrated, nested deep, with a graph of nothing; and two that are no runs."""
    found = [shutil.copytree(run, place / name) for name in ("flipped", "plain", "deep", "empty")]
    flipped = bytearray((run / "weights.safetensors").read_bytes())
    flipped[-100] ^= 4
    (found[0] / "weights.safetensors").write_bytes(flipped)
    (found[1] / "answering.json").unlink()
    (found[2] / "answering.json").write_text("[" * 100_000)
    (found[3] / "graph" / "labels.parquet").write_bytes(b"")
    return [*found, run / "graph", place / "nowhere"]


@pytest.mark.slow
def test_sixteen_clients_get_answers_of_one_run_or_the_other_while_runs_change(askable_run, tmp_path, monkeypatch):
    monkeypatch.setenv("STARQE_TOKEN", "secret")
    other = tiny_run(tmp_path / "other", embedded_graph(), ["1p", "2p", "2i"], epochs=4)
    runs, link = (askable_run, other), tmp_path / "current"
    texts = list(questions(embedded_graph(), per_shape=30))
    expected = [
        {
            text: [(answer.entity, answer.known, answer.probability) for answer in found]
            for text, found in zip(texts, Answerer.open(run).ask_many(texts, top=20), strict=True)
        }
        for run in runs
    ]
    hopeless, stop, wrong, counts = damaged_copies(askable_run, tmp_path), threading.Event(), [], Counter[str]()
    point_at(link, askable_run)
    headers = {"Host": "localhost", "Content-Type": "application/json", **TOKEN}

    def ask(number: int) -> None:
        chance = random.Random(number)
        with closing(HTTPConnection(place, timeout=60)) as connection:
            while not stop.is_set():
                text = chance.choice(texts)
                connection.request("POST", "/api/ask", json.dumps({"query": text, "top": 20}), headers)
                response = connection.getresponse()
                content = json.loads(response.read())
                which = [one for one in (0, 1) if response.status == 200 and agree(expected[one][text], content["answers"])]
                counts[f"{response.status}, run {which}"] += 1
                if not which:
                    wrong.append((text, content))

    def reload(run: Path) -> int:
        point_at(link, run)
        with closing(HTTPConnection(place, timeout=120)) as connection:
            connection.request("POST", "/reload", headers=headers)
            return connection.getresponse().status

    with program(link) as (process, place, _), ThreadPoolExecutor(SIXTEEN) as pool:
        asking = [pool.submit(ask, number) for number in range(SIXTEEN)]
        statuses, sizes = Counter[int](), []
        try:
            for number in range(MANY_RELOADS):
                statuses[reload(runs[(number + 1) % 2])] += 1
                if number % 3 == 0:
                    statuses[reload(hopeless[number // 3 % len(hopeless)])] += 1
                sizes.append(round(memory_of(psutil.Process(process.pid)) / 1e6))
        finally:
            stop.set()
        for one in asking:
            one.result()
    print(f"\n{dict(statuses)} reloads, {sum(counts.values()):,} questions: {dict(counts)}, {len(wrong)} wrong; MB: {sizes[::10]}")
    assert statuses == {200: MANY_RELOADS, 500: len(range(0, MANY_RELOADS, 3))}
    assert wrong == []
    assert len(counts) == 2, "both runs have answered"
    half = MANY_RELOADS // 2
    assert max(sizes[half:]) < 1.1 * max(sizes[:half])
