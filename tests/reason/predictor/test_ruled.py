from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from starqe.errors import StorageError
from starqe.kg import Statement, embedded_graph, graph_of
from starqe.learn import Trainer
from starqe.measure.retrieval import Best, dense_blocks, retrieve
from starqe.queries.exact.entailed import Entailed
from starqe.queries.gaps import TAIL, Gaps, with_gap
from starqe.reason.predictor import ruled
from starqe.reason.predictor.lesson import PredictLesson
from starqe.reason.predictor.presets import recipe_of
from starqe.reason.predictor.ruled import STEP, UNFITTED, add_rules, fit_rule_weight
from starqe.reason.predictor.run import RULES, PredictorRun
from starqe.reason.predictor.scorer import PredictorScorer
from starqe.reason.rules.firing import RuleBook
from starqe.reason.rules.mining import mine

SMALL = ["model.width=8", "train.epochs=1", "train.validation_questions=10"]
LIVE = [Statement(f"p{i}", "livesIn", f"t{i}") for i in range(8)]
WORK = [Statement(f"p{i}", "worksIn", f"t{i}") for i in range(4)]
TOWNS = graph_of(train=[*LIVE, *WORK], valid=[Statement(f"p{i}", "worksIn", f"t{i}") for i in range(4, 6)])


class Fixed:
    """Scores every entity by its id; the larger, the better."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def entity_scores(self, _gaps: Gaps, out: torch.Tensor) -> torch.Tensor:
        return out.copy_(self.scale * torch.arange(out.shape[1]).float().expand(len(out), -1))


def test_the_weight_is_the_smallest_that_ranks_validation_best() -> None:
    book = RuleBook(mine(TOWNS.known(["train"])), TOWNS.known(["train"]))
    # Nobody works where others live: only the path "lives in" finds the town, and any weight above 0 puts it first among equals.
    assert fit_rule_weight(Fixed(0.0), book, TOWNS) == STEP
    # What is against it has to be outweighed: p4's t4 is 3 places behind t7, and the evidence is between 5.5 and 7.
    assert fit_rule_weight(Fixed(1.0), book, TOWNS) > STEP


def trained(folder: Path, *settings: str) -> PredictorRun:
    run = PredictorRun.create(folder, recipe_of("one-hop").with_settings([*SMALL, *settings]), embedded_graph())
    Trainer(run, PredictLesson(run)).train()
    add_rules(run)
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> PredictorRun:
    return trained(tmp_path_factory.mktemp("ruled") / "run")


def test_a_trained_predictor_gets_rules_that_its_scorer_counts(run: PredictorRun) -> None:
    scorer = PredictorRun.open(run.folder).scorer()
    assert scorer.rules is not None
    assert scorer.rules.rules.weight > 0  # after one epoch, the rules know more than the model
    gaps = with_gap(run.graph, run.graph.known(["valid"]).rows[:3], TAIL)
    entities = len(run.graph.entities)
    bare = replace(scorer.rules.rules, weight=0.0)
    with_rules = scorer.entity_scores(gaps, torch.empty(3, entities)).clone()
    scorer.rules = RuleBook(bare, run.graph.known(["train"]))
    without = scorer.entity_scores(gaps, torch.empty(3, entities))
    assert (with_rules >= without).all()
    assert (with_rules > without).any()


def test_rules_are_mined_from_the_splits_that_the_model_learned(run: PredictorRun) -> None:
    book = run.rules()
    assert book is not None
    alone = graph_of(train=list(run.graph.statements("train")))
    by_words = {book.rules.words(rule): int(book.rules.body[rule]) for rule in range(len(book.rules))}
    mined = mine(alone.known(["train"]))
    assert by_words == {mined.words(rule): int(mined.body[rule]) for rule in range(len(mined))}


def test_in_a_large_graph_the_best_entities_and_what_rules_suggest_compete(run: PredictorRun, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, book = run.graph, RuleBook(mine(run.graph.known(["train"])), run.graph.known(["train"]))
    scorer, rows = PredictorScorer(run.predictor(), frozen=True), graph.known(["valid"]).rows[:40]
    gaps, own, entities = with_gap(graph, rows, TAIL), graph.tail[rows], len(graph.entities)
    others = Entailed(graph.known(["train", "valid"])).answers(gaps)
    dense = ruled._ranked(scorer.entity_scores(gaps, torch.empty(len(rows), entities)), book, gaps, own, others)
    assert dense.max() > dense[0]
    monkeypatch.setattr(ruled, "RIVALS", entities)
    assert ruled._listed(scorer, book, gaps, own, others) == pytest.approx(dense, rel=1e-3)
    monkeypatch.setattr(ruled, "RIVALS", 20)
    assert ruled._listed(scorer, book, gaps, own, others)[1:] == pytest.approx(dense[1:], rel=0.05)  # ranks beyond 20 count little

    monkeypatch.setattr(ruled, "DENSE", entities - 1)
    monkeypatch.setattr(scorer, "entity_scores", None)  # no row over all entities is computed
    assert fit_rule_weight(scorer, book, graph) > 0


def test_without_validation_the_weight_is_fixed(tmp_path: Path) -> None:
    book = trained(tmp_path / "run", 'train.splits=["train", "valid"]').rules()
    assert book is not None
    assert book.rules.weight == UNFITTED


def test_a_recipe_without_rules_has_none_and_mined_rules_stay(run: PredictorRun, tmp_path: Path) -> None:
    assert trained(tmp_path / "run", "train.rules=false").rules() is None
    before = (run.folder / RULES).stat().st_mtime_ns
    add_rules(run)
    assert (run.folder / RULES).stat().st_mtime_ns == before


def test_damaged_rules_are_refused(tmp_path: Path) -> None:
    run = trained(tmp_path / "run")
    content = bytearray((run.folder / RULES).read_bytes())
    content[len(content) // 3] ^= 255
    (run.folder / RULES).write_bytes(content)
    with pytest.raises(StorageError, match=r"rules\.parquet: damaged"):
        PredictorRun.open(run.folder).scorer()


class Found:
    """An index that finds the best entities of a model by comparing with all."""

    def __init__(self, scorer: PredictorScorer) -> None:
        self.matrix = scorer.predictor.entity_matrix().detach()

    def best(self, vectors: torch.Tensor, count: int, without: Sequence[np.ndarray] | None = None) -> Best:
        return retrieve(dense_blocks(vectors @ self.matrix.T), len(vectors), count, without)

    def at(self, vectors: torch.Tensor, ids: np.ndarray) -> torch.Tensor:
        return vectors @ self.matrix[torch.from_numpy(ids)].T


@pytest.mark.parametrize("indexed", [False, True], ids=["all", "index"])
def test_the_best_entities_are_those_of_the_scores_with_rules(run: PredictorRun, indexed: bool) -> None:
    scorer = PredictorRun.open(run.folder).scorer()
    rows = run.graph.known(["valid"]).rows[:6]
    gaps, entities = with_gap(run.graph, rows, TAIL), len(run.graph.entities)
    scores = scorer.entity_scores(gaps, torch.empty(6, entities)).clone()
    without = [np.array([int(place)]) for place in scores.argmax(1)]
    scores[torch.arange(6), scores.argmax(1)] = -torch.inf
    scorer.index = Found(scorer) if indexed else None  # type: ignore[assignment]
    found = scorer.nearest_entities(gaps, 5, without)
    best = found.best
    wanted = scores.topk(5)
    assert best.scores.numpy() == pytest.approx(wanted.values.numpy(), abs=1e-4)
    assert best.log_normaliser.numpy() == pytest.approx(scores.logsumexp(1).numpy(), abs=1e-4)
    assert np.take_along_axis(scores.numpy(), best.ids, 1) == pytest.approx(wanted.values.numpy(), abs=1e-4)
    some = np.arange(0, entities, 3)
    there = scores[[4, 1]][:, some].isfinite().numpy()
    assert found.at(np.array([4, 1]), some).numpy()[there] == pytest.approx(scores[[4, 1]][:, some].numpy()[there], abs=1e-4)
