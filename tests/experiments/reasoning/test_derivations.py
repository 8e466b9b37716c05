"""Which edges of a query are new, by hand on a small graph."""

from pathlib import Path

import numpy as np
import pytest

from starqe.experiments.reasoning.derivations import MissingEdges, all_new, asked_alone, choices, derivations, one_missing
from starqe.kg import Graph, Statement, embedded_graph, graph_of
from starqe.queries import Atom, Query, QueryTable, Variable, generate, load_queries
from starqe.queries.exact.answering import answer_rows
from starqe.queries.layout import table_of_query

X, T = Variable("x"), Variable("t")
PHD = (("degree", "PhD"),)

GRAPH = graph_of(
    train=[
        Statement("Curie", "educatedAt", "Sorbonne", PHD),
        Statement("Curie", "educatedAt", "Krakow"),
        Statement("ETH", "in", "Zurich"),
        Statement("UZH", "in", "Zurich"),
    ],
    valid=[Statement("Sorbonne", "in", "France")],
    test=[
        Statement("Sorbonne", "in", "Paris"),
        Statement("Curie", "educatedAt", "ETH", PHD),
        Statement("Einstein", "educatedAt", "LSE"),
        Statement("LSE", "in", "London"),
    ],
)


def two_hops(person: str, pairs: tuple[tuple[str, str], ...], *answers: str) -> QueryTable:
    query = Query.conjunction([Atom(person, "educatedAt", X, pairs), Atom(X, "in", T)], "t")
    return table_of_query(query, GRAPH, [GRAPH.entities.id(name) for name in answers])


def named(graph: Graph, found: MissingEdges) -> list[tuple[str, int, str, str]]:
    name = graph.entities.identifier
    return [
        (name(answer), int(edge), name(head), name(tail))
        for answer, edge, head, tail in zip(found.answer, found.edge, found.head, found.tail, strict=True)
    ]


def test_a_derivation_says_which_edges_train_knows() -> None:
    # Curie -> Sorbonne is train, with its degree; Sorbonne -> Paris is test. Curie -> ETH is test, ETH -> Zurich train.
    found = derivations(GRAPH, two_hops("Curie", PHD, "Paris", "Zurich"))
    answers = [GRAPH.entities.identifier(answer) for answer in found.answer]
    assert dict(zip(answers, found.known.tolist(), strict=True)) == {"Paris": [True, False], "Zurich": [False, True]}


def test_answers_that_are_not_listed_do_not_count() -> None:
    assert len(derivations(GRAPH, two_hops("Curie", PHD, "Paris")).query) == 1


def test_the_qualifiers_of_an_edge_decide_whether_it_is_known() -> None:
    other = graph_of(train=[Statement("a", "r", "b"), Statement("c", "s", "d", PHD)], test=[Statement("a", "r", "b", PHD)])
    table = table_of_query(Query.conjunction([Atom("a", "r", T, PHD)], "t"), other, [other.entities.id("b")])
    assert not derivations(other, table).known.any()


@pytest.mark.parametrize(
    ("person", "pairs", "answers", "expected"),
    [
        ("Einstein", (), ["London"], True),  # both edges are test
        ("Curie", PHD, ["Paris"], False),
        ("Curie", (), ["Paris", "Zurich"], False),
    ],
)
def test_a_query_is_all_new_if_no_edge_of_any_derivation_is_known(
    person: str, pairs: tuple[tuple[str, str], ...], answers: list[str], expected: bool
) -> None:
    assert all_new(derivations(GRAPH, two_hops(person, pairs, *answers)), 1).tolist() == [expected]


def test_the_one_missing_edge_is_found_with_its_ends() -> None:
    found = one_missing(GRAPH, derivations(GRAPH, two_hops("Curie", PHD, "Paris", "Zurich")))
    assert sorted(named(GRAPH, found)) == [("Paris", 1, "Sorbonne", "Paris"), ("Zurich", 0, "Curie", "ETH")]
    assert len(one_missing(GRAPH, derivations(GRAPH, two_hops("Einstein", (), "London")))) == 0  # two are missing
    assert len(found.take(np.array([1]))) == 1


def test_an_answer_that_lacks_one_or_another_statement_is_left_out() -> None:
    statements = [Statement("a", "r", "b"), Statement("c", "s", "t")]
    graph = graph_of(train=statements, test=[Statement("b", "s", "t"), Statement("a", "r", "c")])
    table = table_of_query(Query.conjunction([Atom("a", "r", X), Atom(X, "s", T)], "t"), graph, [graph.entities.id("t")])
    found = derivations(graph, table)
    assert (~found.known).sum(axis=1).tolist() == [1, 1]
    assert len(one_missing(graph, found)) == 0


def test_choices_are_the_statements_each_of_which_alone_would_do() -> None:
    table = two_hops("Curie", (), "Zurich")
    missing = one_missing(GRAPH, derivations(GRAPH, table))
    # Curie may have been at ETH or at UZH (both in Zurich), or Sorbonne or Krakow (where she was) may lie in Zurich.
    assert choices(GRAPH, table, missing).tolist() == [4]
    with_degree = two_hops("Curie", PHD, "Zurich")
    missing = one_missing(GRAPH, derivations(GRAPH, with_degree))
    assert choices(GRAPH, with_degree, missing).tolist() == [3]  # not Krakow: no degree


def test_an_edge_is_asked_alone_from_either_side() -> None:
    table, known = two_hops("Curie", PHD, "Paris"), GRAPH.known(["train", "test"])
    ids = np.array([GRAPH.entities.id(name) for name in ("Curie", "Zurich")])
    tails = asked_alone(table, np.array([0]), np.array([0]), "head", ids[:1])
    heads = asked_alone(table, np.array([0]), np.array([1]), "tail", ids[1:])
    assert (tails.shape.text, heads.shape.text) == ("A>?", "?>A")
    assert [GRAPH.entities.identifier(one) for one in answer_rows(known, tails).items] == ["ETH", "Sorbonne"]  # Krakow gave no degree
    assert [GRAPH.entities.identifier(one) for one in answer_rows(known, heads).items] == ["ETH", "UZH"]


@pytest.mark.full
def test_generated_queries_are_judged_as_by_looking_up_edge_by_edge(tmp_path: Path) -> None:
    graph = embedded_graph()
    train, everything = graph.known(["train"]), graph.known(["train", "valid", "test"])
    generate(graph, tmp_path / "queries", splits=["test"])
    for shape, table in load_queries(tmp_path / "queries", "test", limit=40).items():
        found = derivations(graph, table)
        assert len(set(zip(found.query.tolist(), found.answer.tolist(), strict=True))) == len(table.answers.items), shape
        for number, row in enumerate(found.query):
            for edge in range(len(table.shape.edges)):
                statement = found.head[number, edge], table.relations[row, edge], found.tail[number, edge], table.pairs_of(row, edge)
                assert everything.holds(*statement)
                assert train.holds(*statement) == found.known[number, edge]
