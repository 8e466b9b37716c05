import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from starqe.deadline import NEVER, Deadline
from starqe.errors import StorageError
from starqe.kg import Graph, Statement, graph_of
from starqe.queries import MORE_SHAPES, SHAPES, Atom, Query, QueryTable, Shape, Variable
from starqe.reason.calibration import WEIGHTS, fit_weights
from starqe.reason.mixture import CLASSES, ENCODER, EXECUTOR, Mixture, Weights, mixed, shape_class


class Fixed:
    """Scores every query alike."""

    def __init__(self, *values: float) -> None:
        self.values = torch.tensor(values)

    def scores(self, table: QueryTable, rows: np.ndarray, out: torch.Tensor, deadline: Deadline = NEVER) -> torch.Tensor:
        return out.copy_(self.values.expand(len(rows), -1))

    def scores_of(self, parts: Sequence[tuple[QueryTable, np.ndarray]], out: torch.Tensor, deadline: Deadline = NEVER) -> torch.Tensor:
        return out.copy_(self.values.expand(sum(len(rows) for _, rows in parts), -1))


@pytest.fixture
def graph() -> Graph:
    # Entities in the order of their ids: a, b, c, d.
    return graph_of(train=[Statement("a", "r", "b"), Statement("c", "r", "d")], valid=[Statement("a", "r", "c")])


@pytest.fixture
def table(graph: Graph) -> QueryTable:
    return Query.conjunction([Atom("a", "r", Variable("x"))], "x").to_table(graph)


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        *((SHAPES[name].text, kind) for name, kind in (("1p", "one-hop"), ("2p", "path"), ("3p", "path"), ("2i", "intersection"))),
        *((SHAPES[name].text, kind) for name, kind in (("3i", "larger intersection"), ("2i-1p", "mixed"), ("1p-2i", "mixed"))),
        ("?>A", "one-hop"),
        ("A>x ?>x", "path"),
        ("?>A B>?", "intersection"),
        ("?>A B>? C>? ?>D", "larger intersection"),
        ("A>x x>y y>? x>?", "mixed"),
        ("A>? ?>x", "mixed"),
        *((MORE_SHAPES[name].text, "union") for name in ("2u", "up")),
        *((MORE_SHAPES[name].text, "negation") for name in ("2in", "3in", "inp", "pin", "pni")),
        *((MORE_SHAPES[name].text, "open value") for name in ("2cp", "3cp")),
        ("(A>? | B>?) !C>?", "negation"),
    ],
)
def test_every_shape_has_a_class_whatever_the_directions(edges: str, expected: str) -> None:
    assert shape_class(Shape.parse("s", edges)) == expected


def test_weights_of_earlier_versions_count_later_classes_as_mixed() -> None:
    old = {"one-hop": 0.1, "path": 0.2, "intersection": 0.3, "larger intersection": 0.4, "mixed": 0.7}
    weights = Weights.read(old, "run")
    assert weights.of(SHAPES["2p"]) == 0.2
    assert [weights.of(MORE_SHAPES[name]) for name in ("2u", "pni", "2cp")] == [0.7] * 3


def test_weights_of_other_classes_are_refused() -> None:
    assert Weights.read(dict.fromkeys(CLASSES, 0.5), "run").of(SHAPES["3i"]) == 0.5
    with pytest.raises(
        StorageError, match=r"^run was calibrated for shapes of the classes path, odd; they are one-hop, .*\. Calibrate it again$"
    ):
        Weights.read({"path": 0.5, "odd": 0.5}, "run")


def test_the_mixture_adds_the_logarithms_by_their_weights(table: QueryTable) -> None:
    # The softmax of log(1, 2, 4, 1) is (1, 2, 4, 1) / 8. With a weight of a quarter for the executor, the second entity gets
    # 0.75 ln(2 / 8) + 0.25 ln(0.5) = -1.03972 - 0.17329.
    encoder, executor = Fixed(*np.log([1.0, 2, 4, 1])), Fixed(0.1, 0.5, 0.0, 1.0)
    scores = Mixture(encoder, executor, Weights(dict.fromkeys(CLASSES, 0.25))).scores(table, np.array([0, 0]), torch.empty(2, 4))
    assert scores[:, 1].tolist() == pytest.approx([-1.21301] * 2, abs=1e-5)
    assert scores[0, 2].item() == pytest.approx(0.75 * np.log(0.5) + 0.25 * np.log(1e-12), abs=1e-4)  # a truth of 0 stays finite


def test_queries_of_several_classes_are_weighted_each_by_its_own(graph: Graph, table: QueryTable) -> None:
    twice = Query.conjunction([Atom("a", "r", Variable("y")), Atom(Variable("y"), "r", Variable("x"))], "x").to_table(graph)
    both = Query.conjunction([Atom("a", "r", Variable("x")), Atom("c", "r", Variable("x"))], "x").to_table(graph)
    weights = Weights({**dict.fromkeys(CLASSES, 0.0), "path": 0.25, "intersection": 1.0})
    mixture = Mixture(Fixed(*np.log([1.0, 2, 4, 1])), Fixed(0.1, 0.5, 0.25, 1.0), weights)
    parts = [(part, np.array([0])) for part in (table, twice, both)]
    together = mixture.scores_of(parts, torch.empty(3, 4))
    assert together[:, 1].tolist() == pytest.approx([np.log(0.25), 0.75 * np.log(0.25) + 0.25 * np.log(0.5), np.log(0.5)])
    for place, (part, rows) in enumerate(parts):
        alone = mixture.scores(part, rows, torch.empty(1, 4))[0]
        assert torch.equal(together[place], alone)
        scores = torch.log(torch.tensor([[1.0, 2, 4, 1]])), torch.tensor([[0.1, 0.5, 0.25, 1.0]])
        torch.testing.assert_close(mixed(*scores, weights.of(part.shape))[0], alone)


def test_each_of_the_two_can_be_switched_off(table: QueryTable) -> None:
    encoder, executor = Fixed(*np.log([1.0, 2, 4, 1])), Fixed(0.1, 0.5, 0.25, 1.0)
    row, out = np.array([0]), torch.empty(1, 4)
    assert Mixture(encoder, executor, ENCODER).scores(table, row, out)[0].exp().tolist() == pytest.approx([0.125, 0.25, 0.5, 0.125])
    assert Mixture(encoder, executor, EXECUTOR).scores(table, row, out)[0].exp().tolist() == pytest.approx([0.1, 0.5, 0.25, 1.0])


def _validation(graph: Graph, table: QueryTable) -> dict[str, QueryTable]:
    header = {"split": "valid", "fingerprint": graph.fingerprint}
    return {"1p": QueryTable(**{**vars(table), "header": header})}


def test_the_weights_are_those_with_the_best_rank_of_hard_answers(graph: Graph, table: QueryTable) -> None:
    # The hard answer of a -r-> ? is c; b is easy and filtered. a and d are its rivals. With the weight w, the right executor puts c before
    # a if w (ln 0.9 - ln 0.2) > 2 (1 - w): first with 0.6. Beside the wrong one the encoder needs no help: the first of the best is 0.
    right, wrong = Fixed(0.2, 0.0, 0.9, 0.1), Fixed(0.9, 0.0, 0.2, 0.8)
    assert fit_weights(graph, Fixed(3.0, 0, 1, 2), right, _validation(graph, table)).executor["one-hop"] == 0.6
    assert fit_weights(graph, Fixed(0.0, 0, 9, 0), wrong, _validation(graph, table)).executor["one-hop"] == 0.0


def test_a_class_without_validation_queries_gets_half(graph: Graph, table: QueryTable) -> None:
    fitted = fit_weights(graph, Fixed(0.0, 0, 9, 0), Fixed(0.9, 0.0, 0.2, 0.8), _validation(graph, table))
    assert {fitted.executor[name] for name in CLASSES[1:]} == {0.5}
    assert fitted.executor["one-hop"] in WEIGHTS


def test_a_class_without_validation_queries_gets_the_weight_of_the_mixed_one_where_that_has_some(graph: Graph) -> None:
    # a -r-> ?x, and someone -r-> ?x: a variable that hangs off makes the shape mixed. The executor finds the hard answer c.
    hanging = Query.conjunction([Atom("a", "r", Variable("x")), Atom(Variable("y"), "r", Variable("x"))], "x").to_table(graph)
    assert shape_class(hanging.shape) == "mixed"
    found = fit_weights(graph, Fixed(0.0, 0, 0, 9), Fixed(0.1, 0.0, 0.9, 0.2), {"mixed": _validation(graph, hanging)["1p"]})
    assert set(found.executor.values()) == {found.executor["mixed"]}
    assert found.executor["mixed"] > 0.5


def test_two_threads_may_ask_at_once(table: QueryTable) -> None:
    """Both have written what the encoder says before either goes on: with one buffer for both, one would read the other's."""
    barrier = threading.Barrier(2)

    class OneAnswer:
        def scores(self, table: QueryTable, rows: np.ndarray, out: torch.Tensor) -> torch.Tensor:
            out.copy_(torch.nn.functional.one_hot(torch.from_numpy(rows), 4) * 9.0)
            barrier.wait(timeout=10)
            return out

        def scores_of(self, parts: Sequence[tuple[QueryTable, np.ndarray]], out: torch.Tensor) -> torch.Tensor:
            return self.scores(*parts[0], out)

    mixture = Mixture(OneAnswer(), Fixed(0.5, 0.5, 0.5, 0.5), Weights(dict.fromkeys(CLASSES, 0.5)))
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda row: mixture.scores(table, np.array([row]), torch.empty(1, 4)).argmax().item(), (1, 2))
        assert list(found) == [1, 2]


def test_a_batch_that_grows_is_scored_like_its_rows(table: QueryTable) -> None:
    encoder, executor = Fixed(*np.log([1.0, 2, 4, 1])), Fixed(0.1, 0.5, 0.25, 1.0)
    mixture = Mixture(encoder, executor, Weights(dict.fromkeys(CLASSES, 0.5)))
    one = mixture.scores(table, np.array([0]), torch.empty(1, 4)).clone()
    three = mixture.scores(table, np.array([0, 0, 0]), torch.empty(3, 4)).clone()
    again = mixture.scores(table, np.array([0]), torch.empty(1, 4))
    assert torch.equal(three, one.expand(3, -1))
    assert torch.equal(again, one)
