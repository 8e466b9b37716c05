import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from starqe.errors import InputError, StorageError
from starqe.kg import graph_stats, import_graph
from starqe.kg.published import download as downloading
from starqe.kg.published.datasets import DATASETS, DataFile, DataSet
from starqe.kg.published.fetch import HEADER, fetch, holding, remove
from tests.kg.file_server import running
from tests.places import DATA

TRAIN = b"".join(b"e%d,r,e%d\n" % (number, number + 1) for number in range(10_000))
VALID, TEST = b"e1,r,e3\n", b"e1,r,e4,q,e2\n"
CONTENT = {"train.txt": TRAIN, "valid.txt": VALID, "test.txt": TEST}
LABELS = b"e1\tthe first\n"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def published(base: str, checksums: bool = True) -> DataSet:
    files = tuple(DataFile(name, len(content), sha256(content) if checksums else None) for name, content in CONTENT.items())
    return DataSet("toy", 10_002, files, base, "CC0", "Nobody: Nothing. 2020")


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(downloading, "PAUSE", 0.001)
    with running() as server:
        server.files = {f"/toy/statements/{name}": content for name, content in CONTENT.items()}
        yield server


@pytest.fixture
def mirror(tmp_path) -> Path:
    (tmp_path / "mirror" / "toy").mkdir(parents=True)
    for name, content in CONTENT.items():
        (tmp_path / "mirror" / "toy" / name).write_bytes(content)
    return tmp_path / "mirror"


@pytest.fixture
def home(tmp_path) -> Path:
    return tmp_path / "home"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def check_whole(home: Path, **more: bytes) -> None:
    """Checks that the data set is there, all of it, and nothing else but the lock."""
    expected = {**CONTENT, **{name.replace("_", "."): content for name, content in more.items()}}
    assert names(home) == [".toy.lock", "toy"]
    assert {name: (home / "toy" / name).read_bytes() for name in names(home / "toy") if name != HEADER} == expected
    header = json.loads((home / "toy" / HEADER).read_text())
    assert (header["format"], header["version"], header["name"], header["licence"]) == ("starqe data set", 1, "toy", "CC0")
    assert header["files"] == {name: {"bytes": len(content), "sha256": sha256(content)} for name, content in expected.items()}


def test_a_data_set_comes_whole_with_a_header(server, home):
    steps: list[int] = []
    got = fetch(published(server.url), home, advance=steps.append)
    assert got.folder == home / "toy"
    assert got.brought == ("train.txt", "valid.txt", "test.txt")
    assert got.checksums == {name: sha256(content) for name, content in CONTENT.items()}
    assert sum(steps) == sum(map(len, CONTENT.values()))
    check_whole(home)


def test_what_is_here_and_sound_is_not_asked_for_again(server, home):
    fetch(published(server.url), home)
    server.files.clear()
    assert fetch(published(server.url), home).brought == ()
    assert len(server.sent) == 3


def test_a_fetch_that_failed_leaves_no_data_set_and_the_next_one_takes_only_the_rest(server, home):
    server.plan = [("break", 50_000), ("serve", None), ("status", 404)]
    with pytest.raises(StorageError, match=r"cannot fetch toy: .*/toy/statements/valid.txt: the server answers 404 Not Found"):
        fetch(published(server.url), home)
    assert not (home / "toy").exists()
    assert holding(published(server.url), home).state == "in part"
    fetch(published(server.url), home)
    check_whole(home)
    assert sum(count for _, _, count in server.sent) == sum(map(len, CONTENT.values()))


def test_a_wrong_file_is_refused_and_leaves_nothing_in_place(server, home):
    server.files["/toy/statements/test.txt"] = b"an error page\n"
    message = rf"/toy/statements/test.txt: the sha256 of this file of toy is {sha256(TEST)}, found {sha256(b'an error page' + bytes([10]))}"
    with pytest.raises(StorageError, match=message):
        fetch(published(server.url), home)
    assert not (home / "toy").exists()
    assert "test.txt" not in names(home / ".toy.part")
    server.files["/toy/statements/test.txt"] = TEST
    fetch(published(server.url), home)
    check_whole(home)


def test_a_damaged_or_missing_file_is_mended_and_what_others_put_there_stays(server, home):
    fetch(published(server.url), home)
    (home / "toy" / "valid.txt").write_bytes(VALID.upper())
    (home / "toy" / "test.txt").unlink()
    (home / "toy" / "notes.txt").write_bytes(b"mine")
    assert fetch(published(server.url), home).brought == ("valid.txt", "test.txt")
    assert (home / "toy" / "notes.txt").read_bytes() == b"mine"
    (home / "toy" / "notes.txt").unlink()
    check_whole(home)


def test_a_checksum_that_is_not_published_is_recorded_and_checked_from_then_on(server, home):
    data = published(server.url, checksums=False)
    assert fetch(data, home).checksums["train.txt"] == sha256(TRAIN)
    check_whole(home)
    server.files["/toy/statements/valid.txt"] = b"e1,r,e9\n"
    assert fetch(data, home).brought == ()
    (home / "toy" / "valid.txt").write_bytes(b"damaged")
    with pytest.raises(StorageError, match=f"the sha256 of this file of toy is {sha256(VALID)}, found {sha256(b'e1,r,e9' + bytes([10]))}"):
        fetch(data, home)
    remove(data, home)  # forgets the record
    assert fetch(data, home).checksums["valid.txt"] == sha256(b"e1,r,e9\n")


def test_everything_is_on_the_disk_before_a_data_set_has_its_name(server, home, monkeypatch):
    flushed, move = [], os.replace
    monkeypatch.setattr("starqe.disk.os.fsync", lambda handle: flushed.append(os.readlink(f"/proc/self/fd/{handle}")))  # noqa: PTH115

    def replace(source, target):
        within = [source, *source.rglob("*")]
        assert {str(path) for path in within} <= set(flushed)
        move(source, target)

    monkeypatch.setattr("starqe.kg.published.fetch.os.replace", replace)
    fetch(published(server.url), home)
    assert flushed[-1] == str(home)
    (home / "toy" / "valid.txt").write_bytes(b"damaged")
    fetch(published(server.url), home)
    assert str(home / "toy") == flushed[-1]


def test_a_process_that_is_killed_leaves_what_arrived_and_the_next_one_continues(server, home):
    program = "import sys; from pathlib import Path; from starqe.kg.published.datasets import DataFile, DataSet; "
    program += "from starqe.kg.published.fetch import fetch; "
    program += f"fetch(DataSet('toy', 1, (DataFile('train.txt', 1, {sha256(TRAIN)!r}),), sys.argv[1]), Path(sys.argv[2]))"
    command = [sys.executable, "-B", "-c", program, server.url, str(home)]
    server.plan = [("stall", 70_000)]
    with subprocess.Popen(command) as process:
        part = home / ".toy.part" / "train.txt"
        assert server.stalled.wait(30)
        while not part.exists() or part.stat().st_size < 70_000:
            assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert names(home) == [".toy.lock", ".toy.part"]
    assert subprocess.run(command, check=False).returncode == 0
    assert (home / "toy" / "train.txt").read_bytes() == TRAIN
    assert names(home) == [".toy.lock", "toy"]
    assert server.sent == [("train.txt", None, 70_000), ("train.txt", "bytes=70000-", len(TRAIN) - 70_000)]


def test_ctrl_c_keeps_what_arrived(server, home):
    def interrupt(_: int) -> None:
        if server.sent:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(published(server.url), home, advance=interrupt)
    assert names(home) == [".toy.lock", ".toy.part"]
    fetch(published(server.url), home)
    check_whole(home)


def test_several_at_once_fetch_it_once_and_all_have_it(server, home):
    said: list[str] = []
    got: list[tuple[str, ...]] = []
    server.plan = [("stall", 1000)]
    crowd = [threading.Thread(target=lambda: got.append(fetch(published(server.url), home, say=said.append).brought)) for _ in range(4)]
    for thread in crowd:
        thread.start()
    assert server.stalled.wait(30)
    while len(said) < 3:
        assert all(thread.is_alive() for thread in crowd)
    server.go_on.set()
    for thread in crowd:
        thread.join()
    assert sorted(got) == [(), (), (), ("train.txt", "valid.txt", "test.txt")]
    assert said[:3] == [f"waiting for another starqe process that uses {home / 'toy'}"] * 3
    check_whole(home)
    assert sum(count for _, _, count in server.sent) == sum(map(len, CONTENT.values()))


def test_a_missing_server_is_reported_with_the_address_and_the_ways_out(home, monkeypatch):
    monkeypatch.setattr(downloading, "PAUSE", 0.001)
    with running() as gone:
        url = gone.url
    with pytest.raises(StorageError) as caught:
        fetch(published(url), home)
    assert str(caught.value) == (
        f"cannot fetch toy: {url}/toy/statements/train.txt: Connection refused (tried 5 times). What has arrived is kept: the same command "
        "continues from there. If you have a copy, fetch from the folder that has toy/ with train.txt, valid.txt, test.txt, "
        f"or set STARQE_DATA to it (now {home})"
    )
    assert holding(published(url), home).state == "no"


@pytest.mark.parametrize("below", ["", "statements"])
def test_a_local_mirror_is_copied_and_checked(home, mirror, below):
    if below:
        (mirror / "toy").rename(mirror / "files")
        (mirror / "toy").mkdir()
        (mirror / "files").rename(mirror / "toy" / below)
    assert fetch(published("http://127.0.0.1:9"), home, str(mirror)).brought == tuple(CONTENT)
    check_whole(home)
    remove(published(""), home)
    (mirror / "toy" / below / "test.txt").write_bytes(b"changed")
    with pytest.raises(StorageError, match=rf"test.txt: the sha256 of this file of toy is {sha256(TEST)}, found {sha256(b'changed')}"):
        fetch(published(""), home, str(mirror))
    assert not (home / "toy").exists()


def test_labels_come_along_where_there_are_any_and_also_later(server, home, mirror):
    fetch(published(server.url), home)
    (mirror / "toy" / "labels.tsv").write_bytes(LABELS)
    assert fetch(published(""), home, str(mirror)).brought == ("labels.tsv",)
    check_whole(home, labels_tsv=LABELS)
    assert fetch(published(server.url), home).brought == ()
    assert import_graph(home / "toy")[0].entities.labels[""]


@pytest.mark.parametrize("place", ["nowhere", "."])
def test_a_folder_without_the_data_set_is_refused_before_anything_is_written(home, tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        InputError, match=rf"^{place}: a folder with the data set toy has train.txt, valid.txt, test.txt in .*found neither"
    ):
        fetch(published(""), home, place)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_is_neither_folder_nor_web_is_refused(home):
    with pytest.raises(InputError, match="found 'file:///data'"):
        fetch(published(""), home, "file:///data")
    assert not home.exists()


def test_a_copy_that_was_put_there_by_hand_is_used_and_left_as_it_is(mirror):
    before = names(mirror)
    assert holding(published(""), mirror).state == "by hand"
    assert fetch(published("http://127.0.0.1:9"), mirror).brought == ()
    assert (names(mirror), names(mirror / "toy")) == (before, sorted(CONTENT))


def test_a_folder_that_no_fetch_made_is_neither_filled_nor_removed(server, home):
    (home / "toy").mkdir(parents=True)
    (home / "toy" / "thesis.txt").write_text("chapter 1")
    for act in (fetch, remove):
        with pytest.raises(StorageError, match=r"toy: a folder that starqe fetched has a dataset.json, found none. It is left alone."):
            act(published(server.url), home)
    assert names(home / "toy") == ["thesis.txt"]
    assert server.sent == []


def test_an_empty_folder_gives_way_but_is_not_removed(server, home):
    (home / "toy").mkdir(parents=True)
    with pytest.raises(StorageError, match="It is left alone"):
        remove(published(server.url), home)
    fetch(published(server.url), home)
    check_whole(home)


def test_remove_takes_what_fetch_made_and_only_that(server, home):
    data = published(server.url)
    fetch(data, home)
    (home / "toy" / "notes.txt").write_text("mine")
    (home / "toy" / "valid.txt").unlink()
    removed, kept = remove(data, home)
    assert [path.name for path in removed] == ["train.txt", "test.txt", HEADER]
    assert kept == [home / "toy" / "notes.txt"]
    assert names(home / "toy") == ["notes.txt"]


def test_remove_takes_what_has_arrived_of_an_unfinished_fetch(server, home):
    server.plan = [("break", 5000), ("status", 404)]
    with pytest.raises(StorageError):
        fetch(published(server.url), home)
    assert remove(published(server.url), home) == ([home / ".toy.part"], [])
    assert names(home) == [".toy.lock"]
    with pytest.raises(StorageError, match=r"toy is not in .*: there is nothing to remove"):
        remove(published(server.url), home)


def test_a_header_cannot_point_remove_at_other_files(server, home):
    fetch(published(server.url), home)
    (home / "precious").write_text("x")
    header = json.loads((home / "toy" / HEADER).read_text())
    header["files"]["../precious"] = {"bytes": 1, "sha256": ""}
    header["checksum"] = None  # whoever changes it on purpose knows that too
    (home / "toy" / HEADER).write_text(json.dumps(header))
    with pytest.raises(StorageError, match=r"the header is damaged .*a name without folders"):
        remove(published(server.url), home)
    assert (home / "precious").exists()
    assert (home / "toy" / "train.txt").exists()


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ('{"format": "starqe graph", "version": 1}', "a data set folder is needed"),
        ('{"format": "starqe data set", "version": 99}', "newer"),
    ],
)
def test_a_header_of_something_else_is_refused(server, home, header, message):
    fetch(published(server.url), home)
    (home / "toy" / HEADER).write_text(header)
    for act in (fetch, remove, holding):
        with pytest.raises(StorageError, match=message):
            act(published(server.url), home)
    assert len(names(home / "toy")) == 4


def test_a_home_that_cannot_be_written_is_reported_with_the_way_out(server, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"^cannot keep toy in .*STARQE_DATA chooses another folder$"):
        fetch(published(server.url), tmp_path / "file" / "home")


def test_what_is_here_is_counted(server, home):
    data = published(server.url)
    assert (holding(data, home).state, holding(data, home).size) == ("no", 0)
    fetch(data, home)
    assert (holding(data, home).state, holding(data, home).size) == ("fetched", data.size)


@pytest.mark.skipif(not (DATA / "wd50k").is_dir(), reason="WD50K is not here")
def test_wd50k_from_a_local_mirror_has_the_published_checksums_and_numbers(home):
    got = fetch(DATASETS["wd50k"], home, str(DATA))
    assert got.brought == ("train.txt", "valid.txt", "test.txt", "labels.tsv")
    assert holding(DATASETS["wd50k"], home).size == DATASETS["wd50k"].size + (DATA / "wd50k" / "labels.tsv").stat().st_size
    graph = import_graph(got.folder)[0]
    stats = graph_stats(graph)
    assert (stats["statements"], stats["with_qualifiers"], stats["entities"], stats["relations"]) == (236_507, 32_167, 47_155, 531)
    assert graph.fingerprint == import_graph(DATA / "wd50k")[0].fingerprint
    fetch(DATASETS["wd50k_100"], home, str(DATA))
    assert len(import_graph(home / "wd50k_100")[0]) == DATASETS["wd50k_100"].statements
