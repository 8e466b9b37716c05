"""Ctrl-C in long commands, for real: exit code 130, one line, no traceback."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from starqe.kg import Statement, graph_of, save_graph

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph that is dense enough to keep every command busy for a while, as a folder and as a file."""
    folder, draw = tmp_path_factory.mktemp("long"), random.Random(0)

    def entity() -> str:
        return f"e{draw.randrange(2_000)}"

    statements = [Statement(entity(), f"r{draw.randrange(20)}", entity(), ((f"q{draw.randrange(5)}", entity()),)) for _ in range(40_000)]
    save_graph(graph_of(train=statements[:36_000], valid=statements[36_000:38_000], test=statements[38_000:]), folder / "graph")
    lines = (",".join([one.head, one.relation, one.tail, *one.qualifiers[0]]) for one in statements * 8)
    (folder / "statements.txt").write_text("\n".join(lines), encoding="utf-8")
    return folder


COMMANDS = {
    "queries generate": ("_duckdb", "queries generate {place}/graph {out}"),
    "queries sample": ("libarrow", "queries sample {place}/graph {out} --count 200000"),
    "data import": ("libarrow", "data import {place}/statements.txt {out}"),
    "train": ("libtorch_cpu", "train --preset one-hop {place}/graph --out {out} --threads 1"),
    "evaluate": ("libtorch_cpu", "evaluate {run} --links ours --by mixture --split train --threads 1"),
    "calibrate": ("libtorch_cpu", "calibrate {run} --limit 5000 --threads 1"),
}
"""The command, and a library whose presence in memory says that its work is about to begin."""


@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_ends_a_long_command_with_one_line(place: Path, askable_run: Path, tmp_path: Path, name: str) -> None:
    library, command = COMMANDS[name]
    codes = []
    for attempt, seconds in enumerate((0.5, 2.0)):
        arguments = command.format(place=place, run=askable_run, out=tmp_path / str(attempt)).split()
        code, said = interrupted(arguments, library, seconds)
        codes.append(code)
        if code:
            assert code == 130, said
            assert "Traceback" not in said
            assert said.count("\n") == 1, said
            assert said.startswith("starqe: interrupted")
    assert 130 in codes, "it ended before it could be interrupted"


def interrupted(arguments: list[str], library: str, seconds: float) -> tuple[int, str]:
    """Runs a command, sends it SIGINT some time after it has loaded a library, and returns its exit code and what it said."""
    process = subprocess.Popen([sys.executable, "-m", "starqe", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    maps = Path(f"/proc/{process.pid}/maps")
    while process.poll() is None and library not in maps.read_text():
        time.sleep(0.02)
    time.sleep(seconds)
    if process.poll() is None:
        os.kill(process.pid, signal.SIGINT)
    said = process.communicate(timeout=120)[1]
    return process.returncode, said
