import numpy as np
import pytest
import torch
from tests.places import WD50K

from starqe.errors import InputError, UnsupportedError
from starqe.kg import SPLITS, Graph, Statement, graph_of, import_graph
from starqe.kg.literal import INTEGER, Literal
from starqe.measure.links import LINKS, _Candidates, link_rows, questions_for, rank_links, some_statements
from starqe.queries.gaps import POSITIONS, VALUE, Gaps, queries_of, with_gap

GRAPH = graph_of(
    train=[
        Statement("a", "r", "b", (("q", "z"),)),
        Statement("a", "r", "c", (("q", "z"), ("q", "c"))),
        Statement("e", "r", "d"),
    ],
    valid=[Statement("a", "r", "e")],
    test=[Statement("a", "r", "d", (("q", "z"),))],
)
"""z stands in qualifiers only. The test statement asks for (a r ? (q z)), the answer being d, and (? r d (q z)), being a."""


class Fixed:
    """Gives every question the same scores, by name."""

    def __init__(self, graph: Graph, **scores: float) -> None:
        self.row = torch.tensor([scores[name] for name in graph.entities])
        self.asked: list[str] = []

    def entity_scores(self, gaps: Gaps, out: torch.Tensor) -> torch.Tensor:
        self.asked += [POSITIONS[position] for position in gaps.position]
        return out.copy_(self.row.expand_as(out))


SCORER = Fixed(GRAPH, a=0.1, b=0.9, c=0.8, d=0.3, e=0.7, z=0.6)


def value(rows: list[dict], shape: str, metric: str) -> float:
    return next(row.ours for row in rows if (row.shape, row.metric) == (shape, metric))


def test_the_published_protocol_filters_equal_pairs_only_and_has_ends_as_candidates():
    rows = link_rows(SCORER, GRAPH, "published", replicates=0)
    # The tail: b has the same pair set (q z) and is filtered; c (more pairs), e (none) compete; z does not; a is lower.
    assert value(rows, "tail", "MR") == 3
    # The head: no other head of (r d (q z)), since e's statement has no pair. b, c, d, e are higher, z is no candidate.
    assert value(rows, "head", "MR") == 5
    assert value(rows, "all", "MRR") == pytest.approx(100 * (1 / 3 + 1 / 5) / 2)
    assert value(rows, "tail", "Hits@10") == 100
    # The candidates: a, b, c, d, e without b, of which one expects rank 2.5 for the tail.
    assert value(rows, "tail", "AMRI") == pytest.approx(100 * (1 - (3 - 1) / (2.5 - 1)))


def test_our_protocol_filters_what_is_entailed_and_has_all_candidates():
    rows = link_rows(SCORER, GRAPH, "ours", replicates=0)
    # The tail: b and c have the pair and are filtered; e has not and competes; z competes.
    assert value(rows, "tail", "MR") == 3
    assert value(rows, "head", "MR") == 6  # b, c, d, e, z
    assert {row.protocol for row in rows} == {"ours"}


def test_equal_scores_give_the_mean_of_the_best_and_the_worst_rank():
    flat = Fixed(GRAPH, a=0.0, b=0.0, c=0.0, d=0.0, e=0.0, z=0.0)
    assert value(link_rows(flat, GRAPH, "published", replicates=0), "tail", "MR") == 2.5  # among a, c, d, e
    assert value(link_rows(flat, GRAPH, "ours", replicates=0), "head", "MR") == 3.5


def test_every_statement_is_asked_for_both_ends():
    scorer = Fixed(GRAPH, a=0.1, b=0.9, c=0.8, d=0.3, e=0.7, z=0.6)
    rows = link_rows(scorer, GRAPH, "ours", "train", replicates=0)
    assert scorer.asked == ["tail"] * 3 + ["head"] * 3
    assert next(row.n for row in rows if row.shape == "all") == 6
    assert {row.average for row in rows} == {"micro"}


def test_answers_of_splits_that_are_not_named_compete():
    valid = some_statements(GRAPH, "valid", None)  # (a r e), asked without pairs
    scorer = Fixed(GRAPH, a=0.1, b=0.9, c=0.8, d=0.95, e=0.7, z=0.6)
    ranks = [rank_links(scorer, GRAPH, valid, LINKS["ours"], splits)["tail"] for splits in (("train", "valid"), SPLITS)]
    assert [float(part.estimate("MR", "macro").value) for part in ranks] == [2, 1]  # d is known in test only


def test_a_limit_samples_statements_at_random():
    graph = graph_of(train=[Statement(f"h{i}", "r", f"t{i}") for i in range(50)])
    some = some_statements(graph, "train", 10)
    assert len(set(some.tolist())) == 10
    assert np.array_equal(some, some_statements(graph, "train", 10))
    assert not np.array_equal(some, np.arange(10))
    assert len(some_statements(graph, "train", 99)) == 50


def test_progress_is_reported_of_both_directions():
    steps: list[tuple[str, int, int]] = []
    link_rows(SCORER, GRAPH, progress=lambda *what: steps.append(what), replicates=0)
    assert steps == [("tail", 1, 1), ("head", 1, 1)]


def test_every_entity_is_asked_for_and_values_that_are_given_compete():
    pairs = {split: (("q", "z"), ("q", value)) for split, value in (("train", "y"), ("valid", "c"), ("test", "d"))}
    graph = graph_of(**{split: [Statement("a", "r", "b", of_split)] for split, of_split in pairs.items()})
    scorer = Fixed(graph, a=0.9, b=0.1, c=0.7, d=0.5, y=0.8, z=0.6)
    rows = link_rows(scorer, graph, "every-entity", replicates=0)
    assert scorer.asked == ["tail", "head", "value", "value"]
    assert {row.shape: row.n for row in rows if row.metric == "MRR"} == {"tail": 1, "head": 1, "value": 2, "average": 4, "all": 4}
    # (a r b, q ?, q d): only z, behind a, y, c; (a r b, q z, q ?): d, behind a and the given z, but y and c are filtered.
    assert value(rows, "value", "MRR") == pytest.approx(100 * (1 / 4 + 1 / 3) / 2)
    assert value(rows, "tail", "MR") == 6
    assert value(rows, "head", "MR") == 1
    assert value(rows, "all", "MRR") == pytest.approx(100 * (1 / 6 + 1 + 1 / 4 + 1 / 3) / 4)


def test_values_that_are_literals_are_not_asked_for():
    year = Literal("1921", INTEGER)
    graph = graph_of(train=[Statement("a", "r", "b", (("in", "c"), ("since", year)))], test=[Statement("b", "r", "a", (("since", year),))])
    statements, pair = questions_for(graph, graph.known(SPLITS).rows, "value")
    assert [graph.statement(int(row)).qualifiers[place] for row, place in zip(statements, pair, strict=True)] == [("in", "c")]


def test_an_executor_is_not_asked_for_values():
    gaps = with_gap(GRAPH, np.array([0]), VALUE, hidden=np.array([0]))
    with pytest.raises(UnsupportedError, match="ask for heads and tails, found a question for the value"):
        queries_of(gaps)


def test_what_does_not_exist_is_refused():
    with pytest.raises(InputError, match="protocols of link prediction are published, ours, every-entity, found 'paper'"):
        link_rows(SCORER, GRAPH, "paper")
    with pytest.raises(InputError, match="found none in test"):
        link_rows(SCORER, graph_of(train=[Statement("a", "r", "b")]), "ours")


@pytest.mark.full
@pytest.mark.skipif(not WD50K.exists(), reason="needs ../shared/data/wd50k")
def test_on_wd50k_as_many_entities_as_published_are_not_candidates():
    graph, _ = import_graph(WD50K)
    assert len(graph.entities) - len(_Candidates(graph, ends_only=True)._competing) == 5_459
