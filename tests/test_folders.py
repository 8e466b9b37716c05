import ctypes
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from starqe import disk
from starqe.errors import StorageError
from starqe.folders import is_unused, locked, new_file, new_folder, read_header, write_header

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
    with (
        pytest.raises(StorageError, match=r"exists already\. Choose another place, or replace it with the option overwrite"),
        new_folder(made, False, ours),
    ):
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
    with pytest.raises(StorageError, match="is a file, and a folder is written there"), new_folder(tmp_path / "made", True, ours):
        pass


@pytest.fixture(params=["exchange", "two renames"])
def system(request, monkeypatch) -> str:
    """Systems that exchange two names in one step, and others."""
    if request.param == "two renames":
        monkeypatch.setattr(disk, "_renameat2", lambda: None)
    elif disk._renameat2() is None:
        pytest.skip("this system has no renameat2")
    return request.param


def make(folder: Path, name: str) -> Path:
    folder.mkdir()
    (folder / name).touch()
    return folder


def test_what_stood_there_stays_when_the_last_step_fails(tmp_path, monkeypatch, system):
    made = make(tmp_path / "made", "old")
    move = os.replace

    def refuse_the_new(source, target):
        if Path(source).name == "new":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        move(source, target)

    def refuse(*_: object) -> int:
        ctypes.set_errno(errno.EIO)
        return -1

    monkeypatch.setattr(os, "replace", refuse_the_new)
    if system == "exchange":
        monkeypatch.setattr(disk, "_renameat2", lambda: refuse)
    with pytest.raises(StorageError, match=r"Input/output error\. Nothing was changed there"), new_folder(made, True, ours) as place:
        (place / "file").touch()
    assert names(tmp_path) == ["made"]
    assert names(made) == ["old"]


def test_a_file_system_that_exchanges_no_names_is_served_by_two_renames(tmp_path, monkeypatch):
    def cannot(*_: object) -> int:
        ctypes.set_errno(errno.EINVAL)
        return -1

    monkeypatch.setattr(disk, "_renameat2", lambda: cannot)
    made = make(tmp_path / "made", "old")
    with new_folder(made, True, ours) as place:
        (place / "new").touch()
    assert (names(made), names(tmp_path)) == (["new"], ["made"])


def killed(action: Callable[[], None]) -> None:
    """Runs something in a process of its own that has to end by SIGKILL."""
    if (child := os.fork()) == 0:
        action()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def replace_and_die_at(call: int, made: Path) -> None:
    """Replaces a folder by two renames, and dies at one of them."""
    calls, move = iter(range(1, 9)), os.replace
    disk._renameat2 = lambda: None
    os.replace = lambda source, target: die() if next(calls) == call else move(source, target)
    with new_folder(made, True, ours) as place:
        (place / "new").touch()


@pytest.mark.parametrize(("call", "left"), [(1, "old"), (2, "new")])
def test_a_folder_survives_a_kill_between_two_renames(tmp_path, call, left):
    made = make(tmp_path / "made", "old")
    killed(lambda: replace_and_die_at(call, made))
    assert made.exists() == (call == 1)
    with pytest.raises(StorageError, match=r"no readable h\.json"):  # opening it finds what is missing
        read_header(made / "h.json", "starqe graph")
    assert names(made) == [left]
    with new_folder(made, True, ours) as place:
        (place / "third").touch()
    assert (names(made), names(tmp_path)) == (["third"], ["made"])


def write_slower_than(folder: Path, faster: str) -> None:
    with new_folder(folder, False, ours):
        make(folder, faster)


def test_what_killed_processes_left_is_removed_by_the_next_on_the_same_name_and_what_others_write_stays(tmp_path):
    def begin(name: str) -> None:
        with new_folder(tmp_path / name, False, ours) as place:
            (place / "half").touch()
            die()

    def begin_file() -> None:
        with new_file(tmp_path / "file.txt", False) as beside:
            beside.touch()
            die()

    killed(lambda: begin("made"))
    killed(lambda: begin("made-2"))
    killed(begin_file)
    assert len(names(tmp_path)) == 3
    with new_folder(tmp_path / "made", False, ours) as alive:
        with pytest.raises(StorageError, match="written by another command in the meantime"):
            write_slower_than(tmp_path / "made", "faster")
        assert alive.exists()
        shutil.rmtree(tmp_path / "made")
    assert [name[:8] for name in names(tmp_path)] == [".file.tx", ".made-2.", "made"]
    with new_file(tmp_path / "file.txt", False) as beside:
        beside.touch()
    assert [name[:8] for name in names(tmp_path)] == [".made-2.", "file.txt", "made"]


@pytest.mark.parametrize("below", ["", "below/it"])
def test_what_a_process_killed_after_its_rename_left_is_removed_though_the_file_is_not_written_again(tmp_path, below):
    folder = tmp_path / "folder"

    def write() -> None:
        with new_file(folder / below / "done.json", False) as beside:
            beside.touch()
            os.replace(beside, folder / below / "done.json")
            die()

    killed(write)
    assert len(names(folder / below)) == 2
    with locked(folder):
        assert [name for name in names(folder / below) if name != ".lock"] == ["done.json"]


def test_a_symbolic_link_is_written_through(tmp_path):
    real, link = make(tmp_path / "real", "old"), tmp_path / "link"
    link.symlink_to("real")
    with new_folder(link, True, ours) as place:
        (place / "new").touch()
    assert link.is_symlink()
    assert names(real) == ["new"]
    (tmp_path / "file-link").symlink_to("file")
    for text in ("one", "two"):
        with new_file(tmp_path / "file-link", True) as beside:
            beside.write_text(text)
    assert (tmp_path / "file-link").is_symlink()
    assert (tmp_path / "file").read_text() == "two"


def test_a_name_as_long_as_names_can_be_is_written(tmp_path):
    path = tmp_path / ("n" * 255)
    with new_folder(path, False, ours) as place:
        (place / "file").touch()
    with pytest.raises(StorageError, match="File name too long"), new_folder(tmp_path / ("n" * 256), False, ours):
        pass
    assert names(tmp_path) == [path.name]


def test_everything_is_on_the_disk_before_anything_old_goes(tmp_path, monkeypatch, system):
    made, events = make(tmp_path / "made", "old"), []
    sync, move, tidy, swap = os.fsync, os.replace, shutil.rmtree, disk.exchange_names

    def path_of(handle: int) -> str:
        path = Path(f"/proc/self/fd/{handle}").readlink().relative_to(tmp_path)
        return "/".join("place" if ".starqe-" in part else part for part in path.parts) or "."

    monkeypatch.setattr(os, "fsync", lambda handle: (events.append(f"flush {path_of(handle)}"), sync(handle))[1])
    monkeypatch.setattr(os, "replace", lambda *pair: (events.append("rename"), move(*pair))[1])
    monkeypatch.setattr(disk, "exchange_names", lambda *pair: swap(*pair) and (events.append("rename"), True)[1])
    monkeypatch.setattr(shutil, "rmtree", lambda *args, **more: (events.append("remove"), tidy(*args, **more))[1])
    with new_folder(made, True, ours) as place:
        (place / "deep").mkdir()
        (place / "deep" / "file").write_text("x")
    first, last = events.index("rename"), len(events) - 1 - events[::-1].index("rename")
    assert {"flush place/new/deep/file", "flush place/new/deep", "flush place/new", "flush place"} <= set(events[:first])
    assert {"flush .", "flush place"} <= set(events[last : events.index("remove")])
    events.clear()
    with new_file(tmp_path / "sub" / "file.txt", True) as beside:
        beside.write_text("x")
    assert events[-4:] == ["flush sub/place/new.txt", "rename", "flush sub", "remove"]
    assert "flush ." in events[:-4]  # the name of the folder that was made for it


def test_a_folder_that_is_locked_is_refused_to_others_at_once_and_free_after_a_kill(tmp_path):
    def lock_and_die() -> None:
        with locked(tmp_path):
            die()

    with locked(tmp_path), locked(tmp_path):  # one thread may lock it twice
        other = subprocess.run([sys.executable, "-c", LOCK_IT, str(tmp_path)], capture_output=True, text=True, check=False)
        assert other.stdout == f"another command works in {tmp_path}. Wait until it has ended, or choose another folder\n"
    killed(lock_and_die)
    other = subprocess.run([sys.executable, "-c", LOCK_IT, str(tmp_path)], capture_output=True, text=True, check=False)
    assert other.stdout == "locked\n"
    assert is_unused(tmp_path)


LOCK_IT = """
import sys
from pathlib import Path
from starqe.errors import StorageError
from starqe.folders import locked
try:
    with locked(Path(sys.argv[1])):
        print("locked")
except StorageError as error:
    print(error)
"""


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
