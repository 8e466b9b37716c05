import numpy as np
import pytest

from starqe.errors import UnsupportedError
from starqe.queries import SHAPES, Shape, reify
from starqe.reason.executor.pattern import pattern_of_shape
from starqe.reason.executor.plan import plan_of as plan_of_pattern
from starqe.reason.executor.steps import Bind, Check, Close, Given, Pass, Plan
from tests.columns import query_table


def plan_of(shape: Shape) -> Plan:
    return plan_of_pattern(pattern_of_shape(shape))


def steps(text: str) -> list[object]:
    return list(plan_of(Shape.parse("case", text)).steps)


def test_a_path_is_walked_from_the_anchor_to_the_target():
    assert steps("A>x x>y y>?") == [Given(0, "head", "A", "x"), Pass(1, "head", "x", "y"), Pass(2, "head", "y", "?")]
    assert steps("x>A ?>x") == [Given(0, "tail", "A", "x"), Pass(1, "tail", "x", "?")]


def test_a_variable_that_hangs_off_is_predicted_from_its_own_side():
    assert steps("A>? ?>x") == [Given(0, "head", "A", "?"), Pass(1, "tail", "x", "?")]


def test_what_hangs_on_an_anchor_counts_for_the_whole_query():
    assert steps("A>? A>B A>x x>y") == [
        Given(0, "head", "A", "?"),
        Check(1, "A", "B"),
        Given(2, "head", "A", "x"),
        Pass(3, "head", "x", "y"),
        Close("y"),
    ]


def test_a_cycle_is_opened_at_a_variable_with_a_condition():
    assert steps("y>? x>y x>? A>x") == [
        Given(3, "head", "A", "x"),
        Bind("x", 1),
        Given(1, "head", "x", "y"),
        Given(2, "head", "x", "?"),
        Pass(0, "head", "y", "?"),
    ]


def test_a_variable_between_a_cycle_and_the_target_is_not_bound():
    bound = [step.node for step in steps("A>z z>? x>z x>y y>w w>x") if isinstance(step, Bind)]
    assert len(bound) == 1
    assert bound[0] in "xyw"


def test_one_variable_may_open_several_cycles():
    assert [step.node for step in steps("A>? ?>x ?>x x>y x>y") if isinstance(step, Bind)] == ["x"]


@pytest.mark.parametrize("text", ["A>x x>y y>?", "A>x x>y y>? x>?", "A>? ?>x x>y y>?", "A>? A>B x>?"])
def test_every_edge_has_one_given_side(text):
    shape = Shape.parse("case", text)
    sides = plan_of(shape).sides()
    assert sorted(sides) == list(range(len(shape.edges)))
    assert set(sides.values()) <= {"head", "tail"}


def test_questions_are_counted_and_the_beam_is_narrowed_until_they_suffice():
    path, triangle = plan_of(SHAPES["3p"]), plan_of(Shape.parse("triangle", "A>x x>y y>? x>?"))
    assert path.questions(32) == 1 + 32 + 32
    assert triangle.questions(10) == 1 + 10 + 10 + 10 * 10
    assert path.width(32, 65) == 32
    assert path.width(32, 64) == 31
    assert path.width(32, 1) == 1
    assert triangle.width(32, 121) == 10


def test_a_reified_shape_is_refused():
    empty = np.empty(0, np.int32)
    table = query_table(
        SHAPES["1p"],
        np.zeros((1, 1), np.int32),
        np.zeros((1, 1), np.int32),
        np.zeros(2, np.int64),
        empty,
        empty,
        np.zeros(2, np.int64),
        empty,
    )
    with pytest.raises(UnsupportedError, match="Undo the reification"):
        plan_of(reify(table, 3, 2)[0].table.shape)
