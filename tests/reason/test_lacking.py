"""How much validation queries count, by hand."""

import numpy as np
import pytest

from starqe.kg import Graph, Statement, graph_of
from starqe.measure.ranking_protocols import strict
from starqe.queries import Query, QueryTable, Variable, table_of_query
from starqe.queries.formula import Atom
from starqe.reason.lacking import further_odds, query_weights

X = Variable("x")
TRAIN = [Statement("a", "r", "x"), Statement("b", "s", "y"), Statement("c", "r", "z")]
VALID = [Statement("b", "s", "x"), Statement("a", "r", "w"), Statement("b", "s", "w")]
TEST = [Statement("c", "r", f"t{i}") for i in range(6)]


BOTH = Query.conjunction([Atom("a", "r", X), Atom("b", "s", X)], "x")


def weights_on(graph: Graph, query: Query = BOTH) -> list[float]:
    """Returns what a query counts on validation."""
    table = table_of_query(query, graph)
    table = QueryTable(**{**vars(table), "header": {"split": "valid", "fingerprint": graph.fingerprint}})
    task = strict(graph, table, np.arange(1))
    return query_weights(graph, table, task.rows, task.ranked).tolist()


def test_the_odds_compare_what_is_unknown_with_test_and_without() -> None:
    assert further_odds(graph_of(train=TRAIN, valid=VALID, test=TEST)) == 1 + 6 / 3
    assert further_odds(graph_of(train=TRAIN, valid=VALID)) == 1
    assert further_odds(graph_of(train=TRAIN)) == 1


@pytest.mark.parametrize(("valid", "weight"), [(VALID, 1.0), (VALID[1:], 1 + (1 + 6 / 2))])
def test_a_query_counts_by_the_statements_that_its_nearest_answer_lacks(valid: list[Statement], weight: float) -> None:
    # x lacks one statement, w two. Without the first statement of valid w is the only hard answer.
    assert weights_on(graph_of(train=TRAIN, valid=valid, test=TEST)) == [weight]


def test_statements_of_test_are_counted_but_not_read() -> None:
    # a -r-> ?y -s-> ?x reaches w by two statements of valid. By way of m it would lack only one, that of test.
    graph = graph_of(
        train=[*TRAIN, Statement("m", "s", "w")],
        valid=[Statement("a", "r", "v"), Statement("v", "s", "w")],
        test=[Statement("a", "r", "m"), *TEST[1:]],
    )
    query = Query.conjunction([Atom("a", "r", Variable("y")), Atom(Variable("y"), "s", X)], "x")
    assert weights_on(graph, query) == [1 + (1 + 6 / 2)]


def test_without_a_test_split_every_query_counts_once() -> None:
    assert weights_on(graph_of(train=TRAIN, valid=VALID[1:])) == [1.0]
