"""Cost against size: the steps at several sizes of the world, one process each. Results are saved, so that a run can be continued."""

import contextlib
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from starqe.bench.measured import machine
from starqe.bench.scale import scale_steps
from starqe.bench.scale.scale_steps import STEPS, Size
from starqe.errors import InputError, StarqeError
from starqe.folders import locked, new_file

RESULTS = "results.jsonl"
LARGE = 5_000_000
"""From this number of entities on, the trained encoder is neither indexed nor asked: a short training of it means nothing."""
LEFT_OUT = ("index", "ask")
_WRITES = {"write": "world", "import": "graph", "train": "run", "retrieve": "stand-in"}
"""The folder that a step writes; an unfinished one is removed first."""


def bench_scale(
    work: Path,
    entities: Sequence[int],
    seconds: float = 60.0,
    limit: float = 15.0,
    seed: int = 0,
    threads: int = 1,
    only: Sequence[str] = (),
    rounds: int = 1,
    note: Callable[[str], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Measures every step at every size: time, memory of its process, and disk.

    Args:
        work: The folder of worlds and runs; steps that were measured there are not measured again.
        entities: The sizes.
        seconds: The training time at each size.
        limit: The time limit of a step, in minutes; a step that takes longer is ended, and its row says so.
        seed: Decides the world and everything that is random.
        threads: The number of threads.
        only: The steps to measure; all if empty. A step needs those before it.
        rounds: The number of rounds. Each measures all sizes, one after the other, so that other load meets all of them; the fastest
            round of a step counts.
        note: Called with a line about each step before it begins.

    Returns:
        One row per size and step: that of its fastest round.

    Raises:
        InputError: A number is out of range, or a step is unknown.
        StarqeError: A step failed.
        StorageError: Another command works in the folder.
    """
    if seconds <= 0 or limit <= 0 or threads < 1 or rounds < 1:
        found = f"{seconds:g} s, {limit:g} min, {threads} and {rounds}"
        raise InputError(f"times are above 0, threads and rounds 1 or more, found {found}")
    if unknown := [step for step in only if step not in STEPS]:
        raise InputError(f"steps are {', '.join(STEPS)}; found '{unknown[0]}'")
    work.mkdir(parents=True, exist_ok=True)
    with locked(work):
        rows = _read(work / RESULTS)
        for round_, count, step in product(range(rounds), entities, STEPS):
            if (only and step not in only) or (count >= LARGE and step in LEFT_OUT) or (step == "write" and round_):
                continue
            if any((row["entities"], row["step"], row["seed"], row.get("round", 0)) == (count, step, seed, round_) for row in rows):
                continue
            note(f"{count:,} entities: {step}")
            about = {"entities": count, "step": step, "seed": seed, "round": round_, "threads": threads}
            rows.append({**about, **_run(step, Size(work / str(count), count, seed, seconds), limit, threads)})
            _write(work / RESULTS, rows)
    return [{**row, **machine()} for row in _fastest(rows) if row["entities"] in entities and row["seed"] == seed]


def _fastest(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the fastest round of each step of each size, in the order in which they were measured first."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = row["entities"], row["step"], row["seed"]
        if key not in found or _cost(row) < _cost(found[key]):
            found[key] = row
    return list(found.values())


def _cost(row: dict[str, Any]) -> float:
    return float(row.get("cpu_us_per_unit", math.inf))


def _run(step: str, size: Size, limit: float, threads: int) -> dict[str, Any]:
    """Runs a step in a process of its own."""
    folder = size.folder / _WRITES[step] if step in _WRITES else None
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    size.folder.mkdir(parents=True, exist_ok=True)
    arguments = [step, str(size.folder), str(size.entities), str(size.seed), str(size.seconds)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    try:
        done = subprocess.run(
            [sys.executable, "-m", scale_steps.__name__, *arguments],
            capture_output=True,
            text=True,
            timeout=60 * limit,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"timed_out": True, "seconds": 60 * limit}
    if done.returncode:
        raise StarqeError(f"the step '{step}' with {size.entities:,} entities failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**found, **({"disk_mb": round(_size(folder) / 1e6, 1)} if folder is not None else {})}


def _size(folder: Path) -> int:
    """Returns the size of a folder, in bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _read(path: Path) -> list[dict[str, Any]]:
    with contextlib.suppress(FileNotFoundError):
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return []


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    with new_file(path, overwrite=True) as beside:
        beside.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def plot_scale(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Plots cost per unit, time of a question and memory against the number of entities."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.6), layout="constrained")
    panels = figure.subplots(1, 3)
    units = {"import": "import, per statement", "draw": "drawing, per query", "train": "training, per query"}
    for step, label in units.items():
        _line(panels[0], rows, step, "cpu_us_per_unit", label)
    for step, value, label in (
        ("ask", "cpu_p50_ms", "encode and find by the index"),
        ("retrieve", "cpu_p50_ms", "find by the index, stand-in rows"),
        ("retrieve", "exact_cpu_p50_ms", "exact search, stand-in rows"),
    ):
        _line(panels[1], rows, step, value, label)
    for step in ("import", "draw", "train", "ask"):
        _line(panels[2], rows, step, "peak_mb", step)
    titles = ("cost of a unit, µs of a core", "a question (median), ms of a core", "peak memory, MB")
    for panel, title in zip(panels, titles, strict=True):
        panel.set(xscale="log", yscale="log", xlabel="entities", title=title)
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8)
    with new_file(path, overwrite=True) as beside:
        figure.savefig(beside, dpi=130)


def _line(panel: Any, rows: Sequence[dict[str, Any]], step: str, value: str, label: str) -> None:
    points = sorted((row["entities"], row[value]) for row in rows if row["step"] == step and value in row)
    if points:
        panel.plot(*zip(*points, strict=True), marker="o", label=label)
