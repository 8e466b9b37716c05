import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from starqe.ask import Answerer, constructed, ranking
from starqe.bench.serving import questions
from starqe.deadline import Deadline
from starqe.errors import DeadlineError, InputError, QueryError, StorageError
from starqe.kg import SPLITS, embedded_graph
from starqe.learn import Run, preset
from starqe.queries import Atom, Query, Variable, answer
from starqe.queries.layout import table_of_query
from starqe.queries.sparql.write import write_sparql
from starqe.reason.mixture import ENCODER

X, Y = Variable("x"), Variable("y")
ADVISED = Query.conjunction([Atom(X, "doctoralAdvisor", Y), Atom(Y, "educatedAt", "UniversityOfCambridge")], "x")
CAMBRIDGE = Query.conjunction([Atom(X, "educatedAt", "UniversityOfCambridge")], "x")


def entities(answers: object) -> list[str]:
    return [one.entity for one in answers]  # type: ignore[attr-defined]


def test_known_answers_come_first_and_are_those_that_the_graph_entails(answerer: Answerer) -> None:
    answers = answerer.ask(CAMBRIDGE, top=40)
    exact = answer(answerer.graph.known(["train", "valid", "test"]), CAMBRIDGE)
    assert [answerer.graph.entities.id(one.entity) for one in answers.known] == exact.tolist()
    assert [one.known for one in answers] == sorted((one.known for one in answers), reverse=True)
    assert {one.probability for one in answers.known} == {1.0}
    assert len(answers.predicted) == 40


def test_predicted_answers_are_not_known_and_their_probabilities_fall(answerer: Answerer) -> None:
    answers = answerer.ask(ADVISED, top=60)
    chances = [one.probability for one in answers.predicted]
    assert chances == sorted(chances, reverse=True)
    assert not {one.entity for one in answers.predicted} & {one.entity for one in answers.known}
    assert all(0 <= chance <= 1 for chance in chances)


def test_splits_that_do_not_count_as_known_turn_known_answers_into_candidates(askable_run: Path, answerer: Answerer) -> None:
    train = Answerer.open(askable_run, splits=["train"])
    few, all_ = train.ask(CAMBRIDGE, known_only=True), answerer.ask(CAMBRIDGE, known_only=True)
    assert few.known_splits == ("train",)
    assert set(entities(few)) < set(entities(all_))
    ranked = train.ask(CAMBRIDGE, top=len(answerer.graph.entities))
    assert set(entities(all_)) - set(entities(few)) <= set(entities(ranked.predicted))


def test_the_encoder_alone_ranks_as_the_encoder_does(askable_run: Path, answerer: Answerer) -> None:
    alone = Answerer.open(askable_run, by="encoder")
    assert alone.weights == ENCODER
    assert alone.probability != answerer.probability  # each ranking has its own
    ranked = [answerer.graph.entities.id(one.entity) for one in alone.ask(ADVISED, top=len(answerer.graph.entities)).predicted]
    scores = (
        Run.open(askable_run)
        .scorer()
        .scores(table_of_query(ADVISED, answerer.graph), np.array([0]), torch.empty(1, len(alone.graph.entities)))
    )
    assert torch.diff(scores[0, ranked]).max() <= 1e-5
    assert entities(alone.ask(ADVISED, known_only=True)) == entities(answerer.ask(ADVISED, known_only=True))


def test_warming_up_builds_what_queries_need_and_changes_no_answer(askable_run: Path, answerer: Answerer) -> None:
    warm = Answerer.open(askable_run)
    warm.warm_up()
    assert {"_relation_head_index", "_relation_tail_index", "_triple_index", "_owner_index"} <= vars(warm.graph.known(SPLITS)).keys()
    assert "search" in vars(warm.graph.entities)
    assert warm.ask(ADVISED, top=30) == answerer.ask(ADVISED, top=30)


def test_without_a_number_only_probable_predictions_are_shown(answerer: Answerer) -> None:
    assert not answerer.ask(CAMBRIDGE, threshold=1.0).predicted
    everything = answerer.ask(CAMBRIDGE, threshold=0.0)
    assert len(everything.predicted) == 100
    levels = sorted({one.probability for one in everything.predicted})
    half = answerer.ask(CAMBRIDGE, threshold=levels[len(levels) // 2])
    assert entities(half.predicted) == [one.entity for one in everything.predicted if one.probability >= levels[len(levels) // 2]]
    assert 0 < len(half.predicted) < 100


def test_known_only_leaves_predictions_out(answerer: Answerer) -> None:
    assert not answerer.ask(CAMBRIDGE, known_only=True, top=99).predicted


def test_limit_and_offset_cut_one_ranking(answerer: Answerer) -> None:
    text = write_sparql(CAMBRIDGE, answerer.graph.names)
    whole = answerer.ask(f"{text}\nLIMIT 30")
    part = answerer.ask(f"{text}\nLIMIT 10 OFFSET 15")
    assert entities(part) == entities(whole)[15:25]
    both = answerer.ask(f"{text}\nLIMIT 30", top=7)
    assert entities(both) == [*entities(whole)[:7], *(one.entity for one in whole.predicted[:7])]


def test_text_and_query_have_the_same_answers(answerer: Answerer) -> None:
    asked = answerer.ask(write_sparql(ADVISED, answerer.graph.names), top=30)
    # To SPARQL, the node of a statement is as good a subject as an entity.
    assert [one.entity for one in asked if one.bindings["x"].kind == "entity"] == entities(answerer.ask(ADVISED, top=30))


def test_several_queries_together_are_answered_as_one_by_one(askable_run: Path) -> None:
    batch, single = Answerer.open(askable_run), Answerer.open(askable_run)  # two, since each remembers its rankings
    queries = [CAMBRIDGE, ADVISED, Query.conjunction([Atom("AlbertEinstein", "educatedAt", X)], "x"), CAMBRIDGE]
    together = batch.ask_many(queries, top=25)
    for query, answers in zip(queries, together, strict=True):
        fresh = single.ask(query, top=25)
        assert entities(answers) == entities(fresh)
        assert [one.probability for one in answers] == pytest.approx([one.probability for one in fresh], abs=1e-5)


@pytest.mark.full
def test_probabilities_do_not_depend_on_what_is_asked_at_the_same_time(askable_run: Path) -> None:
    batch, single = Answerer.open(askable_run), Answerer.open(askable_run)
    texts = list(questions(batch.graph, per_shape=8))
    for text, answers in zip(texts, batch.ask_many(texts, top=20), strict=True):
        assert [one.probability for one in answers] == pytest.approx([one.probability for one in single.ask(text, top=20)], abs=1e-6)


def test_every_known_row_is_given_and_counted(answerer: Answerer) -> None:
    text = 'SELECT ?x ?y { ?x "educated at" ?y . ?x "place of birth" ?z . ?z "country" "Germany" }'
    answers = answerer.ask(text, known_only=True)
    known, ids, graph = answerer.graph.known(SPLITS), answerer.graph.entities.id, answerer.graph
    relation = [graph.relations.id(name) for name in ("educatedAt", "bornIn", "country")]
    born = {s.head for s in graph.statements(*SPLITS) if s.relation == "bornIn" and known.holds(ids(s.tail), relation[2], ids("Germany"))}
    expected = {(s.head, s.tail) for s in graph.statements(*SPLITS) if s.relation == "educatedAt" and s.head in born}
    rows = [(one.entity, one.support["y"]) for one in answers]
    assert len(rows) == len(set(rows))
    assert set(rows) == expected
    assert len({entity for entity, _ in rows}) < len(rows) == answers.counts.known
    part = answerer.ask(f"{text} LIMIT 5 OFFSET 3")
    assert [(one.entity, one.support["y"]) for one in part] == rows[3:8]
    assert (part.counts.known, part.counts.known_shown, part.counts.predicted_shown) == (len(rows), 5, 0)


@pytest.mark.parametrize(
    "pattern",
    ["?who r:bornIn ?where . ?other r:bornIn ?place", "?who r:bornIn ?where { ?other r:bornIn ?place } UNION { ?place r:bornIn ?other }"],
    ids=["joins", "store"],
)
def test_construct_makes_every_triple_however_many_rows_make_it(answerer: Answerer, pattern: str) -> None:
    born = {(s.head, s.tail) for s in answerer.graph.statements(*SPLITS) if s.relation == "bornIn"}
    text = f"CONSTRUCT {{ ?where <urn:birthplaceOf> ?who }} {{ {pattern} }}"
    (answers,) = answerer.ask_many([text], known_only=True, max_known=len(born))
    assert (answers.counts.known, answers.notes) == (len(born), ())
    term = answerer.graph.names.entities.term
    expected = {f"{term(where)} <urn:birthplaceOf> {term(who)} ." for who, where in born}
    assert set(constructed(answerer.read(text).template, answers, answerer.graph.names)) == expected


def test_an_empty_template_makes_no_triples(answerer: Answerer) -> None:
    text = "CONSTRUCT { } { ?who r:bornIn ?where }"
    assert constructed(answerer.read(text).template, answerer.ask(text, known_only=True), answerer.graph.names) == []
    short = answerer.read("CONSTRUCT WHERE { ?who r:bornIn ?where }")
    assert len(short.template) == 1


def test_construct_skips_rows_and_not_triples(answerer: Answerer) -> None:
    born = sum(s.relation == "bornIn" for s in answerer.graph.statements(*SPLITS))
    text = f"CONSTRUCT {{ ?who a <urn:born> }} {{ ?who r:bornIn ?where . ?other r:bornIn ?place }} OFFSET {born}"
    assert len(answerer.ask(text, known_only=True)) == born * born - born


def test_a_template_without_variables_needs_one_row(answerer: Answerer) -> None:
    text = "CONSTRUCT { <urn:a> <urn:b> <urn:c> } { ?who r:bornIn ?where { ?a r:bornIn ?b } UNION { ?b r:bornIn ?a } }"
    answers = answerer.ask(text, known_only=True)
    assert (len(answers), answers.counts.known_exact) == (1, True)
    assert constructed(answerer.read(text).template, answers, answerer.graph.names) == ["<urn:a> <urn:b> <urn:c> ."]


def test_known_and_predicted_answers_have_a_quota_each(answerer: Answerer) -> None:
    total = len(answerer.ask(CAMBRIDGE, known_only=True))
    answers = answerer.ask(CAMBRIDGE, top=3)
    assert [one.known for one in answers] == [True] * 3 + [False] * 3
    assert (answers.counts.known, answers.counts.known_exact) == (total, True)
    assert (answers.counts.known_shown, answers.counts.predicted_shown) == (3, 3)
    limited = answerer.ask(f"{write_sparql(CAMBRIDGE, answerer.graph.names)}\nLIMIT {total + 2} OFFSET 1")
    assert [one.known for one in limited] == [True] * (total - 1) + [False] * 3


def test_several_columns_are_tuples_known_and_predicted(answerer: Answerer) -> None:
    text = """SELECT ?x ?y ?score ?known { ?x "doctoral advisor" ?y ; "place of birth" ?z .
                                         ?y "educated at" "University of Cambridge" } LIMIT 12"""
    answers = answerer.ask(text)
    known = answerer.graph.known(["train", "valid", "test"])
    ids = answerer.graph.entities.id
    relation = answerer.graph.relations.id
    assert answers.columns == ("x", "y", "score", "known")
    for one in answers.known:
        assert known.holds(ids(one.entity), relation("doctoralAdvisor"), ids(one.support["y"]))
        assert known.holds(ids(one.support["y"]), relation("educatedAt"), ids("UniversityOfCambridge"))
    rows = [(one.entity, one.support["y"]) for one in answers]
    assert len(rows) == len(set(rows)) == 12
    for one in answers.predicted:
        assert not known.holds(ids(one.entity), relation("doctoralAdvisor"), ids(one.support["y"])) or not known.holds(
            ids(one.support["y"]), relation("educatedAt"), ids("UniversityOfCambridge")
        )
    chances = [one.probability for one in answers.predicted]
    assert chances == sorted(chances, reverse=True)
    assert 0 < chances[-1] <= chances[0] < 1
    assert all(one.bindings["y"].kind == "entity" and one.bindings["y"].label for one in answers)
    assert answers.rows()[0].keys() == {"x", "y", "score", "known", "label", "probability"}


def test_a_variable_named_as_a_key_keeps_its_answers(answerer: Answerer) -> None:
    label, chance = Variable("label"), Variable("probability")
    query = Query.conjunction(
        [Atom(label, "doctoralAdvisor", chance), Atom(chance, "educatedAt", "UniversityOfCambridge")], "label", "probability"
    )
    answers = answerer.ask(query, top=4)
    plain = answerer.ask(Query(ADVISED.formula, (X, Variable("y"))), top=4)
    table = answers.to_arrow()
    assert table.column_names == ["label", "probability", "answer_label", "known", "answer_probability"]
    assert table["label"].to_pylist() == entities(plain)
    assert table["probability"].to_pylist() == [one.support["y"] for one in plain]
    assert table["answer_label"].to_pylist() == [one.label for one in plain]
    assert table["answer_probability"].to_pylist() == pytest.approx([one.probability for one in plain])


def test_answers_become_arrow_and_pandas_tables(answerer: Answerer) -> None:
    answers = answerer.ask(CAMBRIDGE, top=9)
    table = answers.to_arrow()
    assert table.column_names == ["x", "label", "known", "probability"]
    assert table["x"].to_pylist() == entities(answers)
    frame = pytest.importorskip("pandas") and answers.to_pandas()
    assert frame["probability"].tolist() == [one.probability for one in answers]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.permutations([0, 1, 2]), st.permutations(["a", "b", "target"]))
def test_names_of_variables_and_order_of_atoms_change_no_answer(answerer: Answerer, order: list[int], names: list[str]) -> None:
    def query(order: list[int], names: list[str]) -> Query:
        a, b, t = map(Variable, names)
        atoms = [Atom("AlbertEinstein", "educatedAt", a), Atom(b, "educatedAt", a), Atom(b, "memberOf", t)]
        return Query.conjunction([atoms[i] for i in order], t.name)

    assert entities(answerer.ask(query(order, names), top=20)) == entities(answerer.ask(query([0, 1, 2], ["a", "b", "target"]), top=20))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10_000))
def test_adding_a_qualifier_never_adds_a_known_answer(answerer: Answerer, number: int) -> None:
    graph = answerer.graph
    qualified = np.flatnonzero(graph.pairs.counts)
    statement = graph.statement(int(qualified[number % len(qualified)]))
    plain = Query.conjunction([Atom(statement.head, statement.relation, X)], "x")
    narrow = Query.conjunction([Atom(statement.head, statement.relation, X, statement.qualifiers[:1])], "x")
    assert set(entities(answerer.ask(narrow, known_only=True))) <= set(entities(answerer.ask(plain, known_only=True)))


def test_what_has_no_shape_is_predicted_by_the_executor_and_says_what_was_cut(answerer: Answerer) -> None:
    query = Query.conjunction([Atom(X, "doctoralAdvisor", X), Atom(X, "educatedAt", "UniversityOfCambridge")], "x")
    answers = answerer.ask(query, top=5)
    assert len(answers.predicted) == 5
    assert "the search was cut" in answers.notes[0]


def test_too_many_atoms_are_refused(answerer: Answerer) -> None:
    with pytest.raises(QueryError, match="at most 1"):
        answerer.ask(ADVISED, max_atoms=1)
    with pytest.raises(QueryError, match="1"):
        answerer.ask(write_sparql(ADVISED, answerer.graph.names), max_atoms=1)


def test_a_known_answer_is_explained_by_the_statements_that_prove_it(answerer: Answerer) -> None:
    first = answerer.ask(ADVISED).known[0]
    explanation = answerer.explain(ADVISED, first.entity)
    assert explanation.answer.known
    assert [reason.fact for reason in explanation.reasons] == [True, True]
    for reason in explanation.reasons:
        assert all((s.head, s.relation, s.tail) == (reason.atom.head, reason.atom.relation, reason.atom.tail) for s in reason.statements)
        assert reason.statements
    assert explanation.assignment["x"] == first.entity


def test_a_predicted_answer_is_explained_by_facts_and_predictions(answerer: Answerer) -> None:
    query = Query.conjunction([Atom(X, "educatedAt", "UniversityOfCambridge", (("academicDegree", "BachelorOfArts"),))], "x")
    one = answerer.ask(query, top=60).predicted[0]
    explanation = answerer.explain(query, one.entity)
    (reason,) = explanation.reasons
    assert not reason.fact
    assert explanation.answer.probability == pytest.approx(one.probability)
    assert reason.atom.head == one.entity
    (contribution,) = reason.contributions
    assert (contribution.relation, contribution.value) == ("academicDegree", "BachelorOfArts")
    plain = answerer.explain(CAMBRIDGE, one.entity).reasons[0]
    assert contribution.difference == pytest.approx(reason.probability - plain.probability, abs=1e-5)


def test_a_pair_that_turns_a_fact_into_a_guess_contributes_the_doubt(answerer: Answerer) -> None:
    facts = {one.entity for one in answerer.ask(CAMBRIDGE, known_only=True)}
    pair = (("academicDegree", "BachelorOfArts"),)
    query = Query.conjunction([Atom(X, "educatedAt", "UniversityOfCambridge", pair)], "x")
    doubted = next(one for one in answerer.ask(query, top=len(answerer.graph.entities)).predicted if one.entity in facts)
    (reason,) = answerer.explain(query, doubted.entity).reasons
    assert reason.contributions[0].difference == pytest.approx(reason.probability - 1.0)


@pytest.mark.parametrize("place", [0, 150, -1], ids=["first", "beyond the first hundred", "last"])
def test_an_explanation_has_the_probability_of_its_answer_at_any_rank(askable_run: Path, answerer: Answerer, place: int) -> None:
    one = answerer.ask(CAMBRIDGE, top=len(answerer.graph.entities)).predicted[place]
    assert Answerer.open(askable_run).explain(CAMBRIDGE, one.entity).answer.probability == pytest.approx(one.probability)


def test_a_question_stops_at_its_deadline(askable_run: Path) -> None:
    fresh = Answerer.open(askable_run)  # nothing is remembered
    predicted = fresh.ask(ADVISED, top=60).predicted[0].entity
    late = Deadline(0)
    for work in (
        lambda: Answerer.open(askable_run).ask(ADVISED, top=60, deadline=late),
        lambda: fresh.explain(ADVISED, predicted, deadline=late),
        lambda: fresh.ask_many([ADVISED, CAMBRIDGE], top=60, deadline=Deadline(60, wanted=lambda: False)),
    ):
        with pytest.raises(DeadlineError):
            work()


def test_an_explanation_says_where_its_probability_comes_from(answerer: Answerer) -> None:
    one = answerer.ask(ADVISED, top=5).predicted[0]
    explanation = answerer.explain(ADVISED, one.entity)
    views = explanation.views
    assert views is not None
    product = np.prod([reason.probability for reason in explanation.reasons])
    assert views.statements == pytest.approx(product, abs=1e-5)
    assert 0 <= views.model <= 1
    table, row = table_of_query(ADVISED, answerer.graph), np.array([0])
    scores = answerer.reasoner.encoder.scores(table, row, torch.empty(1, len(answerer.graph.entities)))
    assert views.model == pytest.approx(float(scores.softmax(1)[0, answerer.graph.entities.id(one.entity)]), rel=1e-4)
    assert views.weight == answerer.weights.of(table.shape)
    assert ("beam" in explanation.note) == (not views.exact)
    assert answerer.explain(ADVISED, answerer.ask(ADVISED).known[0].entity).views is None


class SlowToForget(dict[Any, Any]):
    """A dictionary that lets other threads run between the choice of a key and its removal."""

    def pop(self, key: Any, *default: Any) -> Any:
        time.sleep(0.001)
        return super().pop(key, *default)


@pytest.mark.full
def test_many_threads_get_the_answers_of_one(askable_run: Path, answerer: Answerer) -> None:
    people = [one.entity for one in answerer.ask(CAMBRIDGE, known_only=True)]
    questions = [Query.conjunction([Atom(person, name, X)], "x") for person in people for name in ("educatedAt", "bornIn", "award")]
    expected = [entities(answerer.ask(query, top=3)) for query in questions]
    shared = Answerer.open(askable_run)
    shared._ranking._kept = SlowToForget()
    order = np.random.default_rng(0).integers(len(questions), size=400)
    with ThreadPoolExecutor(16) as pool, patch.object(ranking, "_KEPT", 20):  # so that it forgets all the time
        found = list(pool.map(lambda place: entities(shared.ask(questions[place], top=3)), order.tolist()))
    assert found == [expected[place] for place in order]


def test_an_unknown_entity_cannot_be_explained(answerer: Answerer) -> None:
    with pytest.raises(InputError, match="Nobody"):
        answerer.explain(CAMBRIDGE, "Nobody")


def test_a_run_that_was_not_calibrated_says_what_to_do(tmp_path: Path) -> None:
    Run.create(tmp_path / "run", preset("demo"), embedded_graph())
    with pytest.raises(StorageError, match=r"was not calibrated.*starqe calibrate"):
        Answerer.open(tmp_path / "run")


@pytest.mark.parametrize("name", ["ETHZurich", "ETH Zurich", "eth zurich"])
def test_an_explained_entity_is_named_as_in_a_query(answerer: Answerer, name: str) -> None:
    found = answerer.explain('SELECT ?x { "Albert Einstein" "educated at" ?x }', name)
    assert found.answer.entity == "ETHZurich"
    assert found.answer.known
