from importlib import resources

import pyoxigraph
import pytest

from starqe.kg import SPLITS, Graph, check_split, embedded_graph
from starqe.kg.embedded import NAMES


@pytest.fixture(scope="module")
def graph() -> Graph:
    return embedded_graph()


def test_it_is_large_enough_to_learn_from_and_small_enough_to_read(graph):
    assert 600 <= len(graph) <= 5000
    assert len(graph.entities) >= 150
    assert len(graph.relations) >= 15
    assert sum(bool(graph.pairs_of(row)) for row in range(len(graph))) > len(graph) / 2


def test_everything_has_a_label_and_much_a_german_one(graph):
    for vocabulary in (graph.entities, graph.relations):
        assert set(vocabulary.labels["en"]) == set(range(len(vocabulary)))
        assert all(label.strip() for by_id in vocabulary.labels.values() for label in by_id.values())
    assert len(graph.entities.labels["de"]) + len(graph.relations.labels.get("de", {})) >= 40
    assert graph.entities.label(graph.entities.id("ETHZurich"), "de") == "ETH Zürich"


def test_the_splits_are_transductive(graph):
    assert check_split(graph).clean
    assert all((graph.split == code).sum() >= 30 for code in range(len(SPLITS)))


def test_no_identifier_is_mentioned_without_being_described(graph):
    data = resources.files("starqe.kg.embedded").joinpath("science.trig").read_bytes()
    quads = list(pyoxigraph.parse(data, pyoxigraph.RdfFormat.TRIG))
    label = "http://www.w3.org/2000/01/rdf-schema#label"
    labelled = {quad.subject.value for quad in quads if quad.predicate.value == label}
    terms = [NAMES.entities.term(word) for word in graph.entities] + [NAMES.relations.term(word) for word in graph.relations]
    assert labelled == {term.value for term in terms}


def test_a_sparql_engine_finds_the_same_statements_in_the_file(graph):
    store = pyoxigraph.Store()
    store.load(resources.files("starqe.kg.embedded").joinpath("science.trig").read_bytes(), pyoxigraph.RdfFormat.TRIG)
    found = store.query(
        """PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>
        SELECT (COUNT(*) AS ?pairs) WHERE { GRAPH ?g { ?reifier rdf:reifies ?triple ; ?q ?v . FILTER(?q != rdf:reifies) } }"""
    )
    assert int(next(iter(found))["pairs"].value) == len(graph.pair_value)


def test_the_example_of_the_paper_is_answered_by_look_ups(graph):
    entity, relation, known = graph.entities.id, graph.relations.id, graph.known(["train"])
    [discovery] = known.by_head(entity("LawOfThePhotoelectricEffect"), relation("discovererOrInventor"))
    discoverer = int(graph.tail[discovery])
    assert graph.entities.identifier(discoverer) == "AlbertEinstein"
    degree = (relation("academicDegree"), entity("BachelorOfScience"))
    rows = known.by_head(discoverer, relation("educatedAt"))
    with_degree = rows[known.with_pairs(rows, [degree])]
    assert [graph.entities.identifier(tail) for tail in graph.tail[with_degree]] == ["ETHZurich"]
    assert len(rows) > len(with_degree)  # the qualifier decides
    assert known.holds(discoverer, relation("educatedAt"), entity("ETHZurich"), [degree])
