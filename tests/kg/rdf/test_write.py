from functools import partial

import pyoxigraph
import pytest
from hypothesis import HealthCheck, given, settings

from starqe.errors import InputError, StorageError
from starqe.kg.draft import Draft, graph_of
from starqe.kg.exchange import FORMS
from starqe.kg.graph import Graph
from starqe.kg.iris import Names
from starqe.kg.reading.import_task import ImportTask
from starqe.kg.reading.report import Report
from starqe.kg.statement import SPLITS, Statement
from tests.kg.rdf.documents import SYNTAX
from tests.kg.strategies import graphs

EXTENSIONS = {"turtle": "", "trig": ".trig", "ntriples": "", "nquads": ".nq", "reification": ".nq"}
BARE = Statement("a", "p", "b")
DATED = Statement("a", "p", "b", (("q", "v"), ("q", "w x")))
OTHER = Statement("c", "p", "http://example.org/d")
SMALL = graph_of(train=[BARE, DATED, OTHER], valid=[BARE], test=[DATED])


WRITERS = [name for name, form in FORMS.items() if isinstance(form.read, partial) and form.write]


def write_rdf(graph, destination, format_, names, overwrite=False):
    return FORMS[format_].write(graph, destination, names, overwrite)


def read_back(paths, format_, names) -> tuple[Graph, Report]:
    task = ImportTask(names=names)
    for path in paths:
        FORMS[format_].read(task, path, path.stem if path.stem in SPLITS else "train")
    task.finish()
    return task.draft.finish(), task.report


def labels(graph: Graph) -> list[dict[str, dict[str, str]]]:
    return [
        {language: {words.identifier(id_): text for id_, text in by_id.items()} for language, by_id in words.labels.items()}
        for words in (graph.entities, graph.relations)
    ]


def shares_an_iri_between_roles(graph: Graph, names: Names) -> bool:
    """Says whether an entity may be the IRI that stands for a relation, or the reverse: RDF has one label for both."""
    return any(word.startswith((names.entity_base, names.relation_base)) for words in (graph.entities, graph.relations) for word in words)


@pytest.mark.parametrize("format_", WRITERS)
@pytest.mark.parametrize("names", [Names(), Names("http://example.org/", "http://example.org/"), Names("a:e/", "a:r/")])
@given(graph=graphs())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_graph_comes_back_from_every_form_with_its_labels(tmp_path, format_, names, graph):
    paths = write_rdf(graph, tmp_path / f"graph{EXTENSIONS[format_]}", format_, names, overwrite=True)
    back, report = read_back(paths, format_, names)
    assert list(back.statements(*SPLITS)) == list(graph.statements(*SPLITS))
    assert back.fingerprint == graph.fingerprint
    assert shares_an_iri_between_roles(graph, names) or labels(back) == labels(graph)
    assert report == Report()


def test_trig_is_a_named_graph_a_split_and_a_statement_a_line(tmp_path):
    (path,) = write_rdf(SMALL, tmp_path / "out" / "graph.trig", "trig", Names())
    assert path.read_text() == (
        "@prefix e: <urn:starqe:entity:> .\n@prefix r: <urn:starqe:relation:> .\n@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        "\n<urn:starqe:split:train> {\n"
        "  e:a r:p e:b ~ .\n"
        "  e:a r:p e:b {| r:q e:v ; r:q e:w%20x |} .\n"
        "  e:c r:p <http://example.org/d> .\n"
        "}\n"
        "\n<urn:starqe:split:valid> {\n  e:a r:p e:b .\n}\n"
        "\n<urn:starqe:split:test> {\n  e:a r:p e:b {| r:q e:v ; r:q e:w%20x |} .\n}\n"
    )


def test_ntriples_are_one_file_per_split_with_reifiers_apart(tmp_path):
    paths = write_rdf(SMALL, tmp_path / "out", "ntriples", Names("e:", "r:"))
    assert [path.name for path in paths] == ["train.nt", "valid.nt", "test.nt"]
    reifies = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies> <<( <e:a> <r:p> <e:b> )>> ."
    assert paths[0].read_text().splitlines() == [
        "<e:a> <r:p> <e:b> .",
        f"_:r0 {reifies}",
        f"_:r1 {reifies}",
        "_:r1 <r:q> <e:v> .",
        "_:r1 <r:q> <e:w%20x> .",
        "<e:c> <r:p> <http://example.org/d> .",
    ]
    assert paths[1].read_text() == "<e:a> <r:p> <e:b> .\n"
    assert paths[2].read_text().splitlines()[1] == f"_:r4 {reifies}"


def test_standard_reification_is_three_triples_a_statement_and_one_a_pair(tmp_path):
    graph = graph_of(valid=[Statement("a", "p", "b", (("q", "v"),))])
    (path,) = write_rdf(graph, tmp_path / "graph.nq", "reification", Names("e:", "r:"))
    rdf = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
    assert path.read_text().splitlines() == [
        f"_:r0 <{rdf}subject> <e:a> <urn:starqe:split:valid> .",
        f"_:r0 <{rdf}predicate> <r:p> <urn:starqe:split:valid> .",
        f"_:r0 <{rdf}object> <e:b> <urn:starqe:split:valid> .",
        "_:r0 <r:q> <e:v> <urn:starqe:split:valid> .",
    ]


def test_only_splits_that_occur_are_written(tmp_path):
    paths = write_rdf(graph_of(valid=[BARE]), tmp_path / "out", "turtle", Names())
    assert [path.name for path in paths] == ["valid.ttl"]


def test_labels_are_in_the_default_graph_or_the_first_file(tmp_path):
    draft = Draft()
    draft.add([["a", "p", "b"]], "valid")
    draft.add([["a", "p", "b"]], "test")
    draft.label("a", 'A "b"\n', "en")
    graph = draft.finish()
    label = '<http://www.w3.org/2000/01/rdf-schema#label> "A \\"b\\"\\n"@en .'
    (quads,) = write_rdf(graph, tmp_path / "graph.nq", "nquads", Names("e:", "r:"))
    assert quads.read_text().splitlines()[0] == f"<e:a> {label}"
    first, second = write_rdf(graph, tmp_path / "out", "turtle", Names("e:", "r:"))
    assert 'e:a rdfs:label "A \\"b\\"\\n"@en .' in first.read_text()
    assert "rdfs:label" not in second.read_text()


@pytest.mark.parametrize("format_", ["trig", "nquads"])
def test_reifiers_are_apart_from_blank_nodes_of_the_graph(tmp_path, format_):
    graph = graph_of(train=[Statement("_:r0", "p", "_:r1", (("q", "_:r_0"),))])
    paths = write_rdf(graph, tmp_path / "graph", format_, Names())
    quads = list(pyoxigraph.parse(path=str(paths[0]), format=SYNTAX[format_]))
    reifier = next(quad.subject for quad in quads if quad.predicate.value.endswith("reifies"))
    assert str(reifier) not in ("_:r0", "_:r1", "_:r_0")
    assert read_back(paths, format_, Names())[0].fingerprint == graph.fingerprint


def test_an_impossible_language_tag_is_refused_and_leaves_nothing(tmp_path):
    draft = Draft()
    draft.add([["a", "p", "b"]], "train")
    draft.label("a", "A", "no tag")
    with pytest.raises(InputError, match="a language tag is written like 'en' or 'pt-br', found 'no tag' at the label 'A'"):
        write_rdf(draft.finish(), tmp_path / "graph.trig", "trig", Names())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format_", WRITERS)
def test_an_existing_destination_is_replaced_only_on_demand(tmp_path, format_):
    place = tmp_path / "graph"
    write_rdf(SMALL, place, format_, Names())
    with pytest.raises(StorageError, match="exists already"):
        write_rdf(SMALL, place, format_, Names())
    smaller = graph_of(test=[BARE])
    paths = write_rdf(smaller, place, format_, Names(), overwrite=True)
    assert read_back(paths, format_, Names())[0].fingerprint == smaller.fingerprint
    assert list(tmp_path.iterdir()) == [place]


def test_a_folder_with_other_files_is_never_replaced(tmp_path):
    (tmp_path / "thesis.txt").write_text("all of it")
    with pytest.raises(StorageError, match=r"holds 'thesis.txt', which is not part of an export"):
        write_rdf(SMALL, tmp_path, "turtle", Names(), overwrite=True)
    assert (tmp_path / "thesis.txt").read_text() == "all of it"


def test_the_same_graph_gives_the_same_bytes_whatever_order_it_was_read_in(tmp_path):
    backwards = graph_of(test=[DATED], valid=[BARE], train=[OTHER, DATED, BARE])
    for format_ in ("trig", "nquads", "reification"):
        (one,) = write_rdf(SMALL, tmp_path / f"{format_}1", format_, Names())
        (two,) = write_rdf(backwards, tmp_path / f"{format_}2", format_, Names())
        assert one.read_bytes() == two.read_bytes()
