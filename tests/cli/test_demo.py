"""The demo: what it holds out, and what it says in the end."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from starqe.ask import Answerer
from starqe.cli.demo import BY_IDENTIFIERS, BY_LABELS, FACT, without
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
def test_the_demo_finds_the_held_out_answer_and_its_run_can_be_asked(starqe: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    kept = tmp_path / "run"
    code, out, err = starqe("demo", "--out", kept)
    assert (code, err) == (0, "")
    known, guessed = out.split("\n5. ")[1].split("\n6. ")
    assert re.search(r"ETH Zurich +ETHZurich +known", known)
    assert re.search(r"ETH Zurich +ETHZurich +predicted", guessed)  # among the first three
    assert re.search(r"fact +law of the photoelectric effect - discoverer or inventor - Albert Einstein", guessed)
    assert re.search(r"predicted 0\.\d\d Albert Einstein - educated at - ETH Zurich", guessed)
    starqe_mrr, frequency_mrr = re.findall(r"^ (?:starqe|most frequent for the relation) +([\d.]+)", out, re.MULTILINE)
    assert float(starqe_mrr) > float(frequency_mrr)

    printed = out[out.index(f"The model is in {kept}. Next:") :].splitlines()
    asked, served = (shlex.split(line) for line in printed[1:3])
    assert asked[:3] == ["starqe", "ask", str(kept)]
    assert served == ["starqe", "serve", str(kept)]
    code, answered, _ = starqe(*asked[1:])
    assert code == 0
    assert "ETH Zurich" in answered
    from starqe.serve import create_app

    assert create_app(Answerer.open(kept))
    code, _, err = starqe("demo", "--out", kept)
    assert code == 1
    assert "exists already" in err
