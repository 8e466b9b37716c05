"""Real files with their literals kept: every statement is compared with what an independent reader finds."""

import csv
import gzip
import json
import re
from collections import Counter
from datetime import date, timedelta
from xml.etree import ElementTree

import pytest

from starqe.errors import InputError
from starqe.kg import Statement, import_graph
from starqe.kg.literal import BOOLEAN, DATE, DATE_TIME, DECIMAL, DOUBLE, INTEGER, LANGUAGE_STRING, STRING, WKT, XSD, Literal
from starqe.kg.reading.import_options import WikidataOptions
from tests.places import DATA

FORMATS = DATA / "formats"
real = pytest.mark.skipif(not FORMATS.is_dir(), reason="the files of other formats are not here")
TYPES = {"int": INTEGER, "double": DOUBLE, "string": STRING}


def assert_same(graph, report, expected: list[Statement]) -> None:
    """Compares statements as a set, and their number with duplicates."""
    found = list(graph.statements("train"))
    assert set(found) == set(expected)
    assert len(found) + report.duplicates == len(expected)
    assert (report.skipped, report.literals) == (0, {})


@real
def test_every_edge_of_a_kgtk_file_is_kept():
    path = FORMATS / "kgtk" / "wikidata_sample.tsv"
    with path.open(encoding="utf-8", newline="") as file:
        edges = [edge for edge in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if edge["label"] != "label"]

    def value(text: str) -> Literal:
        if text[0] == "'":
            inside, _, language = text.rpartition("@")
            return Literal(re.sub(r"\\(.)", r"\1", inside[1:-1]), LANGUAGE_STRING, language.lower())
        return Literal(text, INTEGER if text.isdecimal() else DOUBLE if "e" in text else DECIMAL)

    expected = [Statement(edge["node1"], edge["label"], value(edge["node2"])) for edge in edges]
    graph, report = import_graph(path)
    assert_same(graph, report, expected)
    assert Counter(one.relation for one in expected)["alias"] == 1870
    assert len(expected) == 8554  # 9,993 edges without 1,439 labels


@real
def test_every_property_of_a_graphml_file_is_kept():
    path = FORMATS / "property-graph" / "air-routes-small.graphml"
    root = ElementTree.parse(path).getroot()
    space = "{http://graphml.graphdrawing.org/xmlns}"
    types = {key.get("id"): TYPES[key.get("attr.type")] for key in root.iter(f"{space}key")}
    expected = []
    for node in root.iter(f"{space}node"):
        for data in node.iter(f"{space}data"):
            if data.get("key") == "labelV":
                expected.append(Statement(node.get("id"), "type", data.text))
            elif data.text is not None:
                expected.append(Statement(node.get("id"), data.get("key"), Literal(data.text, types[data.get("key")])))
    for edge in root.iter(f"{space}edge"):
        texts = {data.get("key"): data.text for data in edge.iter(f"{space}data")}
        relation = texts.pop("labelE")
        pairs = tuple((key, Literal(text, types[key])) for key, text in texts.items())
        expected.append(Statement(edge.get("source"), relation, edge.get("target"), pairs))
    assert sum(bool(one.qualifiers) for one in expected) > 1000
    assert_same(*import_graph(path), expected)


@real
@pytest.mark.full
def test_every_cell_of_neptunes_tables_is_kept():
    nodes, edges = (FORMATS / "property-graph" / f"air-routes-latest-{kind}.csv" for kind in ("nodes", "edges"))
    expected = []
    with nodes.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            expected.append(Statement(row["~id"], "type", row["~label"]))
            properties = ((*name.split(":"), text) for name, text in row.items() if text and name[0] != "~")
            expected += [Statement(row["~id"], key, Literal(text, TYPES[type_])) for key, type_, text in properties]
    with edges.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            pairs = (("dist", Literal(row["dist:int"], INTEGER)),) if row["dist:int"] else ()
            expected.append(Statement(row["~from"], row["~label"], row["~to"], pairs))
    assert len(expected) > 90_000
    assert_same(*import_graph([nodes, edges]), expected)


def typed(kind: str, value: object) -> dict[str, object]:
    return {"@type": kind, "@value": value}


def test_every_value_of_graphson_is_kept(tmp_path):
    values = {
        "int": (typed("g:Int32", -5), Literal("-5", INTEGER)),
        "long": (typed("g:Int64", 2**40), Literal(str(2**40), INTEGER)),
        "float": (typed("g:Float", 0.5), Literal("0.5", DOUBLE)),
        "double": (typed("g:Double", 1e-9), Literal("1e-09", DOUBLE)),
        "exact": (typed("gx:BigDecimal", "1.20"), Literal("1.20", DECIMAL)),
        "big": (typed("gx:BigInteger", "123456789012345678901"), Literal("123456789012345678901", INTEGER)),
        "yes": (True, Literal("true", BOOLEAN)),
        "text": ("two\nlines", Literal("two\nlines")),
        "empty": ("", Literal("")),
        "moment": (typed("g:Timestamp", 86_400_500), Literal("1970-01-02T00:00:00.500000Z", DATE_TIME)),
        "day": (typed("gx:LocalDate", "1949-12-25"), Literal("1949-12-25", DATE)),
        "span": (typed("gx:Duration", "PT5H"), Literal("PT5H", XSD + "duration")),
        "uuid": (typed("g:UUID", "41d2e28a"), Literal("41d2e28a")),
    }
    properties = {key: [typed("g:VertexProperty", {"id": 0, "value": value, "label": key})] for key, (value, _) in values.items()}
    edge = {"id": 9, "inV": 2, "properties": {key: value for key, (value, _) in values.items()}}
    set_ = [typed("g:VertexProperty", {"id": 1, "value": typed("g:Set", ["x", typed("g:Int32", 7)]), "properties": {"since": "then"}})]
    vertex = typed("g:Vertex", {"id": 1, "label": "v", "outE": {"knows": [edge]}, "properties": {**properties, "tags": set_}})
    (tmp_path / "a.json").write_text(json.dumps(vertex) + "\n" + json.dumps(typed("g:Vertex", {"id": 2, "label": "w"})) + "\n")
    graph, report = import_graph(tmp_path / "a.json")
    pairs = tuple((key, literal) for key, (_, literal) in values.items())
    since = (("since", Literal("then")),)
    expected = [Statement("1", key, literal) for key, literal in pairs]
    expected += [Statement("1", "tags", one, since) for one in (Literal("x"), Literal("7", INTEGER))]
    expected += [Statement("1", "type", "v"), Statement("2", "type", "w"), Statement("1", "knows", "2", pairs)]
    assert_same(graph, report, expected)


def wikidata_time(value: dict) -> Literal:
    """Reads a time with the standard library; Julian dates are shifted by the days between the calendars."""
    sign, year, month, day, rest = re.fullmatch(r"([+-])(\d+)-(\d\d)-(\d\d)(T.*)", value["time"]).groups()
    precision, number = value["precision"], int(sign + year)
    number += number < 0 and precision >= 9
    month, day = (max(int(part), 1) if precision >= least else 1 for part, least in ((month, 10), (day, 11)))
    is_julian = value["calendarmodel"].endswith("/Q1985786")
    text = f"{'-' * (number < 0)}{abs(number):04d}-{month:02d}-{day:02d}"
    if is_julian and precision >= 11:
        assert number > 0
        century_year = number - (month <= 2)
        text = (date(number, month, day) + timedelta(century_year // 100 - century_year // 400 - 2)).isoformat()
    return Literal(text + rest, DATE_TIME, precision=precision, calendar="julian" if is_julian else "")


def plain_number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def wikidata_value(snak: dict) -> str | Literal:
    value, data = snak["datavalue"]["value"], snak["datavalue"]["type"]
    if data == "wikibase-entityid":
        return value.get("id") or "Q{numeric-id}".format(**value)
    if data == "string":
        return Literal(value, XSD + "anyURI" if snak["datatype"] == "url" else STRING)
    if data == "monolingualtext":
        return Literal(value["text"], LANGUAGE_STRING, value["language"])
    if data == "quantity":
        unit = "" if value["unit"] == "1" else value["unit"].split("/")[-1]
        return Literal(value["amount"], DECIMAL, unit=unit, lower=value.get("lowerBound", ""), upper=value.get("upperBound", ""))
    if data == "globecoordinate":
        assert value["globe"].endswith("/Q2")
        return Literal(
            "Point({} {})".format(*(plain_number(value[key]) for key in ("longitude", "latitude"))), WKT, precision=value["precision"]
        )
    assert data == "time"
    return wikidata_time(value)


def walk(entities: list[dict], ranks: tuple[str, ...]) -> tuple[list[Statement], dict[str, Counter]]:
    """Returns the statements of some ranks, and what has to be left out: reason -> number by property."""
    found, left = [], {}
    reasons = {"somevalue": "unknown value", "novalue": "no value"}

    def leave(reason: str, relation: str) -> None:
        left.setdefault(reason, Counter())[relation] += 1

    for entity in entities:
        for one in (one for statements in entity["claims"].values() for one in statements):
            main = one["mainsnak"]
            if one["rank"] not in ranks:
                leave(f"rank {one['rank']}", main["property"])
            elif main["snaktype"] != "value":
                leave(reasons[main["snaktype"]], main["property"])
            else:
                pairs = []
                for snak in (snak for snaks in one.get("qualifiers", {}).values() for snak in snaks):
                    if snak["snaktype"] == "value":
                        pairs.append((snak["property"], wikidata_value(snak)))
                    else:
                        leave(reasons[snak["snaktype"]], snak["property"])
                found.append(Statement(entity["id"], main["property"], wikidata_value(main), tuple(pairs)))
    return found, left


@real
@pytest.mark.parametrize("ranks", [("preferred", "normal"), ("preferred", "normal", "deprecated")], ids=["usual", "all"])
@pytest.mark.parametrize("name", ["Q1", "Q53713", "Q8413", "P31", "Q120248304"])
def test_every_statement_of_a_wikidata_entity_is_kept(name, ranks):
    path = FORMATS / "wikidata-json" / f"{name}.json"
    expected, left = walk(list(json.loads(path.read_bytes())["entities"].values()), ranks)
    graph, report = import_graph(path, wikidata=WikidataOptions(ranks=ranks))
    assert_same(graph, report, expected)
    assert report.left_out == left


@real
@pytest.mark.parametrize("name", ["mock-dump-for-long-testing.json", "sample-dump-20150815.json.gz"])
def test_every_statement_of_a_dump_is_kept(name):
    data = (FORMATS / "wikidata-json" / name).read_bytes()
    entities = json.loads(gzip.decompress(data) if name.endswith(".gz") else data)
    expected, left = walk(entities, ("preferred", "normal"))
    graph, report = import_graph(FORMATS / "wikidata-json" / name)
    assert_same(graph, report, expected)
    assert (len(entities), report.left_out) == (101, left)


@real
def test_a_lexeme_is_counted_and_skipped():
    path = FORMATS / "wikidata-json" / "L1883.json"
    with pytest.raises(InputError, match=r"L1883\.json: .* found none\. records left out: lexeme 1$"):
        import_graph(path)
    graph, report = import_graph([path, FORMATS / "wikidata-json" / "Q120248304.json"])
    assert report.records == {"lexeme": 1}
    assert {one.head for one in graph.statements("train")} == {"Q120248304"}
