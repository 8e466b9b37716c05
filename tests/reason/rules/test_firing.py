from dataclasses import replace

import numpy as np
import pytest
import torch

from starqe.kg import Graph, Statement, graph_of
from starqe.queries import SHAPES, Atom, Query, Variable
from starqe.queries.gaps import TAIL, VALUE, Gaps, gaps_of, stack_gaps, with_gap
from starqe.queries.layout import table_of_query
from starqe.queries.shape import INVERSE
from starqe.reason.rules.firing import SMALL, RuleBook
from starqe.reason.rules.mining import mine

X = Variable("x")
SHAPES_OF_ONE = {"1p": SHAPES["1p"], INVERSE.name: INVERSE}
PATH = "if X - livesIn - Z and Z - country - Y, then X - citizenOf - Y"


@pytest.fixture(scope="module")
def graph() -> Graph:
    live = [Statement(f"p{i}", "livesIn", f"t{i}") for i in range(5)]
    country = [Statement(f"t{i}", "country", f"c{i}") for i in range(5)]
    citizen = [Statement(f"p{i}", "citizenOf", f"c{i}") for i in range(4)]
    award = [Statement(f"p{i}", "award", "prize", (("by", "society"), ("for", f"w{i}"))) for i in range(4)]
    wrote = [Statement(f"p{i}", "wrote", f"w{i}") for i in range(5)]
    return graph_of(train=[*live, *country, *citizen, *award, *wrote], valid=[Statement("p4", "citizenOf", "c4")])


@pytest.fixture(scope="module")
def book(graph: Graph) -> RuleBook:
    return RuleBook(mine(graph.known(["train"])), graph.known(["train"]))


def asked(graph: Graph, atom: Atom) -> Gaps:
    return gaps_of(table_of_query(Query.conjunction([atom], "x"), graph, shapes=SHAPES_OF_ONE), [0])


def rules_for(book: RuleBook, graph: Graph, gaps: Gaps, answer: str) -> list[str]:
    return [book.rules.words(rule) for rule in book.why(gaps, graph.entities.id(answer), 50)]


def test_a_path_suggests_what_it_leads_to(book: RuleBook, graph: Graph) -> None:
    assert PATH in rules_for(book, graph, asked(graph, Atom("p4", "citizenOf", X)), "c4")
    backward = "if Z - country - X and Y - livesIn - Z, then Y - citizenOf - X"
    assert backward in rules_for(book, graph, asked(graph, Atom(X, "citizenOf", "c4")), "p4")


def test_a_given_qualifier_suggests_its_usual_answer_and_what_its_value_leads_to(book: RuleBook, graph: Graph) -> None:
    gaps = asked(graph, Atom(X, "award", "prize", (("for", "w4"),)))
    assert "if Y - wrote - X, then Y - award - … (for: X)" in rules_for(book, graph, gaps, "p4")
    gaps = asked(graph, Atom("p4", "award", X, (("by", "society"),)))
    assert "always: … - award - prize (by: society)" in rules_for(book, graph, gaps, "prize")


def test_a_missing_value_is_suggested_too(book: RuleBook, graph: Graph) -> None:
    row = next(row for row in range(len(graph)) if graph.statement(row).head == "p1" and graph.statement(row).relation == "award")
    of_work = [graph.relations.identifier(relation) for relation, _ in graph.pairs_of(row)].index("for")
    gaps = with_gap(graph, np.array([row]), VALUE, hidden=np.array([of_work]))
    assert "if X - wrote - Y, then X - award - … (for: Y)" in rules_for(book, graph, gaps, "w1")


def test_beliefs_of_overlapping_rules_count_less_and_less(book: RuleBook, graph: Graph) -> None:
    gaps, answer = asked(graph, Atom("p4", "citizenOf", X)), graph.entities.id("c4")
    found, rules = book.suggested(gaps), book.why(gaps, graph.entities.id("c4"), 50)
    doubts = [(1 - book.rules.confidence[rule]) ** 0.5**place for place, rule in enumerate(rules)]
    assert len(doubts) >= 1
    belief = found.belief[found.candidate == answer]
    assert belief == pytest.approx([1 - np.prod(doubts)])
    assert found.evidence[found.candidate == answer] == pytest.approx(np.log(1 + belief / SMALL))


def test_a_question_of_a_batch_gets_what_it_gets_alone(book: RuleBook, graph: Graph) -> None:
    parts = [
        asked(graph, Atom("p4", "citizenOf", X)),
        asked(graph, Atom(X, "award", "prize", (("for", "w4"), ("by", "society")))),
        asked(graph, Atom("p0", "wrote", X)),
        asked(graph, Atom("w0", "country", X)),
    ]
    together = book.suggested(stack_gaps(parts))
    for place, part in enumerate(parts):
        alone, own = book.suggested(part), together.question == place
        assert together.candidate[own].tolist() == alone.candidate.tolist()
        assert together.belief[own] == pytest.approx(alone.belief)


def test_scores_get_the_weighed_evidence(book: RuleBook, graph: Graph) -> None:
    gaps = asked(graph, Atom("p4", "citizenOf", X))
    weighed = RuleBook(replace(book.rules, weight=2.0), graph.known(["train"]))
    added = weighed.added(gaps)
    assert added is not None
    scores = added.to_all(torch.ones(1, len(graph.entities)))[0]
    found = book.suggested(gaps)
    assert scores[found.candidate].numpy() == pytest.approx(1 + 2 * found.evidence)
    others = np.setdiff1d(np.arange(len(graph.entities)), found.candidate)
    assert (scores[others] == 1).all()
    alone = book.entity_scores(gaps, torch.ones(1, len(graph.entities)))[0]
    assert (2 * alone + 1).numpy() == pytest.approx(scores.numpy())
    assert book.added(gaps) is None  # their weight is 0


def test_the_body_of_a_rule_is_shown_as_known_statements(book: RuleBook, graph: Graph) -> None:
    gaps, answer = asked(graph, Atom("p4", "citizenOf", X)), graph.entities.id("c4")
    rule = next(rule for rule in book.why(gaps, answer, 50) if book.rules.words(rule) == PATH)
    assert [graph.statement(row) for row in book.facts(gaps, answer, rule)] == [
        Statement("p4", "livesIn", "t4"),
        Statement("t4", "country", "c4"),
    ]


def test_bodies_are_looked_up_in_the_given_statements_only(graph: Graph) -> None:
    moved = graph_of(
        train=[one for one in graph.statements("train") if one != Statement("t4", "country", "c4")],
        valid=[*graph.statements("valid"), Statement("t4", "country", "c4")],
    )
    book = RuleBook(mine(moved.known(["train"])), moved.known(["train"]))
    assert moved.entities.fingerprint == graph.entities.fingerprint
    assert PATH not in rules_for(book, moved, asked(moved, Atom("p4", "citizenOf", X)), "c4")
    assert len(with_gap(moved, moved.known(["valid"]).rows, TAIL)) == 2
