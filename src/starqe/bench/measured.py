"""Time and memory of a piece of work."""

import os
import platform
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil


@dataclass
class Measured:
    """Time and memory of a piece of work: filled in when it ends."""

    seconds: float = 0.0
    peak_mb: float = 0.0
    """Peak memory of the process, in megabytes."""
    growth_mb: float = 0.0
    """Peak memory above what the process used at the start, in megabytes."""


@contextmanager
def measured(every: float = 0.02) -> Iterator[Measured]:
    """Measures the work in its block; memory is sampled by a thread."""
    process, result, done = psutil.Process(), Measured(), threading.Event()
    start_memory = process.memory_info().rss
    peak = start_memory

    def watch() -> None:
        nonlocal peak
        while not done.wait(every):
            peak = max(peak, process.memory_info().rss)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    start = time.perf_counter()
    try:
        yield result
    finally:
        result.seconds = time.perf_counter() - start
        done.set()
        watcher.join()
        peak = max(peak, process.memory_info().rss)
        result.peak_mb, result.growth_mb = peak / 1e6, (peak - start_memory) / 1e6


def machine() -> dict[str, Any]:
    """Describes this machine: measurements mean nothing without it."""
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "processor": platform.machine(),
        "python": platform.python_version(),
    }
