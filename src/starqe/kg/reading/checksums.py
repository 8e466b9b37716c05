"""Compares source files with the checksums that came with them: a fetched data set has some, and other files may have one beside them."""

import hashlib
from pathlib import Path

from starqe.errors import InputError
from starqe.folders import read_header

DATASET_HEADER = "dataset.json"
FORMAT, VERSION = "starqe data set", 1
BESIDE = ".sha256"
"""A file with this added to its name has the checksum of the file, as the program ``sha256sum`` writes it."""


def sha256_of(path: Path) -> str:
    """Computes the checksum of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_source(source: Path) -> None:
    """Compares a file, or each file of a folder, with its checksum if there is one.

    Raises:
        InputError: A file is not what its checksum says.
        StorageError: The header of a fetched data set is damaged.
    """
    if source.is_file():
        _compare(source, _beside(source), "Restore it from a copy")
    elif source.is_dir():
        for path in sorted(source.glob(f"*{BESIDE}")):
            if (file := path.with_name(path.name.removesuffix(BESIDE))).is_file():
                _compare(file, _beside(file), "Restore it from a copy")
        if (source / DATASET_HEADER).is_file():
            files = read_header(source / DATASET_HEADER, FORMAT, VERSION).get("files")
            for name, recorded in files.items() if isinstance(files, dict) else ():
                if (source / name).is_file() and isinstance(recorded, dict):
                    _compare(source / name, recorded.get("sha256"), f"Fetch it again: starqe data fetch {source.name}")


def _beside(path: Path) -> str | None:
    """Reads the first word of the file with the checksum."""
    try:
        with path.with_name(path.name + BESIDE).open("rb") as stream:
            return (stream.read(200).split() or [b""])[0].decode("ascii", "replace").lower()
    except OSError:
        return None


def _compare(path: Path, recorded: object, way_out: str) -> None:
    if recorded and recorded != (found := sha256_of(path)):
        raise InputError(f"{path}: damaged or changed (its sha256 is {found[:12]}…, and {str(recorded)[:12]}… is recorded). {way_out}")
