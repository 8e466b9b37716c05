"""A graph that is newer than the model: facts about everything, predictions about what the model knows."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from starqe.ask import Answerer
from starqe.errors import MismatchError, UnsupportedError
from starqe.kg import Changes, Graph, Statement, embedded_graph, graph_of, update_graph
from starqe.kg.update import part_before

NEW = [
    Statement("NewPerson", "bornIn", "Ulm"),
    Statement("NewPerson", "educatedAt", "ETHZurich", (("academicDegree", "NewDegree"),)),
    Statement("AlbertEinstein", "friendOf", "NewPerson"),
    Statement("NielsBohr", "bornIn", "Ulm"),
]
NOTHING = "is newer than the model: known facts are given, and nothing is predicted for it"


@pytest.fixture(scope="module")
def graph() -> Graph:
    grown, report = update_graph(embedded_graph(), Changes.of([graph_of(NEW)]))
    assert (report.new_entities, report.new_relations) == (2, 1)
    return grown


@pytest.fixture(scope="module")
def newer(askable_run: Path, graph: Graph) -> Iterator[Answerer]:
    answerer = Answerer.open(askable_run, graph)
    answerer.warm_up()
    yield answerer
    answerer.close()


def test_the_part_before_has_what_is_said_about_what_was_there(graph: Graph) -> None:
    old = embedded_graph()
    part = part_before(graph, len(old.entities), len(old.relations))
    assert part.vocabulary_fingerprint == old.vocabulary_fingerprint
    added = {part.statement(row) for row in range(len(part))} - {old.statement(row) for row in range(len(old))}
    assert added == {Statement("NielsBohr", "bornIn", "Ulm")}


@pytest.mark.parametrize(
    ("query", "known", "named"),
    [
        ('SELECT ?x { "NewPerson" "educated at" ?x }', ["ETHZurich"], "'NewPerson'"),
        ('SELECT ?x { "Albert Einstein" "friendOf" ?x }', ["NewPerson"], "'friendOf'"),
        ('SELECT ?x { ?x "educated at" "ETHZurich" {| "academic degree" "NewDegree" |} }', ["NewPerson"], "'NewDegree'"),
    ],
)
def test_what_is_newer_is_answered_by_facts_and_says_so(newer: Answerer, query: str, known: list, named: str) -> None:
    answers = newer.ask(query, top=5)
    assert [answer.entity for answer in answers.known] == known
    assert not answers.predicted
    assert answers.notes[0].startswith(f"{named} {NOTHING}")
    assert newer.ask(query, known_only=True).notes == ()


def test_others_are_predicted_and_facts_about_the_new_ones_are_known(newer: Answerer) -> None:
    answers = newer.ask('SELECT ?x { ?x "place of birth" "Ulm" }', top=5)
    assert {answer.entity for answer in answers.known} == {"AlbertEinstein", "NewPerson", "NielsBohr"}
    assert len(answers.predicted) == 5
    assert not any(NOTHING in note for note in answers.notes)
    everybody = newer.ask('SELECT ?x { ?x "place of birth" "Ulm" }', top=700)
    assert len(everybody.predicted) == len(embedded_graph().entities) - 2  # Einstein and Bohr are known, and new ones never predicted
    assert "NewDegree" not in {answer.entity for answer in everybody.predicted}


def test_known_rows_are_proved_and_others_explained_only_if_the_model_knows_them(newer: Answerer) -> None:
    query = 'SELECT ?x { ?x "place of birth" "Ulm" }'
    assert newer.explain(query, "NewPerson").answer.known
    assert not newer.explain(query, "MarieCurie").answer.known
    with pytest.raises(UnsupportedError, match="the graph is newer than it"):
        newer.explain(query, "NewDegree")
    with pytest.raises(UnsupportedError, match=f"'NewPerson' {NOTHING}"):
        newer.explain('SELECT ?x { "NewPerson" "educated at" ?x }', "Ulm")


def test_a_graph_that_was_numbered_anew_is_refused(askable_run: Path) -> None:
    old = embedded_graph()
    anew = graph_of([*old.statements("train"), *NEW], old.statements("valid"), old.statements("test"))
    with pytest.raises(MismatchError, match="or with one that data update has appended to"):
        Answerer.open(askable_run, anew)
