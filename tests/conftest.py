"""Settings for all tests, and the run that the tests of asking share."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("starqe", deadline=None)  # a property may take its time on a busy machine
settings.load_profile("starqe")


@pytest.fixture(scope="session", autouse=True)
def _disk_that_is_never_cut_off() -> Iterator[None]:
    """Lets tests wait for no disk: what they write is gone a minute later. Tests of flushing put their own in place of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(scope="session")
def askable_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny run on the embedded graph that can be asked: it knows little, and takes a few seconds to make."""
    from starqe.ask import calibrate
    from starqe.kg import embedded_graph
    from starqe.learn import QueryLesson, Run, Trainer, preset
    from starqe.queries import SHAPES, sample

    graph, shapes = embedded_graph(), {name: SHAPES[name] for name in ("1p", "2p", "2i")}
    tables = {
        split: {name: sample(graph, shape, count, split, [(0, 2)] * len(shape.edges)) for name, shape in shapes.items()}
        for split, count in (("train", 200), ("valid", 20))
    }
    size = ["model.width=16", "model.heads=2", "train.epochs=2", 'train.shapes=["1p", "2p", "2i"]', "train.queries_per_shape=100"]
    run = Run.create(
        tmp_path_factory.mktemp("askable") / "run", preset("demo").with_settings([*size, "train.one_hop_per_direction=100"]), graph
    )
    Trainer(run, QueryLesson(run, tables["train"], tables["valid"])).train()
    calibrate(run, validation=tables["valid"])
    return run.folder


@pytest.fixture(scope="session")
def six_statements_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a graph of six statements, one of them for validation: it can be asked, and its probabilities mean nothing."""
    from starqe.ask import calibrate
    from starqe.kg import Statement, graph_of
    from starqe.learn import Run, preset
    from starqe.model import Encoder

    train = [Statement(head, "knows", tail) for head, tail in ("ab", "bc", "cd", "da", "ac")]
    recipe = preset("demo").with_settings(["model.width=8", "model.heads=2"])
    run = Run.create(tmp_path_factory.mktemp("six") / "run", recipe, graph_of(train=train, valid=[Statement("b", "knows", "d")]))
    run.save_weights(Encoder(run.recipe.model, run.space, 0).state_dict())
    calibrate(run)
    return run.folder
