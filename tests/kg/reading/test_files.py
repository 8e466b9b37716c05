import bz2
import gzip
import io
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from starqe.errors import InputError
from starqe.kg.reading.files import CHUNK, FREE_EXPANSION, OPENERS, STDIN, open_guarded, whole_lines

MIB = 2**20


def zstd(data: bytes) -> bytes:
    return pa.Codec("zstd").compress(data, asbytes=True)


COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstd}


def lines_of(count: int) -> bytes:
    """Makes lines that hardly compress: a truncated file would otherwise fit one block."""
    return b"".join(os.urandom(16).hex().encode() + b"\n" for _ in range(count))


def bomb(extension: str, line: bytes, size: int) -> bytes:
    """Makes a small archive of much content, from joined small archives, which is the fast way."""
    return COMPRESS[extension](line * (900_000 // len(line))) * (size // 900_000 + 1)


def content(path: Path, max_line: int = MIB) -> bytes:
    with open_guarded(path, max_line) as stream:
        return b"".join(whole_lines(stream))


def test_every_compression_is_tested():
    assert COMPRESS.keys() == OPENERS.keys()


@pytest.mark.parametrize("extension", COMPRESS)
def test_compressed_files_read_as_what_they_were(tmp_path, extension):
    path, data = tmp_path / f"file.txt{extension}", lines_of(1000) + b"without an end"
    path.write_bytes(COMPRESS[extension](data))
    assert content(path) == data


@pytest.mark.parametrize("extension", COMPRESS)
def test_joined_archives_read_as_joined_files(tmp_path, extension):
    path = tmp_path / f"file.txt{extension}"
    path.write_bytes(COMPRESS[extension](b"a\n") + COMPRESS[extension](b"b\n"))
    assert content(path) == b"a\nb\n"


@pytest.mark.parametrize("extension", COMPRESS)
@pytest.mark.parametrize("share", [0.3, 0.7, 0.999])
def test_a_truncated_archive_is_refused(tmp_path, extension, share):
    path, archive = tmp_path / f"file.txt{extension}", COMPRESS[extension](lines_of(2000))
    path.write_bytes(archive[: int(len(archive) * share)])
    with pytest.raises(InputError, match=rf"^{path}:1: the file is truncated or damaged at this line or soon after \(.+\)"):
        content(path)


@pytest.mark.parametrize("extension", COMPRESS)
def test_a_damaged_archive_is_refused(tmp_path, extension):
    path = tmp_path / f"file.txt{extension}"
    path.write_bytes(b"a,r,b\n" * 10)
    with pytest.raises(InputError, match=rf"^{path}:1: the file is truncated or damaged"):
        content(path)


def test_a_scribble_in_an_archive_is_refused(tmp_path):
    for extension in (".gz", ".bz2"):
        path, archive = tmp_path / f"file.txt{extension}", bytearray(COMPRESS[extension](lines_of(2000)))
        archive[len(archive) // 2] ^= 0xFF
        path.write_bytes(archive)
        with pytest.raises(InputError, match="truncated or damaged"):
            content(path)


def test_damage_is_reported_with_its_line(tmp_path):
    path, good = tmp_path / "file.txt.gz", lines_of(300_000)  # more than one piece of 8 MiB
    path.write_bytes(gzip.compress(good, 1) + b"no archive")
    with pytest.raises(InputError) as caught:
        content(path)
    assert str(caught.value).startswith(f"{path}:{good[: 8 * MIB].count(10) + 1}: the file is truncated")


def test_pieces_end_at_line_ends(tmp_path):
    path, data = tmp_path / "file.txt", lines_of(600_000) + b"last"
    path.write_bytes(data)
    with open_guarded(path, MIB) as stream:
        pieces = list(whole_lines(stream))
    assert len(pieces) > 1
    assert b"".join(pieces) == data
    assert all(piece.endswith(b"\n") for piece in pieces[:-1])
    assert pieces[-1].endswith(b"last")


def test_a_long_line_between_short_ones_of_the_same_chunk_is_refused(tmp_path):
    path = tmp_path / "file.txt"
    path.write_bytes(b"a\nb\n" + b"x" * 3 * MIB + b"\nc\n")
    assert path.stat().st_size < CHUNK
    with pytest.raises(InputError, match=rf"^{path}:3: a line has at most 1 MiB"):
        content(path)


def test_a_line_that_is_too_long_is_refused_with_its_number(tmp_path):
    path = tmp_path / "file.txt"
    path.write_bytes(b"a\nb\n" + b"x" * 9 * MIB)
    with pytest.raises(InputError, match=rf"^{path}:3: a line has at most 1 MiB. Is this file in another format\?"):
        content(path)


def test_a_missing_or_unreadable_file_is_refused(tmp_path):
    for path, why in ((tmp_path / "none.txt", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(InputError, match=rf"^{path}: cannot be opened \({why}\)"):
            open_guarded(path, MIB)
    for extension in OPENERS:
        with pytest.raises(InputError, match="cannot be opened"):
            open_guarded(tmp_path / f"none{extension}", MIB)


@pytest.mark.parametrize("extension", COMPRESS)
def test_an_archive_that_expands_without_end_is_refused(tmp_path, extension):
    path = tmp_path / f"file.txt{extension}"
    path.write_bytes(bomb(extension, b"a,r,b\n", FREE_EXPANSION + 9 * MIB))
    with pytest.raises(
        InputError, match=r"a compressed file may expand 50 times \(or to 16 MiB\), and the first [\d,]+ bytes of this one make "
    ):
        content(path)


@pytest.mark.parametrize("extension", COMPRESS)
def test_standard_input_that_expands_without_end_is_refused(tmp_path, monkeypatch, extension):
    path = tmp_path / "file"
    path.write_bytes(bomb(extension, b"a,r,b\n", FREE_EXPANSION + 9 * MIB))
    with path.open("rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
        with pytest.raises(InputError, match="-: a compressed file may expand 50 times"):
            content(STDIN)


def test_a_bomb_behind_honest_statements_is_refused(tmp_path):
    path = tmp_path / "file.txt.gz"
    honest = gzip.compress("".join(f"{number * 7919 % 1_000_003},r,b\n" for number in range(40_000)).encode())
    path.write_bytes(honest + bomb(".gz", b"a,r,b\n", 2**24) * 3)
    with pytest.raises(InputError, match="a compressed file may expand 50 times"):
        content(path)


GROWTH = """
import resource, sys
from pathlib import Path
from starqe.errors import InputError
from starqe.kg import import_graph
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    import_graph(Path(sys.argv[1]))
except InputError as error:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, error)
"""


def growth_and_error(path: Path) -> tuple[float, str]:
    """Imports in a process of its own: the growth of its memory in MB, and the error that it met."""
    result = subprocess.run([sys.executable, "-c", GROWTH, str(path)], capture_output=True, text=True, check=True)
    growth, _, error = result.stdout.partition(" ")
    return int(growth) / 1000, error


@pytest.mark.full
def test_a_line_of_100_megabytes_is_refused_in_bounded_memory(tmp_path):
    path = tmp_path / "file.txt"
    path.write_bytes(b"a,r,b\n" + b"x" * 100_000_000)
    growth, error = growth_and_error(path)
    assert error.startswith(f"{path}:2: a line has at most 1 MiB")
    assert growth < 80


@pytest.mark.parametrize("extension", COMPRESS)
def test_a_bomb_of_one_line_is_refused_in_bounded_memory(tmp_path, extension):
    path = tmp_path / f"bomb.txt{extension}"
    path.write_bytes(bomb(extension, b"x", 1_000_000_000))
    growth, error = growth_and_error(path)
    assert error.startswith(f"{path}:1: a line has at most 1 MiB")
    assert growth < 80


@pytest.mark.slow
@pytest.mark.parametrize("line", [b"\n", b"a,r,b\n"], ids=["blank lines", "statements"])
def test_a_bomb_of_many_lines_is_refused_in_bounded_memory(tmp_path, line):
    path = tmp_path / "bomb.txt.zst"
    path.write_bytes(bomb(".zst", line, 1_000_000_000))
    growth, error = growth_and_error(path)
    assert "a compressed file may expand 50 times" in error
    assert growth < 400  # of 1 GB
