from pathlib import Path

import pytest

from starqe.ask import Answerer


@pytest.fixture(scope="session")
def answerer(askable_run: Path) -> Answerer:
    return Answerer.open(askable_run)
