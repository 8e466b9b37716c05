import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from starqe.deadline import NEVER, Deadline
from starqe.errors import StorageError
from starqe.kg import Graph, Statement, graph_of
from starqe.learn.training_queries import Part
from starqe.measure import retrieval
from starqe.measure.exact_search import Nearest, Scored, exact_scores
from starqe.measure.retrieval import dense_blocks, retrieve
from starqe.queries import MORE_SHAPES, SHAPES, Atom, Query, QueryTable, Shape, Variable
from starqe.queries.layout import table_of_query
from starqe.reason import Result
from starqe.reason.fitting import WEIGHTS, fit_weights
from starqe.reason.listed import Listed, Rows
from starqe.reason.logistic import Logistic
from starqe.reason.mixture import CLASSES, ENCODER, EXECUTOR, Mixture, Weights, mixed, shape_class
from starqe.reason.probability import FEATURES, answer_features, probabilities


def dense_rows(found: Result) -> Rows:
    return Rows([Listed(row) for row in found.values], found.slack)


def nearest_of(scores: torch.Tensor, count: int, without: Sequence[np.ndarray] | None = None) -> Nearest:
    """The best entities by whole rows of scores, and the scores of any others."""
    best = retrieve(dense_blocks(scores.clone()), len(scores), count, without)
    return Nearest(best, lambda rows, ids: scores[torch.from_numpy(rows)][:, torch.from_numpy(ids)])


class Fixed:
    """Scores every query alike."""

    def __init__(self, *values: float) -> None:
        self.values = torch.tensor(values)

    def scores(self, table: QueryTable, rows: np.ndarray, out: torch.Tensor, deadline: Deadline = NEVER) -> torch.Tensor:
        return out.copy_(self.values.expand(len(rows), -1))

    def scores_of(self, parts: Sequence[Part], out: torch.Tensor) -> torch.Tensor:
        return out.copy_(self.values.expand(sum(len(rows) for _, rows in parts), -1))

    def all_entities(self, parts: Sequence[Part]) -> Scored:
        return exact_scores(self.scores_of(parts, torch.empty(sum(len(rows) for _, rows in parts), len(self.values))))

    @property
    def entities(self) -> int:
        return len(self.values)

    def rows_of(self, parts: Sequence[Part], deadline: Deadline = NEVER, wanted: int | None = None, listed: int = 0) -> Rows:
        return dense_rows(self.truths_of(parts))

    def truths_of(self, parts: Sequence[Part], out: torch.Tensor | None = None, deadline: Deadline = NEVER) -> Result:
        count = sum(len(rows) for _, rows in parts)
        out = torch.empty(count, len(self.values)) if out is None else out
        return Result(self.scores_of(parts, out), torch.zeros(count))


@pytest.fixture
def graph() -> Graph:
    # Entities in the order of their ids: a, b, c, d.
    return graph_of(train=[Statement("a", "r", "b"), Statement("c", "r", "d")], valid=[Statement("a", "r", "c")])


@pytest.fixture
def table(graph: Graph) -> QueryTable:
    return table_of_query(Query.conjunction([Atom("a", "r", Variable("x"))], "x"), graph)


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        *((SHAPES[name].text, kind) for name, kind in (("1p", "one-hop"), ("2p", "path"), ("3p", "path"), ("2i", "intersection"))),
        *((SHAPES[name].text, kind) for name, kind in (("3i", "larger intersection"), ("2i-1p", "mixed"), ("1p-2i", "joined paths"))),
        ("?>A", "one-hop"),
        ("A>x ?>x", "path"),
        ("?>A B>?", "intersection"),
        ("?>A B>? C>? ?>D", "larger intersection"),
        ("A>x x>y y>? x>?", "mixed"),
        ("A>? ?>x", "mixed"),
        ("A>? ?>x x>B", "joined paths"),
        ("A>x x>y y>? B>? C>?", "joined paths"),
        ("A>x x>? B>? ?>z", "mixed"),
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
    assert weights.of(SHAPES["1p-2i"]) == 0.7
    later = Weights.read({**old, "union": 0.8, "negation": 0.9, "open value": 1.0}, "run")
    assert [later.of(shape) for shape in (SHAPES["1p-2i"], MORE_SHAPES["2u"])] == [0.7, 0.8]
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
    twice = table_of_query(Query.conjunction([Atom("a", "r", Variable("y")), Atom(Variable("y"), "r", Variable("x"))], "x"), graph)
    both = table_of_query(Query.conjunction([Atom("a", "r", Variable("x")), Atom("c", "r", Variable("x"))], "x"), graph)
    weights = Weights({**dict.fromkeys(CLASSES, 0.0), "path": 0.25, "intersection": 1.0})
    mixture = Mixture(Fixed(*np.log([1.0, 2, 4, 1])), Fixed(0.1, 0.5, 0.25, 1.0), weights)
    parts = [(part, np.array([0])) for part in (table, twice, both)]
    best = mixture.best(parts, 4)
    together = torch.empty(3, 4).scatter_(1, torch.from_numpy(best.ids), best.scores)
    assert together[:, 1].tolist() == pytest.approx([np.log(0.25), 0.75 * np.log(0.25) + 0.25 * np.log(0.5), np.log(0.5)])
    for place, (part, rows) in enumerate(parts):
        alone = mixture.scores(part, rows, torch.empty(1, 4))[0]
        torch.testing.assert_close(together[place], alone)
        scores = torch.log(torch.tensor([[1.0, 2, 4, 1]])), torch.tensor([[0.1, 0.5, 0.25, 1.0]])
        torch.testing.assert_close(mixed(*scores, weights.of(part.shape))[0], alone)


GRAPH = graph_of([Statement(f"e{i}", "r", f"e{(7 * i + 3) % 50}") for i in range(50)])
X, Y = Variable("x"), Variable("y")
TABLES = [
    table_of_query(Query.conjunction(atoms, "x"), GRAPH)
    for atoms in ([Atom("e0", "r", X)], [Atom("e0", "r", Y), Atom(Y, "r", X)], [Atom("e0", "r", X), Atom("e1", "r", X)])
]
"""A one-hop query, a path and an intersection."""


class Models:
    """An encoder and an executor with random numbers: scores, truths (some of them 0) and slacks, one row per query."""

    def __init__(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        self._scores = draw.normal(0, 4, (3, 50)).astype(np.float32)
        self.truths = (draw.random((3, 50)) ** 4 * (draw.random((3, 50)) < 0.8)).astype(np.float32)
        self.slack = (draw.uniform(0.001, 0.5, 3) * (draw.random(3) < 0.7)).astype(np.float32)

    def _of(self, parts: Sequence[Part], values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.stack([values[TABLES.index(table)] for table, rows in parts for _ in rows]))

    def scores_of(self, parts: Sequence[Part], out: torch.Tensor) -> torch.Tensor:
        return out.copy_(self._of(parts, self._scores))

    def all_entities(self, parts: Sequence[Part]) -> Scored:
        return exact_scores(self._of(parts, self._scores))

    @property
    def entities(self) -> int:
        return 50

    def nearest(self, parts: Sequence[Part], count: int, without: Sequence[np.ndarray] | None = None) -> Nearest:
        return nearest_of(self._of(parts, self._scores), count, without)

    def rows_of(self, parts: Sequence[Part], deadline: Deadline = NEVER, wanted: int | None = None, listed: int = 0) -> Rows:
        return dense_rows(self.truths_of(parts))

    def truths_of(self, parts: Sequence[Part], out: torch.Tensor | None = None, deadline: Deadline = NEVER) -> Result:
        truths = self._of(parts, self.truths)
        return Result(truths if out is None else out.copy_(truths), self._of(parts, self.slack))


def mixture_of(models: Models, weights: list[float], known: list[set[int]]) -> tuple[Mixture, list[Part], list[np.ndarray], torch.Tensor]:
    """Returns a mixture with these weights for `TABLES`, the queries, the entities to leave out of each, and the dense scores."""
    of_class = dict(zip(("one-hop", "path", "intersection"), weights, strict=True))
    mixture = Mixture(models, models, Weights({**dict.fromkeys(CLASSES, 0.5), **of_class}))
    parts = [(table, np.array([0])) for table in TABLES]
    rows = torch.cat([mixture.scores(*part, torch.empty(1, 50)) for part in parts])
    return mixture, parts, [np.array(sorted(ids), np.int64) for ids in known], rows


MIXED = {
    "seed": st.integers(0, 2**32),
    "weights": st.lists(st.sampled_from(WEIGHTS), min_size=3, max_size=3),
    "known": st.lists(st.sets(st.integers(0, 49), max_size=49), min_size=3, max_size=3),
}


@given(**MIXED, count=st.integers(1, 50), block=st.integers(3, 60))
def test_the_best_of_the_mixture_are_those_of_its_dense_scores(
    seed: int, weights: list[float], known: list[set[int]], count: int, block: int
) -> None:
    """Ids, scores and probabilities are those of whole rows, and what may be truer than it seems stays under the ceiling."""
    models = Models(seed)
    mixture, parts, without, rows = mixture_of(models, weights, known)
    expected = retrieve(dense_blocks(rows.clone()), 3, count, without)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retrieval, "BLOCK", block)
        found = mixture.best(parts, count, without)
    torch.testing.assert_close(found.scores, expected.scores, atol=1e-5, rtol=1e-6)
    torch.testing.assert_close(
        rows.gather(1, torch.from_numpy(found.ids)), rows.gather(1, torch.from_numpy(expected.ids)), atol=1e-5, rtol=1e-6
    )
    fitted = Logistic((0.17, 1.24, -0.08, 0.17, *[0.1] * (len(FEATURES) - 4)), 2.08)
    chances = [
        probabilities(fitted, answer_features([table.shape for table in TABLES], best, [len(ids) for ids in known]))
        for best in (found, expected)
    ]
    np.testing.assert_allclose(chances[0], chances[1], atol=1e-6)
    for row, weight in enumerate(weights):
        # As true as the slack allows, an entity has at most the ceiling.
        low = models.truths[row] < models.slack[row]
        most = rows[row].numpy() + weight * (np.log(max(models.slack[row], 1e-12)) - np.log(np.maximum(models.truths[row], 1e-12)))
        highest = most[low].max(initial=-np.inf) if weight else -np.inf
        assert found.ceiling[row].item() == pytest.approx(highest, abs=1e-4)


@given(**MIXED, listed=st.integers(1, 50), ranked=st.integers(1, 50))
def test_the_best_of_listed_truths_are_those_of_dense_ones_or_bounded(
    seed: int, weights: list[float], known: list[set[int]], listed: int, ranked: int
) -> None:
    """What is no candidate, or truer than it seems, has at most the ceiling; with all entities listed, all is as with whole rows."""
    models, count, shown = Models(seed), 5, listed

    class OfFew(Models):
        def rows_of(self, parts: Sequence[Part], deadline: Deadline = NEVER, wanted: int | None = None, listed: int = 0) -> Rows:
            found = self.truths_of(parts)
            rows = [Listed(row, np.arange(50), 0.0, None).kept(shown) for row in found.values]
            return Rows(rows, found.slack)

    mixture, parts, without, rows = mixture_of(models, weights, known)
    expected = mixture.best(parts, count, without)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("starqe.reason.mixture.CANDIDATES", ranked)
        patch.setattr("starqe.reason.mixture.DENSE", 0)
        found = Mixture(few := OfFew(seed), few, mixture.weights).best(parts, count, without)
    torch.testing.assert_close(  # the sample has all 50 entities, so that the normaliser is exact
        found.log_normaliser, expected.log_normaliser, atol=1e-4, rtol=1e-5
    )
    for row, weight in enumerate(weights):
        there = found.scores[row].isfinite()
        ids = found.ids[row][there.numpy()]
        torch.testing.assert_close(found.scores[row][there], rows[row][torch.from_numpy(ids)], atol=1e-4, rtol=1e-5)
        low = models.truths[row] < models.slack[row]
        raised = weight * (np.log(max(models.slack[row], 1e-12)) - np.log(np.maximum(models.truths[row], 1e-12)))
        most = rows[row].numpy() + np.where(low, raised, 0)
        others = np.setdiff1d(np.arange(50), np.concatenate([ids, without[row]]))
        last = float(found.scores[row][there][-1]) if len(ids) == count else -np.inf
        assert most[others].max(initial=-np.inf) <= max(float(found.ceiling[row]), last) + 1e-4
        if listed == 50:
            torch.testing.assert_close(found.scores[row], expected.scores[row], atol=1e-4, rtol=1e-5)


@given(**MIXED)
def test_rounded_numbers_give_the_same_best_entities(seed: int, weights: list[float], known: list[set[int]]) -> None:
    """Scores and truths are off by up to 2 %; exact ones are computed for the best and some more."""
    models, noise = Models(seed), np.random.default_rng(seed)

    def off(numbers: torch.Tensor) -> torch.Tensor:
        return numbers * torch.from_numpy(noise.uniform(0.98, 1.02, numbers.shape).astype(np.float32))

    class Rough(Models):
        def all_entities(self, parts: Sequence[Part]) -> Scored:
            exact = super().all_entities(parts)
            return replace(exact, scores=off(exact.scores), rounded=True).with_exact_best(40)

        def rows_of(self, parts: Sequence[Part], deadline: Deadline = NEVER, wanted: int | None = None, listed: int = 0) -> Rows:
            found = self.truths_of(parts)
            rows = [Listed(off(row), source=lambda ids, row=row: row[torch.from_numpy(ids)]) for row in found.values]
            return Rows(rows, found.slack)

    mixture, parts, without, _ = mixture_of(models, weights, known)
    expected = mixture.best(parts, 5, without)
    found = Mixture(rough := Rough(seed), rough, mixture.weights).best(parts, 5, without)
    torch.testing.assert_close(found.scores, expected.scores, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(found.log_normaliser, expected.log_normaliser, atol=1e-3, rtol=1e-4)
    there = expected.scores.isfinite().numpy()
    assert (found.ids[there] == expected.ids[there]).all()


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
    hanging = table_of_query(Query.conjunction([Atom("a", "r", Variable("x")), Atom(Variable("y"), "r", Variable("x"))], "x"), graph)
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

        def scores_of(self, parts: Sequence[Part], out: torch.Tensor) -> torch.Tensor:
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
