import bz2
import gzip
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from starqe.cli.import_choices import form_names
from starqe.kg import (
    FORMS,
    SPLITS,
    Statement,
    check_split,
    embedded_graph,
    export_graph,
    graph_of,
    graph_stats,
    load_graph,
    save_graph,
)
from starqe.kg.reading import files

Run = Callable[..., tuple[int, str, str]]
GRAPH = graph_of([Statement("a", "r", "b", (("q", "v"),)), Statement("b", "r", "a")])
PNG = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de")
COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True)}


def splits_in(folder: Path, **texts: str) -> Path:
    """Writes a folder with one statement file per split."""
    folder.mkdir()
    for split, text in texts.items():
        (folder / f"{split}.txt").write_text(text)
    return folder


@pytest.fixture
def run(starqe) -> Run:
    return partial(starqe, "data")


@pytest.fixture
def source(tmp_path) -> Path:
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "file.txt"
    path.write_text("a,r,b,q,v\nb,r,a\n")
    return path


@pytest.fixture
def stored(tmp_path) -> Path:
    save_graph(GRAPH, tmp_path / "graph")
    return tmp_path / "graph"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_import_writes_the_graph_and_says_what_it_has(run, source, tmp_path):
    code, out, err = run("import", source, tmp_path / "graph")
    assert (code, out, err) == (0, f"{tmp_path / 'graph'}: 2 statements, 3 entities, 2 relations\n  read as statements: 1 file\n", "")
    assert load_graph(tmp_path / "graph").fingerprint == GRAPH.fingerprint
    assert names(tmp_path) == ["graph", "in"]


def test_import_for_programs_prints_json_and_nothing_else(run, source, tmp_path):
    code, out, err = run("import", source, tmp_path / "graph", "--json")
    assert (code, err) == (0, "")
    nothing = {
        "skipped": 0,
        "problems": [],
        "duplicates": 0,
        "unasserted": 0,
        "in_several_graphs": 0,
        "literals": {},
        "left_out": {},
        "records": {},
        "forms": {"statements": 1},
        "idle_labels": 0,
        "notes": [],
    }
    assert json.loads(out) == {**graph_stats(GRAPH), "report": nothing}


def test_import_skips_malformed_lines_counts_them_and_lists_the_first_ten(run, source, tmp_path):
    source.write_text("a,r,b,q,v\n" + "x,y\n" * 12 + "b,r,a\nb,r,a\n")
    code, out, err = run("import", source, tmp_path / "graph", "--on-error", "skip")
    assert (code, err) == (0, "")
    assert "malformed statements or records left out: 12" in out
    assert "repeated statements merged: 1" in out
    assert [line.split(": ")[0].strip() for line in out.splitlines() if "3 fields" in line] == [f"{source}:{n}" for n in range(2, 12)]
    assert load_graph(tmp_path / "graph").fingerprint == GRAPH.fingerprint


BAD = {
    "malformed line": ("file.txt", b"a,r,b\na,r\n", "file.txt:2: a statement has 3 fields and then pairs, found 2."),
    "odd number of qualifier fields": ("file.txt", b"a,r,b,q\n", "file.txt:1: a statement has 3 fields and then pairs, found 4 fields"),
    "latin-1": ("file.txt", "a,r,é\n".encode("latin-1"), "file.txt:1: text is UTF-8, found the byte 0xe9. Convert the file"),
    "UTF-16": ("file.txt", "a,r,b\n".encode("utf-16"), "file.txt:1: text is UTF-8, found the byte 0xff. Convert the file"),
    "empty": ("file.txt", b"", "file.txt: a statement file has one statement per line, found an empty file"),
    "PNG": ("file.txt", PNG, "file.txt:1: text is UTF-8, found the byte 0x89. Convert the file, or is it in another format?"),
    "unknown extension": ("file.xlsx", b"a,r,b\n", "file.xlsx: the form is detected by the extension"),
    "long line": ("file.txt", b"a,r,b\n" + b"x" * 9_000_000, "file.txt:2: a line has at most 1 MiB"),
    "Turtle": ("file.ttl", b"<a> <b>", "file.ttl"),
    "N-Triples": ("file.nt", b"a,r,b\n", "file.nt:1"),
    **{
        f"truncated {extension}": (
            f"file.txt{extension}",
            compress(b"".join(os.urandom(8).hex().encode() + b",r,b\n" for _ in range(2000)))[:-500],
            f"file.txt{extension}:1: the file is truncated or damaged",
        )
        for extension, compress in COMPRESS.items()
    },
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("earlier", [False, True], ids=["new", "over an earlier graph"])
def test_bad_input_is_exit_code_1_with_its_place_and_leaves_no_graph(run, tmp_path, kind, earlier):
    name, content, message = BAD[kind]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(content)
    if earlier:
        save_graph(GRAPH, tmp_path / "graph")
    code, out, err = run("import", tmp_path / "in" / name, tmp_path / "graph", "--overwrite", "--json")
    assert (code, out) == (1, "")
    assert err.startswith(f"starqe: {tmp_path / 'in'}/{message}")
    assert "Traceback" not in err
    assert names(tmp_path) == (["graph", "in"] if earlier else ["in"])
    if earlier:
        assert load_graph(tmp_path / "graph").fingerprint == GRAPH.fingerprint


@pytest.mark.parametrize("extension", COMPRESS)
def test_an_archive_that_expands_without_end_is_refused(run, monkeypatch, tmp_path, extension):
    monkeypatch.setattr(files, "FREE_EXPANSION", 2**20)
    (tmp_path / "in").mkdir()
    bomb = tmp_path / "in" / f"file.txt{extension}"
    bomb.write_bytes(COMPRESS[extension](b"a,r,b\n" * 150_000) * 9)
    code, out, err = run("import", bomb, tmp_path / "graph")
    assert (code, out) == (1, "")
    assert err.startswith(f"starqe: {bomb}: a compressed file may expand 50 times (or to 1 MiB), and the first ")
    assert names(tmp_path) == ["in"]


def test_a_zip_file_is_refused(run, tmp_path):
    (tmp_path / "in").mkdir()
    with zipfile.ZipFile(tmp_path / "in" / "file.csv", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("train.txt", "".join(f"a{number * 7919 % 1009},r,b\n" for number in range(2000)))
    code, out, err = run("import", tmp_path / "in" / "file.csv", tmp_path / "graph")
    assert (code, out) == (1, "")
    assert "in another format?" in err
    assert names(tmp_path) == ["in"]


def test_one_bad_file_of_a_folder_is_enough(run, tmp_path):
    code, _, err = run("import", splits_in(tmp_path / "in", train="a,r,b\n", test="a,r,b\n\nb,r\n"), tmp_path / "graph")
    assert code == 1
    assert err.startswith(f"starqe: {tmp_path}/in/test.txt:3: ")
    assert names(tmp_path) == ["in"]


def test_a_missing_source_is_exit_code_1(run, tmp_path):
    assert run("import", tmp_path / "x", tmp_path / "y") == (1, "", f"starqe: {tmp_path}/x: there is no such file or folder\n")


def test_a_full_disk_is_exit_code_1_and_leaves_nothing_behind(source, tmp_path):
    program = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    program += "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); from starqe.cli.main import main; main()"
    command = [sys.executable, "-B", "-c", program, "data", "import", str(source), str(tmp_path / "graph")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(f"starqe: cannot write {tmp_path / 'graph'}: ")
    assert "File too large" in result.stderr
    assert names(tmp_path) == ["in"]


def test_an_existing_graph_is_kept_unless_it_is_to_be_overwritten(run, source, stored):
    source.write_text("x,r,y\n")
    code, _, err = run("import", source, stored)
    assert code == 1
    assert err == f"starqe: {stored} exists already. Choose another place, or replace it with the option overwrite\n"
    assert load_graph(stored).fingerprint == GRAPH.fingerprint
    assert run("import", source, stored, "--overwrite")[0] == 0
    assert load_graph(stored).fingerprint == graph_of([Statement("x", "r", "y")]).fingerprint


def test_an_existing_graph_is_noticed_before_hours_of_reading(run, stored, tmp_path):
    assert "exists already" in run("import", tmp_path / "not even there", stored)[2]


def test_a_graph_folder_that_holds_more_is_not_replaced_and_noticed_as_early(run, stored, tmp_path):
    (stored / "queries").mkdir()
    code, _, err = run("import", tmp_path / "not even there", stored, "--overwrite")
    assert code == 1
    assert "is not replaced: it holds 'queries', which is not part of a graph. Move it elsewhere" in err
    assert (stored / "queries").is_dir()


def test_a_folder_of_something_else_is_never_replaced(run, source, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.doc").touch()
    code, _, err = run("import", source, tmp_path / "thesis", "--overwrite")
    assert code == 1
    assert "thesis: not a graph folder" in err
    assert names(tmp_path / "thesis") == ["chapter1.doc"]


def test_a_split_is_transductive_and_decided_by_the_seed(run, tmp_path):
    source = tmp_path / "file.txt"
    source.write_text("".join(",".join(s.fields()) + "\n" for s in embedded_graph().statements(*SPLITS)))
    made = {}
    for name, seed in (("one", 1), ("again", 1), ("two", 2)):
        assert run("import", source, tmp_path / name, "--split", "0.8,0.1,0.1", "--seed", seed)[0] == 0
        made[name] = load_graph(tmp_path / name)
    assert check_split(made["one"]).clean
    assert (made["one"].split == 2).sum() > 50
    assert made["one"].fingerprint == made["again"].fingerprint != made["two"].fingerprint


@pytest.mark.parametrize("form", ["statements", "trig"])
def test_a_source_that_has_splits_is_not_split_again(run, tmp_path, form):
    given = graph_of([Statement("a", "r", "b"), Statement("b", "r", "a")], test=[Statement("a", "r", "a")])
    place = tmp_path / ("in" if FORMS[form].folder else "in.trig")
    export_graph(given, place, form)
    code, out, err = run("import", place, tmp_path / "graph", "--split", "0.8,0.1,0.1")
    assert (code, out) == (1, "")
    assert f"{place} has splits already (train 2, valid 0, test 1), and --split would make training statements of its test" in err
    assert names(tmp_path) == [place.name]
    assert run("import", place, tmp_path / "graph")[0] == 0
    assert load_graph(tmp_path / "graph").fingerprint == given.fingerprint


@pytest.mark.parametrize(("split", "code"), [("0.8,0.2", 2), ("most,some,few", 2), ("0.8,0.8,0.8", 1), ("nan,0.5,0.5", 1)])
def test_an_invalid_split_is_refused_before_anything_is_written(run, source, tmp_path, split, code):
    found, out, err = run("import", source, tmp_path / "graph", "--split", split)
    assert (found, out) == (code, "")
    assert "three shares" in err
    assert names(tmp_path) == ["in"]


def test_splits_that_are_given_are_kept_and_their_findings_reported(run, tmp_path):
    code, out, _ = run("import", splits_in(tmp_path / "in", train="a,r,b\n", valid="a,r,b\nb,s,c\n"), tmp_path / "graph")
    assert code == 0
    first, form, title, *findings = out.splitlines()
    assert first.endswith("3 statements, 3 entities, 2 relations")
    assert form == "  read as statements: 2 files"
    assert title == "  the splits are kept as given, and are not transductive:"
    assert [line.rsplit(maxsplit=1) for line in findings] == [
        ["  entities of valid not in train", "1"],
        ["  relations of valid not in train", "1"],
        ["  triples in train and valid", "1"],
        ["  statements in several splits", "1"],
    ]
    assert load_graph(tmp_path / "graph").split.tolist() == [0, 1, 1]


@pytest.mark.parametrize("arguments", [["--on-error", "ignore"], ["--format", "excel"], ["--seed", "x"], ["--unasserted", "maybe"]])
def test_an_invalid_choice_is_wrong_use(run, source, tmp_path, arguments):
    code, out, _ = run("import", source, tmp_path / "graph", *arguments)
    assert (code, out) == (2, "")
    assert names(tmp_path) == ["in"]


@pytest.mark.parametrize("destination", ["out", "out.trig", "out.reified.nq"])
def test_export_lists_its_files_and_import_gives_the_graph_back(run, stored, tmp_path, destination):
    code, out, err = run("export", stored, tmp_path / destination)
    assert (code, err) == (0, "")
    assert out.startswith(f"{tmp_path / destination}")
    assert out.endswith(" bytes\n")
    form = ["--format", "reification"] if "reified" in destination else []
    assert run("import", tmp_path / destination, tmp_path / "again", *form)[0] == 0
    assert load_graph(tmp_path / "again").fingerprint == GRAPH.fingerprint


def test_export_for_programs_prints_json_and_nothing_else(run, stored, tmp_path):
    code, out, err = run("export", stored, tmp_path / "out.nq", "--entity-base", "http://example.org/", "--json")
    assert (code, json.loads(out), err) == (0, {"files": [str(tmp_path / "out.nq")]}, "")
    assert "<http://example.org/a>" in (tmp_path / "out.nq").read_text()


def test_export_with_an_invalid_base_is_refused(run, stored, tmp_path):
    code, out, err = run("export", stored, tmp_path / "out.nq", "--entity-base", "no iri")
    assert (code, out) == (1, "")
    assert err == "starqe: a base is an absolute IRI such as 'http://example.org/', found 'no iri'\n"
    assert names(tmp_path) == ["graph"]


def test_stats_for_people_and_for_programs(run, stored):
    code, out, err = run("stats", stored, "--json")
    assert (code, json.loads(out), err) == (0, graph_stats(GRAPH), "")
    code, out, err = run("stats", stored)
    lines = {line.rsplit("  ", 1)[0].strip(): line.rsplit("  ", 1)[-1].strip() for line in out.splitlines()}
    assert (code, err) == (0, "")
    assert (lines["statements"], lines["with qualifiers"], lines["languages"]) == ("2", "1", "none")


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda folder: (folder / "graph.json").unlink(), "not a graph folder"),
        (lambda folder: (folder / "graph.json").write_text('{"format": "starqe graph", "version": 99}'), "written by a newer starqe"),
        (lambda folder: (folder / "pairs.parquet").write_bytes(b"PAR1"), "damaged"),
    ],
)
@pytest.mark.parametrize("command", ["stats", "export"])
def test_a_folder_that_cannot_be_read_is_exit_code_1(run, stored, tmp_path, harm, message, command):
    harm(stored)
    code, out, err = run(command, stored, *([tmp_path / "out"] if command == "export" else []))
    assert (code, out) == (1, "")
    assert err.startswith(f"starqe: {stored}")
    assert f": {message}" in err
    assert names(tmp_path) == ["graph"]


def test_the_forms_on_the_command_line_are_the_forms_there_are(run, source, tmp_path):
    code, out, err = run("import", source, tmp_path / "graph", "--format", "excel")
    assert (code, out) == (2, "")
    assert f"'excel' is not one of {', '.join(FORMS)}" in " ".join(err.replace("│", " ").split())
    assert form_names("nt") == ["ntriples"]
    assert {"nquads", "n3", "nary"} < set(form_names("n")) < set(FORMS)


def test_update_replaces_the_graph_keeps_its_ids_and_says_what_it_did(run, stored, tmp_path):
    (tmp_path / "more.csv").write_text("aa,r,b\nb,r,a\n")
    (tmp_path / "less.csv").write_text("a,r,b,q,v\nx,r,y\n")
    code, out, _ = run("update", stored, tmp_path / "more.csv", "--remove", tmp_path / "less.csv")
    assert code == 0
    assert "statements: 1 added, 1 removed" in out
    assert "new entities: 1, new relations: 0" in out
    assert "statements to add that the graph has already: 1" in out
    assert "statements to remove that the graph does not have: 1" in out
    grown = load_graph(stored)
    assert list(grown.entities) == ["a", "b", "v", "aa"]
    assert set(grown.statements("train")) == {Statement("aa", "r", "b"), Statement("b", "r", "a")}


def test_update_writes_elsewhere_on_demand_and_counts_in_json(run, stored, tmp_path):
    (tmp_path / "more.nt").write_text("<urn:starqe:entity:a> <urn:starqe:relation:r> <urn:starqe:entity:v> .\n")
    code, out, _ = run("update", stored, tmp_path / "more.nt", "--out", tmp_path / "new", "--split", "test", "--json")
    found = json.loads(out)
    assert (code, found["added"], found["new_entities"], found["statements"]) == (0, 1, 0, 3)
    assert list(load_graph(tmp_path / "new").statements("test")) == [Statement("a", "r", "v")]
    assert load_graph(stored).fingerprint == GRAPH.fingerprint
    code, _, error = run("update", stored, tmp_path / "more.nt", "--out", tmp_path / "new")
    assert (code, "exists already" in error) == (1, True)


def test_a_diff_is_what_an_update_needs(run, stored, tmp_path):
    after = graph_of([Statement("b", "r", "a"), Statement("c", "r", "a", (("q", "b"),))], test=[Statement("a", "r", "b", (("q", "v"),))])
    save_graph(after, tmp_path / "after")
    code, out, _ = run("diff", stored, tmp_path / "after", tmp_path / "changes")
    assert (code, "2 statements to add, 1 to remove" in out) == (0, True)
    assert run("update", stored, tmp_path / "changes")[0] == 0
    grown = load_graph(stored)
    assert [set(grown.statements(split)) for split in SPLITS] == [set(after.statements(split)) for split in SPLITS]
    assert list(grown.entities) == ["a", "b", "v", "c"]


@pytest.mark.parametrize("command", ["update", "diff"])
def test_changes_do_not_make_ranges_of_values(run, stored, tmp_path, command):
    (tmp_path / "new.nt").write_text('<a:a> <a:p> "1"^^<http://www.w3.org/2001/XMLSchema#integer> .\n')
    out = [tmp_path / "changes"] if command == "diff" else []
    code, _, err = run(command, stored, tmp_path / "new.nt", *out, "--literals", "bucket")
    assert code == 1
    assert "changes keep or drop literals, found bucket" in err
    assert load_graph(stored).fingerprint == GRAPH.fingerprint


def test_an_update_by_nothing_is_wrong_use(run, stored):
    assert run("update", stored)[0] == 2
