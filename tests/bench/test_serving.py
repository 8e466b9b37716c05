import asyncio
import json
import sys
from collections import Counter
from itertools import cycle

import pytest

from starqe.bench.load import Client, at_a_rate, one_after_the_other
from starqe.bench.measured import machine
from starqe.bench.serving import CROWD, bench_serve, questions
from starqe.cli.main import main
from starqe.errors import InputError, StarqeError
from starqe.kg import Statement, embedded_graph, graph_of
from starqe.learn import Run, preset
from starqe.queries import SHAPES
from starqe.queries.sparql.read import read_sparql

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\nRetry-After: 1\r\n\r\nbusy"


def with_service(responses, scenario, held=0):
    """Runs a scenario against a service that gives these responses in turn: the bytes, and whether it hangs up after them.

    The first ``held`` responses are held back until all of them were asked for.
    """

    talking, arrived, all_there = set(), [], asyncio.Event()

    async def answer(reader, writer):
        talking.add(asyncio.current_task())
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
                arrived.append(1)
                if len(arrived) >= held:
                    all_there.set()
                await all_there.wait()
                response, hang_up = next(responses)
                writer.write(response)
                if hang_up:
                    break
        except asyncio.IncompleteReadError:
            pass
        writer.close()
        await writer.wait_closed()

    async def main():
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        try:
            return await scenario(f"http://{host}:{port}")
        finally:
            all_there.set()
            server.close()
            await asyncio.gather(*talking)

    return asyncio.run(main())


def test_questions_are_distinct_readable_and_those_of_the_seed():
    graph = embedded_graph()
    texts = questions(graph, per_shape=40)
    assert len(texts) > 100
    assert set(texts.values()) <= set(SHAPES)
    assert {len(read_sparql(text, graph).query.all_atoms) for text in texts} == {1, 2, 3}
    assert list(texts) == list(questions(graph, per_shape=40)) != list(questions(graph, seed=1, per_shape=40))


def test_what_sparql_cannot_name_is_not_asked():
    assert questions(graph_of([Statement("a", "r", "b"), Statement("_:x", "r", "c")]), per_shape=4)
    with pytest.raises(InputError, match="has none"):
        questions(graph_of([Statement("_:a", "r", "_:b")]), per_shape=4)


def test_predictions_are_asked_for():
    heads = []

    async def scenario(address):
        client = Client(address)
        await client.ask("q")
        await client.close()

    async def answer(reader, writer):
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(OK)
        writer.close()

    async def run():
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        await scenario(f"http://{host}:{port}")
        server.close()

    asyncio.run(run())
    assert heads[0].startswith(b"POST /sparql?predicted=true ")


def test_clients_ask_one_query_after_the_other_and_every_status_counts():
    responses = cycle([(OK, False), (OK, True), (BUSY, False), (BUSY.replace(b"Retry-After", b"X"), False)])
    asked = with_service(responses, lambda address: one_after_the_other(address, cycle(["a", "b"]), 3, 0.2))
    statuses = Counter(one.status for one in asked)
    assert statuses.keys() == {"200", "503", "503 without Retry-After"}
    assert statuses["200"] >= statuses["503"] >= 1
    assert all(0 < one.seconds < 30 for one in asked)


def test_a_connection_that_was_idle_too_long_is_opened_again_and_a_service_that_hangs_up_has_failed():
    async def scenario(address):
        client = Client(address)
        found = [(await client.ask("q")).status for _ in range(4)]
        await client.close()
        return found

    assert with_service(iter([(OK, True), (OK, False), (OK, False), (b"", True), (b"", True)]), scenario) == ["200", "200", "200", "failed"]


def test_queries_come_at_their_rate_whether_or_not_the_others_are_answered():
    asked = with_service(cycle([(OK, False)]), lambda address: at_a_rate(address, cycle(["q"]), 200, 0.25), held=50)
    assert [one.status for one in asked] == ["200"] * 50
    assert max(one.seconds for one in asked) > 0.24  # the first waited for the last, from when it was due


def test_queries_beyond_what_may_be_on_its_way_are_not_sent(monkeypatch):
    monkeypatch.setattr("starqe.bench.load.MOST_ASKED", 3)
    monkeypatch.setattr("starqe.bench.load.PATIENCE", 0.5)
    asked = with_service(cycle([(OK, False)]), lambda address: at_a_rate(address, cycle(["q"]), 200, 0.05), held=4)
    assert Counter(one.status for one in asked) == {"failed": 3, "not sent": 7}


@pytest.mark.full
def test_the_service_is_measured_and_soaked(askable_run, monkeypatch, capsys):
    options = "--seconds 0.5 --clients 2 --by encoder --soak 0.05 --threads 1 --json"
    monkeypatch.setattr(sys, "argv", ["starqe", "bench", "serve", str(askable_run), *options.split()])
    with pytest.raises(SystemExit, match="0"):
        main()
    two, crowd, soak = json.loads(capsys.readouterr().out)
    assert [row["load"] for row in (two, crowd)] == ["2 at a time", f"{CROWD} at a time"]
    assert two["statuses"] == {"200": two["asked"]}
    assert two["p50_ms_by_shape"].keys() <= set(SHAPES)
    assert two["server_cpu_ms"] > 0
    assert crowd["p50_ms"] <= crowd["p90_ms"] <= crowd["p99_ms"]
    assert soak["load"] == f"{2 * max(row['answered_per_second'] for row in (two, crowd)):.1f} per second"
    assert soak["statuses"].keys() <= {"200", "503", "not sent"}  # a busy machine may not send them all in time
    assert soak["asked"] == sum(soak["statuses"].values()) > 0
    assert [len(row["memory_mb"]) for row in (two, crowd, soak)] == [2, 2, 3]
    assert {row["by"] for row in (two, crowd, soak)} == {"encoder"}
    assert machine().items() <= soak.items()


@pytest.mark.full
def test_a_service_that_does_not_start_is_an_error(tmp_path, capfd):
    run = Run.create(tmp_path / "run", preset("demo"), embedded_graph())
    with pytest.raises(StarqeError, match="did not start; see its message above"):
        bench_serve(run.folder)
    assert "was not calibrated" in capfd.readouterr().err


def test_an_invalid_time_is_refused(tmp_path):
    with pytest.raises(InputError, match="times and clients are positive, found 0 s"):
        bench_serve(tmp_path, seconds=0)
