import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from starqe.kg import Statement, graph_of
from starqe.kg.known import MANY

# Ids by text: a b c u v are 0 … 4, p r s are 0 … 2. Rows in order: a r b {}, a r b {p: u, p: v}, a r c {p: v}, a s b {}.
GRAPH = graph_of(
    [
        Statement("a", "r", "b"),
        Statement("a", "r", "b", (("p", "v"), ("p", "u"))),
        Statement("a", "r", "c", (("p", "v"),)),
        Statement("a", "s", "b"),
    ],
    valid=[Statement("b", "s", "c", (("p", "u"),))],
)


def test_expand_takes_a_relation_for_each_node():
    position, rows = GRAPH.known(["train"]).expand("head", np.array([0, 1, 0]), np.array([2, 2, 1]))
    assert list(zip(position.tolist(), rows.tolist(), strict=True)) == [(0, 3), (2, 0), (2, 1), (2, 2)]


def test_count_is_the_number_of_matches():
    known = GRAPH.known(["train", "valid"])
    assert known.count("head", np.array([0, 0, 1]), 1) == 6
    assert known.count("tail", np.array([1, 2]), np.array([1, 2])) == 3
    assert GRAPH.known(["train"]).count("tail", np.array([1, 2]), np.array([1, 2])) == 2


def test_find_gives_the_statements_of_each_main_triple():
    position, rows = GRAPH.known(["train"]).find(np.array([0, 0, 1, 4]), np.array([1, 2, 2, 2]), np.array([1, 1, 2, 4]))
    assert list(zip(position.tolist(), rows.tolist(), strict=True)) == [(0, 0), (0, 1), (1, 3)]


def test_have_pair_asks_each_statement_for_its_own_pair():
    known = GRAPH.known(["train"])
    assert known.have_pair(np.array([0, 1, 1, 2, 2]), np.zeros(5, int), np.array([3, 3, 4, 3, 4])).tolist() == [
        False,
        True,
        True,
        False,
        True,
    ]
    assert known.have_pair(np.array([1, 1]), np.array([2, 0]), np.array([4, 0])).tolist() == [False, False]


def test_many_look_ups_at_once_equal_one_after_the_other():
    known, random = GRAPH.known(["train", "valid"]), np.random.default_rng(0)
    head, relation, tail, value = (random.integers(0, most, 2 * MANY) for most in (5, 3, 5, 5))
    rows, each = random.choice(known.rows, 2 * MANY), range(2 * MANY)

    def pairs(found, first=0):
        return list(zip((found[0] + first).tolist(), found[1].tolist(), strict=True))

    for side in ("head", "tail"):
        one_by_one = [pair for i in each for pair in pairs(known.expand(side, head[i : i + 1], relation[i : i + 1]), i)]
        assert len(one_by_one) > 100
        assert pairs(known.expand(side, head, relation)) == one_by_one
        assert known.counts(side, head, relation).tolist() == [known.count(side, head[i : i + 1], relation[i : i + 1]) for i in each]
        found, drawn = known.draw(side, head, random)
        assert found.tolist() == [i for i in each if len(known.at(side, head[i]))]
        assert (getattr(GRAPH, side)[drawn] == head[found]).all()
    assert pairs(known.find(head, relation, tail)) == [
        pair for i in each for pair in pairs(known.find(head[i : i + 1], relation[i : i + 1], tail[i : i + 1]), i)
    ]
    has = [bool(known.have_pair(rows[i : i + 1], relation[i : i + 1], value[i : i + 1])[0]) for i in each]
    assert any(has)
    assert known.have_pair(rows, relation, value).tolist() == has


def test_look_ups_where_nothing_is_known_find_nothing():
    known, one = GRAPH.known(["test"]), np.array([0])
    assert len(known) == 0
    assert known.find(one, 1, one)[0].tolist() == []
    assert known.expand("head", one, 1)[1].tolist() == []
    assert known.have_pair(one, one, one).tolist() == [False]


@given(st.integers(0, 4), st.integers(0, 2), st.integers(0, 4), st.lists(st.tuples(st.just(0), st.integers(3, 4)), max_size=2))
def test_find_and_have_pair_agree_with_holds(head, relation, tail, pairs):
    known = GRAPH.known(["train", "valid"])
    _, rows = known.find(np.array([head]), relation, np.array([tail]))
    fits = np.ones(len(rows), bool)
    for key, value in pairs:
        fits &= known.have_pair(rows, np.full(len(rows), key), np.full(len(rows), value))
    assert fits.any() == known.holds(head, relation, tail, pairs)
