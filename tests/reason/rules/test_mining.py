"""Rules are counted by hand on graphs of a few statements."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starqe.kg import Graph, Statement, graph_of
from starqe.reason.rules.mining import LEAST_CONFIDENCE, lower_bound, mine
from starqe.reason.rules.rule_table import Rules
from tests.queries.strategies import random_statements


def counted(graph: Graph, seed: int = 0) -> dict[str, tuple[int, int]]:
    """The rules in words, with how often each was right, and how often it said something."""
    rules = mine(graph.known(["train"]), seed)
    return {rules.words(rule): (int(rules.support[rule]), int(rules.body[rule])) for rule in range(len(rules))}


@pytest.fixture
def towns() -> Graph:
    """Four people work where they live, one elsewhere; each town is in a country, whose citizens three of them are."""
    live = [Statement(f"p{i}", "livesIn", f"t{i}") for i in range(5)]
    work = [Statement(f"p{i}", "worksIn", f"t{i}") for i in range(4)] + [Statement("p4", "worksIn", "t0")]
    country = [Statement(f"t{i}", "country", f"c{i}") for i in range(5)]
    citizen = [Statement(f"p{i}", "citizenOf", f"c{i}") for i in range(3)] + [Statement("p3", "citizenOf", "c0")]
    return graph_of(train=[*live, *work, *country, *citizen])


def test_a_path_of_one_step_is_right_as_often_as_both_statements_are_there(towns: Graph) -> None:
    # Five people live somewhere and work somewhere: four of them where they live.
    assert counted(towns)["if X - livesIn - Y, then X - worksIn - Y"] == (4, 5)


def test_a_path_of_two_steps_is_counted_for_those_who_have_an_answer(towns: Graph) -> None:
    # Of p0 … p4, only p0 … p3 are citizens of something that is known: three of them of the country of their town.
    found = counted(towns)
    assert found["if X - livesIn - Z and Z - country - Y, then X - citizenOf - Y"] == (3, 4)
    # From the country: c0 … c2 are asked; c0 has the citizens p0 and p3, and the inhabitant p0.
    assert found["if Z - country - X and Y - livesIn - Z, then Y - citizenOf - X"] == (3, 3)


def test_a_shared_value_counts_those_who_have_it() -> None:
    french = [Statement(f"p{i}", "bornIn", "paris") for i in range(5)] + [Statement(f"p{i}", "speaks", "french") for i in range(4)]
    others = [Statement("p4", "speaks", "german"), Statement("p5", "bornIn", "paris")]
    # p0 … p5 were born in Paris; p5 speaks nothing that is known, so nothing is said of p5.
    assert counted(graph_of(train=[*french, *others]))["if X - bornIn - paris, then X - speaks - french"] == (4, 5)


def test_what_is_usual_counts_every_head_once() -> None:
    graph = graph_of(train=[Statement(f"p{i}", "speaks", "french") for i in range(3)] + [Statement("p3", "speaks", "german")])
    assert counted(graph)["always: X - speaks - french"] == (3, 4)


AWARDS = [Statement(f"p{i}", "award", "prize", (("for", f"w{i}"),)) for i in range(4)]


def test_a_qualifier_in_the_body_leads_to_a_value() -> None:
    graph = graph_of(train=[*AWARDS, *(Statement(f"p{i}", "wrote", f"w{i}") for i in range(3)), Statement("p3", "wrote", "other")])
    assert counted(graph)["if X - award - … (for: Y), then X - wrote - Y"] == (3, 4)


def test_a_qualifier_in_the_head_has_a_value_to_ask_for_or_one_that_is_given() -> None:
    graph = graph_of(train=[*AWARDS, *(Statement(f"p{i}", "wrote", f"w{i}") for i in range(3)), Statement("p3", "wrote", "other")])
    found = counted(graph)
    assert found["if X - wrote - Y, then X - award - … (for: Y)"] == (3, 4)
    assert found["if Y - wrote - X, then Y - award - … (for: X)"] == (3, 3)
    given_value = graph_of(train=[Statement(f"p{i}", "award", "prize" if i < 3 else "medal", (("by", "society"),)) for i in range(4)])
    assert counted(given_value)["always: … - award - prize (by: society)"] == (3, 4)


def test_a_statement_does_not_support_itself() -> None:
    # Each work is known from the award alone. Were the statement to support itself, "whose award is for X is X's winner" would always hold.
    rules = [words for words in counted(graph_of(train=AWARDS)) if words.startswith("if")]
    assert [words for words in rules if "Y" in words] == []
    # A second statement with the same triple does support it.
    twice = [*AWARDS, *(Statement(f"p{i}", "award", "prize", (("for", f"w{i}"), ("in", "1900"))) for i in range(4))]
    assert counted(graph_of(train=twice))["if Y - award - … (for: X), then Y - award - … (for: X)"] == (4, 4)


def test_a_step_to_many_others_is_not_taken() -> None:
    hub = [Statement(f"p{i}", "bornIn", "town") for i in range(40)] + [Statement(f"p{i}", "diedIn", "town") for i in range(40)]
    found = counted(graph_of(train=hub))
    assert found["if X - bornIn - Y, then X - diedIn - Y"] == (40, 40)
    assert "if Y - bornIn - X, then Y - diedIn - X" not in found


def test_the_lower_bound_is_wilsons() -> None:
    # Of 10 of 10: 1 / (1 + z²/10) = 1 / 1.270603. Of 1 of 2: (0.5 + 0.6765 - 1.645 √0.294128) / 2.353.
    assert lower_bound(np.array([10, 1]), np.array([10, 2])) == pytest.approx([0.787028, 0.12085], abs=1e-4)


def test_rules_below_the_least_confidence_are_left_out() -> None:
    wide = [Statement(f"p{i}", "likes", f"x{i}") for i in range(1000)] + [Statement(f"q{i}", "likes", "y") for i in range(3)]
    assert "always: X - likes - y" not in counted(graph_of(train=wide))
    assert lower_bound(np.array([3]), np.array([1003]))[0] < LEAST_CONFIDENCE


@settings(max_examples=5, deadline=None)
@given(st.lists(random_statements("abcdef", "rs", 2), min_size=6, max_size=40))
def test_only_the_given_statements_count(statements: list[Statement]) -> None:
    half = len(statements) // 2
    alone = graph_of(train=statements[:half] or statements)
    # The same vocabulary in both: the other half is in test.
    whole = graph_of(train=statements[:half] or statements, test=[one for one in statements[half:] if one not in statements[:half]])
    assert counted(alone) == counted(whole)


def test_equal_seeds_give_equal_rules_and_large_graphs_are_counted_on_a_part(towns: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    def numbers(rules: Rules) -> list[list[int]]:
        return [getattr(rules, name).tolist() for name in ("head", "first", "second", "value", "answer", "support", "body")]

    assert numbers(mine(towns.known(["train"]), 1)) == numbers(mine(towns.known(["train"]), 1))
    whole = counted(towns)
    monkeypatch.setattr("starqe.reason.rules.mining.COUNTED", 30)  # of 38 steps; those that rules take are not fewer
    part = counted(towns)
    assert part != whole
    assert all(body <= whole[words][1] for words, (_, body) in part.items() if words.startswith("if"))


def test_shared_values_are_counted_on_all_entities_of_large_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    people = [Statement(f"p{i}", "livesIn", "Town") for i in range(9)] + [Statement(f"p{i}", "worksFor", "Firm") for i in range(6)]
    graph = graph_of(train=people)
    monkeypatch.setattr("starqe.reason.rules.mining.COUNTED", 4)
    # Of 9 that live in Town, 6 work for someone, and all of these for Firm: no seed may leave any of them out.
    assert all(counted(graph, seed)["if X - livesIn - Town, then X - worksFor - Firm"] == (6, 6) for seed in range(5))
