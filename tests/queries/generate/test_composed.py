"""Shapes with union, negation and open qualifier values: generated, sampled and answered, against brute force and Oxigraph."""

import contextlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from starqe.kg import SPLITS, Statement, graph_of
from starqe.queries import SHAPES as PAPER
from starqe.queries import QuerySettings, QueryTable, Shape, answer_rows, easy_and_hard, load_table, sample, save_table
from starqe.queries.exact.reduction import reductions
from starqe.queries.generate.sql import SqlEngine
from starqe.queries.layout import query_of_row
from starqe.queries.shape import MORE_SHAPES
from starqe.queries.table import from_arrow, stack
from starqe.queries.text import logic
from starqe.ragged import Ragged
from tests.queries import brute_force, oxigraph
from tests.queries.strategies import graphs, statements

SHAPES = {
    **MORE_SHAPES,
    **{
        name: Shape.parse(name, text)
        for name, text in {
            "value": "A>B{?}",
            "paths": "(A>x x>?) | (B>y y>?)",
            "nested": "A>? !(B>x !C>x x>?)",
            "neither": "A>? !(B>? | C>?)",
            "open-in-negation": "A>? !B>?{x}",
            "values": "A>x x>?{y,z}",
            "cycle": "A>x x>? !?>x",
        }.items()
    },
}
ROWS = 12
"""The number of queries of a table that are answered by every engine."""
small = st.lists(statements, min_size=1, max_size=2)
small_graphs = st.builds(graph_of, st.lists(statements, min_size=2, max_size=4), small, small)


def generated(graph, shape, split, options):
    with contextlib.closing(SqlEngine(graph, threads=1)) as engine:
        tables = [from_arrow("memory", shape, part, {"split": split}) for part in engine.solve(shape, split, options)]
    return stack(tables) if tables else None


def check(graph, shape, options):
    for split in SPLITS:
        table = generated(graph, shape, split, options)
        expected = brute_force.composed(graph, shape, options.counts_for(shape), split, options.hub_threshold)
        rows = range(len(table)) if table is not None else []
        constants = [brute_force.constants_of(table, row) for row in rows]
        found = {brute_force.formula_of(shape, one): table.answers[row].tolist() for row, one in enumerate(constants)}
        assert len(found) == len(constants), "a query stands twice"
        assert found == expected
        if not constants:
            continue
        context = SPLITS[: SPLITS.index(split) + 1]
        store = oxigraph.store_of(graph, context)
        exact = answer_rows(graph.known(context), table)
        for row, one in enumerate(constants[:ROWS]):
            assert exact[row].tolist() == brute_force.answers_of(graph, shape, one, context) == oxigraph.answers(store, table, row)


@pytest.mark.full
@pytest.mark.parametrize("name", SHAPES)
@given(small_graphs)
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_query_of_a_shape_is_found_with_its_answers(name, graph):
    check(graph, SHAPES[name], QuerySettings(qualifiers="0-1", hub_threshold=6))


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("qualifiers", ["0", "1", "0-2"])
@given(graphs())
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_query_of_a_shape_is_found_with_its_answers_on_many_graphs(name, qualifiers, graph):
    check(graph, SHAPES[name], QuerySettings(qualifiers=qualifiers, hub_threshold=None if qualifiers == "1" else 5))


@pytest.mark.parametrize("name", SHAPES)
@given(graphs())
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
def test_sampled_queries_have_the_answers_and_reductions_of_brute_force(name, graph):
    shape = SHAPES[name]
    if name == "cycle":
        return
    table = sample(graph, shape, 12, "test", [(0, 2)] * len(shape.edges), seed=1)
    rows = np.arange(len(table))
    easy, hard = easy_and_hard(graph, table, rows, "test")
    found = reductions(graph, table, rows, table.answers)
    store = oxigraph.store_of(graph, SPLITS)
    for row in rows:
        constants = brute_force.constants_of(table, row)
        every, older = (brute_force.answers_of(graph, shape, constants, splits) for splits in (SPLITS, SPLITS[:2]))
        assert table.answers[row].tolist() == every == oxigraph.answers(store, table, row)
        assert easy[row].tolist() == [answer for answer in older if answer in every]
        assert hard[row].tolist() == [answer for answer in every if answer not in older]
        expected = [brute_force.reduction_of(graph, shape, constants, answer) for answer in every]
        own = slice(table.answers.offsets[row], table.answers.offsets[row + 1])
        assert list(zip(found.count[own].tolist(), found.full[own].tolist(), strict=True)) == expected
    assert shape.tree is None or (hard.counts > 0).all()


# Into m lead a, b, c and (new) d; into n lead b and (new) a. m leads to t, and n to o; e leads to t and (new) to p. m leads to h and i
# by statements with n and o as qualifier values.
Q = (("q", "v"),)
GRAPH = graph_of(
    train=[
        *(Statement(*fact.split(), Q) for fact in ("a r m", "b s m", "c k m", "b s n", "m u t", "n u o", "e z t")),
        Statement("m", "g", "h", (("j", "n"),)),
        Statement("m", "f", "i", (("j", "n"), ("l", "o"))),
    ],
    test=[Statement(*fact.split(), Q) for fact in ("a r n", "d y m", "e z p")],
)

# Anchors, in the order of the shape: the answers with a new edge, for each query that has some.
BY_HAND = {
    # Where two edges meet: in m, n and t. a leads to m and (new) n; what is found along old edges only is not listed.
    "2u": {"a b": ["n"], "a c": ["n"], "a d": ["m n"], "b d": ["m"], "c d": ["m"], "e m": ["p"]},
    # c and d lead to m only, so n is left of a; b leads to both. Of e, t is excluded by m.
    "2in": {"a c": ["n"], "a d": ["n"], "e m": ["p"]},
    "3in": {"a b c": ["n"], "a b d": ["n"]},
    # From m by u, g, f (with j) and f (with l); only u leads on from n.
    "up": {
        "a b": ["o"],
        "a c": ["o"],
        "a d": ["o t", "h", "i", "i"],
        "b d": ["t", "h", "i", "i"],
        "c d": ["t", "h", "i", "i"],
    },
    "inp": {"a c": ["o"], "a d": ["o"]},
    # a leads by m to t, which e excludes, and by n to o; b does, too, but along old edges.
    "pin": {"a e": ["o"]},
    # All four reach t by m; p is left of e.
    "pni": {"e a": ["p"], "e b": ["p"], "e c": ["p"], "e d": ["p"]},
    # A leads to m, B to the value n (or o, from n): one of the two edges is new, from a to n or from d to m.
    "2cp": {"a a": ["h", "i"], "b a": ["h", "i"], "c a": ["h", "i"], "d a": ["h", "i"], "d b": ["h", "i"], "d n": ["i"]},
    "3cp": {"a a n": ["i"], "b a n": ["i"], "c a n": ["i"], "d a n": ["i"], "d b n": ["i"]},
    "4i": {"a b c d": ["m"]},
    "4p": {},
}


@pytest.mark.parametrize("name", BY_HAND)
def test_queries_by_hand(name):
    table, entity = generated(GRAPH, MORE_SHAPES[name], "test", QuerySettings()), GRAPH.entities.identifier
    found = {}
    for row in range(len(table)):
        anchors = [entity(anchor) for anchor in table.anchors[row]]
        if name in ("2u", "up", "4i"):
            anchors.sort()
        elif name == "3in":
            anchors[:2] = sorted(anchors[:2])
        elif name == "3cp":
            anchors[1:] = sorted(anchors[1:])
        found.setdefault(" ".join(anchors), []).append(" ".join(sorted(map(entity, table.answers[row]))))
    assert {key: sorted(answers) for key, answers in found.items()} == {key: sorted(answers) for key, answers in BY_HAND[name].items()}
    assert BY_HAND.keys() == MORE_SHAPES.keys()


def test_reductions_by_hand():
    # Of a or d, o follows by n, and train lacks the edge from a to n; t follows from d along a new edge, but also from a: train has all.
    table = generated(GRAPH, MORE_SHAPES["up"], "test", QuerySettings())
    row = next(row for row in range(len(table)) if len(table.answers[row]) == 2)
    found = reductions(GRAPH, table, np.array([row]), table.answers.take(np.array([row])))
    edge = [GRAPH.entities.identifier(anchor) for anchor in table.anchors[row]].index("a")
    assert found.missing.tolist() == [1 << edge, 0]
    assert found.classes == ["1 missing", "0 missing"]
    negated = generated(GRAPH, MORE_SHAPES["2in"], "test", QuerySettings())
    assert reductions(GRAPH, negated, np.arange(3), negated.answers).classes == ["full inference"] * 3


def test_an_answer_that_new_facts_refute_is_neither_easy_nor_hard():
    graph = graph_of(train=[Statement("a", "r", "m"), Statement("a", "r", "n"), Statement("b", "s", "n")], test=[Statement("b", "s", "m")])
    ids, relations = graph.entities.id, graph.relations.ids(["r", "s"])
    anchors = np.array([[ids("a"), ids("b")]], np.int32)
    table = QueryTable(MORE_SHAPES["2in"], anchors, relations[None], Ragged.empty(2, 2), Ragged.empty(1))
    easy, hard = easy_and_hard(graph, table, None, "test")
    assert (easy[0].tolist(), hard[0].tolist()) == ([], [])
    assert answer_rows(graph.known(["train"]), table)[0].tolist() == [ids("m")]


@pytest.mark.parametrize("name", ["2u", "pni", "2cp"])
def test_a_table_of_these_shapes_is_stored_with_a_newer_version(name, tmp_path):
    table = generated(GRAPH, MORE_SHAPES[name], "test", QuerySettings())
    save_table(table, tmp_path / "t.parquet")
    read = load_table(tmp_path / "t.parquet")
    assert read.shape == MORE_SHAPES[name]
    assert read.value_relations.tolist() == table.value_relations.tolist()
    assert answer_rows(GRAPH.known(SPLITS), read).items.tolist() == answer_rows(GRAPH.known(SPLITS), table).items.tolist()
    assert b'"version": 2' in (tmp_path / "t.parquet").read_bytes()
    save_table(sample(GRAPH, PAPER["2p"], 5, "train", [(0, 1)] * 2), tmp_path / "p.parquet")
    assert b'"version": 1' in (tmp_path / "p.parquet").read_bytes()  # what earlier programs read stays as it was


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("2u", "r{q: v}(a, ?target) ∨ s{q: v}(b, ?target)"),
        ("2in", "r{q: v}(a, ?target) ∧ ¬k{q: v}(c, ?target)"),
        ("pni", "z{q: v}(e, ?target) ∧ ¬∃x . (r{q: v}(a, ?x) ∧ u{q: v}(?x, ?target))"),
        ("2cp", "∃x, y . r{q: v}(a, ?x) ∧ r{q: v}(a, ?y) ∧ f{j: ?y}(?x, ?target)"),
    ],
)
def test_a_row_is_a_formula(name, text):
    table = generated(GRAPH, MORE_SHAPES[name], "test", QuerySettings())
    assert f"?target : {text}" in {logic(query_of_row(table, row, GRAPH)) for row in range(len(table))}
