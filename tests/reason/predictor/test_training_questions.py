import numpy as np
import pytest

from starqe.errors import InputError
from starqe.kg import Graph, Statement, embedded_graph, graph_of
from starqe.queries import SHAPES, answer_rows, sample
from starqe.queries.exact.entailed import Entailed
from starqe.queries.gaps import HEAD, MISSING, RELATION, TAIL, VALUE, Gaps, gaps_of
from starqe.queries.shape import INVERSE
from starqe.reason.predictor.config import PredictorTrainConfig
from starqe.reason.predictor.training_questions import TrainingQuestions, with_gap
from tests.reason.predicted import answers_by_name, gaps, tiny_graph

GRAPH = tiny_graph()


def answered(*written, splits=("train",), graph: Graph = GRAPH) -> list[list[str]]:
    return answers_by_name(graph, Entailed(graph.known(splits)).answered(gaps(graph, *written)))


class TestEntailed:
    def test_a_statement_also_holds_with_any_subset_of_its_pairs(self):
        assert answered(
            ("a", "r", "?", {}),
            ("a", "r", "?", {"q": "x"}),
            ("a", "r", "?", {"q": "y"}),
            ("a", "r", "?", (("q", "x"), ("q", "y"))),
            ("a", "r", "?", (("q", "y"), ("p", "z"))),  # both hold of a r c, but of two statements
        ) == [["b", "c"], ["b", "c"], ["c"], ["c"], []]

    def test_every_position_can_be_asked_for(self):
        assert answered(
            ("?", "r", "c", {}),
            ("?", "r", "c", {"q": "y"}),
            ("a", "?", "c", {}),
            ("a", "?", "c", {"q": "x"}),
            ("a", "r", "c", {"q": "?"}),
            ("a", "r", "c", (("q", "x"), ("q", "?"))),  # the given value is an answer, too: the statement has that pair
            ("a", "r", "c", {"p": "?"}),
            ("a", "r", "b", {"p": "?"}),
        ) == [["a", "e"], ["a", "e"], ["r", "s"], ["r"], ["x", "y"], ["x", "y"], ["z"], []]

    def test_splits_that_are_not_named_say_nothing(self):
        question = ("a", "r", "?", {"q": "x"})
        assert answered(question) == [["b", "c"]]
        assert answered(question, splits=("train", "valid")) == [["b", "c", "e"]]
        assert answered(question, splits=("train", "valid", "test")) == [["b", "c", "e", "y"]]

    def test_exactly_the_same_pairs_may_be_wanted(self):
        entailed = Entailed(GRAPH.known(["train", "valid", "test"]))
        asked = gaps(GRAPH, ("a", "r", "?", {"q": "x"}), ("a", "r", "?", {}), ("a", "s", "?", {}), ("a", "r", "?", {"q": "y"}))
        found = entailed.answers(asked, exactly=True)
        assert found.counts.tolist() == [3, 0, 1, 0]
        assert [GRAPH.entities.identifier(int(one)) for one in found.items] == ["b", "e", "y", "c"]

    def test_no_gaps_have_no_answers(self):
        assert answered() == []

    @pytest.mark.parametrize("shape", [SHAPES["1p"], INVERSE], ids=["tails", "heads"])
    def test_agrees_with_the_exact_engine_on_queries_of_one_edge(self, shape):
        graph = embedded_graph()
        table = sample(graph, shape, 300, "test", [(0, 3)], 1)
        for splits in (("train",), ("train", "valid", "test")):
            known = graph.known(splits)
            own, exact = Entailed(known).answers(gaps_of(table, np.arange(len(table)))), answer_rows(known, table)
            assert np.array_equal(own.offsets, exact.offsets)
            assert np.array_equal(own.items, exact.items)


def all_of(questions: TrainingQuestions, epoch: int = 0) -> list[tuple[int, int, int, tuple, tuple]]:
    """Returns the questions of an epoch as values, sorted."""
    found = []
    for batch in questions.batches(epoch):
        for row in range(len(batch)):
            span = slice(batch.pairs.offsets[row], batch.pairs.offsets[row + 1])
            pairs = tuple(zip(batch.pair_relation[span].tolist(), batch.pair_value[span].tolist(), strict=True))
            answers = tuple(batch.answers[row].tolist())
            found.append((int(batch.head[row]), int(batch.relation[row]), int(batch.tail[row]), pairs, answers))
    return sorted(found)


def config(**values: object) -> PredictorTrainConfig:
    return PredictorTrainConfig.parse({"batch": 4, "value_share": 0, "relation_share": 0, **values})


class TestStatements:
    def test_every_statement_asks_for_both_ends(self):
        questions = TrainingQuestions(GRAPH, config(weigh="statements", no_pairs=0, some_pairs=0), 0)
        assert questions.per_epoch == 12
        assert questions.steps_per_epoch == 3
        found = all_of(questions)
        train = GRAPH.known(["train"]).rows
        expected = [(int(GRAPH.head[row]), int(GRAPH.relation[row]), MISSING, tuple(GRAPH.pairs_of(row))) for row in train]
        expected += [(MISSING, int(GRAPH.relation[row]), int(GRAPH.tail[row]), tuple(GRAPH.pairs_of(row))) for row in train]
        assert [question[:4] for question in found] == sorted(expected)

    def test_equal_questions_without_pairs_are_asked_once(self):
        questions = TrainingQuestions(GRAPH, config(no_pairs=0, some_pairs=0), 0)
        # Tails: (a r), (a s), (e r), (x r), and the four statements with pairs. Heads: (r b), (r c), (s c), (r y), and again four.
        assert questions.per_epoch == 16
        found = [question[:4] for question in all_of(questions) if not question[3]]
        assert len(found) == len(set(found)) == 8

    def test_statements_that_ask_the_same_are_merged_into_questions_of_their_weight(self):
        triples = [("h", "r", f"t{i}") for i in range(5)] + [("h", "r", "with"), ("g", "r", "t0")]
        graph = graph_of(train=[Statement(*ends, (("q", "x"),) if ends[2] == "with" else ()) for ends in triples])
        questions = TrainingQuestions(graph, config(weigh="statements", merge=3, no_pairs=0, some_pairs=0), 0)
        asked = [
            (position, len(pairs), weight)
            for batch in questions.batches(0)
            for position, pairs, weight in zip(
                batch.position, np.split(batch.pair_value, batch.pairs.offsets[1:-1]), batch.weight, strict=True
            )
        ]
        # Five tails of h make two questions of 2.5, g one; t0 has two heads, the others one; the statement with a pair stays apart.
        tails = [(TAIL, 0, 2.5), (TAIL, 0, 2.5), (TAIL, 0, 1.0), (TAIL, 1, 1.0)]
        heads = [(HEAD, 0, 2.0), *[(HEAD, 0, 1.0)] * 4, (HEAD, 1, 1.0)]
        assert sorted(asked) == sorted(tails + heads)
        assert questions.per_epoch == len(asked) == 10
        assert sum(weight for _, _, weight in asked) == 2 * len(triples)

    def test_shares_of_the_statements_ask_for_values_and_relations(self):
        questions = TrainingQuestions(GRAPH, config(value_share=0.5, relation_share=0.34), 0)
        batch = next(questions.batches(0))
        assert questions.per_epoch == 16 + 3 + 2
        everything = [position for batch in questions.batches(0) for position in batch.position.tolist()]
        assert {position: everything.count(position) for position in (HEAD, TAIL, VALUE, RELATION)} == {
            HEAD: 8,
            TAIL: 8,
            VALUE: 3,
            RELATION: 2,
        }
        assert len(batch) == 4

    def test_no_more_values_are_asked_for_than_statements_have_pairs(self):
        assert TrainingQuestions(GRAPH, config(value_share=1), 0).per_epoch == 16 + 4

    @pytest.mark.parametrize(("none", "some", "allowed"), [(1, 0, {0}), (0, 0, {2}), (0, 1, {0, 1, 2}), (0.5, 0, {0, 2})])
    def test_pairs_are_left_out_by_the_probabilities_given(self, none, some, allowed):
        graph = graph_of(train=[Statement(f"h{i}", "r", f"t{i}", (("q", "x"), ("q", "y"))) for i in range(40)])
        questions = TrainingQuestions(graph, config(weigh="statements", no_pairs=none, some_pairs=some), 0)
        assert {len(question[3]) for question in all_of(questions)} == allowed

    def test_every_question_has_all_its_answers_and_at_least_the_one_it_came_from(self):
        graph = embedded_graph()
        questions = TrainingQuestions(graph, PredictorTrainConfig(value_share=0.3, relation_share=0.3), 3)
        known = graph.known(["train"])
        for batch in questions.batches(0):
            assert batch.answers.counts.min() >= 1
            for row in range(0, len(batch), 101):
                check_answers(known, batch, row)

    def test_the_seed_and_the_epoch_decide_the_questions(self):
        questions = TrainingQuestions(GRAPH, config(some_pairs=0.75), 7)
        again = TrainingQuestions(GRAPH, config(some_pairs=0.75), 7)
        assert all_of(questions) == all_of(again)
        first = [batch.head.tolist() for batch in questions.batches(0)]
        assert first == [batch.head.tolist() for batch in again.batches(0)]
        assert first != [batch.head.tolist() for batch in questions.batches(1)]
        assert first != [batch.head.tolist() for batch in TrainingQuestions(GRAPH, config(some_pairs=0.75), 8).batches(0)]

    def test_an_epoch_can_be_entered_in_its_middle(self):
        questions = TrainingQuestions(GRAPH, config(), 0)
        late = [batch.tail.tolist() for batch in questions.batches(2, start=2)]
        assert late == [batch.tail.tolist() for batch in questions.batches(2)][2:]

    def test_only_the_splits_named_are_learned_from(self):
        tails = {answer for question in all_of(TrainingQuestions(GRAPH, config(), 0)) for answer in question[4]}
        more = {answer for question in all_of(TrainingQuestions(GRAPH, config(splits=("train", "valid")), 0)) for answer in question[4]}
        # In train, e is a head: the answers differ in a question, not in the entities.
        assert tails == more
        count = [
            sum(len(question[4]) for question in all_of(TrainingQuestions(GRAPH, config(splits=s), 0)))
            for s in (("train",), ("train", "valid"))
        ]
        assert count[0] < count[1]

    def test_a_split_without_statements_is_refused(self):
        with pytest.raises(InputError, match="learns from statements, found none in valid"):
            TrainingQuestions(graph_of(train=[Statement("a", "r", "b")]), config(splits=("valid",)), 0)


def check_answers(known, batch: Gaps, row: int) -> None:
    """Checks the answers of a gap one entity (or relation) at a time."""
    graph = known.graph
    span = slice(batch.pairs.offsets[row], batch.pairs.offsets[row + 1])
    given = list(zip(batch.pair_relation[span].tolist(), batch.pair_value[span].tolist(), strict=True))
    found = []
    for candidate in range(len(graph.relations) if batch.position[row] == RELATION else len(graph.entities)):
        head, relation, tail = (
            candidate if one == MISSING else int(one) for one in (batch.head[row], batch.relation[row], batch.tail[row])
        )
        pairs = [(key, candidate if value == MISSING else value) for key, value in given]
        if known.holds(head, relation, tail, pairs):
            found.append(candidate)
    assert batch.answers[row].tolist() == found


def test_a_gap_can_leave_out_chosen_pairs():
    row = next(row for row in GRAPH.known(["train"]).rows if len(GRAPH.pairs_of(row)) == 2)
    rows = np.array([row])
    made = with_gap(GRAPH, rows, TAIL, np.array([False, True]))
    assert list(zip(made.pair_relation.tolist(), made.pair_value.tolist(), strict=True)) == GRAPH.pairs_of(row)[1:]
    hidden = with_gap(GRAPH, rows, VALUE, np.array([False, False]), np.array([1]))
    assert (hidden.pair_relation.tolist(), hidden.pair_value.tolist()) == ([GRAPH.pairs_of(row)[1][0]], [MISSING])
