"""Questions about literals: known rows are Oxigraph's, and predicted rows show the known literals of their entities."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from pyoxigraph import BlankNode, NamedNode, Quad, Store, Triple
from pyoxigraph import Literal as Term
from starlette.testclient import TestClient

from starqe.ask import Answerer
from starqe.ask.known_rows import Binder, StoreRows, known_rows
from starqe.ask.predicted_rows import predicted_rows
from starqe.errors import KnownOnlyError, UnsupportedError
from starqe.kg import Changes, Graph, Statement, embedded_graph, graph_of, import_graph, literal, update_graph
from starqe.kg.iris import REIFIES
from starqe.kg.literal import Literal
from starqe.queries.sparql.read import known_text, read_sparql
from starqe.queries.sparql.terms import predefined_prefixes
from starqe.serve import create_app
from starqe.serve.settings import ServeSettings
from tests.few_and_many import check_examples, few_and_many
from tests.places import DATA
from tests.queries.sparql.texts import StoreHere
from tests.tiny_run import tiny_run

INTEGER, DECIMAL, DATE, YEAR = literal.INTEGER, literal.DECIMAL, literal.DATE, literal.YEAR
NUMBERS = [Literal(text, INTEGER) for text in ("1", "2", "5", "07", "-3")] + [Literal(text, DECIMAL) for text in ("5.0", "2.5")]
DATES = [Literal(text, DATE) for text in ("1899-12-31", "1900-01-01", "1921-06-15", "2000-02-29")]
TEXTS = [Literal("a"), Literal("b", literal.LANGUAGE_STRING, "en"), Literal("Anna")]
AREA = Literal("73.32", DECIMAL, unit="km2")
ENTITY = st.sampled_from("abcd")
VALUES = {"n": NUMBERS, "d": DATES, "w": TEXTS, "m": [*NUMBERS, *DATES]}
"""Relations with literals: numbers, dates, texts; the last has entities too."""
pairs = st.lists(st.tuples(st.just("p"), ENTITY) | st.tuples(st.just("t"), st.sampled_from(DATES)), max_size=2, unique=True).map(tuple)
statements = st.one_of(
    st.builds(Statement, ENTITY, st.sampled_from("rs"), ENTITY, pairs),
    *(st.builds(Statement, ENTITY, st.just(relation), st.sampled_from(values), pairs) for relation, values in VALUES.items()),
    st.builds(Statement, ENTITY, st.just("m"), ENTITY),
)
ALWAYS = [
    Statement("a", "r", "b", (("p", "c"), ("t", DATES[2]))),
    Statement("a", "n", NUMBERS[0]),
    Statement("b", "d", DATES[1]),
    Statement("b", "m", "c"),
    Statement("b", "s", "d"),
    Statement("d", "w", TEXTS[0]),
    Statement("c", "m", NUMBERS[1]),
]


def own_store(graph: Graph) -> Store:
    """The graph in Oxigraph, made here from its statements: independent of the writers."""
    store, names = Store(), graph.names

    def term(value):
        if isinstance(value, str):
            return names.entities.term(value)
        return Term(value.lexical, language=value.language) if value.language else Term(value.lexical, datatype=NamedNode(value.datatype))

    for number, one in enumerate(graph.statements("train")):
        triple = Triple(names.entities.term(one.head), names.relations.term(one.relation), term(one.tail))
        store.add(Quad(triple.subject, triple.predicate, triple.object))
        same = [other for other in graph.statements("train") if other.fields()[:3] == one.fields()[:3]]
        if one.qualifiers or len(same) > 1:
            node = BlankNode(f"s{number}")
            store.add(Quad(node, NamedNode(REIFIES), triple))
            for key, value in one.qualifiers:
                store.add(Quad(node, names.relations.term(key), term(value)))
    return store


def shown(found) -> str:
    return "" if found is None else "_" if isinstance(found, BlankNode) else str(found)


def shown_json(found) -> str:
    if found is None or found["type"] == "bnode":
        return "" if found is None else "_"
    if found["type"] == "uri":
        return f"<{found['value']}>"
    return str(Term(found["value"], language=found.get("xml:lang"), datatype=NamedNode(found["datatype"]) if "datatype" in found else None))


PATTERNS = [
    "?x r:n ?n .",
    "?x r:d ?d .",
    "?y r:d ?e .",
    "e:a r:n ?n .",
    "?x r:n 5 .",
    "?x r:n 7 .",
    '?x r:d "1921-06-15"^^xsd:date .',
    '?x r:w "a" .',
    '?x r:w "Anna" .',
    '?x r:w "b"@en .',
    "?x r:w ?w .",
    "?x r:m ?m .",
    "?x r:r ?y .",
    "?y r:s ?x .",
    "?x r:r ?y {| r:t ?t |} .",
    '?x r:r ?y {| r:t "1921-06-15"^^xsd:date |} .',
    "?x r:n ?n ; r:d ?d .",
    "?x r:n ?k . ?y r:n ?k .",
    "OPTIONAL { ?x r:d ?d }",
    "MINUS { ?x r:n 5 }",
    "{ ?x r:n ?n } UNION { ?x r:m ?n }",
]
CONDITIONS = [
    "?n < 5",
    "?n >= 2 && ?n < 7",
    "?n = 5",
    "?n != 5 || ?n > 1",
    "!(?n = 2.5)",
    "?n IN (1, 5, 7)",
    "?n + 1 > 3",
    '?d >= "1900-01-01"^^xsd:date',
    '?d >= "1900-01-01"^^xsd:date && ?n < 5',
    '?d < "1921-06-15"^^xsd:date',
    "?d > ?e",
    "?d = ?e",
    "YEAR(?d) = 1921",
    "YEAR(?d) >= 1900 && YEAR(?d) < 2000",
    'STR(?w) = "a"',
    'LANG(?w) = "en"',
    "isLiteral(?m)",
    "?m > 1",
    "BOUND(?d)",
    "?x != e:a",
    "EXISTS { ?x r:n ?k }",
]


@st.composite
def texts(draw: st.DrawFn) -> str:
    patterns = draw(st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3))
    filters = "".join(f" FILTER ({one})" for one in draw(st.lists(st.sampled_from(CONDITIONS), max_size=2)))
    order = draw(st.sampled_from(["", "", " ORDER BY ?n", " ORDER BY DESC(?d) ?n"]))
    return f"SELECT {draw(st.sampled_from(['*', '*', 'DISTINCT *', '?x']))} {{ {' '.join(patterns)}{filters} }}{order}"


def check_known_rows(data: st.DataObject) -> None:
    graph, text = data.draw(st.lists(statements, max_size=8).map(lambda more: graph_of(ALWAYS + more))), data.draw(texts())
    prefixes = predefined_prefixes(graph)
    theirs = own_store(graph).query(text, prefixes=prefixes)
    names = [variable.value for variable in theirs.variables]
    expected = Counter(tuple(shown(row[name]) for name in names) for row in theirs)
    here = StoreHere(graph)
    try:
        request = read_sparql(text, graph)
    except KnownOnlyError:
        found = here.rows(known_text(text, graph))
        ours = Counter(tuple(shown_json(row.get(name)) for name in names) for row in found.rows)
    else:
        rows = known_rows(request, graph.known(["train"]), here, 10_000).rows(None, 0)  # type: ignore[arg-type]
        binder = {"entity": graph.names.entities, "relation": graph.names.relations}
        ours = Counter(
            tuple(
                "" if (one := row[name]) is None else shown_json(one.term) if one.term else str(binder[one.kind].term(one.value))
                for name in names
            )
            for row in rows
        )
    assert ours == expected, text


@pytest.mark.parametrize("examples", few_and_many(150, 3_000))
def test_known_rows_with_literals_and_filters_are_those_of_oxigraph(examples):
    check_examples(check_known_rows, examples, settings(suppress_health_check=list(HealthCheck)))


GRAPH = graph_of(
    [
        Statement("a", "r", "b"),
        Statement("a", "born", DATES[1]),
        Statement("c", "born", DATES[2]),
        Statement("d", "born", DATES[0]),
        Statement("c", "r", "d"),
        Statement("b", "area", AREA),
        Statement("b", "s", "c"),
    ]
)


def rows_for(text: str, ranked: list[tuple[str, float]]) -> list[tuple[dict[str, str], float]]:
    """The predicted rows when the model ranks these entities for the one answer variable of the query."""
    request = read_sparql(text, GRAPH)
    known = known_rows(request, GRAPH.known(["train"]), StoreHere(GRAPH), 100)  # type: ignore[arg-type]
    ids = [((GRAPH.entities.id(name),), chance) for name, chance in ranked]
    found = predicted_rows(request, [ids], known, Binder(GRAPH))
    return [({name: one.value for name, one in row.items() if one}, chance) for row, chance in found]


def test_predicted_rows_show_the_known_literals_of_their_entities_and_leave_out_what_a_condition_excludes():
    text = 'SELECT ?x ?d { e:b r:s ?x . ?x r:born ?d FILTER (?d >= "1900-01-01"^^xsd:date) }'
    found = rows_for(text, [("a", 0.5), ("d", 0.4), ("b", 0.3)])
    assert found == [({"x": "a", "d": "1900-01-01"}, 0.5)]  # d is born too early, and b has no date; c is known


def test_a_literal_column_may_be_left_out_of_the_rows():
    assert rows_for("SELECT ?x { e:b r:s ?x . ?x r:born ?d FILTER (YEAR(?d) < 1900) }", [("a", 0.5), ("d", 0.4)]) == [({"x": "d"}, 0.4)]


def test_a_literal_is_shown_with_its_unit_and_typed_in_results():
    request = read_sparql("SELECT ?n { e:b r:area ?n }", GRAPH)
    (row,) = known_rows(request, GRAPH.known(["train"]), StoreHere(GRAPH), 100).rows(None, 0)  # type: ignore[arg-type]
    assert row["n"] is not None
    assert (row["n"].kind, row["n"].value, row["n"].label) == ("literal", "73.32", "73.32 km2")
    assert row["n"].term == {"type": "literal", "value": "73.32", "datatype": DECIMAL}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT ?x { ?x r:r ?y {| r:born ?d |} }",
        "SELECT ?x { ?x r:r ?y OPTIONAL { ?x r:born ?d } }",
        "SELECT ?x { ?x r:r ?y FILTER NOT EXISTS { ?x r:born ?d } }",
        "SELECT ?x { ?x r:r ?y MINUS { ?x r:born ?d } }",
        "SELECT ?x { ?x r:r ?y ; r:born ?d VALUES ?d { 1 } }",
        "SELECT ?x { ?x r:r ?y ; r:born ?d ; rdfs:label ?l VALUES ?d { 1 } }",
        "SELECT ?x { ?x r:r ?y ; r:born ?d ; rdfs:label ?l MINUS { ?z r:born ?d } }",
        "SELECT ?x { ?x r:r/r:area ?d }",
        "SELECT ?x { [] r:born ?d . ?x r:r ?y }",
        "SELECT ?x { ?x r:born ?d . ?d r:r ?y }",
    ],
)
def test_where_literals_would_have_to_be_predicted_known_facts_alone_answer(text):
    with pytest.raises(KnownOnlyError, match="a literal as a value"):
        read_sparql(text, GRAPH)
    StoreHere(GRAPH).rows(known_text(text, GRAPH))


def test_a_string_stays_a_literal_where_the_values_of_a_relation_are_literals():
    graph = graph_of([Statement("a", "said", Literal("b")), Statement("a", "r", "b")])
    assert known_text('SELECT ?x { ?x r:said "b" }', graph) == 'SELECT ?x { ?x r:said "b" }'
    assert "urn:starqe:entity:b" in known_text('SELECT ?x { ?x r:r "b" }', graph)
    request = read_sparql('SELECT ?x { ?x r:said "b" }', graph)
    assert StoreRows(request, graph, StoreHere(graph), 10, None).count == 1  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answerer]:
    """A tiny run on the embedded graph with years of birth for those whose place of birth is known."""
    graph = embedded_graph()
    born = sorted({one.head for one in graph.statements("train") if one.relation == "bornIn"})
    years = [Statement(head, "birthYear", Literal(str(1850 + place), YEAR)) for place, head in enumerate(born)]
    graph, _ = update_graph(graph, Changes.of([graph_of(years)]))
    with closing(Answerer.open(tiny_run(tmp_path_factory.mktemp("people") / "run", graph, ["1p"], epochs=1))) as answerer:
        yield answerer


@pytest.mark.full
def test_a_run_keeps_literals_and_answers_with_them(people):
    assert len(people.graph.literals) > 50
    people.warm_up()
    dated = people.ask('SELECT ?x ?y { ?x r:citizenOf e:Germany ; r:birthYear ?y FILTER (?y < "1880"^^xsd:gYear) }', top=50)
    german = {
        one.head for one in people.graph.statements("train", "valid", "test") if one.relation == "citizenOf" and one.tail == "Germany"
    }
    years = {one.head: one.tail.lexical for one in people.graph.statements("train") if one.relation == "birthYear"}
    early = {head: year for head, year in years.items() if int(year) < 1880}
    assert {one.entity: one.support["y"] for one in dated.known} == {head: early[head] for head in german & early.keys()}
    assert {one.entity: one.support["y"] for one in dated.predicted}.items() <= early.items()
    assert dated.predicted
    assert not {one.entity for one in dated.predicted} & german

    (head, year), *_ = sorted(years.items())
    alone = people.ask(f"SELECT ?y {{ e:{head} r:birthYear ?y }}")
    assert ([one.entity for one in alone], len(alone.predicted)) == ([year], 0)
    assert any("these are known facts only" in note for note in alone.notes)
    assert alone.rows() == [{"y": year, "label": year, "known": True, "probability": 1.0}]
    with pytest.raises(UnsupportedError, match="this query asks for literals only"):
        people.explain(f"SELECT ?y {{ e:{head} r:birthYear ?y }}", alone[0])
    ordered = people.ask_known("SELECT ?x ?y { ?x r:birthYear ?y } ORDER BY DESC(?y) LIMIT 2")
    assert [row["y"]["value"] for row in ordered.rows] == sorted(years.values())[-1:-3:-1]
    assert ordered.rows[0]["y"]["datatype"] == YEAR


@pytest.mark.full
def test_the_service_gives_literals_with_their_types(people):
    text = "SELECT ?x ?y { ?x r:birthYear ?y } LIMIT 1"
    with TestClient(create_app(people, ServeSettings.parse({})), base_url="http://localhost") as client:
        (answer,) = client.post("/api/ask", json={"query": text}).json()["answers"]
        assert (answer["bindings"]["y"]["kind"], answer["bindings"]["y"]["datatype"]) == ("literal", YEAR)
        found = {
            kind: client.get("/sparql", params={"query": text + " OFFSET 0"}, headers={"accept": kind}).text
            for kind in ("application/sparql-results+json", "application/sparql-results+xml", "text/csv")
        }
        ordered = client.get(
            "/sparql", params={"query": "SELECT ?y { ?x r:birthYear ?y FILTER (?y > '1860'^^xsd:gYear) } ORDER BY ?y LIMIT 1"}
        )
    year = answer["bindings"]["y"]["entity"]
    assert json.loads(found["application/sparql-results+json"])["results"]["bindings"][0]["y"] == {
        "type": "literal",
        "value": year,
        "datatype": YEAR,
    }
    assert f'<literal datatype="{YEAR}">{year}</literal>' in found["application/sparql-results+xml"]
    assert found["text/csv"].split()[1].endswith(f",{year}")
    assert ordered.json()["results"]["bindings"][0]["y"]["value"] == "1861"


@pytest.mark.full
@pytest.mark.skipif(not (DATA / "hn-yg").is_dir(), reason="the data set is not here")
def test_filters_on_dates_and_numbers_of_hn_yg_find_what_its_file_says():
    lines = [line.split("\t") for line in (DATA / "hn-yg" / "valid.txt").read_text().splitlines()[1:]]
    graph, _ = import_graph(DATA / "hn-yg" / "valid.txt")
    store = StoreHere(graph)

    def rows(text: str) -> set[str]:
        request = read_sparql(text, graph)
        return {row["x"].value for row in known_rows(request, graph.known(["train"]), store, 100_000).rows(None, 0)}  # type: ignore[arg-type]

    def values(relation: str) -> list[tuple[str, str]]:
        return [(line[0], line[2].split('"')[1]) for line in lines if line[1] == relation]

    born = values("wasBornOnDate")
    text = 'SELECT ?x { ?x r:wasBornOnDate ?d FILTER (?d >= "1900-01-01"^^xsd:date && ?d < "1950-01-01"^^xsd:date) }'
    assert rows(text) == {head for head, date in born if "1900-01-01" <= date < "1950-01-01"} != set()
    assert rows("SELECT ?x { ?x r:wasBornOnDate ?d FILTER (YEAR(?d) = 1949) }") == {head for head, date in born if date.startswith("1949-")}
    large = {head for head, area in values("hasArea") if float(area) > 1000}
    assert rows("SELECT ?x { ?x r:hasArea ?n FILTER (?n > 1000) }") == large != set()
