from pathlib import Path

import pytest

from starqe.kg import Graph, import_graph

SHARED = Path(__file__).parents[2].parent / "shared" / "data"


def shared_graph(name: str) -> Graph:
    """Reads a graph of the data beside the project, or skips the test."""
    if not (SHARED / name).exists():
        pytest.skip(f"{name} is not here")
    return import_graph(SHARED / name)[0]


@pytest.fixture(scope="session")
def wd50k() -> Graph:
    return shared_graph("wd50k")


@pytest.fixture
def wd50k_100() -> Graph:
    return shared_graph("wd50k_100")
