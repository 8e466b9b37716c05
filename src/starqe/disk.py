"""Durable writes: flushing files and folders to the disk, and exchanging names atomically."""

import contextlib
import ctypes
import errno
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from starqe.errors import StorageError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


def exchange(folder: Path, new: Path, old: Path) -> None:
    """Moves a new folder to its name: atomically where the system supports it, else in two steps, which `folders.recover` can finish."""
    if exchange_names(new, folder):
        return
    os.replace(folder, old)
    try:
        os.replace(new, folder)
    except BaseException:
        os.replace(old, folder)
        raise


def move_to_free_name(new: Path, folder: Path) -> None:
    """Moves a new folder to a name that is free or an empty folder; what another process has written there meanwhile is not replaced."""
    try:
        if os.name == "nt" and folder.exists():
            folder.rmdir()  # Windows replaces no folder, not even an empty one
        os.replace(new, folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        raise StorageError(f"{folder} was written by another command in the meantime. Choose another place") from None


@contextlib.contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Lets one process after the other run a short block about the names in a folder, where the system can lock folders."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems lock no folders
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


AT_FDCWD, RENAME_EXCHANGE = -100, 2


def exchange_names(one: Path, other: Path) -> bool:
    """Exchanges two names atomically; returns False where the system cannot."""
    if (renameat2 := _renameat2()) is None:
        return False
    if renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM):  # the file system cannot do it
        return False
    raise OSError(code, os.strerror(code))


@functools.cache
def _renameat2() -> Callable[..., int] | None:
    """Finds the C library's renameat2: Linux has it, with glibc from 2.28 on and musl from 1.2.6 on."""
    try:
        return ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return None


def make_folder(folder: Path) -> None:
    """Creates a folder and its parents, and flushes the parents of the new ones."""
    missing = [above for above in (folder, *folder.parents) if not above.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        flush(made.parent)


def flush_tree(folder: Path) -> None:
    """Waits until a folder with all its content is on the disk."""
    for path, _, files in os.walk(folder):
        for name in files:
            flush(Path(path, name))
        flush(Path(path))


def flush(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk."""
    if os.name == "nt" and path.is_dir():
        return  # Windows cannot open folders, and flushes names by itself
    handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system without it
            raise
    finally:
        os.close(handle)
