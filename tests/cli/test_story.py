"""The demo: what it holds out, and what it says in the end."""

import re
from collections.abc import Callable

import pytest

from starqe.cli.story import BY_IDENTIFIERS, BY_LABELS, FACT, without
from starqe.kg import embedded_graph
from starqe.queries import answer, read_sparql


def test_the_fact_is_held_out_of_training_and_validation_and_everything_else_stays() -> None:
    whole, graph = embedded_graph(), without(embedded_graph(), FACT)
    assert graph.vocabulary_fingerprint == whole.vocabulary_fingerprint
    (moved,) = set(whole.statements("train")) - set(graph.statements("train"))
    assert (moved.head, moved.relation, moved.tail) == FACT
    assert set(graph.statements("valid")) == set(whole.statements("valid"))
    assert set(graph.statements("test")) == {*whole.statements("test"), moved}


def test_the_question_is_the_same_by_identifiers_and_by_labels_and_needs_the_fact() -> None:
    graph = without(embedded_graph(), FACT)
    query = read_sparql(BY_LABELS, graph).query
    assert query == read_sparql(BY_IDENTIFIERS, graph).query
    assert [graph.entities.identifier(id_) for id_ in answer(graph.known(["train", "valid", "test"]), query)] == [FACT[2]]
    assert not len(answer(graph.known(["train", "valid"]), query))


@pytest.mark.slow
def test_the_demo_finds_the_held_out_answer(starqe: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = starqe("demo")
    assert (code, err) == (0, "")
    known, guessed = out.split("\n5. ")[1].split("\n6. ")
    assert re.search(r"ETH Zurich +ETHZurich +known", known)
    assert re.search(r"ETH Zurich +ETHZurich +predicted", guessed)  # among the first three
    assert re.search(r"fact +law of the photoelectric effect - discoverer or inventor - Albert Einstein", guessed)
    assert re.search(r"predicted 0\.\d\d Albert Einstein - educated at - ETH Zurich", guessed)
    starqe_mrr, frequency_mrr = re.findall(r"^ (?:starqe|most frequent for the relation) +([\d.]+)", out, re.MULTILINE)
    assert float(starqe_mrr) > float(frequency_mrr)
