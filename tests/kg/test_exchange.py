import bz2
import dataclasses
import gzip
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starqe.errors import InputError, StorageError
from starqe.kg import FORMS, SPLITS, Names, Statement, export_graph, graph_of, import_graph, save_graph
from starqe.kg.exchange import form_of, form_of_content
from starqe.kg.literal import Literal
from starqe.kg.rdf.read import LABEL
from tests.kg.strategies import graphs

GRAPH = graph_of([Statement("a", "r", "b", (("q", "v"),))], [Statement("b", "r", "a")], [Statement("b", "r", "a", (("q", "a"),))])
NAMES = Names("http://example.org/", "http://example.org/p/")
WRITABLE = [form for form, kind in FORMS.items() if kind.write]
BOTH_WAYS = [form for form in WRITABLE if FORMS[form].read]


RDF = ("turtle", "trig", "ntriples", "nquads", "reification")


def has_literal(statement: Statement, relation: str) -> bool:
    fields = statement.fields()
    return any(key == relation and isinstance(value, Literal) for key, value in zip(fields[1::2], fields[2::2], strict=True))


def place(folder: Path, form: str) -> Path:
    return folder / ("out" if FORMS[form].folder else f"out{FORMS[form].extensions[0]}")


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.txt", "statements"),
        ("a.csv.gz", "statements"),
        ("a.b.tsv.zst", "statements"),
        ("a.ttl", "turtle"),
        ("a.trig.bz2", "trig"),
        ("a.nt", "ntriples"),
        ("a.nq", "nquads"),
        ("a.reified.nq", "reification"),
        ("a.hyper.tsv", "hypergraph"),
        ("A.CSV", "statements"),
        ("A.TTL.GZ", "turtle"),
        ("a.Reified.NQ", "reification"),
        ("a.rdf", "rdfxml"),
        ("a.OWL", "rdfxml"),
        ("a.xml", "rdfxml"),
        ("a.jsonld", "jsonld"),
        ("a.n3", "n3"),
    ],
)
def test_the_form_is_detected_by_the_extension(name, form):
    assert form_of(Path(name)) == form


@pytest.mark.parametrize("name", ["a", "a.json", "a.txt.rar", "txt", "a.xlsx"])
def test_an_unknown_extension_is_refused_with_those_that_are_known(tmp_path, name):
    (tmp_path / name).write_text("a,r,b\n")
    with pytest.raises(
        InputError,
        match=r"the form is detected by the extension \(\.txt .*\.gz \.bz2 \.zst\) or by the content\. Rename it, or name its form",
    ):
        import_graph(tmp_path / name)


def test_a_form_that_is_named_needs_no_extension(tmp_path):
    (tmp_path / "statements").write_text("a,r,b\n")
    assert len(import_graph(tmp_path / "statements", form="statements")[0]) == 1


@pytest.mark.parametrize("form", ["json", "Turtle"])
def test_an_unknown_form_is_refused_with_the_list_of_forms(tmp_path, form):
    (tmp_path / "file").write_text("a,r,b\n")
    message = f"the form of a graph is one of statements, turtle, .*, hypergraph, found '{form}'"
    with pytest.raises(InputError, match=message):
        import_graph(tmp_path / "file", form=form)
    with pytest.raises(InputError, match=message):
        export_graph(GRAPH, tmp_path / "out", form=form)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("form", BOTH_WAYS)
@given(graph=graphs())
@settings(max_examples=25)
def test_every_form_written_and_read_again_gives_the_same_graph(tmp_path_factory, form, graph):
    path = place(tmp_path_factory.mktemp("exchange"), form)
    export_graph(graph, path, form)
    again, report = import_graph(path, form)
    assert again.fingerprint == graph.fingerprint
    assert report.skipped == report.duplicates == report.unasserted == 0


@pytest.mark.parametrize("form", BOTH_WAYS)
@given(graph=graphs(with_literals=True))
@settings(max_examples=25)
def test_every_form_keeps_literals_exactly_or_refuses_an_identifier_that_would_be_read_as_one(tmp_path_factory, form, graph):
    path = place(tmp_path_factory.mktemp("exchange"), form)
    if form == "statements" and len(graph.literals) and any('"quoted"' in vocabulary for vocabulary in (graph.entities, graph.relations)):
        with pytest.raises(InputError, match='an identifier has no quotation marks around it, found "quoted"'):
            export_graph(graph, path, form)
        return
    if form in RDF and any(has_literal(statement, LABEL) for statement in graph.statements(*SPLITS)):
        with pytest.raises(InputError, match="are labels in RDF, found a statement or qualifier with one"):
            export_graph(graph, path, form)
        return
    export_graph(graph, path, form)
    again, report = import_graph(path, form)
    assert again.fingerprint == graph.fingerprint
    assert list(again.statements(*SPLITS)) == list(graph.statements(*SPLITS))
    assert report.skipped == report.duplicates == report.unasserted == 0
    without, report = (again, report) if not len(graph.entity_part) else import_graph(path, form, literals="drop")
    assert len(without) == (len(graph.entity_part) or len(graph))


@pytest.mark.parametrize("form", WRITABLE)
def test_an_export_is_listed_file_by_file_and_leaves_nothing_beside(tmp_path, form):
    path = place(tmp_path, form)
    files = export_graph(GRAPH, path, form)
    assert sorted(files) == (sorted(path.iterdir()) if FORMS[form].folder else [path])
    assert all(file.stat().st_size for file in files)
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(StorageError, match="exists already"):
        export_graph(GRAPH, path, form)
    assert export_graph(GRAPH, path, form, overwrite=True) == files


def test_an_export_uses_the_names_of_the_graph_unless_others_are_given(tmp_path):
    export_graph(dataclasses.replace(GRAPH, names=NAMES), tmp_path / "own.nq")
    export_graph(GRAPH, tmp_path / "given.nq", names=NAMES)
    export_graph(GRAPH, tmp_path / "default.nq")
    assert "<http://example.org/a>" in (tmp_path / "own.nq").read_text()
    assert "<http://example.org/a>" in (tmp_path / "given.nq").read_text()
    assert "<urn:starqe:entity:a>" in (tmp_path / "default.nq").read_text()


def test_a_folder_with_one_file_per_split_keeps_the_splits(tmp_path):
    (tmp_path / "train.txt").write_text("a,r,b,q,v\n")
    (tmp_path / "valid.csv").write_text("b,r,a\n")
    (tmp_path / "test.tsv").write_text("b\tr\ta\tq\ta\n")
    (tmp_path / "labels.tsv").write_text("a\tthe a\n")
    (tmp_path / "README").write_text("about the data")
    graph, report = import_graph(tmp_path)
    assert graph.fingerprint == GRAPH.fingerprint
    assert graph.entities.label(0) == "the a"
    assert report.skipped == 0


def test_a_single_file_is_all_train(tmp_path):
    (tmp_path / "test.txt").write_text("a,r,b\n")
    assert list(import_graph(tmp_path / "test.txt")[0].statements("train")) == [Statement("a", "r", "b")]


def test_a_folder_of_something_else_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"has files named train, valid and test \(such as train.txt\), found nothing"):
        import_graph(tmp_path)
    (tmp_path / "train.doc").touch()
    (tmp_path / "a.txt").touch()
    with pytest.raises(InputError, match=r"found a.txt, train.doc"):
        import_graph(tmp_path)


def test_two_files_for_one_split_are_refused(tmp_path):
    (tmp_path / "train.txt").write_text("a,r,b\n")
    (tmp_path / "train.nt").write_text("")
    with pytest.raises(InputError, match=r"a split is one file, found train.nt and train.txt. Give the one to read"):
        import_graph(tmp_path)


def test_a_source_that_is_missing_or_imported_already_is_refused(tmp_path):
    with pytest.raises(InputError, match="nowhere: there is no such file or folder"):
        import_graph(tmp_path / "nowhere")
    save_graph(GRAPH, tmp_path / "graph")
    with pytest.raises(InputError, match="is already a graph folder of starqe; it needs no import"):
        import_graph(tmp_path / "graph")


def test_a_form_that_can_only_be_written_is_refused(tmp_path):
    export_graph(GRAPH, tmp_path / "out.hyper.tsv")
    with pytest.raises(InputError, match="the form 'hypergraph' can only be exported: it does not hold all of a graph"):
        import_graph(tmp_path / "out.hyper.tsv")


FULL = """
import sys
from pathlib import Path
from starqe.errors import StorageError
from starqe.kg import embedded_graph, export_graph, save_graph
graph = embedded_graph()
for destination, form in zip(sys.argv[1::2], sys.argv[2::2]):
    try:
        save_graph(graph, Path(destination)) if form == "graph" else export_graph(graph, Path(destination), form)
    except StorageError as error:
        print(error)
"""


def small_files() -> None:
    """Allows no file beyond 4 kB, and makes the refusal an error and not a signal."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def test_a_disk_that_refuses_leaves_nothing_behind(tmp_path):
    places = {form: tmp_path / form / "out" if form == "graph" else place(tmp_path / form, form) for form in ("graph", *WRITABLE)}
    for path in places.values():
        path.parent.mkdir()
    words = [word for form, path in places.items() for word in (str(path), form)]
    result = subprocess.run([sys.executable, "-c", FULL, *words], capture_output=True, text=True, check=True, preexec_fn=small_files)
    for path, line in zip(places.values(), result.stdout.splitlines(), strict=True):
        assert line.startswith(f"cannot write {path}: ")
        assert "File too large" in line
    assert [path.is_dir() for path in tmp_path.rglob("*")] == [True] * len(places)


@pytest.fixture
def tiny_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(disk)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("mounting a small disk needs root")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_leaves_nothing_behind(tiny_disk):
    graph = graph_of(Statement(f"entity number {number}", "r", f"entity number {number * 7919 % 10007}") for number in range(2000))
    with pytest.raises(StorageError, match=r"No space left on device.*Nothing was changed there"):
        save_graph(graph, tiny_disk / "graph")
    assert list(tiny_disk.iterdir()) == []


@pytest.mark.parametrize("name", ["g.trig.gz", "g.nq.zst", "g.hyper.tsv.bz2"])
def test_an_export_with_the_name_of_a_compressed_file_is_refused(tmp_path, name):
    with pytest.raises(InputError, match=r"an export is not compressed, found g\..*Leave \.\w+ out"):
        export_graph(graph_of(train=[Statement("a", "r", "b")]), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_split_by_another_name_is_not_passed_over(tmp_path):
    for name in ("train.txt", "dev.txt", "test.txt"):
        (tmp_path / name).write_text("a,r,b\n")
    with pytest.raises(InputError, match=r"splits are called train, valid and test, found dev.txt\. Rename it to valid.txt"):
        import_graph(tmp_path)


EMPTY = {
    "unasserted triples": (
        "<< <a:a> <a:p> <a:b> >> <a:q> <a:v> .\n<< <a:a> <a:p> <a:c> >> <a:q> <a:v> .",
        "triples that are reified but not asserted, left out: 2 (to keep them, set the option unasserted to keep)",
    ),
    "literals": (
        '<a:a> <a:p> 1 , 2 , "x" .',
        "literal values left out: xsd:integer 2, xsd:string 1. To keep them, set the option literals to keep",
    ),
    "labels": ('<a:a> <http://www.w3.org/2000/01/rdf-schema#label> "A" .', ""),
}


@pytest.mark.parametrize("kind", EMPTY)
def test_a_file_without_statements_is_refused_with_what_it_has_instead(tmp_path, kind):
    text, instead = EMPTY[kind]
    (tmp_path / "file.ttl").write_text(text)
    with pytest.raises(InputError) as caught:
        import_graph(tmp_path / "file.ttl", literals="drop")
    assert str(caught.value) == f"{tmp_path}/file.ttl: a graph has at least one statement, found none" + (instead and f". {instead}")


def test_unasserted_triples_are_kept_on_demand(tmp_path):
    (tmp_path / "file.ttl").write_text(EMPTY["unasserted triples"][0])
    graph, _ = import_graph(tmp_path / "file.ttl", unasserted="keep")
    pair = (("a:q", "a:v"),)
    assert list(graph.statements("train")) == [Statement("a:a", "a:p", "a:b", pair), Statement("a:a", "a:p", "a:c", pair)]


def test_a_triple_in_several_named_graphs_is_merged_and_counted(tmp_path):
    triple = "<a:a> <a:p> <a:b>"
    (tmp_path / "file.nq").write_text(f"{triple} <g:1> .\n{triple} <g:2> .\n{triple} .\n{triple} <g:1> .\n{triple} <g:test> .\n")
    graph, report = import_graph(tmp_path / "file.nq")
    assert graph.split.tolist() == [0, 2]
    assert report.in_several_graphs == 2
    assert report.findings() == ["triples in several named graphs, merged: 2"]


TRIPLES = {
    "turtle": "<a:a> <a:r> <a:b> .",
    "trig": "@prefix a: <a:> .\na:a a:r a:b .",
    "ntriples": "<a:a> <a:r> <a:b> .\n",
    "nquads": "# a comment\n<a:a> <a:r> <a:b> <g:1> .\n",
    "rdfxml": '<?xml version="1.0"?>\n<!DOCTYPE r [<!ENTITY x "a:">]>\n<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
    'xmlns:a="a:"><rdf:Description rdf:about="&x;a"><a:r rdf:resource="a:b"/></rdf:Description></rdf:RDF>',
    "jsonld": '{"@context": {"r": {"@id": "a:r", "@type": "@id"}}, "@id": "a:a", "r": "a:b"}',
    "n3": "@prefix a: <a:> .\na:a a:r a:b .",
}
COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True)}


@pytest.mark.parametrize("form", TRIPLES)
def test_every_syntax_of_rdf_is_read(tmp_path, form):
    path = tmp_path / f"FILE{FORMS[form].extensions[0].upper()}"
    path.write_text(TRIPLES[form])
    graph, report = import_graph(path)
    assert list(graph.statements("train")) == [Statement("a:a", "a:r", "a:b")]
    assert report.notes == []


@pytest.mark.parametrize("form", ["trig", "nquads", "rdfxml", "jsonld"])
@pytest.mark.parametrize("name", ["file.txt", "file", "file.json", "file.owl"])
@pytest.mark.parametrize("compress", COMPRESS.values())
def test_form_and_compression_are_detected_by_content_if_the_name_does_not_help(tmp_path, form, name, compress):
    (tmp_path / name).write_bytes(compress(TRIPLES[form].encode()))
    graph, report = import_graph(tmp_path / name)
    assert list(graph.statements("train")) == [Statement("a:a", "a:r", "a:b")]
    said = [f"{tmp_path / name} is read as {form}, detected by its content (the option format chooses another form)"]
    assert report.notes == ([] if (name, form) == ("file.owl", "rdfxml") else said)


@given(st.one_of(st.binary(), st.lists(st.sampled_from([b"\r", b"\0", b'"', b",", b"~id", b":ID", b"{", b"\xff", b"\n"])).map(b"".join)))
def test_any_bytes_are_of_some_form_or_of_none(first):
    recognised = {form for form, kind in FORMS.items() if kind.recognise and kind.recognise(first)}
    assert recognised <= set(FORMS)


@pytest.mark.parametrize("line", [b"PK\x03\r\x04", b"a\rb,:ID", b'"a\r'])
def test_a_header_with_a_carriage_return_is_no_header_of_a_bulk_loader(line):
    assert not any(FORMS[form].recognise(line + b"\nx,y\n") for form in ("neo4j", "neptune"))


@pytest.mark.parametrize("name", ["file.graphml", "file.xml", "file.txt"])
def test_a_long_prolog_is_passed_over_at_once(tmp_path, name):
    prolog = '<?xml version="1.0"?>\n' + "<!-- who made it > and when -->\n" * 500
    (tmp_path / name).write_text(f'{prolog}<graphml><graph><edge source="a" target="b" label="r"/></graph></graphml>')
    assert list(import_graph(tmp_path)[0].statements("train")) == [Statement("a", "r", "b")]
    (tmp_path / name).write_text(prolog + TRIPLES["rdfxml"].partition("\n")[2])
    assert list(import_graph(tmp_path, "rdfxml")[0].statements("train")) == [Statement("a:a", "a:r", "a:b")]
    assert form_of_content(tmp_path / name) == "rdfxml"


def test_all_files_of_a_folder_are_read_or_named(tmp_path):
    (tmp_path / "a.nt").write_text("<< <a:x> <a:r> <a:y> >> <a:q> <a:z> .\n<a:x> <a:r> <a:y> .\n")  # no content that is recognised
    (tmp_path / "b.nq").write_text(TRIPLES["nquads"])
    (tmp_path / "README.md").write_text("Two files of facts.\n")
    graph, report = import_graph(tmp_path)
    assert set(graph.statements("train")) == {Statement("a:a", "a:r", "a:b"), Statement("a:x", "a:r", "a:y", (("a:q", "a:z"),))}
    assert report.notes == [f"not read in {tmp_path}, since neither name nor content tells the form: README.md"]


def test_a_number_or_date_that_is_none_is_kept_and_noted(tmp_path):
    values = [
        '"soon"^^xsd:date',
        '"1990-13-01"^^xsd:date',
        '"1990-12-01"^^xsd:date',
        '"many"^^xsd:integer',
        '"NaN"^^xsd:double',
        '"-INF"^^xsd:float',
    ]
    prefix = "@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"
    (tmp_path / "facts.ttl").write_text(f"{prefix}<a:a> <a:r> {', '.join(values)} .\n")
    graph, report = import_graph(tmp_path / "facts.ttl")
    assert {statement.tail.lexical for statement in graph.statements("train")} == {value.split('"')[1] for value in values}
    (note,) = report.notes
    assert note.startswith("values that are not what their datatype says: xsd:date 2, xsd:integer 1 (such as ")


def test_a_statement_file_is_not_taken_for_rdf(tmp_path):
    (tmp_path / "file.csv").write_text("<http://a>,<http://r>,<http://b>\nprefix,base,rdf\n{a,r,[b\n")
    graph, report = import_graph(tmp_path / "file.csv")
    assert (len(graph), report.notes) == (3, [])


@pytest.mark.parametrize("form", ["rdfxml", "jsonld", "n3", "turtle"])
def test_a_damaged_document_is_refused_with_its_file_and_line(tmp_path, form):
    path = tmp_path / f"file{FORMS[form].extensions[0]}"
    path.write_text("\n" + TRIPLES[form][:-3])
    with pytest.raises(InputError, match=rf"file{FORMS[form].extensions[0]}(?::\d+)?: .*cannot be read past an error"):
        import_graph(path)
