"""Predictions that cannot change the best answers are not made, and the best answers stay those of brute force."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from starqe.kg import Statement, graph_of
from starqe.queries import Atom, Query, Variable
from starqe.queries.gaps import HEAD, TAIL, Gaps
from starqe.queries.layout import table_of_query
from starqe.reason import NORMS, Executor, ReasonSettings
from starqe.reason.executor import messages
from tests.few_and_many import check_examples
from tests.reason.executor.test_execution import CASES, World, world
from tests.reason.executor.test_formulas import check_truths, check_tuples
from tests.reason.worlds import KINDS, Numbers, brute_force

CAP = 0.9
TRIED = ("2p", "3p", "1p-2i", "hanging-anchored", "tree", "half-turned-3p", "triangle", "square")
"""Shapes with one variable to try, with several, and with bound ones."""
one_by_one = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def groups_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worlds are small: candidates are tried one by one, so that there is something to stop."""
    for name in ("GROUP", "FIRST"):
        monkeypatch.setattr(messages, name, 1)
    monkeypatch.setattr("starqe.reason.executor.executor.FIRST", 1)


def check_best(drawn: World, norm: str, beam: int, wanted: int) -> None:
    graph, one_hop, table = drawn
    executor = Executor(graph.known(["train"]), one_hop, ReasonSettings(norm=norm, beam=beam, cap=CAP, questions=10**6))
    rows = np.arange(len(table))
    found = executor.truths(table, rows, wanted=wanted)
    best = executor.best_rows(table, rows, wanted)
    for row in rows:
        expected = brute_force(graph.known(["train"]), one_hop, norm, CAP, table, row)
        values, slack = found.values[row].numpy(), float(found.slack[row])
        assert (values <= expected + 1e-6).all()
        assert (expected <= np.maximum(values, slack) + 1e-6).all()
        if beam < 100:
            continue
        truest = np.sort(np.where(expected >= 1 - 1e-6, 0, expected))[::-1][:wanted]
        assert best.exact[row] or best.ceiling[row] <= truest[-1] + 1e-6  # equal up to rounding
        truths = best.scores[row].clamp_min(0).numpy()
        np.testing.assert_allclose(truths, truest, atol=1e-6)
        np.testing.assert_allclose(expected[best.ids[row]][truths > 0], truths[truths > 0], atol=1e-6)


def check_best_for_every_norm(data: st.DataObject, name: str) -> None:
    drawn, wanted = world(data, CASES[name]), data.draw(st.integers(1, 3))
    for norm in NORMS:
        check_best(drawn, norm, 100, wanted)
        check_best(drawn, norm, data.draw(st.integers(1, 3)), wanted)


@pytest.mark.parametrize("name", TRIED)
def test_the_best_answers_are_those_of_brute_force(name: str) -> None:
    check_examples(check_best_for_every_norm, 4, name=name)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_best_answers_are_those_of_brute_force_many_times(name: str) -> None:
    check_examples(check_best_for_every_norm, 50, name=name)


@settings(one_by_one, max_examples=20)
@given(data=st.data())
def test_the_best_tuples_of_any_formula_are_those_of_brute_force(data: st.DataObject) -> None:
    check_tuples(data)
    check_truths(data)


# a -r-> b is known; from b and the other candidates -s-> is predicted.
GRAPH = graph_of([Statement("a", "r", "b"), Statement("e", "r", "e"), Statement("c", "s", "c")])
X, T = Variable("x"), Variable("t")


def path_world(of_b: float, weight: float) -> tuple[Numbers, Executor]:
    """The fact b gives b this truth; the prediction e, of this weight, gives a 0.9."""
    entities, relations = len(GRAPH.entities), len(GRAPH.relations)
    table = np.zeros((2, entities, relations, KINDS, entities), np.float32)
    ids, relation = GRAPH.entities.id, GRAPH.relations.id
    table[0, ids("a"), relation("r"), :, ids("e")] = weight
    table[0, ids("b"), relation("s"), :, ids("b")] = of_b
    table[0, ids("e"), relation("s"), :, ids("a")] = 0.9
    numbers = Numbers(table)
    return numbers, Executor(GRAPH.known(["train"]), numbers, ReasonSettings(cap=CAP))


PATH = Query.conjunction([Atom("a", "r", X), Atom(X, "s", T)], "t")


@pytest.mark.parametrize(
    ("of_b", "weight", "asked"),
    [
        (0.5, 0.4, 2),  # 0.5 stands against 0.4 · 0.9 at most: a -r-> ? and b -s-> ? are all that is asked
        (0.3, 0.4, 3),  # e could give 0.36, and does
    ],
)
def test_a_candidate_is_left_out_exactly_when_it_cannot_give_more_than_the_best(of_b: float, weight: float, asked: int) -> None:
    numbers, executor = path_world(of_b, weight)
    best = executor.best_rows(table_of_query(PATH, GRAPH), np.array([0]), 1)
    assert numbers.asked == asked
    assert best.scores[0].tolist() == pytest.approx([max(of_b, 0.9 * weight)])
    assert best.exact.tolist() == [True]


def test_scores_settle_as_many_answers_as_the_settings_say() -> None:
    for settled, asked in ((1, 2), (2, 3)):
        numbers, executor = path_world(0.5, 0.4)
        executor = Executor(executor.known, numbers, ReasonSettings(cap=CAP, settled=settled))
        executor.scores(table_of_query(PATH, GRAPH), np.array([0]), torch.empty(1, len(GRAPH.entities)))
        assert numbers.asked == asked


def test_known_answers_are_left_out_of_the_best_ones() -> None:
    _, executor = path_world(0.3, 0.4)
    table, ids = table_of_query(PATH, GRAPH), GRAPH.entities.id
    assert executor.best_rows(table, np.array([0]), 1).ids[0].tolist() == [ids("a")]
    assert executor.best_rows(table, np.array([0]), 1, [np.array([ids("a")])]).ids[0].tolist() == [ids("b")]


def test_queries_of_several_shapes_are_predicted_together_and_score_as_alone() -> None:
    asked: list[int] = []

    class Watched(Numbers):
        def probabilities(self, gaps: Gaps, out: torch.Tensor) -> torch.Tensor:
            asked.append(len(gaps))
            return super().probabilities(gaps, out)

    numbers, known = path_world(0.5, 0.4)[0], GRAPH.known(["train"])
    executor = Executor(known, Watched(numbers.table), ReasonSettings(cap=CAP))
    tables = [table_of_query(PATH, GRAPH), table_of_query(Query.conjunction([Atom("a", "r", T), Atom("b", "s", T)], "t"), GRAPH)]
    parts = [(table, np.array([0])) for table in tables]
    found = executor.truths_of(parts).values
    assert asked == [2]  # a -r-> ? for both, b -s-> ? for the second; the first finds b -s-> ? made already
    for place, (table, rows) in enumerate(parts):
        assert torch.equal(executor.scores(table, rows, torch.empty(1, len(GRAPH.entities)))[0], found[place])


def test_steps_from_inner_variables_are_predicted_together_for_all_shapes() -> None:
    """Heads and tails are asked in one go, too: the first hops of both paths, then one candidate of each, and so on."""
    calls: list[list[int]] = []

    class Watched(Numbers):
        def probabilities(self, gaps: Gaps, out: torch.Tensor) -> torch.Tensor:
            calls.append(gaps.position.tolist())
            return super().probabilities(gaps, out)

    entities, relations = len(GRAPH.entities), len(GRAPH.relations)
    numbers = np.random.default_rng(0).random((2, entities, relations, KINDS, entities)).astype(np.float32)
    executor = Executor(GRAPH.known(["train"]), Watched(numbers), ReasonSettings(cap=CAP))
    backward = Query.conjunction([Atom(X, "r", "e"), Atom(T, "s", X)], "t")
    parts = [(table_of_query(query, GRAPH), np.array([0])) for query in (PATH, backward)]
    alone, rounds = [], []
    for part in parts:
        alone.append(executor.truths_of([part]).values[0])
        rounds.append(len(calls))
        calls.clear()
    together = executor.truths_of(parts).values
    assert len(calls) == max(rounds) < sum(rounds)
    assert calls[:2] == [[TAIL, HEAD]] * 2
    assert torch.equal(together, torch.stack(alone))
