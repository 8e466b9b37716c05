from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starqe.errors import InputError
from starqe.kg import SPLITS, Graph, Statement, check_split, graph_of, hold_out_validation, import_graph, transductive_split, with_split
from starqe.kg import split as split_module
from starqe.seed import generator
from tests.kg.strategies import graphs
from tests.places import WD50K

SHARES = (0.6, 0.2, 0.2)


def mentioned(graph: Graph, split: str) -> tuple[set[str], set[str]]:
    """Returns the entities and the relations of a split, also those inside qualifiers."""
    rows = [statement.fields() for statement in graph.statements(split)]
    return {word for row in rows for word in row[::2]}, {word for row in rows for word in row[1::2]}


def triples(graph: Graph, split: str) -> set[tuple[str, str, str]]:
    return {(statement.head, statement.relation, statement.tail) for statement in graph.statements(split)}


def dense(count: int, seed: int) -> Graph:
    """Makes a graph of few entities, some statements with qualifiers, some main triples several times."""
    random = np.random.default_rng(seed)
    draws = random.integers(0, 12, (count, 5)).tolist()
    return graph_of(Statement(f"e{h}", f"r{r % 4}", f"e{t}", ((f"q{q % 3}", f"e{v}"),) if q < 6 else ()) for h, r, t, q, v in draws)


@given(graphs(labels=False) | st.builds(dense, st.integers(1, 120), st.integers(0, 99)), st.integers(0, 5))
@settings(max_examples=60)
def test_train_mentions_everything_and_no_main_triple_is_in_two_splits(graph, seed):
    split = transductive_split(graph, SHARES, seed)
    entities, relations = mentioned(split, "train")
    for name in ("valid", "test"):
        its_entities, its_relations = mentioned(split, name)
        assert its_entities <= entities
        assert its_relations <= relations
    assert triples(split, "train").isdisjoint(triples(split, "valid") | triples(split, "test"))
    assert triples(split, "valid").isdisjoint(triples(split, "test"))
    assert set(split.statements(*SPLITS)) == set(graph.statements(*SPLITS))
    assert check_split(split).clean


def one_by_one(graph: Graph, shares: tuple[float, float, float], seed: int) -> Graph:
    """Splits a graph as the documentation says it: group by group, in the same random order, with counts of what train still mentions."""
    graph = with_split(graph, np.zeros(len(graph), np.int8))
    groups: dict[tuple[int, ...], list[int]] = {}
    for row, triple in enumerate(zip(graph.head.tolist(), graph.relation.tolist(), graph.tail.tolist(), strict=True)):
        groups.setdefault(triple, []).append(row)
    members = [groups[triple] for triple in sorted(groups)]
    words = [
        Counter(word for row in rows for place, field in enumerate(graph.statement(row).fields()) for word in [(place % 2, field)])
        for rows in members
    ]
    left = sum(words, Counter())
    split, wanted = np.zeros(len(graph), np.int8), {2: round(shares[2] * len(graph)), 1: round(shares[1] * len(graph))}
    for number in generator(seed, "split").permutation(len(members)).tolist():
        code = next((code for code in wanted if (split == code).sum() < wanted[code]), None)
        if code is not None and all(left[word] > count for word, count in words[number].items()):
            left -= words[number]
            split[members[number]] = code
    return with_split(graph, split)


@given(st.builds(dense, st.integers(1, 120), st.integers(0, 99)), st.integers(0, 5), st.sampled_from([1, 7, 1000]))
@settings(max_examples=30)
def test_blocks_of_any_size_give_the_split_of_one_group_after_the_other(graph, seed, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split_module, "BLOCK", block)
        assert transductive_split(graph, SHARES, seed).fingerprint == one_by_one(graph, SHARES, seed).fingerprint


def test_a_dense_graph_gets_the_shares_that_were_asked_for():
    split = transductive_split(dense(800, 0), (0.8, 0.15, 0.05), 0)
    counts = np.bincount(split.split, minlength=3)
    wanted = np.array([0.8, 0.15, 0.05]) * len(split)
    assert np.abs(counts - wanted).max() <= 3  # a group with one main triple stays together
    assert counts.sum() == len(split)


def test_the_same_seed_gives_the_same_split_and_another_seed_another():
    graph = dense(200, 1)
    assert transductive_split(graph, SHARES, 7).fingerprint == transductive_split(graph, SHARES, 7).fingerprint
    assert transductive_split(graph, SHARES, 7).fingerprint != transductive_split(graph, SHARES, 8).fingerprint


def test_an_earlier_split_does_not_matter():
    graph = dense(200, 1)
    once = transductive_split(graph, SHARES, 7)
    assert transductive_split(once, SHARES, 7).fingerprint == once.fingerprint


def test_a_chain_has_nothing_to_spare_and_stays_in_train():
    chain = graph_of([Statement("a", "r", "b"), Statement("b", "s", "c"), Statement("c", "t", "d", (("q", "v"),))])
    assert transductive_split(chain, SHARES, 0).split.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "shares", [(0.5, 0.5), (0.5, 0.2, 0.2), (0.0, 0.5, 0.5), (1.2, -0.1, -0.1), (float("nan"), 0.5, 0.5), (0.5, 0.5, 0.5)]
)
def test_invalid_shares_are_refused(shares):
    with pytest.raises(InputError, match=r"a split is three shares \(train, valid, test\) that add up to 1, with train above 0, found \("):
        transductive_split(dense(20, 0), shares, 0)


def test_shares_of_nothing_leave_a_split_empty():
    assert set(transductive_split(dense(100, 0), (1, 0, 0), 0).split.tolist()) == {0}
    assert set(transductive_split(dense(100, 0), (0.9, 0.1, 0), 0).split.tolist()) == {0, 1}
    assert set(transductive_split(dense(100, 0), (0.9, 0, 0.1), 0).split.tolist()) == {0, 2}


@given(st.integers(20, 120), st.integers(0, 99), st.floats(0.01, 0.5))
@settings(max_examples=40)
def test_validation_is_held_out_of_train_alone_and_test_stays_test(count, seed, share):
    graph = transductive_split(dense(count, seed), (0.8, 0.0, 0.2), seed)
    held = hold_out_validation(graph, share, seed)
    assert list(held.statements("test")) == list(graph.statements("test"))
    assert set(held.statements("train", "valid")) == set(graph.statements("train"))
    entities, relations = mentioned(held, "train")
    valid_entities, valid_relations = mentioned(held, "valid")
    assert valid_entities <= entities
    assert valid_relations <= relations
    assert triples(held, "valid").isdisjoint(triples(held, "train") | triples(held, "test"))
    assert 1 <= len(held.known(["valid"])) <= max(1, round(share * len(graph.known(["train"])))) + count // 2
    assert hold_out_validation(graph, share, seed).fingerprint == held.fingerprint


def test_the_share_of_train_is_held_out_and_added_to_a_validation_split_that_is_there():
    graph = transductive_split(dense(800, 0), (0.7, 0.1, 0.2), 0)
    held = hold_out_validation(graph, 0.1, 3)
    moved = len(held.known(["valid"])) - len(graph.known(["valid"]))
    assert abs(moved - len(graph.known(["train"])) / 10) <= 3  # a group with one main triple stays together
    assert set(held.statements("valid")) >= set(graph.statements("valid"))


def test_a_main_triple_that_is_in_test_too_is_not_validated_on():
    facts = [Statement(f"e{i % 4}", "r", f"e{i // 4}") for i in range(16)]
    graph = graph_of(facts, test=facts[1:])
    held = hold_out_validation(graph, 0.9, 0)
    assert list(held.statements("valid")) == facts[:1]
    with pytest.raises(InputError, match="none of its 16 can"):
        hold_out_validation(graph_of(facts, test=facts), 0.5, 0)


def test_nothing_to_hold_out_is_refused():
    chain = [Statement("a", "r", "b"), Statement("b", "s", "c")]
    with pytest.raises(InputError, match=r"held out from train, and none of its 2 can: each mentions something .* Add statements"):
        hold_out_validation(graph_of(chain), 0.5, 0)
    with pytest.raises(InputError, match="none of its 0 can"):
        hold_out_validation(graph_of(test=chain), 0.5, 0)
    with pytest.raises(InputError, match=r"between 0 and 1, found 1\.5"):
        hold_out_validation(graph_of(chain), 1.5, 0)


def test_findings_count_what_is_not_in_train_and_what_occurs_twice():
    findings = check_split(
        graph_of(
            [Statement("a", "r", "b"), Statement("b", "r", "a"), Statement("a", "r", "a", (("q", "v"),))],
            valid=[Statement("a", "r", "b"), Statement("b", "r", "a", (("q", "v"),)), Statement("b", "s", "b", (("q", "new"),))],
            test=[Statement("b", "s", "b"), Statement("a", "t", "x", (("u", "y"),)), Statement("a", "r", "b")],
        )
    )
    assert findings.as_dict() == {
        "entities_of_valid_not_in_train": 1,  # new
        "entities_of_test_not_in_train": 2,  # x y
        "relations_of_valid_not_in_train": 1,  # s
        "relations_of_test_not_in_train": 3,  # s t u
        "triples_in_train_and_valid": 2,  # a r b, b r a
        "triples_in_train_and_test": 1,  # a r b
        "triples_in_valid_and_test": 2,  # a r b, b s b
        "statements_in_several_splits": 2,  # a r b stands in three
        "distinct_statements": 7,
    }
    assert not findings.clean


def test_a_graph_of_one_split_has_no_findings():
    findings = check_split(graph_of([Statement("a", "r", "b"), Statement("a", "r", "b", (("q", "v"),))]))
    assert findings.clean
    assert findings.distinct_statements == 2


@pytest.mark.skipif(not WD50K.is_dir(), reason="WD50K is not here")
def test_the_findings_of_wd50k():
    graph, _ = import_graph(WD50K)
    assert check_split(graph).as_dict() == {
        "entities_of_valid_not_in_train": 1339,
        "entities_of_test_not_in_train": 842,
        "relations_of_valid_not_in_train": 14,
        "relations_of_test_not_in_train": 2,
        "triples_in_train_and_valid": 676,
        "triples_in_train_and_test": 0,
        "triples_in_valid_and_test": 0,
        "statements_in_several_splits": 272,
        "distinct_statements": 236_235,
    }
