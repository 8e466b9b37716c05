"""The oracle: worked by hand, against all orders written out, and against the paper's numbers."""

from itertools import permutations

import numpy as np
import pytest
from tests.columns import query_table
from tests.places import DATA

from starqe.measure.metrics import AVERAGES, METRICS, TERMS, terms_of
from starqe.measure.oracle import SOURCES, expected_terms, oracle, oracle_ranks
from starqe.measure.ranks import Ranks
from starqe.queries.shape import SHAPES
from starqe.queries.table import QueryTable

pytestmark = pytest.mark.full

Queries = dict[tuple[int, int, int, int], list[int]]


def table(queries: Queries) -> QueryTable:
    """Queries of shape 1p: (anchor, relation, qualifier relation, qualifier value) -> answers."""
    constants = np.array(list(queries), np.int32).reshape(-1, 4)
    return query_table(
        SHAPES["1p"],
        constants[:, :1],
        constants[:, 1:2],
        np.arange(len(queries) + 1),
        constants[:, 2],
        constants[:, 3],
        np.cumsum([0, *map(len, queries.values())]),
        np.array([answer for answers in queries.values() for answer in answers], np.int32),
    )


def test_answers_are_ranked_by_how_often_they_answer_the_stripped_query():
    """The stripped query (0, 0) has the answers 5 three times, 6 twice and 7 and 8 once."""
    queries = table(
        {(0, 0, 1, 1): [5, 6], (0, 0, 1, 2): [5, 6], (0, 0, 1, 3): [5], (0, 0, 1, 4): [7], (0, 0, 1, 5): [8], (1, 0, 1, 1): [9]}
    )
    ranks = oracle_ranks(queries, [queries], entities=20)
    assert ranks.better.tolist() == [0, 0, 0, 0, 0, 2, 2, 0]  # 6 comes first where 5 is filtered
    assert ranks.equal.tolist() == [1, 1, 1, 1, 1, 2, 2, 1]
    assert ranks.candidates.tolist() == [19, 19, 19, 19, 20, 20, 20, 20]


def test_entities_that_were_never_seen_share_the_last_place():
    train = table({(0, 0, 1, 1): [5, 6]})
    ranks = oracle_ranks(table({(0, 0, 1, 2): [5, 7], (3, 3, 1, 2): [0]}), [train], entities=20)
    assert ranks.better.tolist() == [0, 1, 0]  # 7 is behind 6, and 5 is filtered
    assert ranks.equal.tolist() == [2, 18, 20]  # 5 ties with 6; all but these two are unseen, and for the other query all are
    assert ranks.candidates.tolist() == [19, 19, 20]


def test_concatenated_tables_count_a_repeated_query_twice_and_merged_ones_once():
    train, test = table({(0, 0, 1, 1): [5]}), table({(0, 0, 1, 1): [5], (0, 0, 1, 2): [6]})
    assert oracle_ranks(test, [train, test], 20).equal.tolist() == [1, 1]
    assert oracle_ranks(test, [train, test], 20).better.tolist() == [0, 1]
    assert oracle_ranks(test, [train, test], 20, merged=True).equal.tolist() == [2, 2]


def test_merging_distinguishes_queries_by_the_pairs_of_each_edge():
    """Two edges with one pair and none, and with none and one: the same pairs in a row, and not the same query."""

    def pair_on(edge: int) -> QueryTable:
        offsets = np.array([0, 1, 1] if edge == 0 else [0, 0, 1])
        pair = np.array([1], np.int32), np.array([4], np.int32)
        return query_table(
            SHAPES["2p"], np.array([[0]], np.int32), np.array([[2, 2]], np.int32), offsets, *pair, np.array([0, 1]), pair[1] + 1
        )

    other = query_table(
        SHAPES["2p"], np.array([[0]], np.int32), np.array([[2, 2]], np.int32), np.array([0, 0, 0]),
        np.empty(0, np.int32), np.empty(0, np.int32), np.array([0, 1]), np.array([6], np.int32),
    )  # fmt: skip
    assert oracle_ranks(other, [pair_on(0), pair_on(1), other], 20, merged=True).better.tolist() == [1]
    assert oracle_ranks(other, [pair_on(0), pair_on(0), other], 20, merged=True).better.tolist() == [0]


@pytest.mark.parametrize(("better", "equal"), [(0, 1), (0, 4), (2, 3), (8, 5), (12, 2)])
def test_expectations_are_means_over_all_orders(better: int, equal: int):
    n = better + equal + 1
    orders = [better + order.index(0) + 1 for order in permutations(range(equal))]
    rank, candidates = np.array(orders), np.full(len(orders), n)
    expected = expected_terms(Ranks(np.array([better]), np.array([equal]), np.array([n])))
    assert expected == pytest.approx(terms_of(rank, candidates).mean(0, keepdims=True))
    assert expected.shape == (1, len(TERMS))


def test_queries_that_need_more_than_63_bits_are_distinguished():
    """Six constants of up to 2^31 do not fit into one number."""
    big = 2**31 - 2
    anchors = np.array([[big, big, big], [big, big, big - 1]], np.int32)
    nothing = np.empty(0, np.int32)
    answers = np.array([0, 1, 2]), np.array([3, 4], np.int32)
    queries = query_table(SHAPES["3i"], anchors, np.full((2, 3), big, np.int32), np.zeros(7, np.int64), nothing, nothing, *answers)
    assert oracle_ranks(queries, [queries], 10).worst.tolist() == [1, 1]


def test_rows_name_the_source():
    queries = {split: {"1p": table({(0, 0, 1, 1): [5], (0, 0, 1, 2): [6]})} for split in ("train", "valid", "test")}
    for source in SOURCES:
        rows = oracle(queries, 20, source)
        assert {row.name for row in rows} == {f"Oracle ({source})"}
        assert len(rows) == 3 * len(METRICS) * len(AVERAGES)
        hits = {row.ours for row in rows if row.metric == "Hits@1"}
        assert hits == {50.0}


def test_an_empty_source_leaves_every_entity_equal():
    ranks = oracle_ranks(table({(0, 0, 1, 1): [5]}), [table({})], entities=7)
    assert (ranks.better.tolist(), ranks.equal.tolist()) == ([0], [7])


@pytest.fixture(scope="module")
def wd50k() -> dict[str, dict[str, QueryTable]]:
    """The queries of shape 1p of every split: an anchor, a relation and one pair, and all their tails."""
    folder = DATA / "wd50k"
    if not folder.is_dir():
        pytest.skip("the paper's oracle needs the statements of WD50K, which are not here")
    entities: dict[str, int] = {}
    relations: dict[str, int] = {}
    tables = {}
    for split in ("train", "valid", "test"):
        queries: dict[tuple[int, int, int, int], set[int]] = {}
        for line in (folder / f"{split}.txt").read_text().splitlines():
            names = enumerate(line.split(","))
            numbers = ((entities, relations)[i % 2].setdefault(name, len((entities, relations)[i % 2])) for i, name in names)
            head, relation, tail, *pairs = numbers
            for i in range(0, len(pairs), 2):
                queries.setdefault((head, relation, pairs[i], pairs[i + 1]), set()).add(tail)
        tables[split] = {"1p": table({query: sorted(answers) for query, answers in queries.items()})}
    assert [len(tables[split]["1p"]) for split in tables] == [24_819, 4_100, 7_716]
    assert len(entities) == 47_155
    return tables


@pytest.mark.parametrize(
    ("source", "average", "published"),
    [
        ("all splits", "micro", {"Hits@1": 37.87, "Hits@3": 61.65, "Hits@10": 81.03, "MRR": 52.64, "AMRI": 99.97}),
        ("test", "micro", {"MRR": 79.16}),
        ("merged", "macro", {"Hits@1": 41.46, "Hits@3": 65.86, "Hits@10": 84.29, "MRR": 56.26}),
    ],
)
def test_the_papers_oracle_is_reproduced_to_the_last_digit(wd50k, source: str, average: str, published: dict[str, float]):
    rows = oracle(wd50k, 47_155, source, replicates=0)
    ours = {row.metric: round(row.ours, 2) for row in rows if row.shape == "1p" and row.average == average}
    assert {metric: ours[metric] for metric in published} == published
