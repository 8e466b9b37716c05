import bz2
import gzip
import io
import json
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from pyoxigraph import Literal as RdfLiteral
from pyoxigraph import RdfFormat, parse

from starqe.errors import InputError
from starqe.kg import Statement
from starqe.kg import import_graph as import_with_literals
from starqe.kg.formats import wikidata
from starqe.kg.formats.wikidata_values import VALUES, gregorian
from starqe.kg.literal import MARK, Literal, literal_key
from starqe.kg.reading.import_options import WikidataOptions
from starqe.kg.reading.import_task import ImportTask
from tests.places import DATA

import_graph = partial(import_with_literals, literals="drop")  # tests/kg/test_literals.py has what is kept


FILES = DATA / "formats" / "wikidata-json"
RDF_FILES = DATA / "formats" / "wikidata-rdf"
real = pytest.mark.skipif(not FILES.is_dir(), reason="needs the real files")


def snak(relation, value=None, type_="wikibase-entityid", kind="value", datatype=None):
    if kind != "value":
        return {"snaktype": kind, "property": relation, "hash": "h1"}
    value = {"entity-type": "item", "numeric-id": int(value[1:]), "id": value} if type_ == "wikibase-entityid" else value
    return {"snaktype": "value", "property": relation, "datavalue": {"type": type_, "value": value}, "datatype": datatype}


def statement(main, rank="normal", **qualifiers):
    made = {"mainsnak": main, "rank": rank, "type": "statement", "id": "Q1$A-1"}
    return {**made, "qualifiers": {key: list(values) for key, values in qualifiers.items()}} if qualifiers else made


def item(identifier, *statements, labels=None, type_="item"):
    claims = {}
    for one in statements:
        claims.setdefault(one["mainsnak"]["property"], []).append(one)
    texts = {language: {"language": language, "value": text} for language, text in (labels or {}).items()}
    return {"type": type_, "id": identifier, "labels": texts, "claims": claims}


YEAR = {"time": "+1921-00-00T00:00:00Z", "precision": 9, "calendarmodel": "http://www.wikidata.org/entity/Q1985727"}
EINSTEIN = item(
    "Q937",
    statement(snak("P31", "Q5")),
    statement(snak("P166", "Q38104"), P585=[snak("P585", YEAR, "time")], P1411=[snak("P1411", "Q7"), snak("P1411", "Q8")]),
    statement(snak("P166", "Q99"), "deprecated"),
    statement(snak("P166", "Q98"), "preferred", P580=[snak("P580", kind="somevalue")]),
    statement(snak("P40", kind="somevalue")),
    statement(snak("P26", kind="novalue")),
    labels={"de": "Einstein", "en": "Albert Einstein"},
)
PRIZE = item("Q38104", statement(snak("P31", "Q7")), labels={"mul": "Nobel", "fr": "prix Nobel"})
CLASS = item("Q5", labels={"sv": "människa", "no": "menneske"})
PROPERTY = item("P166", statement(snak("P31", "Q7")), labels={"en": "award received"}, type_="property")
DUMP = [EINSTEIN, PRIZE, CLASS, PROPERTY]


def write(folder: Path, records, name="dump.json") -> Path:
    path = folder / name
    path.write_text("[\n" + ",\n".join(json.dumps(record) for record in records) + "\n]\n", encoding="utf-8")
    return path


EXPECTED = {
    Statement("Q937", "P31", "Q5"),
    Statement("Q937", "P166", "Q38104", (("P1411", "Q7"), ("P1411", "Q8"))),
    Statement("Q937", "P166", "Q98"),
    Statement("Q38104", "P31", "Q7"),
    Statement("P166", "P31", "Q7"),
}


def test_statements_with_their_qualifiers_are_read_and_the_rest_is_counted_by_reason_and_relation(tmp_path):
    graph, report = import_graph(write(tmp_path, DUMP))
    assert set(graph.statements("train")) == EXPECTED
    assert report.left_out == {
        "rank deprecated": {"P166": 1},
        "unknown value": {"P40": 1, "P580": 1},
        "no value": {"P26": 1},
        "xsd:dateTime": {"P585": 1},
    }
    assert report.literals == {"xsd:dateTime": 1}
    assert report.forms == {"wikidata": 1}
    assert graph.names.entities.term("Q937").value == "http://www.wikidata.org/entity/Q937"


LAYOUTS = {
    "array": lambda records: "[\n" + ",\n".join(map(json.dumps, records)) + "\n]\n",
    "lines": lambda records: "".join(json.dumps(record) + "\n" for record in records),
    "array on one line": json.dumps,
    "indented array": lambda records: json.dumps(records, indent=2),
    "entities": lambda records: json.dumps({"entities": {record["id"]: record for record in records}}),
    "indented entities": lambda records: json.dumps({"entities": {record["id"]: record for record in records}}, indent=2),
    "lines with carriage returns": lambda records: "\ufeff[\r\n" + ",\r\n".join(map(json.dumps, records)) + "\r\n]\r\n",
    "one after the other": lambda records: "\n".join(json.dumps(record, indent=1) for record in records),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_graph(tmp_path, layout):
    path = tmp_path / "entities.json"
    path.write_text(LAYOUTS[layout](DUMP), encoding="utf-8")
    graph, report = import_graph(path)
    assert set(graph.statements("train")) == EXPECTED
    assert report.skipped == 0


COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".zst": lambda data: pa.compress(data, "zstd", asbytes=True)}


@pytest.mark.parametrize("extension", COMPRESS)
def test_compressed_dumps_and_standard_input_are_read(tmp_path, monkeypatch, extension):
    data = COMPRESS[extension](LAYOUTS["array"](DUMP).encode())
    path = tmp_path / f"dump.json{extension}"
    path.write_bytes(data)
    assert set(import_graph(path)[0].statements("train")) == EXPECTED
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
    assert set(import_graph(Path("-"), "wikidata")[0].statements("train")) == EXPECTED


def test_standard_input_needs_the_name_of_its_form():
    with pytest.raises(InputError, match=r"standard input has no name to detect the form by. Name its form"):
        import_graph(Path("-"))


@pytest.mark.parametrize(
    ("ranks", "tails"),
    [
        (("preferred", "normal"), {"Q38104", "Q98"}),
        (("deprecated",), {"Q99"}),
        (("preferred", "normal", "deprecated"), {"Q38104", "Q98", "Q99"}),
        (("best",), {"Q98"}),
    ],
)
def test_ranks_are_chosen(tmp_path, ranks, tails):
    graph, _ = import_graph(write(tmp_path, DUMP), wikidata=WikidataOptions(ranks=ranks))
    assert {one.tail for one in graph.statements("train") if (one.head, one.relation) == ("Q937", "P166")} == tails


def test_best_falls_back_to_normal_where_nothing_is_preferred(tmp_path):
    graph, _ = import_graph(write(tmp_path, DUMP), wikidata=WikidataOptions(ranks=("best",)))
    assert Statement("Q937", "P31", "Q5") in set(graph.statements("train"))


def test_labels_come_in_the_chosen_languages_or_for_all_languages_or_in_any(tmp_path):
    graph, _ = import_graph(write(tmp_path, DUMP), wikidata=WikidataOptions(languages=("en", "de")))
    named = {tag: {graph.entities.identifier(id_): text for id_, text in by_id.items()} for tag, by_id in graph.entities.labels.items()}
    assert named == {
        "en": {"Q937": "Albert Einstein", "P166": "award received"},
        "de": {"Q937": "Einstein"},
        "mul": {"Q38104": "Nobel"},
        "sv": {"Q5": "människa"},
    }
    assert graph.relations.label(graph.relations.id("P166")) == "award received"


def test_unknown_values_and_no_value_are_kept_on_request(tmp_path):
    graph, report = import_graph(write(tmp_path, DUMP), wikidata=WikidataOptions(special_values="keep"))
    assert set(graph.statements("train")) >= {
        Statement("Q937", "P40", "_:Q1-A-1"),
        Statement("Q937", "P26", "novalue"),
        Statement("Q937", "P166", "Q98", (("P580", "_:h1"),)),
    }
    assert set(report.left_out) == {"rank deprecated", "xsd:dateTime"}


def test_a_slice_has_the_chosen_entities_and_the_labels_of_all_that_they_mention(tmp_path):
    path = write(tmp_path, [CLASS, *DUMP[:2], PROPERTY])
    graph, report = import_graph(path, wikidata=WikidataOptions(classes=frozenset({"Q5"}), properties=frozenset({"P166"})))
    assert {one.head for one in graph.statements("train")} == {"Q937"}
    assert {one.relation for one in graph.statements("train")} == {"P166"}
    assert graph.entities.label(graph.entities.id("Q38104")) == "Nobel"  # stands in the dump, and is no part of the slice
    assert report.records == {"entity of another class": 3}
    assert report.left_out["another property"] == {"P31": 1, "P40": 1, "P26": 1}
    assert report.idle_labels == 0
    graph, report = import_graph(path, wikidata=WikidataOptions(min_statements=2))
    assert {one.head for one in graph.statements("train")} == {"Q937"}
    assert report.records == {"entity with fewer statements": 3}


def test_redirects_and_lexemes_are_counted(tmp_path):
    others = [{"type": "lexeme", "id": "L1"}, {"entity": "Q3", "redirect": "Q937"}, {"id": "Q0", "missing": ""}]
    _, report = import_graph(write(tmp_path, [*others, *DUMP]))
    assert report.records == {"lexeme": 1, "redirect": 1, "missing": 1}
    with pytest.raises(InputError, match=r"at least one statement, found none\. .*records left out: lexeme 2"):
        import_graph(write(tmp_path, [{"type": "lexeme", "id": "L1"}] * 2))


BAD = {
    '{"type":"item","id":"Q1","labels":[],"claims":{}}': "Q1: 'labels' is an object, found an empty array",
    '{"type":"item","id":"Q1","labels":{},"claims":[]}': "Q1: 'claims' is an object, found an empty array",
    '{"type":"item","id":"Q1"}': "Q1: 'claims' is an object, found nothing",
    '{"type":"item","id":7,"claims":{}}': "an entity has an 'id' such as Q42, found 7",
    '{"type":"item","id":"Q1","claims":{"P1":[{"rank":"normal"}]}}': r"Q1: 'claims.P1\[0\].mainsnak' is an object, found nothing",
    '{"type":"item","id":"Q1","claims":{"P1":[{"rank":"normal","mainsnak":{"snaktype":"x"}}]}}': "Q1: a value is of the kind value",
    "[1]": "a record is an entity of Wikidata, found an array",
    '{"type":"item",': r"a record is an object in JSON, found '\{\"type\":\"item\"' \(",
    "7": "a record is an entity of Wikidata, found 7",
}


@pytest.mark.parametrize("line", BAD)
def test_a_malformed_record_is_refused_with_line_and_byte_or_skipped_and_counted(tmp_path, line):
    path = tmp_path / "dump.json"
    lines = [json.dumps(record) for record in DUMP]
    path.write_text("[\n" + ",\n".join([lines[0], line, *lines[1:]]) + "\n]\n", encoding="utf-8")
    with pytest.raises(InputError, match=BAD[line]) as caught:
        import_graph(path)
    assert str(caught.value).startswith(f"{path}:3 (byte {len(lines[0]) + 4:,}): ")
    graph, report = import_graph(path, on_error="skip")
    assert set(graph.statements("train")) == EXPECTED
    assert report.skipped == 1


def test_a_dump_that_was_cut_off_is_noticed(tmp_path):
    path = tmp_path / "dump.json"
    path.write_text(LAYOUTS["array"](DUMP).removesuffix("]\n"))
    with pytest.raises(InputError, match=r"dump.json:5 \(byte [\d,]+\): an array ends with '\]', found the end of the file. Was the file"):
        import_graph(path)
    path.write_text(LAYOUTS["indented array"](DUMP)[:-40])
    with pytest.raises(InputError, match=r"a record is JSON, found"):
        import_graph(path)
    path.write_text(LAYOUTS["indented array"](DUMP).removesuffix("]"))
    with pytest.raises(InputError, match=r"an array ends with"):
        import_graph(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranks": ("good",)}, "a rank is one of preferred, normal, deprecated, best, found 'good'"),
        ({"ranks": ("best", "normal")}, "or best alone"),
        ({"classes": frozenset({"human"})}, "a class of Wikidata is written like Q31, found 'human'"),
        ({"properties": frozenset({"Q5"})}, "a property of Wikidata is written like P31, found 'Q5'"),
        ({"min_statements": -1}, "0 or more, found -1"),
    ],
)
def test_choices_that_make_no_sense_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        WikidataOptions(**options)


def test_the_values_of_every_type_become_literals_of_rdf():
    julian = {**YEAR, "time": "+1582-10-04T00:00:00Z", "precision": 11, "calendarmodel": "http://www.wikidata.org/entity/Q1985786"}
    quantity = {"amount": "+4.50", "unit": "http://www.wikidata.org/entity/Q11573", "lowerBound": "+4.4", "upperBound": "+4.6"}
    place = {"latitude": -12.5, "longitude": 7, "precision": 0.01, "globe": "http://www.wikidata.org/entity/Q405"}
    for kind, value in (("time", YEAR), ("time", julian), ("quantity", quantity), ("globecoordinate", place), ("string", "x")):
        assert VALUES[kind](value, None, literal_key) == VALUES[kind](value, None, Literal).key
    assert VALUES["time"](YEAR, None, Literal) == Literal("1921-01-01T00:00:00Z", "http://www.w3.org/2001/XMLSchema#dateTime", precision=9)
    assert VALUES["time"]({**YEAR, "time": "+1921-11-00T00:00:00Z", "precision": 10}, None, Literal).lexical == "1921-11-01T00:00:00Z"
    assert VALUES["time"](julian, None, Literal)[0::7] == ("1582-10-14T00:00:00Z", "julian")
    assert VALUES["time"]({**julian, "time": "-0044-03-15T00:00:00Z"}, None, Literal).lexical == "-0043-03-13T00:00:00Z"
    assert VALUES["quantity"](quantity, None, Literal)[2:7] == ("", "Q11573", None, "+4.4", "+4.6")
    assert VALUES["globecoordinate"](place, None, Literal).lexical == "<http://www.wikidata.org/entity/Q405> Point(7 -12.5)"
    assert VALUES["monolingualtext"]({"text": "hej", "language": "sv"}, None, Literal).language == "sv"
    assert VALUES["string"]("http://a.org", "url", Literal).kind == "xsd:anyURI"
    assert gregorian(1900, 3, 1) == (1900, 3, 14)


def rows_of(path: Path, **options) -> list:
    """Returns what the reader hands to the import, literals and all."""
    rows = []

    class Task(ImportTask):
        def add_keyed(self, more, split):
            rows.extend([Literal.of_key(field) if field.startswith(MARK) else field for field in row] for row in more)

    wikidata.read_wikidata(Task(wikidata=WikidataOptions(**options)), path, "train")
    return rows


@real
@pytest.mark.parametrize("name", ["Q1", "Q53713", "Q8413", "P31", "Q120248304"])
def test_every_statement_and_qualifier_of_a_real_entity_is_read_as_an_independent_count_says(name):
    (entity,) = orjson.loads((FILES / f"{name}.json").read_bytes())["entities"].values()
    mains, pairs, left = Counter(), Counter(), Counter()
    for relation, statements in entity["claims"].items():
        for one in statements:
            main = one["mainsnak"]
            if one["rank"] == "deprecated" or main["snaktype"] != "value":
                left[relation] += 1
                continue
            mains[relation] += 1
            for key, snaks in one.get("qualifiers", {}).items():
                pairs[key] += sum(one["snaktype"] == "value" for one in snaks)
    rows = rows_of(FILES / f"{name}.json")
    assert Counter(row[1] for row in rows) == mains
    assert Counter(key for row in rows for key in row[3::2]) == +pairs
    graph, report = import_graph(FILES / f"{name}.json")
    assert len(graph) + report.duplicates == sum(isinstance(row[2], str) for row in rows)
    assert sum(counts.total() for reason, counts in report.left_out.items() if reason.startswith("rank")) <= left.total()


PREFIX = "http://www.wikidata.org/"


@real
@pytest.mark.parametrize("name", ["Q1", "Q8413", "Q120248304"])
def test_values_are_those_of_wikidatas_own_rdf_to_the_last_one(name):
    """Compares the values of statements and qualifiers, by property, with those of the same item in Turtle (all ranks)."""
    theirs: Counter = Counter()
    for quad in parse(path=str(RDF_FILES / f"{name}.ttl"), format=RdfFormat.TURTLE):
        for role in ("prop/statement/", "prop/qualifier/"):
            relation = quad.predicate.value.removeprefix(PREFIX + role)
            if relation.startswith("P") and relation[1:].isdigit():
                value = quad.object
                text = (value.value, value.datatype.value, value.language or "") if isinstance(value, RdfLiteral) else value.value
                if isinstance(text, tuple) or text.startswith(PREFIX + "entity/"):
                    theirs[(role, relation, text)] += 1
    if name == "Q120248304":  # this file has its coordinates as wdt:P625 and as a value node, and no ps:P625
        theirs[("prop/statement/", "P625", ("Point(1.88108 50.94636)", "http://www.opengis.net/ont/geosparql#wktLiteral", ""))] += 1
    (entity,) = orjson.loads((FILES / f"{name}.json").read_bytes())["entities"].values()
    snaks = [
        one
        for statements in entity["claims"].values()
        for s in statements
        for one in [s["mainsnak"], *(snak for of_key in s.get("qualifiers", {}).values() for snak in of_key)]
    ]
    iris_in_rdf = {snak["property"] for snak in snaks if snak["datatype"] in ("commonsMedia", "url", "geo-shape", "tabular-data")}
    ours: Counter = Counter()
    for row in rows_of(FILES / f"{name}.json", ranks=("preferred", "normal", "deprecated"), special_values="keep"):
        values = [("prop/statement/", row[1], row[2]), *(("prop/qualifier/", *pair) for pair in zip(row[3::2], row[4::2], strict=True))]
        for role, relation, value in values:
            if isinstance(value, Literal):
                if relation not in iris_in_rdf:
                    ours[(role, relation, value[:3])] += 1
            elif not value.startswith(("_:", "novalue")):
                ours[(role, relation, f"{PREFIX}entity/{value}")] += 1
    assert ours.total() > 10
    assert ours == theirs


@real
def test_the_mock_dump_of_a_hundred_records_is_read_as_orjson_reads_it():
    lines = (FILES / "mock-dump-for-long-testing.json").read_bytes().splitlines()[1:-1]
    records = [orjson.loads(line.rstrip(b",")) for line in lines]
    tails = Counter(
        (record["id"], relation, one["mainsnak"]["datavalue"]["value"].get("numeric-id"))
        for record in records
        for relation, statements in record["claims"].items()
        for one in statements
    )
    graph, report = import_graph(FILES / "mock-dump-for-long-testing.json")
    assert len(records) == 101
    assert Counter((one.head, one.relation, int(one.tail[1:])) for one in graph.statements("train")) == tails
    sample, _ = import_graph(FILES / "sample-dump-20150815.json.gz")
    assert sample.fingerprint == graph.fingerprint
    assert report.skipped == 0


@real
def test_the_dump_with_bugs_names_the_place_and_with_skip_gives_all_good_records():
    path = FILES / "mock-dump-with-bugs.json"
    with pytest.raises(InputError, match=r"mock-dump-with-bugs.json:3 \(byte 359\): Q8: 'labels' is an object, found an empty array"):
        import_graph(path)
    graph, report = import_graph(path, on_error="skip")
    whole, _ = import_graph(FILES / "mock-dump-for-long-testing.json")
    assert report.skipped == 2
    assert [problem.split(": ", 1)[1] for problem in report.problems] == [
        "Q8: 'labels' is an object, found an empty array",
        "P53: 'claims' is an object, found an empty array",
    ]
    assert set(graph.statements("train")) == {one for one in whole.statements("train") if one.head not in ("Q8", "P53")}


@real
def test_a_folder_of_entities_is_one_graph():
    graph, report = import_graph(FILES, on_error="skip")
    assert report.forms == {"wikidata": 9}
    assert report.records == {"lexeme": 1}
    assert {"Q1", "Q53713", "P31"} <= {one.head for one in graph.statements("train")}
