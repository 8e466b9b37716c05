"""Known rows are those of a SPARQL store, row by row; predicted rows are those of brute force, and none where nothing is predicted."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, event, given, settings

from starqe.ask.answers import Binding
from starqe.ask.known_rows import Binder, Bindings, StoreRows, known_rows
from starqe.ask.predicted_rows import predicted_rows, wanted_of
from starqe.errors import KnownOnlyError
from starqe.kg import Graph, Statement, graph_of
from starqe.kg.formats.wikidata import WIKIDATA_NAMES
from starqe.queries import read_sparql
from starqe.queries.gaps import Gaps
from starqe.queries.sparql.request import SparqlRequest
from starqe.queries.sparql.store import Rows
from starqe.reason.executor.executor import Executor
from tests.queries.sparql.texts import StoreHere, graphs, plain, texts

PATIENT = settings(deadline=None, suppress_health_check=list(HealthCheck))


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
    event("store" if isinstance(found, StoreRows) else "joins")
    ours = Counter(written(row, graph) for row in found.rows(None, 0))
    assert ours == terms(store.rows(plain(text)), request.shown), text
    assert (found.count, found.exact) == (sum(ours.values()), True)


def check_nothing_is_predicted(graph: Graph, text: str) -> None:
    if (request := asked(text, graph)) is None:
        return
    known, store = graph.known(["train"]), StoreHere(graph)
    executor, found = Executor(known, Nothing()), known_rows(request, known, store, 10_000)
    wanted = wanted_of(request, found, 10_000)
    ranked = [list(executor.best(one.query, one.count, without=set(map(tuple, one.known.tolist()))).ranked) for one in wanted]
    assert predicted_rows(request, ranked, found, Binder(graph)) == [], text


def check_formulas_find_the_known_rows(graph: Graph, text: str) -> None:
    """Without variables for relations, and without relations that qualifiers have too, all of a store's rows are found by formulas."""
    if (request := asked(text, graph)) is None or graph.relations.id("p") in graph.relation.tolist():
        return
    executor, rows = Executor(graph.known(["train"]), Nothing()), StoreHere(graph).rows(plain(text))

    class NoRows:
        count, exact = 0, True

        def among(self, asked_for, deadline=None):
            return [False] * len(asked_for)

    ranked = [list(executor.best(one.query, 100_000).ranked) for one in request.alternatives]
    ours = {written(row, graph) for row, _ in predicted_rows(request, ranked, NoRows(), Binder(graph))}
    missing = {row for row in terms(rows, request.shown) if row not in ours}
    # A case without any statement in it (a path of length zero, or VALUES alone) is not predicted.
    assert not missing or "?" in text.replace("?x", "").replace("?y", "").replace("?z", "") or "VALUES" in text, (text, missing)


@settings(PATIENT, max_examples=60)
@given(graphs, texts())
def test_known_rows_are_those_of_a_store(graph: Graph, text: str) -> None:
    check_known_rows(graph, text)


@settings(PATIENT, max_examples=40)
@given(graphs, texts())
def test_nothing_is_predicted_beyond_what_is_known_where_all_probabilities_are_zero(graph: Graph, text: str) -> None:
    check_nothing_is_predicted(graph, text)


@settings(PATIENT, max_examples=40)
@given(graphs, texts(anywhere=False))
def test_formulas_find_all_known_rows_where_all_probabilities_are_zero(graph: Graph, text: str) -> None:
    check_formulas_find_the_known_rows(graph, text)


@pytest.mark.slow
@settings(PATIENT, max_examples=1_000)
@given(graphs, texts())
def test_many_texts_have_the_known_rows_of_a_store_and_nothing_beyond_without_predictions(graph: Graph, text: str) -> None:
    check_known_rows(graph, text)
    check_nothing_is_predicted(graph, text)


@pytest.mark.slow
@settings(PATIENT, max_examples=1_000)
@given(graphs, texts(anywhere=False))
def test_formulas_find_all_known_rows_of_many_texts(graph: Graph, text: str) -> None:
    check_formulas_find_the_known_rows(graph, text)


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
    ],
)
def test_the_rows_of_equal_branches_are_given_twice(group: str) -> None:
    graph = graph_of([Statement("a", "p", "b"), Statement("b", "q", "c")])
    text = f"PREFIX r: <urn:starqe:relation:> SELECT ?x {{ {group} }}"
    found = known_rows(read_sparql(text, graph), graph.known(["train"]), StoreHere(graph), 10)
    assert [row["x"].value for row in found.rows(None, 0) if row["x"]] == ["a", "a"]


def test_what_must_exist_does_not_multiply_rows() -> None:
    graph = graph_of([Statement("a", "p", "b"), Statement("b", "q", "c"), Statement("b", "q", "d")])
    text = "PREFIX r: <urn:starqe:relation:> SELECT ?x { ?x r:p ?y FILTER EXISTS { ?y r:q ?z } }"
    found = known_rows(read_sparql(text, graph), graph.known(["train"]), StoreHere(graph), 10)
    assert [row["x"].value for row in found.rows(None, 0) if row["x"]] == ["a"]
