"""Truths that were worked out by hand."""

import numpy as np
import pytest
import torch

from starqe.errors import ConfigError, InputError
from starqe.kg import Statement, graph_of
from starqe.queries import Atom, Query, QueryTable, Shape, Variable
from starqe.queries.layout import table_of_query
from starqe.reason import NORMS, Executor, ReasonSettings
from starqe.reason.executor import messages
from tests.columns import query_table
from tests.reason.worlds import KINDS, Numbers

T, X, Y = map(Variable, "txy")
PAIR = ("q", "e")
# Known: a studied at b (with a pair), b lies in d. The rest is predicted.
GRAPH = graph_of([Statement("a", "r", "b", (PAIR,)), Statement("b", "s", "d"), Statement("c", "s", "c", (PAIR,)), Statement("e", "s", "e")])
KNOWN = GRAPH.known(["train"])
TAILS = {
    ("a", "r"): {"b": 0.3, "c": 0.8, "d": 0.5},
    ("b", "s"): {"d": 0.2, "e": 0.4},
    ("c", "s"): {"d": 0.9, "e": 0.7},
    ("d", "s"): {"a": 0.6},
    ("d", "r"): {"b": 1.0},
}
"""How probable a tail is, by head and relation; all others, and all heads, have probability 0."""


def predictor() -> Numbers:
    entities, relations = len(GRAPH.entities), len(GRAPH.relations)
    table = np.zeros((2, entities, relations, KINDS, entities), np.float32)
    for (head, relation), tails in TAILS.items():
        for tail, probability in tails.items():
            table[0, GRAPH.entities.id(head), GRAPH.relations.id(relation), :, GRAPH.entities.id(tail)] = probability
    return Numbers(table)


def table_of(*atoms: Atom) -> QueryTable:
    return table_of_query(Query.conjunction(atoms, "t"), GRAPH)


def truths(*atoms: Atom, **settings: object) -> tuple[dict[str, float], float]:
    found = Executor(KNOWN, predictor(), ReasonSettings.parse(settings)).truths(table_of(*atoms), np.array([0]))
    values = dict(zip(GRAPH.entities, found.values[0].tolist(), strict=True))
    return {entity: pytest.approx(value) for entity, value in values.items() if value}, pytest.approx(float(found.slack[0]))


PATH = Atom("a", "r", X), Atom(X, "s", T)


def test_a_fact_is_true_and_a_prediction_as_true_as_it_is_probable():
    assert truths(Atom("a", "r", T)) == ({"b": 1, "c": 0.8, "d": 0.5}, 0)


def test_no_prediction_is_as_true_as_a_fact():
    assert truths(Atom("d", "r", T)) == ({"b": 0.999}, 0)
    assert truths(Atom("d", "r", T), cap=0.75) == ({"b": 0.75}, 0)


def test_a_fact_holds_with_fewer_pairs_and_not_with_more():
    assert truths(Atom("a", "r", T, (PAIR,)))[0]["b"] == 1
    assert truths(Atom("a", "r", T, (PAIR, ("q", "d"))))[0]["b"] == pytest.approx(0.3)


# x is b (1, a fact), c (0.8) or d (0.5). So d by the facts through b; e by b with 0.4 or by c with 0.7; a by d with 0.6; c by the
# fact s(c, c).
@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        ("product", {"a": 0.3, "c": 0.8, "d": 1, "e": 0.56}),
        ("goedel", {"a": 0.5, "c": 0.8, "d": 1, "e": 0.7}),
        ("lukasiewicz", {"a": 0.1, "c": 0.8, "d": 1, "e": 0.5}),
    ],
)
def test_a_path_counts_by_its_best_way(norm, expected):
    assert truths(*PATH, norm=norm) == (expected, 0)


# Predicted is from b only. c is followed along its fact all the same. c (0.8) could give a prediction of up to 0.999.
@pytest.mark.parametrize(("norm", "slack"), [("product", 0.7992), ("goedel", 0.8), ("lukasiewicz", 0.799)])
def test_a_beam_leaves_predictions_out_but_no_facts_and_the_slack_says_so(norm, slack):
    assert truths(*PATH, norm=norm, beam=1) == ({"c": 0.8, "d": 1, "e": 0.4}, slack)


@pytest.mark.parametrize(
    ("norm", "expected"),
    [
        ("product", {"d": 0.45, "e": 0.0}),
        ("goedel", {"d": 0.5, "e": 0.0}),
        ("lukasiewicz", {"d": 0.4, "e": 0.0}),
    ],
)
def test_an_intersection_joins_its_edges(norm, expected):
    found, slack = truths(Atom("a", "r", T), Atom("c", "s", T), norm=norm)
    assert (found["d"], found.get("e", 0.0), slack) == (expected["d"], expected["e"], 0)


# From c, x is c (1, a fact), d (0.9) or e (0.7). Only from d something is predicted: b, with the cap of 0.999. So 0.9 · 0.999 = 0.8991 is
# lost when predictions are made from c alone.
def test_the_slack_of_a_condition_on_the_whole_query_reaches_the_result():
    atoms = Atom("c", "s", T), Atom("c", "s", X), Atom(X, "r", Y)
    assert truths(*atoms) == ({"c": 0.8991, "d": pytest.approx(0.9 * 0.8991), "e": pytest.approx(0.7 * 0.8991)}, 0)
    assert truths(*atoms, beam=1) == ({}, 0.8991)


def test_the_slack_of_a_bound_variable_reaches_the_result():
    atoms = Atom("c", "s", X), Atom(X, "r", Y), Atom(Y, "s", T), Atom(Y, "s", T, (PAIR,))
    assert truths(*atoms) == ({"d": pytest.approx(0.8991 * 0.2), "e": pytest.approx(0.8991 * 0.4 * 0.4)}, 0)
    assert truths(*atoms, beam=1) == ({}, 0.8991)


def test_a_variable_that_hangs_off_asks_whether_anything_is_there():
    # Heads are predicted with 0, so ?t has an s only where that is known: b and c of those that a leads to.
    assert truths(Atom("a", "r", T), Atom(T, "s", X)) == ({"b": 1, "c": 0.8}, 0)


def test_a_condition_between_entities_weighs_every_answer():
    assert truths(Atom("a", "r", T), Atom("a", "r", "d")) == ({"b": 0.5, "c": 0.4, "d": 0.25}, 0)
    assert truths(Atom("a", "r", T), Atom("a", "r", "b", (PAIR,))) == ({"b": 1, "c": 0.8, "d": 0.5}, 0)


def test_both_edges_between_two_variables_hold_for_the_same_entity():
    # s{q: e}(x, t) is known for c only (0.8), where t = c; the predictions of s are the same with the pair.
    expected = {"c": 0.8, "d": pytest.approx(0.8 * 0.9 * 0.9), "e": pytest.approx(0.8 * 0.7 * 0.7), "a": pytest.approx(0.5 * 0.6 * 0.6)}
    assert truths(Atom("a", "r", X), Atom(X, "s", T), Atom(X, "s", T, (PAIR,)))[0] == expected


def test_known_answers_of_a_cycle_are_found_outside_of_the_beam():
    # x may be b, c, d or e, all equally true, and one of them is tried; d and e each have a cycle of facts.
    cycles = [Statement(x, relation, t) for x, t in ("df", "eg") for relation in "st"]
    graph = graph_of([Statement("a", "r", x) for x in "bcde"] + cycles)
    nothing = Numbers(np.zeros((2, 7, 3, KINDS, 7), np.float32))
    table = table_of_query(Query.conjunction([Atom("a", "r", X), Atom(X, "s", T), Atom(X, "t", T)], "t"), graph)
    executor, ids = Executor(graph.known(["train"]), nothing, ReasonSettings(beam=1)), graph.entities.id
    found = executor.truths(table, np.array([0]))
    assert found.values[0].nonzero().flatten().tolist() == [ids("f"), ids("g")]
    assert found.slack.tolist() == [1]
    for x, t in ("df", "eg"):
        explanation = executor.explain_row(table, 0, ids(t))
        assert (explanation.truth, explanation.assignment["x"]) == (1, x)


def test_an_explanation_names_the_best_entities_and_the_facts():
    executor, ids = Executor(KNOWN, predictor()), GRAPH.entities.id
    table = table_of(*PATH)
    predicted, known = executor.explain_row(table, 0, ids("e")), executor.explain_row(table, 0, ids("d"))
    assert predicted.assignment == {"A": "a", "x": "c", "?": "e"}
    assert [(reason.truth, reason.fact) for reason in predicted.reasons] == [(pytest.approx(0.8), False), (pytest.approx(0.7), False)]
    assert predicted.truth == pytest.approx(0.56)
    assert known.assignment["x"] == "b"
    assert [list(reason.statements) for reason in known.reasons] == [
        [Statement("a", "r", "b", (PAIR,))],
        [Statement("b", "s", "d")],
    ]
    assert known.truth == 1


def test_of_equally_good_entities_the_one_with_the_lowest_id_is_chosen():
    graph = graph_of([Statement("a", "r", x) for x in "dbc"] + [Statement(x, "s", "e") for x in "cbd"])
    nothing = Numbers(np.zeros((2, 5, 2, KINDS, 5), np.float32))
    table = table_of_query(Query.conjunction(PATH, "t"), graph)
    found = Executor(graph.known(["train"]), nothing).explain_row(table, 0, graph.entities.id("e"))
    assert found.assignment["x"] == "b"


def test_an_answer_is_an_entity():
    with pytest.raises(InputError, match="below 5, found 5"):
        Executor(KNOWN, predictor()).explain_row(table_of(*PATH), 0, 5)


def test_equal_questions_are_asked_once():
    table, one_hop = table_of(*PATH), predictor()
    executor = Executor(KNOWN, one_hop, ReasonSettings(beam=3))
    executor.truths(table, np.array([0]))
    alone = one_hop.asked
    executor.truths(table, np.array([0, 0, 0]))
    assert (alone, one_hop.asked) == (1 + 3, 2 * alone)


def test_a_bound_on_questions_narrows_the_beam_and_marks_the_result():
    wide = Executor(KNOWN, predictor(), ReasonSettings(questions=6)).truths(table_of(*PATH), np.array([0]))
    narrow = Executor(KNOWN, one_hop := predictor(), ReasonSettings(questions=2)).truths(table_of(*PATH), np.array([0]))
    assert (wide.approximate.tolist(), narrow.approximate.tolist()) == ([False], [True])
    assert one_hop.asked == 2
    assert narrow.values[0, GRAPH.entities.id("e")] == pytest.approx(0.4)


def test_work_in_small_parts_gives_the_same(monkeypatch):
    table = table_of(Atom("a", "r", X), Atom(X, "s", Y), Atom(X, "s", T), Atom(Y, "s", T))
    whole = Executor(KNOWN, predictor()).truths(table, np.zeros(3, int))
    monkeypatch.setattr("starqe.reason.executor.executor.CELLS", 2 * len(GRAPH.entities))
    parts = Executor(KNOWN, predictor()).truths(table, np.zeros(3, int))
    assert parts.values.tolist() == whole.values.tolist()
    assert whole.values.any()


@pytest.mark.parametrize("text", ["A>x x>?", "A>x B>x x>?", "A>x x>y y>?"])
def test_all_truths_of_a_question_are_the_same_whatever_is_asked_at_the_same_time(text, monkeypatch):
    """The lower bounds below the best answers as well: they show which candidates were tried."""
    monkeypatch.setattr(messages, "GROUP", 4 * 60)  # four candidates first, as on a large graph
    names, random = [f"e{i}" for i in range(60)], np.random.default_rng(0)
    graph = graph_of([Statement(*(str(random.choice(of)) for of in (names, ["r", "s"], names))) for _ in range(80)])
    entities, shape = len(graph.entities), Shape.parse("case", text)
    probable = random.random((2, entities, 2, KINDS, entities), np.float32) ** 8  # few are probable, as in a real predictor
    executor = Executor(graph.known(["train"]), Numbers(probable), ReasonSettings(beam=32))
    anchors = random.integers(entities, size=(20, len(shape.anchors)))
    pairs, answers = np.zeros(20 * len(shape.edges) + 1), np.zeros(21)
    table = query_table(shape, anchors, random.integers(2, size=(20, len(shape.edges))), pairs, [], [], answers, [])
    together = executor.truths(table, np.arange(20), wanted=3)
    for row in range(20):
        alone = executor.truths(table, np.array([row]), wanted=3)
        assert torch.equal(alone.values[0], together.values[row])
        assert torch.equal(alone.slack[0], together.slack[row])


def test_scores_are_the_truths_and_are_in_the_buffer_given():
    out = torch.full((1, len(GRAPH.entities)), 7.0)
    executor = Executor(KNOWN, predictor())
    assert executor.scores(table_of(*PATH), np.array([0]), out) is out
    assert out.tolist() == executor.truths(table_of(*PATH), np.array([0])).values.tolist()


def test_settings_offer_the_norms_and_no_others():
    assert all(ReasonSettings.parse({"norm": norm}).norm == norm for norm in NORMS)
    for wrong in ({"norm": "sum"}, {"beam": 0}, {"cap": 1.0}, {"questions": 0}):
        with pytest.raises(ConfigError):
            ReasonSettings.parse(wrong)


def test_few_candidates_are_tried_first_on_a_large_graph_and_all_on_a_small_one():
    sizes = (644, 47_155, 10**7)
    assert [messages.tried_first(messages.GROUP, entities) for entities in sizes] == [310, 4, 1]
    assert [messages.tried_first(messages.FIRST, entities) for entities in sizes] == [621, 8, 1]
