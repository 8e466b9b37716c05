"""Filtered ranks: worked by hand, against sorting, and against PyKEEN."""

import tracemalloc
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from starqe.errors import MeasureError
from starqe.measure.ranks import SORT_FROM, TIES, Ranks, filtered_ranks, greater_and_equal, ranks_among
from starqe.ragged import Ragged


def ragged(*entities: list[int]) -> Ragged:
    return Ragged(np.cumsum([0, *map(len, entities)]), np.array([one for part in entities for one in part], np.int32))


def rank(scores: list[list[float]], ranked: Ragged, filtered: Ragged | None = None) -> Ranks:
    return filtered_ranks(torch.tensor(scores), ranked, filtered or ranked)


def by_sorting(scores: list[float], answer: int, filtered: list[int]) -> tuple[int, int, int]:
    """First place, last place and number of candidates, found by listing the candidates in order."""
    rivals = [score for entity, score in enumerate(scores) if entity == answer or entity not in filtered]
    order = sorted(rivals, reverse=True)
    first = order.index(scores[answer])
    return first + 1, first + order.count(scores[answer]), len(order)


def pairs(entities: list[list[int]]) -> list[tuple[int, int]]:
    return [(query, entity) for query, part in enumerate(entities) for entity in part]


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[list[float]], list[list[int]], list[list[int]]]:
    """Scores with many ties, the answers to rank, and the entities to filter, by query."""
    entities = draw(st.integers(1, 50))
    queries = draw(st.integers(1, 4))
    score = st.sampled_from([float("-inf"), -1.5, -0.0, 0.0, 0.25, 1.0, 7.0, float("inf")])
    some = st.lists(st.integers(0, entities - 1), unique=True, max_size=30).map(sorted)
    return (
        [draw(st.lists(score, min_size=entities, max_size=entities)) for _ in range(queries)],
        [draw(some) for _ in range(queries)],
        [draw(some) for _ in range(queries)],
    )


def test_the_other_answers_of_a_query_do_not_compete():
    ranks = rank([[5.0, 4.0, 3.0, 2.0, 1.0]], ragged([0, 1, 4]))
    assert ranks.realistic.tolist() == [1, 1, 3]  # entity 4 loses to 2 and 3 only
    assert ranks.candidates.tolist() == [3, 3, 3]


def test_a_filtered_entity_that_is_not_ranked_does_not_compete_either():
    ranks = rank([[5.0, 4.0, 3.0]], ragged([2]), ragged([0, 2]))
    assert (ranks.best.tolist(), ranks.candidates.tolist()) == ([2], [2])


def test_a_ranked_answer_outside_the_filter_counts_itself_once():
    ranks = rank([[5.0, 4.0, 3.0]], ragged([2]), ragged([0]))
    assert (ranks.better.tolist(), ranks.equal.tolist(), ranks.candidates.tolist()) == ([1], [1], [2])


def test_ties_at_the_top_share_the_mean_of_their_places():
    ranks = rank([[9.0, 9.0, 9.0, 1.0]], ragged([1]))
    assert (ranks.best.tolist(), ranks.worst.tolist(), ranks.realistic.tolist()) == ([1], [3], [2.0])


def test_when_all_scores_are_equal_the_answer_is_in_the_middle():
    ranks = rank([[0.0] * 7], ragged([3]))
    assert (ranks.best.tolist(), ranks.worst.tolist(), ranks.realistic.tolist()) == ([1], [7], [4.0])


def test_filtered_entities_with_the_same_score_are_not_ties():
    ranks = rank([[0.0] * 7], ragged([3]), ragged([0, 1, 3]))
    assert (ranks.equal.tolist(), ranks.realistic.tolist()) == ([5], [3.0])


def test_a_single_entity_is_first_of_one():
    ranks = rank([[-3.0]], ragged([0]))
    assert (ranks.realistic.tolist(), ranks.candidates.tolist()) == ([1.0], [1])


@pytest.mark.parametrize("entities", [4, SORT_FROM + 5])
def test_when_every_entity_is_an_answer_each_is_first(entities: int):
    ranks = rank([[float(score) for score in range(entities)]], ragged(list(range(entities))))
    assert ranks.worst.tolist() == [1] * entities
    assert ranks.candidates.tolist() == [1] * entities


def test_infinities_are_scores_like_others():
    inf = float("inf")
    ranks = rank([[inf, -inf, 0.0, inf, -inf]], ragged([1, 2, 3]))
    assert ranks.better.tolist() == [1, 1, 0]
    assert ranks.equal.tolist() == [2, 1, 2]


def test_a_query_without_ranked_answers_adds_nothing():
    ranks = rank([[1.0, 2.0], [1.0, 2.0]], ragged([], [0]))
    assert ranks.realistic.tolist() == [2.0]


def test_a_score_that_is_not_a_number_is_refused_with_its_row():
    with pytest.raises(MeasureError, match="found NaN in row 1 of a batch of 2"):
        rank([[1.0, 2.0], [float("nan"), 2.0]], ragged([0], [1]))


def test_scores_are_left_as_they_are():
    scores = torch.randn(3, 40)
    before = scores.clone()
    filtered_ranks(scores, ragged([1, 2], [3], list(range(20))), ragged([1, 2], [3], list(range(20))))
    assert torch.equal(scores, before)


@given(problems())
def test_counting_agrees_with_sorting(problem):
    scores, ranked, filtered = problem
    ranks = rank(scores, ragged(*ranked), ragged(*filtered))
    expected = [by_sorting(scores[i], answer, filtered[i]) for i, answers in enumerate(ranked) for answer in answers]
    assert list(zip(ranks.best.tolist(), ranks.worst.tolist(), ranks.candidates.tolist(), strict=True)) == expected


@given(problems())
def test_realistic_is_between_optimistic_and_pessimistic(problem):
    scores, ranked, filtered = problem
    ranks = rank(scores, ragged(*ranked), ragged(*filtered))
    best, mean, worst = (TIES[ties](ranks) for ties in ("optimistic", "realistic", "pessimistic"))
    assert ((best >= 1) & (best <= mean) & (mean <= worst) & (worst <= ranks.candidates)).all()


@given(problems(), st.randoms())
def test_the_order_of_the_entities_changes_nothing(problem, random):
    scores, ranked, filtered = problem
    place = list(range(len(scores[0])))
    random.shuffle(place)
    moved = [[row[place.index(entity)] for entity in range(len(row))] for row in scores]
    one = rank(scores, ragged(*ranked), ragged(*filtered))
    new_ranked, new_filtered = ([sorted(place[entity] for entity in part) for part in parts] for parts in (ranked, filtered))
    other = rank(moved, ragged(*new_ranked), ragged(*new_filtered))
    before = {(i, place[entity]): at for (i, entity), at in zip(pairs(ranked), one.realistic, strict=True)}
    after = dict(zip(pairs(new_ranked), other.realistic, strict=True))
    assert before == after


@given(problems())
def test_filtering_takes_away_exactly_the_others(problem):
    scores, ranked, filtered = problem
    free = rank(scores, ragged(*ranked), ragged(*([] for _ in ranked)))
    held = rank(scores, ragged(*ranked), ragged(*filtered))
    others = [
        (sum(scores[i][e] > scores[i][a] for e in filtered[i] if e != a), sum(scores[i][e] == scores[i][a] for e in filtered[i] if e != a))
        for i, answers in enumerate(ranked)
        for a in answers
    ]
    assert (free.better - held.better).tolist() == [above for above, _ in others]
    assert (free.equal - held.equal).tolist() == [level for _, level in others]


def test_large_rows_agree_with_sorting():
    random = np.random.default_rng(0)
    scores = torch.from_numpy(random.integers(0, 500, (6, 3000)).astype(np.float32))
    top = scores.topk(12).indices.numpy()
    ranked = [sorted(random.choice(3000, size, replace=False).tolist()) for size in (1, 3, 40)]
    ranked += [sorted(top[row, :size].tolist()) for row, size in ((3, 1), (4, 3), (5, 12))]
    ranks = filtered_ranks(scores, ragged(*ranked), ragged(*ranked))
    expected = [by_sorting(scores[i].tolist(), answer, ranked[i]) for i, answers in enumerate(ranked) for answer in answers]
    assert list(zip(ranks.best.tolist(), ranks.worst.tolist(), ranks.candidates.tolist(), strict=True)) == expected


@pytest.mark.parametrize("answers", [1, 3, SORT_FROM])
def test_memory_is_a_few_rows_whatever_the_number_of_queries(answers: int):
    queries, entities = 200, 5000
    scores = torch.rand(queries, entities)  # 4 MB
    ranked = ragged(*(list(range(answers)) for _ in range(queries)))
    tracemalloc.start()
    filtered_ranks(scores, ranked, ranked)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 4 * entities + 200 * len(ranked.items)


def test_greater_and_equal_members_are_counted_within_the_group():
    above, level = greater_and_equal(np.array([0, 0, 0, 2]), np.array([3, 3, 5, 9]), np.array([0, 0, 1, 2]), np.array([3, 4, 0, 9]))
    assert above.tolist() == [1, 1, 0, 0]
    assert level.tolist() == [2, 0, 0, 1]


@pytest.mark.full
def test_ranks_and_amri_agree_with_pykeen():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reason = "the cross-check needs the package pykeen, which starqe itself does not"
        theirs = pytest.importorskip("pykeen.evaluation.ranks", reason=reason, exc_type=ImportError)
        from pykeen.metrics.ranking import AdjustedArithmeticMeanRankIndex, InverseHarmonicMeanRank
    from starqe.measure.metrics import Accumulator

    random = np.random.default_rng(1)
    scores = torch.from_numpy(random.integers(0, 60, (40, 200)).astype(np.float32))
    answers = [sorted(random.choice(200, int(size), replace=False).tolist()) for size in random.integers(1, 15, 40)]
    ours = filtered_ranks(scores, ragged(*answers), ragged(*answers))
    query = np.repeat(np.arange(40), [len(part) for part in answers])
    flat = [answer for part in answers for answer in part]
    rows = scores[query].clone()
    for place, (row, answer) in enumerate(zip(query, flat, strict=True)):
        rows[place, [other for other in answers[row] if other != answer]] = float("nan")
    found = theirs.Ranks.from_scores(rows[np.arange(len(flat)), flat][:, None], rows)
    assert found.optimistic.tolist() == ours.best.tolist()
    assert found.pessimistic.tolist() == ours.worst.tolist()
    assert found.realistic.tolist() == ours.realistic.tolist()
    assert found.number_of_options.tolist() == ours.candidates.tolist()

    sums = Accumulator(replicates=0)
    sums.add(ours, np.array([len(part) for part in answers]))
    for name, metric in {"AMRI": AdjustedArithmeticMeanRankIndex(), "MRR": InverseHarmonicMeanRank()}.items():
        assert sums.estimate(name, "micro").value == pytest.approx(metric(ours.realistic, ours.candidates))
        weights = 1 / np.array([len(answers[row]) for row in query])
        assert sums.estimate(name, "macro").value == pytest.approx(metric(ours.realistic, ours.candidates, weights)), name


def test_ranks_among_listed_rivals_share_the_places_of_ties():
    own, rivals = np.array([[3.0, 1.0], [2.0, 9.0]]), np.array([[3.0, 2.0, 1.0, 1.0], [4.0, 3.0, 2.0, 2.0]])
    assert ranks_among(own, rivals).tolist() == [[1.5, 4.0], [4.0, 1.0]]
    assert ranks_among(own, rivals[:, :0]).tolist() == [[1.0, 1.0], [1.0, 1.0]]


@given(problems())
def test_ranks_among_all_others_are_the_filtered_ones(problem: tuple[list[list[float]], list[list[int]], list[list[int]]]):
    scores, ranked, _ = problem
    expected = rank(scores, ragged(*ranked)).realistic.tolist()
    found = [
        float(ranks_among(np.array(row)[[answer]], np.delete(np.array(row), answers))[0])
        for row, answers in zip(scores, ranked, strict=True)
        for answer in answers
    ]
    assert found == expected
