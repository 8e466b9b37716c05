"""Query sets in other forms: without pairs, and reified."""

from pathlib import Path

import numpy as np
import pytest

from starqe.errors import StorageError, UnsupportedError
from starqe.kg import Graph, embedded_graph
from starqe.queries import SHAPES, QuerySettings, generate, load_queries
from starqe.queries.generate import database
from starqe.queries.query_set import tables_of
from starqe.queries.table import QueryTable
from starqe.queries.variants import unreified

GRAPH = embedded_graph()
CHOSEN = [SHAPES["1p"], SHAPES["2i"]]


def written(folder: Path, graph: Graph = GRAPH, **settings: object) -> Path:
    generate(graph, folder, CHOSEN, QuerySettings.parse({"limit": 300, **settings}), ["test"], threads=1)
    return folder


@pytest.fixture(scope="module")
def qualified(tmp_path_factory: pytest.TempPathFactory) -> dict[str, QueryTable]:
    return load_queries(written(tmp_path_factory.mktemp("qualified") / "queries"), "test")


def same(one: QueryTable, other: QueryTable, pairs: bool = True) -> bool:
    columns = [(one.anchors, other.anchors), (one.relations, other.relations), (one.answers.items, other.answers.items)]
    columns += [(one.pairs.items, other.pairs.items), (one.pairs.offsets, other.pairs.offsets)] if pairs else []
    return one.shape == other.shape and all(np.array_equal(a, b) for a, b in columns)


def test_triple_only_queries_are_the_same_without_pairs(tmp_path: Path, qualified: dict[str, QueryTable]) -> None:
    plain = load_queries(written(tmp_path / "q", variant="triple-only"), "test")
    assert plain.keys() == qualified.keys()
    for shape, table in plain.items():
        assert same(table, qualified[shape], pairs=False)
        assert len(table.pairs.items) == 0 < len(qualified[shape].pairs.items)


def test_reified_queries_are_plain_triples_that_lead_back_to_the_same_queries(tmp_path: Path, qualified: dict[str, QueryTable]) -> None:
    folder = written(tmp_path / "q", variant="reified")
    assert tables_of(folder)["test"].keys() == {"1p-reified-1", "2i-reified-1-1"}
    tables = load_queries(folder, "test", reified=True)
    assert tables["1p-reified-1"].shape.text == "_0>A _0>P0 _0>? _0>V0x0"
    for name, table in tables.items():
        assert len(table.pairs.items) == 0
        assert same(unreified(table), qualified[name.partition("-reified")[0]])


@pytest.mark.full
def test_reified_tables_are_split_by_the_numbers_of_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "SLICE", 7, raising=False)
    counts = tables_of(written(tmp_path / "q", variant="reified", qualifiers="0-1"))["test"]
    whole = tables_of(written(tmp_path / "whole", qualifiers="0-1"))["test"]
    assert counts.keys() == {"1p-reified-0", "1p-reified-1", "2i-reified-0-0", "2i-reified-0-1", "2i-reified-1-0", "2i-reified-1-1"}
    assert {shape: sum(n for name, n in counts.items() if name.startswith(shape)) for shape in whole} == whole


def test_a_finished_set_is_kept_and_a_set_of_another_form_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "q", variant="reified")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")}
    written(folder, variant="reified")
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.parquet")} == before
    with pytest.raises(StorageError, match=r"other settings \(variant\)"):
        written(folder)


def test_models_are_not_fed_with_reified_files(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="Models reify queries themselves"):
        load_queries(written(tmp_path / "q", variant="reified"), "test")


def test_qualified_sets_are_stored_as_before() -> None:
    assert QuerySettings().stored().keys() == {"qualifiers", "hub_threshold", "solutions_below", "seed", "limit"}
    assert QuerySettings(variant="reified").stored()["variant"] == "reified"
