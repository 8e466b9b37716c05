"""Proofs from facts: they exist exactly where trying every assignment finds one, and they hold what they say."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starqe.deadline import Deadline
from starqe.errors import DeadlineError
from starqe.kg import Statement, graph_of
from starqe.queries import Atom, Query, Variable
from starqe.queries.formula import And, Not, Or, Same, free_variables
from starqe.reason import Equation, Executor, Group, Reason, ReasonSettings
from starqe.reason.executor.pattern import question_of
from starqe.reason.executor.plan import plan_of
from tests.examples import try_many
from tests.reason.executor.test_formulas import query_of
from tests.reason.formula_worlds import CONSTRUCTS, BruteForce, RandomPredictor, T, X, Y, constructs, graphs, questions
from tests.reason.prizes import PRIZES, Even
from tests.reason.worlds import ids_of

P, Q, V = map(Variable, "pqv")


class Nothing(RandomPredictor):
    """A predictor that holds nothing for possible."""

    def of(self, gaps, place, entities):  # type: ignore[no-untyped-def]
        return np.zeros(entities, np.float32)


def check_proofs(data: st.DataObject) -> list[str]:
    formula, graph, nothing = data.draw(questions()), data.draw(graphs), Nothing(0, 1)
    names = st.sampled_from(sorted(free_variables(formula)))
    query = query_of(formula, *data.draw(st.lists(names, min_size=1, max_size=2, unique=True)))
    known, question = graph.known(["train"]), question_of(query, graph)
    expected = BruteForce(known, nothing, "product", 0.9, question, plan_of(question.pattern).sides()).truths()
    executor = Executor(known, RandomPredictor(1, 3), ReasonSettings(cap=0.9))
    for ids, truth in expected.items():
        found = executor.explain_known(query, ids)
        assert (found is not None) == (truth == 1)
        if found is None:
            continue
        assert all(reason.fact for reason in found.used)
        assert [reason.edge for reason in found.reasons] == list(range(len(query.all_atoms)))
        vocabularies = [graph.relations if f"?{v.name}" in question.pattern.relations else graph.entities for v in query.answers]
        assert [vocabulary.id(found.assignment[v.name]) for vocabulary, v in zip(vocabularies, query.answers, strict=True)] == list(ids)
        check_part(found.root, executor)
    return [*constructs(query.formula), *(["proved"] if 1 in expected.values() else [])]


def check_part(part: Reason | Equation | Group, executor: Executor) -> None:
    """A chosen branch rests on facts, and what a negation denies is no fact."""
    if isinstance(part, Reason):
        ends, pairs = ids_of(part.atom, executor.known.graph)
        assert part.fact == executor.known.holds(*ends, pairs)
    elif isinstance(part, Group):
        assert part.kind == "not" or closed(part)
        for one in (part.parts[part.chosen],) if part.kind == "any" else part.parts if part.kind == "all" else ():
            check_part(one, executor)
        if part.kind == "not":
            assert not closed(part.parts[0])


def closed(part: Reason | Equation | Group) -> bool:
    """Whether a part holds by facts alone."""
    if isinstance(part, Reason):
        return part.fact
    if isinstance(part, Equation):
        return bool(part.truth)
    inner = [closed(one) for one in part.parts]
    return {"all": all(inner), "any": any(inner), "not": not inner[0]}[part.kind]


@pytest.mark.parametrize("turned", [False, True])
def test_a_negation_in_an_option_waits_for_what_an_equation_binds(turned):
    graph = graph_of([Statement("a", "r", "b"), Statement("c", "s", "c")])
    t, x = Variable("t"), Variable("x")
    parts = [Same(x, x), Or((Atom(t, "r", t, fact=True), Not(Atom(x, "r", t, fact=True))))]
    query = query_of(And((Atom("a", "r", t), *(parts[::-1] if turned else parts))), t)
    executor = Executor(graph.known(["train"]), Even())
    found = executor.explain_known(query, [graph.entities.id("b")])
    assert found is not None  # x is b or c, which have no r
    assert found.assignment["x"] in ("b", "c")


@settings(max_examples=40)
@given(data=st.data())
def test_a_proof_exists_where_facts_alone_make_the_formula_true(data: st.DataObject):
    check_proofs(data)


@pytest.mark.slow
def test_a_proof_exists_where_facts_alone_make_the_formula_true_many_times():
    counts = try_many(check_proofs, st.data(), examples=1_000)
    assert min(counts[name] for name in ("proved", *CONSTRUCTS)) >= 30


EXECUTOR = Executor(PRIZES.known(["train"]), Even())


def proof(query: Query, *answer: str):  # type: ignore[no-untyped-def]
    """The proof of an answer by its identifiers; relations are written with a colon before them."""
    ids = [PRIZES.relations.id(name[1:]) if name.startswith(":") else PRIZES.entities.id(name) for name in answer]
    return EXECUTOR.explain_known(query, ids)


def test_a_union_is_proved_by_a_branch_and_shows_the_truth_of_the_others():
    query = Query(Or((Atom(T, "bornIn", "warsaw"), Atom(T, "award", "davy"))), (T,))
    found = proof(query, "meitner")
    assert [(type(part).__name__, part.truth) for part in found.root.parts] == [("Reason", 1), ("Reason", 0.25)]
    assert (found.root.kind, found.root.chosen, found.truth) == ("any", 0, 1)
    assert [reason.atom for reason in found.used] == [Atom("meitner", "award", "davy")]
    assert [part.truth for part in proof(query, "curie").root.parts] == [1, 1]
    assert proof(query, "nobel") is None


def test_a_negation_relies_on_the_missing_statement_that_is_most_probable():
    query = Query(And((Atom(T, "award", "davy"), Not(And((Atom(T, "award", X), Atom(X, "bornIn", "vienna")))))), (T,))
    found = proof(query, "meitner")
    award, negation = found.root.parts
    assert (award.fact, negation.kind, negation.truth) == (True, "not", 0.75)
    inside = negation.parts[0].parts
    # Two come equally near to breaking it: one award is a fact, one birth is; the other statement is missing.
    assert [(reason.atom, reason.fact, reason.truth) for reason in inside] == [
        (Atom("meitner", "award", "meitner"), False, 0.25),
        (Atom("meitner", "bornIn", "vienna"), True, 1),
    ]
    assert found.assignment == {"t": "meitner"}
    assert found.truth == 0.75


def test_a_branch_of_facts_explains_a_known_answer_even_where_another_seems_truer():
    # The proof of the first branch needs that something is missing (0.75 · 0.75); the second is predicted by 1 - 0.75⁴.
    missing = Not(Or((Atom(T, "award", "nobel"), Atom(T, "bornIn", "warsaw"))))
    guessed = Or((Atom(T, "award", "1911"), Atom(T, "award", "1903"), Atom(T, "award", "chemistry"), Atom(T, "award", "physics")))
    either = Or((And((Atom(T, "bornIn", "vienna"), missing)), And((guessed, Same(T, "meitner")))))
    found = proof(Query(either, (T,)), "meitner")
    assert [part.truth for part in found.root.parts] == [pytest.approx(0.75**2), pytest.approx(1 - 0.75**4)]
    assert found.root.chosen == 0
    assert all(reason.fact for reason in found.used)


def test_variables_are_relations_qualifier_values_and_qualifier_relations():
    when = Query(Atom("curie", "award", "nobel", (("when", T),)), (T,))
    assert proof(when, "1903").used[0].statements[0].qualifiers == (("field", "physics"), ("when", "1903"))
    both = Query(Atom("curie", "award", "nobel", (("when", T), ("field", X))), (T, X))
    assert proof(both, "1903", "physics") is not None
    assert proof(both, "1903", "chemistry") is None  # two statements are two
    about = Query(Atom("curie", P, T), (P, T))
    assert proof(about, ":bornIn", "warsaw").assignment == {"p": "bornIn", "t": "warsaw"}
    pair = Query(Atom("curie", "award", "nobel", ((Q, "physics"),)), (Q,))
    assert proof(pair, ":field").used[0].atom.qualifiers == (("field", "physics"),)
    assert proof(pair, ":when") is None


def test_an_equation_is_part_of_a_proof():
    query = Query(And((Atom(X, "award", "davy"), Atom(Y, "award", "davy"), Not(Same(X, Y)))), (X, Y))
    found = proof(query, "curie", "meitner")
    negation = found.root.parts[-1]
    assert (negation.kind, negation.truth, negation.parts) == ("not", 1, (Equation(Same("curie", "meitner")),))
    assert proof(query, "curie", "curie") is None


def test_an_answer_may_leave_variables_open():
    query = Query(Or((Atom("curie", "award", X), Atom("curie", "bornIn", T))), (X, T))
    found = EXECUTOR.explain_known(query, [None, PRIZES.entities.id("warsaw")])
    assert found is not None
    assert found.assignment["t"] == "warsaw"


def test_a_search_stops_at_its_deadline():
    people = [Statement(f"a{i}", "knows", f"a{j}") for i, j in product(range(12), repeat=2) if i != j]
    clique = [Atom(Variable(f"x{i}"), "knows", Variable(f"x{j}")) for i, j in product(range(14), repeat=2) if i < j]
    graph = graph_of(people)
    query = Query(And((Atom("a0", "knows", Variable("x0")), *clique)), (Variable("x0"),))
    with pytest.raises(DeadlineError):
        Executor(graph.known(["train"]), Even()).explain_known(query, [graph.entities.id("a1")], Deadline(0.2))
