"""A small world in which numbers follow from the neighbourhood: the sizes of people who live in one town are close."""

from pathlib import Path

from starqe.ask import calibrate
from starqe.kg import Graph, Statement, graph_of
from starqe.kg.literal import INTEGER, Literal
from starqe.learn import Run, Trainer, preset
from starqe.model import Encoder
from starqe.reason.predictor.config import PredictorRecipe
from starqe.reason.predictor.lesson import PredictLesson
from starqe.reason.predictor.presets import recipe_of
from starqe.reason.predictor.run import PredictorRun

PEOPLE, TOWNS, HELD_OUT = 120, 6, 12


def size_of(person: int) -> int:
    return 1000 * (person % TOWNS) + person // TOWNS


def sized_town(test: int = 0) -> Graph:
    """120 people in 6 towns, who know people of their town; the sizes of the first 12 are for validation, and those of more for test."""
    people, sizes = [], []
    for person in range(PEOPLE):
        name = f"p{person}"
        people += [Statement(name, "livesIn", f"town{person % TOWNS}"), Statement(name, "knows", f"p{(person + TOWNS) % PEOPLE}")]
        sizes.append(Statement(name, "size", Literal(str(size_of(person)), INTEGER)))
    valid = [*(Statement(f"p{person}", "knows", f"p{(person + 12) % PEOPLE}") for person in range(10)), *sizes[:HELD_OUT]]
    return graph_of([*people, *sizes[HELD_OUT + test :]], valid, sizes[HELD_OUT : HELD_OUT + test])


def sized_run(place: Path, *settings: str) -> Path:
    """Makes a run that predicts numbers; returns its folder. Without settings, it knows next to nothing."""
    graph = sized_town(6)
    small = ["model.width=4", "model.knots=4", "train.epochs=1", "train.validation_questions=0"]
    recipe = recipe_of("one-hop").with_settings([*small, *settings])
    assert isinstance(recipe, PredictorRecipe)
    predictor = PredictorRun.create(place / "predictor", recipe, graph)
    Trainer(predictor, PredictLesson(predictor)).train()
    run = Run.create(place / "run", preset("demo").with_settings(["model.width=4", "model.heads=2"]), graph)
    run.save_weights(Encoder(run.recipe.model, run.space, 0).state_dict())
    calibrate(run, predictor)
    return run.folder
