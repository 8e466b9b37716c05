import pytest

from starqe.errors import InputError
from starqe.kg import Graph, Names, Report, Statement, import_graph
from starqe.kg.literal import ANY_URI, DATE_TIME, DECIMAL, WKT, Literal
from starqe.kg.reading.import_options import WikidataOptions
from tests.kg.rdf.documents import read_document
from tests.places import DATA

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
wd:Q1 p:P4 wds:f .
wds:f wikibase:rank wikibase:NormalRank ; ps:P4 <http://commons.wikimedia.org/wiki/Special:FilePath/a.jpg> ; pq:P2 wd:Q3 .
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
        "statements without a value": 1,
        "references": 2,
        "descriptions of values, properties and pages": 11,
    }
    assert report.left_out == {
        "rank deprecated": {"P1": 1},
        "unknown value": {"P1": 1},
        "xsd:integer": {"P5": 1},
        "xsd:string": {"P2": 1, "P4": 1},
    }
    assert report.notes == [
        "this is the RDF of a Wikibase site: 4 statement nodes became statements, and identifiers are written without "
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
    assert report.records == {"descriptions of values, properties and pages": 1}
    assert report.left_out == {"xsd:anyURI": {"P2": 1}}


def statements_of(graph: Graph) -> set[Statement]:
    """Returns the statements, with one name for all unknown values."""

    def alike(value: str | Literal) -> str | Literal:
        return "_:" if isinstance(value, str) and value.startswith("_:") else value

    return {
        Statement(one.head, one.relation, alike(one.tail), tuple((key, alike(value)) for key, value in one.qualifiers))
        for one in graph.statements("train")
    }


@pytest.mark.skipif(not FORMATS.is_dir(), reason="the sample files are not here")
@pytest.mark.parametrize("special", ["leave", "keep"])
@pytest.mark.parametrize("ranks", [("preferred", "normal"), ("deprecated",), ("best",)], ids=["usual", "deprecated", "best"])
@pytest.mark.parametrize("name", ["Q8413", "Q1", "Q120248304"])
def test_an_item_in_turtle_gives_every_statement_of_its_json_with_qualifiers_and_literals(name, ranks, special):
    options = WikidataOptions(ranks=ranks, special_values=special)
    if (name, ranks) == ("Q120248304", ("deprecated",)):
        with pytest.raises(InputError, match="found none"):
            import_graph(FORMATS / "wikidata-rdf" / f"{name}.ttl", wikidata=options)
        return
    turtle, report = import_graph(FORMATS / "wikidata-rdf" / f"{name}.ttl", wikidata=options)
    read, expected = import_graph(FORMATS / "wikidata-json" / f"{name}.json", wikidata=options)  # see test_real_files.py
    assert statements_of(turtle) == statements_of(read)
    assert (report.left_out, report.skipped) == (expected.left_out, 0)


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


def test_values_that_are_only_full_are_read_too():
    text = """
wd:Q1 p:P1 wds:a . wds:a wikibase:rank wikibase:NormalRank ; psv:P1 wdv:1 ; pqv:P2 wdv:2 ; pqv:P3 wdv:3 .
wdv:1 wikibase:geoLatitude 50.5e0 ; wikibase:geoLongitude -1.25e0 ; wikibase:geoPrecision 1.0E-5 ; wikibase:geoGlobe wd:Q405 .
wdv:2 wikibase:quantityAmount "+5"^^xsd:decimal ; wikibase:quantityUnit wd:Q199 .
wdv:3 wikibase:timeValue "1950-01-01T00:00:00Z"^^xsd:dateTime ; wikibase:timePrecision 9 .
wd:Q1 wdt:P1 "<http://www.wikidata.org/entity/Q405> Point(-1.25e0 50.5e0)"^^<http://www.opengis.net/ont/geosparql#wktLiteral> .
"""
    point = Literal("<http://www.wikidata.org/entity/Q405> Point(-1.25e0 50.5e0)", WKT, precision=1e-5)
    pairs = (("P2", Literal("+5", DECIMAL)), ("P3", Literal("1950-01-01T00:00:00Z", DATE_TIME, precision=9)))
    assert kept(text) == [Statement("Q1", "P1", point, pairs)]


def kept(text: str, **options: str) -> list[Statement]:
    prefixes = "@prefix xsd: <http://www.w3.org/2001/XMLSchema#> . @prefix wdno: <http://www.wikidata.org/prop/novalue/> ." + PREFIXES
    task = read_document(prefixes + text, "turtle", Names(), literals="keep", wikidata=WikidataOptions(**options))  # type: ignore[arg-type]
    return list(task.draft.finish(task.names).statements("train"))


def test_files_and_addresses_are_literals_as_in_json():
    text = """
wd:Q1 p:P1 wds:a . wds:a ps:P1 <http://commons.wikimedia.org/wiki/Special:FilePath/A%20b%3F.jpg> ; pq:P2 <https://e.org/a%20b?c> .
wd:Q1 p:P3 wds:b . wds:b ps:P3 <http://commons.wikimedia.org/data/main/Data:Ulm.map> .
wd:Q1 wdt:P1 <http://commons.wikimedia.org/wiki/Special:FilePath/A%20b%3F.jpg> .
"""
    assert kept(text) == [
        Statement("Q1", "P1", Literal("A b?.jpg"), (("P2", Literal("https://e.org/a%20b?c", ANY_URI)),)),
        Statement("Q1", "P3", Literal("Data:Ulm.map")),
    ]


def test_no_value_is_a_class_of_the_statement_node():
    text = """
wd:Q1 p:P1 wds:a , wds:b ; a wdno:P1 . wds:a a wdno:P1 , wikibase:BestRank ; pq:P2 wd:Q2 .
wds:b ps:P1 wd:Q3 ; a wdno:P2 .
"""
    graph, report = read("@prefix wdno: <http://www.wikidata.org/prop/novalue/> ." + text, Names())
    assert list(graph.statements("train")) == [Statement("Q1", "P1", "Q3")]
    assert report.left_out == {"no value": {"P1": 1, "P2": 1}}
    assert kept(text, special_values="keep") == [
        Statement("Q1", "P1", "Q3", (("P2", "novalue"),)),
        Statement("Q1", "P1", "novalue", (("P2", "Q2"),)),
    ]


def test_details_of_statements_that_are_left_out_are_left_out():
    text = """
wd:Q1 p:P1 wds:a , wds:b . wds:a ps:P1 wd:Q2 .
wds:b wikibase:rank wikibase:DeprecatedRank ; ps:P1 wd:Q3 ; pq:P2 "1950-01-01T00:00:00Z"^^xsd:dateTime ; pqv:P2 wdv:1 .
wdv:1 wikibase:timeValue "1950-01-01T00:00:00Z"^^xsd:dateTime ; wikibase:timePrecision 9 .
"""
    assert kept(text) == [Statement("Q1", "P1", "Q2")]
