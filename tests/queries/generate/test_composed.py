"""Shapes with union, negation and open qualifier values: generated, sampled and answered, against brute force and Oxigraph."""

import contextlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from starqe.kg import SPLITS, graph_of
from starqe.queries import QuerySettings, Shape, answer_rows, easy_and_hard, sample
from starqe.queries.exact.reduction import reductions
from starqe.queries.generate.sql import SqlEngine
from starqe.queries.shape import MORE_SHAPES
from starqe.queries.table import from_arrow, stack
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
