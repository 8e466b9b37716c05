"""Truths of which only the best are listed: those of whole rows where all are listed, and bounded by brute force where few are."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from starqe.errors import QueryError
from starqe.kg import Graph, Statement, graph_of
from starqe.queries import SHAPES, Atom, Query, Variable
from starqe.queries.formula import And, Not, free_variables
from starqe.queries.gaps import Gaps
from starqe.reason import NORMS, Executor, ReasonSettings
from starqe.reason.executor.truth import OneHop
from starqe.reason.listed import Listed
from tests.few_and_many import check_examples
from tests.reason.executor.test_execution import CASES, world
from tests.reason.executor.test_formulas import by_brute_force, query_of
from tests.reason.formula_worlds import graphs, predictors, questions
from tests.reason.worlds import brute_force

CAP = 0.9


@dataclass
class BestOnly:
    """Lists the best entities of a predictor, and refuses to say more than it is asked for."""

    predictor: OneHop
    entities: int

    def probabilities(self, gaps: Gaps, out: torch.Tensor) -> torch.Tensor:
        return self.predictor.probabilities(gaps, out)

    def best(self, gaps: Gaps, count: int) -> list[Listed]:
        found = []
        for row in self.predictor.probabilities(gaps, torch.empty(len(gaps), self.entities)).clone():
            order = row.argsort(descending=True, stable=True)[:count]
            ids, least = np.sort(order.numpy()), float(row[order[-1]])
            rest = least if count < self.entities else 0.0
            found.append(Listed(row[torch.from_numpy(ids)], ids, rest, lambda ids, row=row: row[torch.from_numpy(ids).long()]))
        return found


@pytest.fixture(autouse=True)
def no_graph_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("starqe.reason.executor.executor.DENSE", 0)


def executor_of(graph: Graph, predictor: OneHop, norm: str, listed: int, beam: int = 100) -> Executor:
    chosen = ReasonSettings(norm=norm, beam=beam, cap=CAP, questions=10**6, listed=listed)
    return Executor(graph.known(["train"]), BestOnly(predictor, len(graph.entities)), chosen)


def check_row(row: Listed, slack: float, expected: np.ndarray) -> None:
    """Lower bounds that are exact above the slack; what is not listed has at most the bound or the slack."""
    found = row.at(np.arange(len(expected))).numpy()
    assert (found <= expected + 1e-6).all()
    assert (expected <= np.maximum(found, slack) + 1e-6).all()
    others = np.setdiff1d(np.arange(len(expected)), np.arange(len(expected)) if row.ids is None else row.ids)
    assert (expected[others] <= max(row.rest, slack) + 1e-6).all()
    if row.ids is not None:
        assert (np.diff(row.ids) > 0).all()
        np.testing.assert_array_equal(row.values.numpy(), found[row.ids])


def check_tables(data: st.DataObject, text: str) -> None:
    graph, one_hop, table = world(data, text)
    for norm in NORMS:
        for listed, beam in ((100, 100), (data.draw(st.integers(2, 4)), data.draw(st.integers(1, 4)))):
            executor, rows = executor_of(graph, one_hop, norm, listed, beam), np.arange(len(table))
            found = executor.rows_of([(table, rows)], wanted=0)
            dense = executor.truths(table, rows)
            for row, slack in enumerate(found.slack.tolist()):
                check_row(found.rows[row], slack, brute_force(graph.known(["train"]), one_hop, norm, CAP, table, row))
                if listed == 100:
                    assert slack == float(dense.slack[row]) == 0
                    np.testing.assert_allclose(found.rows[row].dense(len(graph.entities)), dense.values[row], atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_listed_truths_are_dense_ones_if_all_are_listed_and_bounds_hold_if_few_are(name: str) -> None:
    check_examples(check_tables, 3, text=CASES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_listed_truths_are_dense_ones_if_all_are_listed_and_bounds_hold_if_few_are_many_times(name: str) -> None:
    check_examples(check_tables, 60, text=CASES[name])


def check_formula(data: st.DataObject) -> None:
    formula, graph, predictor = data.draw(questions()), data.draw(graphs), data.draw(predictors)
    names = st.sampled_from(sorted(free_variables(formula)))
    query: Query = query_of(formula, *data.draw(st.lists(names, min_size=1, max_size=3, unique=True)))
    norm, count = data.draw(st.sampled_from(list(NORMS))), data.draw(st.integers(1, 20))
    expected = by_brute_force(query, graph, predictor, norm)
    try:
        found = executor_of(graph, predictor, norm, 100).best(query, count)
    except QueryError:
        assume(False)
        raise
    best = sorted((truth for truth in expected.values() if truth > 1e-6), reverse=True)[:count]
    assert found.slack == 0
    np.testing.assert_allclose([truth for _, truth in found.ranked if truth > 1e-6], best, atol=1e-5)
    few = executor_of(graph, predictor, norm, data.draw(st.integers(2, 4)), data.draw(st.integers(1, 4))).best(query, count)
    for ids, truth in few.ranked:
        assert truth <= expected[ids] + 1e-5
    missed = max((truth for ids, truth in expected.items() if ids not in dict(few.ranked)), default=0.0)
    least = few.ranked[-1][1] if len(few.ranked) == count else 0.0
    assert missed <= max(least, few.slack) + 1e-5


@settings(max_examples=60)
@given(data=st.data())
def test_the_best_tuples_of_any_formula_are_found_or_bounded(data: st.DataObject) -> None:
    check_formula(data)


@pytest.mark.slow
@settings(max_examples=1500)
@given(data=st.data())
def test_the_best_tuples_of_any_formula_are_found_or_bounded_many_times(data: st.DataObject) -> None:
    check_formula(data)


@settings(max_examples=30)
@given(data=st.data())
def test_explanations_add_up_to_listed_truths(data: st.DataObject) -> None:
    name, norm = data.draw(st.sampled_from(list(CASES))), data.draw(st.sampled_from(list(NORMS)))
    graph, one_hop, table = world(data, CASES[name])
    executor = executor_of(graph, one_hop, norm, data.draw(st.integers(2, 4)), 100)
    (row,) = executor.rows_of([(table, np.array([0]))], wanted=0).rows
    for answer in range(len(graph.entities)):
        found = executor.explain_row(table, 0, answer)
        assert found.truth >= float(row.at(np.array([answer]))) - 1e-6


def test_a_row_of_few_entities_gives_the_best_with_the_most_of_all_others() -> None:
    row = Listed(torch.tensor([0.9, 0.2, 0.5]), np.array([1, 3, 4]), 0.3, lambda ids: torch.full((len(ids),), 0.25))
    values, ids, rest = row.best(2, 6)
    assert (values.tolist(), ids.tolist(), rest) == (pytest.approx([0.9, 0.5]), [1, 4], pytest.approx(0.3))
    values, ids, rest = row.best(3, 6)  # one that is not listed may be better than the third: some are looked up
    assert (values.tolist(), ids[:2].tolist(), rest) == (pytest.approx([0.9, 0.5, 0.25]), [1, 4], pytest.approx(0.25))
    assert row.kept(2).ids is not None
    assert row.kept(2).ids.tolist() == [1, 4]
    assert row.kept(2).at(np.array([3, 5])).tolist() == pytest.approx([0.2, 0.25])


def test_a_row_says_the_most_of_all_but_some_and_whether_it_holds_for_most() -> None:
    few = Listed(torch.tensor([0.9, 0.2]), np.array([1, 3]), 0.3, lambda ids: torch.full((len(ids),), 0.25))
    assert few.most_without(np.array([1, 2])) == pytest.approx(0.3)
    assert few.most_without(np.array([3])) == pytest.approx(0.9)
    assert Listed(torch.tensor([0.9, 0.2, 0.4])).most_without(np.array([0])) == pytest.approx(0.4)
    assert Listed(torch.tensor([0.9])).most_without(np.array([0])) == 0
    assert [few.holds_for_most, few.negated(0).holds_for_most] == [False, True]
    assert [Listed(torch.tensor([0.9] * n + [0.1] * (10 - n))).holds_for_most for n in (5, 9, 10)] == [False, False, True]


def test_facts_are_followed_from_what_is_not_listed_where_most_entities_fit() -> None:
    # The prediction lists a and b as the s of b; c and d, which have an r, are among those that the negation leaves.
    graph = graph_of([Statement("a", "s", "b"), Statement("c", "r", "b"), Statement("d", "r", "a")])

    class Low:
        def probabilities(self, gaps: Gaps, out: torch.Tensor) -> torch.Tensor:
            return out.fill_(0.1)

    t, x = Variable("t"), Variable("x")
    query = Query(And((Atom(x, "r", t, fact=True), Not(Atom("b", "s", x)))), (t,))
    for listed in (2, 4):
        ranked = executor_of(graph, Low(), "product", listed).best(query, 2).ranked
        assert {graph.entities.identifier(id_): truth for (id_,), truth in ranked} == {"a": pytest.approx(0.9), "b": pytest.approx(0.9)}


@given(st.data())
@settings(max_examples=20)
def test_an_intersection_of_rounded_truths_has_exact_ones(data: st.DataObject) -> None:
    """Two conditions of one target, each predicted with errors: the source of the joined row is that of exact arithmetic."""

    @dataclass
    class Rounds(BestOnly):
        def rounded(self, gaps: Gaps) -> list[Listed]:
            exact = self.predictor.probabilities(gaps, torch.empty(len(gaps), self.entities)).clone()
            return [Listed(row * 0.97, source=lambda ids, row=row: row[torch.from_numpy(ids)]) for row in exact]

    graph, predictor, table = world(data, SHAPES["2i"].text)
    entities, rows = len(graph.entities), np.arange(len(table))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("starqe.reason.executor.executor.DENSE", 10**6)
        executor = Executor(graph.known(["train"]), Rounds(predictor, entities), ReasonSettings(cap=CAP))
        found, exact = executor.rows_of([(table, rows)]).rows, executor.truths(table, rows).values
    for place, row in enumerate(found):
        assert row.source is not None
        torch.testing.assert_close(row.at(np.arange(entities)), exact[place])
