import errno
import json
import os
from pathlib import Path

import pytest

from starqe.errors import StorageError
from starqe.folders import new_file, new_folder, read_header, write_header

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def ours() -> None:
    """Agrees to replace."""


def write_and_fail(path: Path, error: BaseException) -> None:
    path.write_text("half")
    raise error


def test_a_header_reads_back_with_its_content(tmp_path):
    write_header(tmp_path / "h.json", "starqe graph", 3, {"statements": 7})
    assert read_header(tmp_path / "h.json", "starqe graph", 3) == {"format": "starqe graph", "version": 3, "statements": 7}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not the header of a graph folder"),
        ("[1]", "not the header of a graph folder"),
        ('"text"', "not the header of a graph folder"),
        ('{"format": "starqe graph"}', "not the header of a graph folder"),
        ('{"format": "starqe graph", "version": "x"}', "not the header of a graph folder"),
        ('{"format": "starqe queries", "version": 1}', "a graph folder is needed, found a queries folder"),
        (
            '{"format": "starqe graph", "version": 4}',
            r"written by a newer starqe \(graph format 4, this one reads up to 3\). Upgrade starqe",
        ),
    ],
)
def test_a_header_of_something_else_is_refused(tmp_path, content, message):
    (tmp_path / "h.json").write_text(content)
    with pytest.raises(StorageError, match=message):
        read_header(tmp_path / "h.json", "starqe graph", 3)


def test_a_header_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "h.json").write_bytes(json.dumps({"format": "é"}, ensure_ascii=False).encode("latin-1"))
    with pytest.raises(StorageError, match="not the header"):
        read_header(tmp_path / "h.json", "starqe graph")


def test_a_missing_header_names_the_folder(tmp_path):
    with pytest.raises(StorageError, match=rf"^{tmp_path}: not a graph folder \(no readable h\.json: No such file"):
        read_header(tmp_path / "h.json", "starqe graph")


def test_a_folder_appears_whole_and_alone(tmp_path):
    with new_folder(tmp_path / "made", False, ours) as place:
        (place / "file").write_text("x")
        assert not (tmp_path / "made").exists()
    assert names(tmp_path) == ["made"]
    assert names(tmp_path / "made") == ["file"]


@pytest.mark.parametrize("error", [RuntimeError("bug"), KeyboardInterrupt()])
def test_a_folder_that_was_not_finished_leaves_nothing_behind(tmp_path, error):
    with pytest.raises(type(error)), new_folder(tmp_path / "made", False, ours) as place:
        write_and_fail(place / "file", error)
    assert names(tmp_path) == []


def test_a_full_disk_leaves_nothing_behind_and_says_so(tmp_path):
    message = r"cannot write .*made: No space left on device\. Nothing was changed there"
    with pytest.raises(StorageError, match=message), new_folder(tmp_path / "made", False, ours) as place:
        write_and_fail(place / "file", FULL)
    assert names(tmp_path) == []


def test_a_folder_that_exists_is_replaced_only_when_wanted(tmp_path):
    made = tmp_path / "made"
    made.mkdir()
    (made / "old").touch()
    with pytest.raises(StorageError, match=r"exists already\. Choose another place, or give --overwrite"), new_folder(made, False, ours):
        pass
    with new_folder(made, True, ours) as place:
        (place / "new").touch()
    assert names(made) == ["new"]
    assert names(tmp_path) == ["made"]


def test_a_folder_of_something_else_is_never_replaced(tmp_path):
    (tmp_path / "precious").touch()

    def not_ours() -> None:
        raise StorageError("that is not ours")

    with pytest.raises(StorageError, match="not ours"), new_folder(tmp_path, True, not_ours):
        pass
    assert names(tmp_path) == ["precious"]


def test_a_file_is_never_replaced_by_a_folder(tmp_path):
    (tmp_path / "made").touch()
    with pytest.raises(StorageError, match="is a file; only a folder is replaced by a folder"), new_folder(tmp_path / "made", True, ours):
        pass


def test_what_stood_there_comes_back_when_the_last_step_fails(tmp_path, monkeypatch):
    made = tmp_path / "made"
    made.mkdir()
    (made / "old").touch()
    move = os.replace

    def refuse_the_new(source, target):
        if Path(source).name == "new":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        move(source, target)

    monkeypatch.setattr(os, "replace", refuse_the_new)
    with pytest.raises(StorageError, match=r"Input/output error\. Nothing was changed there"), new_folder(made, True, ours) as place:
        (place / "file").touch()
    assert names(tmp_path) == ["made"]
    assert names(made) == ["old"]


def test_a_file_appears_whole_and_is_replaced_only_when_wanted(tmp_path):
    path = tmp_path / "deep" / "file.txt"
    with new_file(path, False) as beside:
        beside.write_text("one")
        assert not path.exists()
    with pytest.raises(StorageError, match="exists already"), new_file(path, False):
        pass
    with new_file(path, True) as beside:
        beside.write_text("two")
    assert path.read_text() == "two"
    assert names(path.parent) == ["file.txt"]


def test_a_file_that_was_not_finished_leaves_the_old_one_alone(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    with pytest.raises(StorageError, match=r"cannot write .*file\.txt: No space left on device"), new_file(path, True) as beside:
        write_and_fail(beside, FULL)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file.txt"]
