"""Runs commands in processes that are killed at a rename or at a moment, or whose flushes are watched."""

import contextlib
import importlib
import os
import select
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from starqe import disk, folders
from starqe.cli.main import main

ALIVE_FOR = 900
"""The number of seconds after which a process that hangs is ended."""


def run(
    arguments: list[object],
    prepare: Callable[[], None] = lambda: None,
    end: Callable[[], None] = lambda: None,
    killed_after: float = ALIVE_FOR,
) -> int:
    """Runs a command in a child process: returns its exit code, or minus the signal that ended it. It is killed from outside: at any
    instruction, whatever the interpreter does.
    """
    child = start(arguments, prepare, end)
    if not ended([child], killed_after):
        os.kill(child, signal.SIGKILL)
    return exit_code(child)


def ended(children: list[int], seconds: float) -> list[int]:
    """Waits until one of some children has ended, or until the time is over; returns those that have ended."""
    handles = {os.pidfd_open(child): child for child in children}
    try:
        return [handles[handle] for handle in select.select(list(handles), [], [], seconds)[0]]
    finally:
        for handle in handles:
            os.close(handle)


def exit_code(child: int) -> int:
    """Waits for a child, and returns its exit code, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def start(arguments: list[object], prepare: Callable[[], None], end: Callable[[], None] = lambda: None) -> int:
    """Starts a command in a child process, and returns its id.

    The child is a copy of this process, with all that is imported here, so that the time of a try is that of its work.
    """
    sys.stdout.flush()
    if child := os.fork():
        return child
    code = 99
    try:
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)  # the others were not copied
        prepare()
        sys.argv = ["starqe", *map(str, arguments)]
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        end()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def watch_renames(before: Callable[[str, str], None], after: Callable[[str, str], None] = lambda *_: None) -> None:
    """Calls something before and after every rename or exchange of names."""
    move, swap = os.replace, disk.exchange_names

    def replace(source: Any, target: Any) -> None:
        before(str(source), str(target))
        move(source, target)
        after(str(source), str(target))

    def exchange(one: Path, other: Path) -> bool:
        before(str(one), str(other))
        done = swap(one, other)
        if done:
            after(str(one), str(other))
        return done

    os.replace, disk.exchange_names = replace, exchange  # type: ignore[assignment]


def die_at_rename(number: int, two_renames: bool = False) -> Callable[[], None]:
    """Makes a process die just before a rename, counted from 1; on a system without exchange if wanted."""

    def prepare() -> None:
        if two_renames:
            disk._renameat2 = lambda: None  # type: ignore[assignment]
        left = iter(range(number - 1))
        watch_renames(lambda *_: None if next(left, None) is not None else die())

    return prepare


def import_what_it_needs(arguments: list[object], report: Path) -> None:
    """Runs a command, and imports here what it has imported: later tries have that already."""
    assert run(arguments, end=lambda: report.write_text("\n".join(sys.modules)) and None) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in report.read_text().splitlines():
            with contextlib.suppress(ImportError):  # some names are no modules that can be imported by themselves
                importlib.import_module(name)


class Flushes:
    """Notes what is flushed, and what gets its name without having been: a power cut would lose it."""

    def __init__(self, report: Path) -> None:
        self.report, self.flushed, self.unsure, self.lost = report, {}, {}, []

    def prepare(self) -> None:
        sync = os.fsync

        def fsync(handle: int) -> None:
            path = str(Path(f"/proc/self/fd/{handle}").readlink())
            self.flushed[path] = os.fstat(handle).st_mtime_ns
            self.unsure.pop(path, None)
            sync(handle)

        os.fsync = fsync
        watch_renames(self.before, self.after)

    def before(self, source: str, _: str) -> None:
        for path in _tree(Path(source).absolute()):
            if self.flushed.get(str(path)) != path.stat().st_mtime_ns:
                self.lost.append(f"{path} was renamed before it was flushed")

    def after(self, _: str, target: str) -> None:
        self.unsure[str(Path(target).absolute().parent)] = target

    def end(self) -> None:
        self.lost += [f"the name {target} was not flushed" for target in self.unsure.values()]
        self.report.write_text("\n".join(self.lost))


def _tree(path: Path) -> Iterator[Path]:
    yield path
    if path.is_dir():
        yield from path.rglob("*")


def leftovers(folder: Path) -> list[str]:
    """Finds what killed commands left behind: hidden files and folders, except locks, which stay."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob(".*") if path.name != folders.LOCK)
