import io
from functools import partial

import pytest
from pyoxigraph import RdfFormat

from starqe.errors import InputError
from starqe.kg.exchange import import_graph as import_with_literals
from starqe.kg.graph import Graph
from starqe.kg.iris import Names
from starqe.kg.rdf.read import RdfReader
from starqe.kg.reading.import_task import ImportTask
from starqe.kg.reading.report import Report
from starqe.kg.statement import SPLITS, Statement
from tests.kg.rdf.documents import read_document

import_graph = partial(import_with_literals, literals="drop")  # tests/kg/test_literals.py has what is kept


NAMES = Names("http://example.org/", "http://example.org/")
PREFIXES = """
@prefix : <http://example.org/> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""
BARE = Statement("a", "p", "b")


def said(*pairs: tuple[str, str]) -> Statement:
    return Statement("a", "p", "b", pairs)


def read(text: str, format_: str = "trig", report: Report | None = None, **options) -> Graph:
    prefixes = PREFIXES if format_ in ("turtle", "trig") else ""
    return read_document(prefixes + text, format_, NAMES, report, **options).draft.finish()


def by_split(graph: Graph) -> dict[str, list[Statement]]:
    found = {split: list(graph.statements(split)) for split in SPLITS}
    return {split: statements for split, statements in found.items() if statements}


@pytest.mark.parametrize("format_", ["turtle", "trig"])
@pytest.mark.parametrize(
    ("text", "statements"),
    [
        (":a :p :b .", [BARE]),
        (":a :p :b {| :q :v |} .", [said(("q", "v"))]),
        (":a :p :b {| :q :v ; :q :w ; :o :v |} .", [said(("q", "v"), ("q", "w"), ("o", "v"))]),
        (":a :p :b {| :q :v |} {| :q :w |} .", [said(("q", "v")), said(("q", "w"))]),
        (":a :p :b ~ :r1 {| :q :v |} ~ _:r2 {| :q :w |} .", [said(("q", "v")), said(("q", "w"))]),
        (":a :p :b ~ {| :q :v |} ~ .", [BARE, said(("q", "v"))]),
        (":a :p :b ~ :r1 . :r1 :q :v .", [said(("q", "v"))]),
        (":a :p :b . << :a :p :b >> :q :v .", [said(("q", "v"))]),
        ("<< :a :p :b >> :q :v . << :a :p :b >> :q :w . :a :p :b .", [said(("q", "v")), said(("q", "w"))]),
        ("<< :a :p :b ~ :r1 >> :q :v . << :a :p :b ~ :r1 >> :q :w . :a :p :b .", [said(("q", "v"), ("q", "w"))]),
        (":a :p :b . [] rdf:reifies <<( :a :p :b )>> ; :q :v .", [said(("q", "v"))]),
        ("_:r :q :v . _:r rdf:reifies <<( :a :p :b )>> . :a :p :b .", [said(("q", "v"))]),
        (":a :p :b . :a :p :b . :a :p :b {| :q :v |} .", [said(("q", "v"))]),
        (":a :p :b . [ a rdf:Statement ; rdf:subject :a ; rdf:predicate :p ; rdf:object :b ; :q :v ] .", [said(("q", "v"))]),
        (":a :p :b . :r rdf:subject :a ; rdf:predicate :p ; rdf:object :b .", [BARE]),
        (
            ":a :p :b , :c . :r rdf:reifies <<( :a :p :b )>> , <<( :a :p :c )>> ; :q :v .",
            [said(("q", "v")), Statement("a", "p", "c", (("q", "v"),))],
        ),
        (":a :p :b ~ :r {| :q :v |} . :x :knows :r .", [said(("q", "v")), Statement("x", "knows", "r")]),
        (":a :p :b ~ :r {| :q :v |} . :b :q :r {| :q :r |} .", [said(("q", "v")), Statement("b", "q", "r", (("q", "r"),))]),
        (":a rdf:subject :b .", [Statement("a", "http://www.w3.org/1999/02/22-rdf-syntax-ns#subject", "b")]),
    ],
)
def test_what_is_said_about_a_triple_becomes_its_qualifiers(format_, text, statements):
    report = Report()
    assert by_split(read(text, format_, report)) == {"train": statements}
    assert report == Report()


@pytest.mark.parametrize("format_", ["ntriples", "nquads"])
def test_formats_of_lines_reify_too(format_):
    triple = "<http://example.org/a> <http://example.org/p> <http://example.org/b>"
    text = f"_:r <http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies> <<( {triple} )>> .\n{triple} .\n_:r <http://example.org/q> _:v ."
    assert by_split(read(text, format_)) == {"train": [said(("q", "_:v"))]}


@pytest.mark.parametrize("iri", ["http://example.org/valid", "http://example.org/graph#valid", "urn:my:valid"])
def test_a_named_graph_is_a_split_by_its_name(iri):
    text = f":a :p :c . <{iri}> {{ :a :p :b . }} :invalid {{ :a :p :d . }} [] {{ :a :p :e . }}"
    others = [Statement("a", "p", tail) for tail in "cde"]
    assert by_split(read(text)) == {"train": others, "valid": [BARE]}
    assert by_split(read(text, split="test")) == {"valid": [BARE], "test": others}


def test_reifiers_count_by_split():
    text = ":train { :a :p :b {| :q :v |} . } :test { :a :p :b . }"
    assert by_split(read(text)) == {"train": [said(("q", "v"))], "test": [BARE]}


def test_one_reifier_may_say_one_thing_in_a_split_and_another_in_another():
    text = ":train { :a :p :b ~ :r {| :q :v |} . } :test { :a :p :b ~ :r {| :q :w |} . } :valid { :a :p :b ~ :r . }"
    assert by_split(read(text)) == {"train": [said(("q", "v"))], "valid": [BARE], "test": [said(("q", "w"))]}


def test_a_reifier_elsewhere_speaks_of_the_triple_where_it_is_asserted():
    text = "<< :a :p :b >> :q :v . :valid { :a :p :b . } :test { :a :p :b . }"
    report = Report()
    assert by_split(read(text, report=report)) == {"valid": [said(("q", "v"))], "test": [said(("q", "v"))]}
    assert report.unasserted == 0


def test_a_pair_elsewhere_belongs_to_its_reifier():
    text = ":r :q :v . :valid { :a :p :b ~ :r . }"
    assert by_split(read(text)) == {"valid": [said(("q", "v"))]}


@pytest.mark.parametrize(
    "text",
    [
        "<< :a :p :b >> :q :v .",
        "[] rdf:subject :a ; rdf:predicate :p ; rdf:object :b ; :q :v .",
        "[] rdf:reifies <<( :a :p :b )>> ; :q :v .",
    ],
)
def test_a_triple_that_is_not_asserted_is_left_out_and_counted_unless_kept(text):
    report = Report()
    assert by_split(read(f":x :p :y . {text}", report=report)) == {"train": [Statement("x", "p", "y")]}
    assert report.unasserted == 1
    report = Report()
    assert by_split(read(f":x :p :y . {text}", report=report, unasserted="keep")) == {"train": [said(("q", "v")), Statement("x", "p", "y")]}
    assert report.unasserted == 0


def test_a_qualifier_of_a_qualifier_is_counted_as_not_asserted():
    report = Report()
    assert by_split(read(":a :p :b {| :q :v {| :o :w |} |} .", report=report)) == {"train": [said(("q", "v"))]}
    assert report.unasserted == 1


def test_literals_are_left_out_and_counted_by_datatype():
    report = Report()
    graph = read(
        ':a :p :b {| :q "1999-01-01"^^xsd:date ; :q :v |} ; :size 3 , 4 ; :name "Anna"@de , "A" ; :at "x"^^:mine .'
        ' :a :q "B" {| :q :v |} . :a :p :b .',
        report=report,
    )
    assert by_split(graph) == {"train": [said(("q", "v"))]}
    assert report.literals == {"xsd:date": 1, "xsd:integer": 2, "rdf:langString": 1, "xsd:string": 2, "http://example.org/mine": 1}


def test_a_literal_in_standard_reification_is_left_out_and_counted():
    report = Report()
    graph = read(":a :p :b . [] rdf:subject :a ; rdf:predicate :p ; rdf:object 3 ; :q :v .", report=report, unasserted="keep")
    assert by_split(graph) == {"train": [BARE]}
    assert report.literals == {"xsd:integer": 1}


def test_triple_terms_as_values_are_left_out_and_counted():
    report = Report()
    graph = read(":a :p :b {| :q <<( :x :p :y )>> |} . :a :says <<( :x :p :y )>> .", report=report)
    assert by_split(graph) == {"train": [BARE]}
    assert report.literals == {"triple term": 2}


def test_labels_are_not_facts_and_the_preferred_one_wins():
    report = Report()
    graph = read(
        ':a :p :b ; rdfs:label "A" , "Ä"@de . :a skos:prefLabel "the A" .'
        ' :p rdfs:label "plays"@en . :b rdfs:label :c . :z rdfs:label "Z" .',
        report=report,
    )
    assert by_split(graph) == {"train": [BARE, Statement("b", "http://www.w3.org/2000/01/rdf-schema#label", "c")]}
    assert graph.entities.label(graph.entities.id("a"), "") == "the A"
    assert graph.entities.label(graph.entities.id("a"), "de") == "Ä"
    assert graph.relations.label(graph.relations.id("p")) == "plays"
    assert report == Report()


def test_names_of_schema_and_foaf_are_labels_and_so_is_what_the_user_names(tmp_path):
    path = tmp_path / "a.ttl"
    path.write_text(
        PREFIXES + "@prefix foaf: <http://xmlns.com/foaf/0.1/> . @prefix schema: <http://schema.org/> .\n"
        ':a :p :b . :a foaf:name "foaf" ; schema:name "schema"@en . :b foaf:name "foaf b" ; :code "B1" .'
    )
    graph, report = import_graph(path, names=NAMES)
    named = {tag: {graph.entities.identifier(id_): text for id_, text in by_id.items()} for tag, by_id in graph.entities.labels.items()}
    assert named == {"": {"a": "foaf", "b": "foaf b"}, "en": {"a": "schema"}}
    assert report.left_out == {"xsd:string": {"code": 1}}
    graph, report = import_graph(path, names=NAMES, label_relations=["http://example.org/code"])
    assert graph.entities.label(graph.entities.id("b")) == "B1"
    assert report.left_out == {}


def test_literals_are_counted_by_kind_and_by_relation():
    report = Report()
    read(':a :p :b {| :since 1990 ; :since 1991 ; :note "x"@en |} . :a :height 1.5 .', report=report)
    assert report.literals == {"xsd:integer": 2, "rdf:langString": 1, "xsd:decimal": 1}
    assert report.left_out == {"xsd:integer": {"since": 2}, "rdf:langString": {"note": 1}, "xsd:decimal": {"height": 1}}


def test_a_label_of_an_entity_also_names_the_relation_of_that_identifier():
    text = '<e:x> <r:P1> <e:y> . <e:P1> <http://www.w3.org/2000/01/rdf-schema#label> "plays" .'
    graph = read_document(text, "turtle", Names("e:", "r:")).draft.finish()
    assert graph.relations.label(graph.relations.id("P1")) == "plays"


def test_an_entity_and_a_relation_of_one_identifier_keep_a_label_each():
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    text = f'<e:x> <r:capital> <e:capital> . <e:capital> {label} "capital city" . <r:capital> {label} "has capital" .'
    graph = read_document(text, "turtle", Names("e:", "r:")).draft.finish()
    assert graph.entities.label(graph.entities.id("capital")) == "capital city"
    assert graph.relations.label(graph.relations.id("capital")) == "has capital"


def test_a_written_blank_node_label_is_kept_even_if_it_looks_like_an_invented_one():
    label = "_:abcdef0123456789abcdef0123456789"
    for padding in range(2**16 - 60, 2**16, 7):  # also where it stands across two blocks of the source
        graph = read("#" * (padding - len(PREFIXES)) + f"\n{label} :p _:x .")
        assert by_split(graph) == {"train": [Statement(label, "p", "_:x")]}


def test_a_blank_node_without_a_label_is_named_by_its_order():
    text = ":a :p :b {| :q [ :p :a ] |} . [] :p :b . :c :p _:x ."
    expected = [Statement("_:anon0", "p", "a"), Statement("_:anon1", "p", "b"), said(("q", "_:anon0")), Statement("c", "p", "_:x")]
    assert by_split(read(text)) == by_split(read(text)) == {"train": expected}


def test_a_name_for_a_blank_node_clashes_with_no_written_label():
    assert by_split(read("[] :p :b . _:anon0 :p :b .")) == {"train": [Statement("_:anon0", "p", "b"), Statement("_:anon_0", "p", "b")]}


def test_the_files_of_a_folder_are_one_graph_with_one_set_of_blank_nodes():
    task = ImportTask(names=NAMES)
    reader = task.shared(RdfReader)
    reader.read(io.BytesIO(b"<a:a> <a:p> _:x , [] ."), "train.ttl", RdfFormat.TURTLE, "train")
    reader.read(io.BytesIO(b"_:x <a:p> _:anon0 , [] ."), "valid.ttl", RdfFormat.TURTLE, "valid")
    task.finish()
    graph = task.draft.finish()
    assert by_split(graph) == {
        "train": [Statement("a:a", "a:p", "_:anon_0"), Statement("a:a", "a:p", "_:x")],
        "valid": [Statement("_:x", "a:p", "_:anon0"), Statement("_:x", "a:p", "_:anon_1")],
    }


def reification(*parts: tuple[str, str, str]) -> str:
    rdf = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
    return "".join(f"{node} <{rdf}{role}> <http://example.org/{value}> <urn:x:test> .\n" for node, role, value in parts)


def test_standard_reification_needs_no_base_triple_in_its_own_format():
    text = reification(("_:1", "subject", "a"), ("_:1", "predicate", "p"), ("_:1", "object", "b"))
    text += "_:1 <http://example.org/q> <http://example.org/v> <urn:x:test> .\n"
    assert by_split(read(text, "reification")) == {"test": [said(("q", "v"))]}
    report = Report()
    with pytest.raises(InputError, match="at least one statement"):
        read(text, "nquads", report)
    assert report.unasserted == 1


@pytest.mark.parametrize(
    "parts",
    [[("_:1", "subject", "a"), ("_:1", "object", "b")], [("_:1", role, v) for role in ("subject", "predicate", "object") for v in "ab"]],
)
def test_a_malformed_standard_reification_is_a_problem(parts):
    good = reification(*(("_:2", role, value) for role, value in (("subject", "a"), ("predicate", "p"), ("object", "b"))))
    with pytest.raises(InputError, match="_:1: a reified statement has one rdf:subject, one rdf:predicate and one rdf:object"):
        read(good + reification(*parts), "reification")
    report = Report("skip")
    assert by_split(read(good + reification(*parts), "reification", report)) == {"test": [BARE]}
    assert report.skipped == 1


def test_a_reified_predicate_is_an_iri():
    text = ":a :p :b . :r rdf:subject :a ; rdf:predicate _:x ; rdf:object :b ; :q :v ."
    with pytest.raises(InputError, match=r"http://example.org/r: an rdf:predicate is an IRI, found _:x"):
        read(text)
    assert by_split(read(text, report=Report("skip"))) == {"train": [BARE]}


def test_an_iri_that_is_not_an_identifier_is_a_problem():
    text = "<a:a> <a:p> <a:b> .\n<a:a> <a:p> <a:\u3000> .\n<a:a> <a:p> <a:\u3000> .\n"
    with pytest.raises(InputError, match=r"file\.ntriples: an identifier is one line of text"):
        read(text, "ntriples")
    report = Report("skip")
    assert by_split(read(text, "ntriples", report)) == {"train": [Statement("a:a", "a:p", "a:b")]}
    assert report.skipped == 2


def test_a_document_without_statements_adds_none():
    assert len(read_document("", "turtle", NAMES).draft) == 0
