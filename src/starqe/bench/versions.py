"""Speed next to another version of starqe: both do the same work in turns, so that other load on the machine slows both down equally."""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import starqe
from starqe.bench import working_process
from starqe.bench.measured import machine
from starqe.errors import InputError, StarqeError
from starqe.kg import export_graph, load_graph

Costs = Mapping[str, Sequence[float]]
"""The CPU time and the real time of each piece of work, in seconds: "cpu" and "wall"."""


def bench_versions(run: Path, queries: Path, other: Path, rounds: int = 5, limit: int = 2_000, threads: int = 1) -> list[dict[str, Any]]:
    """Measures the CPU time of import, opening a graph, reading queries, evaluation and training: this version and another one.

    Args:
        run: The folder of a model; both versions have to read it.
        queries: The folder of a query set of its graph.
        other: The folder ``src`` of another version of starqe.
        rounds: Number of times that each version does each piece of work; the median counts.
        limit: Number of queries per shape that are evaluated; training uses up to 50 times as many.
        threads: Number of threads.

    Raises:
        InputError: A number is out of range, or the other version is missing.
        StarqeError: A version does not start, or fails.
    """
    if min(rounds, limit, threads) < 1:
        raise InputError(f"rounds, limit and threads are 1 or more, found {rounds}, {limit} and {threads}")
    rows = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        source = Path(folder) / "statements"
        export_graph(load_graph(run / "graph").entity_part, source)
        arguments = [str(path.resolve()) for path in (run, queries, source)]
        both = start_versions(stack, working_process.__file__, [*arguments, str(limit), str(threads)], other)
        for work in working_process.WORK:
            costs = in_turns(both, [{"work": work}] * rounds)
            rows.append({"work": work, "rounds": rounds, **summary(costs), "threads": threads, **machine()})
    return rows


def start_versions(stack: contextlib.ExitStack, script: str, arguments: Sequence[str], other: Path | None) -> "list[subprocess.Popen[str]]":
    """Starts a script with this version of starqe, and with another one if its folder ``src`` is given; they end with the stack.

    Raises:
        InputError: The other version is missing.
        StarqeError: A version does not start.
    """
    if other is not None and not (other / "starqe" / "ask").is_dir():
        raise InputError(f"another version is given by its folder src, which has starqe/ask in it, found {other}")
    sources = [Path(starqe.__file__).parents[1], *([] if other is None else [other])]
    return [stack.enter_context(_version(script, arguments, source)) for source in sources]


@contextlib.contextmanager
def _version(script: str, arguments: Sequence[str], source: Path) -> Iterator["subprocess.Popen[str]"]:
    """Starts a script with the version of starqe in a folder, and ends it."""
    environment = {**os.environ, "PYTHONPATH": str(source.resolve())}
    command = [sys.executable, script, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            # An installed starqe must not answer in place of a folder that holds none.
            if (found := process.stdout.readline().strip()) != str(source.resolve() / "starqe"):
                why = f"starqe was imported from {found}" if found else "see its message above"
                raise StarqeError(f"the version in {source} does not start with {' '.join(arguments)}: {why}")
            yield process
        finally:
            process.kill()


def in_turns(versions: "Sequence[subprocess.Popen[str]]", requests: Sequence[Mapping[str, Any]]) -> list[Costs]:
    """Sends every version the same requests, one at a time; the version that begins changes.

    Raises:
        StarqeError: A version ended.
    """
    costs: list[dict[str, list[float]]] = [{"cpu": [], "wall": []} for _ in versions]
    for number, request in enumerate(requests):
        order = list(range(len(versions)))
        for place in order if number % 2 else order[::-1]:
            process = versions[place]
            assert process.stdin is not None
            assert process.stdout is not None
            print(json.dumps(request), file=process.stdin, flush=True)
            if not (line := process.stdout.readline()):
                raise StarqeError(f"a version of starqe ended during {str(request)[:80]}; see its message above")
            for name, seconds in json.loads(line).items():
                costs[place][name] += seconds
    return list(costs)


def summary(costs: Sequence[Costs]) -> dict[str, Any]:
    """Returns medians in milliseconds, and with a second version the ratio to it: of medians and of sums."""
    own = costs[0]
    found = {"cpu_ms": round(1e3 * statistics.median(own["cpu"]), 3), "ms": round(1e3 * statistics.median(own["wall"]), 3)}
    for second in costs[1:]:
        found["other_cpu_ms"] = round(1e3 * statistics.median(second["cpu"]), 3)
        found["of_other"] = round(statistics.median(own["cpu"]) / statistics.median(second["cpu"]), 3)
        found["of_other_in_sum"] = round(sum(own["cpu"]) / sum(second["cpu"]), 3)
    return found
