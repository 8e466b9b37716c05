import pytest

from starqe.kg import Graph, import_graph
from tests.places import DATA


def shared_graph(name: str) -> Graph:
    """Reads a graph of the data beside the project, or skips the test."""
    if not (DATA / name).exists():
        pytest.skip(f"{name} is not here")
    return import_graph(DATA / name)[0]


@pytest.fixture(scope="session")
def wd50k() -> Graph:
    return shared_graph("wd50k")


@pytest.fixture
def wd50k_100() -> Graph:
    return shared_graph("wd50k_100")
