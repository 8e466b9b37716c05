from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from starqe.errors import QueryError
from starqe.kg import Graph, Statement, graph_of
from starqe.measure.exact_search import Nearest, Scored, exact_scores
from starqe.measure.retrieval import dense_blocks, retrieve
from starqe.queries import SHAPES, Atom, Query, Variable
from starqe.queries.exact.entailed import Entailed
from starqe.queries.gaps import MISSING, Gaps, gaps_of, stack_gaps
from starqe.queries.layout import table_of_query
from starqe.queries.shape import INVERSE
from starqe.ragged import Ragged
from starqe.reason.fitting import fit_one_hop
from starqe.reason.logistic import Logistic
from starqe.reason.predictor.one_hop import FEATURES, OneHopProbability, log_share, usual_answers

X = Variable("x")


class Share:
    """Believes the same of every question: one share for each entity."""

    def __init__(self, shares: list[float]) -> None:
        self.logs = torch.tensor(shares).log()

    def entity_scores(self, gaps: Gaps, out: torch.Tensor) -> torch.Tensor:
        return out.copy_(self.logs.expand(len(gaps), -1))


def _gaps(graph: Graph, atom: Atom) -> Gaps:
    return gaps_of(table_of_query(Query.conjunction([atom], "x"), graph, shapes={"1p": SHAPES["1p"], INVERSE.name: INVERSE}), [0])


@pytest.fixture
def graph() -> Graph:
    # Ids: a 0, b 1, c 2, d 3. Of r: a has two tails, d has one: 1.5 a head; b has two heads, c has one: 1.5 a tail.
    return graph_of(train=[Statement("a", "r", "b"), Statement("a", "r", "c"), Statement("d", "r", "b")], valid=[Statement("d", "r", "c")])


def test_usual_answers_are_the_mean_number_by_relation_and_side(graph: Graph) -> None:
    more = graph_of(train=[Statement("a", "r", "b"), Statement("a", "r", "c"), Statement("a", "s", "b")])
    assert np.exp(usual_answers(more.known(["train"]), "head")).tolist() == pytest.approx([2, 1])
    assert np.exp(usual_answers(more.known(["train"]), "tail")).tolist() == pytest.approx([1, 1])
    assert np.exp(usual_answers(graph.known(["train"]), "head")).tolist() == pytest.approx([1.5])


def test_a_probability_is_calibrated_from_the_belief_beside_the_known_answers(graph: Graph) -> None:
    # a -r-> ? has the known answers b and c, which hold 0.7 of the belief: of the 0.3 that is left, d has a third.
    # Its logit is 2 ln(1/3) + 1 ln(1 + 2) + 0.5 ln 1.5 + 0.1 ln 3 ln 1.5 - 0.4 = -2.19722 + 1.09861 + 0.20273 + 0.04454 - 0.4
    calibrated = OneHopProbability(Share([0.2, 0.3, 0.4, 0.1]), graph.known(["train"]), Logistic((2.0, 1.0, 0.5, 0.1), -0.4))
    found = calibrated.probabilities(_gaps(graph, Atom("a", "r", X)), torch.empty(1, 4))
    assert found[0, 3].item() == pytest.approx(1 / (1 + np.exp(1.25134)), abs=1e-5)


def test_a_relation_is_predicted_only_where_known_statements_have_it() -> None:
    graph = graph_of(train=[Statement("a", "r", "b", (("q", "c"),))], valid=[Statement("a", "s", "b")])
    calibrated = OneHopProbability(Share([0.2, 0.3, 0.5]), graph.known(["train"]), Logistic((1.0, 0.0, 0.0, 0.0), 0.0))
    q, r, s = map(graph.relations.id, "qrs")

    def found(relation: int, *pairs: tuple[int, int], tail: int = MISSING) -> bool:
        flat = np.array(pairs, np.int32).reshape(-1, 2)
        gaps = Gaps(np.array([0]), np.array([relation]), np.array([tail]), Ragged.of_counts([len(pairs)], flat), Ragged.empty(1))
        return bool(calibrated.probabilities(gaps, torch.empty(1, 3)).any())

    assert (found(r), found(q), found(s)) == (True, False, False)  # q is of qualifiers alone, and s is not known
    assert (found(r, (q, MISSING), tail=1), found(r, (r, MISSING), tail=1)) == (True, False)
    assert not found(s, (q, MISSING), tail=1)


def test_questions_for_heads_use_what_is_usual_for_tails() -> None:
    graph = graph_of(train=[Statement("a", "r", "c"), Statement("b", "r", "c")])
    calibrated = OneHopProbability(Share([0.2, 0.3, 0.5]), graph.known(["train"]), Logistic((0.0, 0.0, 1.0, 0.0), 0.0))
    tails = calibrated.probabilities(_gaps(graph, Atom("a", "r", X)), torch.empty(1, 3))
    heads = calibrated.probabilities(_gaps(graph, Atom(X, "r", "c")), torch.empty(1, 3))
    assert tails[0, 0].item() == pytest.approx(0.5)  # one tail a head: ln 1 = 0
    assert heads[0, 0].item() == pytest.approx(2 / 3)  # two heads a tail: 1 / (1 + e^-ln 2)


def test_a_calibration_gives_the_believed_entity_the_share_of_questions_that_it_answers() -> None:
    # Of 40 people, each with one city in train, 20 have a second one in valid: always "big". The model believes in "big".
    train = [Statement(f"p{i}", "livesIn", f"c{i % 5}") for i in range(40)]
    graph = graph_of(train=train, valid=[Statement(f"p{i}", "livesIn", "big") for i in range(20)])
    shares = np.full(len(graph.entities), 0.001)
    shares[graph.entities.id("big")] = 0.9
    scorer = Share((shares / shares.sum()).tolist())
    known = graph.known(["train"])
    calibrated = OneHopProbability(scorer, known, fit_one_hop(graph, scorer, count=400))
    out = torch.empty(1, len(graph.entities))
    found = calibrated.probabilities(_gaps(graph, Atom("p3", "livesIn", X)), out)[0]
    # Questions come half from valid (all of them gain "big") and half from train (half of them do): about three in four.
    assert 0.5 < found[graph.entities.id("big")].item() < 0.95
    assert found[graph.entities.id("c0")].item() < 0.05


def test_a_graph_without_validation_statements_cannot_be_calibrated() -> None:
    graph = graph_of(train=[Statement("a", "r", "b"), Statement("b", "r", "c")])
    with pytest.raises(QueryError, match="calibrated on validation statements, and this graph has none"):
        fit_one_hop(graph, Share([0.3, 0.3, 0.4]), count=40)


def test_calibration_keeps_the_order_of_candidates_and_stays_within_0_and_1(graph: Graph) -> None:
    calibrated = OneHopProbability(Share([0.2, 0.3, 0.4, 0.1]), graph.known(["train"]), Logistic((1.5, 0.3, -0.2, 0.1), 3.0))
    found = calibrated.probabilities(_gaps(graph, Atom("d", "r", X)), torch.empty(1, 4))[0]
    assert found.argsort(descending=True).tolist() == [2, 1, 0, 3]
    assert 0 < found.min() <= found.max() < 1


def test_known_answers_that_hold_all_belief_leave_finite_probabilities(graph: Graph) -> None:
    calibrated = OneHopProbability(Share([0.0, 0.5, 0.5, 0.0]), graph.known(["train"]), Logistic((1.0, 0.0, 0.0, 0.0), 0.0))
    found = calibrated.probabilities(_gaps(graph, Atom("a", "r", X)), torch.empty(1, 4))[0]
    assert found.isfinite().all()
    assert found[[0, 3]].tolist() == [0, 0]  # no belief, no probability


def test_a_question_is_answered_alike_alone_and_among_others(graph: Graph) -> None:
    calibrated = OneHopProbability(Share([0.2, 0.3, 0.4, 0.1]), graph.known(["train"]), Logistic((2.0, 1.0, 0.5, 0.1), -0.4))
    questions = [_gaps(graph, Atom(name, "r", X)) for name in ("a", "d")]
    together = calibrated.probabilities(stack_gaps(questions), torch.empty(2, 4))
    for place, question in enumerate(questions):
        assert torch.equal(calibrated.probabilities(question, torch.empty(1, 4))[0], together[place])


def test_scores_become_shares_of_one_unit_of_belief() -> None:
    scores = torch.tensor([[1.0, 2.0, 5.0, 2.0]]).log()
    assert log_share(scores).exp()[0].tolist() == pytest.approx([0.1, 0.2, 0.5, 0.2])


def test_a_calibration_has_a_weight_for_every_feature_and_depends_on_the_seed_only() -> None:
    statements = [Statement(f"p{i}", "livesIn", f"c{i % 5}") for i in range(30)]
    graph = graph_of(train=statements, valid=[Statement(f"p{i}", "livesIn", f"c{(i + 1) % 5}") for i in range(10)])
    scorer = Share((np.arange(1, len(graph.entities) + 1) / np.arange(1, len(graph.entities) + 1).sum()).tolist())
    fitted = fit_one_hop(graph, scorer, count=80)
    assert len(fitted.weights) == len(FEATURES)
    assert fit_one_hop(graph, scorer, count=80) == fitted


@pytest.mark.parametrize("weights", [(1.5, 0.3, -0.2, 0.1), (0.7, -0.5, 0.4, -0.6), (-1.0, 0.3, 0.2, 0.1)])
def test_no_unknown_entity_is_more_probable_than_the_ceiling(graph: Graph, weights: tuple[float, ...]) -> None:
    known = graph.known(["train"])
    random = np.random.default_rng(0)
    for _ in range(20):
        shares = random.dirichlet([0.3] * len(graph.entities)) + 1e-9
        calibrated = OneHopProbability(Share((shares / shares.sum()).tolist()), known, Logistic(weights, 0.5))
        for atom in (Atom("a", "r", X), Atom("d", "r", X), Atom("c", "r", X), Atom(X, "r", "b")):
            gaps = _gaps(graph, atom)
            found = calibrated.probabilities(gaps, torch.empty(1, 4))[0]
            unknown = np.setdiff1d(np.arange(4), Entailed(known).answers(gaps).items)
            assert found[torch.from_numpy(unknown)].max() <= calibrated.ceilings(gaps)[0]


def test_a_ceiling_is_that_of_all_belief_that_is_left(graph: Graph) -> None:
    # d -r-> ? has one known answer: with all of the rest, an entity has the logit 1 · ln(1 + 1) + 0.5.
    calibrated = OneHopProbability(Share([0.25] * 4), graph.known(["train"]), Logistic((1.0, 1.0, 0.0, 0.0), 0.5))
    found = calibrated.ceilings(_gaps(graph, Atom("d", "r", X)))
    assert found.tolist() == pytest.approx([1 / (1 + np.exp(-0.5 - np.log(2)))], abs=1e-4)


class Vectors:
    """A scorer with random scores that finds the best of them."""

    def __init__(self, entities: int, seed: int) -> None:
        self.numbers = np.random.default_rng(seed).normal(0, 3, (64, entities)).astype(np.float32)

    def entity_scores(self, gaps: Gaps, out: torch.Tensor) -> torch.Tensor:
        return out.copy_(torch.from_numpy(self.numbers[(gaps.head * 7 + gaps.tail * 3 + gaps.relation) % 64]))

    def nearest_entities(self, gaps: Gaps, count: int, without: Sequence[np.ndarray] | None = None) -> Nearest:
        scores = self.entity_scores(gaps, torch.empty(len(gaps), self.numbers.shape[1]))
        best = retrieve(dense_blocks(scores.clone()), len(gaps), count, without)
        return Nearest(best, lambda rows, ids: scores[torch.from_numpy(rows)][:, torch.from_numpy(ids).long()])


class Rough(Vectors):
    """Scores all entities with errors of up to 1 %, and knows the exact scores."""

    def every_entity(self, gaps: Gaps) -> Scored:
        exact = exact_scores(self.entity_scores(gaps, torch.empty(len(gaps), self.numbers.shape[1])))
        return replace(exact, scores=exact.scores * torch.linspace(0.99, 1.01, self.numbers.shape[1]), rounded=True).with_exact_best(10)


def test_rounded_probabilities_are_close_and_have_an_exact_source() -> None:
    graph = graph_of([Statement("a", "r", f"e{i}") for i in range(5)] + [Statement(f"e{i}", "s", f"e{i + 1}") for i in range(30)])
    entities, known = len(graph.entities), graph.known(["train"])
    calibrated = OneHopProbability(Rough(entities, 3), known, Logistic((0.8, 0.3, -0.2, 0.1), -0.5))
    questions = stack_gaps([_gaps(graph, Atom("a", "r", X)), _gaps(graph, Atom(X, "s", "e4"))])
    whole = calibrated.probabilities(questions, torch.empty(2, entities))
    for row, found in enumerate(calibrated.rounded(questions)):
        assert found.ids is None
        assert not torch.equal(found.values, whole[row])
        torch.testing.assert_close(found.values, whole[row], atol=0.02, rtol=0.05)
        torch.testing.assert_close(found.at(np.arange(entities)), whole[row], atol=1e-3, rtol=1e-3)
        torch.testing.assert_close(
            found.with_facts(np.array([3])).at(np.array([3, 4])), torch.stack([torch.tensor(1.0), found.at(np.array([4]))[0]])
        )
    never = graph_of(train=[Statement("a", "s", "b")], valid=[Statement("a", "r", "b")])
    (nothing,) = OneHopProbability(Rough(2, 3), never.known(["train"]), Logistic((0.8, 0.3, -0.2, 0.1), -0.5)).rounded(
        _gaps(never, Atom("a", "r", X))
    )
    assert nothing.at(np.array([0, 1])).tolist() == [0, 0]


@pytest.mark.parametrize("slope", [0.8, -0.5])
def test_the_best_probabilities_are_those_of_whole_rows_and_bound_the_others(slope: float) -> None:
    graph = graph_of([Statement("a", "r", f"e{i}") for i in range(5)] + [Statement(f"e{i}", "s", f"e{i + 1}") for i in range(30)])
    calibrated = OneHopProbability(Vectors(len(graph.entities), 3), graph.known(["train"]), Logistic((slope, 0.3, -0.2, 0.1), -0.5))
    questions = stack_gaps([_gaps(graph, Atom("a", "r", X)), _gaps(graph, Atom(X, "s", "e4")), _gaps(graph, Atom("e9", "r", X))])
    whole = calibrated.probabilities(questions, torch.empty(3, len(graph.entities)))
    known = [{graph.entities.id(f"e{i}") for i in range(5)}, {graph.entities.id("e3")}, set()]
    for count in (4, 100):
        for row, listed in enumerate(calibrated.best(questions, count)):
            assert listed.ids is not None
            assert not known[row] & {*listed.ids.tolist()}
            assert len(listed.ids) == min(count, len(graph.entities) - len(known[row]))
            torch.testing.assert_close(listed.values, whole[row][torch.from_numpy(listed.ids)], atol=1e-6, rtol=1e-5)
            torch.testing.assert_close(listed.at(np.arange(len(graph.entities))), whole[row], atol=1e-6, rtol=1e-5)
            others = sorted({*range(len(graph.entities))} - known[row] - {*listed.ids.tolist()})
            assert whole[row][others].amax().item() <= listed.rest + 1e-6 if others else listed.rest == 0
