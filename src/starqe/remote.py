"""Folders on other file systems, by address: ``s3://bucket/graph``, ``hdfs://host:8020/graph``, and whatever else fsspec reaches.

They are written from a temporary folder of this machine, and read into one. No other file system moves a folder atomically. So a new
folder is first written inside the place of the old one:

    .starqe-new/           the files of the new folder
    .starqe-new/complete   written last: from now on, readers find the new folder here
    ...                    the files under their names, copied from there; then .starqe-new/complete is deleted, and the rest

So a reader finds the old folder or the new one, whenever the writer is killed; one that reads while it is replaced may get an error, and
never a mixture, since the header has the checksums of the files. The next writer finishes or removes what a killed one left. Two writers
at once are not kept apart.
"""

import contextlib
import re
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from starqe.errors import StarqeError, StorageError, UnsupportedError

_ADDRESS = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+):/{1,2}(?P<rest>[^/].*)", re.DOTALL)
Stamp = tuple[int, int]
NEW, COMPLETE = ".starqe-new/", ".starqe-new/complete"


def address(path: Path) -> str | None:
    """Returns the address that a path stands for; None for a path of this machine.

    A path has ``s3:/bucket/graph`` where the address has two slashes. So the host or bucket is always named.
    """
    found = _ADDRESS.fullmatch(path.as_posix())
    if found is None:
        return None
    from fsspec import available_protocols

    return f"{found['scheme']}://{found['rest']}" if found["scheme"] in available_protocols() else None


@contextlib.contextmanager
def local_copy(folder: Path, *wanted: str) -> Iterator[Path]:
    """Yields a copy of a folder on this machine: all its files, or those that match one of some patterns, such as ``train/*``.

    Raises:
        StorageError: The file system cannot be read.
        UnsupportedError: The package for this file system is missing.
    """
    with _Remote(folder) as remote, tempfile.TemporaryDirectory(prefix="starqe-") as place:
        local = Path(place) / "copy"
        remote.download(local, wanted)
        with _named(local, remote.address):
            yield local


@contextlib.contextmanager
def replaced(folder: Path, header: str, files: Collection[str], overwrite: bool) -> Iterator[Path]:
    """Yields a path of this machine for a new folder, and copies the folder to its address at the end.

    Args:
        folder: The address.
        header: The file that makes the folder what it is.
        files: All files that it may have; a folder with others is not replaced.
        overwrite: Whether an existing one is replaced.

    Raises:
        StorageError: The folder exists and may not be replaced, or the file system cannot be written.
        UnsupportedError: The package for this file system is missing.
    """
    with _Remote(folder) as remote, tempfile.TemporaryDirectory(prefix="starqe-") as place:
        remote.finish(files)
        there = remote.files()
        if there and not overwrite:
            raise StorageError(f"{remote.address} exists already. Choose another place, or replace it with the option overwrite")
        if there and (header not in there or not set(there) <= {*files}):
            foreign = sorted(set(there) - {*files}) or [f"no {header}"]
            raise StorageError(f"{remote.address} is not replaced: it holds {foreign[0]}. Choose another place")
        local = Path(place) / "new"
        with _named(local, remote.address):
            yield local
        (local / COMPLETE).parent.mkdir()
        (local / COMPLETE).touch()
        remote.upload(local, sorted(path.name for path in local.iterdir() if path.is_file()), NEW)
        remote.upload(local, [COMPLETE])
        remote.finish(files)


@contextlib.contextmanager
def continued(folder: Path, header: str) -> Iterator[Path]:
    """Yields a copy of a folder on this machine, or a path for a new one; what is new or changed in it is copied back, its header first.

    Files are copied also after an error: what was finished is kept. With its header, a part of them can be continued.

    Raises:
        StorageError: The file system cannot be read or written.
        UnsupportedError: The package for this file system is missing.
    """
    with _Remote(folder) as remote, tempfile.TemporaryDirectory(prefix="starqe-") as place:
        local = Path(place) / "copy"
        remote.download(local)
        before = _stamps(local)
        try:
            with _named(local, remote.address):
                yield local
        finally:
            changed = sorted(name for name, stamp in _stamps(local).items() if before.get(name) != stamp)
            remote.upload(local, sorted(changed, key=lambda name: name != header))


def _stamps(folder: Path) -> dict[str, Stamp]:
    """Returns size and time of each file; unfinished and hidden ones do not count."""
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.exists() else []
    names = {path: path.relative_to(folder) for path in files}
    return {
        name.as_posix(): (path.stat().st_size, path.stat().st_mtime_ns)
        for path, name in names.items()
        if not any(part.startswith(".") for part in name.parts)
    }


@contextlib.contextmanager
def _named(local: Path, name: str) -> Iterator[None]:
    """Puts the address into errors, in place of the folder on this machine."""
    try:
        yield
    except StarqeError as error:
        raise type(error)(str(error).replace(str(local), name)) from error


class _Remote:
    """A folder on a file system of fsspec; all that its methods raise become a `StorageError`."""

    def __init__(self, folder: Path) -> None:
        self.address = address(folder) or str(folder)
        try:
            from fsspec.core import url_to_fs

            self._system, self._root = url_to_fs(self.address)
        except ImportError as error:
            raise UnsupportedError(f"{self.address}: a package for this file system is missing ({error})") from None
        except Exception as error:
            raise StorageError(f"{self.address}: cannot be reached ({error})") from error

    def __enter__(self) -> "_Remote":
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Exception) and not isinstance(error, StarqeError):
            raise StorageError(f"{self.address}: the file system refuses ({str(error) or type(error).__name__})") from error

    def files(self) -> list[str]:
        """Returns the names of all files in the folder and below it."""
        self._system.invalidate_cache()
        root = self._root.rstrip("/") + "/"
        return sorted(path[path.index(root) + len(root) :] for path in self._system.find(self._root))

    def download(self, local: Path, wanted: Collection[str] = ()) -> None:
        """Copies all files to this machine, or those that match a pattern."""
        there = self.files()
        inside = NEW if COMPLETE in there else ""
        for path in sorted(set(there) - {COMPLETE}):
            name = path.removeprefix(inside)
            if path == inside + name and (inside or not path.startswith(NEW)) and (not wanted or any(map(Path(name).match, wanted))):
                (local / name).parent.mkdir(parents=True, exist_ok=True)
                self._system.get_file(self._remote(path), str(local / name))

    def upload(self, local: Path, names: Collection[str], inside: str = "") -> None:
        """Copies files of this machine to the folder, in this order."""
        for name in names:
            self._system.makedirs(self._remote(inside + name).rpartition("/")[0], exist_ok=True)
            self._system.put_file(str(local / name), self._remote(inside + name))

    def finish(self, files: Collection[str]) -> None:
        """Puts the files of a complete new folder under their names, and removes what is left of it or of an incomplete one.

        Args:
            files: All files that the folder may have: of these, those that the new one lacks are deleted.
        """
        there = self.files()
        staged = [name for name in there if name.startswith(NEW) and name != COMPLETE]
        if COMPLETE in there:
            for path in staged:
                self._copy(path, path.removeprefix(NEW))
            self.delete([name for name in there if name in files and NEW + name not in staged])
            self.delete([COMPLETE])
        self.delete(staged)

    def _copy(self, name: str, other: str) -> None:
        from fsspec import AbstractFileSystem

        if type(self._system).cp_file is not AbstractFileSystem.cp_file:
            self._system.cp_file(self._remote(name), self._remote(other))
            return
        with tempfile.TemporaryDirectory(prefix="starqe-") as place:  # some can only read and write
            self._system.get_file(self._remote(name), f"{place}/copy")
            self._system.put_file(f"{place}/copy", self._remote(other))

    def delete(self, names: Collection[str]) -> None:
        """Deletes files of the folder."""
        for name in names:
            self._system.rm_file(self._remote(name))

    def _remote(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"
