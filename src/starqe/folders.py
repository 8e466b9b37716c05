"""The project's folders and files on disk: a versioned header, written completely or not at all, flushed before anything is replaced.

A new folder or file is written in a place beside its name, `.NAME.starqe-XXXXXXXX/`:

    lock    locked by the process that writes; the kernel releases it when the process ends for any reason
    new     what is written; it is flushed, and then moved to its name atomically
    old     what was there before, where the system cannot exchange two folders atomically

So a crash or a power cut at any moment leaves the old state or the new one. What a killed process leaves behind is removed by the next
one that writes to the same name. If it was killed between two steps, the next one that reads or writes the name first finishes them.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starqe.disk import exchange, flush, flush_tree, make_folder, move_to_free_name, one_at_a_time
from starqe.errors import StorageError

if TYPE_CHECKING:
    from filelock import BaseFileLock

LOCK = ".lock"
"""The file that a command locks while it works in a folder. The file stays; only the lock counts."""

LARGEST_HEADER = 2**24

_PLACE = re.compile(r"\.(?P<name>.+)\.starqe-[a-z0-9_]{8}", re.DOTALL)
"""Matches the names of the folders in which new folders and files are written."""


def write_header(path: Path, format_: str, version: int, content: dict[str, Any]) -> None:
    """Writes the header of a folder, with a checksum of itself."""
    header = json.loads(json.dumps({"format": format_, "version": version, **content}))  # as it will be read
    path.write_text(json.dumps({**header, "checksum": _header_checksum(header)}, indent=2) + "\n", encoding="utf-8")


def read_header(path: Path, format_: str, version: int = 2**31) -> dict[str, Any]:
    """Reads and checks the header of a folder; headers of earlier versions have no checksum.

    Raises:
        StorageError: There is no header, it is damaged, of something else, or of a version that this starqe does not know.
    """
    noun = format_.removeprefix("starqe ")
    try:
        if not path.parent.exists():
            recover(path.parent)
        header = dict(json.loads(_text_of(path)))
        found_format, found_version = str(header["format"]), int(header["version"])
        recorded = header.pop("checksum", None)
    except OSError as error:
        raise StorageError(f"{path.parent}: not a {noun} folder (no readable {path.name}: {error.strerror})") from None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise StorageError(f"{path}: not the header of a {noun} folder") from None
    if found_format != format_:
        raise StorageError(f"{path.parent}: a {noun} folder is needed, found a {found_format.removeprefix('starqe ')} folder")
    if found_version > version:
        raise StorageError(
            f"{path.parent}: written by a newer starqe ({noun} format {found_version}, this one reads up to {version}). Upgrade starqe"
        )
    if recorded is not None and recorded != (found := _header_checksum(header)):
        raise StorageError(f"{path}: damaged or changed (checksum {found}, recorded {recorded}). Restore it from a copy, or make it again")
    return header


def _header_checksum(header: dict[str, Any]) -> str:
    return checksum(json.dumps(header, sort_keys=True).encode())


def _text_of(path: Path) -> str:
    if (size := path.stat().st_size) > LARGEST_HEADER:
        raise ValueError(f"a header has at most {LARGEST_HEADER} bytes, found {size}")
    return path.read_text(encoding="utf-8")


def checksum(content: bytes | memoryview, before: int = 0) -> str:
    """Computes the checksum that headers hold: CRC-32, which finds damage fast, but does not protect against tampering."""
    return f"{zlib.crc32(content, before):08x}"


def file_checksum(path: Path) -> str:
    """Computes the `checksum` of a file without its whole content in memory."""
    found = 0
    with path.open("rb") as file:
        while block := file.read(1 << 24):
            found = zlib.crc32(block, found)
    return f"{found:08x}"


def read_checked(path: Path, header: Mapping[str, Any], renew: str) -> bytes:
    """Reads a file, and compares it with its checksum in the header of its folder; earlier versions wrote none.

    Raises:
        StorageError: The file is missing or damaged; the message ends with ``renew``.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path}: cannot be read ({error.strerror}). {renew}") from None
    checksums = header.get("checksums", {})
    recorded = checksums.get(path.name) if isinstance(checksums, dict) else ""
    if recorded is not None and recorded != (found := checksum(content)):
        raise StorageError(f"{path}: damaged or changed (checksum {found}, recorded {recorded}). {renew}")
    return content


@contextlib.contextmanager
def new_folder(
    folder: Path, overwrite: bool, check_ours: Callable[[], object], check_last: Callable[[], object] = lambda: None
) -> Iterator[Path]:
    """Yields an empty folder to write into, and moves it to its name atomically when the block succeeds.

    An existing folder is replaced only with ``overwrite`` and if ``check_ours`` does not raise, nor ``check_last`` at the last moment,
    when no other process replaces it. A symbolic link stays, and its target is replaced.

    Raises:
        StorageError: The folder exists and may not be replaced, or the disk refuses. Nothing is left behind.
    """
    replaces = False
    with _refusals(folder):
        target = folder.resolve() if folder.is_symlink() else folder
        recover(target)
        check_free(target, overwrite)
        if replaces := target.exists() and any(target.iterdir()):
            check_ours()
        with _place_for(target) as place:
            new = place / "new"
            new.mkdir()
            yield new
            flush_tree(place)
            if replaces:
                with one_at_a_time(target.parent):
                    check_last()
                    exchange(target, new, place / "old")
            else:
                move_to_free_name(new, target)
            flush(target.parent)
            flush(place)


@contextlib.contextmanager
def new_file(path: Path, overwrite: bool) -> Iterator[Path]:
    """Yields a path to write to, and moves the file to its name atomically when the block succeeds; a symbolic link stays.

    Raises:
        StorageError: The file exists and may not be replaced, or the disk refuses. Nothing is left behind.
    """
    with _refusals(path):
        target = path.resolve() if path.is_symlink() else path
        if target.exists() and not overwrite:
            raise StorageError(f"{path} exists already. Choose another place, or replace it with the option overwrite")
        if target.is_dir():
            raise StorageError(f"{path} is a folder, and a file is written there. Choose another place")
        recover(target)
        with _place_for(target) as place:
            new = place / f"new{target.suffix}"  # some writers look at the suffix
            new.touch()
            mode = new.stat().st_mode
            yield new
            new.chmod(mode)  # some writers make another file, which only its owner can read
            flush(new)
            os.replace(new, target)
            flush(target.parent)


@contextlib.contextmanager
def scratch_folder(folder: Path, name: str) -> Iterator[Path]:
    """Yields an empty folder inside another one for temporary files; what a killed process left there is removed by the next one.

    Raises:
        StorageError: The disk refuses.
    """
    with _refusals(folder):
        recover(folder / name)
        with _place_for(folder / name) as place:
            new = place / "new"
            new.mkdir()
            yield new


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Locks an existing folder for one command at a time; the lock ends with the process. A thread may lock a folder twice.

    Raises:
        StorageError: Another command works in the folder, or the folder cannot be written.
    """
    from filelock import FileLock, Timeout  # importing it takes longer than most of the work here

    lock = FileLock(folder.resolve() / LOCK, is_singleton=True)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise StorageError(f"another command works in {folder}. Wait until it has ended, or choose another folder") from None
    except OSError as error:
        raise StorageError(f"cannot write {folder}: {error.strerror or error}") from error
    try:
        sweep(folder)
        yield
    finally:
        lock.release()


def check_only(folder: Path, names: Collection[str], what: str) -> None:
    """Checks that a folder holds no files but these, so that replacing it loses nothing else.

    Raises:
        StorageError: It holds another file; ``what`` is what the folder should be, such as "an export".
    """
    if foreign := sorted({path.name for path in folder.iterdir()} - set(names)):
        raise StorageError(f"{folder} is not replaced: it holds '{foreign[0]}', which is not part of {what}. Move it elsewhere")


def is_unused(folder: Path) -> bool:
    """Returns whether a folder is missing or empty; a lock and what a killed command left behind do not count.

    Raises:
        StorageError: It is a file, or would be below one.
    """
    _check_no_file(folder)
    if not folder.exists():
        return True
    return all(path.name == LOCK or _PLACE.fullmatch(path.name) for path in folder.iterdir())


def check_free(folder: Path, overwrite: bool) -> None:
    """Checks that a folder can be written: there is none yet, or it may be replaced.

    Raises:
        StorageError: It exists and may not be replaced, is a file, or would be below one.
    """
    _check_no_file(folder)
    if folder.exists() and not overwrite:
        raise StorageError(f"{folder} exists already. Choose another place, or replace it with the option overwrite")


def _check_no_file(folder: Path) -> None:
    """Checks that neither a folder to write nor a folder above it is a file."""
    for path in (folder, *folder.parents):
        if path.exists() and not path.is_dir():
            raise StorageError(f"{path} is a file, and a folder is written there. Choose another place")


def recover(path: Path) -> None:
    """Finishes the write that a killed process began under a name, and removes what it left; running processes are not disturbed."""
    with contextlib.suppress(OSError):  # no such folder, or no permission: nothing to recover
        for beside in list(path.parent.iterdir()):
            if (place := _PLACE.fullmatch(beside.name)) and place["name"] == _short_name(path):
                _finish(beside, path)


def sweep(folder: Path) -> None:
    """Recovers every name in a folder and in those below it: also of files that are complete, and not written again."""
    with contextlib.suppress(OSError):  # what another process removes meanwhile needs no recovery
        for path in sorted(folder.rglob(".*.starqe-*")):
            if place := _PLACE.fullmatch(path.name):
                recover(path.parent / place["name"])


def _finish(place: Path, path: Path) -> None:
    """Finishes or undoes the exchange of a dead process, and removes its place."""
    with _claimed(place) as dead:
        if dead:
            new, old = place / "new", place / "old"
            if old.exists() and not path.exists():  # killed between two steps: both are complete
                os.replace(new if new.exists() else old, path)
                flush(path.parent)
            shutil.rmtree(place)


@contextlib.contextmanager
def _place_for(path: Path) -> Iterator[Path]:
    """Yields a locked folder next to a name; it is removed at the end, and by no other process before."""
    make_folder(path.parent)
    while True:
        place = Path(tempfile.mkdtemp(prefix=f".{_short_name(path)}.starqe-", dir=path.parent))
        with _claimed(place) as is_claimed:
            if not is_claimed:  # another process removed it before it was locked
                continue
            try:
                yield place
            finally:
                shutil.rmtree(place, ignore_errors=True)
            return


@contextlib.contextmanager
def _claimed(place: Path) -> Iterator[bool]:
    """Locks a folder of an unfinished write, and yields whether no other process has locked it."""
    from filelock import FileLock, Timeout

    lock: BaseFileLock = FileLock(place / "lock")
    try:
        lock.acquire(blocking=False)
    except (Timeout, FileNotFoundError):
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _short_name(path: Path) -> str:
    """Returns a file name that leaves room for a prefix and a suffix: a hash of a long one."""
    return path.name if len(os.fsencode(path.name)) <= 200 else hashlib.sha256(os.fsencode(path.name)).hexdigest()


@contextlib.contextmanager
def _refusals(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}. Nothing was changed there") from error
