import pytest

from starqe.queries import generate
from tests.queries.generate.by_hand import GRAPH


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("queries")
    generate(GRAPH, folder, threads=1)
    return folder
