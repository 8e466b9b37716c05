"""Bulk reading of Turtle and TriG gives what the parser gives."""

import io

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from starqe.errors import InputError
from starqe.kg.rdf.bulk_turtle import PlainTurtle
from starqe.kg.rdf.numbered_terms import Terms
from starqe.kg.rdf.read import LABEL, RdfReader
from starqe.kg.reading.import_task import ImportTask
from starqe.kg.reading.report import Report
from tests.kg.rdf.documents import SYNTAX
from tests.places import DATA

HEAD = f"@prefix e: <urn:e:> .\n@prefix l: <{LABEL.removesuffix('label')}> .\nPREFIX : <http://e.org/>\n"
NODES = [
    "e:a",
    ":b",
    "e:c.d",
    ":",
    "<urn:e:a>",
    "_:x",
    "_:y.z",
    "<http://e.org/é>",
    "e:é",
    "e:%41",
    "e:a:b",
    "unknown:a",
    "<a>",
    "[]",
    "e:a~e:b",
    "()",
]
LITERALS = [
    '"x"',
    '"a b ; . c"@en',
    '"1"^^e:int',
    '"\\"q # \\\\"',
    "5",
    "-2.5",
    "1e3",
    "true",
    "'x'",
    '"""a\n. b"""',
    '"é"',
    '"half',
    "1.",
    '"a"@x-',
]
PREDICATES = ["e:p", ":q", "a", "<urn:e:p>", "l:label", "_:x", '"p"', "rdf:type"]
MARKS = [
    " .\n",
    ".\n",
    " . ",
    " ;\n  ",
    ", ",
    " , ",
    ";",
    " {| ",
    " |} ",
    " |}",
    " ~ ",
    " ~\n",
    "\n# said .\n",
    " # said .\n",
    " ~ e:r ",
    "\n\n",
    "\t",
]
marks = st.sampled_from(MARKS)


def statements(nodes: list[str], literals: list[str], predicates: list[str]):
    objects, relations = st.sampled_from(nodes + literals), st.sampled_from(predicates)
    pairs = st.builds("{} {}".format, relations, objects)
    blocks = st.builds(" {{| {} |}}".format, st.lists(pairs, min_size=1, max_size=2).map(" ; ".join))
    reifiers = st.sampled_from(["", "", " ~"]) | blocks | st.builds("{}{}".format, blocks, blocks)
    parts = st.builds(
        "{} {}".format, relations, st.lists(st.builds("{}{}".format, objects, reifiers), min_size=1, max_size=3).map(" , ".join)
    )
    return st.builds("{} {} .\n".format, st.sampled_from(nodes), st.lists(parts, min_size=1, max_size=3).map(" ;\n\t".join))


labels = st.builds("{} l:label {} .\n".format, st.sampled_from(NODES[:10]), st.sampled_from(NODES[:3] + LITERALS[:8]))
usual = labels | statements(NODES[:10], LITERALS[:8], PREDICATES[:4])
unusual = statements(NODES, LITERALS, PREDICATES) | st.lists(st.sampled_from(NODES + LITERALS + PREDICATES) | marks, max_size=8).map(
    " ".join
)
documents = st.lists(usual, max_size=5) | st.lists(usual, max_size=5) | st.lists(usual | unusual, max_size=4)
graphs = st.builds(
    "{}{{\n{}}}\n".format,
    st.sampled_from(["", "e:train ", "GRAPH e:g ", "graph _:x ", "a ", "e:g e:h ", "e:valid\n"]),
    st.lists(usual, max_size=3).map("".join),
)


def read(text: str, form: str, size: int = 2**22, by_parser: bool = False):
    task = ImportTask(report=Report("skip"), unasserted="keep")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("starqe.kg.rdf.read.PLAIN_BLOCK", size)
        if by_parser:
            patch.setattr(RdfReader, "_read_plain", lambda _, stream, *_args: (stream, 1))
        try:
            task.shared(RdfReader).read(io.BytesIO(text.encode()), "file", SYNTAX[form])
            task.finish()
        except InputError as error:
            return str(error)
    report, graph = task.report, task.draft.finish() if len(task.draft) else None
    found = graph and (graph.fingerprint, graph.entities.labels, graph.relations.labels)
    return found, report.skipped, sorted(report.problems), report.left_out, report.unasserted, report.in_several_graphs


@settings(max_examples=120)
@given(documents, st.sampled_from([150, 250, 2**22]), st.sampled_from(["", "\n", " ", "e:a"]))
@example(["e:a e:p e:b .\n", "e:a e:p [ e:q e:b ] .\n", "e:a e:p .\n"], 150, "")
@example(["e:a e:p e:b {| e:p e:c |} , e:d ; e:q e:c .\n"], 2**22, "")
@example(["e:a l:label 'late' .\n", 'e:a l:label "later", 5 ; e:p e:b .\n'], 2**22, "")
@example(['e:a l:label "x" {| e:p e:b |} .\n'], 2**22, "")
@example(["a e:p e:b .\n"], 2**22, "")
@example(["e:a e:p e:b\x0c.\n"], 2**22, "")
def test_turtle_is_read_as_the_parser_reads_it(documents, size, end):
    text = HEAD + "".join(documents) + end
    assert read(text, "turtle", size) == read(text, "turtle", by_parser=True)


@settings(max_examples=60)
@given(st.lists(graphs | usual, max_size=4) | st.lists(graphs | unusual, max_size=4), st.sampled_from([150, 250, 2**22]))
@example(["e:g {\ne:a e:p e:b .\ne:a e:p e:c }\n", "e:valid { e:a e:p e:b . }\n"], 150)
@example(["e:g {\ne:a e:p e:b .\ne:a e:p ( ) . }\n", "e:a e:p e:b .\n"], 150)
@example(["{\ne:a e:p e:b .\n}\n{ }\ne:g { }\n"], 150)
def test_trig_is_read_as_the_parser_reads_it(documents, size):
    text = HEAD + "".join(documents)
    assert read(text, "trig", size) == read(text, "trig", by_parser=True)


@pytest.mark.skipif(not (DATA / "w3c").is_dir(), reason="the W3C test suites are not here")
def test_the_documents_of_the_w3c_are_read_as_the_parser_reads_them():
    paths = sorted(path for form in ("ttl", "trig") for path in (DATA / "w3c").rglob(f"*.{form}"))
    assert len(paths) > 300
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        form = "turtle" if path.suffix == ".ttl" else "trig"
        assert read(text, form) == read(text, form, by_parser=True), path


@pytest.mark.parametrize(
    "text",
    [
        "e:a e:p e:b .\n",
        "# a comment\n@prefix x: <urn:x#> .\nx:a a e:b ; e:p e:c, e:d, 5.\n  # another .\n",
        'e:a e:p e:b {| e:q "a b"@en ; e:r 1.5 |} ~ {| e:q e:c |} , <urn:x:y> ~ .\n'.replace("~ {|", "{|"),
        'e:a <http://www.w3.org/2000/01/rdf-schema#label> "the \\"a\\" # b"@en .\r\n'.replace("\r", ""),
    ],
)
def test_what_programs_write_needs_no_parser_for_the_document(text):
    turtle = PlainTurtle(trig=False, terms=Terms(drop_literals=False), labels=[LABEL])
    assert turtle.number((HEAD + text).encode()) is not None


def test_an_error_after_plain_text_names_its_line():
    text = HEAD + "e:a e:p e:b .\n" * 100 + "e:a e:p .\n"
    for size in (64, 2**22):
        message = read(text, "turtle", size)
        assert message == read(text, "turtle", by_parser=True)
        assert message.startswith("file:104: ")


def test_one_iri_that_is_written_in_two_ways_has_one_number():
    terms = Terms(drop_literals=False)
    found = PlainTurtle(trig=False, terms=terms, labels=[]).number((HEAD + "e:a e:p <urn:e:a> .\n<urn:e:a> e:p e:a .\n").encode())
    assert found is not None
    assert found.triples.tolist() == [[0, 1, 0], [0, 1, 0]]
    assert list(terms.ids) == ["urn:e:a", "urn:e:p"]
