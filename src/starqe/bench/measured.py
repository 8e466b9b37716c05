"""Time and memory of a piece of work."""

import os
import platform
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import psutil


@dataclass
class Measured:
    """Time and memory of a piece of work: filled in when it ends."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    """Time of the process on all cores: the measure that a busy machine changes least."""
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
    start, busy = time.perf_counter(), time.process_time()
    try:
        yield result
    finally:
        result.seconds, result.cpu_seconds = time.perf_counter() - start, time.process_time() - busy
        done.set()
        watcher.join()
        peak = max(peak, process.memory_info().rss)
        result.peak_mb, result.growth_mb = peak / 1e6, (peak - start_memory) / 1e6


@cache
def machine() -> dict[str, Any]:
    """Describes this machine and its speed, measured once: results mean nothing without it.

    The speed is that of a dense product, on all threads that numpy uses, and of a copy in memory: the best of several runs.
    """
    left, right = np.ones((512, 192), np.float32), np.ones((192, 16_384), np.float32)
    product = np.empty((512, 16_384), np.float32)
    block = np.ones(1 << 23)
    copy = np.empty_like(block)
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "product_gflops": round(2 * 512 * 192 * 16_384 / fastest(lambda: np.matmul(left, right, out=product)) / 1e9, 1),
        "copy_gb_per_second": round(2 * block.nbytes / fastest(lambda: np.copyto(copy, block)) / 1e9, 1),
    }


def fastest(work: Callable[[], object], runs: int = 5, clock: Callable[[], float] = time.perf_counter) -> float:
    """Returns the seconds of the fastest of some runs, by a clock: real time, or ``time.process_time``."""
    times = []
    for _ in range(runs):
        start = clock()
        work()
        times.append(clock() - start)
    return min(times)
