"""Rows of tables of every named shape: the executor equals trying every assignment, and reads a row as the formula that it is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starqe.queries import ALL_SHAPES, QueryTable
from starqe.queries.layout import query_of_row
from starqe.ragged import Ragged
from starqe.reason import NORMS, Executor, ReasonSettings
from starqe.reason.executor.pattern import questions_of_rows
from starqe.reason.executor.plan import plan_of
from tests.reason.formula_worlds import BruteForce, graphs, predictors

CAP = 0.9


@pytest.mark.parametrize("name", ALL_SHAPES)
@given(st.data())
@settings(max_examples=2, deadline=None)
def test_the_truth_of_a_row_is_that_of_its_formula_over_all_assignments(name, data):
    graph, predictor, norm = data.draw(graphs), data.draw(predictors), data.draw(st.sampled_from(list(NORMS)))
    shape, random = ALL_SHAPES[name], np.random.default_rng(data.draw(st.integers(0, 1000)))
    entities, relations = len(graph.entities), len(graph.relations)
    pairs = np.stack([random.integers(0, relations, 1), random.integers(0, entities, 1)], axis=1).astype(np.int32)
    table = QueryTable(
        shape,
        random.integers(0, entities, (1, len(shape.anchors))).astype(np.int32),
        random.integers(0, relations, (1, len(shape.edges))).astype(np.int32),
        Ragged.of_counts([1] + [0] * (len(shape.edges) - 1), pairs),
        Ragged.empty(1),
        {},
        random.integers(0, relations, (1, len(shape.slots))).astype(np.int32),
    )
    question = questions_of_rows(table, np.array([0]))
    known = graph.known(["train"])
    expected = BruteForce(known, predictor, norm, CAP, question, plan_of(question.pattern).sides()).truths()
    executor = Executor(known, predictor, ReasonSettings(norm=norm, beam=100, cap=CAP, questions=10**6))
    found = executor.truths(table, np.array([0])).values[0].numpy()
    np.testing.assert_allclose(found, [expected[id_,] for id_ in range(entities)], atol=1e-5)
    if shape.plain:
        return

    # As a formula the variables have other names, so an edge may be predicted from its other side: facts are the same.
    class Nothing:
        def probabilities(self, gaps, out):
            return out.zero_()

    by_facts = Executor(known, Nothing(), ReasonSettings(beam=100, cap=CAP, questions=10**6))
    row = by_facts.truths(table, np.array([0])).values
    np.testing.assert_allclose(row, by_facts.query_truths(query_of_row(table, 0, graph)).values, atol=1e-6)
