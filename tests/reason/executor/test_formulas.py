"""The executor on any formula: equal to trying every assignment, bounded by it where the beam is narrow, for every norm."""

from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from starqe.errors import InputError, QueryError, UnsupportedError
from starqe.kg import Graph, Statement, graph_of
from starqe.queries import Atom, Query, Variable
from starqe.queries.formula import And, Formula, Not, Or, Same, free_variables
from starqe.queries.gaps import VALUE
from starqe.reason import NORMS, Executor, Group, Reason, ReasonSettings
from starqe.reason.executor.derivation import Part
from starqe.reason.executor.pattern import question_of
from starqe.reason.executor.plan import plan_of
from tests.examples import try_many
from tests.reason.formula_worlds import (
    ALWAYS,
    CONJUNCTION,
    CONSTRUCTS,
    DISJUNCTION,
    BruteForce,
    RandomPredictor,
    T,
    X,
    Y,
    constructs,
    graphs,
    predictors,
    questions,
)
from tests.reason.worlds import ids_of

CAP, ALL = 0.9, 100


def query_of(formula: Formula, *answers: Variable) -> Query:
    """Makes a query; formulas that no query can have are not tried."""
    try:
        return Query(formula, answers)
    except QueryError:
        assume(False)
        raise


def executor_of(graph: Graph, predictor: RandomPredictor, norm: str, beam: int) -> Executor:
    return Executor(graph.known(["train"]), predictor, ReasonSettings(norm=norm, beam=beam, cap=CAP, questions=10**6))


def by_brute_force(query: Query, graph: Graph, predictor: RandomPredictor, norm: str) -> dict[tuple[int, ...], float]:
    question = question_of(query, graph)
    return BruteForce(graph.known(["train"]), predictor, norm, CAP, question, plan_of(question.pattern).sides()).truths()


def check_truths(data: st.DataObject) -> list[str]:
    query, graph, predictor = query_of(data.draw(questions()), T), data.draw(graphs), data.draw(predictors)
    norm = data.draw(st.sampled_from(list(NORMS)))
    expected = by_brute_force(query, graph, predictor, norm)
    truth = np.array([expected[id_,] for id_ in range(len(graph.entities))])
    exact = executor_of(graph, predictor, norm, ALL).query_truths(query)
    np.testing.assert_allclose(exact.values[0].numpy(), truth, atol=1e-5)
    assert exact.slack.tolist() == [0]
    narrow = executor_of(graph, predictor, norm, data.draw(st.integers(1, 2))).query_truths(query)
    found, slack = narrow.values[0].numpy(), float(narrow.slack[0])
    assert (found <= truth + 1e-5).all()
    assert (truth <= np.maximum(found, slack) + 1e-5).all()
    return [norm, *constructs(query.formula)]


def check_tuples(data: st.DataObject) -> list[str]:
    formula, graph, predictor = data.draw(questions()), data.draw(graphs), data.draw(predictors)
    names = st.sampled_from(sorted(free_variables(formula)))
    query = query_of(formula, *data.draw(st.lists(names, min_size=1, max_size=3, unique=True)))
    norm, count = data.draw(st.sampled_from(list(NORMS))), data.draw(st.integers(1, 20))
    executor = executor_of(graph, predictor, norm, ALL)
    try:
        found = executor.best(query, count)
    except QueryError:  # a variable for a relation and for an entity
        assume(False)
        raise
    expected = by_brute_force(query, graph, predictor, norm)
    assert found.slack == 0
    best = sorted((truth for truth in expected.values() if truth > 1e-6), reverse=True)[:count]
    np.testing.assert_allclose([truth for _, truth in found.ranked if truth > 1e-6], best, atol=1e-5)
    for ids, truth in found.ranked:
        assert truth == pytest.approx(expected[ids], abs=1e-5)
    check_explanations(executor, query, found.ranked[:3], norm)
    without = data.draw(st.sets(st.sampled_from(sorted(expected)), max_size=5))
    left = sorted((truth for ids, truth in expected.items() if truth > 1e-6 and ids not in without), reverse=True)[:count]
    rest = executor.best(query, count, without=without)
    np.testing.assert_allclose([truth for _, truth in rest.ranked if truth > 1e-6], left, atol=1e-5)
    assert not without & {ids for ids, _ in rest.ranked}
    return [norm, f"{len(query.answers)} answer variables", *constructs(query.formula)]


def check_explanations(executor: Executor, query: Query, ranked: tuple[tuple[tuple[int, ...], float], ...], norm: str) -> None:
    graph = executor.known.graph
    for (_, truth), found in zip(ranked, executor.explain(query, [ids for ids, _ in ranked]), strict=True):
        assert found.truth == pytest.approx(truth, abs=1e-5)
        assert truth_of(found.root, norm) == pytest.approx(truth, abs=1e-5)
        assert [reason.edge for reason in found.reasons] == list(range(len(query.all_atoms)))
        for reason, atom in zip(found.reasons, query.all_atoms, strict=True):
            ends, pairs = ids_of(reason.atom, graph)
            assert reason.fact == executor.known.holds(*ends, pairs)
            assert all(
                asked == filled for asked, filled in zip(atom.terms[:3], reason.atom.terms[:3], strict=True) if isinstance(asked, str)
            )
        for reason in found.used:
            terms = query.all_atoms[reason.edge].terms[:3]
            filled = [found.assignment[term.name] if isinstance(term, Variable) else term for term in terms]
            assert filled == list(reason.atom.terms[:3])


def truth_of(part: Part, norm: str) -> float:
    """The truth of a derivation by that of its leaves; every part says its own."""
    if not isinstance(part, Group):
        return part.truth
    inner = [truth_of(one, norm) for one in part.parts]
    join = {"all": CONJUNCTION[norm], "any": DISJUNCTION[norm], "not": None}[part.kind]
    truth = 1 - inner[0] if join is None else float(reduce(join, inner))
    assert part.truth == pytest.approx(truth, abs=1e-5)
    if part.kind == "any":
        assert inner[part.chosen] == max(inner)
    return truth


ALWAYS_MET = Or((Same(X, "a"), Not(Same(X, "a"))))


@pytest.mark.parametrize("never_met", [Not(Same(X, X)), Not(ALWAYS_MET)])
def test_a_closed_part_that_no_entity_meets_leaves_nothing_open(never_met: Formula):
    query = Query(And((Atom("a", "r", T), never_met, ALWAYS_MET)), (T,))
    found = executor_of(graph_of(ALWAYS), RandomPredictor(0, 3), "product", ALL).query_truths(query)
    assert (found.values.max().item(), found.slack.tolist()) == (0, [0])


@settings(max_examples=25)
@given(data=st.data())
def test_truths_are_those_of_brute_force_and_bounded_by_them_with_a_narrow_beam(data: st.DataObject):
    check_truths(data)


@settings(max_examples=25)
@given(data=st.data())
def test_the_best_tuples_are_those_of_brute_force_and_explanations_add_up(data: st.DataObject):
    check_tuples(data)


@pytest.mark.slow
@pytest.mark.parametrize("check", [check_truths, check_tuples])
def test_truths_and_tuples_are_those_of_brute_force_many_times(check: Callable[[st.DataObject], list[str]]):
    counts = try_many(check, st.data(), examples=1_000)
    assert min(counts[name] for name in (*NORMS, *CONSTRUCTS)) >= 30


# Known: a studied at b, b lies in d; c studied at e. Predicted by hand below.
GRAPH = graph_of([Statement("a", "r", "b"), Statement("c", "r", "e", (("q", "b"),)), Statement("b", "s", "d"), Statement("e", "s", "e")])


class Fixed:
    """Predicts 0.4 for every tail, 0.2 for every head and 0.1 for every value."""

    def probabilities(self, gaps, out):
        for row, position in zip(out, gaps.position.tolist(), strict=True):
            row[:] = {2: 0.4, 0: 0.2, 3: 0.1}[position]
        return out


def truths(formula: Formula, **chosen: object) -> dict[str, float]:
    found = Executor(GRAPH.known(["train"]), Fixed(), ReasonSettings.parse(chosen)).query_truths(Query(formula, (T,)))
    return {entity: pytest.approx(value, abs=1e-6) for entity, value in zip(GRAPH.entities, found.values[0].tolist(), strict=True)}


def test_a_union_joins_its_parts_by_the_dual_of_the_norm():
    either = Or((Atom("a", "r", T), Atom("c", "r", T)))
    assert truths(either) == {"a": 0.64, "b": 1, "c": 0.64, "d": 0.64, "e": 1}  # 0.4 + 0.4 - 0.16
    assert truths(either, norm="goedel") == {"a": 0.4, "b": 1, "c": 0.4, "d": 0.4, "e": 1}
    assert truths(either, norm="lukasiewicz") == {"a": 0.8, "b": 1, "c": 0.8, "d": 0.8, "e": 1}


def test_a_negation_is_what_is_left_of_1():
    # b is known to lie in d, so it lies somewhere: 0; for the others the best place has 0.2, asked from the place.
    nowhere = And((Atom("a", "r", T), Not(Atom(T, "s", X))))
    assert truths(nowhere) == {"a": 0.32, "b": 0, "c": 0.32, "d": 0.32, "e": 0}  # 0.4 (1 - 0.2)


def test_an_equation_leaves_one_entity_and_its_negation_all_others():
    assert truths(And((Atom("a", "r", T), Same(T, "b")))) == {"a": 0, "b": 1, "c": 0, "d": 0, "e": 0}
    assert truths(And((Atom("a", "r", T), Not(Same(T, "b"))))) == {"a": 0.4, "b": 0, "c": 0.4, "d": 0.4, "e": 0.4}


def test_facts_are_followed_from_everything_that_a_negation_leaves():
    # As OPTIONAL has it: x is b or not. Nothing is predicted, so all answers come from facts: a and c have an r, to b and to e.
    either = And((Atom(T, "r", X, fact=True), Or((Same(X, "b"), Not(Same(X, "b"))))))
    assert truths(either) == {"a": 1, "b": 0, "c": 1, "d": 0, "e": 0}
    assert truths(And((Atom(T, "r", X, fact=True), Not(Same(X, "b"))))) == {"a": 0, "b": 0, "c": 1, "d": 0, "e": 0}


def test_of_what_a_negation_leaves_those_are_tried_first_that_facts_have_there():
    # 30 entities that no r leads to come before z, the only one that one does: by its negation alone, x may be any of them.
    graph = graph_of([*(Statement(f"n{i:02}", "s", f"n{i:02}") for i in range(30)), Statement("y", "r", "z")])
    query = Query(And((Atom(T, "r", X), Not(Atom(X, "s", "y")))), (T,))
    found = Executor(graph.known(["train"]), FromZ(graph.entities.id("z")), ReasonSettings(beam=1)).best(query, 3)
    assert found.ranked[0] == ((graph.entities.id("y"),), 1)
    assert [truth for _, truth in found.ranked[1:]] == [pytest.approx(0.4)] * 2


class FromZ:
    """Predicts 0.4 for every head of z, and nothing else."""

    def __init__(self, z: int) -> None:
        self.z = z

    def probabilities(self, gaps, out):
        for row, tail in zip(out, gaps.tail.tolist(), strict=True):
            row[:] = 0.4 if tail == self.z else 0
        return out


def test_a_qualifier_value_is_asked_for_like_an_entity():
    value = Atom("c", "r", "e", (("q", T),))
    assert truths(value) == {"a": 0.1, "b": 1, "c": 0.1, "d": 0.1, "e": 0.1}


def test_values_are_left_to_the_facts_where_the_model_predicts_ends_alone():
    class Ends(Fixed):
        def probabilities(self, gaps, out):
            if (gaps.position == VALUE).any():
                raise UnsupportedError("heads and tails alone")
            return super().probabilities(gaps, out)

    query = Query(Atom("c", "r", "e", (("q", T),)), (T,))
    found = Executor(GRAPH.known(["train"]), Ends()).query_truths(query)
    assert dict(zip(GRAPH.entities, found.values[0].tolist(), strict=True)) == {"a": 0, "b": 1, "c": 0, "d": 0, "e": 0}


def test_a_relation_and_an_entity_are_ranked_together():
    relation = Variable("p")
    query = Query(Atom("b", relation, T), (relation, T))
    found = Executor(GRAPH.known(["train"]), Fixed()).best(query, 2)
    (ids, truth), second = found.ranked
    assert (GRAPH.relations.identifier(ids[0]), GRAPH.entities.identifier(ids[1]), truth) == ("s", "d", 1)
    assert second[1] == pytest.approx(0.4)


def test_relations_that_an_end_has_elsewhere_are_tried_before_others():
    # Nothing connects x with y. Two relations lead to y elsewhere, one of them twice; others are more frequent, or come before.
    facts = ["a1n", "a2n", "a3n", "b1y", "c1y", "c2y", "xdn"]
    graph = graph_of([Statement(*((one[1], one[0], one[2]) if one[0] in "abc" else (one[0], one[1], one[2]))) for one in facts])
    relation = Variable("p")

    def tried(beam: int) -> set[str]:
        found = Executor(graph.known(["train"]), Fixed(), ReasonSettings(beam=beam)).best(Query(Atom("x", relation, "y"), (relation,)), 9)
        assert (found.slack > 0) == (beam < 4)
        return {graph.relations.identifier(id_) for (id_,), _ in found.ranked}

    assert [tried(beam) for beam in (1, 2, 3, 4)] == [{"c"}, {"c", "b"}, {"c", "b", "d"}, {"a", "b", "c", "d"}]


def test_several_answer_variables_are_ranked_by_their_joint_truth():
    path = And((Atom("a", "r", X), Atom(X, "s", T)))
    ranked = Executor(GRAPH.known(["train"]), Fixed()).best(Query(path, (X, T)), 3).ranked
    assert tuple(map(GRAPH.entities.identifier, ranked[0][0])) == ("b", "d")
    assert [truth for _, truth in ranked] == [1, pytest.approx(0.4), pytest.approx(0.4)]  # from b by a prediction; to e by two: 0.4


def test_an_explanation_names_the_branch_of_a_union_and_the_truths_of_the_others():
    executor, ids = Executor(GRAPH.known(["train"]), Fixed()), GRAPH.entities.id
    either = Query(Or((Atom("a", "r", T), And((Atom("c", "r", X), Atom(X, "s", T))))), (T,))
    (found,) = executor.explain(either, [[ids("e")]])
    assert isinstance(found.root, Group)
    assert (found.root.kind, found.root.chosen) == ("any", 1)
    assert [part.truth for part in found.root.parts] == [pytest.approx(0.4), 1]
    assert [(reason.atom.head, reason.atom.tail, reason.fact) for reason in found.used] == [("c", "e", True), ("e", "e", True)]
    assert [reason.edge for reason in found.reasons] == [0, 1, 2]
    assert found.assignment == {"t": "e", "x": "e"}


def test_an_explanation_names_the_missing_statement_that_a_negation_relies_on():
    executor, ids = Executor(GRAPH.known(["train"]), Fixed()), GRAPH.entities.id
    without = Query(And((Atom("a", "r", T), Not(Atom(T, "s", "d")))), (T,))
    (found,) = executor.explain(without, [[ids("e")]])
    assert isinstance(found.root, Group)
    asked, negation = found.root.parts
    assert isinstance(asked, Reason)
    assert (asked.fact, asked.truth) == (False, pytest.approx(0.4))
    assert isinstance(negation, Group)
    (missing,) = negation.parts
    assert isinstance(missing, Reason)
    assert (missing.atom, missing.fact) == (Atom("e", "s", "d"), False)
    assert missing.truth == pytest.approx(0.2)  # asked from the place, as a head
    assert (negation.kind, negation.truth, found.truth) == ("not", pytest.approx(0.8), pytest.approx(0.4 * 0.8))
    assert found.used == (asked,)


def test_a_negation_of_what_no_fact_says_is_explained():
    nobody = Query(And((Atom("a", "r", T), Not(Atom(X, "s", "a", fact=True)))), (T,))
    (found,) = Executor(GRAPH.known(["train"]), Fixed()).explain(nobody, [[GRAPH.entities.id("b")]])
    assert isinstance(found.root, Group)
    assert [part.truth for part in found.root.parts] == [1, 1]
    assert found.truth == 1


def test_a_variable_is_for_entities_or_for_relations():
    with pytest.raises(QueryError, match=r"found \?x in both places"):
        Executor(GRAPH.known(["train"]), Fixed()).best(Query(And((Atom("a", X, T), Atom("a", "r", X))), (T,)), 1)


def test_an_answer_is_an_id_of_the_graph():
    with pytest.raises(InputError, match="an entity by its id, below 5, found 9"):
        Executor(GRAPH.known(["train"]), Fixed()).explain(Query(Atom("a", "r", T), (T,)), [[9]])


def test_inner_variables_of_two_branches_are_different_even_under_one_name():
    one = Or((And((Atom("a", "r", X), Atom(X, "s", T))), And((Atom("c", "r", X), Atom(X, "s", T)))))
    other = Or((And((Atom("a", "r", X), Atom(X, "s", T))), And((Atom("c", "r", Y), Atom(Y, "s", T)))))
    assert truths(one) == truths(other)
