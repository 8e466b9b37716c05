from collections.abc import Callable
from pathlib import Path

import pytest

from starqe.kg import Graph, Statement, graph_of
from starqe.learn import QueryLesson, Recipe, Run, Trainer
from starqe.queries import QueryTable, generate, load_queries


def small_graph() -> Graph:
    """People, cities and countries: 60 statements, a third of them with a qualifier."""
    train, valid = [], []
    for i in range(24):
        city, country = f"city{i % 6}", f"country{i % 3}"
        year = f"year{i % 4}"
        train.append(Statement(f"person{i}", "livesIn", city, (("since", year),)))
        (valid if i % 8 == 7 else train).append(Statement(f"person{i}", "citizenOf", country, (("since", year),)))
        train.append(Statement(f"person{i}", "knows", f"person{(i + 1) % 24}", (("from", city),)))
    train += [Statement(f"city{i}", "inCountry", f"country{i % 3}", (("since", "year0"),)) for i in range(6)]
    return graph_of(train=train, valid=valid)


@pytest.fixture(scope="session")
def graph() -> Graph:
    return small_graph()


@pytest.fixture(scope="session")
def query_folder(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("queries") / "queries"
    generate(graph, folder, splits=("train", "valid"))
    return folder


@pytest.fixture(scope="session")
def queries(query_folder: Path) -> dict[str, QueryTable]:
    return load_queries(query_folder, "train")


@pytest.fixture(scope="session")
def validation(query_folder: Path) -> dict[str, QueryTable]:
    return load_queries(query_folder, "valid")


TINY = [
    "model.width=16",
    "model.heads=2",
    "train.batch=32",
    "train.queries_per_shape=60",
    "train.one_hop_per_direction=30",
    "train.epochs=2",
]


@pytest.fixture
def trainer(graph: Graph, queries: dict[str, QueryTable], validation: dict[str, QueryTable], tmp_path: Path) -> Callable[..., Trainer]:
    """Makes a trainer of a new run in a folder, with settings on top of tiny ones."""

    def make(*settings: str, name: str = "run", recipe: Recipe | None = None, **arguments: object) -> Trainer:
        made = (recipe or Recipe()).with_settings([*TINY, *settings])
        run = Run.create(tmp_path / name, made, graph)
        return Trainer(run, QueryLesson(run, queries, validation), **arguments)  # type: ignore[arg-type]

    return make
