from pathlib import Path

import pytest

from starqe.ask import Answerer, fit
from tests.ask.town import town


@pytest.fixture(scope="session")
def answerer(askable_run: Path) -> Answerer:
    return Answerer.open(askable_run)


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was fitted to the town; tests do not change it."""
    folder = tmp_path_factory.mktemp("fitted") / "run"
    fit(town(), folder, minutes=0.05)
    return folder
