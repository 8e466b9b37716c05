"""The regimes of the paper's rows: what they have in common with the paper, and what differs between two rows."""

import pytest

from starqe.experiments import REGIMES, ROWS, regime_recipe
from starqe.experiments.train_rows import passes
from starqe.learn import as_run, preset
from starqe.queries import SHAPES


@pytest.mark.parametrize("regime", REGIMES)
def test_a_regime_is_the_papers_in_both_recipes(regime: str) -> None:
    ours, paper = regime_recipe(regime, 3), regime_recipe(regime, 3, as_published=True)
    assert ours.seed == paper.seed == 3
    assert (ours.train.shapes, ours.train.variant, ours.model.steps) == (paper.train.shapes, paper.train.variant, paper.model.steps)
    assert (ours.model.layers == 0) == (paper.model.layers == 0)
    assert (ours.train.loss, paper.train.loss, paper.train.one_hop) == ("softmax", "binary", "none")
    differing = {key for key, value in ours.model.model_dump().items() if value != preset("starqe-fast").model.model_dump()[key]}
    assert differing <= {"layers", "pooling", "steps", "weighting"}


@pytest.mark.parametrize("regime", ROWS["generalisation"].values())
def test_a_row_about_generalisation_sees_its_own_queries_only_and_by_passes(regime: str) -> None:
    ours, like = regime_recipe(regime, 0), regime_recipe("starqe-like", 0)
    assert (ours.train.one_hop, ours.train.varied_per_shape, ours.train.validation_queries) == ("none", 0, 0)
    assert passes(ours.train, {"1p": 24_819}, ours.train.epochs) == {"1p": ours.train.epochs}
    differing = {key for key, value in ours.train.model_dump().items() if value != like.train.model_dump()[key]}
    assert differing <= {"shapes", "variant", "epochs"}
    paper = regime_recipe(regime, 0, as_published=True).model
    assert (ours.model.pooling, ours.model.layers) == (paper.pooling, paper.layers)
    assert ours.model.weighting == ("symmetric" if ours.train.shapes == ("1p",) else "attention")


@pytest.mark.parametrize("regime", ROWS["results"].values())
def test_the_rows_of_the_main_table_see_equally_many_queries_of_the_same_shapes_and_nothing_else(regime: str) -> None:
    ours, starqe = regime_recipe(regime, 0).train.model_dump(), regime_recipe("starqe-like", 0).train.model_dump()
    assert {key for key in ours if ours[key] != starqe[key]} <= {"variant"}
    assert (ours["one_hop"], ours["varied_per_shape"], ours["shapes"]) == ("none", 0, tuple(SHAPES))


@pytest.mark.parametrize("regime", REGIMES)
def test_a_regime_as_run_is_the_published_one_with_what_the_authors_code_did(regime: str) -> None:
    paper, ran = regime_recipe(regime, 3, as_published=True), regime_recipe(regime, 3, as_authors_ran=True)
    assert ran == as_run(paper)
    assert ran.train.choose_by == "pooled Hits@10"
