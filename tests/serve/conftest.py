from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from starqe.ask import Answerer
from starqe.serve import ServeSettings, create_app


@pytest.fixture(scope="session")
def answerer(askable_run: Path) -> Answerer:
    return Answerer.open(askable_run)


@pytest.fixture(scope="session")
def client(answerer: Answerer) -> Iterator[TestClient]:
    """A client of the service as it is by default."""
    with TestClient(create_app(answerer), base_url="http://localhost") as made:
        yield made


@pytest.fixture
def client_with(answerer: Answerer) -> Iterator[Callable[..., TestClient]]:
    """Makes clients of services with other settings."""
    with ExitStack() as stack:

        def make(of: Answerer = answerer, **settings: object) -> TestClient:
            app = create_app(of, ServeSettings.parse(settings))
            return stack.enter_context(TestClient(app, base_url="http://localhost"))

        yield make
