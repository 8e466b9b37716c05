"""Texts that are not SPARQL are refused as such, with an example that this graph answers."""

import pytest

from starqe.errors import SparqlError
from starqe.kg import SPLITS, embedded_graph
from starqe.queries import answer
from starqe.queries.sparql.foreign import example
from starqe.queries.sparql.read import read_sparql

GRAPH = embedded_graph()


def error(text: str) -> SparqlError:
    with pytest.raises(SparqlError) as caught:
        read_sparql(text, GRAPH)
    return caught.value


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Where was Albert Einstein born?", "plain text"),
        ("  albert einstein", "plain text"),
        ("# a comment\nWho won the Nobel Prize in Physics in 1921?", "plain text"),
        ("born in Ulm", "plain text"),
        ("Who was born in Ulm, and why?", "plain text"),
        ("MATCH (n) RETURN n", "Cypher"),
        ("match (p:Person {name: 'x'})-[:BORN_IN]->(c) where c.name = 'Ulm' return p", "Cypher"),
        ("OPTIONAL MATCH (n) RETURN n", "Cypher"),
        ("CREATE (n:Person)", "Cypher"),
        ("SELECT name FROM people WHERE city = 'Ulm'", "SQL"),
        ("SELECT * FROM people", "SQL"),
        ("select p.name, count(*) from people p join cities c on p.city = c.id group by p.name", "SQL"),
        ('{ person(name: "Albert Einstein") { birthPlace } }', "GraphQL"),
        ("query { people { name } }", "GraphQL"),
        ("query People($city: String) { people(city: $city) { name } }", "GraphQL"),
        ("g.V().has('name', 'Ulm').in('bornIn')", "Gremlin"),
    ],
)
def test_another_language_is_named_and_an_example_of_this_graph_runs(text, found):
    caught = error(text)
    assert "questions are written in SPARQL, found " in str(caught)
    assert found in str(caught)
    assert "property path" not in str(caught)
    shown = str(caught).partition("For example: ")[2]
    assert answer(GRAPH.known(SPLITS), read_sparql(shown, GRAPH).query).size


def test_the_example_is_about_what_the_text_mentions():
    assert 'For example: SELECT ?x { "Albert Einstein" ' in str(error("Where was Albert Einstein born?"))
    assert example(GRAPH, "marie curie?").startswith('SELECT ?x { "Marie Curie" ')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELCT ?x { ?x r:bornIn e:Ulm }", "Did you mean SELECT?"),
        ("SELECT ?x FROM <http://g> { ?x r:bornIn e:Ulm }", "FROM is refused"),
        ("SELECT * { ?x r:bornIn e:Ulm } ORDER BY ?x", "ORDER BY is not predicted"),
        ("DESCRIBE e:Ulm", "DESCRIBE is not predicted"),
        ("INSERT DATA { e:a r:b e:c }", "the update INSERT"),
        ("SELECT ?x { ?x r:bornIn+ e:Germany }", "a path with * or +"),
        ("WHERE { ?x r:bornIn e:Ulm }", "expected PREFIX, SELECT, ASK or CONSTRUCT"),
        ("{ ?x r:bornIn e:Ulm }", "expected PREFIX, SELECT, ASK or CONSTRUCT"),
        ("", "the text ends too early"),
        ("# only a comment", "the text ends too early"),
        ("@prefix : <http://a/> .", "found '@prefix'"),
    ],
)
def test_what_is_meant_as_sparql_keeps_its_own_error(text, message):
    assert message in str(error(text))
