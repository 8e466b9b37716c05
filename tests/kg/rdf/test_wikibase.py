import json
import re
from functools import partial

import pytest

from starqe.kg import Graph, Names, Report, Statement
from starqe.kg import import_graph as import_with_literals
from starqe.kg.literal import ANY_URI, DATE_TIME, DECIMAL, Literal
from tests.kg.rdf.documents import read_document
from tests.places import DATA

import_graph = partial(import_with_literals, literals="drop")  # tests/kg/test_literals.py has what is kept


FORMATS = DATA / "formats"
PREFIXES = """
@prefix wd: <http://www.wikidata.org/entity/> .
@prefix wds: <http://www.wikidata.org/entity/statement/> .
@prefix wdt: <http://www.wikidata.org/prop/direct/> .
@prefix p: <http://www.wikidata.org/prop/> .
@prefix ps: <http://www.wikidata.org/prop/statement/> .
@prefix psv: <http://www.wikidata.org/prop/statement/value/> .
@prefix pq: <http://www.wikidata.org/prop/qualifier/> .
@prefix pqv: <http://www.wikidata.org/prop/qualifier/value/> .
@prefix pr: <http://www.wikidata.org/prop/reference/> .
@prefix prov: <http://www.w3.org/ns/prov#> .
@prefix wdref: <http://www.wikidata.org/reference/> .
@prefix wdv: <http://www.wikidata.org/value/> .
@prefix wikibase: <http://wikiba.se/ontology#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
"""
ITEM = """
wd:Q1 a wikibase:Item ; rdfs:label "one"@en .
wd:Q1 p:P1 wds:a , wds:b , wds:c , wds:d , wds:e ; wdt:P1 wd:Q2 , wd:Q9 , _:x .
wds:a a wikibase:Statement , wikibase:BestRank ; wikibase:rank wikibase:PreferredRank ; ps:P1 wd:Q2 ;
    pq:P2 wd:Q3 , wd:Q4 , "1905" ; pqv:P2 wdv:1 ; prov:wasDerivedFrom wdref:r .
wds:b wikibase:rank wikibase:NormalRank ; ps:P1 wd:Q5 .
wds:c wikibase:rank wikibase:DeprecatedRank ; ps:P1 wd:Q6 ; pq:P2 wd:Q7 .
wds:d wikibase:rank wikibase:NormalRank ; ps:P1 _:x .
wds:e wikibase:rank wikibase:NormalRank .
wdref:r pr:P3 wd:Q8 .
wd:P1 rdfs:label "spouse"@en ; wikibase:claim p:P1 .
wd:Q1 p:P4 wds:f . wds:f wikibase:rank wikibase:NormalRank ; ps:P4 <http://commons.wikimedia.org/a.jpg> ; pq:P2 wd:Q3 .
wd:Q1 p:P5 wds:g . wds:g wikibase:rank wikibase:NormalRank ; ps:P5 12 ; pq:P2 wd:Q3 ; psv:P5 wdv:2 .
wd:Q1 <http://example.org/own> wd:Q2 .
"""


def read(text: str, names: Names) -> tuple[Graph, Report]:
    task = read_document(PREFIXES + text, "turtle", names)
    return task.draft.finish(task.names), task.report


def test_statement_nodes_become_statements_with_qualifiers_and_nothing_else_does():
    graph, report = read(ITEM, Names())
    assert list(graph.statements("train")) == [
        Statement("Q1", "P1", "Q2", (("P2", "Q3"), ("P2", "Q4"))),  # merged with the truthy triple
        Statement("Q1", "P1", "Q5"),
        Statement("Q1", "P1", "Q9"),  # truthy, without a node
        Statement("Q1", "http://example.org/own", "Q2"),
    ]
    assert graph.names == Names("http://www.wikidata.org/entity/", "http://www.wikidata.org/prop/direct/")
    assert graph.relations.label(graph.relations.id("P1")) == "spouse"
    assert graph.entities.label(graph.entities.id("Q1")) == "one"
    assert report.records == {
        "deprecated statements": 1,
        "statements without a value": 1,
        "facts with an unknown value": 1,
        "facts with a file or web address": 1,
        "references": 2,
        "descriptions of values, properties and pages": 11,
    }
    assert report.literals == {"xsd:integer": 1, "xsd:string": 1}
    assert report.notes == [
        "this is the RDF of a Wikibase site: 2 statement nodes became statements, and identifiers are written without "
        "http://www.wikidata.org/entity/ and http://www.wikidata.org/prop/direct/"
    ]


def test_names_that_were_given_are_used():
    graph, _ = read(ITEM, Names("http://www.wikidata.org/entity/"))
    direct = "http://www.wikidata.org/prop/direct/P1"
    assert Statement("Q1", direct, "Q5") in set(graph.statements("train"))
    assert graph.relations.label(graph.relations.id(direct)) == "spouse"


def test_triples_of_truthy_dumps_are_statements():
    graph, report = read("wd:Q1 wdt:P1 wd:Q2 . wd:Q1 a wikibase:Item . wd:Q1 wdt:P2 <http://example.org/page> .", Names())
    assert list(graph.statements("train")) == [Statement("Q1", "P1", "Q2")]
    assert report.records == {"descriptions of values, properties and pages": 1, "facts with a file or web address": 1}


def entity(snak: dict) -> str | None:
    """Returns the entity of a snak in Wikidata's JSON, if it has one."""
    value = snak.get("datavalue", {})
    return value["value"]["id"] if snak["snaktype"] == "value" and value["type"] == "wikibase-entityid" else None


def statements_of_json(name: str) -> tuple[set[Statement], int]:
    """Works the statements of an item out from its JSON, and how many are deprecated."""
    read = json.loads((FORMATS / "wikidata-json" / f"{name}.json").read_text(encoding="utf-8"))
    item = read if "claims" in read else read["entities"][name]
    found, deprecated = set(), 0
    for relation, claims in item["claims"].items():
        for claim in claims:
            deprecated += claim["rank"] == "deprecated"
            tail = entity(claim["mainsnak"])
            if claim["rank"] != "deprecated" and tail:
                pairs = [(key, entity(snak)) for key, snaks in claim.get("qualifiers", {}).items() for snak in snaks]
                found.add(Statement(item["id"], relation, tail, tuple((key, value) for key, value in pairs if value)))
    return found, deprecated


@pytest.mark.skipif(not FORMATS.is_dir(), reason="the sample files are not here")
@pytest.mark.parametrize("name", ["Q8413", "Q1", "Q120248304"])
def test_an_item_in_turtle_gives_the_statements_of_its_json(name):
    graph, report = import_graph(FORMATS / "wikidata-rdf" / f"{name}.ttl")
    expected, deprecated = statements_of_json(name)
    assert set(graph.statements("train")) == expected
    assert report.records["deprecated statements"] == deprecated
    assert {entity[0] for entity in graph.entities} <= {"Q", "P"}


def literals_of(statements: set[Statement]) -> set[tuple[str, str, Literal]]:
    tails = {(one.relation, "", one.tail) for one in statements if isinstance(one.tail, Literal)}
    return tails | {(one.relation, key, value) for one in statements for key, value in one.qualifiers if isinstance(value, Literal)}


@pytest.mark.skipif(not FORMATS.is_dir(), reason="the sample files are not here")
@pytest.mark.parametrize("name", ["Q8413", "Q1"])
def test_an_item_in_turtle_has_the_literals_of_its_json_with_precision_calendar_unit_and_bounds(name):
    turtle, _ = import_with_literals(FORMATS / "wikidata-rdf" / f"{name}.ttl")
    read, _ = import_with_literals(FORMATS / "wikidata-json" / f"{name}.json")
    ours, theirs = ({one for one in graph.statements("train") if one.head == name} for graph in (turtle, read))
    assert literals_of(ours) <= literals_of(theirs)
    assert {literal.precision for _, _, literal in literals_of(ours)} > {None, 11}

    def is_file_or_address(value: str | Literal) -> bool:
        return isinstance(value, Literal) and (
            value.datatype == ANY_URI or re.search(r"\.(jpg|JPG|webm|png|svg|og[agv]|wav)$", value.lexical) is not None
        )

    assert {one for one in theirs if not any(map(is_file_or_address, one.fields()[2::2]))} <= ours


def test_full_values_say_what_simple_ones_do_not():
    text = """
wd:Q1 p:P1 wds:a . wds:a wikibase:rank wikibase:NormalRank ; ps:P1 "+5"^^xsd:decimal ; psv:P1 wdv:1 ;
    pq:P2 "1950-01-01T00:00:00Z"^^xsd:dateTime , "1900-01-01T00:00:00Z"^^xsd:dateTime ; pqv:P2 wdv:2 , wdv:3 .
wdv:1 wikibase:quantityAmount "+5"^^xsd:decimal ; wikibase:quantityUnit wd:Q11573 ; wikibase:quantityLowerBound "+4"^^xsd:decimal .
wds:a pq:P3 "Point(1 2)" , "Point(3 4)" ; pqv:P3 wdv:4 . wdv:4 wikibase:geoPrecision 0.1 .
wdv:2 wikibase:timeValue "1950-01-01T00:00:00Z"^^xsd:dateTime ; wikibase:timePrecision 9 .
wdv:3 wikibase:timeValue "1900-01-01T00:00:00Z"^^xsd:dateTime ; wikibase:timePrecision 7 ; wikibase:timeCalendarModel wd:Q1985786 .
"""
    task = read_document("@prefix xsd: <http://www.w3.org/2001/XMLSchema#> ." + PREFIXES + text, "turtle", Names(), literals="keep")
    points = (("P3", Literal("Point(1 2)")), ("P3", Literal("Point(3 4)")))  # it is not said which of them has the precision
    times = [
        Literal("1950-01-01T00:00:00Z", DATE_TIME, precision=9),
        Literal("1900-01-01T00:00:00Z", DATE_TIME, precision=7, calendar="julian"),
    ]
    expected = Statement("Q1", "P1", Literal("+5", DECIMAL, unit="Q11573", lower="+4"), (*(("P2", time) for time in times), *points))
    assert list(task.draft.finish(task.names).statements("train")) == [expected]
