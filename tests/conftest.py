"""Settings for all tests, the command line, and the runs that many tests share."""

import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# A property may take its time on a busy machine. The same commit gives the same result, unless new examples are asked for.
settings.register_profile("starqe", deadline=None, derandomize=True)
settings.register_profile("quick", settings.get_profile("starqe"), max_examples=20)
settings.register_profile("new", deadline=None, derandomize=False)
settings.load_profile(os.environ.get("STARQE_EXAMPLES", "starqe"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with the files that have long tests, so that all workers end at about the same time."""
    long = {item.path for item in items if item.get_closest_marker("full")}
    items.sort(key=lambda item: item.path not in long)


def pytest_collection_finish() -> None:
    """Spares the garbage collector all modules and tests: they stay until the end."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def _disk_that_is_never_cut_off() -> Iterator[None]:
    """Lets tests wait for no disk: what they write is gone a minute later. Tests of flushing put their own in place of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture
def starqe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs the command line in this process; returns the exit code, standard output and standard error."""
    from starqe.cli.main import main

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["starqe", *map(str, arguments)])
        try:
            main()
        except SystemExit as stop:
            return int(stop.code or 0), *capsys.readouterr()
        return 0, *capsys.readouterr()

    return run


@pytest.fixture(scope="session")
def askable_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny run on the embedded graph that can be asked; it takes a few seconds to make."""
    from starqe.kg import embedded_graph
    from tests.tiny_run import tiny_run

    return tiny_run(tmp_path_factory.mktemp("askable") / "run", embedded_graph(), ["1p", "2p", "2i"], epochs=2)


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
