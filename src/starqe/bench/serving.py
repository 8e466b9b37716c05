"""Speed of the service: the real server in its own process, asked over HTTP on this machine."""

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from starqe.ask import drawn_queries
from starqe.bench.load import Asked, at_a_rate, one_after_the_other
from starqe.bench.measured import machine
from starqe.errors import InputError, StarqeError, UnsupportedError
from starqe.kg import Graph, load_graph
from starqe.queries import SHAPES, QueryTable, Shape
from starqe.queries.layout import query_of_row
from starqe.queries.sparql.write import write_sparql
from starqe.seed import generator
from starqe.serve import ServeSettings

PER_SHAPE = 600
"""Number of queries that are sampled per shape, if the graph has that many."""
CROWD = ServeSettings().waiting
"""Number of clients that fill the queue of the service and its batches; a soak measures them too."""
QUANTILES = (50, 90, 99)
OVERLOAD = 2.0
"""Rate of a soak, relative to what the service can answer."""

Load = Coroutine[Any, Any, list[Asked]]


def bench_serve(
    run: Path,
    seconds: float = 20.0,
    clients: Sequence[int] = (1, 16),
    by: Sequence[str] = ("encoder", "mixture"),
    soak_minutes: float = 0.0,
    threads: int = 1,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Measures latency and throughput of each predictor; a soak test then sends twice the load that the service can answer.

    Args:
        run: The folder of a run that can be asked.
        seconds: Duration of each measurement.
        clients: Numbers of concurrent clients, one row each.
        by: What predicts, as `starqe serve --by` has it.
        soak_minutes: Duration of the overload; 0 leaves it out.
        threads: Number of threads for the server's arithmetic.
        seed: Decides the queries and their order.

    Raises:
        InputError: A number is out of range, or the graph has no query.
        StarqeError: The server does not start.
    """
    if seconds <= 0 or soak_minutes < 0 or not clients or min(clients) < 1:
        raise InputError(f"times and clients are positive, found {seconds:g} s, {soak_minutes:g} min and clients {list(clients)}")
    shapes = questions(load_graph(run / "graph"), seed)
    asked = list(shapes)
    rows = []
    for way in by:
        with _server(run, way, threads) as (process, address):
            texts = cycle(asked)

            def measure(load: str, *parts: Load, way: str = way, process: psutil.Process = process) -> None:
                found = _measured(process, parts, shapes)
                rows.append({"by": way, "load": load, "distinct_queries": len(asked), **found, "threads": threads, **machine()})

            asyncio.run(one_after_the_other(address, texts, 4, min(2.0, seconds)))  # the first ones are slower
            for count in (*clients, CROWD) if soak_minutes else clients:
                measure(f"{count} at a time", one_after_the_other(address, texts, count, seconds))
            if soak_minutes:
                rate = OVERLOAD * max(row["answered_per_second"] for row in rows if row["by"] == way)
                parts = max(2, round(soak_minutes))
                measure(f"{rate:.1f} per second", *(at_a_rate(address, texts, rate, 60 * soak_minutes / parts) for _ in range(parts)))
    return rows


def questions(graph: Graph, seed: int = 0, per_shape: int = PER_SHAPE) -> dict[str, str]:
    """Samples distinct queries of all shapes, in random order, as SPARQL with the kind of their shape: from test, or else from train.

    Raises:
        InputError: The graph has no query.
    """
    tables = drawn_queries(graph, "test", per_shape, seed) or drawn_queries(graph, "train", per_shape, seed)
    found = {text: _kind(table.shape) for table in tables.values() for row in range(len(table)) if (text := _sparql(table, row, graph))}
    if not found:
        raise InputError("queries are sampled from the statements of a graph, and this one has none")
    texts = sorted(found)
    generator(seed, "bench serve").shuffle(texts)
    return {text: found[text] for text in texts}


def _kind(shape: Shape) -> str:
    """Names a shape by its form, whatever the directions of its edges: that of the paper, or else its own name."""
    form = sorted(sorted(edge) for edge in shape.edges)
    return next((name for name, other in SHAPES.items() if sorted(sorted(edge) for edge in other.edges) == form), shape.name)


def _sparql(table: QueryTable, row: int, graph: Graph) -> str | None:
    with contextlib.suppress(UnsupportedError):  # SPARQL cannot name blank nodes
        return write_sparql(query_of_row(table, row, graph), graph.names)
    return None


@contextlib.contextmanager
def _server(run: Path, by: str, threads: int) -> Iterator[tuple[psutil.Process, str]]:
    """Starts the service on a free port of this machine, and stops it at the end."""
    command = [sys.executable, "-m", "starqe", "serve", str(run), "--port", "0", "--json", "--by", by]
    command += ["--threads", str(threads)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            if not (line := process.stdout.readline()):
                raise StarqeError(f"the service of {run} did not start; see its message above")
            yield psutil.Process(process.pid), json.loads(line)["address"]
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def memory_of(server: psutil.Process) -> int:
    """Measures the bytes that a service holds, with what its workers do not share with it."""
    total = server.memory_info().rss
    for process in server.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it may have ended meanwhile
            total += process.memory_full_info().uss
    return int(total)


def _cpu_of(server: psutil.Process) -> float:
    """Measures the CPU seconds that a service and its workers have used."""
    total = sum(server.cpu_times()[:2])
    for process in server.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:2])
    return float(total)


def _measured(server: psutil.Process, parts: Sequence[Load], shapes: Mapping[str, str]) -> dict[str, Any]:
    """Runs the parts of one load; the memory of the server is measured before and after each."""
    asked: list[Asked] = []
    memory = [memory_of(server)]
    began, busy, worked = time.perf_counter(), time.process_time(), _cpu_of(server)
    for part in parts:
        asked += asyncio.run(part)
        memory.append(memory_of(server))
    seconds, busy = time.perf_counter() - began, time.process_time() - busy
    worked = _cpu_of(server) - worked
    answered = [one.seconds for one in asked if one.status == "200"]
    by_shape = {kind: [one.seconds for one in asked if one.status == "200" and shapes.get(one.text) == kind] for kind in SHAPES}
    quantiles = [round(1e3 * float(np.percentile(answered, share)), 1) if answered else None for share in QUANTILES]
    return {
        "seconds": round(seconds, 1),
        "asked": len(asked),
        "statuses": dict(sorted(Counter(one.status for one in asked).items())),
        "answered_per_second": round(len(answered) / seconds, 1),
        **{f"p{share}_ms": value for share, value in zip(QUANTILES, quantiles, strict=True)},
        "p50_ms_by_shape": {kind: round(1e3 * float(np.median(times)), 1) for kind, times in by_shape.items() if times},
        "server_cpu_ms": round(1e3 * worked / max(len(answered), 1), 1),
        "memory_mb": [round(amount / 1e6) for amount in memory],
        "asking_cores": round(busy / seconds, 2),
    }
