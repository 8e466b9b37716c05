"""Trainings of two processes, one or both of which are killed: the same command goes on to the same weights."""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from starqe.kg import save_graph
from tests.crash.harness import ALIVE_FOR, die_at_rename, ended, exit_code, import_what_it_needs, leftovers, start
from tests.crash.test_crash import JOBS, KILLS, begin, small_graph, state
from tests.learn.steps.test_distributed import free_port

pytestmark = pytest.mark.slow

JOB = JOBS["train rows"]
GRACE = 20
"""The number of seconds after which a process that does not notice the end of the other is killed, as torchrun does."""
KILLED = {"the first": (0,), "the second": (1,), "both": (0, 1)}


def together(command: list[Any], prepare: Callable[[], None] = lambda: None, kill: tuple[int, ...] = (), after: float = ALIVE_FOR) -> bool:
    """Trains with two processes as torchrun starts them; returns whether both came to the end.

    After a time, those of the given ranks are killed. When one has ended early, the other is told to stop, and killed if it does not.
    """
    port = str(free_port())

    def of_rank(rank: int) -> Callable[[], None]:
        def join() -> None:
            os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "RANK": str(rank), "LOCAL_RANK": str(rank)}
            if rank == 0:
                prepare()

        return join

    children = [start(command, of_rank(rank)) for rank in (0, 1)]
    first = ended(children, after)
    if not first:
        for rank in kill:
            os.kill(children[rank], signal.SIGKILL)
        first = ended(children, ALIVE_FOR)
    codes = {child: exit_code(child) for child in first}
    for child in set(children) - set(first):
        if any(codes.values()):
            os.kill(child, signal.SIGTERM)
        if not ended([child], GRACE if any(codes.values()) else ALIVE_FOR):
            os.kill(child, signal.SIGKILL)
        codes[child] = exit_code(child)
    assert set(codes.values()) <= {0, 1, 130, -signal.SIGKILL, -signal.SIGTERM}
    return not any(codes.values())


def check_that_they_continue(command: list[Any], place: Path, after: Any) -> None:
    """Checks that nothing is damaged, and that the same command goes on to the same weights."""
    state(JOB, place)
    assert together([*command, *(JOB.again if (place / "new" / "run.json").exists() else ())])
    assert state(JOB, place) == after
    assert leftovers(place) == []


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    save_graph(small_graph(), folder / "graph")
    import_what_it_needs(begin(JOB, folder, folder / "first"), folder / "modules")
    return folder


def undisturbed(world: Path, place: Path) -> tuple[Any, float]:
    """Returns what two processes learn, and how long it takes."""
    command, began = begin(JOB, world, place), time.perf_counter()
    assert together(command)
    seconds = time.perf_counter() - began
    return state(JOB, place), seconds


def test_a_kill_of_the_first_of_two_processes_at_any_rename_loses_nothing(world, tmp_path):
    after, _ = undisturbed(world, tmp_path / "whole")
    for number in range(1, 99):
        place = tmp_path / str(number)
        command = begin(JOB, world, place)
        if together(command, die_at_rename(number)):
            break
        check_that_they_continue(command, place, after)
    assert number > 1
    print(f"two processes: the first killed at {number - 1} renames")


@pytest.mark.parametrize("who", KILLED)
def test_a_kill_of_processes_at_any_moment_loses_nothing(world, tmp_path, who):
    chance, killed, tries = random.Random(who), 0, 0
    after, seconds = undisturbed(world, tmp_path / "whole")
    while killed < KILLS:
        tries += 1
        place = tmp_path / str(tries)
        command, began = begin(JOB, world, place), time.perf_counter()
        if together(command, kill=KILLED[who], after=seconds * chance.random()):
            seconds = min(seconds, time.perf_counter() - began)  # it was faster than the first time
        else:
            killed += 1
            check_that_they_continue(command, place, after)
        shutil.rmtree(place)
    print(f"two processes, {who} killed at {killed} random moments, ended before in {tries - killed}")
