import hashlib
import json
from functools import partial
from pathlib import Path

import pytest

from starqe.kg import load_graph
from starqe.kg.published import download as downloading
from starqe.kg.published.datasets import DATASETS, DataFile, DataSet
from tests.kg.file_server import running

CONTENT = {"train.txt": b"a,r,b,q,v\nb,r,a\n", "valid.txt": b"a,r,v\n", "test.txt": b"v,r,b\n"}


@pytest.fixture
def run(starqe, tmp_path, monkeypatch):
    monkeypatch.setenv("STARQE_DATA", str(tmp_path / "home"))
    monkeypatch.delenv("STARQE_MIRROR", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(downloading, "PAUSE", 0.001)
    monkeypatch.chdir(tmp_path)
    return partial(starqe, "data")


@pytest.fixture
def server(monkeypatch):
    with running() as server:
        server.files = {f"/toy/statements/{name}": content for name, content in CONTENT.items()}
        sums = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()} | {"test.txt": None}
        files = tuple(DataFile(name, len(content), sums[name]) for name, content in CONTENT.items())
        monkeypatch.setitem(DATASETS, "toy", DataSet("toy", 4, files, server.url, "CC0", "Nobody: Nothing. 2020"))
        yield server


def test_fetch_says_where_under_which_licence_and_what_to_type_next(run, server, tmp_path):
    code, out, err = run("fetch", "toy")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"{tmp_path}/home/toy: fetched train.txt, valid.txt, test.txt",
        "  checksums  as published: train.txt, valid.txt; as first fetched: test.txt",
        "  licence    CC0",
        "  citation   Nobody: Nothing. 2020",
        "next: starqe data import toy GRAPH",
    ]
    assert run("fetch", "toy")[1].startswith(f"{tmp_path}/home/toy: already here\n")
    assert run("import", "toy", "GRAPH")[:2] == (0, "GRAPH: 4 statements, 3 entities, 2 relations\n  read as statements: 3 files\n")
    assert len(load_graph(Path("GRAPH"))) == 4


def test_fetch_for_programs_prints_json_and_nothing_else(run, server, tmp_path):
    code, out, err = run("fetch", "toy", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "name": "toy",
        "folder": str(tmp_path / "home" / "toy"),
        "brought": list(CONTENT),
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()},
        "licence": "CC0",
        "citation": "Nobody: Nothing. 2020",
    }
    assert json.loads(run("fetch", "toy", "--json")[1])["brought"] == []


def test_trouble_on_the_way_is_reported_on_standard_error(run, server):
    server.plan = [("break", 8)]
    code, out, err = run("fetch", "toy", "--json")
    assert (code, json.loads(out)["brought"]) == (0, list(CONTENT))
    assert err == f"{server.url}/toy/statements/train.txt: the connection broke after 8 of 16 bytes; trying again in 0.001 s (2 of 5)\n"


@pytest.mark.parametrize("how", ["option", "variable"])
def test_another_place_is_given_by_option_or_variable(run, server, tmp_path, monkeypatch, how):
    (tmp_path / "mirror" / "toy").mkdir(parents=True)
    for name, content in CONTENT.items():
        (tmp_path / "mirror" / "toy" / name).write_bytes(content)
    if how == "variable":
        monkeypatch.setenv("STARQE_MIRROR", "mirror")
    assert run("fetch", "toy", *(["--from", "mirror"] if how == "option" else []))[0] == 0
    assert server.sent == []


def test_offline_the_message_names_the_address_the_reason_and_the_ways_out(run):
    with running() as gone:
        url = gone.url
    code, out, err = run("fetch", "wd50k", "--from", url)
    assert (code, out) == (1, "")
    last = err.splitlines()[-1]
    assert last.startswith(f"starqe: cannot fetch wd50k: {url}/wd50k/statements/train.txt: Connection refused (tried 5 times). ")
    assert "fetch from the folder that has wd50k/" in last
    assert "STARQE_DATA" in last


def test_list_shows_what_there_is_and_what_is_here(run, server, tmp_path):
    def states() -> dict[str, str]:
        return {data["name"]: data["here"] for data in json.loads(run("list", "--json")[1])}

    assert states() == {"wd50k": "no", "wd50k_33": "no", "wd50k_66": "no", "wd50k_100": "no", "toy": "no"}
    assert not (tmp_path / "home").exists()
    run("fetch", "toy")
    assert states()["toy"] == "fetched"
    code, out, err = run("list")
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines() if line.strip()]
    assert lines[0] == ["data", "set", "statements", "bytes", "here", "licence"]
    assert ["toy", "4", "28", "fetched", "CC0"] in lines
    assert ["wd50k", "236,507", "5,475,711", "no", "CC", "BY", "4.0"] in lines
    assert out.endswith(f"kept in {tmp_path}/home (STARQE_DATA chooses another folder)\n")


def test_list_for_programs_says_everything(run, server, tmp_path):
    assert json.loads(run("list", "--json")[1])[-1] == {
        "name": "toy",
        "statements": 4,
        "size": 28,
        "licence": "CC0",
        "citation": "Nobody: Nothing. 2020",
        "from": server.url,
        "here": "no",
        "folder": str(tmp_path / "home" / "toy"),
    }


def test_remove_says_what_it_did(run, server, tmp_path):
    run("fetch", "toy")
    (tmp_path / "home" / "toy" / "notes.txt").touch()
    code, out, err = run("remove", "toy")
    folder = tmp_path / "home" / "toy"
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        *[f"removed {folder / name}" for name in (*CONTENT, "dataset.json")],
        f"kept {folder / 'notes.txt'}: starqe did not put it there",
    ]
    (folder / "notes.txt").unlink()
    folder.rmdir()
    run("fetch", "toy")
    assert json.loads(run("remove", "toy", "--json")[1])["kept"] == []
    assert not folder.exists()
    assert run("remove", "toy") == (1, "", f"starqe: toy is not in {tmp_path}/home: there is nothing to remove\n")


def test_remove_refuses_a_folder_that_no_fetch_made(run, tmp_path):
    (tmp_path / "home" / "wd50k").mkdir(parents=True)
    (tmp_path / "home" / "wd50k" / "train.txt").touch()
    code, out, err = run("remove", "wd50k")
    assert (code, out) == (1, "")
    assert "wd50k: a folder that starqe fetched has a dataset.json, found none. It is left alone." in err
    assert (tmp_path / "home" / "wd50k" / "train.txt").exists()


@pytest.mark.parametrize("command", ["fetch", "remove"])
def test_an_unknown_name_is_answered_by_the_names(run, command):
    assert run(command, "x") == (1, "", "starqe: published data sets are wd50k, wd50k_33, wd50k_66, wd50k_100, found 'x'\n")


def test_import_of_a_name_says_what_names_there_are_and_how_to_fetch(run, tmp_path):
    names = "wd50k, wd50k_33, wd50k_66, wd50k_100"
    message = f"starqe: x: there is no such file or folder, and no published data set of that name ({names})\n"
    assert run("import", "x", "GRAPH") == (1, "", message)
    assert run("import", "wd50k", "GRAPH")[2].endswith(f"not in {tmp_path}/home yet. Try: starqe data fetch wd50k\n")
