"""Ctrl-C in long commands, for real: exit code 130, one line, no traceback."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from starqe.config import to_toml
from starqe.kg import Statement, embedded_graph, graph_of, save_graph
from starqe.kg.published.datasets import DATASETS
from starqe.learn import preset
from starqe.queries import SHAPES, generate
from tests.kg.file_server import running

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with graphs that are large enough to keep every command busy for a while."""
    folder, draw = tmp_path_factory.mktemp("long"), random.Random(0)

    def entity(count: int) -> str:
        return f"e{draw.randrange(count)}"

    def statement(count: int) -> Statement:
        return Statement(entity(count), f"r{draw.randrange(20)}", entity(count), ((f"q{draw.randrange(5)}", entity(count)),))

    dense, large = [statement(2_000) for _ in range(40_000)], [statement(20_000) for _ in range(200_000)]
    save_graph(graph_of(train=dense[:36_000], valid=dense[36_000:38_000], test=dense[38_000:]), folder / "graph")
    save_graph(graph_of(large), folder / "large")
    lines = (",".join([one.head, one.relation, one.tail, *one.qualifiers[0]]) for one in large * 2)
    (folder / "statements.txt").write_text("\n".join(lines), encoding="utf-8")
    save_graph(embedded_graph(), folder / "small")
    generate(embedded_graph(), folder / "queries", [SHAPES["1p"], SHAPES["2i"]], splits=("train", "valid"), threads=1)
    sizes = ['train.shapes=["1p", "2i"]', "train.queries_per_shape=1000", "train.epochs=1000", "train.validation_queries=20"]
    (folder / "base.toml").write_text(to_toml(preset("demo").with_settings(sizes)))
    return folder


@pytest.fixture(scope="module")
def mirror() -> Iterator[str]:
    """A mirror that sends a byte every now and then."""
    data = DATASETS["wd50k"]
    with running() as server:
        names = [file.name for file in data.files]
        server.files = {f"/{path}/{name}": bytes(10_000) for path in ("wd50k", "wd50k/statements") for name in names}
        server.plan = [("drip", 0.2)] * 20
        yield server.url


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Lets commands hear Ctrl-C: a shell starts background jobs with it ignored, and what they start inherits that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


COMMANDS = {
    "queries generate": ("_duckdb", "queries generate {place}/graph {out}"),
    "queries generate on Spark": ("libarrow", "queries generate {place}/graph {out} --engine spark --master local[1]"),
    "queries sample": ("libarrow", "queries sample {place}/graph {out} --count 200000"),
    "data import": ("libarrow", "data import {place}/statements.txt {out}"),
    "data export": ("libarrow", "data export {place}/large {out} --format turtle"),
    "data fetch": ("libarrow|_ssl", "data fetch wd50k --from {mirror}"),
    "train": ("libtorch_cpu", "train --preset one-hop {place}/graph --out {out} --threads 1"),
    "fit": ("libtorch_cpu", "fit {place}/graph --out {out} --minutes 1 --threads 1"),
    "tune": ("libtorch_cpu", "tune {place}/small {place}/queries --out {out} --base {place}/base.toml --threads 1"),
    "reproduce": ("libtorch_cpu", "reproduce results --out {out} --threads 1"),
    "evaluate": ("libtorch_cpu", "evaluate {run} --links ours --by mixture --split train --threads 1"),
    "calibrate": ("libtorch_cpu", "calibrate {run} --limit 5000 --threads 1"),
    "bench train": ("libtorch_cpu", "bench train --steps 100000 --threads 1"),
    "bench serve": ("libtorch_cpu", "bench serve {run} --seconds 60"),
    "serve": ("libtorch_cpu", "serve {run} --port 0"),
}
"""The command, and a library (or one of several) whose presence in memory says that its work is about to begin."""
MOMENTS = (0.0, 0.5, 2.0)
"""Seconds after that. Whether the work has begun by then does not matter: Ctrl-C ends the command in the same way at any moment."""


LATER = {"queries generate on Spark": (0.0, 10.0, 40.0)}
"""Other moments: Java starts slowly."""


@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_ends_a_long_command_with_one_line(place: Path, askable_run: Path, mirror: str, tmp_path: Path, name: str) -> None:
    if name.endswith("Spark"):
        pytest.importorskip("pyspark", reason="needs the extra spark")
        if not shutil.which("java"):
            pytest.skip("Spark needs Java")
    libraries, command = COMMANDS[name]
    codes = []
    for attempt, seconds in enumerate(LATER.get(name, MOMENTS)):
        arguments = command.format(place=place, run=askable_run, out=tmp_path / str(attempt), mirror=mirror).split()
        code, said = interrupted(arguments, libraries.split("|"), seconds, tmp_path / "home")
        codes.append(code)
        if code:
            assert code == 130, (seconds, said)
            assert "Traceback" not in said
            said = said[said.find("starqe: ") :] if name.endswith("Spark") else said  # Java says what it likes before
            assert said.count("\n") == 1, said
            assert said.startswith("starqe: interrupted")
    assert 130 in codes, "it ended before it could be interrupted"


def interrupted(arguments: list[str], libraries: list[str], seconds: float, home: Path) -> tuple[int, str]:
    """Runs a command, sends it SIGINT some time after it has loaded a library, and returns its exit code and what it said."""
    command = [sys.executable, "-m", "starqe", *arguments]
    environment = {**os.environ, "STARQE_DATA": str(home), "no_proxy": "127.0.0.1"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
    maps = Path(f"/proc/{process.pid}/maps")
    while process.poll() is None and not any(library in maps.read_text() for library in libraries):
        time.sleep(0.02)
    time.sleep(seconds)
    if process.poll() is None:
        os.kill(process.pid, signal.SIGINT)
    said = process.communicate(timeout=300)[1]
    return process.returncode, said
