"""The executor equals trying every assignment, for every norm and every kind of shape."""

from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starqe.kg import Graph
from starqe.queries import SHAPES, QueryTable, Shape, answer
from starqe.queries.layout import query_of_row
from starqe.reason import NORMS, Executor, ReasonSettings
from tests.few_and_many import check_examples, few_and_many
from tests.queries.sparql.test_write import ask_store, store_of
from tests.reason.worlds import CONJUNCTION, Numbers, brute_force, graphs, ids_of, predictors, tables

CASES = {
    **{name: shape.text for name, shape in SHAPES.items()},
    "turned-1p": "?>A",
    "turned-2p": "x>A ?>x",
    "half-turned-3p": "A>x y>x y>?",
    "turned-2i-1p": "x>A B>x ?>x",
    "4i": "A>? B>? C>? ?>D",
    "hanging": "A>? ?>x",
    "hanging-chain": "A>? x>? x>y",
    "hanging-anchored": "A>? ?>x x>B",
    "hanging-on-an-anchor": "A>? A>x x>y",
    "condition": "A>? A>B",
    "tree": "A>x B>y x>z y>z z>?",
    "double": "A>x x>? x>?",
    "double-inside": "A>x x>y y>x y>?",
    "double-on-the-target": "A>? ?>x ?>x",
    "triangle": "A>x x>y y>? x>?",
    "triangle-unanchored": "A>? ?>x x>y y>?",
    "triangle-with-a-path": "A>x x>y y>z z>x x>?",
    "path-into-a-cycle": "A>w w>x x>y x>? y>?",
    "square": "A>x x>y x>z y>? z>?",
    "anchor-in-a-cycle": "A>x x>? ?>y y>A",
    "two-cycles": "A>x x>y x>y y>? y>?",
    "complete": "A>x x>y x>z y>z x>? y>? z>?",
}
"""Every shape that is tried, by name."""
EXAMPLES = 3
"""How many random graphs, predictors and tables each case gets in a quick run, for every norm; the slow run has MANY."""
MANY = 50
cases = pytest.mark.parametrize("text", CASES.values(), ids=CASES)


World = tuple[Graph, Numbers, QueryTable]


def world(data: st.DataObject, text: str) -> World:
    graph = data.draw(graphs())
    return graph, data.draw(predictors(graph)), data.draw(tables(graph, Shape.parse("case", text)))


def check_that_a_beam_of_all_entities_is_exact(world: World, norm: str) -> None:
    graph, one_hop, table = world
    chosen = ReasonSettings(norm=norm, beam=100, cap=0.9, questions=10**6)
    found = Executor(graph.known(["train"]), one_hop, chosen).truths(table, np.arange(len(table)))
    assert found.slack.tolist() == [0] * len(table)
    for row in range(len(table)):
        expected = brute_force(graph.known(["train"]), one_hop, norm, 0.9, table, row)
        np.testing.assert_allclose(found.values[row].numpy(), expected, atol=1e-6)


def check_that_a_narrow_beam_gives_lower_bounds_that_are_exact_above_the_slack(world: World, norm: str, beam: int) -> None:
    graph, one_hop, table = world
    chosen = ReasonSettings(norm=norm, beam=beam, cap=0.9)
    found = Executor(graph.known(["train"]), one_hop, chosen).truths(table, np.arange(len(table)))
    for row, slack in enumerate(found.slack.tolist()):
        values = found.values[row].numpy()
        expected = brute_force(graph.known(["train"]), one_hop, norm, 0.9, table, row)
        assert (values <= expected + 1e-6).all()
        assert (expected <= np.maximum(values, slack) + 1e-6).all()
        np.testing.assert_allclose(values[values > slack + 1e-6], expected[values > slack + 1e-6], atol=1e-6)


def check_against_brute_force(data: st.DataObject, text: str) -> None:
    drawn = world(data, text)
    for norm in NORMS:
        check_that_a_beam_of_all_entities_is_exact(drawn, norm)
        check_that_a_narrow_beam_gives_lower_bounds_that_are_exact_above_the_slack(drawn, norm, data.draw(st.integers(1, 3)))


@cases
@pytest.mark.parametrize("examples", few_and_many(EXAMPLES, MANY))
def test_it_equals_brute_force_with_a_beam_of_all_entities_and_is_bounded_by_it_with_a_narrow_one(text: str, examples: int):
    check_examples(check_against_brute_force, examples, text=text)


@cases
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_an_explanation_adds_up_to_the_value_and_its_facts_are_known(text: str, data: st.DataObject):
    graph, one_hop, table = world(data, text)
    known, norm = graph.known(["train"]), data.draw(st.sampled_from(list(NORMS)))
    executor = Executor(known, one_hop, ReasonSettings(norm=norm, beam=data.draw(st.sampled_from([1, 2, 100])), cap=0.9))
    row, values = 0, executor.truths(table, np.array([0])).values[0].tolist()
    for answer_id, value in enumerate(values):
        found = executor.explain_row(table, row, answer_id)
        assert found.truth == pytest.approx(value, abs=1e-6)
        assert found.truth == pytest.approx(float(reduce(CONJUNCTION[norm], [reason.truth for reason in found.reasons])), abs=1e-6)
        entities = {node: graph.entities.id(entity) for node, entity in found.assignment.items()}
        assert entities["?"] == answer_id
        assert [entities[anchor] for anchor in table.shape.anchors] == table.anchors[row].tolist()
        for reason, (head, tail) in zip(found.reasons, table.shape.edges, strict=True):
            ends, pairs = ids_of(reason.atom, graph)
            assert ends == (entities[head], table.relations[row, reason.edge], entities[tail])
            assert set(pairs) == set(table.pairs_of(row, reason.edge))
            assert reason.fact == known.holds(*ends, pairs)
            assert reason.truth == 1 if reason.fact else reason.truth <= 0.9
            for statement in reason.statements:
                assert (statement.head, statement.relation, statement.tail) == (reason.atom.head, reason.atom.relation, reason.atom.tail)
                assert set(reason.atom.qualifiers) <= set(statement.qualifiers)


@cases
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_a_query_alone_equals_its_row_in_a_batch(text: str, data: st.DataObject):
    graph, one_hop, table = world(data, text)
    executor = Executor(graph.known(["train"]), one_hop, ReasonSettings(norm=data.draw(st.sampled_from(list(NORMS))), beam=2))
    rows = np.array([*range(len(table)), 0])  # one of them twice: its questions are asked once
    together = executor.truths(table, rows)
    for place, row in enumerate(rows):
        alone = executor.truths(table, np.array([row]))
        assert alone.values[0].tolist() == together.values[place].tolist()
        assert alone.slack.tolist() == [float(together.slack[place])]


@cases
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_without_predictions_the_true_answers_are_those_of_oxigraph(text: str, data: st.DataObject):
    graph, one_hop, table = world(data, text)
    one_hop.table[:] = 0
    splits = ("train", "valid", "test")
    known, store = graph.known(splits), store_of(graph, *splits)
    chosen = ReasonSettings(norm=data.draw(st.sampled_from(list(NORMS))), beam=100)
    found = Executor(known, one_hop, chosen).truths(table, np.arange(len(table)))
    for row in range(len(table)):
        query = query_of_row(table, row, graph)
        true = np.flatnonzero(found.values[row].numpy() > 0)
        assert [(graph.entities.identifier(id_),) for id_ in true] == ask_store(store, query)
        assert true.tolist() == answer(known, query).tolist()
        assert set(found.values[row].tolist()) <= {0.0, 1.0}
