"""Folders on other file systems, by address: ``s3://bucket/graph``, ``hdfs://host:8020/graph``, and whatever else fsspec reaches.

They are written from a temporary folder of this machine, and read into one. No other file system moves a folder atomically, so the
order is the promise: a folder is what its header says, the header is deleted first and written last, and it has the checksums of the
files. So a reader finds the old folder, none, or the new one; one that reads while it is replaced gets an error, and never a mixture.
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
    """Yields a path of this machine for a new folder, and copies the folder to its address at the end: its header last.

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
        there = remote.files()
        if there and not overwrite:
            raise StorageError(f"{remote.address} exists already. Choose another place, or replace it with the option overwrite")
        if there and (header not in there or not set(there) <= {*files}):
            foreign = sorted(set(there) - {*files}) or [f"no {header}"]
            raise StorageError(f"{remote.address} is not replaced: it holds {foreign[0]}. Choose another place")
        local = Path(place) / "new"
        with _named(local, remote.address):
            yield local
        remote.delete([header] if header in there else [])
        new = sorted(path.name for path in local.iterdir())
        remote.upload(local, [name for name in new if name != header])
        remote.delete(sorted(set(there) - {header, *new}))
        remote.upload(local, [header])


@contextlib.contextmanager
def continued(folder: Path, header: str) -> Iterator[Path]:
    """Yields a copy of a folder on this machine, or a path for a new one; what is new or changed in it is copied back, its header last.

    Files are copied also after an error: what was finished is kept.

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
            remote.upload(local, [*(name for name in changed if name != header), *(name for name in changed if name == header)])


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
        for name in self.files():
            if not wanted or any(Path(name).match(pattern) for pattern in wanted):
                (local / name).parent.mkdir(parents=True, exist_ok=True)
                self._system.get_file(self._remote(name), str(local / name))

    def upload(self, local: Path, names: Collection[str]) -> None:
        """Copies files of this machine to the folder, in this order."""
        for name in names:
            self._system.makedirs(self._remote(name).rpartition("/")[0], exist_ok=True)
            self._system.put_file(str(local / name), self._remote(name))

    def delete(self, names: Collection[str]) -> None:
        """Deletes files of the folder."""
        for name in names:
            self._system.rm_file(self._remote(name))

    def _remote(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"
