"""Folders of ours on disk: a versioned header, and never a half-written one."""

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from starqe.errors import StorageError


def write_header(path: Path, format_: str, version: int, content: dict[str, Any]) -> None:
    """Writes the header of a folder."""
    path.write_text(json.dumps({"format": format_, "version": version, **content}, indent=2) + "\n", encoding="utf-8")


def read_header(path: Path, format_: str, version: int = 2**31) -> dict[str, Any]:
    """Reads and checks the header of a folder.

    Raises:
        StorageError: There is no header, it is of something else, or of a version that this starqe does not know.
    """
    noun = format_.removeprefix("starqe ")
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
        found_format, found_version = str(header["format"]), int(header["version"])
    except OSError as error:
        raise StorageError(f"{path.parent}: not a {noun} folder (no readable {path.name}: {error.strerror})") from None
    except (ValueError, KeyError, TypeError):
        raise StorageError(f"{path}: not the header of a {noun} folder") from None
    if found_format != format_:
        raise StorageError(f"{path.parent}: a {noun} folder is needed, found a {found_format.removeprefix('starqe ')} folder")
    if found_version > version:
        raise StorageError(
            f"{path.parent}: written by a newer starqe ({noun} format {found_version}, this one reads up to {version}). Upgrade starqe"
        )
    return dict(header)


@contextlib.contextmanager
def new_folder(folder: Path, overwrite: bool, check_ours: Callable[[], object]) -> Iterator[Path]:
    """Gives a place beside the folder to write into, and moves it there in one step when all went well.

    What stands there is replaced only if that is wanted and ``check_ours`` does not raise.

    Raises:
        StorageError: The folder exists and may not be replaced, or the disk refuses. Nothing is left behind.
    """
    if folder.exists():
        if not overwrite:
            raise StorageError(f"{folder} exists already. Choose another place, or give --overwrite to replace it")
        if not folder.is_dir():
            raise StorageError(f"{folder} is a file; only a folder is replaced by a folder")
        if any(folder.iterdir()):
            check_ours()
    place = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        content = place / "new"
        content.mkdir()
        yield content
        _exchange(folder, content, place / "old")
    except OSError as error:
        raise StorageError(f"cannot write {folder}: {error.strerror or error}. Nothing was changed there") from error
    finally:
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)


def _exchange(folder: Path, new: Path, old: Path) -> None:
    """Moves a new folder to its place, and what stands there aside; back again if that fails."""
    if folder.exists():
        os.replace(folder, old)
    try:
        os.replace(new, folder)
    except BaseException:
        if old.exists():
            os.replace(old, folder)
        raise


@contextlib.contextmanager
def new_file(path: Path, overwrite: bool) -> Iterator[Path]:
    """Gives a path beside the file to write to, and moves it there in one step when all went well.

    Raises:
        StorageError: The file exists and may not be replaced, or the disk refuses. Nothing is left behind.
    """
    if path.exists() and not overwrite:
        raise StorageError(f"{path} exists already. Choose another place, or give --overwrite to replace it")
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield beside
        os.replace(beside, path)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}. Nothing was changed there") from error
    finally:
        with contextlib.suppress(OSError):  # the error that matters is on its way
            beside.unlink(missing_ok=True)
