"""Local copies of published data sets: fetched completely or not at all, checked, and removed.

HOME/wd50k/          the files, and dataset.json with their checksums
HOME/.wd50k.part/    a partial fetch; the next fetch continues from there
HOME/.wd50k.lock     held while a process fetches or removes
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

from starqe.disk import flush, flush_tree
from starqe.errors import InputError, StorageError
from starqe.folders import new_file, read_header, write_header
from starqe.kg.formats.statements import LABELS
from starqe.kg.published.datasets import DataFile, DataSet
from starqe.kg.published.download import check_address, download, forget
from starqe.kg.reading.checksums import DATASET_HEADER as HEADER
from starqe.kg.reading.checksums import FORMAT, VERSION, sha256_of

LONGEST_WAIT = 600.0
"""Seconds to wait for another process that fetches the same data set."""


@dataclass(frozen=True)
class Holding:
    """The local copy of a data set."""

    data: DataSet
    folder: Path
    state: Literal["no", "in part", "by hand", "fetched"]
    """By hand: a folder of that name that was not made by a fetch; it is read like any other, but never removed."""
    size: int
    """Number of bytes present."""


@dataclass(frozen=True)
class Fetched:
    """A data set that is completely present."""

    folder: Path
    brought: tuple[str, ...]
    """The files that were missing or damaged, and fetched."""
    checksums: dict[str, str]
    """The sha256 of every file."""


def holding(data: DataSet, home: Path) -> Holding:
    """Returns the state of the local copy of a data set.

    Raises:
        StorageError: The header of its folder is damaged, or written by a newer starqe.
    """
    folder, part = home / data.name, _part(home, data)
    if folder.is_dir():
        names = _recorded(folder)
        files = [folder / name for name in names or [file.name for file in data.files]]
        return Holding(data, folder, "fetched" if names else "by hand", sum(file.stat().st_size for file in files if file.is_file()))
    arrived = sum((part / file.name).stat().st_size for file in data.files if (part / file.name).is_file())
    return Holding(data, folder, "in part" if arrived else "no", arrived)


def fetch(
    data: DataSet,
    home: Path,
    place: str | None = None,
    advance: Callable[[int], None] = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
) -> Fetched:
    """Fetches the files of a data set that are missing or damaged; existing files are checked first.

    Args:
        data: The data set.
        home: The folder where data sets are kept.
        place: A folder or the address of a mirror, instead of the publishers' address.
        advance: Called with the number of bytes that arrived since the last call (negative if a download restarts).
        say: Called with messages for the user.

    Raises:
        InputError: The place is neither a folder with the data set nor an http(s) address.
        StorageError: A file cannot be fetched or written, has the wrong checksum, or starqe did not make the folder of that name.
    """
    place = place or data.base
    origin, folder = _origin(data, place), home / data.name
    try:
        wanted = _wanted(data, folder, origin)
        missing = _missing(folder, wanted)
        if missing:  # else nothing is written: the folder may be read-only
            with _locked(home, data, say):
                wanted = _wanted(data, folder, origin)
                missing = _missing(folder, wanted)  # fewer, if another process was faster
                if missing:
                    _fetch_files(data, home, origin, {name: wanted[name] for name in missing}, advance, say)
                    _place(data, home, place, wanted, missing)
        return Fetched(folder, tuple(missing), {name: sha256_of(folder / name) for name in wanted})
    except OSError as error:
        raise StorageError(f"cannot keep {data.name} in {home}: {error}. STARQE_DATA chooses another folder") from error


def remove(data: DataSet, home: Path) -> tuple[list[Path], list[Path]]:
    """Removes the files of a fetch, and nothing else; returns what was removed, and other files that remain.

    Raises:
        StorageError: There is nothing to remove, starqe did not make the folder, or it cannot be removed.
    """
    folder, part = home / data.name, _part(home, data)
    if not folder.exists() and not part.exists():
        raise StorageError(f"{data.name} is not in {home}: there is nothing to remove")
    removed: list[Path] = []
    try:
        with _locked(home, data):
            if folder.exists():
                if not (folder / HEADER).exists():
                    raise _not_ours(folder)
                files = [
                    folder / name for name in (*_recorded(folder), HEADER)
                ]  # the header is removed last: it marks the folder as fetched
                removed += [file for file in files if file.exists()]
                for file in removed:
                    file.unlink()
                with contextlib.suppress(OSError):  # other files remain, and are reported
                    folder.rmdir()
            if part.exists():
                shutil.rmtree(part)
                removed.append(part)
            return removed, sorted(folder.iterdir()) if folder.exists() else []
    except OSError as error:
        raise StorageError(f"cannot remove {folder}: {error.strerror or error}") from error


def _part(home: Path, data: DataSet) -> Path:
    return home / f".{data.name}.part"


def _origin(data: DataSet, place: str) -> Path | str:
    """Returns the folder or address of the files."""
    if "://" in place:
        check_address(place)
        return data.address(place)
    tried = [Path(place).expanduser() / data.name / below for below in ("", "statements")]
    for folder in tried:
        if all((folder / file.name).is_file() for file in data.files):
            return folder
    names = ", ".join(file.name for file in data.files)
    raise InputError(f"{place}: a folder with the data set {data.name} has {names} in {tried[0]} or in {tried[1]}, found neither")


def _recorded(folder: Path) -> dict[str, str]:
    """Returns the checksums in the header of a folder; none if no fetch made it."""
    if not (folder / HEADER).exists():
        return {}
    header = read_header(folder / HEADER, FORMAT, VERSION)
    try:
        files = [DataFile(str(name), int(file["bytes"]), str(file["sha256"])) for name, file in header["files"].items()]
    except (AttributeError, InputError, KeyError, TypeError, ValueError) as error:
        raise StorageError(f"{folder / HEADER}: the header is damaged ({error!r}). Remove the folder yourself") from None
    return {file.name: file.sha256 or "" for file in files}


def _not_ours(folder: Path) -> StorageError:
    way_out = "It is left alone. Move it away, or choose another folder with STARQE_DATA"
    return StorageError(f"{folder}: a folder that starqe fetched has a {HEADER}, found none. {way_out}")


def _wanted(data: DataSet, folder: Path, origin: Path | str) -> dict[str, str | None]:
    """Returns the wanted files with their checksums, if known; with labels, if there are any."""
    recorded = _recorded(folder)
    wanted = {file.name: file.sha256 or recorded.get(file.name) for file in data.files}
    if LABELS in recorded or (isinstance(origin, Path) and (origin / LABELS).is_file()):
        wanted[LABELS] = recorded.get(LABELS)
    return wanted


def _missing(folder: Path, wanted: dict[str, str | None]) -> list[str]:
    """Returns the files that are missing or have the wrong checksum."""
    here = {name: checksum for name, checksum in wanted.items() if (folder / name).is_file()}
    sound = {name for name, checksum in here.items() if checksum in (None, sha256_of(folder / name))}
    return [name for name in wanted if name not in sound]


def _fetch_files(
    data: DataSet,
    home: Path,
    origin: Path | str,
    wanted: dict[str, str | None],
    advance: Callable[[int], None],
    say: Callable[[str], None],
) -> None:
    """Fetches files to the folder for partial fetches, and checks them there."""
    folder, part = home / data.name, _part(home, data)
    if folder.exists() and any(folder.iterdir()) and not (folder / HEADER).exists():
        raise _not_ours(folder)
    part.mkdir(exist_ok=True)
    for name, expected in wanted.items():
        if isinstance(origin, Path):
            forget(part / name)
            shutil.copyfile(origin / name, part / name)
            advance((part / name).stat().st_size)
        else:
            try:
                download(f"{origin}/{name}", part / name, advance, say)
            except StorageError as error:
                raise StorageError(f"cannot fetch {data.name}: {error}. {_way_out(data, home)}") from None
        size = {file.name: file.size for file in data.files}.get(name, 0)
        if expected is None and size and (arrived := (part / name).stat().st_size) != size:
            forget(part / name)
            what = f"this file of {data.name} has {size:,} bytes, found {arrived:,}"
            raise StorageError(f"{origin}/{name}: {what}. It was deleted. Try again, or fetch it from another source")
        found = sha256_of(part / name)
        if expected not in (None, found):
            forget(part / name)
            way_out = "It was deleted. Try again, or fetch it from another source"
            raise StorageError(f"{origin}/{name}: the sha256 of this file of {data.name} is {expected}, found {found}. {way_out}")


def _way_out(data: DataSet, home: Path) -> str:
    names = ", ".join(file.name for file in data.files)
    return (
        "What has arrived is kept: the same command continues from there. "
        f"If you have a copy, fetch from the folder that has {data.name}/ with {names}, or set STARQE_DATA to it (now {home})"
    )


def _place(data: DataSet, home: Path, place: str, wanted: dict[str, str | None], missing: list[str]) -> None:
    """Moves fetched files to their place: the whole folder atomically, or single files into an existing fetch."""
    folder, part = home / data.name, _part(home, data)
    with contextlib.suppress(OSError):  # an empty folder is replaced
        folder.rmdir()
    if not folder.exists():
        for path in part.iterdir():
            if path.name not in wanted:
                path.unlink()
        _write_header(part / HEADER, data, place, part, wanted)
        flush_tree(part)
        os.replace(part, folder)
        flush(home)
        return
    for name in missing:
        flush(part / name)
        os.replace(part / name, folder / name)
    with new_file(folder / HEADER, overwrite=True) as beside:
        _write_header(beside, data, place, folder, wanted)
    shutil.rmtree(part)


def _write_header(path: Path, data: DataSet, place: str, folder: Path, wanted: dict[str, str | None]) -> None:
    files = {name: {"bytes": (folder / name).stat().st_size, "sha256": sha256_of(folder / name)} for name in wanted}
    about = {"name": data.name, "from": place, "licence": data.licence, "citation": data.citation}
    write_header(path, FORMAT, VERSION, {**about, "files": files})


@contextlib.contextmanager
def _locked(home: Path, data: DataSet, say: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Locks a data set against other processes; the lock ends with the process."""
    home.mkdir(parents=True, exist_ok=True)
    lock = FileLock(home / f".{data.name}.lock")
    try:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            say(f"waiting for another starqe process that uses {home / data.name}")
            lock.acquire(timeout=LONGEST_WAIT)
    except Timeout:
        raise StorageError(
            f"{home / data.name}: another starqe process has been using it for {LONGEST_WAIT:g} s. Try again later"
        ) from None
    try:
        yield
    finally:
        lock.release()
