"""Bulk reading of N-Triples and N-Quads gives what the parser gives line by line."""

import io
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode, RdfFormat, Triple, parse, serialize

from starqe.errors import InputError
from starqe.kg.iris import REIFIES
from starqe.kg.rdf.bulk_lines import PLAIN, number_lines
from starqe.kg.rdf.numbered_terms import Terms
from starqe.kg.rdf.parse import BULK
from starqe.kg.rdf.read import LABEL, RdfReader
from starqe.kg.reading.import_task import ImportTask
from starqe.kg.reading.report import Report
from starqe.kg.statement import identifier_problem
from tests.kg.rdf.documents import SYNTAX
from tests.places import DATA

XSD = "http://www.w3.org/2001/XMLSchema#"
NODES = [
    "<a:a>",
    "<a:b>",
    "<http://e.org/é>",
    "_:x",
    "_:y.z",
    "_:1",
    "<_:x>",
    "<a>",
    "<a:a b>",
    "<a:\\u0062>",
    "<a:x",
    "_:-",
    "_:x.",
    "_:é",
]
NODES += ["<a:[>", "<a:\u2028>"]
LITERALS = [
    '"x"',
    '"x y . <a:a>"@en',
    '"1"^^<a:int>',
    f'"1"^^<{XSD}integer>',
    '"\\"q\\\\\\n"',
    '"\\u00e9"',
    '"é"@EN-us',
    '"half',
    '"a"@',
    '"a"b"',
]
LITERALS += ['<""x">', '"a"^^<b>', '"a\\x"', "'x'"]
PREDICATES = ["<a:p>", "<a:q>", f"<{LABEL}>", f"<{REIFIES}>", "_:x", "<p>", '"p"']
nodes, literals, predicates = st.sampled_from(NODES), st.sampled_from(LITERALS), st.sampled_from(PREDICATES)
triples = st.builds("<<( {} {} {} )>>".format, nodes, predicates, nodes | literals)
objects = nodes | literals | triples | st.builds("<<( <a:a> <a:p> {} )>>".format, triples)
usual = st.builds("{} {} {} .".format, nodes, predicates, objects)
names = st.sampled_from(["", "", "<a:g>", "<a:h>", "_:g", "<a:train>", "<http://e.org/é/valid>", "<g>", '"g"', "<a:g> <a:g>"])
gaps, ends = st.sampled_from([" ", "  ", "\t", ""]), st.sampled_from(["", " ", "\r", " # end", " ."])
unusual = st.builds("{}{}{}{}{}{}.{}".format, nodes, gaps, predicates, gaps, objects, gaps, ends)
lines = st.lists(usual | usual | unusual | st.sampled_from(["", " ", "# said", " .", "<a:a> <a:p>", "<a:a> .", "."]), max_size=12)


def read(text: bytes, form: str, keep: bool = True, size: int = BULK, by_parser: bool = False):
    task = ImportTask(report=Report("skip"), unasserted="keep", literals="keep" if keep else "drop")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("starqe.kg.rdf.read.BULK", size)
        if by_parser:
            patch.setattr("starqe.kg.rdf.read.SHORTEST", -1)  # then every block has too many lines
        task.shared(RdfReader).read(io.BytesIO(text), "file", SYNTAX[form])
    task.finish()
    graph = task.draft.finish() if len(task.draft) else None
    report = task.report
    found = graph and (graph.fingerprint, graph.entities.labels, graph.relations.labels)
    return found, report.skipped, sorted(report.problems), report.left_out, report.unasserted, report.in_several_graphs


@given(lines, st.booleans(), st.sampled_from(["\n", ""]), st.sampled_from([8, 200, BULK]))
@example(["_:x <a:p> <a:b> .", "<_:x> <a:p> <a:b> ."], True, "\n", 8)
@example(['<a:a> <a:p> "x" .', '<a:a> <a:p> <""x"> .'], True, "\n", 8)
@example(["<a:a> <a:p> <a:\u2028> ."], True, "\n", BULK)
@example([f'<a:a> <{LABEL}>  "first" .', f'<a:a> <{LABEL}> "second" .', "<a:a> <a:p> <a:a> ."], True, "\n", BULK)
@example([f'<a:a> <{LABEL}> "first" .', f'<a:a> <{LABEL}>  "second" .', "<a:a> <a:p> <a:a> ."], True, "\n", BULK)
def test_it_reads_what_the_parser_reads_and_refuses_what_it_refuses(lines, keep, end, size):
    text = ("\n".join(lines) + end).encode()
    for form in ("ntriples", "nquads"):
        assert read(text, form, keep, size) == read(text, form, keep, by_parser=True)


@given(st.lists(st.tuples(usual, names), max_size=12), st.sampled_from([8, 200, BULK]))
@example([('<a:a> <a:p> "x <b:c> .', "<a:train>")], BULK)
@example([('<a:a> <a:p> "x <a:g>" .', ""), ("<a:a> <a:p> <a:b> .", "<a:g>"), ("<a:a> <a:p> <a:b> .", "<a:h>")], BULK)
@example([("<a:a> <a:p> <a:b> .", "<http://e.org/é/valid>"), ("<a:a> <a:p> <a:c> .", "<a:train>")], BULK)
def test_it_reads_lines_with_graphs_as_the_parser_does(lines, size):
    text = "\n".join(f"{line.removesuffix(' .')} {name} ." for line, name in lines).encode()
    assert read(text, "nquads", size=size) == read(text, "nquads", by_parser=True)


@pytest.mark.skipif(not (DATA / "w3c").is_dir(), reason="the W3C test suites are not here")
@pytest.mark.parametrize(("form", "count"), [("ntriples", 100), ("nquads", 80)])
def test_it_reads_the_documents_of_the_w3c_as_the_parser_does(form, count):
    paths = sorted((DATA / "w3c").rglob("*.nt" if form == "ntriples" else "*.nq"))
    assert len(paths) > count
    for path in paths:
        assert read(path.read_bytes(), form) == read(path.read_bytes(), form, by_parser=True), path


@pytest.mark.skipif(not (DATA / "w3c").is_dir(), reason="the W3C test suites are not here")
def test_rdf_xml_becomes_the_triples_that_the_parser_finds():
    compared = 0
    for path in sorted((DATA / "w3c").rglob("*.rdf")):
        try:
            triples = list(parse(path=path, format=RdfFormat.RDF_XML, base_iri="http://e.org/"))
        except SyntaxError:  # a document that has to be refused
            with pytest.raises(InputError):
                ImportTask().shared(RdfReader).read(io.BytesIO(path.read_bytes()), "file", RdfFormat.RDF_XML)
            continue
        if not any(isinstance(node, BlankNode) for quad in triples for node in (quad.subject, quad.object)):  # their labels are random
            text = path.read_bytes()
            with_base = text if b"xml:base" in text else text.replace(b"<rdf:RDF", b'<rdf:RDF xml:base="http://e.org/"', 1)
            assert read(with_base, "rdfxml") == read(serialize(triples, format=RdfFormat.N_TRIPLES), "ntriples", by_parser=True), path
            compared += 1
    assert compared > 10


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from("pq"), st.sampled_from(["a:b", "é<&>", "x \"y\" 'z'", "/>", ""])), max_size=9
    )
)
@pytest.mark.parametrize("form", ["rdfxml", "jsonld"])
def test_documents_of_other_syntaxes_become_the_triples_that_the_parser_finds(form, rows):
    triples = [Triple(NamedNode(f"a:{s}"), NamedNode(f"a:{p}"), NamedNode(o) if o == "a:b" else Literal(o)) for s, p, o in rows]
    document = serialize(triples, format=SYNTAX[form])
    lines = serialize(parse(document, format=SYNTAX[form]), format=RdfFormat.N_QUADS)
    assert read(document, form) == read(lines, "nquads", by_parser=True)


def numbered(text: str, terms: Terms, labels=()):
    found = number_lines(text.encode(), terms, labels)
    names = np.array(list(terms.ids))
    return names[found.triples].tolist(), names[found.reified].tolist(), found.others.tolist()


def test_usual_lines_need_no_parser_and_each_term_has_one_number():
    terms = Terms(drop_literals=False)
    text = f'<a:a> <a:p> <a:b> .\n_:r <{REIFIES}> <<( <a:a> <a:p> "x y" )>> .\n_:r <a:p> "x y" .\n<a:a>  <a:p> <a:b> .\n<a:b> <a:l> "z" .\n'
    triples = [["a:a", "a:p", "a:b"], ["_:r", "a:p", '""x y"']]
    assert numbered(text, terms, ["a:l"]) == (triples, [["_:r", "a:a", "a:p", '""x y"']], [3, 4])
    assert sorted(terms.ids) == ['""x y"', "_:r", "a:a", "a:b", "a:p"]


@given(st.from_regex(PLAIN.removeprefix(r"\A").removesuffix(r"\z"), fullmatch=True))
@example("<a:>")
@example("<a://a/b//c#d>")
@example("_:a.-b")
def test_a_term_that_needs_no_parser_is_accepted_by_it_as_it_is_written(term):
    (quad,) = parse(f"<a:a> <a:a> {term} .", format=RdfFormat.N_TRIPLES)
    assert str(quad.object) == term
    assert identifier_problem(term.strip("<>")) is None


def test_one_malformed_term_leaves_the_new_terms_of_its_block_to_the_parser():
    terms = Terms(drop_literals=False)
    assert numbered("<a:a> <a:p> <a:b> .\n", terms)[2] == []
    assert numbered("<a:a> <a:p> <a:b> .\n<a:a> <a:p> <a:%zz> .\n<a:a> <a:p> <a:é> .\n<a:a> <a:p> <a:c> .\n", terms)[2] == [1, 2]
    assert numbered("<a:a> <a:p> <//b> .\n<a:b> <a:p> <a:a> .", terms)[2] == [0]


@pytest.mark.parametrize("form", ["ntriples", "nquads"])
def test_many_empty_lines_take_no_memory_for_each(form):
    text = b"<a:a> <a:p> <a:b> .\n" + b"\n" * 300_000 + b"<a:a> <a:p> .\n"
    tracemalloc.start()
    try:
        _, skipped, problems, *_ = read(text, form)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (skipped, problems[0][:13]) == (1, "file:300002: ")
    assert peak < 40e6


def test_errors_name_the_line_in_a_later_block(monkeypatch):
    monkeypatch.setattr("starqe.kg.rdf.read.BULK", 64)
    text = "<a:a> <a:p> <a:b> .\n" * 10 + "<a:a> <a:p> .\n" + "<a:a> <a:p> <a:b> .\n" * 10
    with pytest.raises(InputError, match=r"^file:11: "):
        ImportTask().shared(RdfReader).read(io.BytesIO(text.encode()), "file", SYNTAX["ntriples"])
