"""Known rows are those of a SPARQL store, row by row; predicted rows are those of brute force, and none where nothing is predicted."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import HealthCheck, currently_in_test_context, event, example, given, settings

from starqe.ask import known_rows as asking
from starqe.ask.answers import Answer, Binding, constructed
from starqe.ask.known_rows import Binder, Bindings, JoinedRows, StoreRows, known_rows
from starqe.ask.predicted_rows import predicted_rows, wanted_of
from starqe.errors import KnownOnlyError
from starqe.kg import Graph, Statement, graph_of
from starqe.kg.formats.wikidata import WIKIDATA_NAMES
from starqe.queries import read_sparql
from starqe.queries.gaps import Gaps
from starqe.queries.sparql.request import SparqlRequest
from starqe.queries.sparql.terms import predefined_prefixes
from starqe.queries.store.known_store import Rows
from starqe.reason.executor.executor import Executor
from tests.examples import try_many
from tests.queries.sparql.texts import (
    StoreHere,
    every_row,
    graphs,
    labelled_graph,
    of_statements,
    plain,
    texts,
)

PATIENT = settings(deadline=None, suppress_health_check=list(HealthCheck))


CONSTRUCTS = {
    "UNION": " UNION ",
    "NOT EXISTS": "NOT EXISTS",
    "EXISTS": r"(?<!NOT )EXISTS",
    "MINUS": "MINUS",
    "OPTIONAL": "OPTIONAL",
    "VALUES": "VALUES",
    "UNDEF": "UNDEF",
    "=": r"[xyz] = ",
    "!=": r"[xyz] != ",
    "IN": r"[xyz] IN ",
    "NOT IN": "NOT IN",
    "&&": "&&",
    "||": r" \|\| ",
    "!": r"!\(",
    "path with /": r"\S/\S",
    "path with |": r"\w\|\(|\w\|r:|\)\|",
    "path with ^": r"\^\(",
    "path with ?": r"\)\?",
    "rdfs:label": "rdfs:label",
    "LANG": "LANG",
    "must be a fact": "urn:starqe:known",
    "SELECT *": r"SELECT (DISTINCT )?\*",
    "ASK": "^ASK",
    "CONSTRUCT": "^CONSTRUCT",
    "nested groups": r"[{.] {",
    "no given entity": r"^[^:]*(?:[^e]:[^:]*)*$",
    "DISTINCT": "DISTINCT",
    "several columns": r"SELECT (DISTINCT )?\?\w+ \?",
    "<< >>": "<< ",
    "{| |}": r"\{\|",
    "variable as qualifier value": r"r:[pq] \?[vy]",
    "variable as qualifier relation": r"\?key ",
    "variable as relation": r" \?rel ",
}
"""What occurs in texts, with the regular expression that finds it."""


def constructs(text: str, graph: Graph) -> list[str]:
    """What a text that is predicted is made of."""
    if asked(text, graph) is None:
        return ["not predicted"]
    return ["predicted", *(name for name, found in CONSTRUCTS.items() if re.search(found, text))]


class Nothing:
    """Predicts nothing at all."""

    def probabilities(self, gaps: Gaps, out: torch.Tensor) -> torch.Tensor:
        del gaps
        return out.zero_()


def asked(text: str, graph: Graph) -> SparqlRequest | None:
    try:
        return read_sparql(text, graph)
    except KnownOnlyError as error:
        event(str(error).split(" is not predicted")[0])
        return None


def terms(rows: Rows, columns: tuple[str, ...]) -> Counter[tuple[object, ...]]:
    """The rows of a store, with how often each occurs; a blank node is any blank node."""

    def term(found: dict[str, str] | None) -> object:
        if found is None:
            return None
        return "_:" if found["type"] == "bnode" else str(sorted(found.items())) if found["type"] != "triple" else "<<>>"

    return Counter(tuple(term(row.get(name)) for name in columns) for row in rows.rows)


def written(row: Bindings, graph: Graph) -> tuple[object, ...]:
    def term(one: Binding | None) -> object:
        if one is None:
            return None
        if one.term is not None:
            return "_:" if one.term["type"] == "bnode" else "<<>>" if one.term["type"] == "triple" else str(sorted(one.term.items()))
        space = graph.names.relations if one.kind == "relation" else graph.names.entities
        return str(sorted({"type": "uri", "value": space.term(one.value).value}.items()))

    return tuple(map(term, row.values()))


def check_known_rows(graph: Graph, text: str) -> None:
    if (request := asked(text, graph)) is None:
        return
    store = StoreHere(graph)
    found = known_rows(request, graph.known(["train"]), store, 10_000)
    if currently_in_test_context():
        event("store" if isinstance(found, StoreRows) else "joins")
    rows = found.rows(None, 0)
    assert (found.count, found.exact) == (len(rows), True)
    match request.form:
        case "SELECT":
            ours = Counter(written(row, graph) for row in rows)
            assert ours == terms(store.rows(plain(text)), request.shown), text
        case "ASK":
            assert bool(rows) == bool(store.store.query(plain(text), prefixes=predefined_prefixes(graph))), text
        case "CONSTRUCT":
            lines = constructed(request.template, [Answer(row, True, 1.0) for row in rows], graph.names)
            made = [f"{triple} ." for triple in store.store.query(plain(text), prefixes=predefined_prefixes(graph))]
            assert {*map(anonymous, lines)} == {*map(anonymous, made)}, text


def anonymous(line: str) -> str:
    """A triple in which a blank node is any blank node."""
    return re.sub(r"_:\S+", "_:", line)


def check_nothing_is_predicted(graph: Graph, text: str) -> None:
    if (request := asked(text, graph)) is None:
        return
    known, store = graph.known(["train"]), StoreHere(graph)
    executor, found = Executor(known, Nothing()), known_rows(request, known, store, 10_000)
    wanted = wanted_of(request, found, 10_000)
    ranked = [list(executor.best(one.query, one.count, without=set(map(tuple, one.known.tolist()))).ranked) for one in wanted]
    assert predicted_rows(request, ranked, found, Binder(graph)) == [], text


def check_formulas_find_the_known_rows(graph: Graph, text: str) -> None:
    """Formulas find exactly the rows of a store that statements make.

    Only a store also lets a variable be a label or the node of a statement, and lets a path of length zero lead from something that
    is no entity to itself: a label, a statement, any IRI.
    """
    if (request := asked(text, graph)) is None:
        return
    executor, store = Executor(graph.known(["train"]), Nothing()), StoreHere(graph).rows(of_statements(every_row(plain(text))))

    class NoRows:
        count, exact = 0, True

        def among(self, asked_for, deadline=None):
            return [False] * len(asked_for)

    ranked = [list(executor.best(one.query, 100_000).ranked) for one in request.alternatives]
    found = {written(row, graph) for row, _ in predicted_rows(request, ranked, NoRows(), Binder(graph))}
    entities, relations = (
        {space.term(name).value for name in vocabulary}
        for space, vocabulary in ((graph.names.entities, graph.entities), (graph.names.relations, graph.relations))
    )

    def of_the_graph(row: Mapping[str, Any]) -> bool:
        kinds = {"rel": relations, "key": relations}
        return all(name == "label" or (term["type"] == "uri" and term["value"] in kinds.get(name, entities)) for name, term in row.items())

    assert found == {*terms(replace(store, rows=tuple(filter(of_the_graph, store.rows))), request.shown)}, text


@settings(PATIENT, max_examples=60)
@given(graphs, texts())
def test_known_rows_are_those_of_a_store(graph: Graph, text: str) -> None:
    check_known_rows(graph, text)


@settings(PATIENT, max_examples=40)
@given(graphs, texts())
def test_nothing_is_predicted_beyond_what_is_known_where_all_probabilities_are_zero(graph: Graph, text: str) -> None:
    check_nothing_is_predicted(graph, text)


@settings(PATIENT, max_examples=40)
@example(labelled_graph([]), "SELECT ?x ?y { ?x r:r ?y VALUES (?x ?y) { (e:c e:d) (e:a UNDEF) (e:a e:d) (e:b e:d) } }")
@example(labelled_graph([]), "SELECT ?x ?y { ?x r:s ?z VALUES ?y { e:c e:a <http://elsewhere.org/z> } }")
@example(labelled_graph([]), "SELECT ?x ?y { ?x (r:r/r:s)? ?y }")
@example(labelled_graph([]), "SELECT ?x ?label { ?x r:s ?y OPTIONAL { ?y rdfs:label ?label } }")
@example(labelled_graph([]), 'SELECT * { ?z r:r ?y OPTIONAL { ?x rdfs:label ?label FILTER (LANG(?label) = "en") } VALUES ?x { e:c } }')
@given(graphs, texts())
def test_formulas_find_all_known_rows_where_all_probabilities_are_zero(graph: Graph, text: str) -> None:
    check_formulas_find_the_known_rows(graph, text)


@pytest.mark.slow
def test_many_texts_have_the_known_rows_of_a_store_and_nothing_beyond_without_predictions() -> None:
    def check(graph: Graph, text: str) -> list[str]:
        check_known_rows(graph, text)
        check_nothing_is_predicted(graph, text)
        return constructs(text, graph)

    counts = try_many(check, graphs, texts(), examples=1_000)
    assert {*CONSTRUCTS} <= {*counts}


@pytest.mark.slow
def test_formulas_find_all_known_rows_of_many_texts() -> None:
    def check(graph: Graph, text: str) -> list[str]:
        check_formulas_find_the_known_rows(graph, text)
        return constructs(text, graph)

    counts = try_many(check, graphs, texts(), examples=1_000)
    assert {*CONSTRUCTS} <= {*counts}


WIKIDATA = [
    ("SELECT ?prize ?when { wd:Q937 p:P166 [ ps:P166 ?prize ; pq:P585 ?when ] }", {("Q38104", "Q1921"), ("Q38104", "Q1922")}),
    ("SELECT ?who ?when { ?who p:P166 ?s . ?s ps:P166 wd:Q38104 . ?s pq:P585 ?when }", {("Q937", "Q1921"), ("Q937", "Q1922")}),
    ('SELECT ?prize { "Q937" p:P166 ?s . ?s ps:P166 ?prize }', {("Q38104",), ("Q35637",)}),
    ("SELECT ?x { wd:Q937 p:P166 [ ps:P166 ?x ; pq:P585 wd:Q1921 ] ; wdt:P19 ?y }", {("Q38104",)}),
]


@pytest.mark.parametrize(("text", "expected"), WIKIDATA, ids=[text for text, _ in WIKIDATA])
def test_statement_nodes_of_wikidata_are_statements_with_qualifiers(text: str, expected: set[tuple[str, ...]]) -> None:
    prizes = [Statement("Q937", "P166", "Q38104", (("P585", f"Q{year}"),)) for year in (1921, 1922)]
    graph = replace(graph_of([*prizes, Statement("Q937", "P166", "Q35637"), Statement("Q937", "P19", "Q3012")]), names=WIKIDATA_NAMES)
    found = known_rows(read_sparql(text, graph), graph.known(["train"]), StoreHere(graph), 100)
    assert {tuple(one.value for one in row.values() if one) for row in found.rows(None, 0)} == expected


@pytest.mark.parametrize(
    "group",
    [
        "{ ?x r:p ?y } UNION { ?x r:p ?y }",
        "?y r:q ?z . { ?x r:p ?y } UNION { ?x r:p ?y . ?x r:p ?y }",
        "?y r:q ?z OPTIONAL { ?x r:p ?y } { ?x r:p ?y } UNION { ?x r:p ?y }",
        "?x r:p ?y VALUES ?y { e:b UNDEF }",
        "?x r:p ?y VALUES ?y { UNDEF UNDEF }",
        "?x r:p ?y VALUES () { () () }",
    ],
)
def test_the_rows_of_equal_branches_are_given_twice(group: str) -> None:
    graph = graph_of([Statement("a", "p", "b"), Statement("b", "q", "c")])
    text = f"PREFIX r: <urn:starqe:relation:> PREFIX e: <urn:starqe:entity:> SELECT ?x {{ {group} }}"
    found = known_rows(read_sparql(text, graph), graph.known(["train"]), StoreHere(graph), 10)
    assert [row["x"].value for row in found.rows(None, 0) if row["x"]] == ["a", "a"]


UNITED = graph_of(
    [
        Statement("a", "p", "b", (("q", "c"), ("q", "d"))),
        Statement("b", "q", "c", (("p", "a"),)),
        *(Statement(one, relation, other) for one, relation, other in ("bpc", "cpa", "cqb", "dpd", "bqa")),
    ]
)


@pytest.mark.parametrize(
    "group",
    [
        "{ ?x r:p e:b } UNION { e:b r:q ?x }",
        "{ ?x r:p ?y } UNION { ?y r:q ?x . ?x r:p ?z } UNION { ?x r:p ?x }",
        "?x r:p ?y . { ?y r:q e:c } UNION { ?y r:p e:a } UNION { e:a r:p e:b }",
        "?y r:q ?x { ?x r:p e:a {| r:q e:c |} } UNION { e:a r:p ?y {| r:q e:c ; r:q e:d |} }",
        "?x (r:p|r:q)/^r:p ?y",
        "{ ?x r:q e:c } UNION { ?x r:q e:d }",  # the nodes of statements, too
    ],
)
def test_distinct_rows_of_a_disjunction_are_joined_as_a_store_finds_them(group: str) -> None:
    prefixes = "PREFIX r: <urn:starqe:relation:> PREFIX e: <urn:starqe:entity:>"
    text = f"{prefixes} SELECT DISTINCT ?x {{ {group} }}"
    check_known_rows(UNITED, text)
    known = UNITED.known(["train"])
    found = known_rows(read_sparql(text, UNITED), known, StoreHere(UNITED), 10)
    assert isinstance(found, JoinedRows)
    rows = [{"x": Binder(UNITED).of_id("entity", id_)} for id_ in range(len(UNITED.entities))]
    entities = [row["x"] for row in found.rows(None, 0)]
    with patch.object(asking, "LISTED", 0):
        assert found.among(rows) == [row["x"] in entities for row in rows]
    assert found.values(0)[:, 0].tolist() == [id_ for id_, row in enumerate(rows) if row["x"] in entities]


def test_what_must_exist_does_not_multiply_rows() -> None:
    graph = graph_of([Statement("a", "p", "b"), Statement("b", "q", "c"), Statement("b", "q", "d")])
    text = "PREFIX r: <urn:starqe:relation:> SELECT ?x { ?x r:p ?y FILTER EXISTS { ?y r:q ?z } }"
    found = known_rows(read_sparql(text, graph), graph.known(["train"]), StoreHere(graph), 10)
    assert [row["x"].value for row in found.rows(None, 0) if row["x"]] == ["a"]


def test_rows_beyond_those_that_are_listed_are_checked_all_at_once() -> None:
    members = [f"m{i}" for i in range(6)]
    graph = graph_of([*(Statement(one, "is", "hub") for one in members[:4]), *(Statement(one, "at", "hub") for one in members[2:])])
    request = read_sparql('SELECT DISTINCT ?a ?b { ?a "is" ?c . ?b "at" ?c . ?d "is" ?c }', graph)
    found, bound = known_rows(request, graph.known(["train"]), StoreHere(graph), 10), Binder(graph).of_id
    pairs = [(one, other) for one in members for other in members]
    rows = [dict(zip("ab", (bound("entity", graph.entities.id(name)) for name in pair), strict=True)) for pair in pairs]
    with patch.object(asking, "LISTED", 10), patch.object(asking, "solve", wraps=asking.solve) as solved:
        assert found.among(rows) == [one in members[:4] and other in members[2:] for one, other in pairs]
        assert found.among([]) == []
    assert solved.call_count == 1


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("?x NOT IN ()", ["a", "b"]),
        ("?x IN ()", []),
        ("!(?x IN ())", ["a", "b"]),
        ("?x NOT IN () && ?x != e:a", ["b"]),
        ("EXISTS { ?x r:p ?y FILTER (?y NOT IN ()) } || ?x IN ()", ["a", "b"]),
    ],
)
@pytest.mark.parametrize("group", ["?x r:p ?y", "?x r:p ?y OPTIONAL { ?y r:p ?z }"], ids=["joins", "store"])
def test_nothing_is_in_an_empty_list(group: str, condition: str, expected: list[str]) -> None:
    """As SPARQL defines it; Oxigraph takes an empty list for an error, so that the generator of random texts has none."""
    graph = graph_of([Statement("a", "p", "b"), Statement("b", "p", "c")])
    prefixes = "PREFIX r: <urn:starqe:relation:> PREFIX e: <urn:starqe:entity:>"
    text = f"{prefixes} SELECT ?x {{ {group} FILTER ({condition}) }}"
    try:
        found = known_rows(read_sparql(text, graph), graph.known(["train"]), StoreHere(graph), 10)
    except KnownOnlyError:
        assert expected == []  # no pattern is left
        return
    assert sorted(row["x"].value for row in found.rows(None, 0) if row["x"]) == expected
