import csv
import json
import re
from collections import Counter
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from starqe.errors import InputError, StorageError
from starqe.kg import (
    SPLITS,
    Changes,
    Draft,
    Statement,
    diff_graphs,
    graph_of,
    graph_stats,
    hold_out_validation,
    import_graph,
    literal,
    load_graph,
    save_graph,
    transductive_split,
    update_graph,
)
from starqe.kg.literal import Literal, date_of, days_of, read_written, written
from starqe.kg.reading.buckets import bucketed
from starqe.kg.reading.report import Report
from tests.kg.strategies import graphs, literals
from tests.places import DATA

BORN, AREA = Literal("1949-12-25", literal.DATE), Literal("73.32", literal.DECIMAL, unit="km2")
SPACEK = Statement("Spacek", "born", BORN, (("place", "Quitman"), ("seen", Literal("true", literal.BOOLEAN))))
GRAPH = graph_of(
    [
        SPACEK,
        Statement("Quitman", "area", AREA),
        Statement("Spacek", "citizen", "US", (("since", BORN),)),
        Statement("Spacek", "citizen", "US"),
    ],
    test=[Statement("Quitman", "in", "US")],
)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("1970-01-01", 0),
        ("1969-12-31", -1),
        ("2000-03-01", 11_017),
        ("1970-01-01T12:00:00Z", 0.5),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970", 0),
        ("1971-02", 396),
        ("0000-03-01", -719_468),
        ("-0001-03-01", -719_468 - 366),
    ],
)
def test_times_are_days_since_1970(text, days):
    assert days_of(text) == days


@pytest.mark.parametrize("text", ["", "1970-13-01", "1970-01-32", "70-01-01", "yesterday", "1970-01-01Z1"])
def test_what_is_no_time_has_no_days(text):
    assert np.isnan(days_of(text))


@given(st.dates())
def test_days_agree_with_the_standard_library_and_back(day):
    assert days_of(day.isoformat()) == day.toordinal() - date(1970, 1, 1).toordinal()
    assert date_of(days_of(day.isoformat())) == day.isoformat()


@given(literals() | st.text(st.characters(exclude_categories=["Cs"]), max_size=9))
def test_what_is_written_in_a_line_is_read_back(value):
    if isinstance(value, str) and isinstance(read_written(value), Literal):
        with pytest.raises(ValueError, match="an identifier that looks like a literal"):
            written(value)
        return
    text = written(value)
    assert read_written(text) == value
    assert isinstance(value, str) or not re.search("[\0-\x1f\x7f\x85\u2028\u2029]", text)


@given(literals())
def test_a_key_identifies_a_literal(value):
    assert Literal.of_key(value.key) == value


def test_a_literal_is_shown_as_people_write_it():
    moment = Literal("1949-01-01T00:00:00Z", literal.DATE_TIME)
    shown = [moment._replace(precision=precision).label for precision in (9, 10, 11, None)]
    assert shown == ["1949", "1949-01", "1949-01-01", "1949-01-01T00:00:00Z"]
    assert AREA.label == "73.32 km2"


def test_literals_have_ids_after_the_entities_and_statements_give_them_back():
    assert list(GRAPH.entities) == ["Quitman", "Spacek", "US"]
    assert [one.lexical for one in GRAPH.literals] == ["true", "1949-12-25", "73.32"]  # by datatype
    assert sorted(GRAPH.tail.tolist()) == [2, 2, 2, 4, 5]
    assert SPACEK in set(GRAPH.statements("train"))
    assert (GRAPH.value_id(AREA), GRAPH.value(5), GRAPH.value_label(5)) == (5, AREA, "73.32 km2")
    with pytest.raises(InputError, match=r"the literal '12' \(xsd:integer\) does not occur in this graph"):
        GRAPH.value_id(Literal("12", literal.INTEGER))


def test_facts_with_literals_are_looked_up_like_others():
    known = GRAPH.known(["train"])
    spacek, born, seen = GRAPH.entities.id("Spacek"), GRAPH.relations.id("born"), GRAPH.relations.id("seen")
    assert known.holds(spacek, born, GRAPH.value_id(BORN), [(seen, GRAPH.value_id(Literal("true", literal.BOOLEAN)))])
    assert not known.holds(spacek, born, GRAPH.value_id(AREA))
    assert len(known.by_tail(GRAPH.value_id(BORN))) == 1
    assert known.degree("tail").tolist() == [0, 0, 2]


def test_the_entity_part_has_the_same_ids_and_no_literal():
    part = GRAPH.entity_part
    assert list(part.statements("train", "test")) == [Statement("Spacek", "citizen", "US"), Statement("Quitman", "in", "US")]
    assert (part.entities, part.relations, part.whole, GRAPH.whole) == (GRAPH.entities, GRAPH.relations, GRAPH, GRAPH)
    assert part.entity_part is part


@given(graphs(with_literals=True))
def test_a_graph_folder_keeps_literals(tmp_path_factory, graph):
    folder = tmp_path_factory.mktemp("stored") / "graph"
    save_graph(graph, folder)
    again = load_graph(folder)
    assert again.fingerprint == graph.fingerprint
    assert list(again.statements(*SPLITS)) == list(graph.statements(*SPLITS))
    assert (
        (folder / "literals.parquet").exists()
        == (json.loads((folder / "graph.json").read_text())["version"] == 2)
        == bool(len(graph.literals))
    )


def test_damaged_literals_are_refused(tmp_path):
    save_graph(GRAPH, tmp_path / "graph")
    path = tmp_path / "graph" / "literals.parquet"
    content = bytearray(path.read_bytes())
    content[30] ^= 1
    path.write_bytes(content)
    with pytest.raises(StorageError, match=r"literals\.parquet.*damaged"):
        load_graph(tmp_path / "graph")


def test_statistics_tell_literals_by_kind_and_place():
    stats = graph_stats(GRAPH)
    assert (stats["literals"], stats["entities"], stats["entities_only_in_qualifiers"]) == (3, 3, 0)
    assert stats["literal_tails"] == {"xsd:date": 1, "xsd:decimal": 1}
    assert stats["literal_qualifier_values"] == {"xsd:boolean": 1, "xsd:date": 1}


def test_a_split_holds_statements_with_literals_out_too_though_a_literal_occurs_once():
    graph = graph_of([Statement(f"e{i % 5}", "n", Literal(str(i), literal.INTEGER)) for i in range(100)])
    split = transductive_split(graph, (0.8, 0.1, 0.1), 0)
    assert np.bincount(split.split).tolist() == [80, 10, 10]


def test_validation_is_held_out_from_statements_between_entities():
    numbers = [Statement(f"e{i % 5}", "n", Literal(str(i), literal.INTEGER)) for i in range(100)]
    with pytest.raises(InputError, match=r"the tails of all statements are literals\. .* set the option literals to bucket"):
        hold_out_validation(graph_of(numbers), 0.5, 0)
    entities = [Statement(f"e{i}", "r", f"e{j}") for i in range(5) for j in range(5)]
    graph = hold_out_validation(graph_of([*numbers, *entities]), 0.2, 0)
    assert [one.relation for one in graph.statements("valid")] == ["r"] * 5


def test_ranges_of_values_become_entities_and_other_literals_are_left_out_and_counted():
    ages = [Statement("a", "age", Literal(str(age), literal.INTEGER)) for age in (1, 2, 3, 40)]
    more = [
        Statement("a", "said", Literal("hi")),
        Statement("a", "knows", "b", (("since", BORN), ("note", Literal("x", literal.LANGUAGE_STRING, "en")))),
        Statement("a", "age", Literal("7", literal.DECIMAL, unit="months")),
    ]
    report = Report()
    graph = bucketed(graph_of([*ages, *more]), report, buckets=2)
    assert set(graph.statements("train")) == {
        Statement("a", "age", "age 1 … 2"),
        Statement("a", "age", "age 3 … 40"),
        Statement("a", "age", "age 7 months"),
        Statement("a", "knows", "b", (("since", "since 1949-12-25"),)),
    }
    assert not len(graph.literals)
    assert report.left_out == {"xsd:string": {"said": 1}, "rdf:langString": {"note": 1}}


def test_a_graph_without_numbers_and_dates_has_nothing_to_bucket(tmp_path):
    (tmp_path / "a.ttl").write_text('<a:a> <a:p> "x" .')
    with pytest.raises(InputError, match=r"found none\. literal values left out: xsd:string 1"):
        import_graph(tmp_path / "a.ttl", literals="bucket")
    assert len(import_graph(tmp_path / "a.ttl")[0]) == 1


def test_a_table_of_python_keeps_its_types():
    import pyarrow as pa

    from starqe.kg import graph_of_table

    table = pa.table({"s": ["a", "b"], "p": ["n", "n"], "o": [1.5, 2.0], "on": [date(1949, 12, 25), None], "ok": [True, False]})
    assert set(graph_of_table(table, "s", "p", "o", ["on", "ok"]).statements("train")) == {
        Statement("a", "n", Literal("1.5", literal.DOUBLE), (("on", BORN), ("ok", Literal("true", literal.BOOLEAN)))),
        Statement("b", "n", Literal("2.0", literal.DOUBLE), (("ok", Literal("false", literal.BOOLEAN)),)),
    }


def test_a_literal_that_is_not_unicode_is_refused():
    with pytest.raises(InputError, match="a literal is Unicode text"):
        Statement("a", "r", Literal("\ud800"))


def test_equal_content_is_an_equal_graph_in_whatever_order_literals_come():
    one, other = Draft(), Draft()
    rows = [["a", "r", BORN.key], ["a", "r", AREA.key], ["b", "r", "a", "q", BORN.key]]
    one.add(rows, "train")
    other.add(rows[::-1], "train")
    assert one.finish().fingerprint == other.finish().fingerprint


@given(graphs(with_literals=True), graphs(with_literals=True))
def test_a_difference_of_graphs_with_literals_turns_one_into_the_other(old, new):
    added, removed = diff_graphs(old, new)
    changes = Changes.of([added] if len(added) else [], [removed] if len(removed) else [])
    updated, _ = update_graph(old, changes)
    assert set(updated.entities) >= {*old.entities, *new.entities}
    assert [*updated.entities][: len(old.entities)] == [*old.entities]
    for split in SPLITS:
        assert set(updated.statements(split)) == set(new.statements(split))
    used = {field for one in updated.statements(*SPLITS) for field in one.fields() if isinstance(field, Literal)}
    assert used == set(updated.literals)


def test_graphs_that_differ_in_a_literal_have_different_fingerprints_and_the_same_vocabulary():
    one, other = (graph_of([Statement("a", "r", Literal(text)), Statement("a", "s", "b")]) for text in ("x", "y"))
    assert one.fingerprint != other.fingerprint
    assert one.vocabulary_fingerprint == other.vocabulary_fingerprint == one.entity_part.vocabulary_fingerprint


@pytest.mark.full
@pytest.mark.skipif(not (DATA / "hn-yg").is_dir(), reason="HN-YG is not here")
def test_hn_yg_is_kept_to_the_last_literal():
    graph, report = import_graph(DATA / "hn-yg")
    assert not report.literals

    def plain(value):
        if isinstance(value, str):
            return value
        return (value.lexical, value.unit or value.kind)

    def read(field):
        match = re.fullmatch(r'"(.*)"\^\^(?:<(.*)>|(xsd:\w+))', field)
        if match is None:
            return field
        text = re.sub(r"^(-?)(\d{1,3})-", lambda year: f"{year[1]}{year[2]:0>4}-", match[1]) if match[3] == "xsd:date" else match[1]
        return (text, match[2] or match[3])

    for split in SPLITS:
        lines = [line.split("\t") for line in (DATA / "hn-yg" / f"{split}.txt").read_text().splitlines()[1:]]
        expected = {(line[0], line[1], read(line[2]), frozenset(zip(line[3::2], map(read, line[4::2]), strict=True))) for line in lines}
        found = [
            (one.head, one.relation, plain(one.tail), frozenset((key, plain(value)) for key, value in one.qualifiers))
            for one in graph.statements(split)
        ]
        assert len(found) == len(expected)
        assert set(found) == expected


@pytest.mark.skipif(not (DATA / "formats" / "wikidata-json").is_dir(), reason="the entities of Wikidata are not here")
@pytest.mark.parametrize("name", ["Q1", "Q53713", "Q8413", "P31"])
def test_every_literal_of_a_wikidata_entity_is_kept(name):
    path = DATA / "formats" / "wikidata-json" / f"{name}.json"
    (entity,) = json.loads(path.read_text())["entities"].values()
    mains, pairs = Counter(), Counter()
    for relation, statements in entity["claims"].items():
        for one in statements:
            if one["rank"] == "deprecated" or one["mainsnak"]["snaktype"] != "value":
                continue
            for snak, counter in ((one["mainsnak"], mains), *((q, pairs) for qs in one.get("qualifiers", {}).values() for q in qs)):
                if snak["snaktype"] == "value" and snak["datavalue"]["type"] != "wikibase-entityid":
                    value = snak["datavalue"]["value"]
                    precision = value.get("precision") if isinstance(value, dict) else None
                    text = value if isinstance(value, str) else value.get("text") or value.get("amount") or ""
                    counter[snak["property"], text, precision] += 1
            assert relation == one["mainsnak"]["property"]
    graph, report = import_graph(path)
    assert not report.literals

    def plain(relation, value):
        is_text = value.datatype in (literal.STRING, literal.ANY_URI, literal.LANGUAGE_STRING, literal.DECIMAL)
        return relation, value.lexical if is_text else "", value.precision

    statements = list(graph.statements("train"))
    assert {plain(one.relation, one.tail) for one in statements if isinstance(one.tail, Literal)} == set(mains)
    found = Counter(plain(key, value) for one in statements for key, value in one.qualifiers if isinstance(value, Literal))
    assert set(found) == set(pairs)
    assert sum(found.values()) + report.duplicates >= sum(pairs.values()) - sum(pairs.values()) // 20  # equal pairs of a statement are one


@pytest.mark.full
@pytest.mark.skipif(not (DATA / "formats" / "property-graph").is_dir(), reason="the air routes are not here")
def test_every_property_of_real_tables_is_kept():
    folder = DATA / "formats" / "property-graph"
    nodes, edges = folder / "air-routes-latest-nodes.csv", folder / "air-routes-latest-edges.csv"
    graph, report = import_graph([nodes, edges])
    assert not report.literals
    with nodes.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    typed = [name for name in rows[0] if re.search(":(int|double)$", name)]
    expected = {(row["~id"], name.split(":")[0], float(row[name])) for row in rows for name in typed if row[name]}
    found = {(s.head, s.relation, s.tail.number) for s in graph.statements("train") if isinstance(s.tail, Literal) and s.tail.axis}
    assert len(typed) > 3
    assert found == expected
    with edges.open(encoding="utf-8") as file:
        distances = {(row["~from"], row["~to"], row["dist:int"]) for row in csv.DictReader(file) if row.get("dist:int")}
    kept = {(s.head, s.tail, value.lexical) for s in graph.statements("train") for key, value in s.qualifiers if key == "dist"}
    assert kept == distances
